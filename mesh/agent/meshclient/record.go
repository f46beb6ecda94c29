package meshclient

import (
	"cmp"
	"context"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"

	"google.golang.org/protobuf/proto"
)

// Record retries a node that cannot be reached, or a lost race, this often, waiting longer each
// time: about five seconds in all.
const (
	recordTries = 7
	recordWait  = 50 * time.Millisecond
)

// What is kept goes after keepTime at the latest, or when it is as much as that.
const (
	keepTime  = 100 * time.Millisecond
	keepMost  = 200
	keepBytes = 64 << 10
)

// Record appends events of this execution to the thread: all or none, after
// those of earlier calls. It fills in what is empty of ID, Time, Execution and
// Actor, so that recording the same events again adds nothing, and does so
// itself while the node is unavailable, or others write so much to the thread
// that it loses to them. It returns by what the agents are called of the
// executions that the events dispatched, or that go on, and maybe of others that were
// dispatched along with them.
//
// What was kept goes with it. Where the node refuses that, Record returns its error.
func (c *Client) Record(ctx context.Context, events ...*mesh.Event) (map[mesh.ExecutionID]Issued, error) {
	res, err := c.record(ctx, events)
	issued := make(map[mesh.ExecutionID]Issued, len(res.GetTickets()))
	for id, token := range res.GetTickets() {
		issued[mesh.ExecutionID(id)] = Issued{Ticket: token, Context: res.GetContexts()[id]}
	}
	return issued, mesh.Wrap("meshclient.Record", err)
}

// Issued is by what the agent of an execution is called.
type Issued struct {
	Ticket string
	// Context is the agent's own, in which it has the conversation; "" if it has none.
	Context string
}

// RecordCall is Record of the intent to call a skill, under the id, which returns the
// node's permit for the call; nil, without an error, if the call is recorded and not to be
// made, because the execution is dry.
func (c *Client) RecordCall(ctx context.Context, id string, called mesh.SkillCalled) (*grant.Permit, error) {
	const op = "meshclient.RecordCall"
	res, err := c.record(ctx, []*mesh.Event{{ID: id, Body: called}})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if slices.Contains(res.GetNotMade(), called.Call) {
		return nil, nil
	}
	token, ok := res.GetPermits()[called.Call]
	if !ok {
		return nil, mesh.Errorf(mesh.Denied, op, "the mesh does not permit the call: it is over, or is another one than was announced")
	}
	p, err := grant.CheckPermit(c.keys(), c.grant, token)
	return p, mesh.Wrap(op, err)
}

// A recording is a call of record. Those that begin agents, and wait while another one is on
// its way, go together: however many agents begin at once, they wait for few commits.
type recording struct {
	events []*meshv1.Event
	begins bool // nothing but agents whose orders were accepted
	over   bool // res and err are the answer
	res    *meshv1.AppendEventsResponse
	err    error
}

func (c *Client) record(ctx context.Context, events []*mesh.Event) (*meshv1.AppendEventsResponse, error) {
	r := &recording{events: make([]*meshv1.Event, len(events)), begins: true}
	for i, e := range events {
		r.events[i], r.begins = c.toProto(e), r.begins && thread.Begins(e)
	}
	c.queueing.Lock()
	c.queue = append(c.queue, r)
	c.queueing.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	for !r.over {
		c.writeQueued(ctx, r)
	}
	return r.res, r.err
}

// next takes from the queue what goes in one request: one recording, or several that begin
// agents.
func (c *Client) next() (batch []*recording) {
	c.queueing.Lock()
	defer c.queueing.Unlock()
	n := 1
	for c.queue[0].begins && n < len(c.queue) && n < keepMost && c.queue[n].begins {
		n++
	}
	batch = slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return batch
}

// writeQueued appends the next of what is queued, for who waits with the context for its own.
// The caller holds writing.
func (c *Client) writeQueued(ctx context.Context, own *recording) {
	batch := c.next()
	if len(batch) > 1 && (c.lost == nil || len(c.kept) > 0) {
		all := slices.Clone(c.kept)
		for _, r := range batch {
			all = append(all, r.events...)
		}
		res, err := c.append(ctx, all, false)
		if err == nil {
			c.empty()
		}
		if err == nil || ctx.Err() == nil && !refused(ctx, err) {
			for _, r := range batch {
				r.over, r.res, r.err = true, res, err
			}
			return
		}
	}
	for i, r := range batch { // each has an answer of its own
		res, err := c.write(ctx, r.events)
		if err != nil && ctx.Err() != nil && r != own { // they wait with contexts of theirs
			c.queueing.Lock()
			c.queue = slices.DeleteFunc(slices.Concat(batch[i:], c.queue), func(r *recording) bool { return r == own })
			c.queueing.Unlock()
			if !own.over {
				own.over, own.err = true, err
			}
			return
		}
		r.over, r.res, r.err = true, res, err
	}
}

// write appends events after what was kept. The caller holds writing.
func (c *Client) write(ctx context.Context, events []*meshv1.Event) (*meshv1.AppendEventsResponse, error) {
	if len(c.kept) > 0 {
		res, err := c.append(ctx, slices.Concat(c.kept, events), false)
		if err == nil {
			c.empty()
		} else if refused(ctx, err) { // what was kept, or the events: then what was kept stands
			err = cmp.Or(c.flush(ctx, false), err)
		}
		return res, err
	}
	if err := c.takeLost(); err != nil {
		return nil, err
	}
	return c.append(ctx, events, false)
}

// takeLost returns once what nobody was told yet.
func (c *Client) takeLost() error {
	err := c.lost
	c.lost = nil
	return err
}

