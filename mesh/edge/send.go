package edge

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// maxText bounds a task in words, in bytes; the message has all of it.
const maxText = 2000

// intake is a message with its ids found out.
type intake struct {
	call   mesh.Call
	key    mesh.ThreadKey
	task   mesh.ExecutionID // "" opens a task
	absent error            // why the agent that is addressed begins nothing now, or nil
	named  string           // the context id, if it is a name of the user's for the thread
	exit   *exit            // of one that leaves the agent that has the conversation, once that is found out
	msg    *a2apb.Message   // ours to change
	digest []byte
	heard  bool // its audio, as far as somebody listens to it, is text
}

// Send implements a2a.Service. The message is durable when it returns.
func (e *Edge) Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	in, err := e.intake(ctx, req)
	if err != nil {
		return nil, err
	}
	if in.call.Extended() && a2a.Extension(in.msg.GetMetadata()).GetFields()[a2a.KeyProgress].GetBoolValue() {
		m, err := e.progress(ctx, in)
		if err != nil {
			return nil, err
		}
		return &a2a.Accepted{Message: m}, nil
	}
	if in.absent, err = e.absent(ctx, in.call); err != nil {
		return nil, err
	}
	id, cursor, err := e.taken(ctx, in)
	if err != nil {
		return nil, err
	}
	task, err := e.snapshot(ctx, in.call, in.key, id, cursor, false)
	if err != nil {
		return nil, err
	}
	return &a2a.Accepted{Task: task, Cursor: cursor}, nil
}

// intake checks who sends and finds the thread and the task that are meant.
func (e *Edge) intake(ctx context.Context, req *a2apb.SendMessageRequest) (*intake, error) {
	const op = "edge.Send"
	call, err := e.caller(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := sameTenant(call, req.GetTenant()); err != nil {
		return nil, err
	}
	msg := req.GetMessage()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		return nil, mesh.InvalidField(op, "message", "cannot be encoded; check that all text is UTF-8")
	}
	if call.Agent != "" { // the same words to another agent are another message
		raw = append(append(raw, "\x00agent="...), call.Agent...)
	}
	digest := sha256.Sum256(raw)
	in := &intake{call: call, task: mesh.ExecutionID(msg.GetTaskId()), digest: digest[:], msg: proto.CloneOf(msg)}
	id, err := e.threadOf(call, msg)
	if err != nil {
		return nil, err
	}
	if c := msg.GetContextId(); c != id && e.Contexts != nil {
		in.named = c
	}
	in.key = mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: id}
	in.msg.ContextId, in.msg.Metadata = id, mesh.FromClient(in.msg.Metadata)
	if err := checkExit(msg); err != nil {
		return nil, err
	}
	mesh.Unmark(in.msg.Parts)
	if slices.ContainsFunc(req.GetConfiguration().GetAcceptedOutputModes(), mesh.AudioType) {
		mesh.WantSpeech(in.msg)
	}
	return in, in.fits()
}

// home is the agent that a turn begins with: the one that was addressed, or main.
func (e *Edge) home(addressed string) string {
	if addressed != "" {
		return addressed
	}
	return e.Main
}

// caller returns who calls.
func (e *Edge) caller(ctx context.Context, op string) (mesh.Call, error) {
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return call, mesh.Errorf(mesh.Unknown, op, "")
	}
	return call, nil
}

// sameTenant checks the A2A tenant, which routes and grants nothing.
func sameTenant(call mesh.Call, tenant string) error {
	if tenant != "" && tenant != string(call.Principal.Tenant) {
		return &mesh.Error{Code: mesh.NotFound, Op: "edge.tenant", Field: "tenant", Detail: "Tenant not found; leave it out or use your own"}
	}
	return nil
}

// threadOf finds the thread of a message: that of its task, of its context, of
// the metadata, which must agree; or, for plain A2A calls, a new one.
func (e *Edge) threadOf(call mesh.Call, msg *a2apb.Message) (string, error) {
	const op = "edge.Send"
	id := call.Thread
	if c := msg.GetContextId(); c != "" {
		canon, err := e.named(op, call, c)
		if err != nil {
			return "", err
		}
		if id != "" && canon != id {
			return "", mesh.InvalidField(op, "message.context_id", "is not the thread-id of the call; send one of them, or both the same")
		}
		id = canon
	}
	if t := msg.GetTaskId(); t != "" {
		of, ok := mesh.ExecutionID(t).ThreadID()
		if !ok {
			return "", mesh.TaskNotFound(op)
		}
		if id != "" && of != id {
			return "", mesh.InvalidField(op, "message.context_id", "is not the context of the task; leave it out or correct it")
		}
		return of, nil
	}
	if id == "" && call.Extended() {
		return "", mesh.InvalidField(op, "thread-id", "is missing; make a UUID v4 for each conversation and send it with every message")
	}
	if id == "" {
		id = mesh.NewThreadID()
	}
	return id, nil
}

