package skillbuilder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/session"
)

// A run is one message of a session.
type run struct {
	*builder
	inv *agent.Invocation
	say func(agent.Output)
	// active says that the agent has the user's stream by a handoff, and fleeting that the
	// mesh keeps nothing when that ends early (preserve_state).
	active, fleeting bool
	said             []agent.HistoryItem // before it took over
}

func (r *run) converse(ctx context.Context) error {
	var err error
	if r.active, r.fleeting, err = r.hasStream(ctx); err != nil {
		return err
	}
	if !r.inv.Grant.Has(mesh.CapCreateSkill) {
		return r.refuse(ctx)
	}
	t, err := r.load(ctx)
	if err != nil {
		return err
	}
	unfinished := machine.Unfinished(t.Session)
	if !r.inv.GoesOn() {
		t.Draft.Passed = nil // who asked main is over
	}
	switch text := r.inv.Text(); {
	case machine.Done(t.Session) && r.within():
		return r.finish(ctx, t) // it was saved, but the end got lost
	case unfinished && t.Draft.Passed != nil:
		return r.goOn(ctx, t)
	case unfinished && r.inv.Continued: // what the user said may have been heard before
		return r.put(ctx, t)
	case unfinished && r.inv.Handoff.GetResume(): // that is what the user said
		t.Session = machine.Leave(t.Session)
		return r.put(ctx, t)
	case unfinished && (r.inv.Resumed || isCancel(text) || r.within()):
		return r.hear(ctx, t)
	case unfinished: // of a user who comes back
		other := purposeIn(text)
		if other == t.Draft.Purpose {
			other = ""
		}
		t.Session = machine.Pause(t.Session, other)
		return r.put(ctx, t)
	}
	return r.open(ctx, talk{Session: machine.Begin(draft{Purpose: r.purpose()})})
}

// within reports whether the message was sent in a session that had begun: it waited behind
// another one, and has a task of its own.
func (r *run) within() bool { return r.active && r.inv.Handoff == nil }

// hear finds out what the user's message is for, and does what the machine says.
func (r *run) hear(ctx context.Context, t talk) error {
	if t.Hint = tooLong(r.inv.Text()); t.Hint != "" {
		return r.put(ctx, t)
	}
	in := r.listen(ctx, t)
	if err := ctx.Err(); err != nil {
		return err
	}
	t, move := t.hear(in.Input)
	switch move.Do {
	case session.Take:
		next, what, name := talk{}, missed, ""
		if in.fields != nil && len(t.Draft.Similar) == 0 && in.Kind == session.Answer {
			next, what = t.fill(in.fields)
		} else {
			next, what, name = t.take(move.Words)
		}
		if !next.Draft.fits() {
			t.Hint = "That would be more than one skill can hold, so nothing of it was taken. Please say it in fewer words."
			return r.put(ctx, t)
		}
		return r.took(ctx, next, what, name)
	case session.Explain:
		t.Hint = cmp.Or(in.reply, t.explanation())
	case session.Pass:
		return r.pass(ctx, t, move.Words)
	case session.Begin:
		return r.open(ctx, t)
	case session.GoAway:
		return r.leave(ctx, t, keptSoFar)
	case session.GiveUp:
		return r.leave(ctx, t, gaveUp)
	}
	return r.put(ctx, t)
}

// maxSaid bounds one message, in bytes: what is said is kept, with the session.
const maxSaid = 8 << 10

// tooLong is what is said to a message that is longer than that, with what was said before it
// on the same; and "" to any other.
func tooLong(text string, before ...string) string {
	size := len(text) + len(strings.Join(before, ""))
	if size <= maxSaid {
		return ""
	}
	return fmt.Sprintf("That is %d bytes long, and I take at most %d. Nothing of it was taken, and what we have so far stands; please say it in fewer words.", size, maxSaid)
}

// took goes on with what became of an answer.
func (r *run) took(ctx context.Context, t talk, what outcome, name string) error {
	switch what {
	case missed:
		next, move := machine.Miss(t.Session)
		if t.Session = next; move.Do == session.GiveUp {
			return r.leave(ctx, t, gaveUp)
		}
	case found:
		return r.look(ctx, t)
	case generate:
		return r.generate(ctx, t)
	case save:
		return r.save(ctx, t)
	case adopt:
		return r.adopt(ctx, t, name)
	case revise:
		return r.revise(ctx, t, name)
	}
	return r.put(ctx, t)
}

// open greets, and begins the session.
func (r *run) open(ctx context.Context, t talk) error {
	r.say(agent.Text{Text: t.Draft.greeting()})
	return r.look(ctx, t)
}

// look finds skills that may do what the user wants, once that is known, before the
// question of the step is put.
func (r *run) look(ctx context.Context, t talk) error {
	if t.Draft.Purpose != "" {
		there, err := r.inv.Mesh.Skills(ctx)
		if err != nil {
			return err
		}
		t.Draft.Similar = alike(t.Draft.Purpose, there)
	}
	return r.put(ctx, t)
}

// put keeps the session and puts its question.
func (r *run) put(ctx context.Context, t talk) error {
	if !t.offering() { // which has not begun
		r.progress(t.Session)
	}
	return r.putAs(ctx, t)
}

