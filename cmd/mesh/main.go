// Command mesh is the one binary of agentmesh. As a client it talks to a
// running mesh over gRPC, as any other program would: it has no private door.
//
// # How it is built
//
// An [app] is one run of the command with its streams, clock and signals, so
// that a test runs it in process. Each group of commands has a file. What is
// shown is made by pure functions from what was received ([decode], [view],
// [transcript]); calling and printing stay outside of them.
//
// # What runs concurrently
//
// A command runs on one goroutine, and owns what it starts: the watcher of
// Ctrl-C, and in a chat the reader of lines and the reader of the turn's
// stream. All but the reader of lines are gone when the command returns; that
// one ends with the read that it is in, which on a terminal only the user ends.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // schedules name zones, also where the system has none
)

func main() { os.Exit(run()) }

// run runs the command on the process's own streams and returns its exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		asks: isTerminal(os.Stdin), shows: isTerminal(os.Stdout), watches: isTerminal(os.Stderr),
		getenv:     os.Getenv,
		interrupts: interrupts,
		uninstall:  func() { signal.Stop(interrupts) },
		now:        time.Now,
		after:      time.After,
	}
	return a.execute(ctx, os.Args[1:])
}

// isTerminal reports whether a person is likely at the other end of f.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
