package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmesh/mesh/security/auth"
)

// asCommand is the variable that makes the test binary the command: "mesh" as
// it is, "mesh-terminal", which believes that a person is at both ends, an MCP
// server, or an agent.
const asCommand = "MESH_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asCommand) {
	case "mesh":
		os.Exit(run())
	case "mesh-terminal":
		os.Exit(runTerminal())
	case asMCP:
		os.Exit(runMCP())
	case asCast:
		os.Exit(runCast())
	case asDying:
		os.Exit(runDying())
	}
	// Most tests wait for processes: more of them run at a time than there are cores.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(builds)
		os.Exit(code)
	}))
}

// runTerminal is run at a terminal.
func runTerminal() int {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, asks: true, shows: true, getenv: os.Getenv,
		interrupts: interrupts, uninstall: func() { signal.Stop(interrupts) }, now: time.Now, after: time.After}
	return a.execute(context.Background(), os.Args[1:])
}

const thread = "550e8400-e29b-41d4-a716-446655440000"

// start runs the command against the mesh at addr.
func start(t *testing.T, addr, name string, args ...string) *process {
	t.Helper()
	return launch(t, "", name, []string{"MESH_ADDR=" + addr}, args...)
}

// Ctrl-C while a turn runs cancels the task, shows its end, and leaves the
// chat where it is; at the prompt it leaves (S4-036).
func TestCtrlCCancelsTheTurnAndNotTheChat(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh-terminal", "chat", "--thread", thread)
	c.expect("you › ")
	c.enter("something slow\n")
	c.expect("main › Counting sheep")
	c.signal(os.Interrupt)
	c.expect("■ cancelled\n")
	c.expect("you › ")
	c.enter("hello\n")
	c.expect("main › You said: hello\n")
	c.expect("you › ")
	c.signal(os.Interrupt)
	c.expect("go on with: mesh chat --thread " + thread)
	if code := c.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.stderr.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sends != 2 {
		t.Errorf("the mesh got %d messages, want 2", f.sends)
	}
}

// A second Ctrl-C does not wait for an agent that does not stop.
func TestASecondCtrlCLeavesATurnThatDoesNotEnd(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh-terminal", "chat", "--thread", thread)
	c.enter("be stubborn\n")
	c.expect("main › I go on")
	c.signal(os.Interrupt)
	c.expect("■ cancelling; Ctrl-C again leaves\n")
	c.signal(os.Interrupt)
	c.expect("go on with: mesh chat --thread " + thread)
	if code := c.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.stderr.String())
	}
}

// A turn that says nothing is said to be running, and how to stop it.
func TestASilentTurnIsSaidToBeRunning(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	var asked atomic.Int32
	var stdout, stderr bytes.Buffer
	interrupts := make(chan os.Signal)
	silence := make(chan time.Time)
	a := &app{stdin: strings.NewReader("something slow\n"), stdout: &stdout, stderr: &stderr, asks: true, shows: true,
		getenv: func(string) string { return "" }, interrupts: interrupts, uninstall: func() {}, now: time.Now,
		after: func(d time.Duration) <-chan time.Time {
			if d == patience && asked.Add(1) == 3 { // after the task and the text
				return silence
			}
			return nil
		}}
	var user sync.WaitGroup
	user.Go(func() {
		select {
		case silence <- time.Time{}:
			interrupts <- os.Interrupt
		case <-t.Context().Done():
		}
	})
	t.Cleanup(user.Wait)
	if code := a.execute(t.Context(), []string{"chat", "--addr", addr, "--thread", thread}); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, stderr.String())
	}
	want := "main › Counting sheep\n· still at it (Ctrl-C stops the turn)\n\n■ cancelling; Ctrl-C again leaves\n■ cancelled\n"
	if !strings.Contains(stdout.String(), want) {
		t.Errorf("%q is not in %q", want, stdout.String())
	}
}

// A Ctrl-C from a pipe's script stops the turn and the rest of the script.
func TestCtrlCEndsAChatFromAPipe(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh", "chat", "--thread", thread)
	c.enter("something slow\nhello\n")
	c.expect("Counting sheep")
	c.signal(os.Interrupt)
	if code := c.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.stderr.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sends != 1 || f.tasks[taskID(1)].state.String() != "TASK_STATE_CANCELED" {
		t.Errorf("%d messages sent and the task is %v, want 1 and canceled", f.sends, f.tasks[taskID(1)].state)
	}
}

// Leaving 'mesh send' leaves its task running, and says how to find it again.
func TestCtrlCLeavesASentMessage(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh", "send", "--thread", thread, "something slow")
	c.expect("Counting sheep")
	c.signal(os.Interrupt)
	if code := c.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	want := "the task goes on; follow it with: mesh send --thread " + thread + " --task " + taskID(1) + " --resume 3"
	if !strings.Contains(c.stderr.String(), want) {
		t.Errorf("stderr %q does not say %q", c.stderr.String(), want)
	}
}

