package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// requiring is a card of an agent for users who may create skills.
func requiring(name string) *a2apb.AgentCard {
	c := card(name)
	c.GetCapabilities().GetExtensions()[0].Params = &structpb.Struct{Fields: map[string]*structpb.Value{
		"handoff_support":      structpb.NewBoolValue(true),
		"required_permissions": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("skill:create")}}),
	}}
	return c
}

// authors is an agent that says something, for those who may create skills.
type authors struct{ testAgent }

func (a authors) Card() *a2apb.AgentCard { return requiring(a.name) }

// author adds the agent of that name.
func author(name string) func(o *node.Options) {
	return func(o *node.Options) {
		o.Builtins = append(o.Builtins, node.Builtin{Name: name, New: func(node.Env) (agent.Agent, error) { return authors{testAgent{name, echo}}, nil }})
	}
}

// lack tells a refusal: its code, the permission, the agent, and the field.
func lack(err error) string {
	if err == nil {
		return "OK"
	}
	err = rpc.FromStatus(err)
	out := mesh.CodeOf(err).String()
	if l := mesh.LackOf(err); l != nil {
		out += fmt.Sprintf(" %s by %s in %s", l.Permission, l.Agent, mesh.FieldOf(err))
	}
	return out
}

// finding O5, S4-071, S4-073: an agent is given no work, and no conversation, for a user who
// lacks what its card requires, or the action itself; nothing of that is in the log, what is
// refused is in the record, and agents at work are told before they try. Another tenant's
// agent is as unknown as one that does not exist.
func TestPermissionComesFirst(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", tokensFile(t), []string{"127.0.0.1"}
	cfg.Policies = policies(t, t.TempDir(), map[string]string{
		"chat.cedar": `@id("chat") permit(principal == User::"a/auditor", action == Action::"chat.send", resource);`,
		"ann.cedar":  `@id("not-worker") forbid(principal == User::"a/ann", action == Action::"orchestrate", resource == Agent::"worker");`,
	})
	tried := make(chan map[string]string, 1)
	m := start(t, cfg, map[string]run{"worker": echo, "main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			tried <- tryAll(ctx, inv)
			yield(agent.Text{Text: "done"}, nil)
		}
	}}, author("author"))
	conn := m.raw(t)
	if _, err := meshv1.NewRegistryServiceClient(conn).RegisterAgent(as(plain(t), "b"), &meshv1.RegisterAgentRequest{Name: "theirs", Card: requiring("theirs"), Endpoint: m.HTTP}); err != nil {
		t.Fatal(err)
	}
	const (
		needs   = "denied skill:create by author in "
		child   = "events[0].dispatch_accepted.child.agent"
		issued  = "events[0].dispatch_issued.child.agent"
		unknown = "not found"
	)
	for user, want := range map[string]map[string]string{
		"eve": {"accept author": needs + child, "dispatch author": needs + issued, "dispatch worker": "OK", "author": "skill:create orchestrate handoff", "worker": "",
			"handoff author": needs + "target_agent", "handoff theirs": unknown, "handoff nobody": unknown, "theirs": unknown, "handoff worker": "OK"},
		"auditor": {"accept author": "denied", "dispatch author": "denied", "dispatch worker": "denied", "author": "skill:create orchestrate handoff", "worker": "orchestrate handoff",
			"handoff author": "denied", "handoff theirs": "denied", "handoff nobody": "denied", "theirs": unknown, "handoff worker": "denied"},
		"a": {"accept author": "OK", "dispatch author": "OK", "dispatch worker": "denied", "author": "", "worker": "orchestrate",
			"handoff theirs": unknown, "handoff nobody": unknown, "theirs": unknown, "handoff author": "OK", "handoff worker": "precondition"},
	} {
		t.Run(user, func(t *testing.T) {
			id := mesh.NewThreadID()
			stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), user, "thread-id", id), say("go"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			got := <-tried
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for err == nil {
				_, err = stream.Recv()
			}
			res, err := meshv1.NewThreadServiceClient(conn).ReadThread(as(plain(t), user), &meshv1.ReadThreadRequest{ThreadId: id, Limit: 500})
			if err != nil {
				t.Fatal(err)
			}
			began := slices.ContainsFunc(res.GetEvents(), func(e *meshv1.Event) bool {
				return e.GetHandoffStarted().GetTo() == "author" || e.GetDispatchIssued().GetChild().GetAgent() == "author" || e.GetDispatchAccepted().GetChild().GetAgent() == "author"
			})
			if began != (user == "a") {
				t.Errorf("the log has work of the author: %v", began)
			}
		})
	}
	refusals(t, meshv1.NewAuditServiceClient(conn), "REFUSED AppendEvents THREAD a/eve PERMISSION_REQUIRED skill:create author", "REFUSED StartHandoff author a/eve PERMISSION_REQUIRED skill:create author", "REFUSED StartHandoff theirs a/auditor")
}

