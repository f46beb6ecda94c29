package audit_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// What is about a thread is found without reading the rest, by its tenant alone, whether the
// record names the thread, a task of it or an agent that was at work there, and also after a
// restart; and a time is found by looking at a few records.
func TestRecordsAreFoundByThreadAndByTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit.log")
	s := open(t, dir)
	key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
	begun := time.Now().Add(-100 * time.Hour)
	add := func(r *meshv1.AuditRecord) {
		t.Helper()
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		r := &meshv1.AuditRecord{Time: timestamppb.New(begun.Add(time.Duration(i) * time.Hour / 2)), TenantId: "acme", Action: fmt.Sprint("act-", i+1), Resource: mesh.NewThreadID(), Decision: meshv1.AuditRecord_DECISION_DONE}
		switch i {
		case 20:
			r.Resource = strings.ToUpper(key.ID)
		case 40:
			r.Resource = string(mesh.NewExecutionID(key.ID))
		case 60:
			r.Resource, r.ExecutionId = "builder", string(mesh.NewExecutionID(key.ID))
		case 80:
			r.Resource, r.TenantId = key.ID, "globex"
		case 100:
			r.Resource, r.Action, r.Decision = key.ID, deleteThread, meshv1.AuditRecord_DECISION_ALLOWED
		case 120:
			r.Resource, r.TenantId = key.ID, ""
		}
		add(r)
	}
	check := func(deleted bool) {
		t.Helper()
		var got []string
		for after := int64(0); ; {
			recs, err := s.About(t.Context(), key, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) == 0 {
				break
			}
			for _, r := range recs {
				got, after = append(got, fmt.Sprint(r.GetSeq())), r.GetSeq()
			}
		}
		if want := "21 41 61 101"; !strings.HasPrefix(strings.Join(got, " "), want) || s.Deleted(key) != deleted {
			t.Errorf("found are %v, want %s; deleted %v", got, want, s.Deleted(key))
		}
		if s.Deleted(mesh.ThreadKey{Tenant: "globex", ID: key.ID}) || s.Deleted(mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}) {
			t.Error("another thread is deleted")
		}
	}
	check(false)
	add(&meshv1.AuditRecord{Time: timestamppb.Now(), TenantId: "acme", Action: deleteThread, Resource: key.ID, Decision: meshv1.AuditRecord_DECISION_DONE})
	check(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	check(true)
	for _, back := range []time.Duration{0, time.Hour, 50 * time.Hour, 99 * time.Hour, 200 * time.Hour} {
		at := time.Now().Add(-back)
		seq, err := s.Before(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		recs, err := s.Read(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		skipped := 0
		for _, r := range recs {
			if before := r.GetTime().AsTime().Before(at); r.GetSeq() <= seq && !before {
				t.Errorf("what is not before %v ago is left out: %v", back, r)
			} else if r.GetSeq() > seq && before {
				skipped++
			}
		}
		if skipped > 2 {
			t.Errorf("%v ago: %d records are looked at in vain", back, skipped)
		}
	}
}
