package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
)

// ask is what the user is asked when the run is over; without text for nothing.
func (m *modelRun) ask(ctx context.Context) Ask {
	switch {
	case len(m.asks) > 0:
		return Ask{Text: Questions(m.asks), Approval: true}
	case m.trip != nil && m.Pause:
		done, _, err := m.inv.Mesh.actions(ctx)
		if err != nil {
			m.Logger.WarnContext(ctx, "what is done cannot be read for a report", "execution", m.inv.Execution, "err", err)
		}
		return Ask{Text: report(m.trip, done, m.open)}
	}
	return Ask{}
}

// report tells the user that a limit was met, what is done and what is open,
// and asks whether to go on (S3-042). A limit of the whole conversation says so,
// for going on takes time then, and not a word (S3-043).
func report(trip *llm.Trip, done, open []string) string {
	var b strings.Builder
	closing := "Would you like me to continue?"
	switch trip.Limit {
	case limit.ThreadSkillCalls, limit.UserSkillCalls:
		of := "This conversation has"
		if trip.Limit == limit.UserSkillCalls {
			of = "You have"
		}
		fmt.Fprintf(&b, "%s used all of the %d skill calls that are allowed within a few minutes.", of, trip.Most)
		when := "in a few minutes"
		if !trip.Free.IsZero() {
			when = "at " + trip.Free.UTC().Format("15:04:05 UTC")
		}
		closing = "There is room for more " + when + ". Would you like me to continue then? Answer \"yes\" when it is time."
	case llm.LimitSteps:
		fmt.Fprintf(&b, "I have taken the %d steps that I may take for one message.", trip.Most)
	default:
		fmt.Fprintf(&b, "I have used the %d skill calls that I may make for one message.", trip.Most)
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			b.WriteString("\n\n" + title + "\n- " + strings.Join(slices.Compact(slices.Clone(items)), "\n- "))
		}
	}
	list("Done so far:", done)
	list("Still open:", open)
	return b.String() + "\n\n" + closing
}

// guidance is what a model is told that goes on after a limit (S3-045).
func guidance(done []string) string {
	text := "You stopped because a limit was met, and the user wants you to continue. Review the conversation, continue where you left off, and do not repeat what is done."
	if len(done) > 0 {
		text += "\nDone already:\n- " + strings.Join(done, "\n- ")
	}
	return text
}

// settling is what a model is told whose calls waited for the user's word.
func settling(calls []string) string {
	return "The user was asked to allow these calls, and the user's last message is the answer. What came of them is in their results.\n- " +
		strings.Join(calls, "\n- ")
}