// tryAll has main use other agents in all ways, and tells how that was answered.
func tryAll(ctx context.Context, inv *agent.Invocation) map[string]string {
	child := func(name string) mesh.Execution {
		return mesh.Execution{ID: mesh.NewExecutionID(inv.Grant.Thread), Parent: inv.Grant.Execution, Kind: mesh.KindAgent, Agent: name, User: inv.Grant.User, Text: "work", Label: name + "-1"}
	}
	record := func(b mesh.Body) string {
		_, err := inv.Mesh.Record(ctx, &mesh.Event{Body: b})
		return lack(err)
	}
	got := map[string]string{
		"accept author":   record(mesh.DispatchAccepted{Child: child("author"), Wave: 1}),
		"dispatch author": record(mesh.DispatchIssued{Child: child("author")}),
		"dispatch worker": record(mesh.DispatchIssued{Child: child("worker")}),
	}
	listed, err := inv.Mesh.Agents(ctx, nil)
	for _, name := range []string{"author", "worker", "theirs"} {
		one, oneErr := inv.Mesh.Agent(ctx, name)
		said := strings.Join(append(one.GetMissingPermissions(), one.GetDeniedActions()...), " ")
		i := slices.IndexFunc(listed, func(a *meshv1.Agent) bool { return a.GetName() == name })
		switch {
		case err != nil:
			said = err.Error()
		case oneErr != nil:
			said = lack(oneErr)
		case i < 0 || !slices.Equal(listed[i].GetDeniedActions(), one.GetDeniedActions()) || !slices.Equal(listed[i].GetMissingPermissions(), one.GetMissingPermissions()):
			said = fmt.Sprintf("listed otherwise: %v", listed)
		}
		got[name] = said
	}
	for _, name := range []string{"theirs", "nobody", "author", "worker"} {
		_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: name})
		got["handoff "+name] = lack(err)
	}
	return got
}

// refusals waits until the record has the lines: decision, method, resource, who and why.
func refusals(t *testing.T, record meshv1.AuditServiceClient, wanted ...string) {
	t.Helper()
	follow, err := record.FollowAuditRecords(as(plain(t), "auditor"), &meshv1.FollowAuditRecordsRequest{})
	for err == nil && len(wanted) > 0 {
		var r *meshv1.FollowAuditRecordsResponse
		if r, err = follow.Recv(); err != nil {
			break
		}
		rec := r.GetRecord()
		if _, none := mesh.ParseThreadID(rec.GetResource()); none == nil {
			rec.Resource = "THREAD"
		}
		line := fmt.Sprint(strings.TrimPrefix(rec.GetDecision().String(), "DECISION_"), " ", rec.GetAction()[strings.LastIndex(rec.GetAction(), "/")+1:], " ", rec.GetResource(), " ", rec.GetTenantId(), "/", rec.GetUserId())
		line = strings.Join(strings.Fields(fmt.Sprint(line, " ", rec.GetReason(), " ", rec.GetPermission(), " ", rec.GetRequiredBy())), " ")
		if at := slices.Index(wanted, line); at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("not recorded: %q, %v", wanted, rpc.FromStatus(err))
	}
}

