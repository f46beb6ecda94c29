package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/threadlog/eventpb"
)

const (
	asking = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	apart  = 256 // what two events of one part are at most, between which nothing is passed over
)

// A story is a thread that comes on event by event, in which nobody trusts the agent helper.
type story struct {
	*library
	t    *testing.T
	turn mesh.ExecutionID // that comes on

	handoff mesh.Seq // that began last
	heard   []*mesh.Event
	ended   chan error // of who follows; nil while nobody does
}

func (s *story) tell(about mesh.ExecutionID, b mesh.Body) mesh.Seq {
	s.t.Helper()
	e := &mesh.Event{Execution: about, Body: b}
	if err := s.decide(s.t.Context(), e); err != nil {
		s.t.Fatal(err)
	}
	return e.Seq
}

// opens a turn of the agent with the user's words.
func (s *story) opens(agent, text string) {
	s.t.Helper()
	s.turn = mesh.NewExecutionID(s.key.ID)
	s.tell(s.turn, mesh.TaskOpened{Execution: mesh.Execution{ID: s.turn, Kind: mesh.KindTurn, Agent: agent, User: "ann", Text: text}})
	s.user(text)
}

func (s *story) user(text string) {
	s.t.Helper()
	s.tell(s.turn, mesh.MessagePosted{User: "ann", Message: words(text)})
}

// called is an agent, for the execution; it returns what it is called with.
func (s *story) called(parent mesh.ExecutionID, agent string, message *a2apb.Message) *mesh.Grant {
	s.t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(s.key.ID), Parent: parent, Kind: mesh.KindAgent, Agent: agent, User: "ann"}
	s.tell(parent, mesh.DispatchIssued{Child: x, Message: message})
	return &mesh.Grant{Tenant: s.key.Tenant, User: "ann", Thread: s.key.ID, Execution: x.ID, Parent: parent, Turn: s.turn, Agent: agent, Expires: time.Now().Add(time.Hour).Unix()}
}

// leg gives the user's stream to the agent.
func (s *story) leg(agent string) *mesh.Grant {
	s.t.Helper()
	return s.called(s.turn, agent, words(canary))
}

// back gives it to the agent that had it before a handoff.
func (s *story) back(agent string) *mesh.Grant {
	s.t.Helper()
	m := words(canary)
	m.Metadata = a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyHandoffReturn: structpb.NewStructValue(&structpb.Struct{})})
	return s.called(s.turn, agent, m)
}

func (s *story) handsOver(to string) {
	s.t.Helper()
	s.handoff = s.tell(s.turn, mesh.HandoffStarted{From: "main", To: to, Summary: canary})
}

// returns ends the handoff, and the execution that had the stream.
func (s *story) returns(g *mesh.Grant, summary string) {
	s.t.Helper()
	s.tell(s.turn, mesh.HandoffEnded{Started: s.handoff, Outcome: mesh.HandoffCompleted, Summary: summary})
	s.tell(s.turn, mesh.DispatchSettled{Child: g.Execution, State: completed})
}

func (s *story) says(g *mesh.Grant, text string) {
	s.t.Helper()
	s.tell(g.Execution, mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: words(text).GetParts()}, Append: true})
}

// moves the agent and its turn.
func (s *story) moves(g *mesh.Grant, to mesh.TaskState, text string) {
	s.t.Helper()
	for _, id := range []mesh.ExecutionID{g.Execution, s.turn} {
		s.tell(id, mesh.TaskMoved{State: to, Message: words(text)})
	}
}

// aside has main say so much to others in a turn of its own that it is more than a page, and
// than two events of one stretch are apart.
func (s *story) aside() {
	s.t.Helper()
	was := s.turn
	s.opens("main", canary)
	g := s.leg("main")
	for range apart + 50 {
		s.says(g, canary)
	}
	s.moves(g, completed, canary)
	s.turn = was
}

