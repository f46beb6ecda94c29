package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmesh/mesh/auth"
)

// asCommand is the variable that makes the test binary the command: "mesh" as
// it is, "mesh-terminal", which believes that a person is at both ends, or an
// MCP server.
const asCommand = "MESH_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asCommand) {
	case "mesh":
		os.Exit(run())
	case "mesh-terminal":
		os.Exit(runTerminal())
	case asMCP:
		os.Exit(runMCP())
	}
	goleak.VerifyTestMain(m)
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

// A child is a running command whose output is waited for.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
	err strings.Builder
	got strings.Builder
}

// start runs the command against the mesh at addr.
func start(t *testing.T, addr, name string, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Env = append(os.Environ(), "MESH_ADDR="+addr, asCommand+"="+name)
	c.cmd.Stderr = &c.err
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdin, c.in = r, w
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	t.Cleanup(func() { _ = w.Close() })
	return c
}

// expect reads stdout until it has shown text.
func (c *child) expect(text string) {
	c.t.Helper()
	var seen strings.Builder
	for !strings.HasSuffix(seen.String(), text) {
		b, err := c.out.ReadByte()
		if err != nil {
			c.t.Fatalf("stdout ended with %q before %q; stderr: %s", seen.String(), text, c.err.String())
		}
		seen.WriteByte(b)
		c.got.WriteByte(b)
	}
}

func (c *child) enter(text string) {
	c.t.Helper()
	if _, err := c.in.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// interrupt is Ctrl-C.
func (c *child) interrupt() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
}

// exit reads the rest and returns the exit code.
func (c *child) exit() int {
	c.t.Helper()
	rest := make([]byte, 4096)
	for {
		n, err := c.out.Read(rest)
		c.got.Write(rest[:n])
		if err != nil {
			break
		}
	}
	_ = c.cmd.Wait() // the exit code says it
	return c.cmd.ProcessState.ExitCode()
}

// Ctrl-C while a turn runs cancels the task, shows its end, and leaves the
// chat where it is; at the prompt it leaves (S4-036).
func TestCtrlCCancelsTheTurnAndNotTheChat(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh-terminal", "chat", "--thread", thread)
	c.expect("you › ")
	c.enter("something slow\n")
	c.expect("main › Counting sheep")
	c.interrupt()
	c.expect("■ cancelled: Canceled.\n")
	c.expect("you › ")
	c.enter("hello\n")
	c.expect("main › You said: hello\n")
	c.expect("you › ")
	c.interrupt()
	c.expect("go on with: mesh chat --thread " + thread)
	if code := c.exit(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.err.String())
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
	c.interrupt()
	c.expect("■ cancelling; Ctrl-C again leaves\n")
	c.interrupt()
	c.expect("go on with: mesh chat --thread " + thread)
	if code := c.exit(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.err.String())
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
	want := "main › Counting sheep\n· still at it (Ctrl-C stops the turn)\n■ cancelling; Ctrl-C again leaves\n■ cancelled: Canceled.\n"
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
	c.interrupt()
	if code := c.exit(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.err.String())
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
	c.interrupt()
	if code := c.exit(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	want := "the task goes on; follow it with: mesh send --thread " + thread + " --task " + taskID(1) + " --resume 3"
	if !strings.Contains(c.err.String(), want) {
		t.Errorf("stderr %q does not say %q", c.err.String(), want)
	}
}

// A chat that is opened again finds the turn that still runs, shows it from
// its beginning, and can cancel it.
func TestAReopenedChatFollowsTheRunningTurn(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	first := start(t, addr, "mesh", "send", "--thread", thread, "something slow")
	first.expect("Counting sheep")
	first.interrupt()
	first.exit()

	c := start(t, addr, "mesh-terminal", "chat", "--thread", thread)
	c.expect("· a turn is running; this is what it says\nmain › Counting sheep")
	c.interrupt()
	c.expect("■ cancelled: Canceled.\nyou › ")
	_ = c.in.Close()
	if code := c.exit(); code != exitOK {
		t.Errorf("exit code %d, want 0; stderr: %s", code, c.err.String())
	}
}

// Following prints each event once, although the connection breaks meanwhile,
// and what happens later.
func TestFollowSurvivesABrokenConnection(t *testing.T) {
	_, addr := startMesh(t, auth.None(nil))
	if code := start(t, addr, "mesh", "send", "--thread", thread, "hello").exit(); code != exitOK {
		t.Fatalf("send: exit code %d", code)
	}
	c := start(t, addr, "mesh", "threads", "follow", thread)
	c.expect("completed\n")
	if code := start(t, addr, "mesh", "send", "--thread", thread, "again").exit(); code != exitOK {
		t.Fatalf("send: exit code %d", code)
	}
	c.expect("completed\n")
	c.interrupt()
	if code := c.exit(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, c.err.String())
	}
	var seqs []string
	for line := range strings.Lines(c.got.String()) {
		seqs = append(seqs, strings.Fields(line)[0])
	}
	if got, want := strings.Join(seqs, " "), "1 2 3 4 5 6 7 8 9 10"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// A mesh that goes away for good is said to be away, with how to go on.
func TestAMeshThatGoesAwayIsSaidToBe(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	c := start(t, addr, "mesh", "send", "--timeout", "2s", "--thread", thread, "something slow")
	c.expect("Counting sheep")
	f.listener.cut(true)
	if code := c.exit(); code != exitUnavailable {
		t.Errorf("exit code %d, want %d", code, exitUnavailable)
	}
	if want := "did not answer in time"; !strings.Contains(c.err.String(), want) {
		t.Errorf("stderr %q does not say %q", c.err.String(), want)
	}
}

func taskID(n byte) string {
	return strings.ReplaceAll(thread, "-", "") + "-000000000000000" + string('0'+n)
}
