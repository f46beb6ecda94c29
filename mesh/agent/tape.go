package agent

import (
	"context"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// How many events are read at a time: of a thread first, and later at most.
const (
	firstPage = 200
	pageSize  = 1000
)

// A tape is the newest part of a thread, without a gap: a turn's cost must not
// grow with all that was said before it. The zero tape has not been read.
type tape struct {
	events []*meshv1.Event // in order
	from   int64           // Seq after which they begin; 0 for the whole thread
	end    int64           // Seq of the last one that was read
}

// read adds what the thread has had since the last time. Then it goes back in
// the thread until the story can be told from there on, and enough, which may
// be nil, says that it need not begin earlier, or until the thread's beginning.
// The caller holds reading.
func (m *Mesh) read(ctx context.Context, enough func() bool) error {
	known := m.tape.end
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	if known > 0 && m.told {
		for _, e := range m.tape.events {
			if e.GetSeq() > known {
				m.story.add(e)
			}
		}
	} else {
		m.tell()
	}
	for m.tape.from > 0 && (!m.told || enough != nil && !enough()) {
		if err := m.goBack(ctx); err != nil {
			return err
		}
		m.tell()
	}
	return nil
}

// Since returns the events of the thread since this execution began, in order, as
// far as they have been appended when it is called. They are shared and read-only.
func (m *Mesh) Since(ctx context.Context) ([]*meshv1.Event, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, mesh.Wrap("agent.Since", err)
	}
	at := slices.IndexFunc(m.tape.events, func(e *meshv1.Event) bool {
		return e.GetDispatchIssued().GetChild().GetId() == string(m.grant.Execution)
	})
	return slices.Clip(m.tape.events[max(at, 0):]), nil
}

// tell folds the story of what was read, from where it can begin.
func (m *Mesh) tell() {
	at, ok := m.tape.beginning(string(m.grant.Execution))
	m.told = ok
	if !ok {
		return
	}
	m.story = newStory(m.grant)
	for _, e := range m.tape.events[at:] {
		m.story.add(e)
	}
}

// beginning returns where a story can begin that has all of the execution: at the
// first message of a turn, from which on nothing is told of executions that began
// before. False means that more has to be read.
func (t *tape) beginning(own string) (at int, ok bool) {
	if t.from == 0 {
		return 0, true
	}
	begun := map[string]bool{}
	missing := map[string]bool{own: true}
	for i, e := range slices.Backward(t.events) {
		id := ""
		switch b := e.GetBody().(type) {
		case *meshv1.Event_TaskOpened:
			id = b.TaskOpened.GetExecution().GetId()
		case *meshv1.Event_DispatchIssued:
			id = b.DispatchIssued.GetChild().GetId()
		}
		if id != "" {
			begun[id] = true
			delete(missing, id)
		}
		x := e.GetExecutionId()
		if x != "" && !begun[x] {
			missing[x] = true
		}
		// The first message of a turn stands before what opens it.
		if _, said := e.GetBody().(*meshv1.Event_MessagePosted); said && len(missing) == 0 {
			at, ok = i, true
		}
	}
	return at, ok
}

// catchUp reads what comes after the tape; of a thread that was not read yet, its
// last events.
func (m *Mesh) catchUp(ctx context.Context) error {
	if m.tape.end == 0 {
		events, more, err := m.page(ctx, 0, firstPage)
		if err != nil || len(events) == 0 {
			return err
		}
		first := tape{events: events, end: events[len(events)-1].GetSeq()}
		if more {
			near, err := m.nearEnd(ctx, first.end)
			if err != nil {
				return err
			}
			if near > first.end {
				first = tape{from: near, end: near}
			}
		}
		m.tape = first
		if !more {
			return nil
		}
	}
	events, err := m.span(ctx, m.tape.end, 0)
	if err != nil {
		return err
	}
	if n := len(events); n > 0 {
		m.tape.events, m.tape.end = append(m.tape.events, events...), events[n-1].GetSeq()
	}
	return nil
}

// nearEnd returns a Seq at most a page before the thread's last one, or the given
// one, which is there, if that is as near. It asks for single events: as often as
// the length of the thread has digits, about, for its end can only be found so.
func (m *Mesh) nearEnd(ctx context.Context, there int64) (int64, error) {
	step, beyond := there, int64(0)
	for beyond == 0 || beyond-there > firstPage {
		probe := there + step
		if beyond > 0 {
			probe = there + (beyond-there)/2
		}
		events, _, err := m.page(ctx, probe, 1)
		if err != nil {
			return 0, err
		}
		if len(events) > 0 {
			there = events[0].GetSeq()
		} else {
			beyond = probe
		}
		step *= 4
	}
	return there, nil
}

// goBack reads as much again of what comes before the tape.
func (m *Mesh) goBack(ctx context.Context) error {
	from := max(0, m.tape.from-int64(max(len(m.tape.events), firstPage)))
	events, err := m.span(ctx, from, m.tape.from)
	if err != nil {
		return err
	}
	m.tape.events, m.tape.from = slices.Concat(events, m.tape.events), from
	return nil
}

// span reads the events after a Seq and, if to is not 0, up to that one.
func (m *Mesh) span(ctx context.Context, after, to int64) (out []*meshv1.Event, err error) {
	for more := true; more && (to == 0 || after < to); {
		most := int64(pageSize)
		if to > 0 {
			most = min(most, to-after)
		}
		var events []*meshv1.Event
		if events, more, err = m.page(ctx, after, most); err != nil {
			return nil, err
		}
		for _, e := range events {
			if after = e.GetSeq(); to > 0 && after > to {
				return out, nil
			}
			out = append(out, e)
		}
		if len(events) == 0 {
			break
		}
	}
	return out, nil
}

func (m *Mesh) page(ctx context.Context, after, limit int64) (events []*meshv1.Event, more bool, err error) {
	res, err := m.threads.ReadThread(m.Context(ctx), &meshv1.ReadThreadRequest{
		ThreadId: m.grant.Thread, AfterSeq: after, Limit: int32(limit),
	})
	if err != nil {
		return nil, false, failed("agent.read", err)
	}
	return res.GetEvents(), res.GetMore(), nil
}
