package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"

	"agentmesh/mesh"
)

// patience is how long a turn may be silent before the user is told that it
// still runs, and how to stop it.
const patience = 8 * time.Second

// errLeave ends a chat in an orderly way.
var errLeave = errors.New("leave")

// A chat is one conversation in a terminal, or with a pipe.
type chat struct {
	app    *app
	client *client
	lines  <-chan line
	// rich says that a person is at both ends.
	rich   bool
	thread string
	// task waits for an answer, or is "".
	task string
	// with is the agent that has the stream in a handoff, or "", and step how
	// far its workflow is.
	with, step string
	// seq is the last Seq that was seen.
	seq mesh.Seq
	// failed says that a turn did not end well.
	failed bool
}

// line is a line of input, or why there are no more.
type line struct {
	text string
	err  error
}

func (a *app) chatCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "chat",
		Short: "Have a conversation",
		Long: `Have a conversation with the mesh. Answers appear as they are written, with
who speaks and what the agents behind do.

Ctrl-C stops the running turn, and not the program; at the prompt, or twice, it
leaves, as Ctrl-D does. /help lists the commands. The conversation stays in its
thread: go on with --thread.

From a pipe, each line is a turn. The answers go to stdout, all else to stderr,
and the exit code is 1 if a turn failed.`,
		Example: `  mesh chat
  mesh chat --thread 550e8400-e29b-41d4-a716-446655440000
  printf 'Find my overdue tasks\nArchive the first one\n' | mesh chat`,
		Args: nothing,
		RunE: a.raw(func(ctx context.Context, args []string) error {
			return a.connected(ctx, args, func(ctx context.Context, c *client, _ []string) error {
				lines, stop := readLines(a.stdin)
				defer stop()
				ch := &chat{app: a, client: c, lines: lines, rich: a.asks && a.shows, thread: a.flags.thread}
				return ch.run(ctx)
			})
		}),
	}
}

// run talks until the input ends or the user leaves.
func (c *chat) run(ctx context.Context) error {
	err := c.open(ctx)
	for err == nil {
		var text string
		if text, err = c.next(ctx); err != nil {
			break
		}
		if strings.TrimSpace(text) != "" {
			err = c.take(ctx, text)
		}
	}
	c.bye()
	switch {
	case errors.Is(err, errLeave) && c.failed && !c.rich:
		return errTaskFailed
	case errors.Is(err, errLeave):
		return nil
	}
	return err
}

// open greets, and picks up what is going on in a thread that was named.
func (c *chat) open(ctx context.Context) error {
	known := c.thread != ""
	if !known {
		c.thread = mesh.NewThreadID()
	}
	if c.rich {
		c.app.printf("mesh at %s, thread %s\n/help lists commands, Ctrl-D leaves.\n", c.app.flags.addr, c.thread)
	} else {
		c.app.notef("thread: %s\n", c.thread)
	}
	if !known {
		return nil
	}
	return c.pickUp(ctx)
}

