package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// An app is one run of the command: what it reads and writes, and the flags
// that all commands have.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// asks says that a person types on stdin, shows that one reads stdout, and watches
	// that one sees stderr as it is written.
	asks, shows, watches bool
	getenv               func(string) string
	// interrupts delivers each Ctrl-C; uninstall gives the next one back to
	// the system, which then ends the process.
	interrupts <-chan os.Signal
	uninstall  func()
	now        func() time.Time
	after      func(time.Duration) <-chan time.Time

	flags globals
	// yaml says that data is printed as YAML rather than as lines of JSON.
	yaml bool
	// stranger has the mesh called without the token that 'mesh login' keeps.
	stranger bool
	// lost is why something could not be written to stdout, or nil.
	lost error
}

// globals are the flags of all commands.
type globals struct {
	addr, tenant, user, thread, token string
	ca, cert, key                     string
	plaintext                         bool
	timeout                           time.Duration
}

// execute runs the command that args name, reports what failed on stderr in
// one line, and returns the exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if a.lost != nil && err == nil {
		a.notef("mesh: stdout cannot be written, and what was to be there is lost: %s\n", oneLine(a.lost.Error()))
		return exitFailure
	}
	if err == nil {
		return exitOK
	}
	var failed *failure
	if !errors.As(err, &failed) {
		// Whatever no action returned is the command line's own fault.
		_, _ = fmt.Fprintf(a.stderr, "mesh: %s; see '%s --help'\n", oneLine(err.Error()), cmd.CommandPath())
		return exitUsage
	}
	if text := explain(failed.err, a.flags.addr); text != "" {
		_, _ = fmt.Fprintln(a.stderr, "mesh: "+text)
	}
	return exitCode(failed.err)
}

// An action is what a command does. Its context ends with the first Ctrl-C.
type action func(ctx context.Context, args []string) error

// failure marks what an action returned, apart from errors of usage, which
// the command line returns before any action runs.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// raw makes an action a cobra command's RunE and leaves Ctrl-C to the action.
func (a *app) raw(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd.Context(), args); err != nil {
			return &failure{err}
		}
		return nil
	}
}

// action makes an action a cobra command's RunE. The first Ctrl-C ends the
// action's context, a second one the process.
func (a *app) action(do action) func(*cobra.Command, []string) error {
	return a.raw(func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithCancelCause(ctx)
		var watch sync.WaitGroup
		defer watch.Wait()
		defer cancel(nil)
		watch.Go(func() {
			select {
			case <-a.interrupts:
				a.uninstall()
				cancel(errInterrupted)
			case <-ctx.Done():
			}
		})
		err := do(ctx, args)
		if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
			return errInterrupted
		}
		return err
	})
}

// lookup makes a RunE of an action that asks the mesh once or a few times: it
// is given a connection, and ends after --timeout or lookupTimeout.
func (a *app) lookup(do func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return a.prepared(func(context.Context) error { return nil }, do)
}

// prepared is lookup after what a person may have to be asked first.
func (a *app) prepared(first func(context.Context) error, do func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return a.action(func(ctx context.Context, args []string) error {
		if err := first(ctx); err != nil {
			return err
		}
		limit := a.flags.timeout
		if limit == 0 {
			limit = lookupTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return a.connected(ctx, args, do)
	})
}

// stream makes a RunE of an action that stays connected: it is given a
// connection, and has no end but --timeout.
func (a *app) stream(do func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return a.action(func(ctx context.Context, args []string) error {
		ctx, cancel := a.limited(ctx)
		defer cancel()
		return a.connected(ctx, args, do)
	})
}

// lookupTimeout bounds commands that only ask, where no --timeout is given.
const lookupTimeout = 30 * time.Second

// limited returns ctx under --timeout, if one is given.
func (a *app) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.flags.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.flags.timeout)
}

// pause waits for d, or returns why ctx ended first.
func (a *app) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-a.after(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// printf writes to stdout. The first write that fails is told at the end, by
// execute: a file that is not whole must not pass for one that is.
func (a *app) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(a.stdout, format, args...); err != nil && a.lost == nil {
		a.lost = err
	}
}

// notef writes to stderr.
func (a *app) notef(format string, args ...any) { _, _ = fmt.Fprintf(a.stderr, format, args...) }