// follows has somebody follow what there is under the grant from now on.
func (s *story) follows(g *mesh.Grant) {
	s.ended = make(chan error, 1)
	go func() { // ended is waited for
		s.ended <- s.FollowThread(&meshv1.FollowThreadRequest{ThreadId: s.key.ID}, &followed{ctx: under(s.t, g), sent: func(e *mesh.Event) { s.heard = append(s.heard, e) }})
	}()
	synctest.Wait()
}

// part reads all that there is under the grant, in pages from either end.
func (s *story) part(g *mesh.Grant) []*mesh.Event {
	s.t.Helper()
	read := func(tail bool) (all []*mesh.Event) {
		req := &meshv1.ReadThreadRequest{ThreadId: s.key.ID, Limit: 4, Tail: tail}
		for more := true; more; {
			r, err := s.ReadThread(under(s.t, g), req)
			if err != nil {
				s.t.Fatal(err)
			}
			page := make([]*mesh.Event, len(r.GetEvents()))
			for i, p := range r.GetEvents() {
				if page[i], err = eventpb.EventFromProto(p); err != nil {
					s.t.Fatal(err)
				}
			}
			if more = r.GetMore(); len(page) == 0 {
				s.t.Fatalf("a page is empty, and there are more: %t", more)
			}
			if tail {
				all, req.BeforeSeq = slices.Concat(page, all), int64(page[0].Seq)
			} else {
				all, req.AfterSeq = append(all, page...), int64(page[len(page)-1].Seq)
			}
		}
		return all
	}
	ahead, back := read(false), read(true)
	known := map[mesh.ExecutionID]bool{}
	for _, e := range ahead {
		switch b := e.Body.(type) {
		case mesh.TaskOpened:
			known[b.Execution.ID] = true
		case mesh.DispatchIssued:
			known[b.Child.ID] = true
		}
		if !known[e.Execution] && !drops(e) {
			s.t.Errorf("event %d is about an execution that it has not seen begin", e.Seq)
		}
	}
	if a, b := seqs(ahead), seqs(back); !slices.Equal(a, b) {
		s.t.Errorf("it reads %v, and from the end %v", a, b)
	}
	return ahead
}

// drops reports whether the event drops what an agent noted, in whosever turn.
func drops(e *mesh.Event) bool {
	switch e.Body.(type) {
	case mesh.HandoffEnded, mesh.StateNoted:
		return true
	}
	return false
}

func seqs(events []*mesh.Event) (all []mesh.Seq) {
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}

// conversation is what was said in the events, in order.
func conversation(events []*mesh.Event) string {
	var all []string
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.MessagePosted:
			all = append(all, "user: "+mesh.TextOf(b.Message))
		case mesh.ArtifactAppended:
			all = append(all, b.Artifact.GetParts()[0].GetText())
		case mesh.TaskMoved:
			if text := mesh.TextOf(b.Message); text != "" && len(all) > 0 && all[len(all)-1] != text { // of an execution and of its turn
				all = append(all, text)
			}
		case mesh.HandoffEnded:
			all = append(all, "returned: "+b.Summary)
		case mesh.StateNoted:
			all = append(all, "notes of "+b.Agent)
		case mesh.DispatchIssued:
			if b.Child.Agent != "helper" && b.Message != nil {
				all = append(all, "to "+b.Child.Agent)
			}
		}
	}
	return strings.Join(all, ", ")
}

// sees checks what was said in what the agent may read.
func (s *story) sees(g *mesh.Grant, want string) {
	s.t.Helper()
	if got := conversation(s.part(g)); got != want {
		s.t.Errorf("it is shown %q, want %q", got, want)
	}
}

