package node_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
)

// What must come of each attempt: its code, and the action, and perhaps the resource, of
// the record that says so. Of attempts by the same method one is told, and the others
// are counted, so that nobody fills a disk; an attempt at another agent the node does not
// see.
var malicious = map[string]struct{ code, action, resource string }{
	"read another thread":            {"not found", "ReadThread", "THREAD"},
	"read another thread over REST":  {"not found", "GetThread", ""},
	"follow its own elsewhere":       {"denied", "GetThread", ""},
	"write another thread":           {"not found", "AppendEvents", "THREAD"},
	"read tasks":                     {"denied", "ListTasks", ""},
	"read tasks over REST":           {"denied", "ListTasks", ""},
	"read its task over REST":        {"denied", "GetTask", ""},
	"answer for the user over REST":  {"denied", "SendMessage", ""},
	"stream for the user over REST":  {"denied", "SendStreamingMessage", ""},
	"revoke a user over REST":        {"denied", "RevokeUser", ""},
	"share the thread over REST":     {"denied", "ShareThread", ""},
	"read the record over REST":      {"denied", "ListAuditRecords", ""},
	"answer for the user over RPC":   {"denied", "SendMessage", ""},
	"read tasks over RPC":            {"denied", "ListTasks", ""},
	"read another's task over RPC":   {"denied", "GetTask", ""},
	"cancel its turn over RPC":       {"denied", "CancelTask", ""},
	"answer for the user over 0.3":   {"denied", "SendMessage", ""},
	"read another's task over 0.3":   {"denied", "GetTask", ""},
	"read its task over REST 0.3":    {"denied", "GetTask", ""},
	"answer for the user, REST 0.3":  {"denied", "SendMessage", ""},
	"run a skill over MCP":           {"unknown", "RunSkill", ""}, // of a tool there is no code
	"have an agent of all over REST": {"denied", "RegisterAgent", ""},
	"replays over HTTP":              {"unauthenticated", "", ""},
	"speak for the user":             {"denied", "SendMessage", ""},
	"share the thread":               {"denied", "ShareThread", "OWN"},
	"delete a thread":                {"denied", "DeleteThread", "THREAD"},
	"read others' values":            {"denied", "ListState", "memory"},
	"write others' values":           {"denied", "PutState", ""},
	"open a breaker":                 {"denied", "PutState", ""},
	"delete a skill":                 {"denied", "DeleteSkill", "mail.wipe"},
	"run a skill":                    {"denied", "RunSkill", "mail.wipe"},
	"create a skill":                 {"precondition", "CreateSkill", "workflows.evil"},
	"schedule a skill":               {"precondition", "CreateSkill", "workflows.evil"},
	"a ticket for others":            {"not found", "", ""},
	"revoke a user":                  {"denied", "RevokeUser", "ann"},
	"erase a user":                   {"denied", "EraseUser", "ann"},
	"read the record":                {"denied", "ListAuditRecords", ""},
	"register under a grant":         {"denied", "RegisterAgent", "helper"},
	"a child with more skills":       {"denied", "AppendEvents", ""},
	"a child for another user":       {"invalid", "AppendEvents", ""},
	"call what is not granted":       {"denied", "AppendEvents", ""},
	"call unasked":                   {"precondition", "AppendEvents", ""},
	"approve itself":                 {"precondition", "AppendEvents", ""},
	"be the user":                    {"denied", "AppendEvents", ""},
	"note a created skill":           {"denied", "AppendEvents", ""},
	"without the secret":             {"unauthenticated", "ReadThread", ""},
	"with a changed grant":           {"unauthenticated", "", ""},
	"redeem a grant":                 {"unauthenticated", "", ""},
	"take a name":                    {"precondition", "", ""},
	"take a place":                   {"denied", "", ""},
	"replay at another agent":        {"unauthenticated", "", ""},
	"ask with false words":           {"ok", "", ""}, // which nobody is shown
	"settle a false question":        {"precondition", "AppendEvents", ""},
	"settle a no":                    {"precondition", "AppendEvents", ""},
	"call with other arguments":      {"precondition", "AppendEvents", ""},
	"call as approved":               {"ok", "", ""},
	"call again":                     {"precondition", "AppendEvents", ""},
	"call once more":                 {"precondition", "AppendEvents", ""},
	"late: note":                     {"precondition", "AppendEvents", ""},
	"late: read":                     {"precondition", "ReadThread", ""},
	"late: write":                    {"precondition", "PutState", ""},
	"late: create":                   {"precondition", "CreateSkill", "workflows.evil"},
	"late: hand over":                {"precondition", "StartHandoff", "main"},
	"late: list":                     {"precondition", "ListSkills", ""},
	"late: dispatch":                 {"precondition", "AppendEvents", ""},
}

