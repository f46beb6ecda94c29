package meshclient

import (
	"context"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// Transcript shows what was said in the thread, and what this execution did with it.
// The thread is read from its end: see gets a transcript that has all of this
// execution, and one that begins earlier each time, until it returns that this is
// enough or has got the whole. It must not change or keep the transcript, nor call
// the Client.
func (c *Client) Transcript(ctx context.Context, see func(t *thread.Transcript, whole bool) (enough bool)) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	return mesh.Wrap("meshclient.Transcript", c.read(ctx, see))
}

// History returns the last things said in the thread, at most limit (0 for
// all), oldest first: what the user wrote, and what was answered where the
// user could read it, by whichever agent.
func (c *Client) History(ctx context.Context, limit int) (said []thread.Utterance, err error) {
	err = c.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
		said = t.Said()
		return limit > 0 && len(said) >= limit
	})
	if limit > 0 && len(said) > limit {
		said = said[len(said)-limit:]
	}
	return said, err
}

// Noted returns what this agent last noted in the thread, in this execution or
// in one that had the user's stream; false if it never did, or that was dropped at the end of a
// handoff.
func (c *Client) Noted(ctx context.Context) (data []byte, noted bool, err error) {
	err = c.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
		note, known := t.Note(c.grant.Agent, c.grant.Execution)
		data = slices.Clone(note)
		return known
	})
	return data, data != nil, err
}

// Actions returns what the execution did, and those that it led to, as far as it
// has been appended when it is called.
func (c *Client) Actions(ctx context.Context) (*thread.Actions, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if err := c.read(ctx, func(*thread.Transcript, bool) bool { return true }); err != nil {
		return nil, mesh.Wrap("meshclient.Actions", err)
	}
	a := thread.NewActions(c.grant.Execution, c.grant.Turn)
	for _, e := range c.known(0) {
		a.Apply(e)
	}
	if x := a.Execution(c.grant.Execution); x != nil && len(x.Instructions) > 0 {
		c.unread.Store(int32(len(x.Instructions))) // #nosec G115 -- thread.MaxInstructions
	}
	return a, nil
}

// Recollection is what the agent of an execution, which this one dispatched, was told and
// said in the thread before, as a message to it; "" if nothing. It reads all of the thread,
// and keeps nothing of it.
func (c *Client) Recollection(ctx context.Context, x mesh.Execution) (string, error) {
	const op = "meshclient.Recollection"
	if err := c.Flush(ctx); err != nil {
		return "", mesh.Wrap(op, err)
	}
	r := thread.NewRecollection(x.Agent, x.ID)
	for after, more := mesh.Seq(0), true; more; {
		p, err := c.page(ctx, &meshv1.ReadThreadRequest{AfterSeq: int64(after), Limit: pageSize})
		if err != nil {
			return "", mesh.Wrap(op, err)
		}
		for _, e := range p.events {
			r.Apply(e)
			after = e.Seq
		}
		more = p.more && len(p.events) > 0
	}
	return r.Text(), nil
}

// Lately shows what the execution and those that it led to did, as far as the thread has
// it: what this client keeps is not there. It reads what is new and no more. see must
// not change or keep the actions, nor call the Client.
func (c *Client) Lately(ctx context.Context, see func(*thread.Actions)) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if err := c.readOthers(ctx, func(*thread.Transcript, bool) bool { return true }); err != nil {
		return mesh.Wrap("meshclient.Lately", err)
	}
	c.did(see)
	return nil
}

// Did shows what the execution did as far as was read already, which may be nothing.
// see must not change or keep the actions, nor call the Client.
func (c *Client) Did(see func(*thread.Actions)) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.did(see)
}

func (c *Client) did(see func(*thread.Actions)) {
	if c.actions == nil {
		c.actions = thread.NewActions(c.grant.Execution, c.grant.Turn)
	}
	for _, e := range c.known(c.actions.Seq) {
		c.actions.Apply(e)
	}
	see(c.actions)
}

// Waiting notes how many instructions wait for the execution, as the node said with its grant:
// those that came before it began, or before it went on in this process. It is called
// before c is used, and returns c.
func (c *Client) Waiting(instructions int32) *Client {
	c.unread.Store(instructions)
	return c
}

// ReadInstructions returns what the execution was told and has not read, and has it
// logged that it is read: each is returned once, whichever process runs the execution. What
// was kept is sent before. It reads the thread only if what the node last said is that
// there is something.
func (c *Client) ReadInstructions(ctx context.Context) ([]thread.Instruction, error) {
	const op = "meshclient.ReadInstructions"
	if err := c.Flush(ctx); err != nil || c.unread.Load() == 0 {
		return nil, mesh.Wrap(op, err)
	}
	did, err := c.Actions(ctx)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	x := did.Execution(c.grant.Execution)
	if x == nil || len(x.Instructions) == 0 {
		return nil, nil
	}
	events := make([]*mesh.Event, len(x.Instructions))
	for i, told := range x.Instructions {
		events[i] = &mesh.Event{Body: mesh.InstructionPosted{ID: told.ID, Read: true}}
	}
	if _, err := c.Record(ctx, events...); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return x.Instructions, nil
}