// Stories end with what the agent is called with that reads them.
var stories = map[string]struct {
	tell func(s *story) *mesh.Grant
	want string
}{
	"a turn after another agent's": {func(s *story) *mesh.Grant {
		s.aside()
		s.opens("helper", "one")
		g := s.leg("helper")
		s.follows(g)
		s.says(g, "two")
		return g
	}, "user: one, two"},
	"several turns, and others' between": {func(s *story) *mesh.Grant {
		for _, n := range []string{"1", "2"} {
			s.opens("helper", "ask "+n)
			g := s.leg("helper")
			s.says(g, "say "+n)
			s.moves(g, completed, "end "+n)
			s.aside()
		}
		s.opens("helper", "ask 3")
		g := s.leg("helper")
		s.follows(g)
		s.says(g, "say 3")
		s.aside() // at the same time, as nobody does
		s.says(g, "more 3")
		return g
	}, "user: ask 1, say 1, end 1, user: ask 2, say 2, end 2, user: ask 3, say 3, more 3"},
	"two legs of one turn": {func(s *story) *mesh.Grant {
		s.opens("main", "a helper, please")
		main := s.leg("main")
		s.says(main, canary)
		s.handsOver("helper")
		first := s.leg("helper")
		s.tell(s.turn, mesh.DispatchSettled{Child: main.Execution, State: completed, Result: canary})
		s.says(first, "say 1")
		s.moves(first, asking, "which?")
		s.user("this one")
		s.tell(first.Execution, mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered})
		s.tell(s.turn, mesh.TaskMoved{State: working})
		s.says(first, "say 2")
		s.returns(first, "done 1")
		main = s.back("main")
		s.says(main, canary)
		s.tell(s.turn, mesh.TaskMoved{State: working, Message: words(canary)})
		s.user("for the next")
		s.handsOver("helper")
		second := s.leg("helper")
		s.follows(second)
		s.tell(s.turn, mesh.DispatchSettled{Child: main.Execution, State: completed, Result: canary})
		s.says(second, "say 3")
		return second
	}, "user: a helper, please, say 1, which?, user: this one, say 2, returned: done 1, user: for the next, say 3"},
	"a message that waits while another agent has the stream": {func(s *story) *mesh.Grant {
		s.opens("helper", "one")
		first := s.leg("helper")
		s.moves(first, asking, "which?")
		waits := s.turn
		s.opens("main", canary)
		main := s.leg("main")
		s.follows(first)
		s.says(main, canary)
		s.user(canary)
		turn := s.turn
		s.opens("helper", canary)
		s.sees(first, "user: one, which?")
		s.turn = turn
		s.moves(main, completed, canary)
		s.turn = waits
		s.user("this one")
		s.sees(first, "user: one, which?, user: this one") // for which it waits
		s.tell(first.Execution, mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered})
		s.says(first, "two")
		return first
	}, "user: one, which?, user: this one, two"},
	"what drops notes, in turns of others": {func(s *story) *mesh.Grant {
		s.opens("helper", "hello")
		s.moves(s.leg("helper"), completed, "hi")
		s.aside()
		s.opens("main", canary)
		main := s.leg("main")
		s.handsOver("helper")
		s.tell(s.turn, mesh.HandoffEnded{Started: s.handoff, Outcome: mesh.HandoffCancelled, Summary: "dropped", Dropped: "helper"})
		s.aside()
		for _, agent := range []string{"other", "helper"} {
			s.tell(s.turn, mesh.StateNoted{Agent: agent})
		}
		s.moves(main, completed, canary)
		s.opens("helper", "one")
		g := s.leg("helper")
		s.follows(g)
		s.says(g, "two")
		return g
	}, "user: hello, hi, returned: dropped, notes of helper, user: one, two"},
	"a turn that another agent had for long, and one after it": {func(s *story) *mesh.Grant {
		s.opens("main", "help me")
		main := s.leg("main")
		for range 2 * apart {
			s.says(main, canary)
		}
		s.handsOver("helper")
		g := s.leg("helper")
		s.says(g, "say 1")
		s.moves(g, completed, "end 1")
		s.aside()
		s.opens("helper", "ask 2")
		g = s.leg("helper")
		s.follows(g)
		s.says(g, "say 2")
		return g
	}, "user: help me, say 1, end 1, user: ask 2, say 2"},
}

