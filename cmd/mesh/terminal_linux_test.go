package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"agentmesh/mesh"
)

// terminal opens a pseudo-terminal: what a person has, and what a program has.
func terminal(t *testing.T) (person, program *os.File) {
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
	person, program := terminal(t)
	p := &process{t: t, cmd: exec.Command(self, args...), stdin: person, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, commandEnv("mesh", env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = program, program, program
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the child has its own; the last one to close ends the reading
	go func() {         // ends with the process, which the cleanup ends and waits for
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

// Ctrl-C, typed at a real terminal during a turn of a real mesh, cancels the
// task and all that works on it, and not the chat; at the prompt it leaves
// (S4-036).
func TestCtrlCAtATerminalCancelsTheTurnOfARealMesh(t *testing.T) {
	t.Parallel()
	model := startModel(t)
	m := upWith(t, t.TempDir(), model.env())
	id := mesh.NewThreadID()
	p := launchAtTerminal(t, m.dir, []string{"MESH_ADDR=" + m.grpc}, "chat", "--thread", id)
	p.shows(`you › $`)
	p.enter("something slow\n")
	_, at := p.await(&p.stdout, 0, `main › Counting sheep`)
	p.enter("\x03")
	_, at = p.await(&p.stdout, at, `■ cancelled(?s:.*)you › $`)
	select {
	case <-model.left:
	case <-timely(t).Done():
		t.Error("the model is still asked")
	}
	p.enter("hello\n")
	_, at = p.await(&p.stdout, at, `main › You said: hello\r\n(?s:.*)you › $`)
	p.enter("\x03")
	p.await(&p.stdout, at, `go on with: mesh chat --thread `+id)
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	if got := ends(m.log(id)); got != "CANCELED, COMPLETED" && got != "CANCELED CANCELED, COMPLETED" {
		t.Errorf("the turns ended %s", got)
	}
}
