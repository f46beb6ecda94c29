package mainagent

import (
	"context"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// S4-042, S4-046: what the user reads when control comes back.
func TestWhatCameOfAHandoffIsToldInWords(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome, summary, want string
		kept                   bool
	}{
		"done":                     {"completed", "Your skill 'slack.send_alert' is now active.", "Great, your skill 'slack.send_alert' is now active.", false},
		"done, in other words":     {"completed", "slack.send_alert was created", "Great! Slack.send_alert was created.", false},
		"done, without words":      {"completed", "", "Great, that is done. What would you like to do next?", false},
		"done, by default":         {"", "The trip is booked!", "Great, the trip is booked!", false},
		"cancelled":                {"cancelled", "the draft is kept", "You are back with me, no problem. The draft is kept. Let me know if you would like to continue it later.", false},
		"cancelled, without words": {"cancelled", "", "You are back with me, no problem. Let me know if you would like to continue it later.", false},
		"failed":                   {"error", "you lack a permission", "I am sorry, this could not be finished. You lack a permission. Would you like me to help you with something else, or try again later?", false},
		"left, and kept":           {"cancelled", "", "You are back with me, no problem. What you said there is kept. Let me know if you would like to continue it later.", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := welcome(&meshv1.Handoff{State: tt.outcome, ResultSummary: tt.summary}, tt.kept); got != tt.want {
				t.Errorf("said %q,\nwant %q", got, tt.want)
			}
		})
	}
}

func described(name, title string, live bool, params map[string]any, skills ...string) *meshv1.Agent {
	card := &a2apb.AgentCard{Name: title, Description: "Is " + name + ".", Capabilities: &a2apb.AgentCapabilities{}}
	for _, id := range skills {
		card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: id, Tags: []string{"tag"}})
	}
	p, err := structpb.NewStruct(params)
	if err != nil {
		panic(err)
	}
	card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI, Params: p}}
	return &meshv1.Agent{Name: name, Live: live, Card: card}
}

func names(agents []*meshv1.Agent) string {
	var out []string
	for _, a := range agents {
		out = append(out, a.GetName())
	}
	return strings.Join(out, " ")
}

// S4-062: an agent that is away is known as such, unless another can stand in.
func TestWhoCanBeAskedAndWhoCanTakeOver(t *testing.T) {
	stateful := map[string]any{"handoff_support": true, "stateful_workflows": true, "handoff_triggers": []any{"create skill", "new skill"}}
	o := look([]*meshv1.Agent{
		described("builder", "The Builder", true, stateful, "build"),
		described("guide", "The Guide", true, map[string]any{"handoff_support": true}, "guide"),
		described("main", "Main", true, nil, "talk"),
		described("notes", "Notes", false, nil, "notes.find"),
		described("notes2", "More Notes", true, nil, "notes.find", "notes.add"),
		described("weather", "Weather", false, nil, "weather.tell"),
	}, &mesh.Grant{Agent: "main", Depth: 1, Chain: []mesh.Actor{{Agent: "main"}}})
	if got, want := names(o.consult), "guide notes2 weather"; got != want {
		t.Errorf("can be asked: %s, want %s", got, want)
	}
	if got, want := names(o.handoff), "builder guide"; got != want {
		t.Errorf("can take over: %s, want %s", got, want)
	}
	if d := o.consult[2].GetCard().GetDescription(); d != "Is weather. (not available right now)" {
		t.Errorf("weather, which is away, is described as %q", d)
	}
	tool := (&handoffs{agents: o.handoff}).List(t.Context())[0]
	if want := "Agents:\n- builder: Is builder. (triggers: create skill, new skill)\n- guide: Is guide."; !strings.HasSuffix(tool.Description, want) {
		t.Errorf("the tool is described as\n%s\nwant it to end with\n%s", tool.Description, want)
	}
}

// refusing is a HandoffService in which another agent has the conversation.
type refusing struct {
	meshv1.UnimplementedHandoffServiceServer
	err    error
	active *meshv1.Handoff
	got    *meshv1.StartHandoffRequest
}

func (r *refusing) StartHandoff(_ context.Context, req *meshv1.StartHandoffRequest) (*meshv1.StartHandoffResponse, error) {
	r.got = req
	return nil, r.err
}

func (r *refusing) GetHandoff(context.Context, *meshv1.GetHandoffRequest) (*meshv1.GetHandoffResponse, error) {
	return &meshv1.GetHandoffResponse{Handoff: r.active}, nil
}

// invocation returns an invocation whose node is the service, on a port.
func invocation(t *testing.T, service meshv1.HandoffServiceServer) *agent.Invocation {
	t.Helper()
	l := rpctest.Listen(t)
	server := rpc.NewServer(rpc.Options{Auth: auth.None(nil)})
	meshv1.RegisterHandoffServiceServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := rpc.Dial(l.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	g := &mesh.Grant{Tenant: "acme", User: "ann", Thread: mesh.NewThreadID(), Agent: "main"}
	view, err := meshclient.New(conn, mesh.Call{Principal: mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}})
	if err != nil {
		t.Fatal(err)
	}
	return &agent.Invocation{Thread: g.Key(), Grant: g, Mesh: view}
}

