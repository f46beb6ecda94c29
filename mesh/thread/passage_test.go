package thread_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A stage is a state of a handoff that a stream told.
type stage struct {
	handoff mesh.Seq
	state   mesh.HandoffState
}

// toldBy is the state that the update tells; false if it tells none.
func toldBy(r *a2apb.StreamResponse) (stage, bool) {
	md := r.GetStatusUpdate().GetMetadata()
	if u := r.GetArtifactUpdate(); u != nil {
		md = u.GetMetadata()
	}
	h, ok := md.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["handoff_state"].GetKind().(*structpb.Value_StructValue)
	if !ok {
		return stage{}, false
	}
	f := h.StructValue.GetFields()
	return stage{mesh.Seq(f["seq"].GetNumberValue()), mesh.HandoffState(f["state"].GetStringValue())}, true
}

// forward are the states of a handoff in their order; the outcomes are one.
func forward(s mesh.HandoffState) int {
	return slices.Index([]mesh.HandoffState{mesh.HandoffPending, mesh.HandoffActive, mesh.HandoffReturning}, s) & 3
}

// Whatever a log has, the stream of a turn tells of a handoff in its order, each state once, and
// tells no state that the log does not come to.
func TestAStreamTellsEachStateOfAHandoffOnce(t *testing.T) {
	seen := map[mesh.HandoffState]int{}
	check := func(t rapid.TB, log []*mesh.Event) {
		state := thread.Fold(log)
		for _, turn := range state.Turns() {
			v := state.View("c", turn.ID, turn.Opened, thread.Mode{Extended: true})
			was := map[mesh.Seq]mesh.HandoffState{}
			for _, e := range log[turn.Opened:] {
				now, ok := toldBy(v.Apply(e))
				if !ok {
					continue
				}
				if before, again := was[now.handoff]; again && (forward(before) >= forward(now.state) || forward(before) == 3) {
					t.Fatalf("at %d (%T) the handoff of %d is told as %s, after %s", e.Seq, e.Body, now.handoff, now.state, before)
				}
				if _, starts := log[now.handoff-1].Body.(mesh.HandoffStarted); !starts {
					t.Fatalf("at %d a handoff of %d is told", e.Seq, now.handoff)
				}
				was[now.handoff] = now.state
				seen[now.state]++
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, aLog(t)) })
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same logs each time
	for range 2000 {
		picks := make([]byte, 400)
		for i := range picks {
			picks[i] = byte(random.Uint32())
		}
		check(t, aTeller(picks).tell(60))
	}
	for _, s := range []mesh.HandoffState{mesh.HandoffPending, mesh.HandoffActive, mesh.HandoffReturning, "completed", "cancelled", "error", "parked"} {
		if seen[s] == 0 {
			t.Errorf("no stream told of %s", s)
		}
	}
}

