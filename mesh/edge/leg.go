package edge

import (
	"context"
	"slices"
	"strconv"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// A leg is a stretch of a turn in which one agent has the user's stream.
type leg struct {
	turn    mesh.ExecutionID
	user    string
	exec    mesh.Execution
	ordinal int // 1 for the turn's first execution

	hops int // how often the turn's stream changed hands before

	resumed       bool // the execution waited for the message
	orphan        bool // the execution's driver is gone
	remoteTask    string
	remoteContext string

	// handoff is set when the agent takes over, returned when it gets control
	// back; then endHandoff says that the handoff has yet to be ended.
	handoff    *thread.Handoff
	returned   *thread.Handoff
	endHandoff bool

	message *a2apb.Message
	perms   []mesh.Permission

	// from is the Seq at which the leg was logged, and epoch its driver's.
	from  mesh.Seq
	epoch mesh.Epoch
}

// start makes the leg a new execution of the agent, after so many others.
func (l *leg) start(threadID, agent string, kind mesh.Kind, before int) {
	l.ordinal = before + 1
	l.exec = mesh.Execution{ID: mesh.NewExecutionID(threadID), Parent: l.turn, Kind: kind, Agent: agent, User: l.user}
}

// resume makes the leg go on with an execution that waited for the user, the
// turn's next one after so many others.
func (l *leg) resume(x *thread.Execution, before int) {
	l.resumed, l.exec, l.ordinal = true, x.Execution, before+1
	l.remoteTask, l.remoteContext = x.RemoteTask, x.RemoteContext
}

func (l *leg) resumeLeg(before *leg) {
	l.resumed, l.exec, l.ordinal = true, before.exec, before.ordinal
	l.remoteTask, l.remoteContext = before.remoteTask, before.remoteContext
}

// task is the agent's id of the execution.
func (l *leg) task() string {
	if l.remoteTask != "" {
		return l.remoteTask
	}
	return string(l.exec.ID)
}

// address makes the message that the leg's agent gets: what the user said and
// no agent had yet, or else what the user said last; with what the agent must
// know of a handoff.
func (d *driver) address(ctx context.Context, l *leg, pending []mesh.Seq) error {
	if len(pending) == 0 {
		err := d.States.With(ctx, d.key, func(s *thread.State) error {
			t, err := turnIn(s, l.turn)
			if err == nil && len(t.Posts) > 0 {
				pending = t.Posts[len(t.Posts)-1:]
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, seq := range pending {
		events, err := d.Log.Read(ctx, d.key, seq-1, 1)
		if err != nil {
			return mesh.Wrap("edge.address", err)
		}
		if len(events) == 0 {
			continue
		}
		posted, ok := events[0].Body.(mesh.MessagePosted)
		if !ok {
			continue
		}
		l.perms = posted.Permissions
		if l.message == nil {
			l.message = proto.CloneOf(posted.Message)
		} else {
			l.message.MessageId = posted.Message.MessageId
			l.message.Parts = append(l.message.Parts, posted.Message.Parts...)
		}
	}
	if l.message == nil {
		return mesh.Errorf(mesh.Unknown, "edge.address", "")
	}
	if l.returned != nil { // what the user said meanwhile comes after it
		h := l.returned
		l.message = call.Say(text.Returned(h.To, string(h.Outcome), h.Result))
		l.message.Role = a2apb.Role_ROLE_USER
		l.exec.Text = clipText(textOf(l.message))
		l.tell(d.key, "handoff_return", handoffData(d.key, l.user, h, nil))
		return nil
	}
	l.exec.Text = clipText(textOf(l.message))
	if l.handoff != nil {
		// The rest of the handoff has its share too.
		recent, err := d.recent(ctx, l.handoff.RecentMessages, (maxMessage-proto.Size(l.message))/2)
		if err != nil {
			return err
		}
		l.tell(d.key, "handoff", handoffData(d.key, l.user, l.handoff, recent))
	}
	return nil
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

// handoffData is meshv1.Handoff as JSON, by the names of its fields (S4-031),
// with the recent messages (S4-032).
func handoffData(key mesh.ThreadKey, user string, h *thread.Handoff, recent []*structpb.Value) *structpb.Struct {
	text := structpb.NewStringValue
	state := "active"
	if !h.Active() || h.Outcome != "" {
		state = string(h.Outcome)
	}
	f := map[string]*structpb.Value{
		"type": text("handoff"), "seq": text(strconv.FormatInt(int64(h.Seq), 10)),
		"thread_id": text(key.ID), "tenant_id": text(string(key.Tenant)), "user_id": text(user),
		"source_agent_id": text(h.From), "target_agent_id": text(h.To),
		"handoff_reason": text(h.Reason), "context_summary": text(h.Summary),
		"conversation_history_count": structpb.NewNumberValue(float64(len(recent))),
		"preserve_state":             structpb.NewBoolValue(h.PreserveState),
		"return_expected":            structpb.NewBoolValue(h.ReturnExpected),
		"state":                      text(state), "result_summary": text(h.Result),
	}
	if recent != nil {
		f["recent_messages"] = structpb.NewListValue(&structpb.ListValue{Values: recent})
	}
	return &structpb.Struct{Fields: f}
}

// recent returns the last n things that were said to and by the user, or fewer
// when those have more than room bytes.
func (d *driver) recent(ctx context.Context, n, room int) ([]*structpb.Value, error) {
	const window = 2000 // events in which they are looked for
	tail, err := d.Log.Tail(ctx, d.key)
	if err != nil {
		return nil, mesh.Wrap("edge.recent", err)
	}
	var events []*mesh.Event
	for after := max(0, tail-window); after < tail; {
		page, err := d.Log.Read(ctx, d.key, after, 256)
		if err != nil {
			return nil, mesh.Wrap("edge.recent", err)
		}
		if len(page) == 0 {
			break
		}
		events, after = append(events, page...), page[len(page)-1].Seq
	}
	said := thread.Said(events)
	out := []*structpb.Value{}
	for _, s := range slices.Backward(said[max(0, len(said)-n):]) {
		one := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"role": structpb.NewStringValue(s.Role), "agent": structpb.NewStringValue(s.Agent), "text": structpb.NewStringValue(s.Text),
		}})
		if room -= proto.Size(one); room < 0 {
			break
		}
		out = append(out, one)
	}
	slices.Reverse(out)
	return out, nil
}

// A line is an agent that can be called.
type line struct {
	entry  registry.Entry
	client call.Client
}

// connect finds the agent and makes a client of it.
func (e *Edge) connect(tenant mesh.TenantID, agent string) (line, error) {
	entry, err := e.Directory.Resolve(tenant, agent)
	if err != nil {
		return line{}, err
	}
	client, err := e.Dialer.Dial(call.Target{Card: entry.Card, Endpoint: entry.Endpoint, Tenant: entry.Tenant})
	if err != nil {
		return line{}, mesh.Wrap("edge.connect", err)
	}
	return line{entry: entry, client: client}, nil
}

// granted are the skills of an agent that has the user's stream: all for the
// mesh's own agents and for the main one, whom the operator chose, and for
// others those on their card.
func (e *Edge) granted(entry registry.Entry) []string {
	if entry.Builtin || entry.Name == e.Main {
		return []string{"*"}
	}
	var ids []string
	for _, s := range entry.Card.GetSkills() {
		ids = append(ids, s.GetId())
	}
	return mesh.OwnSkills(ids, []string{"*"})
}

// identify returns ctx with the identity under which the execution's agent is
// called: ids for all, and a grant for agents that speak our extension.
func (e *Edge) identify(ctx context.Context, key mesh.ThreadKey, x mesh.Execution, entry registry.Entry, perms []mesh.Permission, ttl time.Duration) context.Context {
	as := mesh.Call{
		Principal: mesh.Principal{Tenant: key.Tenant, User: x.User, Permissions: perms},
		Thread:    key.ID, ParentTask: string(x.Parent), Execution: x.ID, Version: "1.0",
	}
	if call.Speaks(entry.Card) {
		as.Extensions = []string{mesh.ExtensionURI}
		as.GrantToken = e.Signer.Issue(mesh.Grant{
			Tenant: key.Tenant, User: x.User, Thread: key.ID, Execution: x.ID, Parent: x.Parent, Turn: x.Parent,
			Agent: x.Agent, Chain: []string{x.Agent}, Skills: x.Skills, Permissions: perms,
			Depth: e.MaxDepth, Expires: e.Now().Add(ttl + time.Second).Unix(), // not before the work
		})
	}
	return mesh.WithCall(ctx, as)
}

// request is what goes to the agent for the leg.
func (l *leg) request(key mesh.ThreadKey, entry registry.Entry) call.Request {
	msg := proto.CloneOf(l.message)
	msg.TaskId, msg.ContextId = "", l.remoteContext
	req := call.Request{Message: msg, Execution: l.exec.ID, Thread: key.ID, Unary: !entry.Card.GetCapabilities().GetStreaming()}
	if call.Speaks(entry.Card) {
		msg.ContextId = key.ID
	} else if l.handoff != nil && l.handoff.Summary != "" {
		msg.Parts = append([]*a2apb.Part{{Content: &a2apb.Part_Text{Text: "Context: " + l.handoff.Summary}}}, msg.Parts...)
	}
	if l.resumed {
		req.RemoteTask = l.task()
		msg.TaskId = req.RemoteTask
	}
	return req
}

func textOf(m *a2apb.Message) string {
	for _, p := range m.GetParts() {
		if t := p.GetText(); t != "" {
			return t
		}
	}
	return ""
}