// next asks for a line. It returns errLeave at the end of the input, and
// errInterrupted for Ctrl-C.
func (c *chat) next(ctx context.Context) (string, error) {
	if c.rich {
		c.app.printf("%s › ", c.prompt())
	}
	select {
	case l := <-c.lines:
		if l.err == nil {
			return l.text, nil
		}
		if c.rich {
			c.app.printf("\n")
		}
		if errors.Is(l.err, io.EOF) {
			return "", errLeave
		}
		return "", l.err
	case <-c.app.interrupts:
		if c.rich {
			c.app.printf("\n")
		}
		return "", errInterrupted
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// prompt says whom the next line goes to, and how to get away from there.
func (c *chat) prompt() string {
	switch {
	case c.with == "":
		return "you"
	case c.step == "":
		return "you → " + oneLine(c.with) + " (/exit leaves)"
	}
	return fmt.Sprintf("you → %s, %s (/exit leaves)", oneLine(c.with), c.step)
}

// take does what a line says: a command, or a turn. It returns an error only
// where the chat must end.
func (c *chat) take(ctx context.Context, text string) error {
	var err error
	switch {
	case strings.HasPrefix(text, "//"):
		err = c.say(ctx, text[1:])
	case strings.HasPrefix(text, "/"):
		err = c.command(ctx, strings.TrimSpace(text))
	default:
		err = c.say(ctx, text)
	}
	return c.survive(ctx, err)
}

// survive reports err, and returns it if the chat cannot go on after it: a
// pipe has nobody who could do something about a mesh that is away.
func (c *chat) survive(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, errors.Is(err, errLeave), errors.Is(err, errInterrupted):
		return err
	}
	c.failed = true
	if code := exitCode(err); !c.rich && (code == exitUnavailable || code == exitDenied) {
		return err
	}
	c.app.notef("mesh: %s\n", explain(err, c.app.flags.addr))
	return nil
}

// say sends text, as the answer to the task that waits for one, if any.
func (c *chat) say(ctx context.Context, text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	t := newTurn(c.thread, c.task, text)
	t.base = c.seq
	return c.follow(ctx, t)
}

// follow shows a turn to its end. Ctrl-C cancels its task, and then waits for
// the end; the second one leaves.
func (c *chat) follow(ctx context.Context, t *turn) error {
	ctx, cancel := c.app.limited(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	updates := make(chan turnUpdate)
	work.Go(func() {
		defer close(updates)
		for u, err := range c.client.updates(ctx, t) {
			// The turn belongs to this goroutine: what is needed of it goes along.
			select {
			case updates <- turnUpdate{u, t.task, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	cancelled := make(chan error, 1)
	stop := &canceller{begin: func(task string) {
		work.Go(func() { cancelled <- c.client.cancel(ctx, c.thread, task) })
	}}
	v := newView(c.rich)
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return c.endTurn(ctx, t, v, stop.asked)
			}
			if u.err != nil {
				c.app.show(v.newline(), "")
				return u.err
			}
			stop.task(u.task)
			c.watch(u.update)
			c.app.show(v.show(u.update))
		case <-c.app.interrupts:
			if !stop.ask() {
				c.app.show(v.newline(), "")
				return errInterrupted
			}
			v.midline = v.midline || c.rich // a terminal has shown the ^C
			c.app.show(v.note("■ cancelling; Ctrl-C again leaves"))
		case err := <-cancelled:
			if err != nil && !mesh.IsCode(err, mesh.Precondition) {
				c.app.show(v.note("! cannot cancel: " + what(err)))
			}
		case <-c.quiet():
			c.app.show(v.note("· still at it (Ctrl-C stops the turn)"))
		}
	}
}

// turnUpdate is what the reader of a turn's stream hands over.
type turnUpdate struct {
	update
	task string
	err  error
}

// quiet returns a channel that ends the silence, for a person only.
func (c *chat) quiet() <-chan time.Time {
	if !c.rich {
		return nil
	}
	return c.app.after(patience)
}

// endTurn closes a turn whose reader has ended, and keeps what the next line
// needs to know. Nobody can tell a pipe to stop but by Ctrl-C: there it ends
// the chat with the turn.
func (c *chat) endTurn(ctx context.Context, t *turn, v *view, stopped bool) error {
	c.app.show(v.end(t.state))
	if err := ctx.Err(); err != nil {
		return err
	}
	c.task = ""
	if mesh.Interrupted(t.state) {
		c.task = t.task
	}
	if t.failed() {
		c.failed = true
	}
	if stopped && !c.rich {
		return errInterrupted
	}
	return nil
}

// watch keeps whom the user talks to, and how far.
func (c *chat) watch(u update) {
	c.seq = max(c.seq, u.seq)
	switch {
	case u.handoff != nil:
		c.with, c.step = u.handoff.to, ""
	case u.returned != nil:
		c.with, c.step = "", ""
	}
	if step := stepLine(u); step != "" && c.with != "" {
		c.step = step
	}
}

// bye says how to go on.
func (c *chat) bye() {
	if c.rich {
		c.app.printf("thread %s; go on with: mesh chat --thread %s\n", c.thread, c.thread)
	}
}

// A canceller cancels a task once it is asked to and the task is known,
// whichever comes last, and only once.
type canceller struct {
	begin func(task string)
	id    string
	asked bool
}

// ask asks for it; false if that was done before.
func (c *canceller) ask() bool {
	if c.asked {
		return false
	}
	c.asked = true
	if c.id != "" {
		c.begin(c.id)
	}
	return true
}

// task tells the task's id.
func (c *canceller) task(id string) {
	if c.id != "" || id == "" {
		return
	}
	c.id = id
	if c.asked {
		c.begin(id)
	}
}

// cancel asks the mesh to end the task.
func (c *client) cancel(ctx context.Context, thread, task string) error {
	_, err := c.a2a.CancelTask(c.call(ctx, thread), &a2apb.CancelTaskRequest{Id: task})
	return err
}

// readLines reads r line by line until its end or stop is called. The reader
// ends with the read that it is in: a read of a terminal cannot be taken back,
// and the process ends without it.
func readLines(r io.Reader) (lines <-chan line, stop func()) {
	out, done := make(chan line), make(chan struct{})
	go func() {
		scan := bufio.NewScanner(r)
		scan.Buffer(make([]byte, 0, 4096), maxText+2)
		give := func(l line) bool {
			select {
			case out <- l:
				return true
			case <-done:
				return false
			}
		}
		for scan.Scan() {
			if !give(line{text: scan.Text()}) {
				return
			}
		}
		err := scan.Err()
		switch {
		case err == nil:
			err = io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			err = mesh.InvalidField("mesh.chat", "text", "is a line of more than 1 MiB; send less")
		}
		give(line{err: err})
	}()
	return out, sync.OnceFunc(func() { close(done) })
}
