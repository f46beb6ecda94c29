package api

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/audit/trail"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog/eventpb"
)

// An archive is the audit service over a crew's threads and a record of its own.
type archive struct {
	*crew
	*Audit
	record *audit.Store
	told   []string // what was read
}

func newArchive(t *testing.T, labels ...string) *archive {
	t.Helper()
	record, err := audit.Open(filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	red, err := trail.NewRedactor("audit.redact", trail.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{crew: newCrew(t, labels...), record: record}
	a.Audit = NewAudit(record, Conversations{Log: a.threads.log, States: a.states, Redactor: red,
		Told: func(_ context.Context, what string) { a.told = append(a.told, what) }})
	return a
}

func auditorOf(t testing.TB, tenant mesh.TenantID, roles ...mesh.Role) context.Context {
	if len(roles) == 0 {
		roles = []mesh.Role{mesh.RoleAuditor}
	}
	return mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: tenant, User: "aud", Roles: roles}})
}

// note adds records of the tenant.
func (a *archive) note(t testing.TB, recs ...*meshv1.AuditRecord) {
	t.Helper()
	for _, r := range recs {
		if r.TenantId == "" {
			r.TenantId = "acme"
		}
	}
	if err := a.record.Append(recs...); err != nil {
		t.Fatal(err)
	}
}

