package api

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog/eventpb"
)

// Bounds of what callers say to executions, in bytes.
const (
	maxInstruction  = 16 << 10
	maxWhy          = 1000
	maxRequestID    = 100
	maxShownContent = 4 << 10 // of what a skill returned
)

// Executions serves ExecutionService. Use NewExecutions.
type Executions struct {
	meshv1.UnimplementedExecutionServiceServer
	threads *Threads
	ends    func(ctx context.Context, key mesh.ThreadKey, waiting []thread.Execution)
	reads   func(tenant mesh.TenantID, agent string) bool
}

// NewExecutions returns the server of the executions in the threads. ends tells the agents
// of executions that waited for the user, and are over, without waiting; reads reports whether
// an agent reads what it is told while it is at work.
func NewExecutions(threads *Threads, ends func(ctx context.Context, key mesh.ThreadKey, waiting []thread.Execution), reads func(tenant mesh.TenantID, agent string) bool) *Executions {
	return &Executions{threads: threads, ends: ends, reads: reads}
}

// The outcomes of what was asked of an execution.
const (
	outcomeCancelled = "cancelled"
	outcomeAccepted  = "accepted"
	outcomeOver      = "already_completed"
)

// executionNotFound is the answer for executions that do not exist and for those that the
// caller may not know of.
func executionNotFound(op string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "execution_id",
		Detail: "Execution not found; check the id with ListExecutions"}
}

// readable refuses a caller who may not read the thread.
func (s *Executions) readable(ctx context.Context, op string, key mesh.ThreadKey, st *thread.State, p mesh.Principal) error {
	if st.Seq == 0 || !st.MayRead(p) {
		return mesh.ThreadNotFound(op)
	}
	s.threads.noteRead(ctx, key, &st.Access, p)
	return nil
}