func (r *run) putAs(ctx context.Context, t talk) error {
	if err := r.keep(ctx, t); err != nil {
		return err
	}
	return r.ask(ctx, t)
}

// generate writes the skill and has it checked, and shows it.
func (r *run) generate(ctx context.Context, t talk) error {
	t, err := r.write(ctx, t, "")
	if err != nil {
		return err
	}
	if t.Step != Testing {
		return r.put(ctx, t)
	}
	if t, err = r.try(ctx, t); err != nil {
		return err
	}
	return r.putAs(ctx, t)
}

// purpose finds out what the skill is to do from all that the agent was given,
// so that the user need not repeat it (S4-037).
func (r *run) purpose() string {
	said := []string{r.inv.Text(), r.inv.Handoff.GetContextSummary()}
	for _, item := range slices.Backward(r.said) {
		if item.Role == agent.RoleUser {
			said = append(said, item.Text)
		}
	}
	for _, text := range said {
		if p := purposeIn(text); p != "" {
			return p
		}
	}
	return ""
}

// lastSaid is how many of the last things said may say what the skill is to do.
const lastSaid = 6

// hasStream reports whether the conversation was handed over to this agent, and whether
// nothing is kept when the handoff ends early.
func (r *run) hasStream(ctx context.Context) (active, fleeting bool, err error) {
	h, err := r.inv.Mesh.Handoff(ctx)
	if err != nil {
		return false, false, mesh.Errorf(mesh.Unavailable, "skillbuilder.hasStream", "The mesh cannot be reached; try again: %w", err)
	}
	if r.inv.Handoff != nil {
		if r.said, err = r.inv.Mesh.History(ctx, lastSaid); err != nil {
			return false, false, mesh.Errorf(mesh.Unavailable, "skillbuilder.hasStream", "What was said before cannot be read; try again: %w", err)
		}
	}
	active = r.inv.Grant.Direct() && mesh.HandoffState(h.GetState()).Stands() && h.GetTargetAgentId() == r.inv.Grant.Agent
	return active, active && !h.GetPreserveState(), nil
}

func (r *run) load(ctx context.Context) (talk, error) {
	data, ok, err := r.inv.Mesh.Noted(ctx)
	if err != nil || !ok {
		return talk{}, err
	}
	s, err := machine.Decode(data)
	if err != nil {
		r.Logger.WarnContext(ctx, "the noted state of a session cannot be read", "thread", r.inv.Thread, "err", err)
		r.say(agent.Progress{Text: unreadable})
		return talk{}, nil
	}
	return talk{Session: s}, nil
}

func (r *run) keep(ctx context.Context, t talk) error {
	data, err := machine.Encode(t.Session)
	if err != nil {
		return err
	}
	return r.inv.Mesh.Note(ctx, data)
}

// progress tells at which step the session is (S4-035).
func (r *run) progress(s session.Session[draft]) {
	n, of := machine.Progress(s)
	r.say(agent.Progress{
		Text: fmt.Sprintf("Step %d of %d: %s", n, of, strings.ReplaceAll(s.Step, "_", " ")), Step: n, Steps: of, State: s.Step,
	})
}

// ask puts the question of the session. Whether to save, the mesh asks: it creates the skill
// that the user has seen, and no other.
func (r *run) ask(ctx context.Context, t talk) error {
	if t.Waits != session.ForAnswer || t.Step != Testing || t.Draft.Source == "" {
		r.say(agent.Ask{Text: t.question("")})
		return nil
	}
	q, err := r.inv.Mesh.AskToCreate(ctx, t.Draft.Source, t.Draft.Replaces)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, "skillbuilder.ask", "The question could not be put; try again: %w", err)
	}
	text := t.question(q.Text)
	q.At, q.Size = strings.Index(text, q.Text), len(q.Text)
	r.say(agent.Ask{Text: text, Approval: true, Questions: []mesh.Question{q}})
	return nil
}

// write writes the skill and has the mesh check it. occupied is a
// name that is taken although no skill has it, or "".
func (r *run) write(ctx context.Context, t talk, occupied string) (talk, error) {
	if t.Step != Generating {
		t = t.to(Generating)
	}
	r.progress(t.Session)
	if t.Draft.Replaces == "" {
		there, err := r.inv.Mesh.Skills(ctx)
		if err != nil {
			return t, err
		}
		t = t.unique(func(name string) bool {
			return name == occupied || slices.ContainsFunc(there, func(x *meshv1.Skill) bool { return x.GetName() == name })
		})
	}
	t = t.written(r.inv.User, r.Now().Format("2006-01-02"))
	if t.Draft.Source == "" {
		return t, nil
	}
	r.progress(t.Session)
	problems, err := r.inv.Mesh.ValidateSkill(ctx, t.Draft.Source)
	if err != nil {
		return t, mesh.Errorf(mesh.Unavailable, "skillbuilder.write", "The skill could not be checked; try again: %w", err)
	}
	if len(problems) > 0 {
		t = t.refused(problems[0].GetField(), problems[0].GetDetail())
	}
	return t, nil
}

// explained returns the field and detail of an error for the user.
func explained(err error) (field, detail string) {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e.Field, e.Detail
	}
	return "", ""
}