// S4-063, S4-065: without a handoff the user hears why, and what can be done.
func TestARefusedHandoffIsExplained(t *testing.T) {
	texttest.Fixed(t)
	builder := described("builder", "Skill Creation Assistant", true, map[string]any{"handoff_support": true})
	other := described("debugger", "Debugging Assistant", true, map[string]any{"handoff_support": true})
	for name, tt := range map[string]struct {
		err    *mesh.Error
		active *meshv1.Handoff
		want   string
	}{
		"the agent is away": {mesh.Errorf(mesh.Unavailable, "x", "connection refused"), nil,
			"The Skill Creation Assistant is currently unavailable. Would you like me to help you with something else, or try again later?"},
		"the agent has left": {mesh.Errorf(mesh.NotFound, "x", "no such agent"), nil,
			"The Skill Creation Assistant is currently unavailable. Would you like me to help you with something else, or try again later?"},
		"another session is active": {mesh.Errorf(mesh.Precondition, "x", "debugger has it"), &meshv1.Handoff{State: "active", TargetAgentId: "debugger"},
			"You are currently in a session with the Debugging Assistant. Would you like to finish that first?"},
		"the turn is over": {mesh.Errorf(mesh.Precondition, "x", "main does not have the user's stream"), &meshv1.Handoff{State: "completed", TargetAgentId: "debugger"},
			"main does not have the user's stream"},
		"it went to and fro": {mesh.Errorf(mesh.Exhausted, "x", "answer the user first"), nil, "answer the user first"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handoffs{inv: invocation(t, &refusing{err: tt.err, active: tt.active}), agents: []*meshv1.Agent{builder, other}}
			res := h.Call(t.Context(), mesh.ToolUse{Name: ToolHandoff, Arguments: `{"agent":"builder","reason":"r","summary":"s"}`})
			if !res.Failed || res.Stop || res.Text != tt.want {
				t.Errorf("result %+v, want failed: %s", res, tt.want)
			}
		})
	}
}

// S4-071: main looks at what the mesh tells it of the agents, and neither calls the node nor
// chooses an agent that is not for this user where another one will do.
func TestMainKnowsWhoIsNotForThisUser(t *testing.T) {
	texttest.Fixed(t)
	closedTo := func(a *meshv1.Agent, missing ...string) *meshv1.Agent {
		a.RequiredPermissions, a.MissingPermissions, a.DeniedActions = missing, missing, []string{"orchestrate", "handoff"}
		return a
	}
	builder := closedTo(described("builder", "The Builder", true, map[string]any{"handoff_support": true, "stateful_workflows": true}), "skill:create")
	o := look([]*meshv1.Agent{
		builder,
		closedTo(described("ledger", "Ledger", true, nil, "ledger.read"), "audit:read"),
		closedTo(described("notes", "Notes", true, nil, "notes.find")),
		described("notes2", "More Notes", true, nil, "notes.find"),
	}, &mesh.Grant{Agent: "main", Depth: 1})
	const needs = " (not for this user, whom you tell in one sentence: Ledger works only for users with the permission audit:read, which these roles give: auditor, operator, tenant-admin; ask the operator for one)"
	if got := names(o.consult); got != "ledger notes2" || o.consult[0].GetCard().GetDescription() != "Is ledger."+needs {
		t.Errorf("can be asked: %s; ledger is described as %q", got, o.consult[0].GetCard().GetDescription())
	}
	service := &refusing{err: mesh.Errorf(mesh.Exhausted, "x", "no")}
	h := &handoffs{inv: invocation(t, service), agents: o.handoff}
	if tool := h.List(t.Context())[0]; !strings.Contains(tool.Description, "- builder: Is builder. (not for this user, whom you tell in one sentence: The Builder works only for users with the permission skill:create, ") {
		t.Errorf("the tool is described as\n%s", tool.Description)
	}
	res := h.Call(t.Context(), mesh.ToolUse{Name: ToolHandoff, Arguments: `{"agent":"builder","reason":"r","summary":"s"}`})
	if service.got != nil || !res.Failed || res.Stop || res.Cause != mesh.CauseDenied || !strings.HasPrefix(res.Text, "The Builder works only") {
		t.Errorf("the node was asked for %v: %+v", service.got, res)
	}
}

func TestAHandoffCarriesNoMoreThanItMay(t *testing.T) {
	service := &refusing{err: mesh.Errorf(mesh.Exhausted, "x", "no")}
	h := &handoffs{inv: invocation(t, service), agents: []*meshv1.Agent{described("builder", "B", true, nil)}}
	long := strings.Repeat("ä", 3000)
	h.Call(t.Context(), mesh.ToolUse{Name: ToolHandoff, Arguments: `{"agent":"builder","reason":"` + long + `","summary":"` + long + `"}`})
	r, s := service.got.GetReason(), service.got.GetContextSummary()
	if len(r) > 500 || len(s) > 2000 || !strings.HasSuffix(s, "ä…") {
		t.Errorf("sent %d and %d bytes, ending with %q", len(r), len(s), s[len(s)-8:])
	}
	res := h.Call(t.Context(), mesh.ToolUse{Name: ToolHandoff, Arguments: `{"agent":"nobody","reason":"r","summary":"s"}`})
	if !res.Failed || !strings.Contains(res.Text, `"nobody"`) || service.got.GetTargetAgent() != "builder" {
		t.Errorf("an unknown agent: %+v, asked for %q", res, service.got.GetTargetAgent())
	}
}
