package edge_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
)

// stages are the states of handoffs that updates tell, in their order.
func stages(updates []a2a.Update) (all []string) {
	for _, u := range updates {
		if f := a2a.Extension(a2a.MetadataOf(u.Response)).GetFields()["handoff_state"].GetStructValue().GetFields(); f != nil {
			all = append(all, f["state"].GetStringValue())
		}
	}
	return all
}

// A live client reads each state of a handoff when it begins, also of a target that works in
// silence, and of a return that nobody has heard of yet.
func TestALiveClientReadsEachStateOfAHandoff(t *testing.T) {
	type step struct {
		say  string
		want []string
	}
	for name, tt := range map[string]struct {
		smith func(*scene)
		steps []step
	}{
		"it speaks": {func(s *scene) { s.say("made. "); s.must(s.giveBack("made", 1)); s.move(completed, "") },
			[]step{{"go", []string{"pending", "active", "returning", "completed"}}}},
		"it asks": {func(s *scene) {
			if s.text() == "go" {
				s.move(asks, "what?")
				return
			}
			s.must(s.giveBack("made", 0))
			s.move(completed, "")
		}, []step{{"go", []string{"pending", "active"}}, {"a knife", []string{"returning", "completed"}}}},
		"it has nothing to say": {func(s *scene) { s.move(completed, "") },
			[]step{{"go", []string{"pending", "active"}}, {"exit", []string{"returning", "cancelled"}}}},
		"it fails at once": {func(s *scene) { s.move(failed, "no coal") },
			[]step{{"go", []string{"pending", "active", "returning", "error"}}}},
		"it gives up at once": {func(s *scene) { s.must(s.giveBack("no", 0)); s.move(completed, "") },
			[]step{{"go", []string{"pending", "returning", "completed"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", gives)
			w.agent("smith", tt.smith)
			var last string
			for _, s := range tt.steps {
				h := w.in(s.say)
				if got := stages(h.all); !slices.Equal(got, s.want) {
					t.Errorf("after %q it is told %q, want %q; %v", s.say, got, s.want, h)
				}
				last = s.want[len(s.want)-1]
			}
			if got := w.fold().Handoff.State; string(got) != last {
				t.Errorf("the log says %s, the stream %s", got, last)
			}
		})
	}
}

// An agent that cancels its own task gives the conversation back, as cancelled; one that completes
// it has answered, and has the conversation on. It is so for agents that know nothing of handoffs.
// With preserve_state false, what it noted is dropped, as at each early end.
func TestWhatTheEndOfItsTaskMeansForATarget(t *testing.T) {
	texttest.Fixed(t)
	for name, opts := range map[string][]as{"ours": nil, "of others": {foreign}} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", gives)
			w.agent("smith", func(s *scene) {
				if s.say("at it. "); strings.HasSuffix(s.text(), "go") {
					s.move(completed, "")
					return
				}
				s.move(canceled, "no more")
			}, opts...)
			if h := w.in("go"); h.state != completed || !slices.Equal(stages(h.all), []string{"pending", "active"}) || w.fold().ActiveAgent("main") != "smith" {
				t.Errorf("after it completed its task: %v, %q", h, stages(h.all))
			}
			h := w.in("more")
			if want := "at it. back: cancelled, smith could not go on: no more"; h.state != completed || h.text != want || !slices.Equal(stages(h.all), []string{"returning", "cancelled"}) {
				t.Errorf("after it canceled its task: %v, %q", h, stages(h.all))
			}
			if s := w.fold(); s.Handoff.Active() || s.Handoff.Outcome != mesh.HandoffCancelled || s.ActiveAgent("main") != "main" {
				t.Errorf("the handoff is %+v", s.Handoff)
			}
		})
	}
	for end, state := range map[string]mesh.TaskState{"cancels": canceled, "fails": failed} {
		t.Run("it "+end+", and nothing is kept", func(t *testing.T) {
			w := build(t)
			w.agent("main", func(s *scene) {
				if s.told("handoff_return") != nil {
					s.answer("back")
					return
				}
				_, err := s.w.any().handoffs.Start(s.ctx, s.call.Principal.Grant, handoff.Start{Target: "smith", ReturnExpected: true})
				s.must(err)
				s.move(completed, "")
			})
			w.agent("smith", func(s *scene) { s.move(state, "") })
			w.in("go")
			for _, e := range w.logs()[w.key()] {
				if b, ends := e.Body.(mesh.HandoffEnded); ends && b.Dropped != "smith" {
					t.Errorf("it ended with %+v", b)
				}
			}
			if w.fold().Handoff.Active() {
				t.Error("the handoff goes on")
			}
		})
	}
}

