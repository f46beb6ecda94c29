package api

import (
	"fmt"
	"slices"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// talk has the executions put out so many pieces of text of 30 bytes, in turns.
func (l *library) talk(t *testing.T, pieces int, of ...mesh.ExecutionID) {
	t.Helper()
	var events []*mesh.Event
	for i := range pieces {
		events = append(events, &mesh.Event{Execution: of[i%len(of)], Body: mesh.ArtifactAppended{Append: i >= len(of), Artifact: &a2apb.Artifact{
			ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: fmt.Sprintf("%30d", i)}}}}}})
	}
	for some := range slices.Chunk(events, 500) {
		if err := l.decide(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
}

// finding C6: who reads a thread in brief is spared the midst of long output, page by page in
// either direction, and nothing else; it is not read from the store either.
func TestABriefReaderIsSparedTheMidstOfLongOutput(t *testing.T) {
	l := newLibrary(t)
	first := l.run(t, l.post(t), "writer")
	l.talk(t, 3000, first.Execution)
	if err := l.decide(t.Context(), &mesh.Event{Execution: first.Execution, Body: mesh.ModelReplied{}}); err != nil {
		t.Fatal(err)
	}
	l.talk(t, 2000, first.Execution)
	second := l.run(t, l.post(t), "writer")
	helper := l.run(t, second.Execution, "helper")
	helper.Turn = second.Turn
	l.talk(t, 1000, second.Execution, helper.Execution)

	read := func(who *mesh.Grant, tail bool) (seqs, holes []int64) {
		req := &meshv1.ReadThreadRequest{ThreadId: l.key.ID, Brief: true, Tail: tail, Limit: 70}
		for more := true; more; {
			ctx := user(t, mesh.RoleUser)
			if who != nil {
				who.Capabilities = []mesh.Capability{mesh.CapReadThread}
				ctx = under(t, who)
			}
			page, err := l.ReadThread(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			var of []int64
			for _, e := range page.GetEvents() {
				of = append(of, e.GetSeq())
			}
			if more = page.GetMore(); tail {
				seqs, holes = slices.Concat(of, seqs), slices.Concat(page.GetLeftOut(), holes)
				req.BeforeSeq = seqs[0]
			} else {
				seqs, holes = append(seqs, of...), append(holes, page.GetLeftOut()...)
				req.AfterSeq = seqs[len(seqs)-1]
			}
		}
		return seqs, holes
	}
	others := []int64{1, 2, 3003, 5004, 5005, 5006} // that are no output
	for name, tt := range map[string]struct {
		who        *mesh.Grant
		holes, end int // the end of the thread is there, of so many events
	}{
		"a user": {nil, 3, 8 << 10 / 30},
		// What agents of its own turn said may be their results.
		"an agent of the second turn": {second, 2, 1003},
		"one that it asked":           {helper, 2, 1003},
	} {
		l.store.Count()
		seqs, holes := read(tt.who, false)
		if n := l.store.Count(); n > 1<<20 {
			t.Errorf("%s: %d bytes were read of the store", name, n)
		}
		back, backHoles := read(tt.who, true)
		if !slices.Equal(seqs, back) || !slices.Equal(holes, backHoles) {
			t.Errorf("%s: backwards it reads %d events with %v, forwards %d with %v", name, len(back), backHoles, len(seqs), holes)
		}
		var gaps []int64
		for i := 1; i < len(seqs); i++ {
			if seqs[i] != seqs[i-1]+1 {
				gaps = append(gaps, seqs[i])
			}
		}
		if len(holes) != tt.holes || !slices.Equal(gaps, holes) {
			t.Errorf("%s: events are missing before %v, and it is told so of %v", name, gaps, holes)
		}
		if slices.ContainsFunc(others, func(seq int64) bool { return !slices.Contains(seqs, seq) }) {
			t.Errorf("%s: something else than output is missing of %v", name, seqs)
		}
		if n := len(seqs); n > 2000 || seqs[n-1] != 6006 || seqs[n-tt.end] != int64(6006-tt.end+1) {
			t.Errorf("%s: it reads %d events, the last of them %v", name, n, seqs[n-10:])
		}
	}
}
