package dispatch

import (
	"context"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// maxAdoptions is how often in a row an agent's work that was cut off goes on without
// coming on.
const maxAdoptions = 3

// goOn has the job go on as the log has its execution. d.mu is held, or nobody else has
// the job.
func (j *job) goOn(x *thread.Execution, did *thread.Actions, continued bool) {
	j.resume = &resume{task: x.RemoteTask, instance: x.Instance, said: did.Output(x.ID), continued: continued, message: did.Mission(x.ID), answers: x.WentOn != "", updates: x.Artifacts}
	if continued && !x.Deadline.IsZero() {
		j.left = x.Left()
	}
}

// readopt has a job go on whose agent, or its task, was lost while it worked; false if it
// went on too often.
func (d *Dispatcher) readopt(ctx context.Context, j *job) bool {
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		return false
	}
	x := did.Execution(j.exec.ID)
	if x == nil || mesh.Terminal(x.State) || x.Adoptions >= maxAdoptions {
		return false
	}
	j.goOn(x, did, true)
	return true
}

// patient reports whether an agent that died before its first word is waited for as one that
// died after it: who can do without it is not.
func (d *Dispatcher) patient() bool { return d.opts.ReturnTime >= d.opts.AdoptTime }

// returning reports whether agents that nobody knows may be about to come back, as the
// execution does that was cut off, or the node was away.
func (d *Dispatcher) returning() bool {
	return d.inv.Continued || d.inv.Mesh.Away(d.opts.AdoptTime)
}

// find is choose where agents may be about to come back, as the job's own was cut off, or
// the execution, or the node was away, or the agent was live a moment ago: it waits for a
// while until the agent is live again.
func (d *Dispatcher) find(ctx context.Context, j *job) (*meshv1.Agent, error) {
	const least, most = 20 * time.Millisecond, time.Second
	over := time.Now().Add(d.opts.AdoptTime)
	for wait := least; ; wait = min(2*wait, most) {
		to, err := d.choose(ctx, j)
		back := j.cutOff() || d.returning()
		if err == nil && j.cutOff() && callee(to).Holder(j.resume.instance).Missing() {
			back = d.returning() // others may be the first to come back
		} else if err == nil {
			return to, nil
		}
		if !back && err != nil && to.GetGone() != nil { // it may be back, where it was there just now
			back, over = true, earlier(over, to.GetGone().AsTime().Add(d.opts.ReturnTime))
		}
		if !back || !time.Now().Before(over) {
			return to, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// continued is what an agent is told again whose work was cut off, and the event that says
// so.
func (d *Dispatcher) continued(j *job) (*a2apb.Message, *mesh.Event) {
	began := a2a.ContinuesFirst
	m := proto.CloneOf(j.resume.message)
	if j.resume.answers || m == nil {
		began, m = a2a.ContinuesAnswer, d.answer(j)
	}
	m.Metadata = a2a.SetExtension(m.Metadata, map[string]*structpb.Value{
		a2a.KeyContinues: structpb.NewStringValue(began), a2a.KeyUpdates: structpb.NewNumberValue(float64(j.resume.updates)),
	})
	return m, &mesh.Event{Execution: j.exec.ID, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonContinued}}
}

// answer is the message for an agent that waited for it: the user's, or what was answered
// when it asked for help; the same each time.
func (d *Dispatcher) answer(j *job) *a2apb.Message {
	if j.reply != nil {
		return proto.CloneOf(j.reply)
	}
	m := message(d.inv.Thread.ID, "", j.Order)
	m.MessageId, m.Parts = d.inv.Message.GetMessageId()+"-"+string(j.exec.ID), d.inv.Message.GetParts()
	return m
}

// unknown is how the work of an agent of others ended that was cut off, and of which
// nobody can say more.
func unknown() mesh.TaskMoved { return call.Failure(mesh.ReasonUnknown, text.AgentInterrupted()) }