// Keep is Record for facts, and ends of what was dispatched, on which nothing rests
// yet: it does not wait for them. They are in the thread before all that is recorded
// later, before the run ends and before this execution reads the thread, and else
// after a moment. Whether the node takes them the next Record or Flush tells.
func (c *Client) Keep(ctx context.Context, events ...*mesh.Event) error {
	return mesh.Wrap("meshclient.Keep", c.keep(ctx, keepTime, events))
}

// Send is Keep for what should soon be known, as that a call came back which has had
// its effect: it goes at once, with what was kept before.
func (c *Client) Send(ctx context.Context, events ...*mesh.Event) error {
	return mesh.Wrap("meshclient.Send", c.keep(ctx, 0, events))
}

// keep has the events sent in that time.
func (c *Client) keep(ctx context.Context, within time.Duration, events []*mesh.Event) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, e := range events {
		p := c.toProto(e)
		c.kept, c.keptBytes = append(c.kept, p), c.keptBytes+proto.Size(p)
	}
	if c.closed || len(c.kept) >= keepMost || c.keptBytes >= keepBytes { // who says that much waits for the log
		return c.flush(ctx, false)
	}
	c.arm(ctx, within)
	return nil
}

// arm has what was kept sent in that time. The caller holds writing.
func (c *Client) arm(ctx context.Context, within time.Duration) {
	if c.closed || len(c.kept) == 0 {
		return
	}
	if c.armed {
		if within == 0 && c.timer.Stop() { // else it goes now
			c.timer.Reset(0)
		}
		return
	}
	c.armed = true
	c.sending.Add(1)
	c.timer = time.AfterFunc(within, func() {
		defer c.sending.Done()
		c.late(context.WithoutCancel(ctx))
	})
}

// late sends what nothing took along.
func (c *Client) late(ctx context.Context) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.armed = false
	if err := c.flush(ctx, true); refused(ctx, err) {
		c.lost = cmp.Or(c.lost, err)
	}
	c.arm(ctx, keepTime)
}

// Flush returns when what was kept has its place in the thread: what is added from
// then on, by whomever, comes after it.
func (c *Client) Flush(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.flush(ctx, true)
	return mesh.Wrap("meshclient.Flush", cmp.Or(c.takeLost(), err))
}

// Close is Flush for the end of a run: nothing is sent after it that was kept, and
// what could not be is its error.
func (c *Client) Close(ctx context.Context) error {
	defer c.sending.Wait()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.closed = true
	if c.armed && c.timer.Stop() {
		c.armed = false
		c.sending.Done()
	}
	err := c.flush(ctx, true)
	c.empty()
	return mesh.Wrap("meshclient.Close", cmp.Or(c.takeLost(), err))
}

// flush appends what was kept. Where the node refuses it, each event goes for
// itself, and the first error is returned. The caller holds writing.
func (c *Client) flush(ctx context.Context, deferred bool) (first error) {
	if len(c.kept) == 0 {
		return nil
	}
	_, err := c.append(ctx, c.kept, deferred)
	if err != nil && !refused(ctx, err) {
		return err
	}
	for err != nil && len(c.kept) > 0 {
		_, one := c.append(ctx, c.kept[:1], deferred)
		if one != nil && !refused(ctx, one) {
			return one
		}
		first, c.kept = cmp.Or(first, one), c.kept[1:]
	}
	c.empty()
	return first
}

// Refresh is Left when what was kept is counted.
func (c *Client) Refresh(ctx context.Context) limit.Left {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.flush(ctx, true); refused(ctx, err) { // the next Record or Flush tells
		c.lost = cmp.Or(c.lost, err)
	}
	return c.Left()
}

func (c *Client) empty() { c.kept, c.keptBytes = nil, 0 }

// refused reports whether the node has decided that it does not take the events.
func refused(ctx context.Context, err error) bool {
	switch mesh.CodeOf(err) {
	case mesh.Invalid, mesh.Denied, mesh.Precondition, mesh.Exhausted, mesh.NotFound, mesh.Unauthenticated, mesh.Canceled:
		return err != nil && ctx.Err() == nil
	}
	return false
}

// toProto fills in what is empty of the event.
func (c *Client) toProto(e *mesh.Event) *meshv1.Event {
	if e.ID == "" {
		e.ID = mesh.NewEventID()
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC().Truncate(time.Millisecond)
	}
	if e.Execution == "" {
		e.Execution = c.grant.Execution
	}
	if e.Actor == "" {
		e.Actor = "agent:" + c.grant.Agent
	}
	return eventpb.EventToProto(e)
}

// append adds the events, and returns the answer.
func (c *Client) append(ctx context.Context, events []*meshv1.Event, deferred bool) (*meshv1.AppendEventsResponse, error) {
	req := &meshv1.AppendEventsRequest{ThreadId: c.grant.Thread, Events: events, Deferred: deferred}
	wait := recordWait
	for try := 1; ; try++ {
		res, err := c.threads.AppendEvents(c.Context(ctx), req)
		err = failed("meshclient.append", err)
		retry := mesh.IsCode(err, mesh.Unavailable) || mesh.IsCode(err, mesh.Conflict)
		if err == nil {
			c.unread.Store(res.GetInstructions())
		}
		if !retry || try == recordTries {
			c.learn(res.GetRemaining())
			return res, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// Note keeps the agent's own workflow state in the thread: JSON of at most
// mesh.MaxState bytes, which Noted returns.
func (c *Client) Note(ctx context.Context, data []byte) error {
	if len(data) > mesh.MaxState {
		return mesh.InvalidField("meshclient.Note", "data", "is %d bytes long; the limit is %d", len(data), mesh.MaxState)
	}
	_, err := c.Record(ctx, &mesh.Event{Body: mesh.StateNoted{Agent: c.grant.Agent, Data: data}})
	return mesh.Wrap("meshclient.Note", err)
}
