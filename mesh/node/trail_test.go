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
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/text/texttest"
)

// S4-006, S4-012, S4-070, S4-051: of a conversation in which agents consulted others, the trail tells
// each step with the tenant and user who logged in and with who acted for whom, the same over
// gRPC and REST; that it was read is recorded; whoever is not an auditor of the tenant, or is
// one no more, is told nothing, and of another tenant's no more than of one that is not there.
func TestTheTrailTellsAuditorsOfTheTenantWhoDidWhatForWhom(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	file, err := os.OpenFile(cfg.Tokens, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = fmt.Fprintf(file, "- {name: auditor-b, hash: %q, tenant: b, user: auditor-b, roles: [auditor]}\n", auth.Hash("secret-of-tenant-auditor-b")); err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, cfg, map[string]run{"finder": finder(1)}, builtin("main", consulting(dispatch.Order{AgentID: "one", Name: "finder", Mission: "apples"})))
	conn := m.raw(t)
	id, none := mesh.NewThreadID(), mesh.NewThreadID()
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), "a", "thread-id", id), say("find apples, password: hunter2"))
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("ended %v", s.state)
	}
	record := meshv1.NewAuditServiceClient(conn)
	whole, err := record.ListAuditTrail(as(plain(t), "auditor"), &meshv1.ListAuditTrailRequest{ThreadId: id, PageSize: 1000})
	if err != nil || whole.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", whole, err)
	}
	chains := map[string]string{} // of what was said or done, by whom
	for i, x := range whole.GetEntries() {
		if x.GetTenantId() != "a" || x.GetThreadId() != id || x.GetUserId() != "ann" && x.GetAction() != "thread_claimed" {
			t.Errorf("an entry is of somebody else: %v", x)
		}
		if i > 0 && x.GetSeq() != 0 && x.GetSeq() <= whole.GetEntries()[i-1].GetSeq() {
			t.Errorf("%d comes after %d", x.GetSeq(), whole.GetEntries()[i-1].GetSeq())
		}
		chains[kindAndText(x)] = strings.Join(x.GetChain(), ">")
	}
	for what, want := range map[string]string{
		"KIND_MESSAGE find apples, password: [redacted]":       "user:ann",
		"KIND_DISPATCH finder apples":                          "user:ann>agent:main",
		"KIND_OUTPUT found apples":                             "user:ann>agent:main>agent:finder",
		"KIND_DISPATCH main find apples, password: [redacted]": "user:ann",
		"KIND_DISPATCH finder found apples":                    "user:ann>agent:main",
		"KIND_OUTPUT " + "one is completed: found apples.":     "user:ann>agent:main",
	} {
		if got, ok := chains[what]; !ok || got != want {
			t.Errorf("%q was done by %q, want %q; all are %q", what, got, want, chains)
		}
	}

	resp, body := get(t, m, "/mesh/v1/audit:trail?thread_id="+id+"&page_size=1000", of("auditor")...)
	overREST := new(meshv1.ListAuditTrailResponse)
	if err := protojson.Unmarshal([]byte(body), overREST); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", resp.StatusCode, body, err)
	}
	overREST.Entries = slices.DeleteFunc(overREST.Entries, func(x *meshv1.AuditTrailEntry) bool { return x.GetRecord() != nil }) // that it was read
	if !proto.Equal(overREST, whole) {
		t.Errorf("over REST it is\n%v\nand over gRPC\n%v", overREST, whole)
	}
	onRecord(t, m, "auditor", "hunter2", "ALLOWED a/auditor token:auditor audit.read "+id)

	if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(as(plain(t), "auditor", "thread-id", id), say("let me in")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an auditor sends messages: %v", err)
	}
	eventually(t, func() error { // refusals are written behind the call
		refused, err := record.ListAuditTrail(as(plain(t), "auditor"), &meshv1.ListAuditTrailRequest{ThreadId: id, Kinds: []meshv1.AuditTrailEntry_Kind{meshv1.AuditTrailEntry_KIND_REFUSAL}})
		if err != nil || len(refused.GetEntries()) != 1 || refused.GetEntries()[0].GetUserId() != "auditor" || refused.GetEntries()[0].GetReason() != "PERMISSION_DENIED" {
			return fmt.Errorf("refusals are %v, %w", refused, err)
		}
		return nil
	})

	for _, path := range []string{"thread_id=", "page_size=1&thread_id="} {
		theirs, a := get(t, m, "/mesh/v1/audit:trail?"+path+id, of("auditor-b")...)
		unknown, b := get(t, m, "/mesh/v1/audit:trail?"+path+none, of("auditor-b")...)
		if theirs.StatusCode != http.StatusNotFound || unknown.StatusCode != theirs.StatusCode || strings.ReplaceAll(a, id, none) != b {
			t.Errorf("of another tenant's: %d %s, of none: %d %s", theirs.StatusCode, a, unknown.StatusCode, b)
		}
	}
	all, err := record.ListAuditTrail(as(plain(t), "auditor-b"), &meshv1.ListAuditTrailRequest{})
	if err != nil || strings.Contains(all.String(), id) || strings.Contains(all.String(), "apples") {
		t.Errorf("tenant b's auditor reads %v, %v", all, err)
	}
	for who, want := range map[string]codes.Code{"a": codes.PermissionDenied, "eve": codes.PermissionDenied, "b": codes.PermissionDenied, "nobody": codes.Unauthenticated, "admin": codes.OK, "auditor-b": codes.NotFound} {
		if _, err := record.ListAuditTrail(as(plain(t), who), &meshv1.ListAuditTrailRequest{ThreadId: id}); status.Code(err) != want {
			t.Errorf("%s is told %v, want %v", who, err, want)
		}
	}

	page, err := record.ListAuditTrail(as(plain(t), "auditor"), &meshv1.ListAuditTrailRequest{ThreadId: id, PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := meshv1.NewAccessServiceClient(conn).RevokeUser(as(plain(t), "admin"), &meshv1.RevokeUserRequest{UserId: "auditor"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := record.ListAuditTrail(as(plain(t), "auditor"), &meshv1.ListAuditTrailRequest{ThreadId: id, PageSize: 1, PageToken: page.GetNextPageToken()})
		if status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("who was revoked reads on: %v", err)
		}
		return nil
	})
}

func kindAndText(x *meshv1.AuditTrailEntry) string {
	return strings.Join(strings.Fields(x.GetKind().String()+" "+x.GetSubject()+" "+x.GetContent()), " ")
}
