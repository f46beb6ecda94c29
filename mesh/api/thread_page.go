package api

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

const (
	// maxPage bounds a page of events, in bytes, below what a client receives.
	maxPage = 2 << 20
	// readAhead is how many events are read at a time: what does not fit on the
	// page is read in vain, and an event may have 1 MiB.
	readAhead = 32
)

// A seqRange is the events of a thread with a Seq above after and up to last.
type seqRange struct {
	key         mesh.ThreadKey
	after, last mesh.Seq
}

// ReadThread implements meshv1.ThreadServiceServer.
func (s *Threads) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	const op, most, usual = "api.ReadThread", 1000, 100
	key, tail, _, err := s.existing(ctx, op, req.GetThreadId(), req.GetAfterSeq())
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
	in := seqRange{key, mesh.Seq(req.GetAfterSeq()), tail}
	if before := req.GetBeforeSeq(); before > 0 {
		in.last = min(in.last, mesh.Seq(before)-1)
	}
	page := s.head
	if req.GetTail() {
		page = s.tail
	}
	resp := &meshv1.ReadThreadResponse{}
	resp.Events, resp.More, err = page(ctx, in, limit)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return resp, nil
}

// head returns the first events, as many as limit and maxPage allow but at least
// one if there are any, and whether there are more.
func (s *Threads) head(ctx context.Context, in seqRange, limit int) (out []*meshv1.Event, more bool, err error) {
	size := 0
	for len(out) < limit && in.after < in.last {
		events, err := s.log.Read(ctx, in.key, in.after, int(min(readAhead, mesh.Seq(limit-len(out)), in.last-in.after)))
		if err != nil || len(events) == 0 { // none: it was deleted just now
			return out, false, err
		}
		for _, e := range events {
			p := eventpb.EventToProto(e)
			if size += proto.Size(p); size > maxPage && len(out) > 0 {
				return out, true, nil
			}
			out, in.after = append(out, p), e.Seq
		}
	}
	return out, in.after < in.last, nil
}

// tail is like head, and returns the last events, in order.
func (s *Threads) tail(ctx context.Context, in seqRange, limit int) (out []*meshv1.Event, more bool, err error) {
	size := 0
	defer func() { slices.Reverse(out) }()
	for len(out) < limit && in.after < in.last {
		n := min(readAhead, mesh.Seq(limit-len(out)), in.last-in.after)
		events, err := s.log.Read(ctx, in.key, in.last-n, int(n))
		if err != nil || len(events) == 0 {
			return out, false, err
		}
		for _, e := range slices.Backward(events) {
			p := eventpb.EventToProto(e)
			if size += proto.Size(p); size > maxPage && len(out) > 0 {
				return out, true, nil
			}
			out, in.last = append(out, p), e.Seq-1
		}
	}
	return out, in.after < in.last, nil
}