// An agent that nobody trusts is shown the same part of a thread however it reads: from the
// beginning, from the end, following from any event on, also from one that it may not see, and
// following while it comes on: each event once, in order, and nothing of what others were told.
func TestWhatAnAgentThatNobodyTrustsFollowsIsWhatItReads(t *testing.T) {
	for name, tt := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{library: newLibrary(t), t: t}
				g := tt.tell(s)
				part := s.part(g)
				if got := conversation(part); got != tt.want {
					t.Errorf("it is shown %q, want %q", got, tt.want)
				}
				s.tell(g.Execution, mesh.TaskMoved{State: completed})
				wantCode(t, <-s.ended, mesh.Precondition, "over")
				if n := len(s.heard) - 1; !slices.Equal(seqs(s.heard[:n]), seqs(part)) {
					t.Errorf("it followed %v, and reads %v", seqs(s.heard[:n]), seqs(part))
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := &story{library: newLibrary(t), t: t}
				g := tt.tell(s)
				s.cursors(g, seqs(s.part(g)))
			})
		})
	}
}

// cursors checks that whoever follows from any event on gets what comes after it of the part.
func (s *story) cursors(g *mesh.Grant, part []mesh.Seq) {
	s.t.Helper()
	last := part[len(part)-1]
	for after := range last {
		ctx, cancel := context.WithCancel(under(s.t, g))
		var got []mesh.Seq
		err := s.FollowThread(&meshv1.FollowThreadRequest{ThreadId: s.key.ID, AfterSeq: int64(after)}, &followed{ctx: ctx, sent: func(e *mesh.Event) {
			if got = append(got, e.Seq); e.Seq == last {
				cancel()
			}
		}})
		if !mesh.IsCode(err, mesh.Canceled) {
			s.t.Fatalf("after %d: %v", after, err)
		}
		if want := part[slices.IndexFunc(part, func(at mesh.Seq) bool { return at > after }):]; !slices.Equal(got, want) {
			s.t.Errorf("after %d it follows %v, want %v", after, got, want)
		}
	}
}

// Where more becomes an agent's part that it has passed over, whoever follows is told to begin
// anew, and misses nothing.
func TestAFollowerIsToldWhenMoreBecomesItsPart(t *testing.T) {
	for name, tt := range map[string]struct {
		tell func(s *story) *mesh.Grant // which follows
		want string                     // that it reads then
	}{
		"another turn goes to an agent that waits": {func(s *story) *mesh.Grant {
			s.opens("helper", "one")
			first := s.leg("helper")
			s.moves(first, asking, "which?")
			s.follows(first)
			s.opens("helper", "two")
			s.sees(first, "user: one, which?")
			s.leg("helper")
			return first
		}, "user: one, which?, user: two"},
		"an agent that was dispatched gets the stream": {func(s *story) *mesh.Grant {
			s.opens("main", canary)
			main := s.leg("main")
			below := s.called(main.Execution, "helper", words("do"))
			s.follows(below)
			s.says(below, "done")
			s.says(main, canary)
			s.user("and go on")
			s.sees(below, "done")
			s.handsOver("helper")
			s.leg("helper")
			return below
		}, "done, user: and go on"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{library: newLibrary(t), t: t}
				g := tt.tell(s)
				wantCode(t, <-s.ended, mesh.Conflict, "anew")
				part := s.part(g)
				if got := conversation(part); got != tt.want {
					t.Errorf("it is shown %q, want %q", got, tt.want)
				}
				if slices.Equal(seqs(s.heard), seqs(part)) {
					t.Error("it was told to begin anew, and had followed everything")
				}
				s.cursors(g, seqs(part)) // and is not told again
			})
		})
	}
}