// pages reads all pages.
func (a *archive) pages(t testing.TB, req *meshv1.ListAuditTrailRequest, between func(page int)) (all []*meshv1.AuditTrailEntry) {
	t.Helper()
	req = proto.CloneOf(req)
	for page := 0; ; page++ {
		resp, err := a.ListAuditTrail(auditorOf(t, "acme"), req)
		if err != nil {
			t.Fatal(err)
		}
		if most := req.GetPageSize(); most > 0 && len(resp.GetEntries()) > int(most) || page > 2000 {
			t.Fatalf("page %d has %d entries", page, len(resp.GetEntries()))
		}
		all = append(all, resp.GetEntries()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
		if between != nil {
			between(page)
		}
	}
}

// line is an entry in a line.
func line(x *meshv1.AuditTrailEntry) string {
	words := []string{strings.ToLower(strings.TrimPrefix(x.GetKind().String(), "KIND_")), strings.Join(x.GetChain(), ">"),
		x.GetAction()[strings.LastIndex(x.GetAction(), "/")+1:], x.GetSubject(), x.GetOutcome(), x.GetReason(), x.GetContent()}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

func lines(all []*meshv1.AuditTrailEntry) (out []string) {
	for _, x := range all {
		out = append(out, line(x))
	}
	return out
}

// S4-012, S4-006, S4-069: one page tells the whole flow of a conversation, in its order:
// messages, dispatches, calls of skills and models, transfers and refusals, of its log and of
// the record, each with tenant, user, who acted for whom, and why; without secrets.
func TestTheTrailTellsTheWholeFlowOfAConversation(t *testing.T) {
	a := newArchive(t)
	text := func(s string) *a2apb.Message {
		return &a2apb.Message{MessageId: mesh.NewEventID(), Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: s}}}}
	}
	boss := a.boss.Execution
	a.log(t, a.turn, mesh.MessagePosted{User: "ann", Message: text("find it, the password is hunter2")})
	a.log(t, boss, mesh.ModelReplied{Model: "m-1", Tools: []mesh.ToolUse{{Name: "dispatch_agent", Arguments: `{"token":"abc"}`}}, Finish: "tool_calls"})
	child := a.dispatch(t, boss, "finder", "f")
	a.log(t, child, mesh.SkillCalled{Call: "c1", Skill: "mail.send", Args: `{"to":"bob","api_key":"k"}`, Source: mesh.SourceDirect},
		mesh.SkillReturned{Call: "c1", Failed: true, Content: "no"})
	a.log(t, child, mesh.ApprovalAsked{Call: "c2", Skill: "mail.send", Args: "{}", Text: "may it?"}, mesh.ApprovalSettled{Call: "c2", Text: "no"})
	a.log(t, boss, mesh.DispatchSettled{Child: child, State: a2apb.TaskState_TASK_STATE_FAILED, Result: "nothing", Reason: mesh.ReasonTimeout})
	a.log(t, a.turn, mesh.LimitTripped{Limit: "turn.agents", Used: 8, Most: 8, Detail: "too many"})
	a.log(t, a.turn, mesh.HandoffStarted{From: "orchestrator", To: "builder", Reason: "it asked", Summary: "a skill"})
	builder := mesh.Execution{ID: mesh.NewExecutionID(a.key.ID), Parent: a.turn, Kind: mesh.KindHandoff, Agent: "builder", User: "ann", Text: "build"}
	a.log(t, a.turn, mesh.DispatchIssued{Child: builder})
	a.log(t, builder.ID, mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "o", Parts: text("which one?").Parts}, LastChunk: true})
	events, err := a.threads.log.Read(t.Context(), a.key, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	at := func(seq int) *timestamppb.Timestamp {
		return timestamppb.New(events[seq-1].Time.Add(-time.Millisecond))
	}
	last := timestamppb.New(events[len(events)-1].Time.Add(time.Second))
	a.note(t,
		&meshv1.AuditRecord{Time: at(1), UserId: "root", ImpersonatedBy: "ops/root", Action: "/mesh.v1.ThreadService/ShareThread", Resource: strings.ToUpper(a.key.ID),
			Decision: meshv1.AuditRecord_DECISION_DONE},
		&meshv1.AuditRecord{Time: last, UserId: "ann", Agent: "finder", ExecutionId: string(child), Action: "/mesh.v1.HandoffService/StartHandoff", Resource: "builder",
			Decision: meshv1.AuditRecord_DECISION_REFUSED, Code: "PERMISSION_DENIED", Policy: "no-builder"},
		&meshv1.AuditRecord{Time: last, UserId: "eve", Action: "/lf.a2a.v1.A2AService/CancelTask", Resource: string(a.turn),
			Decision: meshv1.AuditRecord_DECISION_REFUSED, Code: "PERMISSION_DENIED"},
		&meshv1.AuditRecord{Time: last, UserId: "eve", Action: string(mesh.ActReadTenant), Resource: a.key.ID,
			Decision: meshv1.AuditRecord_DECISION_ALLOWED},
		&meshv1.AuditRecord{Time: last, UserId: "eve", Action: string(mesh.ActReadTenant), Resource: mesh.NewThreadID(),
			Decision: meshv1.AuditRecord_DECISION_ALLOWED},
		&meshv1.AuditRecord{Time: last, TenantId: "globex", UserId: "bob", Action: string(mesh.ActReadTenant), Resource: a.key.ID,
			Decision: meshv1.AuditRecord_DECISION_ALLOWED},
	)
	all := a.pages(t, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: 100}, func(int) { t.Error("there is a second page") })
	main, find, build := "user:ann>agent:orchestrator", "user:ann>agent:orchestrator>agent:finder", "user:ann>agent:orchestrator>agent:builder"
	want := []string{
		"act user:ops/root>user:root ShareThread " + strings.ToUpper(a.key.ID) + " done",
		"task user:ann task_opened main",
		"dispatch user:ann dispatch_issued orchestrator",
		"message user:ann message_posted find it, the password is [redacted]",
		"model " + main + " model_replied m-1 tool_calls dispatch_agent\n{\"token\":\"[redacted]\"}",
		"dispatch " + main + " dispatch_issued finder f do f",
		`call ` + find + ` skill_called mail.send direct {"to":"bob","api_key":"[redacted]"}`,
		"call " + find + " skill_returned failed no",
		"call " + find + " approval_asked mail.send {}\nmay it?",
		"refusal " + find + " approval_settled refused no",
		"dispatch " + main + " dispatch_settled finder failed TIMEOUT nothing",
		"refusal user:ann limit_tripped turn.agents stopped 8 of 8 used too many",
		"transfer " + main + " handoff_started builder it asked a skill",
		"dispatch user:ann dispatch_issued builder build",
		"output " + build + " artifact_appended which one?",
		"refusal " + find + " StartHandoff builder refused PERMISSION_DENIED no-builder",
		"refusal user:eve CancelTask " + string(a.turn) + " refused PERMISSION_DENIED",
		"read user:eve thread.read.tenant " + a.key.ID + " allowed",
	}
	got := lines(all)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d differs:\n%s\nwant\n%s", i+1, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, x := range all {
		if x.GetTenantId() != "acme" || x.GetUserId() == "" || x.GetTime() == nil || x.GetThreadId() != a.key.ID || (x.GetSeq() == 0) != (x.GetRecord() != nil) {
			t.Errorf("an entry lacks something: %v", x)
		}
	}
	if !slices.Equal(a.told, []string{a.key.ID}) {
		t.Errorf("read is recorded as %q", a.told)
	}

	// Each filter leaves just what it says.
	for name, c := range map[string]struct {
		req  *meshv1.ListAuditTrailRequest
		want func(x *meshv1.AuditTrailEntry, line string) bool
	}{
		"user":   {&meshv1.ListAuditTrailRequest{UserId: "eve"}, func(_ *meshv1.AuditTrailEntry, l string) bool { return strings.Contains(l, "user:eve") }},
		"agent":  {&meshv1.ListAuditTrailRequest{Agent: "finder"}, func(_ *meshv1.AuditTrailEntry, l string) bool { return strings.Contains(l, "finder") }},
		"target": {&meshv1.ListAuditTrailRequest{Agent: "builder"}, func(_ *meshv1.AuditTrailEntry, l string) bool { return strings.Contains(l, "builder") }},
		"kinds": {&meshv1.ListAuditTrailRequest{Kinds: []meshv1.AuditTrailEntry_Kind{meshv1.AuditTrailEntry_KIND_REFUSAL, meshv1.AuditTrailEntry_KIND_MODEL}},
			func(_ *meshv1.AuditTrailEntry, l string) bool {
				return strings.HasPrefix(l, "refusal ") || strings.HasPrefix(l, "model ")
			}},
		"since": {&meshv1.ListAuditTrailRequest{Since: last}, func(x *meshv1.AuditTrailEntry, _ string) bool { return x.GetTime().AsTime().Equal(last.AsTime()) }},
		"until": {&meshv1.ListAuditTrailRequest{Until: last}, func(x *meshv1.AuditTrailEntry, _ string) bool { return x.GetTime().AsTime().Before(last.AsTime()) }},
		"none":  {&meshv1.ListAuditTrailRequest{UserId: "nobody"}, func(*meshv1.AuditTrailEntry, string) bool { return false }},
	} {
		var want []string
		for i, x := range all {
			if c.want(x, got[i]) {
				want = append(want, got[i])
			}
		}
		for _, inThread := range []bool{true, false} {
			c.req.ThreadId = ""
			if inThread {
				c.req.ThreadId = a.key.ID
			}
			found := a.pages(t, c.req, nil)
			if !inThread { // the record has something of another thread
				found = slices.DeleteFunc(found, func(x *meshv1.AuditTrailEntry) bool { return x.GetThreadId() != a.key.ID })
			}
			if g := lines(found); !slices.Equal(g, want) {
				t.Errorf("%s, in the thread %v:\n%s\nwant\n%s", name, inThread, strings.Join(g, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// S4-012: whatever kind of event a user causes, in whichever execution or in none, the trail
// says so and finds it by the user. A kind that is added is tried too.
func TestTheTrailFindsAllThatAUserDid(t *testing.T) {
	ofNobody := map[string]bool{"thread_claimed": true} // the node's
	ofThread := map[string]bool{"thread_shared": true}  // and of no execution
	kinds := new(meshv1.Event).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range kinds.Len() {
		kind := kinds.Get(i)
		for _, by := range []string{"ann", "bob"} { // whose turn it is, and who takes part
			a := newArchive(t)
			p := &meshv1.Event{Actor: "user:" + by, Time: timestamppb.Now(), Id: mesh.NewEventID()}
			p.ProtoReflect().Mutable(kind)
			switch name := string(kind.Name()); {
			case ofNobody[name]:
				p.Actor = "node"
			case !ofThread[name]:
				p.ExecutionId = string(a.boss.Execution)
			}
			if o := p.GetTaskOpened(); o != nil {
				o.Execution = &meshv1.Execution{Id: string(mesh.NewExecutionID(a.key.ID)), User: by}
				p.ExecutionId = o.Execution.Id
			}
			if c := p.GetThreadClaimed(); c != nil {
				c.Epoch = 1
			}
			e, err := eventpb.EventFromProto(p)
			if err != nil {
				t.Fatal(kind.Name(), err)
			}
			if err := a.decide(t.Context(), e); err != nil {
				t.Fatal(kind.Name(), err)
			}
			found := a.pages(t, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, UserId: by}, nil)
			i := slices.IndexFunc(found, func(x *meshv1.AuditTrailEntry) bool {
				return x.GetAction() == string(kind.Name()) && x.GetActor() == p.Actor
			})
			if i < 0 {
				if !ofNobody[string(kind.Name())] {
					t.Errorf("%s of %s is not found:\n%s", kind.Name(), by, strings.Join(lines(found), "\n"))
				}
				continue
			}
			if x := found[i]; x.GetUserId() == "" || len(x.GetChain()) == 0 || x.GetChain()[0] != "user:"+x.GetUserId() {
				t.Errorf("%s of %s is of user %q, by %q", kind.Name(), by, x.GetUserId(), x.GetChain())
			}
		}
	}
}

// Pages of any size are one whole, also while events and records come, in whatever order of
// their times; each is told once.
func TestPagesOfTheTrailAreOneWhole(t *testing.T) {
	a := newArchive(t, "a", "b")
	keys := []mesh.ThreadKey{a.key, {Tenant: "acme", ID: mesh.NewThreadID()}, {Tenant: "globex", ID: mesh.NewThreadID()}}
	turns := []mesh.ExecutionID{a.turn, cachetest.Post(t, a.states, keys[1]), cachetest.Post(t, a.states, keys[2])}
	n := 0
	add := func(r *rapid.T) {
		n++
		record, late := rapid.Bool().Draw(r, "record"), 59 // minutes that agents may say are past
		if record {
			late = 9
		}
		when := time.Now().Add(-time.Duration(rapid.IntRange(0, late).Draw(r, "minutes")) * time.Minute).UTC().Truncate(time.Millisecond)
		i := rapid.IntRange(0, 2).Draw(r, "thread")
		if record {
			a.note(t, &meshv1.AuditRecord{Time: timestamppb.New(when), TenantId: string(keys[i].Tenant), UserId: "ann", Action: fmt.Sprint("act", n), Resource: keys[i].ID, Decision: meshv1.AuditRecord_DECISION_DONE})
			return
		}
		e := &mesh.Event{ID: mesh.NewEventID(), Execution: turns[i], Time: when, Body: mesh.StateNoted{Agent: "main", Data: fmt.Append(nil, n)}}
		if err := cachetest.Decide(t.Context(), a.states, keys[i], e); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		for range rapid.IntRange(1, 6).Draw(r, "more") {
			add(r)
		}
		req := &meshv1.ListAuditTrailRequest{PageSize: int32(rapid.IntRange(1, 40).Draw(r, "size"))}
		if rapid.Bool().Draw(r, "one") {
			req.ThreadId = keys[rapid.IntRange(0, 1).Draw(r, "which")].ID
		}
		if rapid.Bool().Draw(r, "since") {
			req.Since = timestamppb.New(time.Now().Add(-time.Duration(rapid.IntRange(0, 70).Draw(r, "ago")) * time.Minute))
		}
		left := 3
		paged := a.pages(t, req, func(int) {
			if left--; left >= 0 {
				add(r)
			}
		})
		req.PageSize = 1000
		whole := a.pages(t, req, nil)
		id := func(x *meshv1.AuditTrailEntry) string {
			return fmt.Sprint(x.GetThreadId(), x.GetSeq(), x.GetRecord().GetSeq())
		}
		seen := map[string]bool{}
		for _, x := range paged {
			if seen[id(x)] || x.GetTenantId() != "acme" {
				r.Fatalf("told twice, or of another tenant: %v", x)
			}
			seen[id(x)] = true
		}
		for _, x := range whole {
			if !seen[id(x)] {
				r.Fatalf("pages of %d lack %v", req.GetPageSize(), x)
			}
		}
		if len(seen) != len(whole) {
			r.Fatalf("%d in pages, %d in one", len(seen), len(whole))
		}
	})
}

// A thread that is deleted, also while its pages are read, leaves the record, and that is said;
// a thread that has its id later is another one, told from its beginning.
func TestOfADeletedThreadTheRecordIsLeft(t *testing.T) {
	a := newArchive(t, "a", "b", "c")
	a.note(t, &meshv1.AuditRecord{Time: timestamppb.New(time.Now().Add(time.Hour)), UserId: "ann", Action: "/mesh.v1.ThreadService/DeleteThread", Resource: a.key.ID, Decision: meshv1.AuditRecord_DECISION_DONE, LastHash: []byte("hash")})
	ask := &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: 2}
	first, err := a.ListAuditTrail(auditorOf(t, "acme"), ask)
	if err != nil || first.GetLogGone() || len(first.GetEntries()) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	if err := a.threads.log.Delete(t.Context(), a.key, -1); err != nil {
		t.Fatal(err)
	}
	ask.PageToken = first.GetNextPageToken()
	next, err := a.ListAuditTrail(auditorOf(t, "acme"), ask)
	if err != nil || !next.GetLogGone() || len(next.GetEntries()) != 1 || next.GetEntries()[0].GetRecord().GetLastHash() == nil || next.GetNextPageToken() != "" {
		t.Fatalf("of a deleted thread: %v, %v", next, err)
	}
	cachetest.Post(t, a.states, a.key) // it is there again
	again, err := a.ListAuditTrail(auditorOf(t, "acme"), ask)
	if err != nil || again.GetLogGone() || len(again.GetEntries()) != 2 || again.GetEntries()[0].GetSeq() != 1 {
		t.Errorf("of another one with its id: %v, %v", again, err)
	}
}

// S4-052, S4-066, S4-068: a thread of another tenant is as one that does not exist, by code and
// words, whoever asks; nothing of another tenant is in any page; and who may not read the
// record, or the tenant's threads, learns nothing.
func TestTheTrailOfAnotherTenantLooksUnknown(t *testing.T) {
	a := newArchive(t, "zq-theirs")
	a.note(t, &meshv1.AuditRecord{UserId: "ann", Action: "zq-theirs", Resource: a.key.ID, Decision: meshv1.AuditRecord_DECISION_DONE})
	mine := mesh.ThreadKey{Tenant: "globex", ID: mesh.NewThreadID()}
	cachetest.Post(t, a.states, mine)
	a.note(t, &meshv1.AuditRecord{TenantId: "globex", UserId: "bob", Action: "mine", Decision: meshv1.AuditRecord_DECISION_DONE}, &meshv1.AuditRecord{TenantId: "", Action: "audit.checkpoint", Checkpoint: &meshv1.AuditCheckpoint{}})
	none := mesh.NewThreadID()
	for _, role := range []mesh.Role{mesh.RoleAuditor, mesh.RoleTenantAdmin, mesh.RoleOperator} {
		ctx := auditorOf(t, "globex", role)
		a.library.store.Count()
		_, theirs := a.ListAuditTrail(ctx, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID})
		if n := a.library.store.Count(); n != 0 { // which would take time
			t.Errorf("%s has %d bytes of it read", role, n)
		}
		_, unknown := a.ListAuditTrail(ctx, &meshv1.ListAuditTrailRequest{ThreadId: none})
		wantCode(t, theirs, mesh.NotFound)
		if x, y := strings.ReplaceAll(theirs.Error(), a.key.ID, "ID"), strings.ReplaceAll(unknown.Error(), none, "ID"); x != y {
			t.Errorf("%s is told %q and %q", role, x, y)
		}
		all, err := a.ListAuditTrail(ctx, &meshv1.ListAuditTrailRequest{})
		if err != nil || len(all.GetEntries()) != 2 || strings.Contains(all.String(), "zq-theirs") || strings.Contains(all.String(), a.key.ID) {
			t.Errorf("%s reads %v, %v", role, all, err)
		}
	}
	if len(a.told) != 3 || a.told[0] != "conversations" {
		t.Errorf("read is recorded as %q, also what was not there", a.told)
	}
	for _, role := range mesh.Roles() {
		if mesh.Allow([]mesh.Role{role}, mesh.ActReadTenant) {
			continue
		}
		_, theirs := a.ListAuditTrail(auditorOf(t, "acme", role), &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID})
		wantCode(t, theirs, mesh.Denied, "thread.read.tenant")
	}
}
