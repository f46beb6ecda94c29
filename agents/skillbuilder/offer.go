package skillbuilder

import (
	"context"
	"regexp"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/session"
)

// When a skill is done, what else the user wanted is offered while the session stands: as a session of
// its own that has not begun. A yes begins it, and a no ends it all.

// offer is the session in which the next wish of the one that is done is offered; false if
// there is none.
func (t talk) offer() (talk, bool) {
	if len(t.Later) == 0 {
		return t, false
	}
	s := machine.Begin(draft{Purpose: t.Later[0], After: t.Draft.outcome()})
	s.Parked, s.Later = t.Parked, t.Later[1:]
	return talk{Session: machine.Pause(s, "")}, true
}

// offering reports whether the user is asked whether to begin with what they wanted besides.
func (t talk) offering() bool { return t.Draft.After != "" && t.Waits == session.ForResume }

// begins are the words, beside a yes, by which the user begins with what is offered.
var begins = regexp.MustCompile(`^(?:(?:ok|yes|please|lets|let us|i want to|id like to|now|then) )*(?:begin|start|continue|go on|do)(?: (?:with|on))?(?: (?:it|that|this|that one|this one|the other one|the next one|the skill))?(?: (?:now|please|then))*$`)

// toTheOffer is what the text means to an offer; "" if that is not certain. Who names what is
// offered, and not that they do not want it, wants it.
func (t talk) toTheOffer(said, text string) session.Kind {
	names := strings.Contains(strings.ToLower(text), strings.ToLower(t.Draft.Purpose)) &&
		!has(plain(text), strings.Fields("no not dont never without instead later")) && !t.asks(text)
	switch {
	case isGreeting(text):
		return session.Back
	case isYes(text) || begins.MatchString(said) || names:
		return session.Yes
	case isNo(text):
		return session.No
	}
	return ""
}

// hearOffer is the transition of the machine where something is offered: a yes begins it, and a
// no leaves. What nobody can tell is asked about once more, and is no answer for a skill that
// has not begun.
func (t talk) hearOffer(in session.Input) (talk, session.Move) {
	var move session.Move
	switch in.Kind {
	case session.Yes, session.Finish:
		t.Session, move = machine.Hear(machine.Pause(t.Session, t.Draft.Purpose), session.Input{Kind: session.No})
		t.Draft.Purpose = move.Words
	case session.No:
		move = session.Move{Do: session.GoAway}
	case session.Answer, session.Unclear, session.Back:
		if t.Session, move = machine.Miss(t.Session); move.Do == session.Ask && in.Kind != session.Back {
			t.Hint = "I did not understand that."
		}
	default:
		t.Session, move = machine.Hear(t.Session, in)
		switch {
		case move.Do == session.Begin:
			t.Draft.Purpose = move.Words
		case t.Waits != session.ForResume && move.Do != session.GoAway:
			t.Draft.After = ""
		}
	}
	return t, move
}

// decline ends a session in which something was offered and is not wanted; the one before it has
// had its success.
func (r *run) decline(ctx context.Context, t talk) error {
	done := t.to(Complete)
	if err := r.keep(ctx, done); err != nil {
		return err
	}
	if !r.active {
		r.say(agent.Text{Text: "Good. Write to me again when you want another skill."})
		return nil
	}
	r.say(agent.Text{Text: "Good. " + returning})
	return r.giveBack(ctx, mesh.HandoffCompleted, t.Draft.After)
}
