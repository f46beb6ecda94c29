package api

import (
	"maps"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

func (s *Threads) describe(key mesh.ThreadKey, st *thread.State) *meshv1.Thread {
	now := time.Now()
	out := &meshv1.Thread{
		ThreadId: key.ID, Seq: int64(st.Seq), ActiveAgent: st.ActiveAgent(s.main), Title: st.Title,
		Owner: st.Owner, Participants: st.Participants, Readable: st.Readable,
		Created: timestamppb.New(st.Created), Updated: timestamppb.New(st.Updated), Usage: eventpb.UsageToProto(st.Usage),
		Session: s.session(st, now),
	}
	if h := st.HandoffAt(now); h != nil {
		if out.HandoffState = string(h.State); h.State == mesh.HandoffState(mesh.HandoffParked) {
			out.ActiveAgent = s.main
		}
	}
	return out
}

// describePart is the thread as it is described under the grant: who sees an own part alone is
// told its length, and of the handoff what is its agent's.
func (s *Threads) describePart(key mesh.ThreadKey, st *thread.State, part thread.Part, g *mesh.Grant) *meshv1.Thread {
	all := s.describe(key, st)
	if g.ReadsAll() {
		return all
	}
	own := &meshv1.Thread{ThreadId: all.ThreadId, Seq: all.Seq}
	if part.HandedOver() {
		own.ActiveAgent, own.HandoffState, own.Session = all.ActiveAgent, all.HandoffState, all.Session
	}
	return own
}

// session is where the agent stands, now, that the thread was handed over to last; nil without one.
func (s *Threads) session(st *thread.State, now time.Time) *meshv1.Session {
	at, ok := st.Session(now)
	if !ok {
		return nil
	}
	return &meshv1.Session{Agent: at.Agent, Step: count(at.Step), Steps: count(at.Steps), State: at.Stage,
		Resumable: at.Resumable(now, s.retention)}
}

func describeExecution(x *thread.Execution) *meshv1.ExecutionState {
	out := &meshv1.ExecutionState{
		Execution: eventpb.ExecutionToProto(x.Execution), State: x.State, Reason: x.Reason,
		Started: timestamppb.New(x.Started), Result: x.Result, Usage: eventpb.UsageToProto(x.Usage),
		SkillCalls: int32(min(x.SkillCalls, math.MaxInt32)),
	}
	if x.Ended != 0 {
		out.Ended = timestamppb.New(x.Updated)
	}
	for _, a := range x.Approvals {
		out.Approvals = append(out.Approvals, &meshv1.ApprovalAsked{Call: a.Call, Skill: a.Skill, Text: a.Text})
	}
	for _, l := range x.Tripped {
		out.Limits = append(out.Limits, eventpb.LimitToProto(l))
	}
	if len(x.Unsettled) > 0 {
		out.Unsettled = maps.Clone(x.Unsettled)
	}
	return out
}