// A handoff whose target was not heard before its task was canceled is active in the stream of
// the next task.
func TestAHandoffBecomesActiveInTheStreamThatHearsItsTarget(t *testing.T) {
	w := build(t)
	w.agent("main", gives)
	begun := make(chan struct{}, 1)
	w.agent("smith", func(s *scene) {
		if s.text() == "go" {
			begun <- struct{}{}
			s.until(nil) // without a word
			return
		}
		s.answer("here")
	})
	first := w.send("go")
	<-begun
	w.mustCancel(first.Task.Id)
	if got := stages(w.hear(first).all); !slices.Equal(got, []string{"pending"}) {
		t.Errorf("the first stream tells %q", got)
	}
	second := w.send("more")
	if got := stages(w.hear(second).all); !slices.Equal(got, []string{"active"}) {
		t.Errorf("the second stream tells %q", got)
	}
	if all := stages(all(w.ctx(w.thread), t, w, second.Task.Id, 0)); !slices.Equal(all, []string{"active"}) { // from before it was opened
		t.Errorf("read from the begin of the conversation, it tells %q", all)
	}
}

// The stream of the message that finds a session over by time tells that it is parked: to
// clients that know our extension in data, to others in words.
func TestTheMessageThatParksASessionIsToldSo(t *testing.T) {
	texttest.Fixed(t)
	for name, before := range map[string]string{"in the task that waits": "more", "with a task of its own": "done"} {
		t.Run(name, func(t *testing.T) {
			w, ahead, mains := parting(t)
			w.in("go")
			soon(t, mains)
			w.in(before)
			ahead.Store(int64(2 * time.Hour))
			acc := w.send("again")
			h := w.hear(acc)
			if got := stages(h.all); !slices.Equal(got, []string{"parked"}) {
				t.Errorf("told %q", got)
			}
			back := a2a.Extension(a2a.MetadataOf(h.all[0].Response)).GetFields()[a2a.KeyHandoffReturn].GetStructValue().GetFields()
			if back["outcome"].GetStringValue() != "parked" || back["source_agent_id"].GetStringValue() != "smith" || back["by"].GetStringValue() != "node" {
				t.Errorf("the first update tells %v", back)
			}
			plain := all(w.call(modes["plain"]), t, w, acc.Task.Id, acc.Cursor)
			heard := new(heard)
			for _, u := range plain {
				heard.add(u)
			}
			if !slices.Contains(heard.words, "Returning you to the main assistant.") {
				t.Errorf("a plain client reads %v", heard)
			}
		})
	}
}

// In a shared conversation the task of somebody else, in which the session's agent waits, goes
// on waiting when a session is parked, and main answers there.
func TestATaskOfAnotherUserWaitsOnWhenTheSessionIsParked(t *testing.T) {
	w, ahead, mains := parting(t)
	acc := w.send("go")
	w.hear(acc)
	soon(t, mains)
	w.share("bob")
	ahead.Store(int64(2 * time.Hour))
	bob := w.call(func(c *mesh.Call) { c.Principal.User = "bob" })
	his := w.post(bob, say("hello"))
	if got := stages(all(bob, t, w, his.Task.Id, his.Cursor)); !slices.Equal(got, []string{"parked"}) {
		t.Errorf("bob is told %q", got)
	}
	soon(t, mains)
	if task := w.snapshot(acc.Task.Id); task.Status.State != asks {
		t.Errorf("ann's task is %v", task.Status)
	}
	if left := w.fold().Unfinished(mesh.ExecutionID(acc.Task.Id)); len(left) > 0 {
		t.Errorf("%v waits on for ann", left[0])
	}
	h := w.hear(w.post(w.ctx(w.thread), to(say("here I am"), acc.Task.Id)))
	if s := soon(t, mains); h.state != completed || s.text() != "here I am" || len(stages(h.all)) > 0 {
		t.Errorf("heard %v; main got %q", h, s.text())
	}
}

// Who lacks by now what the agent of a parked session requires is not refused: the message is
// main's.
func TestAMessageThatParksASessionIsNotForItsAgent(t *testing.T) {
	w, ahead, mains := parting(t)
	w.in("go")
	soon(t, mains)
	w.dir.mu.Lock()
	a := w.dir.agents["smith"]
	requires, err := structpb.NewStruct(map[string]any{"required_permissions": []any{"skill:create"}})
	if err != nil {
		t.Fatal(err)
	}
	a.Card.Capabilities.Extensions[0].Params = requires
	w.dir.mu.Unlock()
	if _, err := w.Send(w.ctx(w.thread), say("within the hour")); !mesh.IsCode(err, mesh.Denied) {
		t.Fatalf("within the hour: %v", err)
	}
	ahead.Store(int64(2 * time.Hour))
	if h := w.in("again"); h.state != completed {
		t.Errorf("heard %v", h)
	}
	soon(t, mains)
}

