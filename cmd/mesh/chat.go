package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"agentmesh/cmd/mesh/terminal"
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
	lines  <-chan terminal.Entry
	// rich says that a person is at both ends, and term is their terminal,
	// where it can be edited at, or nil.
	rich bool
	term *terminal.Terminal
	// costs says that the person is told what answers cost.
	costs  bool
	thread string
	// agent is addressed rather than main, or "".
	agent string
	// task waits for an answer, or is "".
	task string
	// with is the agent that has the stream in a handoff, or "", and step how
	// far its workflow is.
	with, step string
	// seq is the last Seq that was seen.
	seq mesh.Seq
	// queue has what was said while a turn ran, and is worked on after it.
	queue []queued
	// failed says that a turn did not end well.
	failed bool
}

func (a *app) chatCommand() *cobra.Command {
	o := chatOptions{}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Have a conversation",
		Long: `Have a conversation with the mesh. Answers appear as they are written, with
who speaks and what the agents behind do.

Enter sends. Alt+Enter, or a '\' before Enter, begins another line, and a paste is one
message, whatever is in it. Up, Down and Ctrl-R go back to what was said before, Tab
completes commands, @agents and skills. What is said while a turn runs waits for its end;
/withdraw takes it back.

Ctrl-C stops the running turn, and not the program; at an empty prompt, or twice, it
leaves, as Ctrl-D does. /help lists the commands. The conversation stays in its
thread: go on with --thread.

From a pipe, each line is a turn. The answers go to stdout, all else to stderr,
and the exit code is 1 if a turn failed. --plain, and TERM=dumb, read lines and print
text at a terminal too; NO_COLOR leaves colours and rendered Markdown away.

What was typed is kept in a file that only you can read: MESH_HISTORY names it, and 'off'
keeps nothing, as --no-history does.`,
		Example: `  mesh chat
  mesh chat --agent knowledge
  mesh chat --thread 550e8400-e29b-41d4-a716-446655440000
  printf 'Find my overdue tasks\nArchive the first one\n' | mesh chat`,
		Args: nothing,
		RunE: a.raw(func(ctx context.Context, args []string) error {
			return a.connected(ctx, args, func(ctx context.Context, c *client, _ []string) error {
				ch := &chat{app: a, client: c, rich: a.asks && a.shows, thread: a.flags.thread, agent: o.agent}
				ch.costs = ch.rich && !o.plain && a.getenv("TERM") != "dumb"
				defer ch.listen(o)()
				return ch.run(ctx)
			})
		}),
	}
	cmd.Flags().BoolVar(&o.plain, "plain", false, "read lines and print text, also at a terminal")
	cmd.Flags().BoolVar(&o.forget, "no-history", false, "keep nothing of what is typed")
	a.agentFlag(cmd, &o.agent, "talk to the agent with this `name` instead of main")
	return cmd
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
		if err == nil {
			err = c.drain(ctx)
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
		if c.term != nil {
			c.app.printf("Alt+Enter, or a '\\' before Enter, begins another line.\n")
		}
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
	switch {
	case c.term != nil:
		c.term.Prompt(c.prompt() + " › ")
	case c.rich:
		c.app.printf("%s › ", c.prompt())
	}
	select {
	case l := <-c.lines:
		if l.Err == nil {
			return l.Text, nil
		}
		c.breakLine()
		switch {
		case errors.Is(l.Err, io.EOF):
			return "", errLeave
		case errors.Is(l.Err, terminal.ErrInterrupted):
			return "", errInterrupted
		}
		return "", l.Err
	case <-c.app.interrupts:
		c.breakLine()
		return "", errInterrupted
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// breakLine goes to the line below the prompt, where that is written as text.
func (c *chat) breakLine() {
	if c.rich && c.term == nil {
		c.app.printf("\n")
	}
}

// prompt says whom the next line goes to, and how to get away from there.
func (c *chat) prompt() string {
	switch {
	case c.with == "" && c.agent != "":
		return "you → " + oneLine(c.agent)
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
	t.base, t.agent = c.seq, c.agent
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
	v := c.view()
	f := &following{c, v, stop}
	defer c.working(speakerName(c.with))()
	for {
		var err error
		select {
		case u, ok := <-updates:
			if !ok {
				return c.endTurn(ctx, t, v, stop.asked)
			}
			err = f.update(u)
		case l := <-c.typing():
			err = f.typed(ctx, l)
		case <-c.app.interrupts:
			err = f.interrupt()
		case err := <-cancelled:
			if err != nil && !mesh.IsCode(err, mesh.Precondition) {
				c.app.show(v.note("! cannot cancel: " + what(err)))
			}
		case <-c.quiet():
			c.app.show(v.note("· still at it (Ctrl-C stops the turn)"))
		}
		if err != nil {
			c.app.show(v.newline(), "")
			return err
		}
	}
}

// view is the view of a turn.
func (c *chat) view() *view {
	v := newView(c.rich)
	v.marks = c.term != nil
	return v
}

// turnUpdate is what the reader of a turn's stream hands over.
type turnUpdate struct {
	update
	task string
	err  error
}

// following is a turn that is shown.
type following struct {
	*chat
	view *view
	stop *canceller
}

func (f *following) update(u turnUpdate) error {
	if u.err != nil {
		return u.err
	}
	f.stop.task(u.task)
	f.watch(u.update)
	f.app.show(f.view.show(u.update))
	f.busy(u.update)
	return nil
}

// interrupt cancels the turn, and the second time leaves it.
func (f *following) interrupt() error {
	if !f.stop.ask() {
		return errInterrupted
	}
	f.view.midline = f.view.midline || f.rich && f.term == nil // a terminal has shown the ^C
	f.app.show(f.view.note("■ cancelling; Ctrl-C again leaves"))
	return nil
}

// quiet returns a channel that ends the silence, for a person who sees nothing
// move.
func (c *chat) quiet() <-chan time.Time {
	if !c.rich || c.term != nil {
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
	switch {
	case mesh.Interrupted(t.state):
		c.task = t.task
	case c.task == t.task:
		c.task = ""
	}
	if t.failed() {
		c.failed = true
	}
	if c.costs {
		c.client.tellCost(ctx, c.thread, t.task)
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
	if n := len(c.queue); n > 0 {
		c.tell(fmt.Sprintf("%d of your messages wait for the running turn, and are worked on after it\n", n))
	}
	if c.rich {
		c.app.printf("thread %s; go on with: mesh chat --thread %s\n", c.thread, c.thread)
	}
}
