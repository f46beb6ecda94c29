package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	fold "agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// short is a log in a line for each event.
func short(log []*meshv1.Event) string {
	var b strings.Builder
	for _, e := range log {
		m := e.ProtoReflect()
		_, what, _ := strings.Cut(protojson.Format(m.Get(m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))).Message().Interface()), "{")
		_, x, _ := strings.Cut(e.GetExecutionId(), "-")
		fmt.Fprintf(&b, "%d %s %s %s %.200s\n", e.GetSeq(), e.GetActor(), x, m.WhichOneof(m.Descriptor().Oneofs().ByName("body")).Name(), strings.Join(strings.Fields(what), " "))
	}
	return b.String()
}

func readAll(ctx context.Context, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	resp, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id, Limit: 1000})
	if err != nil {
		return nil
	}
	return resp.GetEvents()
}

// soundness is what was seen of a log so far.
type soundness struct {
	t               *testing.T
	ids             map[string]bool // of events
	posted, settled map[string]int
	issued          map[string]bool
	states          map[string]mesh.TaskState // of executions
	turns           map[string]bool
	folded          *fold.State
	handoff         *fold.Handoff // as it was before the event
}

// checkSound checks a log of one task with as many messages, which is over: every event is
// there once, executions and handoffs go from state to state as they may, the task has one end,
// and every execution has ended once.
func checkSound(t *testing.T, log []*meshv1.Event, messages int) {
	t.Helper()
	s := &soundness{t: t, ids: map[string]bool{}, posted: map[string]int{}, settled: map[string]int{}, issued: map[string]bool{},
		states: map[string]mesh.TaskState{}, turns: map[string]bool{}, folded: new(fold.State)}
	for i, e := range log {
		if e.GetSeq() != int64(i+1) || e.GetId() != "" && s.ids[e.GetId()] {
			t.Errorf("event %d has the seq %d and the id %s", i+1, e.GetSeq(), e.GetId())
		}
		s.ids[e.GetId()] = true
		s.executions(e)
		s.transfers(e)
	}
	for id, n := range s.posted {
		if n != 1 {
			t.Errorf("message %s is there %d times", id, n)
		}
	}
	for id := range s.issued {
		if s.settled[id] != 1 {
			t.Errorf("the execution %s ended %d times", id, s.settled[id])
		}
	}
	if len(s.turns) != 1 || len(s.posted) != messages {
		t.Errorf("%d tasks of %d messages, want one of %d", len(s.turns), len(s.posted), messages)
	}
	for id, state := range s.states {
		if !mesh.Terminal(state) {
			t.Errorf("%s is %v", id, state)
		}
	}
}

// executions looks at what the event says of executions.
func (s *soundness) executions(e *meshv1.Event) {
	switch {
	case e.GetTaskOpened() != nil:
		s.turns[e.GetExecutionId()] = true
		s.begins(e.GetExecutionId())
	case e.GetMessagePosted() != nil:
		s.posted[e.GetMessagePosted().GetMessage().GetMessageId()]++
	case e.GetDispatchIssued() != nil:
		s.issued[e.GetDispatchIssued().GetChild().GetId()] = true
		s.begins(e.GetDispatchIssued().GetChild().GetId())
	case e.GetTaskMoved() != nil:
		s.moves(e, e.GetExecutionId(), e.GetTaskMoved().GetState())
	case e.GetDispatchSettled() != nil:
		id := e.GetDispatchSettled().GetChild()
		if s.settled[id]++; s.states[id] != e.GetDispatchSettled().GetState() { // or it was moved there
			s.moves(e, id, e.GetDispatchSettled().GetState())
		}
	}
}

func (s *soundness) begins(id string) {
	if _, begun := s.states[id]; begun {
		s.t.Errorf("%s was begun twice", id)
	}
	s.states[id] = a2apb.TaskState_TASK_STATE_SUBMITTED
}

// moves checks that an execution that has begun may go to the state.
func (s *soundness) moves(e *meshv1.Event, id string, to mesh.TaskState) {
	from, begun := s.states[id]
	legal := begun && !mesh.Terminal(from)
	switch to {
	case a2apb.TaskState_TASK_STATE_SUBMITTED: // it waits its turn
		legal = legal && from != a2apb.TaskState_TASK_STATE_WORKING
	case a2apb.TaskState_TASK_STATE_UNSPECIFIED:
		legal = false
	}
	if !legal || s.settled[id] > 1 {
		s.t.Errorf("event %d: %s went from %v to %v", e.GetSeq(), id, from, to)
	}
	s.states[id] = to
}

// transfers looks at what the event makes of the handoff: one is pending when it begins, goes on
// only, and ends once.
func (s *soundness) transfers(e *meshv1.Event) {
	ev, err := eventpb.EventFromProto(e)
	if err != nil {
		s.t.Errorf("event %d: %v", e.GetSeq(), err)
		return
	}
	s.folded.Apply(ev)
	was, is := s.handoff, s.folded.Handoff
	if s.handoff = is; is == nil {
		return
	}
	ends := []mesh.HandoffState{"completed", "cancelled", "error", mesh.HandoffState(mesh.HandoffParked)}
	may := map[mesh.HandoffState][]mesh.HandoffState{
		mesh.HandoffPending:   append([]mesh.HandoffState{mesh.HandoffActive, mesh.HandoffReturning}, ends...),
		mesh.HandoffActive:    append([]mesh.HandoffState{mesh.HandoffReturning}, ends...),
		mesh.HandoffReturning: ends[:3],
	}
	switch {
	case was == nil || was.Seq != is.Seq:
		if is.State != mesh.HandoffPending || was.Active() {
			s.t.Errorf("event %d: a handoff begins as %s, and the one before stands: %v", e.GetSeq(), is.State, was.Active())
		}
	case was.State != is.State && !slices.Contains(may[was.State], is.State):
		s.t.Errorf("event %d: the handoff went from %s to %s", e.GetSeq(), was.State, is.State)
	case was.Ended != 0 && e.GetHandoffEnded() != nil:
		s.t.Errorf("event %d: the handoff ended again", e.GetSeq())
	}
}
