package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// Bounds of a thread that is imported, which is in memory until it is all there.
const (
	maxImported      = 1_000_000
	maxImportedBytes = 256 << 20
)

// maxEpoch bounds epochs of claims, so that there are further ones.
const maxEpoch = 1 << 53

// WithImport has threads imported, of which settle returns the events that end what is not
// over. It returns s, and is called before s serves.
func (s *Threads) WithImport(settle func([]*mesh.Event) []*mesh.Event) *Threads {
	s.settle = settle
	return s
}

// ImportThread implements meshv1.ThreadServiceServer.
func (s *Threads) ImportThread(stream grpc.ClientStreamingServer[meshv1.ImportThreadRequest, meshv1.ImportThreadResponse]) error {
	const op = "api.ImportThread"
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
	}
	key, call, err := keyFor(ctx, op, first.GetThreadId())
	switch {
	case err != nil:
		return err
	case call.Thread == "": // which the record has
		return mesh.InvalidField(op, "thread-id", "is missing in the metadata; send the id of the thread there too")
	}
	if err := s.free(ctx, op, key); err != nil {
		return err
	}
	in := importing{of: key.ID, total: first.GetTotal(), ids: map[string]bool{}}
	for req := first; ; {
		if err := in.add(op, req.GetEvents()); err != nil {
			return err
		}
		if req, err = stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
		}
	}
	resp, err := s.begin(ctx, op, key, &in)
	if err != nil {
		return err
	}
	return stream.SendAndClose(resp)
}

// free refuses the id of a thread that there is.
func (s *Threads) free(ctx context.Context, op string, key mesh.ThreadKey) error {
	_, there, err := s.log.Info(ctx, key)
	if err != nil || !there {
		return mesh.Wrap(op, err)
	}
	return taken(op, key)
}

func taken(op string, key mesh.ThreadKey) error {
	e := mesh.Errorf(mesh.Precondition, op, "The tenant has a thread %s already; delete it first, or import under another id", key.ID)
	e.Field = "thread_id"
	return e
}

// begin begins the thread with what came.
func (s *Threads) begin(ctx context.Context, op string, key mesh.ThreadKey, in *importing) (*meshv1.ImportThreadResponse, error) {
	if n := int64(len(in.events)); n == 0 || n != in.total {
		return nil, mesh.InvalidField(op, "total", "is %d, and %d events came; send all of a thread that has some", in.total, n)
	}
	if !in.opened {
		return nil, mesh.InvalidField(op, "events", "open no task of a user, as every thread does")
	}
	ends := s.settle(in.events)
	all := append(in.events, ends...)
	_, err := s.log.Append(ctx, key, all, threadlog.AppendOptions{Begins: true, Settled: mesh.Seq(len(all))})
	if mesh.IsCode(err, mesh.Conflict) { // another one was faster
		if busy := s.free(ctx, op, key); busy != nil {
			err = busy
		}
	}
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	resp := &meshv1.ImportThreadResponse{}
	for _, e := range ends {
		if _, ok := e.Body.(mesh.TaskMoved); ok {
			resp.Ended++
		}
	}
	return resp, s.states.With(ctx, key, func(st *thread.State) error {
		resp.Thread = s.describe(key, st)
		return nil
	})
}

// An importing is a thread of which not all has come.
type importing struct {
	of     string
	total  int64
	events []*mesh.Event
	ids    map[string]bool
	size   int
	epoch  mesh.Epoch
	opened bool // a task of a user is opened
}

// add takes the next events. Its errors name the event and the field.
func (in *importing) add(op string, events []*meshv1.Event) error {
	for _, p := range events {
		n := len(in.events)
		bad := func(field, format string, args ...any) error {
			return mesh.InvalidField(op, fmt.Sprintf("events[%d].%s", n, field), format, args...)
		}
		if in.size += proto.Size(p); n == maxImported || in.size > maxImportedBytes {
			return mesh.Errorf(mesh.Exhausted, op, "A thread that is imported may have %d events and %d bytes, and this one has more", maxImported, maxImportedBytes)
		}
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			return bad(mesh.FieldOf(err), "%s", mesh.DetailOf(err))
		}
		of, whole := e.Execution.ThreadID()
		claim, claims := thread.ClaimOf(e)
		switch {
		case e.Seq != mesh.Seq(n+1):
			return bad("seq", "is %d, and must be %d: a thread has all seqs from 1 on", e.Seq, n+1)
		case e.Time.IsZero():
			return bad("time", "is missing")
		case e.ID != "" && in.ids[e.ID]:
			return bad("id", "is that of an earlier event, %q", clip(e.ID))
		case e.Execution != "" && (!whole || of != in.of):
			return bad("execution_id", "is %q, which is none of the thread %s", clip(string(e.Execution)), in.of)
		case claims && (claim <= in.epoch || claim > maxEpoch):
			return bad("thread_claimed.epoch", "is %d, and must be above %d, and at most %d", claim, in.epoch, int64(maxEpoch))
		}
		if claims {
			in.epoch = claim
		}
		in.ids[e.ID], in.opened = true, in.opened || thread.OpensTurn(e)
		in.events = append(in.events, e)
	}
	return nil
}
