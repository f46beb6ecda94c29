//go:build unix

package chaos_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patient is how long anything may take that must happen.
const patient = 90 * time.Second

// host is where the meshes of this process listen: an address of its own, where there
// are more than one. Clients that call a mesh which has just died must not meet another
// program that got its port.
var host = func() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&0x3f, pid>>8&0xff, 1+pid&0x7f)
}()

// A target is a mesh in a process of its own, which dies and comes back.
type target struct {
	bin, dir   string
	env        []string
	grpc, http string // where it listens; by default anywhere

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
	at   *address      // nil while it is away
	up   chan struct{} // closed when at is set
	said strings.Builder
}

// An address is where the process of the moment listens.
type address struct {
	conn *grpc.ClientConn
	http string
}

func (m *target) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.Write(p)
}

// built is where the binary is for all tests of a run.
var built string

// build makes the binary, of what make build may have compiled, or the test before.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(built, "mesh")
	if out, err := exec.Command("go", "build", "-trimpath", "-overlay", overlay(t), "-o", bin, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

var listens = regexp.MustCompile(`(?s)gRPC +(\S+)\n +HTTP +(http://\S+)\n.*Ctrl-C stops it`)

// start runs the mesh and returns when it can be used, or nil when it ended
// before, as it does when it is killed early. kill, if it is not 0, is when.
func (m *target) start(kill time.Duration) error {
	cmd := exec.Command(m.bin, "up", "--grpc", cmp.Or(m.grpc, host+":0"), "--http", cmp.Or(m.http, host+":0"), "--data", "data",
		"--tool-mode", "single_loop", "--skill-interface", "json", "--grace", "300ms")
	cmd.Dir, cmd.Env, cmd.Stderr = m.dir, m.env, m
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	gone, ready := make(chan struct{}), make(chan []string, 1)
	m.mu.Lock()
	m.cmd, m.gone = cmd, gone
	m.mu.Unlock()
	go func() { // ends with the process, which stop and kill see to
		var text strings.Builder
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			text.WriteString(line)
			if at := listens.FindStringSubmatch(text.String()); at != nil {
				ready <- at
				_, _ = io.Copy(io.Discard, lines) // it may say more
				break
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // how it ended is asked of the state
		close(gone)
	}()
	if kill > 0 {
		time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
	}
	select {
	case at := <-ready:
		conn, err := grpc.NewClient(at[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at = &address{conn, at[2]}
		close(m.up)
		return nil
	case <-gone:
		if kill > 0 {
			return nil
		}
		return fmt.Errorf("the mesh ended at once: %v: %s", cmd.ProcessState, m.words())
	case <-time.After(patient):
		return fmt.Errorf("the mesh does not start: %s", m.words())
	}
}

func (m *target) words() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.String()
}

// end sends the signal and waits for the end of the process.
func (m *target) end(s syscall.Signal) error {
	m.mu.Lock()
	cmd, gone := m.cmd, m.gone
	m.mu.Unlock()
	_ = cmd.Process.Signal(s) // it may have ended
	select {
	case <-gone:
	case <-time.After(patient):
		_ = cmd.Process.Kill() // the next start finds the folder free
		<-gone
		return fmt.Errorf("after %v the mesh did not end: %s", s, m.words())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != nil {
		_ = m.at.conn.Close()
		m.at, m.up = nil, make(chan struct{})
	}
	if code := cmd.ProcessState.ExitCode(); s == syscall.SIGTERM && code != 0 {
		return fmt.Errorf("after SIGTERM the mesh ended with %d: %s", code, m.said.String())
	}
	return nil
}

// suspend stops the process for a while.
func (m *target) suspend(d time.Duration) {
	m.mu.Lock()
	p := m.cmd.Process
	m.mu.Unlock()
	_ = p.Signal(syscall.SIGSTOP) // it is there: only the same goroutine ends it
	time.Sleep(d)
	_ = p.Signal(syscall.SIGCONT)
}

// use returns where the mesh listens, once it does.
func (m *target) use(ctx context.Context) (*address, error) {
	for {
		m.mu.Lock()
		at, up := m.at, m.up
		m.mu.Unlock()
		if at != nil {
			return at, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// environment is this process's without settings of a mesh.
func environment(more ...string) []string {
	var all []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MESH_") {
			all = append(all, v)
		}
	}
	return append(all, more...)
}
