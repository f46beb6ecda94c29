package main

import (
	"context"
	"errors"
	"io"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/cmd/mesh/terminal"
	"agentmesh/mesh"
)

// queued is a message that the mesh has taken while a turn ran: a task that
// waits for its turn.
type queued struct{ task, text string }

// typed does what was typed while the turn runs.
func (f *following) typed(ctx context.Context, l terminal.Entry) error {
	switch {
	case errors.Is(l.Err, terminal.ErrInterrupted):
		return f.interrupt()
	case errors.Is(l.Err, io.EOF):
		return errLeave
	case l.Err != nil:
		return l.Err
	}
	text := l.Text // a command begins with its '/', as in take
	var err error
	switch {
	case strings.TrimRight(text, " \n") == "/exit":
		err = f.post(ctx, mesh.ExitWord)
	case strings.HasPrefix(text, "//"):
		err = f.post(ctx, text[1:])
	case strings.HasPrefix(text, "/agent "), strings.HasPrefix(text, "/thread "):
		err = mesh.Errorf(mesh.Precondition, "mesh.chat", "a turn runs; wait for its end, or stop it with Ctrl-C")
	case strings.HasPrefix(text, "/"):
		f.app.show(f.view.newline(), "")
		err = f.command(ctx, strings.TrimSpace(text))
	default:
		err = f.post(ctx, l.Text)
	}
	if err == nil || errors.Is(err, errLeave) || ctx.Err() != nil {
		return err
	}
	f.app.show(f.view.note("! " + what(err)))
	return nil
}

// post has the mesh take a message while another turn runs, and says what
// becomes of it.
func (f *following) post(ctx context.Context, text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	t := newTurn(f.thread, "", text)
	t.send.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	resp, err := f.client.a2a.SendMessage(f.client.addressed(ctx, f.thread, f.agent), t.send)
	if err != nil {
		return err
	}
	task := resp.GetTask()
	if task.GetId() == f.stop.id || task.GetId() == "" {
		f.app.show(f.view.note("· told"))
		return nil
	}
	f.queue = append(f.queue, queued{task.GetId(), text})
	f.app.show(f.view.note("· " + stateName(task.GetStatus().GetState()) + ", after this turn: " + clip(text, 60) + " (/withdraw takes it back)"))
	return nil
}

// drain shows the turns of what was said while others ran, in order.
func (c *chat) drain(ctx context.Context) error {
	for len(c.queue) > 0 {
		q := c.queue[0]
		c.queue = c.queue[1:]
		c.tell("· now: " + clip(q.text, 100) + "\n")
		if err := c.survive(ctx, c.follow(ctx, &turn{thread: c.thread, task: q.task, hasCursor: true})); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes back what was said last and was not worked on yet.
func (c *chat) withdraw(ctx context.Context) error {
	n := len(c.queue)
	if n == 0 {
		c.tell("nothing waits that could be taken back\n")
		return nil
	}
	q := c.queue[n-1]
	if err := c.client.cancel(ctx, c.thread, q.task); err != nil {
		return err
	}
	c.queue = c.queue[:n-1]
	c.tell("■ withdrawn: " + clip(q.text, 100) + "\n")
	return nil
}
