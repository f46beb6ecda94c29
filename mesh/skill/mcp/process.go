package mcp

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"time"
)

const (
	// lingering is how long the output of a process is read that has ended:
	// what it left behind may hold it open.
	lingering = time.Second
	// maxSaid bounds a line of standard error, in bytes.
	maxSaid = 1 << 10
)

// A process is a running server. Its standard streams are pipes of our own,
// which can be closed and timed out at any time.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	// patience is how long one write may take.
	patience time.Duration
	exited   chan struct{} // closed when the process was waited for
}

// start starts the process. The caller stops it.
func start(s Server, logger *slog.Logger) (*process, error) {
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), stdin.Close())
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:gosec,noctx // the operator's own command, which stop ends in good order
	cmd.Env = environment(s.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, &lines{logger: logger}
	cmd.WaitDelay = lingering
	ownGroup(cmd)
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), stdout.Close())
	}
	p := &process{cmd: cmd, stdin: stdin, stdout: stdout, patience: s.Timeout, exited: make(chan struct{})}
	go func() { // stop waits for exited
		defer close(p.exited)
		if err := cmd.Wait(); err != nil {
			logger.Info("mcp server ended", "err", err)
		}
		kill(cmd)
		_ = stdout.SetReadDeadline(time.Now().Add(lingering))
	}()
	return p, nil
}

// environment returns what was given, with PATH and HOME of our own unless they
// were.
func environment(given map[string]string) []string {
	env := make([]string, 0, len(given)+2)
	for key, value := range given {
		env = append(env, key+"="+value)
	}
	for _, key := range []string{"PATH", "HOME"} {
		if value, is := os.LookupEnv(key); is && given[key] == "" {
			env = append(env, key+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

// Write writes to the standard input. A process that does not read fails it.
func (p *process) Write(data []byte) (int, error) {
	if err := p.stdin.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	return p.stdin.Write(data)
}

// Close closes the standard input, which tells the process to end.
func (p *process) Close() error { return p.stdin.Close() }

// stop ends the process and all that it started, and waits for it: first it is
// told to end, then asked, then killed, with so much time in between.
func (p *process) stop(grace time.Duration) {
	_ = p.stdin.Close()
	for _, end := range []func(*exec.Cmd){terminate, kill} {
		timer := time.NewTimer(grace)
		select {
		case <-p.exited:
		case <-timer.C:
			end(p.cmd)
		}
		timer.Stop()
	}
	<-p.exited
	_ = p.stdout.Close()
}

// Lines log what is written to them, line by line.
type lines struct {
	logger *slog.Logger
	rest   []byte
}

// Write implements [io.Writer].
func (l *lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 && len(l.rest) < maxSaid {
			return len(data), nil
		}
		if end < 0 {
			end = len(l.rest) - 1
		}
		if said := line(string(l.rest[:end+1]), maxSaid); said != "" {
			l.logger.Info("mcp server says", "text", said)
		}
		l.rest = l.rest[end+1:]
	}
}
