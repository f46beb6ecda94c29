// Package runs has skills run without a conversation: because somebody named
// one, or because its schedule is due.
//
// A [Runner] runs a skill as a turn of a thread, for a user, by a message to
// the agent that runs skills without a model. The run is as any other turn: it
// is in the thread's log, it goes on when its caller leaves, and it may ask for
// an approval. With a request id it happens at most once, however often it is
// asked for.
//
// A [Scheduler] does so whenever the schedule of a skill is due (see
// [skill.Next]), each time in a thread of its own, and records it. It
// guarantees:
//
//   - A due time is claimed by a compare-and-set before anything runs, so that
//     of several nodes one runs it; what a node has claimed and not settled when
//     it dies is settled by the next one that starts, from the thread's log.
//   - Due times that were missed because no node was there are not made up for,
//     but for the last one, if it is not later than CatchUp. All others are
//     recorded as missed.
//   - A due time that comes while the skill's last run still goes on, or waits
//     for the user's answer, is recorded as missed.
//   - No due time is run twice because a clock is set back. One that was more than
//     a day ahead has the count begin again when it is right.
//   - Due runs begin in turns: of tenants, and of the users of each. However many
//     schedules of one tenant are due, another's are a turn away.
//   - A schedule that is new, or another than before, begins to count when a
//     scheduler first sees it.
//
// The nodes of a mesh must have the same skills: a node that knows another
// schedule of a skill than its neighbour starts the count again.
//
// All types are safe for concurrent use. Scheduler.Run owns all goroutines. The
// package runs nothing itself, and has no queue: what is not claimed is in no
// memory.
package runs

import (
	"context"
	"iter"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// An Edge is where users talk to the mesh: an *edge.Edge. What its methods
// promise is said at [a2a.Service].
type Edge interface {
	Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error)
	Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error)
	Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error]
	Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error)
}

// Threads tells what has been said in a thread: a *cache.States.
type Threads interface {
	With(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) error) error
}

// KV keeps what is planned and what ran: a *state.KV. The values are the
// operator's own, which no agent reaches; their names begin with the tenant.
type KV interface {
	Get(ctx context.Context, key state.Key) (state.Value, error)
	Put(ctx context.Context, key state.Key, data []byte, version int64) (int64, error)
	Delete(ctx context.Context, key state.Key, version int64) error
	List(ctx context.Context, p state.Page) ([]state.Item, bool, error)
}

// A Library tells which skills there are: a *skill.Library.
type Library interface {
	// Tenants returns the tenants that have skills of their own.
	Tenants() []mesh.TenantID
	// Watch yields all skills that the tenant has, then skill.ChangeSynced,
	// then each change until ctx is done, whose error it yields last.
	Watch(ctx context.Context, t mesh.TenantID) iter.Seq2[skill.Change, error]
}
