package turn

import (
	"context"
	"slices"
	"strconv"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// Bounds in bytes, so that what is logged with a message has room in its event.
const (
	maxLeg   = mesh.MaxEvent - maxFrame // what an agent is given at once
	maxFrame = 8 << 10                  // of what is logged with it
	maxText  = 2000                     // of a task in words; the message has all of it
)

// A leg is a stretch of a turn in which one agent has the user's stream.
type leg struct {
	turn    mesh.ExecutionID
	user    string
	exec    mesh.Execution
	ordinal int // 1 for the turn's first execution

	hops int // how often the turn's stream changed hands before
	// known says that the agent is one that there was: the turn was taken for it, or it had an
	// execution in the thread, or was to have.
	known bool

	resumed bool // the execution waited for the message, or goes on
	// adopted says that its agent had the message before, and that work on it was cut off.
	// had are the agent's outputs and words that the log has.
	adopted bool
	had     []mesh.Body
	remote  string // the agent's own id of the task that goes on, where it has one
	// instance is the process of the agent that has the execution, by the log, or "".
	instance string
	has      mesh.Volume // how much of it the log has, once it is to be called

	// handoff is set when the agent takes over, returned when it gets control
	// back; then endHandoff says that the handoff has yet to be ended.
	handoff    *thread.Handoff
	returned   *thread.Handoff
	endHandoff bool

	message *a2apb.Message
	roles   []mesh.Role // of the turn's user

	// What calls the agent, or why it cannot be called; once the leg is prepared.
	entry       registry.Entry
	client      call.Client
	unreachable error

	begins *mesh.Event // that logs it; nil until it is to be logged
	from   mesh.Seq    // at which the leg was logged
}

// start makes the leg a new execution of the agent, after so many others.
func (l *leg) start(s *thread.State, threadID, agent string, kind mesh.Kind, before int) {
	there := func(x *thread.Execution) bool { return x.Agent == agent && x.Kind != mesh.KindTurn }
	l.ordinal, l.known = before+1, kind == mesh.KindAgent || s.Handoff.Active() && s.Handoff.To == agent || slices.ContainsFunc(s.Executions(), there)
	l.exec = mesh.Execution{ID: mesh.NewExecutionID(threadID), Parent: l.turn, Kind: kind, Agent: agent, User: l.user}
}

// resume makes the leg go on with an execution that waited for the user, the
// turn's next one after so many others.
func (l *leg) resume(x *thread.Execution, before int) {
	l.resumed, l.exec, l.ordinal, l.instance = true, x.Execution, before+1, x.Instance
}

func (l *leg) resumeLeg(before *leg) {
	l.resumed, l.exec, l.ordinal, l.instance = true, before.exec, before.ordinal, before.instance
}

// refused is how the turn ends, or nil, when its user lacks what the leg's agent requires, which
// is prepared, and has had the conversation handed over to it: a turn that waited its turn was
// taken for who had the conversation before. The agent has no part in that.
func (l *leg) refused() *mesh.TaskMoved {
	if l.resumed || l.exec.Kind != mesh.KindHandoff {
		return nil
	}
	err := l.entry.WorksFor("turn.runLeg", l.roles)
	lack := mesh.LackOf(err)
	if lack == nil {
		return nil
	}
	text := structpb.NewStringValue
	return &mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_REJECTED, Reason: mesh.ReasonPermission, Message: mesh.Say(mesh.DetailOf(err)),
		Metadata: a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyLack: structpb.NewStructValue(&structpb.Struct{
			Fields: map[string]*structpb.Value{"permission": text(lack.Permission), "agent": text(lack.Agent)}})})}
}