// ListExecutions implements meshv1.ExecutionServiceServer.
func (s *Executions) ListExecutions(ctx context.Context, req *meshv1.ListExecutionsRequest) (*meshv1.ListExecutionsResponse, error) {
	const op, most, usual = "api.ListExecutions", 1000, 100
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), usual)
	if size < 1 || size > most {
		return nil, mesh.InvalidField(op, "page_size", "is %d; it must be 1 to %d", size, most)
	}
	var after int64
	if t := req.GetPageToken(); t != "" {
		if after, err = strconv.ParseInt(t, 36, 64); err != nil || after < 1 {
			return nil, mesh.InvalidField(op, "page_token", "is not one of ours; leave it out to begin anew")
		}
	}
	for _, name := range req.GetStatuses() {
		if !slices.Contains(thread.Statuses(), name) {
			return nil, mesh.InvalidField(op, "statuses", "has %q; it must have some of %v", mesh.Clip(name, 48), thread.Statuses())
		}
	}
	resp := &meshv1.ListExecutionsResponse{}
	err = s.threads.states.With(ctx, key, func(st *thread.State) error {
		if err := s.readable(ctx, op, key, st, call.Principal); err != nil {
			return err
		}
		resp.Seq, resp.Usage = int64(st.Seq), eventpb.UsageToProto(st.Usage)
		if err := known(op, st, req); err != nil {
			return err
		}
		totals := st.Totals()
		for _, x := range st.Executions() {
			if int64(x.Opened) <= after || !listed(st, x, req) {
				continue
			}
			if len(resp.Executions) == size {
				resp.NextPageToken = strconv.FormatInt(after, 36)
				break
			}
			resp.Executions, after = append(resp.Executions, overview(st, x, totals[x.ID])), int64(x.Opened)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// known refuses filters by executions that the thread does not have.
func known(op string, st *thread.State, req *meshv1.ListExecutionsRequest) error {
	if id := req.GetTurnId(); id != "" && st.Turn(mesh.ExecutionID(id)) == nil {
		return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "turn_id", Detail: "Turn not found; it is the id of a task of this conversation, or leave it out"}
	}
	if id := req.GetParentId(); id != "" && st.Execution(mesh.ExecutionID(id)) == nil {
		return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "parent_id", Detail: "Execution not found; leave it out, or take the id of one in the list"}
	}
	return nil
}

func listed(st *thread.State, x *thread.Execution, req *meshv1.ListExecutionsRequest) bool {
	if id := req.GetTurnId(); id != "" {
		if t := st.TurnOf(x.ID); t == nil || string(t.ID) != id {
			return false
		}
	}
	if id := req.GetParentId(); id != "" && string(x.Parent) != id {
		return false
	}
	return len(req.GetStatuses()) == 0 || slices.Contains(req.GetStatuses(), x.Status())
}

// overview is the execution as it is listed.
func overview(st *thread.State, x *thread.Execution, total thread.Total) *meshv1.ExecutionInfo {
	out := &meshv1.ExecutionInfo{
		Execution: eventpb.ExecutionToProto(x.Execution), State: x.State, Status: x.Status(), Reason: st.Why(x),
		Detail: mesh.TextOf(x.Message), Started: timestamppb.New(x.Started),
		Usage: eventpb.UsageToProto(x.Usage), TotalUsage: eventpb.UsageToProto(total.Usage),
		SkillCalls: count(x.SkillCalls), ToolCalls: count(x.ToolCalls), TotalSkillCalls: count(total.SkillCalls), TotalToolCalls: count(total.ToolCalls),
		SubAgents: count(total.Below), Depth: count(total.Depth), Instructions: count(len(x.Instructions)), Instance: x.Instance, Delivered: x.Delivery != "",
	}
	if x.Accepted != nil {
		out.Context, out.Wave = x.Accepted.Context, count(x.Accepted.Wave)
	}
	if x.State == a2apb.TaskState_TASK_STATE_FAILED && out.Detail == "" {
		out.Detail = mesh.Clip(x.Result, maxShownContent)
	}
	if x.Ended != 0 {
		out.Ended = timestamppb.New(x.Updated)
	}
	for _, a := range x.Approvals {
		out.Approvals = append(out.Approvals, &meshv1.ApprovalAsked{Call: a.Call, Skill: a.Skill, Text: a.Text})
	}
	for _, l := range x.Tripped {
		out.Limits = append(out.Limits, eventpb.LimitToProto(l))
	}
	return out
}

func count(n int) int32 { return int32(min(n, math.MaxInt32)) } // #nosec G115 -- bounded

// GetExecution implements meshv1.ExecutionServiceServer.
func (s *Executions) GetExecution(ctx context.Context, req *meshv1.GetExecutionRequest) (*meshv1.GetExecutionResponse, error) {
	const op = "api.GetExecution"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	id := mesh.ExecutionID(req.GetExecutionId())
	resp := &meshv1.GetExecutionResponse{}
	var from, to mesh.Seq
	err = s.threads.states.With(ctx, key, func(st *thread.State) error {
		x, err := s.find(ctx, op, key, st, call.Principal, id)
		if err != nil {
			return err
		}
		resp.Execution = overview(st, x, st.Totals()[id])
		resp.Execution.Result = x.Result
		from, to = x.Opened, cmp.Or(x.Ended, st.Seq)
		return nil
	})
	if err != nil {
		return nil, err
	}
	gave := thread.NewGiven(id, maxPage)
	calls, err := s.calls(ctx, key, from, to, gave.Apply)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	var left int
	resp.Execution.Artifacts, left = gave.Artifacts()
	resp.Execution.ArtifactsLeftOut = count(left)
	return resp, s.threads.states.With(ctx, key, func(st *thread.State) error {
		for _, c := range st.CallsOf(id, req.GetBelow(), calls) {
			resp.Execution.Calls = append(resp.Execution.Calls, describeCall(&c))
		}
		return nil
	})
}

// find returns the execution if the caller may know of it.
func (s *Executions) find(ctx context.Context, op string, key mesh.ThreadKey, st *thread.State, p mesh.Principal, id mesh.ExecutionID) (*thread.Execution, error) {
	x := st.Execution(id)
	if st.Seq == 0 || !st.MayRead(p) || x == nil {
		return nil, executionNotFound(op)
	}
	s.threads.noteRead(ctx, key, &st.Access, p)
	return x, nil
}

// calls are the events of the range that are about calls of skills. Each event is given to
// the function, too.
func (s *Executions) calls(ctx context.Context, key mesh.ThreadKey, from, to mesh.Seq, each func(*mesh.Event)) (out []*mesh.Event, err error) {
	const page = 256
	for from < to {
		events, err := s.threads.log.Read(ctx, key, from, int(min(page, to-from)))
		if err != nil || len(events) == 0 {
			return out, err
		}
		for _, e := range events {
			if each(e); thread.OfCall(e) {
				out = append(out, e)
			}
			from = e.Seq
		}
	}
	return out, nil
}

func describeCall(c *thread.SkillCall) *meshv1.SkillCall {
	out := &meshv1.SkillCall{Call: c.Call, Skill: c.Skill, Arguments: c.Args, Status: string(c.Status), ExecutionId: string(c.Execution),
		Content: mesh.Clip(cmp.Or(c.Content, c.Error), maxShownContent), Started: timestamppb.New(c.Started), Lost: c.Lost}
	if !c.Unsettled() {
		out.Duration = durationpb.New(c.Duration)
	}
	return out
}

// sub returns an execution that the caller may change: one that an agent dispatched, in a
// thread that may refuses nobody for.
func (s *Executions) sub(ctx context.Context, op string, key mesh.ThreadKey, st *thread.State, p mesh.Principal, id mesh.ExecutionID, may bool) (*thread.Execution, error) {
	x, err := s.find(ctx, op, key, st, p, id)
	switch {
	case err != nil:
		return nil, err
	case !may:
		e := st.Outsider(op)
		e.Field = "execution_id"
		return nil, e
	case !st.Sub(x):
		return nil, mesh.InvalidField(op, "execution_id", "is a turn, or the agent that answers it; cancel the task with A2A CancelTask, or send it a message")
	}
	return x, nil
}

// CancelExecution implements meshv1.ExecutionServiceServer.
func (s *Executions) CancelExecution(ctx context.Context, req *meshv1.CancelExecutionRequest) (*meshv1.CancelExecutionResponse, error) {
	const op = "api.CancelExecution"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetReason()); n > maxWhy {
		return nil, mesh.InvalidField(op, "reason", "has %d bytes; at most %d are allowed", n, maxWhy)
	}
	id, p := mesh.ExecutionID(req.GetExecutionId()), call.Principal
	resp := &meshv1.CancelExecutionResponse{}
	var waiting []thread.Execution
	err = s.threads.states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
		x, err := s.sub(ctx, op, key, st, p, id, st.MayCancel(p))
		if err != nil {
			return cache.Decision{}, err
		}
		waiting = nil
		if resp.Outcome = outcomeOver; mesh.Terminal(x.State) {
			return cache.Decision{}, nil
		}
		resp.Outcome = outcomeCancelled
		d := cache.Decision{Scopes: []mesh.Scope{mesh.Scope(id)}}
		if !x.Canceled {
			d.Events = append(d.Events, said(id, p, mesh.CancelRequested{By: p.User, Reason: req.GetReason()}))
		}
		if !mesh.Interrupted(x.State) && !x.Waits() { // who drives the thread has its agent end it
			return d, nil
		}
		for _, o := range append(st.Unfinished(id), x) { // nobody reads their streams, or calls them any more
			d.Events = append(d.Events, said(o.Parent, p, mesh.DispatchSettled{Child: o.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonCanceled}))
			waiting = append(waiting, *o)
		}
		return d, nil
	})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	s.ends(ctx, key, waiting)
	resp.Execution, err = s.now(ctx, key, id)
	return resp, err
}