// named returns the thread that the caller's context id means.
func (e *Edge) named(op string, call mesh.Call, context string) (string, error) {
	if e.Contexts != nil && !call.Extended() {
		return e.Contexts.Thread(call.Principal.Tenant, call.Principal.User, context), nil
	}
	id, err := mesh.ParseThreadID(context)
	if err != nil {
		return "", mesh.InvalidField(op, "message.context_id", "must be a UUID v4, as it is the thread id")
	}
	return id, nil
}

// accept appends the message, and the task that it opens, and returns the task
// and the Seq after which its updates begin. A resend appends nothing.
func (e *Edge) accept(ctx context.Context, in *intake) (mesh.ExecutionID, mesh.Seq, error) {
	var id mesh.ExecutionID
	var cursor mesh.Seq
	var events []*mesh.Event
	var place *quota.Place
	var waiting []thread.Execution // for users, whose agents lose the conversation
	tenant, user := in.key.Tenant, in.call.Principal.User
	if err := e.Quotas.Prepare(ctx, tenant, user, limit.Quota{Threads: 1}); err != nil {
		return "", 0, mesh.Wrap("edge.Send", err)
	}
	err := e.Turns.Take(ctx, in.key, func(s *thread.State) (cache.Decision, error) {
		place.GiveBack() // it is decided anew
		place, waiting = nil, nil
		if x := s.Execution(in.call.Execution); x != nil {
			return cache.Decision{}, mesh.Errorf(mesh.Precondition, "edge.Send",
				"%s sent the mesh's own call back to it; register the agent at an address of its own", x.Agent)
		}
		if p := resent(s, in); p != nil {
			id, cursor, events = p.Task, s.Seq, nil
			return cache.Decision{}, nil
		}
		in.exit = e.exitOf(s, in)
		if err := mayPost(s, in); err != nil {
			return cache.Decision{}, err
		}
		find := e.target
		if in.exit != nil {
			find = e.leaving
		}
		t, err := find(s, in)
		if err != nil {
			return cache.Decision{}, err
		}
		if t == nil && in.absent != nil {
			return cache.Decision{}, in.absent
		}
		if err := e.takes(s, in, t); err != nil {
			return cache.Decision{}, err
		}
		if err := e.worksFor(s, in, t); err != nil {
			return cache.Decision{}, err
		}
		trip := limit.Ledger{e.Budgets.Conversation(s.Usage.Spent().Cost)}.Check(limit.StopsCalls)
		if trip != nil {
			return cache.Decision{}, trip.Err("edge.Send")
		}
		if err := e.listens(s, in, t); err != nil {
			return cache.Decision{}, err
		}
		if place, trip = e.Quotas.Take(tenant, user, opening(s)); trip != nil {
			return cache.Decision{}, trip.Err("edge.Send")
		}
		id = in.task
		if t != nil {
			id = t.ID
		}
		if id == "" {
			id = mesh.NewExecutionID(in.key.ID)
		}
		events = e.posting(ctx, in, t, id)
		dec := cache.Decision{Events: slices.Clip(events)}
		if in.exit != nil {
			waiting = e.leave(s, user, id, s.InSession(), &dec)
		} else {
			waiting = e.park(s, id, &dec)
		}
		return dec, nil
	})
	if err != nil {
		place.GiveBack()
		return "", 0, err
	}
	if n := len(events); n > 0 {
		cursor = events[n-1].Seq
		place.Placed(events[n-1].Pos)
	}
	e.Turns.EndTasks(ctx, in.key, waiting)
	return id, cursor, nil
}

// opening is what a message for the thread wants of the quotas.
func opening(s *thread.State) (q limit.Quota) {
	if s.Seq == 0 {
		q.Threads = 1
	}
	return q
}

// receiver is the agent that works on the message: who is at work on the turn t that it
// continues, or waits there; else who has the conversation once the message is taken.
func (e *Edge) receiver(s *thread.State, in *intake, t *thread.Execution) string {
	home := e.home(in.call.Agent)
	over := in.exit != nil || s.Overdue(e.Now()) // who has the conversation loses it with the message
	if t != nil {
		home = t.Agent
		if who := s.Holder(t); who != "" && !(over && who == s.Handoff.To) {
			return who
		}
	}
	if over {
		return home
	}
	return s.ActiveAgent(home)
}

// worksFor refuses a message of a user who lacks what the agent requires that is to work on
// it: it would work for that user. An answer to another user's turn is for that one, and who
// only leaves wants nothing: of main, nor in a turn that is there.
func (e *Edge) worksFor(s *thread.State, in *intake, t *thread.Execution) error {
	p, who := in.call.Principal, e.receiver(s, in, t)
	if t != nil && t.User != p.User || in.exit != nil && in.exit.bare && (t != nil || who == e.Main) {
		return nil
	}
	a, err := e.Directory.Resolve(p.Tenant, who)
	if err != nil && a.Name == "" { // its turn says that it is not there
		return nil
	}
	return a.WorksFor("edge.Send", p.Roles)
}

