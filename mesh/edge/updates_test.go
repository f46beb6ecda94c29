package edge_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// modes are the ways in which clients may read.
var modes = map[string]func(*mesh.Call){
	"with the extension": func(*mesh.Call) {},
	"plain":              func(c *mesh.Call) { c.Extensions = nil },
	"plain with seqs":    func(c *mesh.Call) { c.Extensions, c.WantSeq = nil, true },
}

// long is a turn with much in it: pieces, progress, a handoff and a return.
func long(w *world, step func()) {
	w.agent("main", func(s *scene) {
		if s.told("handoff_return") != nil {
			s.answer("main again")
			return
		}
		for i := range 40 {
			s.put("a", fmt.Sprint("a", i, " "), i > 0)
			if i%7 == 0 {
				s.move(working, fmt.Sprint("step ", i))
			}
			step()
		}
		s.must(s.give("smith", 40))
		s.put("a", "too late", true)
		s.move(completed, "")
	})
	w.agent("smith", func(s *scene) {
		for i := range 40 {
			s.put(fmt.Sprint("b", i%3), fmt.Sprint("b", i, " "), i > 2)
			step()
		}
		s.must(s.giveBack("made", 40))
		s.move(completed, "")
	})
}

// S4-028, S4-029, S4-030: whoever reads a task, from whichever cursor, whenever
// it joins, is told the same things in the same order.
func TestEveryFollowerFromEveryCursorHearsTheSame(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			const followers, most = 20, 80
			w := build(t)
			rnd := rand.New(rand.NewPCG(1, 2))
			joins := make([]chan struct{}, most) // closed when the agents have come so far
			for i := range joins {
				joins[i] = make(chan struct{})
			}
			var steps atomic.Int64
			long(w, func() { close(joins[steps.Add(1)-1]) })
			acc := w.send("go")
			got, from := make([][]a2a.Update, followers), make([]mesh.Seq, followers)
			var wg sync.WaitGroup
			for i := range followers {
				ctx, join, back := w.call(mode), joins[rnd.IntN(most)], rnd.Int64N(60)
				wg.Go(func() {
					<-join
					tail, err := w.log.Tail(ctx, w.key())
					if err != nil {
						t.Errorf("tail: %v", err)
					}
					from[i] = max(acc.Cursor, tail-mesh.Seq(back))
					got[i] = all(ctx, t, w, acc.Task.Id, from[i])
				})
			}
			wg.Wait()
			want := all(w.call(mode), t, w, acc.Task.Id, acc.Cursor)
			if len(want) < most {
				t.Fatalf("only %d updates", len(want))
			}
			for i := range followers {
				rest := want
				for len(rest) > 0 && rest[0].Seq <= from[i] {
					rest = rest[1:]
				}
				if slices.EqualFunc(rest, got[i], same) {
					continue
				}
				if diff := cmp.Diff(rest, got[i], protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("follower %d, from %d (-after the end +live):\n%s", i, from[i], diff)
				}
			}
		})
	}
}

func same(a, b a2a.Update) bool { return a.Seq == b.Seq && proto.Equal(a.Response, b.Response) }

// all reads a task's updates to its end.
func all(ctx context.Context, t testing.TB, w *world, id string, after mesh.Seq) []a2a.Update {
	var out []a2a.Update
	for u, err := range w.Updates(ctx, id, after) {
		if err != nil {
			t.Errorf("updates after %d: %v", after, err)
			return out
		}
		out = append(out, u)
	}
	return out
}

// refusal returns the error with which updates begin, if they do.
func refusal(updates iter.Seq2[a2a.Update, error]) error {
	for _, err := range updates {
		return err
	}
	return nil
}

// assembled puts updates onto a task as A2A says (v1.0 §4.2.2).
func assembled(task *a2apb.Task, updates []a2a.Update) map[string]string {
	parts := map[string]string{}
	for _, a := range task.GetArtifacts() {
		parts[a.ArtifactId] = textOf(a.Parts)
	}
	for _, u := range updates {
		switch p := u.Response.Payload.(type) {
		case *a2apb.StreamResponse_ArtifactUpdate:
			a := p.ArtifactUpdate
			if !a.Append {
				parts[a.Artifact.ArtifactId] = ""
			}
			parts[a.Artifact.ArtifactId] += textOf(a.Artifact.Parts)
		case *a2apb.StreamResponse_StatusUpdate:
			parts["state"] = p.StatusUpdate.GetStatus().GetState().String() + textOf(p.StatusUpdate.GetStatus().GetMessage().GetParts())
		}
	}
	return parts
}

// S4-038: the task that is read at any time, with the updates after its cursor,
// is the task that is read at the end.
func TestATaskIsWhatItsUpdatesAddUpTo(t *testing.T) {
	w := build(t)
	type reading struct {
		task   *a2apb.Task
		cursor mesh.Seq
	}
	var acc *a2a.Accepted
	var readings []reading // in the agents' scripts, of which one runs at a time
	sent := make(chan struct{})
	var mu sync.Mutex
	long(w, func() {
		<-sent
		task, cursor, err := w.Task(w.ctx(w.thread), acc.Task.Id)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		readings = append(readings, reading{task, cursor})
	})
	acc = w.send("go")
	close(sent)
	w.hear(acc)
	end := w.snapshot(acc.Task.Id)
	want := assembled(end, nil)
	want["state"] = end.Status.State.String() + textOf(end.Status.GetMessage().GetParts())
	if len(readings) != 80 || len(want) != 6 {
		t.Fatalf("%d readings, task %q", len(readings), want)
	}
	for _, r := range append(readings, reading{acc.Task, acc.Cursor}) {
		got := assembled(r.task, all(w.ctx(w.thread), t, w, acc.Task.Id, r.cursor))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read at %d (-end +then and after):\n%s", r.cursor, diff)
		}
	}
}

// A cursor that nobody gave is refused, with what to do.
func TestACursorBeyondTheConversationIsRefused(t *testing.T) {
	w := build(t)
	w.agent("main", echo)
	acc := w.send("go")
	w.hear(acc)
	tail := w.fold().Seq
	for _, after := range []mesh.Seq{-1, tail + 1, 1 << 40} {
		err := refusal(w.Updates(w.ctx(w.thread), acc.Task.Id, after))
		if e, _ := err.(*mesh.Error); e == nil || e.Code != mesh.Invalid || e.Field != "after-seq" {
			t.Errorf("after %d: %v", after, err)
		}
	}
	if rest := all(w.ctx(w.thread), t, w, acc.Task.Id, tail); len(rest) != 0 {
		t.Errorf("after the end: %v", rest)
	}
}
