package edge

import (
	"context"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// longTask is how many events are read of the log at most where a digest has the same in short.
const longTask = 4096

// snapshot assembles the task as it was at the given Seq, as the caller sees it and takes it: a
// bare one without artifacts, for which long output need not be read.
func (e *Edge) snapshot(ctx context.Context, call mesh.Call, key mesh.ThreadKey, id mesh.ExecutionID, at mesh.Seq, bare bool) (*a2apb.Task, error) {
	const op = "edge.snapshot"
	kept, err := e.finished(ctx, key, id, bare)
	if err != nil {
		return nil, err
	}
	if kept != nil && at >= kept.ended {
		return e.shown(call, key, kept, bare), nil
	}
	info, _, err := e.Log.Info(ctx, key)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	f := &finished{first: info.FirstPos}
	turn := thread.Long{Turn: id, To: at}
	err = e.States.With(ctx, key, func(s *thread.State) error {
		t := s.Turn(id)
		if t == nil {
			return mesh.TaskNotFound(op)
		}
		f.agent, f.named, f.ended, f.owned = t.Agent, t.Context, t.Ended, thread.Access{Owner: s.Owner}
		turn.From = t.Opened
		return nil
	})
	if err != nil {
		return nil, err
	}
	snap := thread.NewSnapshot(key.ID, id)
	if bare {
		snap.Within(0)
	} else if call.Room > 0 {
		snap.Within(call.Room)
	}
	if err := e.assemble(ctx, key, turn, snap); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	task, last := snap.Task()
	if f.task = task; bare {
		task.Artifacts = nil
	}
	if f.ended != 0 && last >= f.ended && (bare || !snap.Full()) { // a part is one caller's
		e.keep(key, f, bare)
	}
	return e.shown(call, key, f, bare), nil
}

// assemble gives the snapshot the events of the turn. When it is full, what is output alone is
// not read any more.
func (e *Edge) assemble(ctx context.Context, key mesh.ThreadKey, t thread.Long, snap *thread.Snapshot) (err error) {
	after := t.From - 1
	if !snap.Full() {
		if after, err = e.read(ctx, key, t, []thread.Span{{From: t.From, To: t.To}}, func(ev *mesh.Event) bool {
			snap.Apply(ev)
			return !snap.Full()
		}); err != nil {
			return err
		}
	}
	if after < t.To {
		var spans []thread.Span
		if err := e.States.With(ctx, key, func(s *thread.State) error {
			spans = s.BesideOutput(after, t.To)
			return nil
		}); err != nil {
			return err
		}
		if _, err := e.read(ctx, key, t, spans, func(ev *mesh.Event) bool {
			snap.Apply(ev)
			return true
		}); err != nil {
			return err
		}
	}
	return nil
}

// read gives the events of the spans, which end with the turn, until to returns false, and
// returns up to where that is: from the digest of the turn, where that is less than the log has.
func (e *Edge) read(ctx context.Context, key mesh.ThreadKey, t thread.Long, spans []thread.Span, to func(*mesh.Event) bool) (mesh.Seq, error) {
	var events mesh.Seq
	for _, s := range spans {
		events += s.To - s.From + 1
	}
	if e.Digests != nil && events > longTask {
		return e.Digests.Read(ctx, key, t, spans[0].From-1, to)
	}
	for _, s := range spans {
		if at, err := e.apply(ctx, key, s, to); err != nil || at < s.To {
			return at, err
		}
	}
	return t.To, nil
}

// apply gives the events of the span, as far as they are there, until to returns false, and
// returns up to where that is.
func (e *Edge) apply(ctx context.Context, key mesh.ThreadKey, span thread.Span, to func(*mesh.Event) bool) (mesh.Seq, error) {
	const page = 256
	for span.From <= span.To {
		events, err := e.Log.Read(ctx, key, span.From-1, int(min(page, span.To-span.From+1)))
		if err != nil || len(events) == 0 {
			return span.To, err
		}
		for _, ev := range events {
			if !to(ev) {
				return ev.Seq, nil
			}
		}
		span.From = events[len(events)-1].Seq + 1
	}
	return span.To, nil
}
