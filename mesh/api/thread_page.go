package api

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

const (
	maxPage = mesh.MaxPage // of events, in bytes
	// readAhead is how many events are read at a time: what does not fit on the
	// page is read in vain, and an event may have 1 MiB.
	readAhead = 32
)

// A seqRange is the events of a thread that may be seen under the grant and are still to be
// read, as spans in order; a tail is read from its end.
type seqRange struct {
	key   mesh.ThreadKey
	grant *mesh.Grant
	spans []thread.Span
	tail  bool
}

// ReadThread implements meshv1.ThreadServiceServer.
func (s *Threads) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	const op, most, usual = "api.ReadThread", 1000, 100
	key, info, p, err := s.existing(ctx, op, req.GetThreadId(), req.GetAfterSeq())
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(int(req.GetLimit()), usual)
	switch {
	case limit < 1 || limit > most:
		return nil, mesh.InvalidField(op, "limit", "is %d; it must be 1 to %d", limit, most)
	case req.GetBeforeSeq() < 0:
		return nil, mesh.InvalidField(op, "before_seq", "is %d; it must be the seq of an event, or 0", req.GetBeforeSeq())
	}
	after, last := mesh.Seq(req.GetAfterSeq()), info.Last
	if before := req.GetBeforeSeq(); before > 0 {
		last = min(last, mesh.Seq(before)-1)
	}
	in := seqRange{key: key, grant: p.Grant, tail: req.GetTail()}
	if in.spans, err = s.spans(ctx, req.GetBrief(), in, after, last); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	asked, resp := slices.Clone(in.spans), &meshv1.ReadThreadResponse{}
	if resp.Events, resp.More, err = s.page(ctx, in, limit); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, e := range resp.Events {
		if at := mesh.Seq(e.GetSeq()); at > after+1 && startsOne(asked, at) {
			resp.LeftOut = append(resp.LeftOut, e.GetSeq())
		}
	}
	return resp, nil
}

// spans are what there is to read above after and up to last.
func (s *Threads) spans(ctx context.Context, brief bool, in seqRange, after, last mesh.Seq) (spans []thread.Span, err error) {
	if after >= last {
		return nil, nil
	}
	if !brief {
		return []thread.Span{{From: after + 1, To: last}}, nil
	}
	return spans, s.states.With(ctx, in.key, func(st *thread.State) error {
		spans = st.Part(in.grant).Brief(after, last)
		return nil
	})
}

// startsOne reports whether one of the spans begins there.
func startsOne(spans []thread.Span, at mesh.Seq) bool {
	_, ok := slices.BinarySearchFunc(spans, at, func(s thread.Span, at mesh.Seq) int { return cmp.Compare(s.From, at) })
	return ok
}

// page returns the first events that may be seen or, of a tail, the last ones, in order: as
// many as limit and maxPage allow but at least one if there are any; and whether there are
// more.
func (s *Threads) page(ctx context.Context, in seqRange, limit int) (out []*meshv1.Event, more bool, err error) {
	size := 0
	if in.tail {
		defer func() { slices.Reverse(out) }()
	}
	for len(in.spans) > 0 {
		events, err := s.next(ctx, &in, limit-len(out)+1)
		if err != nil {
			return out, false, err
		}
		for _, e := range events {
			p := eventpb.EventToProto(e)
			if size += proto.Size(p); len(out) == limit || size > maxPage && len(out) > 0 {
				return out, true, nil
			}
			out = append(out, p)
		}
	}
	return out, false, nil
}

// next takes the next events from the range, of a tail the last one first, no more than are
// wanted, and returns those that may be seen.
func (s *Threads) next(ctx context.Context, in *seqRange, want int) ([]*mesh.Event, error) {
	at := 0
	if in.tail {
		at = len(in.spans) - 1
	}
	span := in.spans[at]
	after, last := span.From-1, span.To
	if !in.grant.ReadsAll() {
		want = readAhead
		err := s.states.With(ctx, in.key, func(st *thread.State) error {
			after, last = st.Part(in.grant).Within(after, last)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	n := min(readAhead, mesh.Seq(want), last-after)
	from := after
	if in.tail {
		from = last - n
	}
	var events []*mesh.Event
	if n > 0 {
		var err error
		if events, err = s.log.Read(ctx, in.key, from, int(n)); err != nil {
			return nil, err
		}
	}
	switch {
	case len(events) == 0: // there is nothing to see here, or it was deleted just now
		span.To = span.From - 1
	case in.tail:
		span = thread.Span{From: after + 1, To: from}
		events = slices.Clone(events)
		slices.Reverse(events)
	default:
		span = thread.Span{From: events[len(events)-1].Seq + 1, To: last}
	}
	if in.spans[at] = span; span.From > span.To {
		in.spans = slices.Delete(in.spans, at, at+1)
	}
	return s.show(ctx, in.key, in.grant, events...)
}

// show returns of the events what may be seen under the grant.
func (s *Threads) show(ctx context.Context, key mesh.ThreadKey, g *mesh.Grant, events ...*mesh.Event) (shown []*mesh.Event, err error) {
	if g.ReadsAll() {
		return events, nil
	}
	return shown, s.states.With(ctx, key, func(st *thread.State) error {
		for _, e := range events {
			if e = st.Part(g).Show(e); e != nil {
				shown = append(shown, e)
			}
		}
		return nil
	})
}

// widens ends what is followed under the grant where the event has more become its part that
// was passed over.
func (s *Threads) widens(ctx context.Context, op string, key mesh.ThreadKey, g *mesh.Grant, e *mesh.Event) error {
	if g.ReadsAll() {
		return nil
	}
	return s.states.With(ctx, key, func(st *thread.State) error {
		if st.Part(g).Widens(e) {
			return mesh.Errorf(mesh.Conflict, op, "%s has the user's stream in another turn too, and may read more of the thread than before; follow it anew, from after_seq 0", g.Agent)
		}
		return nil
	})
}

// mayGoOn refuses who has followed up to the event what comes after it. Under a grant that is
// so by the event that ended its execution, and not before, however late it is followed.
func (s *Threads) mayGoOn(ctx context.Context, op string, key mesh.ThreadKey, p mesh.Principal, e *mesh.Event) error {
	switch {
	case p.Grant == nil && thread.Reshares(e):
		return s.mayRead(ctx, op, key, p)
	case p.Grant == nil || !mayEnd(e):
		return nil
	}
	return s.states.With(ctx, key, func(st *thread.State) error {
		if x := st.Execution(p.Grant.Execution); x != nil && x.Ended > e.Seq {
			return nil
		}
		return atWork(op, st, p.Grant)
	})
}

// mayEnd reports whether an execution may be over by the event.
func mayEnd(e *mesh.Event) bool {
	switch e.Body.(type) {
	case mesh.TaskMoved, mesh.DispatchSettled:
		return true
	}
	return false
}
