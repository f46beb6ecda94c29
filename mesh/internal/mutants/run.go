//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A suite is tests of one package.
type suite struct {
	pkg      string // ./mesh/edge
	tests    []string
	patience time.Duration // how long they may take
}

// A verdict is what became of a mutant.
type verdict int

const (
	survived verdict = iota
	killed
	invalid // it does not compile
	unknown // the time was over
)

// A runner tests mutants by go test -overlay: the work tree is never changed.
type runner struct {
	root string
	temp string
	self string // this program, which limits the memory of tests; see limited

	mu     sync.Mutex
	blocks map[string]map[string]*block // of the sampled packages, by file and place
}

// short is how long tests may take beside what they take without a mutant.
const short = 30 * time.Second

// test runs the suites on the mutant, one after the other, until one fails.
func (r *runner) test(ctx context.Context, n int, m *mutant, suites []suite) (verdict, string, error) {
	overlay, err := r.overlay(n, m)
	if err != nil {
		return unknown, "", err
	}
	if _, ok := r.command(ctx, ".", "go", "build", "-trimpath", "-overlay", overlay, "./"+filepath.ToSlash(filepath.Dir(m.file))); !ok {
		if ended(ctx) {
			return unknown, "", nil
		}
		return invalid, "", nil
	}
	for _, s := range suites {
		out, ok := r.tests(ctx, s, "-overlay", overlay)
		switch {
		case ended(ctx):
			return unknown, "", nil
		case !ok && (strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]")):
			return invalid, "", nil
		case !ok:
			return killed, s.pkg, nil
		}
	}
	return survived, "", nil
}

// ended reports whether the time is over: then a test that fails says nothing.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// overlay writes the mutant beside the tree and returns the file for -overlay.
func (r *runner) overlay(n int, m *mutant) (string, error) {
	source, overlay := filepath.Join(r.temp, fmt.Sprintf("m%d.go", n)), filepath.Join(r.temp, fmt.Sprintf("m%d.json", n))
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, m.file): source}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(source, m.mutated(), 0o600), os.WriteFile(overlay, data, 0o600))
}

func (r *runner) tests(ctx context.Context, s suite, flags ...string) (out string, passed bool) {
	// What make build has compiled, with -trimpath, need not be again.
	args := append([]string{"test", "-trimpath", "-count=1", "-failfast", "-vet=off", "-ldflags=-s -w",
		"-run", "^(" + strings.Join(s.tests, "|") + ")$", "-timeout", s.patience.String(), "-exec", r.self + " -limited"}, flags...)
	// go test kills by -timeout; what does not even heed that ends a bit later.
	ctx, cancel := context.WithTimeout(ctx, s.patience+time.Minute)
	defer cancel()
	return r.command(ctx, ".", "go", append(args, s.pkg)...)
}

// command runs a program in a folder of the module and a group of its own, all of
// which ends with ctx, and reports whether it succeeded.
func (r *runner) command(ctx context.Context, dir, name string, args ...string) (string, bool) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // a tool of developers
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=1") // or a property that fails writes into the tree
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err), false
	}
	return string(out), true
}

// maxMemory is what a test may write to: a mutant may be a loop that takes it all.
const maxMemory = 4 << 30

// limited runs a test binary under the limit, in this process.
func limited(args []string) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &l); err != nil {
		return err
	}
	l.Cur = min(l.Max, maxMemory)
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &l); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ()) //nolint:gosec // go test gives it
}
