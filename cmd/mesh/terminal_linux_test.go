package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// pseudoTerminal opens a pseudo-terminal: what a person has, and what a program has.
func pseudoTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number uint32
	var unlock int32
	var failed error
	err = raw.Control(func(fd uintptr) {
		for _, c := range []struct {
			request uintptr
			arg     unsafe.Pointer
		}{{syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)}, {syscall.TIOCGPTN, unsafe.Pointer(&number)}} { // #nosec G103 -- ioctl takes pointers
			if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, c.request, uintptr(c.arg)); errno != 0 {
				failed = errno
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// launchAtTerminal starts the command as it is, at a terminal: stdout is what
// the person sees, stdin the keyboard.
func launchAtTerminal(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launchProgramAtTerminal(t, dir, env, self, args...)
}

// launchProgramAtTerminal is launchAtTerminal for a program that starts the command.
func launchProgramAtTerminal(t *testing.T, dir string, env []string, program string, args ...string) *process {
	t.Helper()
	person, far := pseudoTerminal(t)
	p := &process{t: t, cmd: exec.Command(program, args...), stdin: person, ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = commandEnv("mesh", append([]string{"TERM=xterm", "NO_COLOR=1", "MESH_HISTORY=off"}, env...)...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = far, far, far
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = far.Close() // the child has its own; the last one to close ends the reading
	go func() {     // ends with the process, which the cleanup ends and waits for
		_, _ = io.Copy(&p.stdout, person) // EIO is how a terminal ends
		_ = p.cmd.Wait()                  // the exit code says it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		noRace(t, p.stdout.String())
	})
	return p
}

// finding N5: a credential that is typed at a terminal is not on the screen, Ctrl-C at the
// question leaves, and the terminal shows again what is typed.
func TestACredentialIsTypedUnseen(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	card := `{"name":"typed","supportedInterfaces":[{"url":"` + m.grpc + `","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`
	cards := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer Sesame-4711" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, card)
	}))
	t.Cleanup(cards.Close)
	add := []string{"agents", "add", cards.URL, "--credential", "bearer=prompt"}
	p := launchAtTerminal(t, m.dir, []string{"MESH_ADDR=" + m.grpc}, add...)
	p.shows(`bearer: $`)
	p.enter("\x03")
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	p = launchAtTerminal(t, m.dir, []string{"MESH_ADDR=" + m.grpc}, add...)
	p.shows(`bearer: $`)
	p.enter("Sesame-4711\n")
	p.shows(`typed added`)
	if code := p.wait(); code != exitOK || strings.Contains(p.stdout.String(), "Sesame") {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
}

// atTerminal opens a chat of the mesh at a terminal.
func atTerminal(t *testing.T, m *realMesh, id string, env ...string) *process {
	t.Helper()
	p := launchAtTerminal(t, m.dir, append([]string{"MESH_ADDR=" + m.grpc}, env...), "chat", "--thread", id)
	p.shows(`you › $`)
	return p
}

// posted are the texts of the thread's messages.
func posted(log []*meshv1.Event) (texts []string) {
	for _, e := range log {
		if b := e.GetMessagePosted(); b != nil {
			texts = append(texts, partsText(b.GetMessage().GetParts()))
		}
	}
	return texts
}

// Ctrl-C, typed at a real terminal during a turn of a real mesh, cancels the
// task and all that works on it, and not the chat; at the prompt it leaves
// (S4-036). finding U1: what is typed meanwhile waits for the turn's end, as the
// mesh says, and can be taken back.
func TestCtrlCAtATerminalCancelsTheTurnOfARealMesh(t *testing.T) {
	t.Parallel()
	model := startModel(t)
	m := upWith(t, t.TempDir(), model.env())
	id := mesh.NewThreadID()
	p := atTerminal(t, m, id)
	p.enter("something slow\r")
	_, at := p.await(&p.stdout, 0, `main › Counting sheep`)
	p.enter("hello\r")
	_, at = p.await(&p.stdout, at, `· submitted, after this turn: hello \(/withdraw takes it back\)`)
	p.enter("not this\r")
	_, at = p.await(&p.stdout, at, `· submitted, after this turn: not this`)
	p.enter("/withdraw\r")
	_, at = p.await(&p.stdout, at, `■ withdrawn: not this`)
	p.enter("\x03")
	_, at = p.await(&p.stdout, at, `■ cancelled(?s:.*)· now: hello\r\n(?s:.*)main › You said: hello\r\n(?s:.*)you › $`)
	select {
	case <-model.left:
	case <-timely(t).Done():
		t.Error("the model is still asked")
	}
	p.enter("half a text\x03")
	_, at = p.await(&p.stdout, at, `half a text(?s:.*)you › $`) // the text is gone, and the chat is not
	p.enter("\x03")
	p.await(&p.stdout, at, `go on with: mesh chat --thread `+id)
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	if got := regexp.MustCompile(`(CANCELED) CANCELED`).ReplaceAllString(ends(m.log(id)), "$1"); got != "CANCELED, CANCELED, COMPLETED" { //nolint:dupword // two were
		t.Errorf("the turns ended %s", got)
	}
}

// finding U1: a text is edited, and what was entered comes back in the next run; a
// paste is one message, whatever is in it and however long it is; what was said
// before is shown to who goes on, in the width that the window has then.
func TestAChatAtATerminalIsEdited(t *testing.T) {
	t.Parallel()
	model := startModel(t)
	m := upWith(t, t.TempDir(), model.env())
	id, history := mesh.NewThreadID(), "MESH_HISTORY="+filepath.Join(t.TempDir(), "state", "history")
	const answered = `main › You said: hello\r\n(?s:.*)you › $`

	p := atTerminal(t, m, id, history)
	p.enter("helo\x1b[Dl\x05 there\x17\x1b\ryou\\\rtoo\r")
	_, at := p.await(&p.stdout, 0, answered)
	lines := strings.TrimSuffix(strings.Repeat("a line; /quit\n", 100), "\n")
	p.enter("\x1b[200~" + strings.ReplaceAll(lines, "\n", "\r") + "\x1b[201~")
	_, at = p.await(&p.stdout, at, `a line; /quit$`)
	p.enter("\r")
	_, at = p.await(&p.stdout, at, `… and 88 lines more, 1399 characters in all(?s:.*)`+answered)
	long := strings.Repeat("0123456789", 20<<10)
	p.enter("\x1b[200~" + long + "\x1b[201~\r")
	p.await(&p.stdout, at, answered)
	p.enter("\x04")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}

	p = atTerminal(t, m, id, history)
	p.shows(`hello \r\nyou\r\ntoo\r\n(?s:.*)main › You said: hello\r\n`)
	resize(t, p.stdin, 10, 20)
	p.enter("/tasks.\x15\x1b[A\x1b[A")
	_, at = p.await(&p.stdout, 0, `too$`)
	p.enter(" and again\r")
	_, resized := p.await(&p.stdout, at, `\r\n`)
	p.await(&p.stdout, at, `You said: \r\nhello\r\n(?s:.*)you › $`)
	for row := range strings.SplitSeq(p.stdout.String()[resized:], "\r\n") {
		row = regexp.MustCompile("^(?s:.*)\x1b\\[J|\x1b\\[[0-9;?]*[a-zA-Z]").ReplaceAllString(row, "")
		if n := len([]rune(row)); n > 20 {
			t.Errorf("a row of %d columns in a window of 20: %q", n, row)
		}
	}
	for _, env := range []string{"TERM=dumb", "TERM="} { // as before there were editors
		dumb := atTerminal(t, m, mesh.NewThreadID(), env)
		dumb.enter("/quit\n")
		if code := dumb.wait(); code != exitOK || strings.Contains(dumb.stdout.String(), "\x1b") {
			t.Errorf("%s: exit code %d; screen: %q", env, code, dumb.stdout.String())
		}
	}
	want := []string{"hello \nyou\ntoo", lines, long, "hello \nyou\ntoo and again"}
	if diff := cmp.Diff(want, posted(m.log(id))); diff != "" {
		t.Errorf("the messages differ (-want +got):\n%s", mesh.Clip(diff, 2000))
	}
}