// A chat that is opened again finds the turn that still runs, shows it from
// its beginning, and can cancel it.
func TestAReopenedChatFollowsTheRunningTurn(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	first := start(t, addr, "mesh", "send", "--thread", thread, "something slow")
	first.expect("Counting sheep")
	first.signal(os.Interrupt)
	first.wait()

	c := start(t, addr, "mesh-terminal", "chat", "--thread", thread)
	c.expect("· a turn is running; this is what it says\nmain › Counting sheep")
	c.signal(os.Interrupt)
	c.expect("■ cancelled\nyou › ")
	_ = c.stdin.Close()
	if code := c.wait(); code != exitOK {
		t.Errorf("exit code %d, want 0; stderr: %s", code, c.stderr.String())
	}
}

// Following prints each event once, although the connection breaks meanwhile,
// and what happens later.
func TestFollowSurvivesABrokenConnection(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	if code := start(t, addr, "mesh", "send", "--thread", thread, "hello").wait(); code != exitOK {
		t.Fatalf("send: exit code %d", code)
	}
	c := start(t, addr, "mesh", "threads", "follow", thread)
	c.expect("completed\n")
	if code := start(t, addr, "mesh", "send", "--thread", thread, "again").wait(); code != exitOK {
		t.Fatalf("send: exit code %d", code)
	}
	c.expect("completed\n")
	c.signal(os.Interrupt)
	if code := c.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.stderr.String())
	}
	var seqs []string
	for line := range strings.Lines(c.stdout.String()) {
		seqs = append(seqs, strings.Fields(line)[0])
	}
	if got, want := strings.Join(seqs, " "), "1 2 3 4 5 6 7 8 9 10"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// A deadline is a context whose time is over when the test says so.
type deadline struct {
	context.Context
	over chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.over }

func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// untilShown runs the command until stdout and stderr have shown text, does what
// then is to happen, and lets its time be over. It returns the exit code and all
// that was shown.
func untilShown(t *testing.T, text string, then func(), args ...string) (code int, shown string) {
	t.Helper()
	var both output
	ctx := deadline{t.Context(), make(chan struct{})}
	a := &app{stdin: strings.NewReader(""), stdout: &both, stderr: &both, getenv: func(string) string { return "" },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: time.Now, after: time.After}
	var running sync.WaitGroup
	running.Go(func() { code = a.execute(ctx, args) })
	defer running.Wait()
	limit := time.NewTimer(testTime)
	defer limit.Stop()
	for {
		all, more := both.read()
		if strings.Contains(all, text) {
			then()
			break
		}
		select {
		case <-more:
			continue
		case <-limit.C:
			t.Errorf("%q did not come: %s", text, all)
		}
		break
	}
	close(ctx.over)
	running.Wait()
	return code, both.String()
}

// A mesh that goes away for good is said to be away, with how to go on.
func TestAMeshThatGoesAwayIsSaidToBe(t *testing.T) {
	t.Parallel()
	f, addr := startMesh(t, auth.None(nil))
	code, shown := untilShown(t, "Counting sheep", func() { f.listener.cut(true) }, "send", "--addr", addr, "--thread", thread, "something slow")
	if want := "did not answer in time"; code != exitUnavailable || !strings.Contains(shown, want) {
		t.Errorf("exit code %d; %q does not say %q", code, shown, want)
	}
}

// A stream without an end that --timeout ends says so, and not that nobody
// answered.
func TestAWatchEndsWithItsTime(t *testing.T) {
	t.Parallel()
	_, addr := startMesh(t, auth.None(nil))
	code, shown := untilShown(t, "watching; Ctrl-C ends it\n", func() {}, "skills", "watch", "--addr", addr)
	if !strings.HasSuffix(shown, "\nmesh: the time that --timeout allows is over\n") || code != exitUnavailable {
		t.Errorf("exit code %d, %s", code, shown)
	}
	if code := start(t, addr, "mesh", "send", "--thread", thread, "hello").wait(); code != exitOK {
		t.Fatalf("send: exit code %d", code)
	}
	code, shown = untilShown(t, "completed\n", func() {}, "threads", "follow", thread, "--addr", addr)
	if !strings.HasSuffix(shown, "\nmesh: the time that --timeout allows is over\n") || code != exitUnavailable {
		t.Errorf("exit code %d, %s", code, shown)
	}
}

func taskID(n byte) string {
	return strings.ReplaceAll(thread, "-", "") + "-000000000000000" + string('0'+n)
}
