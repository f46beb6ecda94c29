package audit_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
)

// finding R9: of many deletions each has a record before and after it, of whoever deletes, or of
// the node with the rule; and the record knows which threads were deleted.
func TestDeletionsAreRecordedBeforeAndAfter(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit"))
	r := recorder(t, s, time.Hour)
	keys := []mesh.ThreadKey{{Tenant: "acme", ID: mesh.NewThreadID()}, {Tenant: "acme", ID: mesh.NewThreadID()}}
	for rule, ctx := range map[string]context.Context{"": as("alice"), "retention.age": t.Context()} {
		before := s.Last()
		ended, err := r.Deletes(ctx, rule, keys)
		if err != nil || s.Last() != before+2 {
			t.Fatalf("%q: %v", rule, err)
		}
		ended([]audit.Deletion{{Thread: keys[1], LastHash: []byte("hash")}})
		recs, err := s.Read(t.Context(), before, 10)
		if err != nil || len(recs) != 3 {
			t.Fatalf("%q: %d records, %v", rule, len(recs), err)
		}
		action, user := meshv1.ThreadService_DeleteThreads_FullMethodName, "alice"
		if rule != "" {
			action, user = "thread.retention", ""
		}
		for i, rec := range recs {
			if rec.GetAction() != action || rec.GetUserId() != user || rec.GetTenantId() != "acme" || rule != "" && rec.GetPolicy() != rule || rec.GetResource() != keys[min(i, 1)].ID {
				t.Errorf("%q: record %d is %v", rule, i, rec)
			}
		}
		if done := recs[2]; done.GetDecision() != meshv1.AuditRecord_DECISION_DONE || done.GetOfSeq() != recs[1].GetSeq() || string(done.GetLastHash()) != "hash" {
			t.Errorf("%q: the end is %v", rule, done)
		}
		if s.Deleted(keys[0]) || !s.Deleted(keys[1]) {
			t.Errorf("%q: deleted are %v and %v", rule, s.Deleted(keys[0]), s.Deleted(keys[1]))
		}
	}
}
