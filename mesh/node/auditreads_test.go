package node_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

// onRecord follows the record until it has all the lines, and fails for one that has a word
// which it must not have.
func onRecord(t *testing.T, m *testMesh, who, never string, wanted ...string) {
	t.Helper()
	wanted = slices.Clone(wanted)
	stream, err := meshv1.NewAuditServiceClient(m.raw(t)).FollowAuditRecords(as(plain(t), who), &meshv1.FollowAuditRecordsRequest{})
	for err == nil && len(wanted) > 0 {
		var got *meshv1.FollowAuditRecordsResponse
		if got, err = stream.Recv(); err != nil {
			break
		}
		line := auditLine(got.GetRecord())
		if never != "" && (strings.Contains(line, never) || strings.Contains(got.String(), never)) {
			t.Errorf("recorded is %v", got)
		}
		if at := slices.Index(wanted, line); at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("not recorded: %q, %v", wanted, err)
	}
}

// finding T9: who reads tasks of others because a role allows it is recorded, whichever of
// A2A's methods that was; who owns the conversation or takes part in it is not, whatever
// their roles are.
func TestWhoTakesPartReadsTasksUnrecorded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	conn := m.raw(t)
	client := a2apb.NewA2AServiceClient(conn)
	reads := map[string]func(who, task, thread string) error{
		"get": func(who, task, _ string) error {
			_, err := client.GetTask(as(plain(t), who), &a2apb.GetTaskRequest{Id: task})
			return err
		},
		"list": func(who, _, thread string) error {
			res, err := client.ListTasks(as(plain(t), who), &a2apb.ListTasksRequest{ContextId: thread})
			if err == nil && len(res.GetTasks()) != 1 {
				err = errors.New("the task is not listed")
			}
			return err
		},
		"subscribe": func(who, task, _ string) error {
			s, err := client.SubscribeToTask(as(plain(t), who), &a2apb.SubscribeToTaskRequest{Id: task})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	}
	var wanted []string
	for _, text := range []string{"hello", "make a skill"} { // over, and one that asks
		for what, read := range reads {
			if what == "subscribe" && text == "hello" { // to what is over, nobody can
				continue
			}
			id := mesh.NewThreadID()
			res, err := client.SendMessage(as(plain(t), "a", "thread-id", id), say(text))
			if err == nil {
				_, err = meshv1.NewThreadServiceClient(conn).ShareThread(as(plain(t), "a"), &meshv1.ShareThreadRequest{ThreadId: id, Add: []string{"adam"}})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, who := range []string{"a", "admin", "auditor"} {
				for range len(m.All) * 2 { // whether it was read at that node before or not
					if err := read(who, res.GetTask().GetId(), id); err != nil {
						t.Errorf("%s may not %s: %v", who, what, err)
					}
				}
			}
			wanted = append(wanted, "ALLOWED a/auditor token:auditor thread.read.tenant "+id)
		}
	}
	onRecord(t, m, "auditor", "a/adam token:admin thread.read.tenant", wanted...)
}

// finding T9: what was changed in the token file while no node ran is recorded at the next
// start, once, by the tokens' names and whose they are.
func TestEditsOfTheTokenFileAreNoticedAtTheNextStart(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	edit := func(add string, change ...string) {
		t.Helper()
		all, err := os.ReadFile(cfg.Tokens)
		if err == nil {
			err = os.WriteFile(cfg.Tokens+".new", []byte(strings.NewReplacer(change...).Replace(string(all))+add), 0o600)
		}
		if err == nil {
			err = os.Rename(cfg.Tokens+".new", cfg.Tokens)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	entry := func(name string) string {
		return fmt.Sprintf("- {name: %[1]s, hash: %[2]q, tenant: a, user: %[1]s, roles: [user]}\n", name, auth.Hash("secret-of-tenant-"+name))
	}
	of := func(act, user, token string) string {
		return fmt.Sprintf("DONE a/%s  credential.%s token:%s", user, act, token)
	}
	agents := map[string]run{"main": greeter}

	m := start(t, cfg, agents)
	edit(entry("live")) // while it runs, which is not recorded again
	onRecord(t, m, "auditor", "", of("added", "live", "live"))
	m.Stop()
	edit(entry("late"), "name: early\n", "name: earlier\n", auth.Hash("secret-of-tenant-eve"), auth.Hash("another"))
	m = start(t, cfg, agents)
	wanted := []string{of("added", "late", "late"), of("revoked", "early", "early"), of("added", "early", "earlier"),
		of("revoked", "eve", "eve"), of("added", "eve", "eve")}
	onRecord(t, m, "auditor", "sha256", wanted...)
	m.Stop()
	m = start(t, cfg, agents) // and not again
	list, err := meshv1.NewAuditServiceClient(m.raw(t)).ListAuditRecords(as(plain(t), "auditor"), &meshv1.ListAuditRecordsRequest{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list.GetRecords() {
		if strings.HasPrefix(r.GetAction(), "credential.") && r.GetAction() != "credential.expired" && r.GetResource() != "token:live" { // which each node saw
			got = append(got, auditLine(r))
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(wanted))) {
		t.Errorf("recorded are %q, want %q", got, wanted)
	}
}