// said is an event by which the caller says something of an execution, now.
func said(id mesh.ExecutionID, p mesh.Principal, b mesh.Body) *mesh.Event {
	return &mesh.Event{ID: mesh.NewEventID(), Time: time.Now().UTC().Truncate(time.Millisecond), Execution: id, Actor: "user:" + p.User, Body: b}
}

// now is the execution as it is.
func (s *Executions) now(ctx context.Context, key mesh.ThreadKey, id mesh.ExecutionID) (out *meshv1.ExecutionInfo, err error) {
	return out, s.threads.states.With(ctx, key, func(st *thread.State) error {
		if x := st.Execution(id); x != nil {
			out = overview(st, x, st.Totals()[id])
		}
		return nil
	})
}

// TellExecution implements meshv1.ExecutionServiceServer.
func (s *Executions) TellExecution(ctx context.Context, req *meshv1.TellExecutionRequest) (*meshv1.TellExecutionResponse, error) {
	const op = "api.TellExecution"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetText()); n == 0 || n > maxInstruction {
		return nil, mesh.InvalidField(op, "text", "has %d bytes; it must have 1 to %d", n, maxInstruction)
	}
	if n := len(req.GetRequestId()); n > maxRequestID {
		return nil, mesh.InvalidField(op, "request_id", "has %d bytes; at most %d are allowed", n, maxRequestID)
	}
	id, p := mesh.ExecutionID(req.GetExecutionId()), call.Principal
	instruction := cmp.Or(req.GetRequestId(), mesh.NewEventID())
	resp := &meshv1.TellExecutionResponse{}
	err = s.threads.states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
		x, err := s.sub(ctx, op, key, st, p, id, st.TakesPart(p))
		if err != nil {
			return cache.Decision{}, err
		}
		resp.Outcome, resp.InstructionId = outcomeAccepted, instruction
		switch {
		case slices.Contains(x.Told, instruction): // it was sent again
			return cache.Decision{}, nil
		case mesh.Terminal(x.State):
			resp.Outcome, resp.InstructionId = outcomeOver, ""
			return cache.Decision{}, nil
		case st.Ending(x):
			return cache.Decision{}, &mesh.Error{Code: mesh.Precondition, Op: op, Field: "execution_id",
				Detail: "is to end, as somebody has asked for, and reads nothing more; dispatch another agent"}
		case !s.reads(key.Tenant, x.Agent):
			return cache.Decision{}, mesh.InvalidField(op, "execution_id", "is worked on by %s, which does not read what it is told while it works; cancel it, or wait for it", x.Agent)
		case len(x.Told) >= thread.MaxTold:
			return cache.Decision{}, &mesh.Error{Code: mesh.Exhausted, Op: op, Field: "text",
				Detail: "the agent was told as much as one may be; wait for what comes of it, or cancel it"}
		case len(x.Instructions) >= thread.MaxInstructions:
			return cache.Decision{}, &mesh.Error{Code: mesh.Exhausted, Op: op, Field: "text",
				Detail: "as many instructions wait as may; try again when the agent has read some"}
		}
		return cache.Decision{Scopes: []mesh.Scope{mesh.Scope(id)},
			Events: []*mesh.Event{said(id, p, mesh.InstructionPosted{By: p.User, Text: req.GetText(), ID: instruction})}}, nil
	})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	resp.Execution, err = s.now(ctx, key, id)
	return resp, err
}
