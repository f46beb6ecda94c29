package runs

import (
	"cmp"
	"context"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread"
)

// Config is what a Runner cannot work without (Edge, Threads, KV), and what it
// can choose.
type Config struct {
	Edge    Edge
	Threads Threads
	KV      KV
	// ReadByRole is told of lists with runs of others, which only a role lets somebody see.
	// The default is nobody.
	ReadByRole func(ctx context.Context, what string)
	// Agent is the agent that runs skills without a model; default "worker".
	Agent string
	// Wait is how long RunSkill waits for the end of a run; default 5 min.
	Wait time.Duration
}

// A Runner runs skills, and lists what ran by schedule. Use New.
type Runner struct {
	Config
	journal journal
}

// New returns a Runner. The error is Invalid.
func New(c Config) (*Runner, error) {
	const op = "runs.New"
	c.Agent, c.Wait = cmp.Or(c.Agent, "worker"), cmp.Or(c.Wait, 5*time.Minute)
	switch {
	case c.Edge == nil || c.Threads == nil || c.KV == nil:
		return nil, mesh.Errorf(mesh.Invalid, op, "a runner needs an edge, threads and a store")
	case !mesh.ValidAgentName(c.Agent):
		return nil, mesh.InvalidField(op, "Agent", "must be the name of an agent, and is %q", c.Agent)
	case c.Wait < 0:
		return nil, mesh.InvalidField(op, "Wait", "must not be negative")
	}
	if c.ReadByRole == nil {
		c.ReadByRole = func(context.Context, string) {}
	}
	return &Runner{Config: c, journal: journal{c.KV}}, nil
}

// RunSkill runs a skill as a turn of a thread for the caller of ctx. It returns
// when the run is over or waits for an approval; or, while it still works, when
// Wait or shortly before the caller's deadline has passed: then the state says
// so, and the run goes on; it does so at once where the request wants it. A caller
// that leaves does not end the run either.
//
// A request id makes that at most one run, whose thread, unless one is named,
// follows from tenant, user and id. The same id with another skill, or with
// other arguments, is an Invalid error that names request_id.
func (r *Runner) RunSkill(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	switch source := cmp.Or(req.GetSource(), mesh.SourceRun); source {
	case mesh.SourceRun, mesh.SourceMCP:
		return r.Run(ctx, source, req)
	default:
		return nil, mesh.InvalidField("runs.RunSkill", "source", "must be %s or %s, and is %q", mesh.SourceRun, mesh.SourceMCP, mesh.Clip(source, 32))
	}
}

// Run is RunSkill for a caller who says in which way the skill was called: one
// of the mesh.Source constants.
func (r *Runner) Run(ctx context.Context, source string, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	const op = "runs.RunSkill"
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return nil, mesh.Errorf(mesh.Unknown, op, "")
	}
	o, err := r.order(call, source, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	acc, err := r.begin(ctx, o)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if req.GetReturnImmediately() {
		return r.respond(ctx, o, acc.Task)
	}
	task, err := r.wait(mesh.WithCall(ctx, o.call), acc, r.patience(ctx))
	if err != nil {
		return nil, mesh.Errorf(mesh.CodeOf(err), op, "The run goes on as task %s of thread %s; ask for that later: %w", acc.Task.GetId(), o.key.ID, err)
	}
	return r.respond(ctx, o, task)
}

// respond tells of the task, and whether its question is about a call that wants
// the user's approval.
func (r *Runner) respond(ctx context.Context, o *order, t *a2apb.Task) (*meshv1.RunSkillResponse, error) {
	res := answer(t)
	if !mesh.Interrupted(res.State) {
		return res, nil
	}
	err := r.Threads.With(ctx, o.key, func(s *thread.State) error {
		for _, x := range s.Executions() {
			of := s.TurnOf(x.ID)
			res.AsksApproval = res.AsksApproval || of != nil && string(of.ID) == res.TaskId &&
				slices.ContainsFunc(x.Approvals, func(a thread.Approval) bool { return a.Asking })
		}
		return nil
	})
	return res, mesh.Wrap("runs.respond", err)
}

// patience is how long to wait for a run: so that the caller still hears of it.
func (r *Runner) patience(ctx context.Context) time.Duration {
	const margin = 500 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok {
		return max(0, min(r.Wait, time.Until(deadline)-margin))
	}
	return r.Wait
}

// begin has the run begin, or finds the one that began under the same request
// id.
func (r *Runner) begin(ctx context.Context, o *order) (*a2a.Accepted, error) {
	if o.named {
		if acc, err := r.find(ctx, o); acc != nil || err != nil {
			return acc, err
		}
	}
	acc, err := r.Edge.Send(mesh.WithCall(ctx, o.call), &a2apb.SendMessageRequest{Message: o.message})
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, mesh.Errorf(mesh.Precondition, "runs.begin", "There is no agent %q here, which would run the skill; ask the operator: %w", r.Agent, err)
	}
	return acc, err
}

// find returns the run of that order which has begun, or nil. The error is
// Invalid if it is that of another order.
func (r *Runner) find(ctx context.Context, o *order) (*a2a.Accepted, error) {
	var id mesh.ExecutionID
	err := r.Threads.With(ctx, o.key, func(s *thread.State) error {
		for _, p := range s.Posted(o.message.GetMessageId()) {
			if p.User == o.call.Principal.User {
				id = p.Task
			}
		}
		return nil
	})
	if err != nil || id == "" {
		return nil, err
	}
	task, cursor, err := r.Edge.Task(mesh.WithCall(ctx, o.call), string(id))
	if err != nil {
		return nil, err
	}
	for _, m := range task.GetHistory() {
		if m.GetMessageId() == o.message.GetMessageId() && !o.same(m) {
			return nil, mesh.InvalidField("runs.find", "request_id", "was used for another call of a skill; choose a new one for each call")
		}
	}
	return &a2a.Accepted{Task: task, Cursor: cursor}, nil
}

// wait returns the task when nothing more happens to it by itself, or as it is
// after so long. ctx is of the user whose task it is.
func (r *Runner) wait(ctx context.Context, acc *a2a.Accepted, most time.Duration) (*a2apb.Task, error) {
	id := acc.Task.GetId()
	if resting(acc.Task.GetStatus().GetState()) {
		return acc.Task, nil
	}
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for u, err := range r.Edge.Updates(limited, id, acc.Cursor) {
		if err != nil {
			if limited.Err() != nil && ctx.Err() == nil {
				break
			}
			return nil, err
		}
		if s, ok := a2a.StateOf(u.Response); ok && resting(s) {
			break
		}
	}
	task, _, err := r.Edge.Task(ctx, id)
	return task, err
}

// resting reports whether nothing more happens to the task by itself.
func resting(s mesh.TaskState) bool { return mesh.Terminal(s) || mesh.Interrupted(s) }