// findings T2, T3, T4, T6, T9, T11: an agent in its own process that a tenant trusts, and
// that replays, widens, reads and writes what is others', approves itself, asks with false
// words, outlives its turn and takes names and places, gets nowhere, and it is on record.
func TestTheMaliciousAgent(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	cfg.Egress.Allow, cfg.MCP.Offer = []string{"127.0.0.1"}, true
	file, err := os.OpenFile(cfg.Tokens, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString("- {name: root, hash: '" + auth.Hash("secret-of-tenant-root") + "', tenant: a, user: root, roles: [operator]}\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	wipe := "---\nname: mail.wipe\ndescription: Deletes mail.\nconfirm: Really?\nparameters:\n  - {name: folder, type: string, default: none}\n---\n# wipe\n\nWipe.\n"
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder}, func(o *node.Options) {
		o.Skills = append(o.Skills, fstest.MapFS{"mail/wipe.md": {Data: []byte(wipe)}})
	})
	conn := m.raw(t)
	a2a, agents := a2apb.NewA2AServiceClient(conn), meshv1.NewRegistryServiceClient(conn)
	theirs := mesh.NewThreadID()
	if _, err := a2a.SendMessage(as(plain(t), "eve", "thread-id", theirs), say("a secret")); err != nil {
		t.Fatal(err)
	}
	abroad := place(t)
	for who, at := range map[string]*meshv1.RegisterAgentRequest{
		"admin": {Name: "helper", Card: card("helper"), Endpoint: place(t)}, "b": {Name: "abroad", Card: card("abroad"), Endpoint: abroad},
	} {
		if _, err := agents.RegisterAgent(as(plain(t), who), at); err != nil {
			t.Fatal(err)
		}
	}
	other, err := agents.GetAgent(as(plain(t), "root"), &meshv1.GetAgentRequest{Name: "builder"})
	if err != nil {
		t.Fatal(err)
	}
	var nodes, webs []string
	for _, n := range m.All {
		nodes, webs = append(nodes, n.GRPC), append(webs, n.HTTP)
	}
	child(t, "malicious-agent", maliceNodes+"="+strings.Join(nodes, " "), maliceWeb+"="+strings.Join(webs, " "), maliceThread+"="+theirs,
		maliceOther+"="+other.GetAgent().GetEndpoint(), maliceAbroad+"="+abroad, maliceFree+"="+place(t))
	for _, node := range conn { // each hears of it
		for ctx := plain(t); ; {
			stream, err := a2apb.NewA2AServiceClient(node).SendStreamingMessage(as(ctx, "a", "agent", "mallory"), say("hello"))
			if err == nil {
				var s said
				for r, err := stream.Recv(); err == nil; r, err = stream.Recv() {
					s.add(t, r)
				}
				if s.state == completed {
					break
				}
			}
			if ctx.Err() != nil {
				t.Fatal("the agent does not come")
			}
		}
	}

	got, own, task := map[string]string{}, mesh.NewThreadID(), ""
	for i, text := range []string{"begin", "yes", "no", "yes", "and now?"} {
		req := say(text)
		if req.Message.ContextId = own; i > 0 && i < 4 {
			req.Message.TaskId = task
		}
		stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "agent", "mallory", "thread-id", own), req)
		s := hear(t, stream, err)
		if task = s.task.GetId(); i == 1 && !strings.Contains(strings.Join(s.status, "\n"), "Really?\n- folder: all") {
			t.Errorf("the user is asked %q", s.status)
		}
		for line := range strings.Lines(s.text) {
			what, code, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if at := strings.LastIndex(line, ": "); at > 0 {
				what, code = line[:at], strings.TrimSpace(line[at+2:])
			}
			got[what] = code
		}
	}
	for what, want := range malicious {
		if got[what] != want.code {
			t.Errorf("%s: %q, want %q", what, got[what], want.code)
		}
		delete(got, what)
	}
	if len(got) > 0 {
		t.Errorf("it also tried %v", got)
	}
	recorded(t, meshv1.NewAuditServiceClient(conn), map[string]string{"THREAD": theirs, "OWN": own})
}

// place returns the address of an agent that is there.
func place(t *testing.T) string {
	t.Helper()
	l := rpctest.Listen(t)
	server := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(server, &tap{name: "there"})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return l.Addr().String()
}

// recorded waits until the record has what must be in it of the malicious agent.
func recorded(t *testing.T, record meshv1.AuditServiceClient, names map[string]string) {
	t.Helper()
	missing := map[string]bool{"RegisterAgent helper by a": true, "RegisterAgent mine by a": true}
	for _, want := range malicious {
		if want.action != "" {
			resource := want.resource
			if id, ok := names[resource]; ok {
				resource = id
			}
			missing[strings.TrimSpace(want.action+" "+resource)] = true
		}
	}
	stream, err := record.FollowAuditRecords(as(plain(t), "auditor"), &meshv1.FollowAuditRecordsRequest{})
	for err == nil && len(missing) > 0 {
		var res *meshv1.FollowAuditRecordsResponse
		if res, err = stream.Recv(); err != nil {
			break
		}
		r := res.GetRecord()
		action := r.GetAction()[strings.LastIndex(r.GetAction(), "/")+1:]
		switch d := r.GetDecision(); {
		case d != meshv1.AuditRecord_DECISION_REFUSED && d != meshv1.AuditRecord_DECISION_FAILED || r.GetCode() == "" || r.GetTenantId() != "a":
		case r.GetAgent() == "mallory" && r.GetUserId() == "ann" && r.GetExecutionId() != "":
			delete(missing, action)
			delete(missing, action+" "+r.GetResource())
		case r.GetCredential() == "token:a":
			delete(missing, action+" "+r.GetResource()+" by a")
		}
	}
	if err != nil {
		t.Errorf("the record misses %v: %v", missing, err)
	}
}