// mayPost refuses messages for a thread that the caller takes no part in: one that it
// may not read is as unknown as one that does not exist. Who may approve for others
// answers what a turn asks, and ends no session.
func mayPost(s *thread.State, in *intake) error {
	const op = "edge.Send"
	p := in.call.Principal
	switch t := s.Turn(in.task); {
	case s.Seq == 0 || s.TakesPart(p):
		return nil
	case !s.MayRead(p) && in.task != "":
		return mesh.TaskNotFound(op)
	case !s.MayRead(p):
		return in.threadNotFound(op)
	case in.exit == nil && t != nil && mesh.Interrupted(t.State) && p.Can(mesh.ActApproveAny):
		return nil
	}
	return s.Outsider(op)
}

// resent finds the message that this one repeats.
func resent(s *thread.State, in *intake) *thread.Posted {
	for _, p := range s.Posted(in.msg.GetMessageId()) {
		if p.User == in.call.Principal.User && p.Digest == string(in.digest) && (in.task == "" || in.task == p.Task) {
			return &p
		}
	}
	return nil
}

// target returns the turn that the message continues, or nil for a new one.
func (e *Edge) target(s *thread.State, in *intake) (*thread.Execution, error) {
	const op = "edge.Send"
	if in.task != "" {
		t, err := ref{in.key, in.task, in.call, in.call.Principal, in.call.Agent}.turn(op, s)
		if err != nil {
			return nil, err
		}
		if p := in.call.Principal; !t.Answers(p.User, p.Roles) {
			return nil, &mesh.Error{Code: mesh.Denied, Op: op, Field: "message.task_id",
				Detail: "The task is another user's; send the message without a task id to open one of your own in the same conversation"}
		}
		if mesh.Terminal(t.State) {
			return nil, &mesh.Error{Code: mesh.Precondition, Op: op, Field: "message.task_id", Reason: "UNSUPPORTED_OPERATION",
				Detail: "The task is over; send the message without a task id to open a new one in the same conversation"}
		}
		return t, nil
	}
	if s.Handoff.Active() || in.call.Extended() {
		if t := s.InterruptedTurn(); t != nil && t.User == in.call.Principal.User && (in.call.Agent == "" || in.call.Agent == t.Agent) {
			return t, nil
		}
	}
	return nil, e.full(op, s)
}

// full refuses a further turn if as many wait as may.
func (e *Edge) full(op string, s *thread.State) error {
	waiting := 0
	for _, t := range s.Turns() {
		if !mesh.Terminal(t.State) && !mesh.Interrupted(t.State) {
			waiting++
		}
	}
	if waiting > e.MaxQueued {
		return mesh.Errorf(mesh.Exhausted, op, "%d messages of this conversation wait already; wait for an answer", waiting)
	}
	return nil
}

// posting makes the events that put the message into the thread. A message for a
// turn that is there moves it, if only to where it is: so whoever ends the turn
// meanwhile, at whichever node, loses against it and decides again.
func (e *Edge) posting(ctx context.Context, in *intake, t *thread.Execution, id mesh.ExecutionID) []*mesh.Event {
	user := in.call.Principal.User
	in.msg.TaskId = string(id)
	event := func(b mesh.Body) *mesh.Event { return e.event(id, "user:"+user, b) }
	posted := event(mesh.MessagePosted{Message: in.msg, User: user, Digest: in.digest, Roles: in.call.Principal.Roles, Credential: in.call.Principal.Credential,
		Exit: in.exit != nil && in.exit.bare})
	if t == nil {
		return []*mesh.Event{event(mesh.TaskOpened{Execution: mesh.Execution{
			ID: id, Kind: mesh.KindTurn, Agent: e.home(in.call.Agent), User: user, Text: mesh.Clip(a2a.TextOf(in.msg), maxText), Budget: e.Budget, Context: in.named,
			Traceparent: telemetry.From(ctx).Opens(ctx, in.call.Traceparent, id),
		}}), posted}
	}
	telemetry.From(ctx).Joins(ctx, in.call.Traceparent, t.ID, t.Traceparent)
	state := t.State
	if mesh.Interrupted(state) {
		state = a2apb.TaskState_TASK_STATE_WORKING
	}
	return []*mesh.Event{posted, event(mesh.TaskMoved{State: state})}
}

// event is one about the execution, now.
func (e *Edge) event(id mesh.ExecutionID, actor string, b mesh.Body) *mesh.Event {
	return &mesh.Event{Time: e.Now().UTC().Truncate(time.Millisecond), Execution: id, Actor: actor, Body: b}
}
