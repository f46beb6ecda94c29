package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/grant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	deleteThread = "/mesh.v1.ThreadService/DeleteThread"
	createSkill  = "/mesh.v1.SkillService/CreateSkill"
	getThread    = "/mesh.v1.ThreadService/GetThread"
)

func open(t testing.TB, dir string) *audit.Store {
	t.Helper()
	s, err := audit.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests close it first
	return s
}

func signer(t testing.TB, seed byte) *grant.Signer {
	t.Helper()
	s, err := grant.NewSigner([]byte(strings.Repeat(string(rune(seed)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func recorder(t testing.TB, s *audit.Store, every time.Duration) *audit.Recorder {
	t.Helper()
	return audit.NewRecorder(audit.Options{Store: s, Table: authz.Node(), Signer: signer(t, 'k'), Every: every})
}

func as(user string) context.Context {
	return mesh.WithCall(context.Background(), mesh.Call{
		Principal:   mesh.Principal{Tenant: "acme", User: user, Credential: "token:" + user},
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
}

// records reads all but checkpoints, each as "decision action resource code count".
func records(t testing.TB, s *audit.Store) (all []string) {
	t.Helper()
	recs, err := s.Read(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if r.GetCheckpoint() == nil {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s %d", r.GetUserId(), strings.TrimPrefix(r.GetDecision().String(), "DECISION_"),
				r.GetAction()[strings.LastIndex(r.GetAction(), "/")+1:], r.GetResource(), r.GetCode(), r.GetCount())))
		}
	}
	return all
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("recorded are\n%s\nwant\n%s", g, w)
	}
}

// finding T9: who deleted a thread or made a skill is on disk before it is done.
func TestAnActIsRecordedBeforeItIsDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	s := open(t, dir)
	r := recorder(t, s, time.Hour)
	done, err := r.Act(as("alice"), deleteThread, &meshv1.DeleteThreadRequest{ThreadId: "T"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, records(t, s), "alice ALLOWED DeleteThread T  1")
	done(nil, mesh.Errorf(mesh.Precondition, "test", "an agent is working on the thread"))
	if done, err = r.Act(as("bob"), createSkill, &meshv1.CreateSkillRequest{Source: "secret text"}); err != nil {
		t.Fatal(err)
	}
	done(&meshv1.CreateSkillResponse{Skill: &meshv1.Skill{Name: "mail.send"}}, nil)
	if done, err := r.Act(as("bob"), getThread, nil); done != nil || err != nil {
		t.Errorf("what is no act is recorded (%v)", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	want(t, records(t, s), "alice ALLOWED DeleteThread T  1", "alice FAILED DeleteThread T FAILED_PRECONDITION 1",
		"bob ALLOWED CreateSkill   1", "bob DONE CreateSkill mail.send  1")
	recs, err := s.Read(t.Context(), 1, 1)
	if err != nil || recs[0].GetOfSeq() != 1 || recs[0].GetCredential() != "token:alice" || recs[0].GetTraceId() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the record is %v (%v)", recs, err)
	}
}

func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := recorder(t, s, time.Hour).Act(as("alice"), deleteThread, &meshv1.DeleteThreadRequest{ThreadId: "T"})
	if !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("the act may begin: %v", err)
	}
}

// finding T9: a caller who is refused ten thousand times makes two records, and so do
// ten thousand callers but for some.
func TestRefusalsAreCountedAndDoNotFillTheDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit"))
	r := recorder(t, s, time.Hour)
	denied := mesh.Errorf(mesh.Denied, "test", "no")
	for range 10_000 {
		r.Refused(as("mallory"), deleteThread, &meshv1.DeleteThreadRequest{ThreadId: "T"}, denied)
	}
	run(t, r)
	want(t, records(t, s), "mallory REFUSED DeleteThread T PERMISSION_DENIED 1", "mallory REFUSED DeleteThread T PERMISSION_DENIED 9999")
	for i := range 10_000 {
		r.Refused(as(fmt.Sprint("bot", i)), deleteThread, nil, denied)
	}
	before := s.Last()
	run(t, r)
	all, err := s.Read(t.Context(), before, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, rec := range all {
		if rec.GetDecision() == meshv1.AuditRecord_DECISION_REFUSED {
			total += rec.GetCount()
		}
	}
	if len(all) > 140 || total != 10_000 {
		t.Errorf("%d records of %d refusals", len(all), total)
	}
}

// run has the recorder write what it noted.
func run(t testing.TB, r *audit.Recorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Run(ctx)
}

// finding T9: nor do acts, whoever may do them, or tries to.
func TestActsDoNotFillTheDiskEither(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit"))
	now := time.Unix(1, 0)
	r := audit.NewRecorder(audit.Options{Store: s, Table: authz.Node(), Signer: signer(t, 'k'), Now: func() time.Time { return now }})
	act := func(user string) error {
		done, err := r.Act(as(user), deleteThread, &meshv1.DeleteThreadRequest{ThreadId: "T"})
		if err == nil {
			done(nil, nil)
		}
		return err
	}
	for i := range 500 {
		if err := act("alice"); err != nil {
			t.Fatalf("act %d: %v", i, err)
		}
	}
	if err := act("alice"); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	if err := act("bob"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	now = now.Add(time.Second)
	if err := act("alice"); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

func TestReadsByARoleAreToldApartByThread(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit"))
	r := recorder(t, s, time.Hour)
	for _, thread := range []string{"A", "B", "A", "A"} {
		r.Read(as("auditor"), thread)
	}
	r.Credential("credential.revoked", mesh.Principal{Tenant: "acme", User: "alice", Credential: "token:alice"})
	run(t, r)
	want(t, records(t, s), "auditor ALLOWED thread.read.tenant A  1", "auditor ALLOWED thread.read.tenant B  1",
		"alice DONE credential.revoked token:alice  1", "auditor ALLOWED thread.read.tenant A  2")
}

func TestADamagedRecordIsRefusedAndLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	s := open(t, dir)
	if err := errors.Join(s.Append(&meshv1.AuditRecord{Action: "first"}, &meshv1.AuditRecord{Action: "second"}), s.Append(&meshv1.AuditRecord{Action: "third"}), s.Close()); err != nil {
		t.Fatal(err)
	}
	flip(t, dir, "first")
	if _, err := audit.Open(dir); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("it is opened: %v", err)
	}
}