// A chat that was stopped, by Ctrl-Z or from elsewhere, goes on as it was, whatever the
// shell did to the terminal meanwhile. Where no shell could have it go on, Ctrl-Z stops nothing.
func TestAChatAtATerminalIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	model := startModel(t)
	m := upWith(t, t.TempDir(), model.env())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `set -m; "$@"; for i in 1 2; do stty sane; echo stopped $i; fg; done`
	p := launchProgramAtTerminal(t, m.dir, []string{"MESH_ADDR=" + m.grpc}, "sh", "-c", script, "sh", self, "chat", "--thread", mesh.NewThreadID())
	_, at := p.await(&p.stdout, 0, `you › $`)
	answers := func(p *process, at int) int {
		p.enter("helo\x1b[Dl\r") // edited, and entered: key by key
		_, at = p.await(&p.stdout, at, `main › You said: hello\r\n(?s:.*)you › $`)
		return at
	}
	p.enter("\x1a")
	_, at = p.await(&p.stdout, at, `\x1b\[\?2004l(?s:.*)stopped 1\r\n(?s:.*)\x1b\[\?2004h(?s:.*)you › $`)
	at = answers(p, at)
	if err := syscall.Kill(-foreground(t, p.stdin), syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	_, at = p.await(&p.stdout, at, `stopped 2\r\n(?s:.*)you › $`)
	answers(p, at)
	p.enter("/quit\r")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}

	p = atTerminal(t, m, mesh.NewThreadID()) // which leads its session
	at = len(p.stdout.String())
	p.enter("\x1a")
	_, at = p.await(&p.stdout, at, `\x1b\[\?2004h(?s:.*)you › $`)
	answers(p, at)
}