// cut reads a task's updates to its end in pieces of random sizes, each from the cursor of the
// last.
func cut(ctx context.Context, t *testing.T, w *world, id string, after mesh.Seq, pick func(int) int) (got []a2a.Update) {
	for {
		most, over := 1+pick(4), true
		for u, err := range w.Updates(ctx, id, after) {
			if err != nil {
				t.Errorf("updates after %d: %v", after, err)
				return got
			}
			got, after = append(got, u), u.Seq
			if most--; most == 0 {
				over = false
				break
			}
		}
		if over {
			return got
		}
	}
}

// S4-053: whoever reads a task in pieces, and whenever they come, reads what who reads it in one
// piece does, and nothing twice: from the start of a handoff on, while its target is not heard,
// is at work, asks, gives control back, and while a session is parked.
func TestAStreamThatIsCutUpIsTheWholeOne(t *testing.T) {
	const readers = 100
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			w, ahead, mains := parting(t)
			gates := make(chan struct{}, 1)
			w.agent("smith", func(s *scene) {
				switch s.text() {
				case "done":
					s.say("made. ")
					<-gates
					s.must(s.giveBack("made", 1))
					s.move(completed, "")
				default:
					<-gates
					s.move(working, "thinking")
					s.put("a", "well, ", false)
					s.put("a", "well. ", true)
					s.move(asks, "and then?")
				}
			})
			w.agent("main", func(s *scene) {
				switch {
				case s.told("handoff_return") != nil:
					s.answer("back")
				case s.text() == "go":
					s.say("one moment. ")
					s.must(s.give("smith", 1))
					s.move(completed, "")
				default:
					mains <- s
					s.answer("main: " + s.text())
				}
			})
			var reading sync.WaitGroup
			type reader struct {
				id    string
				after mesh.Seq
				got   []a2a.Update
			}
			var all []*reader
			random := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- logged
			// join has readers come now, at any event of the task.
			join := func(id string, n int) {
				for range n {
					r, ctx, own := &reader{id: id, after: mesh.Seq(random.Int64N(int64(w.fold().Seq) + 1))}, w.call(mode), rand.New(rand.NewPCG(seed, random.Uint64())) // #nosec G404 -- logged
					all = append(all, r)
					reading.Go(func() { r.got = cut(ctx, t, w, id, r.after, own.IntN) })
				}
			}
			state := func(want mesh.HandoffState) {
				w.await("the handoff is "+string(want), func(s *thread.State) bool { return s.Handoff != nil && s.Handoff.State == want })
			}
			first := w.send("go")
			join(first.Task.Id, readers/10)
			state(mesh.HandoffPending)
			join(first.Task.Id, readers/10)
			gates <- struct{}{}
			w.hear(first)
			join(first.Task.Id, readers/10)
			again := w.send("done")
			join(first.Task.Id, readers/10)
			gates <- struct{}{}
			w.hear(again)
			join(first.Task.Id, readers/10)
			second := w.send("go")
			gates <- struct{}{}
			w.hear(second)
			join(second.Task.Id, readers/4)
			ahead.Store(int64(2 * time.Hour))
			w.in("hello")
			join(second.Task.Id, readers/4)
			reading.Wait()
			whole := map[string][]a2a.Update{}
			for _, id := range []string{first.Task.Id, second.Task.Id} {
				whole[id] = cut(w.call(mode), t, w, id, 0, func(int) int { return 1 << 20 })
			}
			for _, r := range all {
				want := slices.DeleteFunc(slices.Clone(whole[r.id]), func(u a2a.Update) bool { return u.Seq <= r.after })
				if slices.EqualFunc(want, r.got, same) {
					continue
				}
				t.Fatalf("from %d (-whole +cut):\n%s", r.after, cmp.Diff(want, r.got, protocmp.Transform(), cmpopts.EquateEmpty()))
			}
			if name != "with the extension" {
				return
			}
			for id, want := range map[string][]string{first.Task.Id: {"pending", "active", "returning", "completed"}, second.Task.Id: {"pending", "active", "parked"}} {
				if got := stages(whole[id]); !slices.Equal(got, want) {
					t.Errorf("the stream tells %q, want %q", got, want)
				}
			}
		})
	}
}
