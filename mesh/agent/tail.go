package agent

import (
	"context"
	"math"
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

// A tail is the newest part of a thread, without a gap: a turn's cost must not
// grow with all that was said before it. One that has only a page has not been
// read.
type tail struct {
	// page returns at most that many events after a Seq, and whether there are
	// more.
	page   func(ctx context.Context, after mesh.Seq, limit int) (events []*mesh.Event, more bool, err error)
	events []*mesh.Event // in order
	from   mesh.Seq      // after which they begin; 0 for the whole thread
	end    mesh.Seq      // of the last one that was read
}

// read adds what the thread has had since the last time. Then it goes back in
// the thread until the conversation has all of this execution, and enough, which
// may be nil, says that it need not begin earlier, or until the thread's beginning.
// The caller holds reading.
func (m *Mesh) read(ctx context.Context, enough func() bool) error {
	if err := m.tail.catchUp(ctx); err != nil {
		return err
	}
	m.fold()
	for m.tail.from > 0 && (m.transcript == nil || enough != nil && !enough()) {
		if err := m.tail.goBack(ctx); err != nil {
			return err
		}
		m.transcript, m.actions = nil, nil
		m.fold()
	}
	return nil
}

// fold brings the transcript up to what was read, if it can begin there.
func (m *Mesh) fold() {
	if m.transcript == nil {
		at, ok := 0, m.tail.from == 0
		if !ok {
			at, ok = thread.Beginning(m.tail.events, m.grant.Execution)
		}
		if !ok {
			return
		}
		m.begins, m.transcript = at, new(thread.Transcript)
	}
	for _, e := range m.known(m.transcript.Seq) {
		m.transcript.Apply(e)
	}
}

// known are the events, of those that the transcript has, that come after a Seq.
func (m *Mesh) known(after mesh.Seq) []*mesh.Event {
	if m.transcript == nil {
		return nil
	}
	events := m.tail.events[m.begins:]
	at, _ := slices.BinarySearchFunc(events, after+1, func(e *mesh.Event, seq mesh.Seq) int { return int(e.Seq - seq) })
	return events[at:]
}

// did is what the execution did, as far as was read. The caller holds reading.
func (m *Mesh) did() *thread.Actions {
	if m.actions == nil {
		m.actions = thread.NewActions(m.grant.Execution, m.grant.Turn)
	}
	for _, e := range m.known(m.actions.Seq) {
		m.actions.Apply(e)
	}
	return m.actions
}

// Actions returns what the execution did, and those that it led to, as far as it
// has been appended when it is called.
func (m *Mesh) Actions(ctx context.Context) (*thread.Actions, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, mesh.Wrap("agent.Actions", err)
	}
	a := thread.NewActions(m.grant.Execution, m.grant.Turn)
	for _, e := range m.known(0) {
		a.Apply(e)
	}
	return a, nil
}

// catchUp reads what comes after the tail; of a thread that was not read yet, its
// last events.
func (t *tail) catchUp(ctx context.Context) error {
	if t.end == 0 {
		events, more, err := t.page(ctx, 0, firstPage)
		if err != nil || len(events) == 0 {
			return err
		}
		t.events, t.end = events, events[len(events)-1].Seq
		if !more {
			return nil
		}
		near, err := t.nearEnd(ctx, t.end)
		if err != nil {
			t.events, t.end = nil, 0
			return err
		}
		if near > t.end {
			t.events, t.from, t.end = nil, near, near
		}
	}
	events, err := t.span(ctx, t.end, math.MaxInt64)
	if err != nil {
		return err
	}
	if n := len(events); n > 0 {
		t.events, t.end = append(t.events, events...), events[n-1].Seq
	}
	return nil
}

// nearEnd returns a Seq at most a page before the thread's last one, or the given
// one, which is there, if that is as near. It asks for single events: as often as
// the length of the thread has digits, about, for its end can only be found so.
func (t *tail) nearEnd(ctx context.Context, there mesh.Seq) (mesh.Seq, error) {
	step, beyond := there, mesh.Seq(0)
	for beyond == 0 || beyond-there > firstPage {
		probe := there + step
		if beyond > 0 {
			probe = there + (beyond-there)/2
		}
		events, _, err := t.page(ctx, probe, 1)
		if err != nil {
			return 0, err
		}
		if len(events) > 0 {
			there = events[0].Seq
		} else {
			beyond = probe
		}
		step *= 4
	}
	return there, nil
}

// goBack reads as much again of what comes before the tail.
func (t *tail) goBack(ctx context.Context) error {
	from := max(0, t.from-mesh.Seq(max(len(t.events), firstPage)))
	events, err := t.span(ctx, from, t.from)
	if err != nil {
		return err
	}
	t.events, t.from = slices.Concat(events, t.events), from
	return nil
}

// span reads the events after a Seq up to another, as far as there are any.
func (t *tail) span(ctx context.Context, after, to mesh.Seq) (out []*mesh.Event, err error) {
	for more := true; more && after < to; {
		var events []*mesh.Event
		events, more, err = t.page(ctx, after, int(min(pageSize, to-after)))
		if err != nil || len(events) == 0 {
			return out, err
		}
		out, after = append(out, events...), events[len(events)-1].Seq
	}
	return out, nil
}

// page reads events of the thread.
func (m *Mesh) page(ctx context.Context, after mesh.Seq, limit int) ([]*mesh.Event, bool, error) {
	res, err := m.threads.ReadThread(m.Context(ctx), &meshv1.ReadThreadRequest{
		ThreadId: m.grant.Thread, AfterSeq: int64(after), Limit: int32(limit),
	})
	if err != nil {
		return nil, false, failed("agent.read", err)
	}
	events := make([]*mesh.Event, len(res.GetEvents()))
	for i, p := range res.GetEvents() {
		if events[i], err = eventpb.EventFromProto(p); err != nil {
			return nil, false, mesh.Wrap("agent.read", err)
		}
	}
	return events, res.GetMore(), nil
}