// foreground is the process group that the keyboard is for.
func foreground(t *testing.T, person *os.File) int {
	t.Helper()
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var group int32
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))) // #nosec G103 -- ioctl takes pointers
	}); err != nil || errno != 0 || group <= 1 {
		t.Fatal(err, errno, group)
	}
	return int(group)
}

// resize gives the window another size, as who drags its corner does.
func resize(t *testing.T, person *os.File, rows, columns uint16) {
	t.Helper()
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := struct{ rows, columns, x, y uint16 }{rows, columns, 0, 0}
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))) // #nosec G103 -- ioctl takes pointers
	}); err != nil || errno != 0 {
		t.Fatal(err, errno)
	}
}

// A mesh that is killed in mid-answer and started again: the chat says that the
// connection broke, and the turn goes on in it; Ctrl-C still ends it, and the chat goes on.
func TestAChatGoesOnWhenItsMeshWasKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	model := startModel(t)
	m := upWith(t, t.TempDir(), model.env())
	id := mesh.NewThreadID()
	p := atTerminal(t, m, id)
	p.enter("something slow\r")
	_, at := p.await(&p.stdout, 0, `main › Counting sheep`)
	m.kill9()
	_, at = p.await(&p.stdout, at, `connection lost, going on where it broke`)
	again := upWith(t, m.dir, model.env(), "--grpc", m.grpc)
	_, at = p.await(&p.stdout, at, `Counting sheep`)
	p.enter("\x03")
	_, at = p.await(&p.stdout, at, `■ cancelled(?s:.*)you › $`)
	p.enter("hello\r")
	_, at = p.await(&p.stdout, at, `main › You said: hello\r\n`)
	p.await(&p.stdout, at, `you › $`)
	p.enter("/quit\r")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	if got, want := ends(again.log(id)), "CANCELED, COMPLETED"; got != want {
		t.Errorf("the turns ended %s, want %s", got, want)
	}
}
