package node_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
)

// hooked sends a message with a webhook, and returns the thread and task.
func hooked(t *testing.T, m *testMesh, text, url string) (thread, task string) {
	t.Helper()
	thread = mesh.NewThreadID()
	req := say(text)
	req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: url}}
	resp, err := m.edge().SendMessage(in(t, thread), req)
	if err != nil {
		t.Fatal(err)
	}
	return thread, resp.GetTask().GetId()
}

// kinds are those of values that are kept of threads.
var keptOfThreads = []string{"push.config", "push.cursor", "skill-run", "thread.checkpoint", "thread.checkpoints"}

// nothingOf fails if the folder has a value that names the thread, or is not what it was
// written as.
func nothingOf(t *testing.T, folder, thread string) {
	t.Helper()
	path := filepath.Join(folder, "mesh.db")
	store, err := disk.Open(path, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, kind := range keptOfThreads {
		items, _, err := state.New(store).List(t.Context(), state.Page{Kind: kind, Limit: state.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			for _, name := range []string{thread, strings.ReplaceAll(thread, "-", "")} {
				if strings.Contains(it.Name, name) || strings.Contains(string(it.Data), name) {
					t.Errorf("the value %s %s is left", kind, it.Name)
				}
			}
		}
	}
}

// finding R9: conversations go by the rule for their age, with all that is kept of them, and
// the record says so; those that wait for their user stay.
func TestConversationsGoByTheRule(t *testing.T) {
	cfg := withWebhooks(config(t.TempDir()))
	h := newHook(t)
	agents := map[string]run{"main": greeter, "builder": builder}
	m := start(t, cfg, agents)
	old, _ := hooked(t, m, "hello", h.URL)
	waits, task := hooked(t, m, "make a skill", h.URL)
	h.until(t, "TASK_STATE_INPUT_REQUIRED")
	m.Stop()

	cfg.Retention.Age = "36h"
	m = start(t, cfg, agents, func(o *node.Options) { o.Now = func() time.Time { return time.Now().Add(48 * time.Hour) } })
	threads := meshv1.NewThreadServiceClient(m.conn)
	eventually(t, func() error {
		if _, err := threads.GetThread(in(t, old), &meshv1.GetThreadRequest{ThreadId: old}); status.Code(err) != codes.NotFound {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if _, err := threads.GetThread(in(t, waits), &meshv1.GetThreadRequest{ThreadId: waits}); err != nil {
		t.Errorf("the one that waits: %v", err)
	}
	var lines []string
	eventually(t, func() error {
		got, err := meshv1.NewAuditServiceClient(m.conn).ListAuditRecords(plain(t), &meshv1.ListAuditRecordsRequest{Filter: &meshv1.AuditFilter{Action: "thread.retention"}})
		if lines = nil; err != nil {
			return err
		}
		for _, r := range got.GetRecords() {
			lines = append(lines, fmt.Sprintf("%s %s %d", auditLine(r), r.GetPolicy(), len(r.GetLastHash())))
		}
		if len(lines) < 2 {
			return fmt.Errorf("the record is %q", lines)
		}
		return nil
	})
	if want := []string{"DONE default/  thread.retention " + old + " retention.age 32", "ALLOWED default/  thread.retention " + old + " retention.age 0"}; !slices.Equal(lines, want) {
		t.Errorf("the record is %q, want %q", lines, want)
	}
	list, err := m.edge().ListTaskPushNotificationConfigs(in(t, waits), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: task})
	if err != nil || len(list.GetConfigs()) != 1 {
		t.Errorf("the webhook of the one that waits: %v, %v", list, err)
	}
	m.Stop()
	nothingOf(t, cfg.Data, old)
}

// finding R9: who deletes what is old deletes it with all that is kept of it, and each
// deletion is in the record; a policy protects a conversation also from that.
func TestOldConversationsAreDeletedOverTheAPI(t *testing.T) {
	cfg := withWebhooks(config(t.TempDir()))
	cfg.Policies = t.TempDir()
	h := newHook(t)
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	gone, task := hooked(t, m, "make a skill", h.URL)
	keeps, _ := hooked(t, m, "hello", h.URL)
	h.until(t, "TASK_STATE_COMPLETED")
	policies(t, cfg.Policies, map[string]string{"keep.cedar": fmt.Sprintf(`@id("keep") forbid(principal, action == Action::"thread.delete", resource == Thread::"%s");`, keeps)})
	threads := meshv1.NewThreadServiceClient(m.conn)
	eventually(t, func() error {
		for range 8 { // of two nodes, each reads its policies by itself
			resp, err := threads.DeleteThreads(plain(t), &meshv1.DeleteThreadsRequest{Before: timestamppb.New(time.Now().Add(time.Minute)), CountOnly: true})
			time.Sleep(100 * time.Millisecond) // to count is an act, of which nobody does many
			if err != nil || resp.GetDeleted() != 1 {
				return fmt.Errorf("%v would be deleted, %w", resp, err)
			}
		}
		return nil
	})
	resp, err := threads.DeleteThreads(plain(t), &meshv1.DeleteThreadsRequest{Before: timestamppb.New(time.Now().Add(time.Minute))})
	if err != nil || resp.GetDeleted() != 1 || resp.GetAtWork() != 0 {
		t.Fatalf("deleted: %v, %v", resp, err)
	}
	if _, err := m.edge().GetTask(in(t, gone), &a2apb.GetTaskRequest{Id: task}); status.Code(err) != codes.NotFound {
		t.Errorf("its task: %v", err)
	}
	if _, err := threads.GetThread(in(t, keeps), &meshv1.GetThreadRequest{ThreadId: keeps}); err != nil {
		t.Errorf("the protected one: %v", err)
	}
	got, err := meshv1.NewAuditServiceClient(m.conn).ListAuditRecords(plain(t), &meshv1.ListAuditRecordsRequest{Filter: &meshv1.AuditFilter{Action: "DeleteThreads", Resource: gone}})
	var lines []string
	for _, r := range got.GetRecords() {
		lines = append(lines, fmt.Sprintf("%s %d", auditLine(r), len(r.GetLastHash())))
	}
	who := strings.TrimSuffix(auditLine(got.GetRecords()[0]), " DeleteThreads "+gone)[len("DONE "):]
	if want := []string{"DONE " + who + " DeleteThreads " + gone + " 32", "ALLOWED " + who + " DeleteThreads " + gone + " 0"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("the record is %q, want %q, %v", lines, want, err)
	}
	m.Stop()
	nothingOf(t, cfg.Data, gone)
}

// Rules for what is deleted are checked before anything is.
func TestRulesOfRetentionHaveBounds(t *testing.T) {
	for written, want := range map[string]string{
		"age: 30":                    "2: retention.age",
		"age: 59m":                   "2: retention.age: must be days such as 365d",
		"age: 0d":                    "2: retention.age",
		"age: -1d":                   "2: retention.age",
		"age: 40000d":                "2: retention.age",
		"count: -1":                  "2: retention.count: must be a number of conversations",
		"tenants: {a b: {age: 1d}}":  "2: retention.tenants",
		"tenants: {a: {age: never}}": "2: retention.tenants.a.age",
		"age: 365d":                  "", "age: 1.5d": "", "age: 36h": "", "count: 10000": "", "{age: 1d, finished_only: false, tenants: {a: {}}}": "",
	} {
		text := "retention:\n  " + written + "\n"
		if strings.HasPrefix(written, "{") {
			text = "retention: " + written + "\n"
		}
		if got := strings.Join(mistakes(t, text), "\n"); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: told %q, want %q", written, got, want)
		}
	}
}
