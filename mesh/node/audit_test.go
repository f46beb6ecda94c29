package node_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

// auditLine is a record without what differs from run to run.
func auditLine(r *meshv1.AuditRecord) string {
	return fmt.Sprintf("%s %s/%s %s %s %s", strings.TrimPrefix(r.GetDecision().String(), "DECISION_"), r.GetTenantId(), r.GetUserId(),
		r.GetCredential(), r.GetAction()[strings.LastIndex(r.GetAction(), "/")+1:], r.GetResource())
}

// finding T9: what is done with rights, and what is refused, is recorded with who it was,
// over every face; each tenant sees its own.
func TestActsAndRefusalsAreRecorded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	root := fmt.Sprintf("- name: root\n  hash: %q\n  tenant: ops\n  user: root\n  roles: [operator]\n", auth.Hash("secret-of-tenant-root"))
	all, err := os.ReadFile(cfg.Tokens)
	if err == nil {
		err = os.WriteFile(cfg.Tokens, append(all, root...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, cfg, map[string]run{"main": greeter})
	conn := m.raw(t)
	threads, record := meshv1.NewThreadServiceClient(conn), meshv1.NewAuditServiceClient(conn)
	id := mesh.NewThreadID()
	if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(as(plain(t), "a", "thread-id", id), say("a secret word")); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.ShareThread(as(plain(t), "a"), &meshv1.ShareThreadRequest{ThreadId: id, Add: []string{"eve"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.GetThread(as(plain(t), "auditor"), &meshv1.GetThreadRequest{ThreadId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.DeleteThread(as(plain(t), "eve"), &meshv1.DeleteThreadRequest{ThreadId: id}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("eve deletes it: %v", err)
	}
	if _, err := threads.DeleteThread(as(plain(t), "root", "tenant-id", "a"), &meshv1.DeleteThreadRequest{ThreadId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.GetThread(as(plain(t), "b", "tenant-id", "a"), &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("b names a tenant that is not its own: %v", err)
	}
	if _, err := threads.GetThread(as(plain(t), "nobody"), &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("a token that is not known: %v", err)
	}
	if resp, _ := post(t, m, "/message:send", v1Body, "authorization", "Bearer not-a-token"); resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("such a token over HTTP: %d", resp.StatusCode)
	}

	ofTenant := []string{
		"ALLOWED a/ann token:a ShareThread " + id, "DONE a/ann token:a ShareThread " + id,
		"ALLOWED a/auditor token:auditor thread.read.tenant " + id,
		"REFUSED a/eve token:eve DeleteThread " + id,
		"ALLOWED a/root token:root DeleteThread " + id, "DONE a/root token:root DeleteThread " + id,
	}
	follow := func(who string, wanted []string) {
		t.Helper()
		stream, err := record.FollowAuditRecords(as(plain(t), who), &meshv1.FollowAuditRecordsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		wanted = slices.Clone(wanted)
		for len(wanted) > 0 {
			got, err := stream.Recv()
			if err != nil {
				t.Fatalf("%s misses %q: %v", who, wanted, err)
			}
			if strings.Contains(got.String(), "secret") || strings.Contains(got.String(), "not-a-token") {
				t.Errorf("a record has what is not to be recorded: %v", got)
			}
			line := auditLine(got.GetRecord())
			if at := slices.Index(wanted, line); at >= 0 {
				wanted = slices.Delete(wanted, at, at+1)
			} else if who == "auditor" {
				t.Errorf("the tenant's record has %q", line)
			}
		}
	}
	follow("auditor", ofTenant)
	strangers := []string{"REFUSED b/ann token:b GetThread ", "REFUSED /  GetThread "}
	follow("root", append(strangers, ofTenant...))

	list := &meshv1.ListAuditRecordsRequest{PageSize: 1, Filter: &meshv1.AuditFilter{Action: "/ShareThread", Resource: id}}
	var pages []string
	for {
		got, err := record.ListAuditRecords(as(plain(t), "auditor"), list)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.GetRecords() {
			pages = append(pages, auditLine(r))
		}
		if list.PageToken = got.GetNextPageToken(); list.PageToken == "" {
			break
		}
	}
	if !slices.Equal(pages, []string{ofTenant[1], ofTenant[0]}) {
		t.Errorf("listed are %q", pages)
	}
	for who, want := range map[string]codes.Code{"eve": codes.PermissionDenied, "b": codes.PermissionDenied} {
		if _, err := record.ListAuditRecords(as(plain(t), who), &meshv1.ListAuditRecordsRequest{}); status.Code(err) != want {
			t.Errorf("%s reads the record: %v", who, err)
		}
	}
}

// Reads of others' tasks by a role are recorded over A2A too, once for each conversation,
// and who acts in somebody's name is named.
func TestReadsOfTasksByARoleAreRecorded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	root := fmt.Sprintf("- name: root\n  hash: %q\n  tenant: ops\n  user: root\n  roles: [operator]\n", auth.Hash("secret-of-tenant-root"))
	all, err := os.ReadFile(cfg.Tokens)
	if err == nil {
		err = os.WriteFile(cfg.Tokens, append(all, root...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, cfg, map[string]run{"main": greeter})
	conn := m.raw(t)
	a2a := a2apb.NewA2AServiceClient(conn)
	begin := func(thread string) string {
		t.Helper()
		res, err := a2a.SendMessage(as(plain(t), "a", "thread-id", thread), say("a secret word"))
		if err != nil {
			t.Fatal(err)
		}
		return res.GetTask().GetId()
	}
	one, two := mesh.NewThreadID(), mesh.NewThreadID()
	first := begin(one)
	begin(two)
	for _, who := range []string{"a", "auditor"} {
		if _, err := a2a.GetTask(as(plain(t), who), &a2apb.GetTaskRequest{Id: first}); err != nil {
			t.Fatal(err)
		}
		if res, err := a2a.ListTasks(as(plain(t), who), &a2apb.ListTasksRequest{ContextId: two}); err != nil || len(res.GetTasks()) != 1 {
			t.Fatalf("%s lists %v, %v", who, res, err)
		}
	}
	if _, err := a2a.GetTask(as(plain(t), "root", "tenant-id", "a", "user-id", "eve"), &a2apb.GetTaskRequest{Id: first}); err != nil {
		t.Fatal(err)
	}
	wanted := []string{"auditor " + one + " by ", "auditor " + two + " by ", "eve " + one + " by ops/root"}
	stream, err := meshv1.NewAuditServiceClient(conn).FollowAuditRecords(as(plain(t), "root"), &meshv1.FollowAuditRecordsRequest{Filter: &meshv1.AuditFilter{Action: string(mesh.ActReadTenant)}})
	for err == nil && len(wanted) > 0 {
		var res *meshv1.FollowAuditRecordsResponse
		if res, err = stream.Recv(); err == nil {
			r := res.GetRecord()
			line := r.GetUserId() + " " + r.GetResource() + " by " + r.GetImpersonatedBy()
			at := slices.Index(wanted, line)
			if at < 0 {
				t.Fatalf("recorded is %q", line)
			}
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	if err != nil {
		t.Errorf("not recorded is %q: %v", wanted, err)
	}
}
