package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread/cache/cachetest"
)

// A page is bounded in what it looks at, however many threads and events there are, and goes
// on where it ended: a page deep in a long thread reads no more than it shows.
func TestAPageOfTheTrailIsBounded(t *testing.T) {
	a := newArchive(t)
	const many = 10_000
	for i := 0; i < many; i += 500 {
		batch := make([]mesh.Body, 0, 500)
		for j := range 500 {
			batch = append(batch, mesh.ModelReplied{Model: fmt.Sprint("m-", i+j), Text: strings.Repeat("x", 100)})
		}
		events := make([]*mesh.Event, len(batch))
		for j, b := range batch {
			events[j] = &mesh.Event{ID: mesh.NewEventID(), Execution: a.boss.Execution, Body: b}
		}
		if err := a.decide(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	all := a.pages(t, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: 1000}, nil)
	if len(all) != many+2 || all[many+1].GetSubject() != fmt.Sprint("m-", many-1) {
		t.Fatalf("%d entries", len(all))
	}
	deep := &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: 10, PageToken: strings.Join([]string{"t", base36(3000), base36(int64(firstOf(t, a))), "0"}, "-")}
	a.library.store.Count()
	page, err := a.ListAuditTrail(auditorOf(t, "acme"), deep)
	if read := a.library.store.Count(); err != nil || len(page.GetEntries()) != 10 || page.GetEntries()[0].GetSeq() != 3001 || read > 2*readAhead*300 {
		t.Errorf("a page of %d read %d bytes, %v", len(page.GetEntries()), read, err)
	}
	a.library.store.Count()
	last := &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, Kinds: []meshv1.AuditTrailEntry_Kind{meshv1.AuditTrailEntry_KIND_TRANSFER}}
	if page, err = a.ListAuditTrail(auditorOf(t, "acme"), last); err != nil || len(page.GetEntries()) != 0 || page.GetNextPageToken() == "" {
		t.Errorf("a page that finds nothing in many looks at all of them: %v, %v", page, err)
	}

	for range maxTrailThreads + 20 {
		cachetest.Post(t, a.states, mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()})
	}
	opened := &meshv1.ListAuditTrailRequest{PageSize: 1000, Kinds: []meshv1.AuditTrailEntry_Kind{meshv1.AuditTrailEntry_KIND_TASK}}
	seen, pages := map[string]bool{}, 0
	for _, x := range a.pages(t, opened, func(int) { pages++ }) {
		seen[x.GetThreadId()] = true
	}
	if len(seen) != maxTrailThreads+21 || pages < 2 {
		t.Errorf("%d threads on %d pages", len(seen), pages+1)
	}
}

func firstOf(t *testing.T, a *archive) mesh.Pos {
	t.Helper()
	info, ok, err := a.threads.log.Info(t.Context(), a.key)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return info.FirstPos
}

// A piece of output is one entry, however many events it came in and however small the pages
// are, so a secret that is in two of them is found; of one that goes on, no half word is told.
func TestASecretInManyPiecesIsFound(t *testing.T) {
	a := newArchive(t)
	piece := func(id, text string, more, last bool) mesh.Body {
		return mesh.ArtifactAppended{Append: more, LastChunk: last, Artifact: &a2apb.Artifact{ArtifactId: id, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}}
	}
	key := "ghp_" + strings.Repeat("k", 36)
	for i := range key {
		a.log(t, a.boss.Execution, piece("o", key[i:i+1], i > 0, false))
		if i == 20 { // something else in between
			a.log(t, a.turn, mesh.StateNoted{Agent: "main", Data: []byte("{}")}, piece("other", "from the turn", false, true))
		}
	}
	a.log(t, a.boss.Execution, piece("o", " is it", true, true), piece("p", "beginning gh", false, false))
	for _, size := range []int32{1, 2, 1000} {
		var said []string
		for _, x := range a.pages(t, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: size, Kinds: []meshv1.AuditTrailEntry_Kind{meshv1.AuditTrailEntry_KIND_OUTPUT}}, nil) {
			said = append(said, fmt.Sprint(x.GetContent(), x.GetClipped()))
		}
		if want := []string{"[redacted] is itfalse", "from the turnfalse", "beginning true"}; !slices.Equal(said, want) {
			t.Errorf("pages of %d tell %q, want %q", size, said, want)
		}
	}
	for i := range maxOutput + 10 { // and one with more pieces than anybody looks at
		a.log(t, a.boss.Execution, piece("q", "ab", i > 0, false))
	}
	got := a.pages(t, &meshv1.ListAuditTrailRequest{ThreadId: a.key.ID, PageSize: 1, Agent: "orchestrator"}, nil)
	if x := got[len(got)-1]; !x.GetClipped() || x.GetContent() != "" {
		t.Errorf("an output of many pieces is %v", x)
	}
}

// What is wrong in a request is named by its field.
func TestARequestForTheTrailIsChecked(t *testing.T) {
	a := newArchive(t)
	for field, req := range map[string]*meshv1.ListAuditTrailRequest{
		"page_size":  {PageSize: 1001},
		"page_token": {PageToken: "x"},
		"thread_id":  {ThreadId: "not-a-uuid"},
		"kinds":      {Kinds: []meshv1.AuditTrailEntry_Kind{77}},
		"since":      {Since: &timestamppb.Timestamp{Seconds: -1 << 60}},
		"until":      {Until: &timestamppb.Timestamp{Nanos: -5}},
	} {
		_, err := a.ListAuditTrail(auditorOf(t, "acme"), req)
		if wantCode(t, err, mesh.Invalid); mesh.FieldOf(err) != field {
			t.Errorf("%v: %v", field, err)
		}
	}
	for _, token := range []string{"t-1-1-1", "a-1-1", "a-1--1-1", "a-1-1-zzzzzzzzzzzzzzzzzzzz", "a-1-1-1-1"} {
		_, err := a.ListAuditTrail(auditorOf(t, "acme"), &meshv1.ListAuditTrailRequest{PageToken: token})
		wantCode(t, err, mesh.Invalid, "page_token")
	}
	_, err := a.ListAuditTrail(auditorOf(t, "acme"), &meshv1.ListAuditTrailRequest{PageToken: "a-1-1-1", ThreadId: a.key.ID})
	wantCode(t, err, mesh.Invalid, "page_token")
}