// aPassage is a conversation as the mesh writes it: turns, one at a time, with handoffs that begin,
// are heard of or not, and end in each of their ways. The picks decide.
func aPassage(pick func(int) int) (log []*mesh.Event) {
	const working, done, asks, canceled = a2apb.TaskState_TASK_STATE_WORKING, a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_CANCELED
	s := new(thread.State)
	add := func(actor string, id mesh.ExecutionID, b mesh.Body) {
		e := of(actor, id, b)
		e.Seq, e.Time = s.Seq+1, at
		log = append(log, e)
		s.Apply(e)
	}
	made := 0
	fresh := func() mesh.ExecutionID {
		made++
		return mesh.ExecutionID(rune('a'+made/26)) + mesh.ExecutionID(rune('a'+made%26))
	}
	moves := func(id mesh.ExecutionID, to mesh.TaskState) { add("node", id, mesh.TaskMoved{State: to}) }
	for range 1 + pick(5) {
		var turn mesh.ExecutionID
		if t := s.InterruptedTurn(); t != nil {
			turn = t.ID
			add("user:ann", turn, posted("ann", "more"))
		} else {
			turn = fresh()
			add("user:ann", turn, mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "ann"}})
			add("user:ann", turn, posted("ann", "go"))
		}
		moves(turn, working)
		if s.Handoff.Active() && pick(6) == 0 {
			add("node", turn, mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: mesh.HandoffParked})
		}
		for range 1 + pick(4) { // legs
			agent, kind, leg := s.ActiveAgent("main"), mesh.KindAgent, fresh()
			if s.Handoff.Active() {
				kind = mesh.KindHandoff
			}
			add("node", turn, mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: turn, Kind: kind, Agent: agent, User: "ann"}})
			for range pick(3) {
				switch pick(3) {
				case 0:
					add("agent:"+agent, leg, mesh.ArtifactAppended{Artifact: artifact("x", "words")})
				case 1:
					add("agent:"+agent, leg, mesh.SkillCalled{Call: "c", Skill: "s"})
				default:
					add("agent:"+agent, leg, mesh.TaskMoved{State: working})
				}
			}
			switch pick(6) {
			case 0, 1:
				if !s.Handoff.Active() {
					add("agent:"+agent, leg, mesh.HandoffStarted{From: agent, To: []string{"smith", "cook"}[pick(2)], ReturnExpected: true})
					continue
				}
				by := []string{"agent:" + agent, "user:ann", "node"}[pick(3)]
				about := turn
				if by == "agent:"+agent {
					about = leg
				}
				add(by, about, mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: outcomes[pick(3)], By: by})
				continue
			case 2:
				add("agent:"+agent, turn, mesh.DispatchSettled{Child: leg, State: done})
				continue
			}
			break
		}
		if t := s.Turn(turn); pick(4) > 0 { // else it asks
			moves(turn, []mesh.TaskState{done, canceled}[pick(2)])
		} else if t.Leg() != nil {
			moves(turn, asks)
		}
		if !mesh.Terminal(s.Turn(turn).State) && !mesh.Interrupted(s.Turn(turn).State) {
			moves(turn, done)
		}
	}
	return log
}

// What streams tell together is what the fold of the log says, event by event: each state that
// a handoff reaches in some turn is told in that turn's stream, to whoever reads it from the
// start and from any event on.
func TestStreamsTellWhatTheLogSaysOfAHandoff(t *testing.T) {
	seen := map[mesh.HandoffState]int{}
	check := func(t rapid.TB, data []byte) {
		log := aPassage(aTeller(data).pick)
		checkLog(t, log)
		all := thread.Fold(log)
		views := map[mesh.ExecutionID]*thread.View{}
		state := new(thread.State)
		var before stage
		for _, e := range log {
			state.Apply(e)
			var heard []stage
			for _, turn := range state.Turns() {
				if views[turn.ID] == nil {
					views[turn.ID] = all.View("c", turn.ID, e.Seq, thread.Mode{Extended: true})
					continue
				}
				if now, ok := toldBy(views[turn.ID].Apply(e)); ok {
					heard = append(heard, now)
				}
			}
			if state.Handoff == nil {
				continue
			}
			now := stage{state.Handoff.Seq, state.Handoff.State}
			if changed := now != before; changed != (len(heard) == 1) || changed && heard[0] != now {
				t.Fatalf("at %d (%T) the handoff went from %v to %v; streams told %v", e.Seq, e.Body, before, now, heard)
			}
			before = now
			seen[now.state]++
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.SliceOfN(rapid.Byte(), 20, 120).Draw(t, "picks")) })
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same conversations each time
	for range 100 {
		picks := make([]byte, 120)
		for i := range picks {
			picks[i] = byte(random.Uint32())
		}
		check(t, picks)
	}
	for _, s := range []mesh.HandoffState{mesh.HandoffPending, mesh.HandoffActive, mesh.HandoffReturning, "completed", "cancelled", "error", "parked"} {
		if seen[s] == 0 {
			t.Errorf("no conversation came to %s", s)
		}
	}
}
