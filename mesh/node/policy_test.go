package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
)

// policies writes files of policies into the folder, each as a whole.
func policies(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		if err == nil {
			err = os.WriteFile(at+".new", []byte(text), 0o600)
		}
		if err == nil {
			err = os.Rename(at+".new", at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// policyIn is the id of the policy that refused, as its error says on the wire.
func policyIn(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == mesh.ReasonPolicy {
			return info.GetMetadata()["policy"]
		}
	}
	return ""
}

// What policies forbid and permit holds at every door, and is read again while the mesh
// runs.
func TestEveryFaceAsksPolicies(t *testing.T) {
	const readers = `@id("readers-write") permit(principal == User::"acme/reader", action == Action::"chat.send", resource);` + "\n"
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.MCP.Offer = "tokens", userTokens(t), true
	cfg.Policies = policies(t, t.TempDir(), map[string]string{
		"all.cedar":        readers,
		"acme/main.cedar":  `@id("not-main") forbid(principal, action == Action::"chat.send", resource == Agent::"main") unless { principal.name == "reader" };`,
		"acme/add.cedar":   `@id("no-notes") forbid(principal, action == Action::"skill.call", resource) when { resource.name like "notes.*" };`,
		"umbrella/x.cedar": `forbid(principal, action, resource);`,
	})
	m := start(t, cfg, map[string]run{"main": echo, "worker": echo}, func(o *node.Options) {
		o.Skills = append(o.Skills, fstest.MapFS{"notes/add.md": {Data: []byte("---\nname: notes.add\ndescription: Adds a note.\n---\nAdd it.\n")}})
	})
	for name, send := range faces() {
		if got := send(t, m, "hello", bearer(userOf(name))); got != "PERMISSION_DENIED" && got != mesh.ReasonPolicy { // which JSON-RPC says
			t.Errorf("%s, forbidden: %s", name, got)
		}
		if got := send(t, m, "hello", bearer("reader")); got != "OK" {
			t.Errorf("%s, permitted: %s", name, got)
		}
	}
	ask := func(path, body string) string {
		resp, answer := post(t, m, path, body, append(bearer("rest"), "Accept", "application/json, text/event-stream")...)
		return fmt.Sprint(resp.StatusCode, " ", answer)
	}
	if got := ask("/mesh/v1/skills/notes.add:run", "{}"); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, `"policy":"acme/no-notes"`) {
		t.Errorf("a skill over REST: %s", got)
	}
	if got := ask("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"notes-add","arguments":{}}}`); !strings.Contains(got, "acme/no-notes") {
		t.Errorf("a skill over MCP: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(cfg.Policies, "acme")); err != nil {
		t.Fatal(err)
	}
	policies(t, cfg.Policies, map[string]string{"all.cedar": "// nothing"})
	for name, send := range faces() {
		eventually(t, func() error {
			for range 4 { // all nodes
				if one, other := send(t, m, "hello", bearer(userOf(name))), send(t, m, "hello", bearer("reader")); one != "OK" || other != "PERMISSION_DENIED" {
					return fmt.Errorf("%s, read again: %s, and the reader %s", name, one, other)
				}
			}
			return nil
		})
	}
}

// part of T3: agents get what the grant allows and no policy forbids; a user who must not
// talk to an agent any more has no turns go on. What was refused is recorded with the
// policy.
func TestAgentsAreHeldToPolicies(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", tokensFile(t), []string{"127.0.0.1"}
	cfg.Policies = policies(t, t.TempDir(), map[string]string{"agents.cedar": `
@id("call") forbid(principal, action == Action::"skill.call", resource == Skill::"main.do") when { context has agent && context.agent == "main" };
@id("dispatch") forbid(principal in Role::"user", action == Action::"orchestrate", resource == Agent::"other") when { context.chain.contains("main") };
@id("handoff") forbid(principal == User::"a/ann", action == Action::"handoff", resource == Agent::"other");
@id("create") forbid(principal, action == Action::"skill.create", resource) when { resource.name like "workflows.*" && context has agent };
@id("permit-create") permit(principal == User::"a/eve", action == Action::"skill.create", resource);
@id("permit-delete") permit(principal == User::"a/eve", action == Action::"thread.delete", resource);
@id("names") forbid(principal, action == Action::"agent.register", resource) unless { resource.name like "team-*" };
`})
	results, waiting, goOn := make(chan map[string]error, 1), make(chan struct{}, 1), make(chan struct{})
	try := func(ctx context.Context, inv *agent.Invocation) map[string]error {
		record := func(b mesh.Body) error { _, err := inv.Mesh.Record(ctx, &mesh.Event{Body: b}); return err }
		tried := map[string]error{
			"call":     record(mesh.SkillCalled{Call: mesh.NewEventID(), Skill: "main.do", Args: "{}"}),
			"dispatch": record(mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(inv.Grant.Thread), Parent: inv.Grant.Execution, Kind: mesh.KindAgent, Agent: "other", User: inv.Grant.User, Text: "work"}}),
		}
		_, tried["create"] = inv.Mesh.CreateSkill(ctx, "---\nname: workflows.x"+strings.ToLower(mesh.NewEventID()[:8])+"\ndescription: Does.\n---\n# x\n\nDo.\n", "")
		_, tried["read"] = inv.Mesh.History(ctx, 10)
		_, tried["handoff"] = inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "other"})
		return tried
	}
	m := start(t, cfg, map[string]run{"other": echo, "main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if inv.Text() == "wait" {
				waiting <- struct{}{}
				<-goOn
			}
			if inv.Text() != "hello" { // which a node takes that has not read its policies yet
				results <- try(ctx, inv)
			}
			yield(agent.Text{Text: "done"}, nil)
		}
	}})
	conn := m.raw(t)
	a2a, skills := a2apb.NewA2AServiceClient(conn), meshv1.NewSkillServiceClient(conn)
	id := mesh.NewThreadID()
	send := func(text string) (a2apb.A2AService_SendStreamingMessageClient, error) {
		stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", id), say(text))
		if err == nil {
			_, err = stream.Recv()
		}
		return stream, err
	}
	if _, err := send("go"); err != nil {
		t.Fatal(err)
	}
	for what, err := range <-results {
		if what == "read" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if !mesh.IsCode(err, mesh.Denied) || !strings.Contains(mesh.DetailOf(err), "policy "+what+" ") {
			t.Errorf("%s: %v", what, err)
		}
	}

	// Users, by the name that a thing has when it is known.
	source := "---\nname: notes.mine\ndescription: Does.\n---\n# x\n\nDo.\n"
	if _, err := skills.CreateSkill(as(plain(t), "eve"), &meshv1.CreateSkillRequest{Source: source}); err != nil {
		t.Errorf("who is permitted: %v", err)
	}
	if _, err := skills.CreateSkill(as(plain(t), "auditor"), &meshv1.CreateSkillRequest{Source: source}); status.Code(err) != codes.PermissionDenied || policyIn(err) != "" {
		t.Errorf("who is not: %v", err)
	}
	if _, err := meshv1.NewThreadServiceClient(conn).DeleteThread(as(plain(t), "eve"), &meshv1.DeleteThreadRequest{ThreadId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("another's thread, where deleting is permitted: %v", err)
	}
	for _, req := range []*meshv1.RegisterAgentRequest{{Name: "other-team", Card: card("x")}, {Card: card("x")}} {
		if _, err := meshv1.NewRegistryServiceClient(conn).RegisterAgent(as(plain(t), "a"), req); policyIn(err) != "names" {
			t.Errorf("an agent of another name: %v", err)
		}
	}

	// A turn goes on with what its user may by now.
	stream, err := send("wait")
	if err != nil {
		t.Fatal(err)
	}
	<-waiting
	policies(t, cfg.Policies, map[string]string{"ann.cedar": `@id("no-ann") forbid(principal == User::"a/ann", action == Action::"chat.send", resource);`})
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied || policyIn(err) != "no-ann" {
		t.Errorf("the stream ends with %v", err)
	}
	eventually(t, func() error {
		for _, conn := range conn { // each node reads the folder by itself
			if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(as(plain(t), "a"), say("hello")); policyIn(err) != "no-ann" {
				return fmt.Errorf("a new message: %w", errors.Join(err, errors.New("is not refused")))
			}
		}
		return nil
	})
	close(goOn)
	for what, err := range <-results {
		if !mesh.IsCode(err, mesh.Denied) || what == "read" && !strings.Contains(mesh.DetailOf(err), "no-ann") {
			t.Errorf("%s, later: %v", what, err)
		}
	}
	wanted := []string{"REFUSED AppendEvents THREAD call", "REFUSED RegisterAgent other-team names", "ALLOWED CreateSkill notes.mine permit-create", "DONE CreateSkill notes.mine permit-create"}
	follow, err := meshv1.NewAuditServiceClient(conn).FollowAuditRecords(as(plain(t), "auditor"), &meshv1.FollowAuditRecordsRequest{})
	for err == nil && len(wanted) > 0 {
		var r *meshv1.FollowAuditRecordsResponse
		if r, err = follow.Recv(); err != nil {
			break
		}
		rec := r.GetRecord()
		if _, err := mesh.ParseThreadID(rec.GetResource()); err == nil {
			rec.Resource = "THREAD"
		}
		line := fmt.Sprint(strings.TrimPrefix(rec.GetDecision().String(), "DECISION_"), " ", rec.GetAction()[strings.LastIndex(rec.GetAction(), "/")+1:], " ", rec.GetResource(), " ", rec.GetPolicy())
		if at := slices.Index(wanted, line); at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("not recorded: %q, %v", wanted, rpc.FromStatus(err))
	}
}

// A node does not start with policies that cannot be used.
func TestANodeThatFailsToStartForAPolicySaysWhere(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // the path in the folder
	}{
		"a mistake": {map[string]string{"acme/a.cedar": "\nforbid(principal, action == Action::\"fly\", resource);"}, "/acme/a.cedar:2:1"},
		"no folder": {nil, ""},
	} {
		cfg := config(t.TempDir())
		cfg.Policies = policies(t, filepath.Join(t.TempDir(), "policies"), tt.files)
		ctx, cancel := context.WithCancel(t.Context())
		err := node.Run(ctx, cfg, options(map[string]run{"main": echo}, []func(*node.Options){func(o *node.Options) { o.Ready = func(node.Addresses) { cancel() } }}))
		if cancel(); err == nil || !strings.Contains(mesh.DetailOf(err), cfg.Policies+tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
