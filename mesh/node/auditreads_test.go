package node_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/authz"
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

// recordedReads has what the record says of a method by which somebody sees, because a role
// allows it, what is a colleague's. The name of a resource is one of things.
var recordedReads = map[string]string{
	a2apb.A2AService_GetTask_FullMethodName: "thread.read.tenant THREAD", legacypb.A2AService_GetTask_FullMethodName: "thread.read.tenant THREAD",
	a2apb.A2AService_ListTasks_FullMethodName: "thread.read.tenant THREAD", legacypb.A2AService_ListTasks_FullMethodName: "thread.read.tenant THREAD",
	a2apb.A2AService_SubscribeToTask_FullMethodName: "thread.read.tenant THREAD", legacypb.A2AService_TaskSubscription_FullMethodName: "thread.read.tenant THREAD",
	"tasks/get": "thread.read.tenant THREAD", "tasks/resubscribe": "thread.read.tenant THREAD",
	a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName:    "thread.read.tenant THREAD",
	legacypb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: "thread.read.tenant THREAD",
	"tasks/pushNotificationConfig/set":                                  "thread.read.tenant THREAD",
	meshv1.ThreadService_GetThread_FullMethodName:                       "thread.read.tenant THREAD",
	meshv1.ThreadService_ReadThread_FullMethodName:                      "thread.read.tenant THREAD",
	meshv1.ThreadService_FollowThread_FullMethodName:                    "thread.read.tenant THREAD",
	meshv1.ThreadService_ListThreads_FullMethodName:                     "thread.read.tenant threads",
	meshv1.ThreadService_ListUsage_FullMethodName:                       "thread.read.tenant usage",
	meshv1.BlobService_ReadBlob_FullMethodName:                          "", // as ReadThread, of what there is
	meshv1.BlobService_GetBlob_FullMethodName:                           "",
	meshv1.ExecutionService_ListExecutions_FullMethodName:               "thread.read.tenant THREAD",
	meshv1.ExecutionService_GetExecution_FullMethodName:                 "thread.read.tenant THREAD",
	meshv1.HandoffService_GetHandoff_FullMethodName:                     "thread.read.tenant THREAD",
	meshv1.RegistryService_GetAgent_FullMethodName:                      "agent.read.tenant AGENT",
	meshv1.RegistryService_ListAgents_FullMethodName:                    "agent.read.tenant agents",
	meshv1.RegistryService_WatchAgents_FullMethodName:                   "agent.read.tenant agents",
	// What these tell is the caller's own or nobody's.
	a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName: "", legacypb.A2AService_GetTaskPushNotificationConfig_FullMethodName: "",
	a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName: "", legacypb.A2AService_ListTaskPushNotificationConfig_FullMethodName: "",
	meshv1.SkillService_ListBreakers_FullMethodName: "",
	// It is in mesh/runs.TestAListWithRunsOfOthersIsRecorded: here nothing ran.
	meshv1.SkillService_ListSkillRuns_FullMethodName: "",
}

// finding T9: whichever way somebody reads or lists what is a colleague's because a role
// allows it, it is recorded; of whose it is, it is not.
func TestEveryReadByARoleIsRecorded(t *testing.T) {
	for method, rule := range authz.Node() {
		if _, ok := recordedReads[method]; !ok && rule.Action == mesh.ActReadOwn {
			t.Errorf("%s reads; say in recordedReads what the record has of it", method)
		}
	}
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", adminsFile(t), []string{"127.0.0.1"}
	file, err := os.OpenFile(cfg.Tokens, os.O_APPEND|os.O_WRONLY, 0)
	const readers = 300 // one for each way
	for i := 0; err == nil && i < readers; i++ {
		who := fmt.Sprint("reader-", i)
		_, err = fmt.Fprintf(file, "- {name: %[1]s, hash: %[2]q, tenant: a, user: %[1]s, roles: [tenant-admin]}\n", who, auth.Hash("secret-of-tenant-"+who))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	x := occupied(t, m, "a")
	names := strings.NewReplacer("THREAD", x.thread, "AGENT", x.agent)
	var wanted []string
	tried := map[string]bool{}
	for i, w := range ways(t, m) {
		record := recordedReads[w.ask.method]
		if record == "" || strings.Contains(w.name, "/agents/main") { // which has another agent's tasks
			continue
		}
		who := fmt.Sprint("reader-", i)
		for _, by := range []string{"a", who} {
			if got := w.call(t, x, of(by)); got.code != "OK" && got.code != "ALREADY_EXISTS" {
				t.Errorf("%s: %s may not: %v", w.name, by, got)
			}
		}
		tried[w.ask.method] = true
		wanted = append(wanted, fmt.Sprintf("ALLOWED a/%[1]s token:%[1]s %s", who, names.Replace(record)))
	}
	for method, record := range recordedReads {
		if record != "" && !tried[method] {
			t.Errorf("nobody calls %s", method)
		}
	}
	onRecord(t, m, "auditor", "a/ann token:a thread.read.tenant", wanted...)
	onRecord(t, m, "auditor", "a/ann token:a agent.read.tenant", wanted...)
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
