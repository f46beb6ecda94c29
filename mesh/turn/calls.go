package turn

import (
	"context"
	"errors"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// calls are what became of the skill calls of turns that are cut off, as far as they
// were read from the log.
type calls map[mesh.ExecutionID]readCalls

// A callCount says which calls of a turn a state knows: none was made or has come back
// since, as long as it is the same.
type callCount struct{ made, open int }

func countCalls(s *thread.State, turn mesh.ExecutionID) (n callCount) {
	for _, x := range s.Executions() {
		if t := s.TurnOf(x.ID); t != nil && t.ID == turn {
			n.made += x.SkillCalls
			n.open += len(x.Unsettled)
		}
	}
	return n
}

// readCalls are the calls of a turn, each in short.
type readCalls struct {
	callCount
	text.CallOutcomes
}

// unreadCalls is the error of a decision that depends on calls of which the log has
// more than was read.
type unreadCalls struct {
	turn         mesh.ExecutionID
	opened, tail mesh.Seq
	callCount
}

func (u unreadCalls) Error() string {
	return "calls of turn " + string(u.turn) + " have to be read first"
}

// decideEnd is decide for decisions by which turns may be cut off. A thread's state has
// no arguments of calls, and nobody else may use it while a decision is made: what is
// missing is read in between, and decided again.
func (d *driver) decideEnd(ctx context.Context, f func(*thread.State, *cache.Decision, calls) error) error {
	known := calls{}
	for {
		err := d.decide(ctx, func(s *thread.State, dec *cache.Decision) error { return f(s, dec, known) })
		var unread unreadCalls
		if !errors.As(err, &unread) {
			return err
		}
		if known[unread.turn], err = d.readCalls(ctx, unread); err != nil {
			return err
		}
	}
}

// readCalls reads the turn's calls.
func (d *driver) readCalls(ctx context.Context, u unreadCalls) (readCalls, error) {
	const page = 256
	var events []*mesh.Event
	for after := u.opened - 1; after < u.tail; {
		more, err := d.Log.Read(ctx, d.key, after, int(min(page, u.tail-after)))
		if err != nil {
			return readCalls{}, mesh.Wrap("turn.readCalls", err)
		}
		if len(more) == 0 {
			break
		}
		after = more[len(more)-1].Seq
		events = append(events, slices.DeleteFunc(more, isOutput)...) // which is most of it
	}
	return readCalls{u.callCount, outcomes(events, u.turn)}, nil
}

// outcomes says what became of the calls of the turn among the events.
func outcomes(events []*mesh.Event, turn mesh.ExecutionID) (out text.CallOutcomes) {
	for _, c := range thread.SkillCalls(events) {
		if c.Turn != turn {
			continue
		}
		switch c.Status {
		case thread.CallCompleted:
			out.Done = append(out.Done, mesh.CallSummary(c.Skill, c.Args))
		case thread.CallNotMade:
		case thread.CallFailed:
			out.Failed = append(out.Failed, mesh.CallSummary(c.Skill, c.Args))
		default:
			out.Unknown = append(out.Unknown, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out
}

func isOutput(e *mesh.Event) bool {
	_, ok := e.Body.(mesh.ArtifactAppended)
	return ok
}

// cutOff is how a turn ends that was interrupted. What happened is a clause for the
// user, who is told too what was done and what may have had its effect: to send
// the same message again could have it twice.
func (c calls) cutOff(s *thread.State, turn mesh.ExecutionID, what, reason string) (mesh.TaskMoved, error) {
	n := countCalls(s, turn)
	read := c[turn]
	if read.callCount != n {
		return mesh.TaskMoved{}, unreadCalls{turn: turn, opened: s.Turn(turn).Opened, tail: s.Seq, callCount: n}
	}
	return call.Failure(reason, text.Interrupted(what, read.CallOutcomes)), nil
}