// Who lacks what an agent requires has no messages taken for it either, at any door, and
// hears which permission that is; the agent of another tenant is unknown.
func TestAMessageForAnAgentNeedsWhatItRequires(t *testing.T) {
	cfg := config(t.TempDir())
	tokens := userTokens(t)
	entry := fmt.Sprintf("- name: both\n  hash: %q\n  tenant: acme\n  user: both\n  roles: [user, skill-author]\n", auth.Hash("the-secret-of-both"))
	had, err := os.ReadFile(tokens)
	if err = errors.Join(err, os.WriteFile(tokens, append(had, entry...), 0o600)); err != nil {
		t.Fatal(err)
	}
	cfg.Auth, cfg.Tokens = "tokens", tokens
	m := start(t, cfg, map[string]run{"worker": echo}, author("main"))
	for name, send := range faces() {
		if got := send(t, m, "hello", bearer(userOf(name))); got != "PERMISSION_DENIED" && got != mesh.ReasonPermission { // which JSON-RPC says
			t.Errorf("%s, without the permission: %s", name, got)
		}
		if got := send(t, m, "hello", bearer("both")); got != "OK" {
			t.Errorf("%s, with it: %s", name, got)
		}
	}
	to := func(agent, user string) error {
		_, err := a2apb.NewA2AServiceClient(m.raw(t)).SendMessage(metadata.NewOutgoingContext(plain(t), metadata.Pairs("agent", agent, "authorization", "Bearer the-secret-of-"+user)), say("hello"))
		return err
	}
	for user, want := range map[string]string{userOf("REST"): `"requiredPermissions":["skill:create"],"missingPermissions":["skill:create"]`, "both": `"requiredPermissions":["skill:create"]}`} {
		got := m.ask(t, http.MethodGet, "/mesh/v1/agents/main", "", bearer(user), restError)
		if !strings.Contains(strings.ReplaceAll(got.text, " ", ""), want) {
			t.Errorf("to %s it is shown as %s", user, got.text)
		}
	}
	if err := to("worker", userOf("gRPC")); err != nil {
		t.Errorf("another agent: %v", err)
	}
	err = to("main", userOf("gRPC"))
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == mesh.ReasonPermission &&
			cmp.Equal(info.GetMetadata(), map[string]string{"permission": "skill:create", "agent": "main"}) {
			return
		}
	}
	t.Errorf("the refusal does not say what is lacking: %v", describe(err))
}

// In a conversation that is shared, each has what the agent does only by what that one may:
// who lacks it writes nothing to the agent that has it, and may end that all the same.
func TestWhoTakesPartGetsNoMoreByThat(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	asks := func(o *node.Options) {
		o.Builtins = append(o.Builtins, node.Builtin{Name: "author", New: func(node.Env) (agent.Agent, error) {
			return authors{testAgent{"author", func(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
				return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "After " + inv.Text() + "?"}, nil) }
			}}}, nil
		}})
	}
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if inv.Returned == nil {
				if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "author"}); err == nil {
					return
				}
			}
			yield(agent.Text{Text: "main: " + inv.Text()}, nil)
		}
	}}, asks)
	conn, id := m.raw(t), mesh.NewThreadID()
	edge, threads := a2apb.NewA2AServiceClient(conn), meshv1.NewThreadServiceClient(conn)
	send := func(user, text string) said {
		t.Helper()
		stream, err := edge.SendStreamingMessage(as(plain(t), user, "thread-id", id), say(text))
		return hear(t, stream, err)
	}
	if s := send("a", "go"); s.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("ended %v: %v", s.state, s.status)
	}
	if _, err := threads.ShareThread(as(plain(t), "a"), &meshv1.ShareThreadRequest{ThreadId: id, Add: []string{"eve"}}); err != nil {
		t.Fatal(err)
	}
	events := func() int {
		t.Helper()
		res, err := threads.ReadThread(as(plain(t), "a"), &meshv1.ReadThreadRequest{ThreadId: id, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(res.GetEvents(), func(e *meshv1.Event) bool { return e.GetActor() != "user:eve" }))
	}
	before := events() // the end of a turn may still be written
	_, err := edge.SendMessage(as(plain(t), "eve", "thread-id", id), say("for me, too"))
	if got := lack(err); got != "denied skill:create by author in " || events() != before {
		t.Errorf("who lacks it: %s; %d events, %d before", got, events(), before)
	}
	if s := send("a", "on"); s.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || !slices.ContainsFunc(s.status, func(said string) bool { return questionOf(said) == "After on?" }) {
		t.Errorf("who has it: ended %v: %q", s.state, s.status)
	}
	ends := map[string]func() said{
		"EndHandoff": func() said {
			if _, err := meshv1.NewHandoffServiceClient(conn).EndHandoff(as(plain(t), "eve"), &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "cancelled"}); err != nil {
				t.Errorf("who lacks it does not end it: %v", err)
			}
			return send("eve", "hello")
		},
		"exit": func() said { return send("eve", "exit") },
	}
	for name, end := range ends {
		if s := end(); s.state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasPrefix(s.text, "main: ") {
			t.Errorf("%s: ended %v, main said %q", name, s.state, s.text)
		}
		if s := send("a", "go"); s.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			t.Fatalf("%s: begun again it ended %v", name, s.state)
		}
	}
}
