//go:build unix

package chaos_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// What makes this binary one of the processes that take part, and what that is told.
const (
	roleEnv = "CHAOS_ROLE"
	toldEnv = "CHAOS_TOLD"
)

// roles are what the processes do: each ends with the process that started it.
var roles = map[string]func(told []string) error{
	"lead":   leads,
	"smith":  forges,
	"plain":  serves,
	"person": talks,
}

func TestMain(m *testing.M) {
	if play := roles[os.Getenv(roleEnv)]; play != nil {
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(1) }()
		if err := play(strings.Fields(os.Getenv(toldEnv))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if built, err = os.MkdirTemp("", "chaos"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built) // it is a binary at most
	os.Exit(code)
}

// A player is a process of this binary, which is killed and started again.
type player struct {
	role string
	told []string

	mu    sync.Mutex
	cmd   *exec.Cmd // nil while it is away
	gone  chan struct{}
	said  strings.Builder
	stdin io.Closer
}

func (p *player) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *player) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// start returns when the process is there; with ready, when it says so.
func (p *player) start(ready bool) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = environment(roleEnv+"="+p.role, toldEnv+"="+strings.Join(p.told, " ")), p
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	gone, is := make(chan struct{}), make(chan struct{}, 1)
	p.mu.Lock()
	p.cmd, p.gone, p.stdin = cmd, gone, in
	p.mu.Unlock()
	go func() { // ends with the process, which end sees to
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				is <- struct{}{}
			}
		}
		_ = cmd.Wait() // how it ended is asked of the state
		close(gone)
	}()
	if !ready {
		return nil
	}
	select {
	case <-is:
		return nil
	case <-gone:
		return fmt.Errorf("%s ended at once: %s", p.role, p.words())
	}
}

// kill kills the process, if it is there.
func (p *player) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

// wait waits for the end of the process, and returns its exit code, below 0 if it was killed.
func (p *player) wait() int {
	<-p.gone
	p.mu.Lock()
	defer p.mu.Unlock()
	code := p.cmd.ProcessState.ExitCode()
	_ = p.stdin.Close()
	p.cmd = nil
	return code
}
