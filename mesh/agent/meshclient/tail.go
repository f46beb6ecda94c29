package meshclient

import (
	"context"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// How many events are read at a time: of a thread first, and later at most.
const (
	firstPage = 200
	pageSize  = 1000
)

// A tail is the newest part of a thread: a turn's cost must not grow with all that was
// said before it. Nothing is missing in it but what is in the midst of very long output.
// One that has only a page has not been read.
type tail struct {
	// page returns events of the thread as ReadThread does.
	page   func(ctx context.Context, req *meshv1.ReadThreadRequest) (part, error)
	events []*mesh.Event     // in order
	holes  map[mesh.Seq]bool // events right before which output is not there
	from   mesh.Seq          // after which they begin; 0 for the whole thread
	end    mesh.Seq          // of the last one that was read
}

// A part is what ReadThread answers.
type part struct {
	events  []*mesh.Event
	leftOut []int64
	more    bool
}

// read adds what the thread has had since the last time, and then what comes before
// it, as much again each time, until the transcript has all of this execution and see
// returns that it need not begin earlier, or until the thread's beginning is reached.
// The caller holds reading.
func (c *Client) read(ctx context.Context, see func(t *thread.Transcript, whole bool) (enough bool)) error {
	if err := c.Flush(ctx); err != nil {
		return err
	}
	return c.readOthers(ctx, see)
}

// readOthers is read without what this client has kept.
func (c *Client) readOthers(ctx context.Context, see func(t *thread.Transcript, whole bool) (enough bool)) error {
	for err := c.tail.catchUp(ctx); ; err = c.tail.goBack(ctx) {
		if err != nil {
			return err
		}
		whole := c.tail.from == 0
		if c.fold(); c.transcript != nil && see(c.transcript, whole) || whole {
			return nil
		}
		c.transcript, c.actions = nil, nil
	}
}

// fold brings the transcript up to what was read, if it can begin there.
func (c *Client) fold() {
	if c.transcript == nil {
		at, ok := 0, c.tail.from == 0
		if !ok {
			at, ok = thread.Beginning(c.tail.events, c.grant.Execution)
		}
		if !ok {
			return
		}
		c.begins, c.transcript = at, new(thread.Transcript)
	}
	for _, e := range c.known(c.transcript.Seq) {
		if c.tail.holes[e.Seq] {
			c.transcript.LeaveOut()
		}
		c.transcript.Apply(e)
	}
}

// known are the events, of those that the transcript has, that come after a Seq.
func (c *Client) known(after mesh.Seq) []*mesh.Event {
	if c.transcript == nil {
		return nil
	}
	events := c.tail.events[c.begins:]
	at, _ := slices.BinarySearchFunc(events, after+1, func(e *mesh.Event, seq mesh.Seq) int { return int(e.Seq - seq) })
	return events[at:]
}

// catchUp reads what comes after the tail; of a thread that was not read yet, its
// last events.
func (t *tail) catchUp(ctx context.Context) error {
	if t.end == 0 {
		return t.goBack(ctx)
	}
	for more := true; more; {
		p, err := t.page(ctx, &meshv1.ReadThreadRequest{AfterSeq: int64(t.end), Limit: pageSize})
		if err != nil {
			return err
		}
		if n := len(p.events); n > 0 {
			t.events, t.end = append(t.events, p.events...), p.events[n-1].Seq
		}
		more = p.more && len(p.events) > 0
	}
	return nil
}

// goBack reads as much again of what comes before the tail, which may be nothing yet.
func (t *tail) goBack(ctx context.Context) error {
	for want := max(len(t.events), firstPage); want > 0; {
		before := int64(0)
		if t.end > 0 {
			before = int64(t.from) + 1
		}
		p, err := t.page(ctx, &meshv1.ReadThreadRequest{BeforeSeq: before, Tail: true, Brief: true, Limit: int32(min(want, pageSize))})
		if err != nil {
			return err
		}
		if t.from = 0; len(p.events) == 0 {
			return nil
		}
		t.leaveOut(p.leftOut)
		t.events, t.end = slices.Concat(p.events, t.events), max(t.end, p.events[len(p.events)-1].Seq)
		if want -= len(p.events); !p.more {
			return nil
		}
		t.from = p.events[0].Seq - 1
	}
	return nil
}

// leaveOut notes the events right before which output is not there.
func (t *tail) leaveOut(at []int64) {
	for _, seq := range at {
		if t.holes == nil {
			t.holes = map[mesh.Seq]bool{}
		}
		t.holes[mesh.Seq(seq)] = true
	}
}

// page reads events of the thread.
func (c *Client) page(ctx context.Context, req *meshv1.ReadThreadRequest) (part, error) {
	req.ThreadId = c.grant.Thread
	res, err := c.threads.ReadThread(c.Context(ctx), req)
	if err != nil {
		return part{}, failed("meshclient.read", err)
	}
	p := part{events: make([]*mesh.Event, len(res.GetEvents())), leftOut: res.GetLeftOut(), more: res.GetMore()}
	for i, e := range res.GetEvents() {
		if p.events[i], err = eventpb.EventFromProto(e); err != nil {
			return part{}, mesh.Wrap("meshclient.read", err)
		}
	}
	return p, nil
}