// address makes the message that the leg's agent gets: what the user said and
// no agent had yet, or else what the user said last; with what the agent must
// know of a handoff.
func (d *driver) address(ctx context.Context, l *leg, pending []mesh.Seq) error {
	if l.adopted {
		return d.remember(ctx, l)
	}
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		t, err := turnIn(s, l.turn)
		if err != nil {
			return err
		}
		if l.roles = t.Roles; len(pending) == 0 && len(t.Posts) > 0 {
			pending = t.Posts[len(t.Posts)-1:]
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, seq := range pending {
		events, err := d.Log.Read(ctx, d.key, seq-1, 1)
		if err != nil {
			return mesh.Wrap("turn.address", err)
		}
		if len(events) == 0 {
			continue
		}
		posted, ok := events[0].Body.(mesh.MessagePosted)
		if !ok {
			continue
		}
		if l.message == nil {
			l.message = proto.CloneOf(posted.Message)
		} else {
			l.message.MessageId = posted.Message.MessageId
			l.message.Parts = append(l.message.Parts, posted.Message.Parts...)
		}
	}
	if l.returned != nil { // what the user said meanwhile comes after it
		h := l.returned
		l.message = mesh.Say(text.Returned(h.To, string(h.Outcome), h.Result))
		l.message.Role = a2apb.Role_ROLE_USER
		l.exec.Text = mesh.Clip(mesh.TextOf(l.message), maxText)
		l.tell(d.key, "handoff_return", handoffData(d.key, l.user, h, nil))
		return d.States.With(ctx, d.key, func(s *thread.State) error { d.offer(s, l); return nil })
	}
	if l.message == nil {
		return mesh.Errorf(mesh.Unknown, "turn.address", "")
	}
	l.exec.Text = mesh.Clip(mesh.TextOf(l.message), maxText)
	if l.resumed {
		return d.States.With(ctx, d.key, func(s *thread.State) error { l.tellUpdates(s); d.offer(s, l); return nil })
	}
	if l.handoff != nil {
		return d.acquaint(ctx, l)
	}
	return d.States.With(ctx, d.key, func(s *thread.State) error { l.tellParked(d.key, s); d.offer(s, l); return nil })
}

// tellUpdates tells the agent how far its task is: another of its processes may have
// had it, on another node or before a restart.
func (l *leg) tellUpdates(s *thread.State) {
	if x := s.Execution(l.exec.ID); x != nil {
		l.message.Metadata = a2a.SetExtension(l.message.Metadata, map[string]*structpb.Value{
			a2a.KeyUpdates: structpb.NewNumberValue(float64(x.Artifacts))})
	}
}

// tell adds data under our extension to the message. Each agent that works on
// the same words of the user gets them under a message id of its own.
func (l *leg) tell(key mesh.ThreadKey, name string, data *structpb.Struct) {
	l.message.MessageId += "-" + name + "-" + strconv.Itoa(l.ordinal)
	l.message.ContextId = key.ID
	if l.message.Metadata == nil {
		l.message.Metadata = &structpb.Struct{}
	}
	if l.message.Metadata.Fields == nil {
		l.message.Metadata.Fields = map[string]*structpb.Value{}
	}
	l.message.Metadata.Fields[mesh.ExtensionURI] = structpb.NewStructValue(&structpb.Struct{
		Fields: map[string]*structpb.Value{name: structpb.NewStructValue(data)}})
	l.message.Extensions = append(l.message.Extensions, mesh.ExtensionURI)
}

// find returns the agent and what calls it for an execution that the instance has, or that
// none has yet.
func (c *Config) find(tenant mesh.TenantID, agent, instance string) (registry.Entry, call.Client, error) {
	entry, err := c.Directory.Resolve(tenant, agent)
	if err != nil {
		return entry, nil, err
	}
	client, err := c.Dialer.Dial(callee(entry).Holder(instance))
	return entry, client, mesh.Wrap("turn.find", err)
}

// callee is the entry as package call has it.
func callee(e registry.Entry) call.Agent {
	t := call.Target{Name: e.Name, Card: e.Card, Endpoint: e.Endpoint, Tenant: e.Tenant}
	for _, i := range e.Instances {
		t.Instances = append(t.Instances, call.Instance{ID: i.ID, Endpoint: i.Endpoint, Interfaces: i.Interfaces, Live: i.Live})
	}
	return call.Agent{Target: t, Builtin: e.Builtin}
}

// depth is how many levels of dispatch are allowed below the agent when it has the stream:
// what counts are those below an orchestrator, whoever asks it.
func (c *Config) depth(agent registry.Entry) int {
	if !registry.Params(agent.Card).Orchestration {
		deepest := 0
		for _, n := range c.Chains {
			deepest = max(deepest, n)
		}
		if agent.Name != c.Main {
			deepest++ // it consults the main agent
		}
		return c.MaxDepth + 1 + deepest // it consults who dispatches
	}
	return c.MaxDepth + c.Chains[agent.Name]
}

// identify returns ctx with the identity under which the execution's agent is
// called.
func (c *Config) identify(ctx context.Context, key mesh.ThreadKey, x mesh.Execution, entry registry.Entry, roles []mesh.Role, ttl time.Duration) context.Context {
	g := mesh.Grant{
		Tenant: key.Tenant, User: x.User, Thread: key.ID, Execution: x.ID, Parent: x.Parent, Turn: x.Parent,
		Agent: x.Agent, Holder: entry.Tenant, Chain: []mesh.Actor{{Agent: x.Agent, Execution: x.ID}}, Skills: x.Skills,
		Capabilities: mesh.CapabilitiesFor(roles), Depth: c.depth(entry), Budget: x.Budget.Within(c.Budget), Expires: c.Now().Add(ttl + time.Second).Unix(), // not before the work
	}
	if !entry.Trusted && x.Agent != c.Main {
		g.Distrust()
	}
	return mesh.WithCall(ctx, callee(entry).As(key, x, func(context.Context) (string, error) {
		return c.Signer.Ticket(g, c.Now()), nil
	}))
}

// traceparent is that with which a turn's agent is called for the execution.
func (c *Config) traceparent(turn string, x mesh.ExecutionID) string {
	if c.Traced {
		return mesh.Under(turn, x)
	}
	return turn
}

// size is how many bytes the message has, as it is logged if it is to be.
func (l *leg) size() int {
	n := proto.Size(l.message)
	if l.resumed {
		return n
	}
	return mesh.LoggedSize(l.message.GetParts(), n)
}

// logged takes the message as it was logged, with references in place of large files: with what
// begins the leg or, of one that goes on, among the events.
func (l *leg) logged(events []*mesh.Event) {
	if m := thread.Sent(l.begins); m != nil {
		l.message = m
		return
	}
	for _, e := range events {
		if m := thread.Sent(e); m != nil {
			l.message = mesh.MessageWith(l.message, m.GetParts())
		}
	}
}

// home is the agent that a turn begins with, and that has it back when a
// handoff ends: the one that was addressed, or main.
func (c *Config) home(addressed string) string {
	if addressed != "" {
		return addressed
	}
	return c.Main
}

// request is what goes to the agent for the leg, which is logged: what the agent calls it
// is in the log.
func (d *driver) request(ctx context.Context, l *leg) (req call.Request, err error) {
	remote := call.Remote{GoesOn: l.resumed, Recall: func(ctx context.Context) (string, error) { return d.recall(ctx, l.exec) }}
	err = d.States.With(ctx, d.key, func(s *thread.State) error {
		x := s.Execution(l.exec.ID)
		if x == nil { // deleted meanwhile
			return mesh.ThreadNotFound("turn.request")
		}
		remote.Task, remote.Context, l.has = x.RemoteTask, x.RemoteContext, x.Logged
		return nil
	})
	if err != nil {
		return req, err
	}
	if l.adopted {
		answers := a2a.Extension(l.message.GetMetadata()).GetFields()[a2a.KeyContinues].GetStringValue() == a2a.ContinuesAnswer
		remote.Attach = &call.Attach{Had: l.had, Answers: answers}
	}
	req = callee(l.entry).Request(d.key, l.exec.ID, l.message, remote)
	req.Message = worded(req.Message, l.entry)
	if d.Files != nil && !call.Speaks(l.entry.Card) {
		if req.Message, err = d.Files(ctx, d.key, req.Message); err != nil {
			return req, err
		}
	}
	ext := a2a.Extension(req.Message.GetMetadata()).GetFields()
	if h := ext["handoff"].GetStructValue().GetFields(); l.handoff != nil && h != nil { // it was not known when the leg was logged with it
		h["seq"] = seqValue(l.handoff)
	}
	if why := thread.Preamble(req.Message); why != "" && !call.Speaks(l.entry.Card) {
		req.Message.Parts = append([]*a2apb.Part{{Content: &a2apb.Part_Text{Text: why}}}, req.Message.Parts...)
	}
	return req, nil
}

// worded is the message as the agent gets it: without audio whose words are in it, unless it takes
// audio, and, of agents that do not know our marks, with words for audio that nobody understood.
func worded(m *a2apb.Message, agent registry.Entry) *a2apb.Message {
	var out []*a2apb.Part
	for _, p := range m.GetParts() {
		heard, why := mesh.Heard(p)
		takes := slices.ContainsFunc(agent.InputModes(), func(mode string) bool { return registry.Accepts(mode, p.GetMediaType()) })
		switch {
		case heard && !takes:
			continue
		case why != "" && !takes && !call.Speaks(agent.Card):
			p = &a2apb.Part{Content: &a2apb.Part_Text{Text: text.File(p.GetFilename(), p.GetMediaType(), -1, "", text.AudioNotHeard(why))}}
		}
		out = append(out, p)
	}
	if slices.Equal(out, m.GetParts()) {
		return m
	}
	return mesh.MessageWith(m, out)
}

// recall is what the execution's agent was told and said in the thread before.
func (d *driver) recall(ctx context.Context, x mesh.Execution) (string, error) {
	r := thread.NewRecollection(x.Agent, x.ID)
	for after := mesh.Seq(0); ; {
		page, err := d.Log.Read(ctx, d.key, after, 256)
		if err != nil {
			return "", mesh.Wrap("turn.recall", err)
		}
		if len(page) == 0 {
			return r.Text(), nil
		}
		for _, e := range page {
			r.Apply(e)
		}
		after = page[len(page)-1].Seq
	}
}

// endTask asks the agent of an execution to end its task.
func (r *Runner) endTask(ctx context.Context, key mesh.ThreadKey, x *thread.Execution) {
	entry, client, err := r.find(key.Tenant, x.Agent, x.Instance)
	if err != nil {
		return
	}
	ctx = r.identify(ctx, key, x.Execution, entry, nil, time.Minute)
	if err := call.End(ctx, client, x.ID, x.RemoteTask, r.CancelGrace); err != nil {
		r.Logger.InfoContext(ctx, "agent did not cancel", "agent", x.Agent, "err", err)
	}
}
