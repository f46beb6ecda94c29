package transfer

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// Bounds of a thread that is imported, which is in memory until it is all there.
const (
	MaxEvents = 1_000_000
	MaxBytes  = 256 << 20
)

// maxEpoch bounds epochs of claims, so that there are further ones.
const maxEpoch = 1 << 53

// Threads begins threads with the events of others. It may be used concurrently.
type Threads struct {
	Log *threadlog.Log
	// Settle returns the events that end what is not over in a thread of these events.
	Settle func([]*mesh.Event) []*mesh.Event
}

// Free refuses the id of a thread that there is, as Precondition.
func (t *Threads) Free(ctx context.Context, op string, key mesh.ThreadKey) error {
	_, there, err := t.Log.Info(ctx, key)
	if err != nil || !there {
		return mesh.Wrap(op, err)
	}
	e := mesh.Errorf(mesh.Precondition, op, "The tenant has a thread %s already; delete it first, or import under another id", key.ID)
	e.Field = "thread_id"
	return e
}

// Begin begins the thread with what came, and returns how many tasks were not over and are
// ended. Errors: Invalid if that is not what was said, Precondition if there is such a thread.
func (t *Threads) Begin(ctx context.Context, op string, key mesh.ThreadKey, in *Incoming) (ended int, err error) {
	if n := int64(len(in.events)); n == 0 || n != in.total {
		return 0, mesh.InvalidField(op, "total", "is %d, and %d events came; send all of a thread that has some", in.total, n)
	}
	if !in.opened {
		return 0, mesh.InvalidField(op, "events", "open no task of a user, as every thread does")
	}
	ends := t.Settle(in.events)
	all := append(in.events, ends...)
	_, err = t.Log.Append(ctx, key, all, threadlog.AppendOptions{Begins: true, Settled: mesh.Seq(len(all))})
	if mesh.IsCode(err, mesh.Conflict) { // another one was faster
		if busy := t.Free(ctx, op, key); busy != nil {
			err = busy
		}
	}
	for _, e := range ends {
		if _, ok := e.Body.(mesh.TaskMoved); ok {
			ended++
		}
	}
	return ended, mesh.Wrap(op, err)
}

// Incoming is a thread of which not all has come. Use [NewIncoming].
type Incoming struct {
	of     string
	total  int64
	events []*mesh.Event
	ids    map[string]bool
	size   int
	epoch  mesh.Epoch
	opened bool // a task of a user is opened
}

// NewIncoming returns the thread of that id, of which so many events are to come.
func NewIncoming(id string, total int64) *Incoming {
	return &Incoming{of: id, total: total, ids: map[string]bool{}}
}

// Add takes the next events. Its errors name the event and the field; Exhausted is one too many.
func (in *Incoming) Add(op string, events []*meshv1.Event) error {
	for _, p := range events {
		n := len(in.events)
		bad := func(field, format string, args ...any) error {
			return mesh.InvalidField(op, fmt.Sprintf("events[%d].%s", n, field), format, args...)
		}
		if in.size += proto.Size(p); n == MaxEvents || in.size > MaxBytes {
			return mesh.Errorf(mesh.Exhausted, op, "A thread that is imported may have %d events and %d bytes, and this one has more", MaxEvents, MaxBytes)
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
			return bad("id", "is that of an earlier event, %q", mesh.Clip(e.ID, maxShown))
		case e.Execution != "" && (!whole || of != in.of):
			return bad("execution_id", "is %q, which is none of the thread %s", mesh.Clip(string(e.Execution), maxShown), in.of)
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

// maxShown bounds what is shown of what was given, in bytes.
const maxShown = 64
