package skillbuilder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// A run is one message of a session.
type run struct {
	*builder
	inv *agent.Invocation
	say func(agent.Output)
	// active says that the agent has the user's stream by a handoff, and fleeting that it
	// keeps nothing when that ends early.
	active, fleeting bool
	said             []agent.HistoryItem // before it took over
}

// What is said when a session ends.
const (
	ready      = "Your skill is ready! "
	returning  = "Returning you to the main assistant."
	mayNot     = "Creating skills needs the role \"skill-author\", which you do not have. Ask the operator of the mesh for it."
	keptSoFar  = "No problem! I keep what we have so far. "
	keptNone   = "No problem! Nothing of it is kept. "
	unreadable = "I could not read what we had so far, so we begin anew."
)

func (r *run) converse(ctx context.Context) error {
	var err error
	if r.active, r.fleeting, err = r.hasStream(ctx); err != nil {
		return err
	}
	if !r.inv.Grant.Has(mesh.CapCreateSkill) {
		return r.refuse(ctx)
	}
	s, err := r.load(ctx)
	if err != nil {
		return err
	}
	text := r.inv.Text()
	switch {
	case s.State == Complete && r.active && r.inv.Handoff == nil:
		return r.finish(ctx, s) // it was saved, but the end got lost
	case s.unfinished() && r.inv.Continued: // what the user said may have been heard before
		return r.follow(ctx, s, ask)
	case s.unfinished() && r.inv.Resumed:
		next, m := s.hear(text)
		return r.follow(ctx, next, m)
	case s.unfinished() && isCancel(text):
		return r.follow(ctx, s, cancel)
	case s.unfinished():
		return r.follow(ctx, s.pause(text), ask)
	}
	s = begin(r.purpose())
	r.say(agent.Text{Text: s.greeting()})
	return r.follow(ctx, s, ask)
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

// hasStream reports whether the conversation was handed over to this agent, and whether it
// is to keep nothing when the handoff ends early.
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

func (r *run) load(ctx context.Context) (session, error) {
	data, ok, err := r.inv.Mesh.Noted(ctx)
	if err != nil || !ok {
		return session{}, err
	}
	var s session
	if err := json.Unmarshal(data, &s); err != nil {
		r.Logger.WarnContext(ctx, "the noted state of a session cannot be read", "thread", r.inv.Thread, "err", err)
		r.say(agent.Progress{Text: unreadable})
		return session{}, nil
	}
	if again := r.inv.Handoff != nil && !r.inv.Continued; s.Fleeting && (again || !r.active) {
		return session{}, nil // it is of a handoff that has ended
	}
	return s, nil
}

func (r *run) keep(ctx context.Context, s session) error {
	s.Fleeting = r.fleeting
	data, err := json.Marshal(s)
	if err != nil {
		return mesh.Errorf(mesh.Unknown, "skillbuilder.keep", "", err)
	}
	return r.inv.Mesh.Note(ctx, data)
}

// progress tells at which step the session is (S4-035).
func (r *run) progress(s State) {
	n := s.number()
	r.say(agent.Progress{
		Text: fmt.Sprintf("Step %d of %d: %s", n, len(steps), s.title()), Step: n, Steps: len(steps), State: string(s),
	})
}

// follow does what the machine decided.
func (r *run) follow(ctx context.Context, s session, m move) error {
	switch m {
	case cancel:
		return r.leave(ctx, s)
	case save:
		return r.save(ctx, s)
	case generate:
		var err error
		if s, err = r.write(ctx, s, ""); err != nil {
			return err
		}
	case ask:
		r.progress(s.State)
	}
	if err := r.keep(ctx, s); err != nil {
		return err
	}
	return r.ask(ctx, s)
}

// ask puts the question of the state. Whether to save, the mesh asks: it creates the skill
// that the user has seen, and no other.
func (r *run) ask(ctx context.Context, s session) error {
	if s.Paused || s.State != Testing || s.Source == "" {
		r.say(agent.Ask{Text: s.question("")})
		return nil
	}
	q, err := r.inv.Mesh.AskToCreate(ctx, s.Source)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, "skillbuilder.ask", "The question could not be put; try again: %w", err)
	}
	text := s.question(q.Text)
	q.At, q.Size = strings.Index(text, q.Text), len(q.Text)
	r.say(agent.Ask{Text: text, Approval: true, Questions: []mesh.Question{q}})
	return nil
}

// write writes the skill and has the mesh check it. occupied is a
// name that is taken although no skill has it, or "".
func (r *run) write(ctx context.Context, s session, occupied string) (session, error) {
	r.progress(Generating)
	there, err := r.inv.Mesh.Skills(ctx)
	if err != nil {
		return s, err
	}
	s = s.unique(func(name string) bool {
		return name == occupied || slices.ContainsFunc(there, func(x *meshv1.Skill) bool { return x.GetName() == name })
	})
	s = s.written(r.inv.User, r.Now().Format("2006-01-02"))
	r.progress(Testing)
	if s.Source == "" {
		return s, nil
	}
	problems, err := r.inv.Mesh.ValidateSkill(ctx, s.Source)
	if err != nil {
		return s, mesh.Errorf(mesh.Unavailable, "skillbuilder.write", "The skill could not be checked; try again: %w", err)
	}
	if len(problems) > 0 {
		s.Source, s.Problem = "", problems[0].GetDetail()
	}
	return s, nil
}

// save saves the skill that the user has seen.
func (r *run) save(ctx context.Context, s session) error {
	_, err := r.inv.Mesh.CreateSkill(ctx, s.Source)
	switch mesh.CodeOf(err) {
	case mesh.Denied:
		return r.refuse(ctx)
	case mesh.Canceled, mesh.Timeout:
		if ctx.Err() != nil {
			return err
		}
	case mesh.Precondition:
		return r.taken(ctx, s, err)
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "a skill could not be saved", "skill", s.Name, "thread", r.inv.Thread, "err", err)
		s.Hint = "I could not save the skill: " + problem(err) + ". Nothing is lost; say “yes” to try again."
		return r.follow(ctx, s, ask)
	}
	return r.complete(ctx, s)
}

// taken handles a name that is taken: by this very skill, if it was saved but
// not heard of, or by another one, which came in between. A yes that the mesh does not
// know of was said to something else.
func (r *run) taken(ctx context.Context, s session, why error) error {
	there, err := r.inv.Mesh.Skill(ctx, s.Name)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return err
	}
	if there.GetSource() == s.Source {
		return r.complete(ctx, s)
	}
	if e := new(mesh.Error); errors.As(why, &e) && e.Reason == mesh.ReasonApproval {
		return r.follow(ctx, s, ask)
	}
	if s, err = r.write(ctx, s, s.Name); err != nil {
		return err
	}
	return r.follow(ctx, s, ask)
}

func (r *run) complete(ctx context.Context, s session) error {
	s.State = Complete
	if err := r.keep(ctx, s); err != nil {
		return err
	}
	r.progress(Complete)
	return r.finish(ctx, s)
}

// finish tells that the skill is there, and gives control back.
func (r *run) finish(ctx context.Context, s session) error {
	if !r.active {
		r.say(agent.Text{Text: ready + "It is called " + s.Name + " and can be used at once."})
		return nil
	}
	r.say(agent.Text{Text: ready + returning})
	return r.giveBack(ctx, mesh.HandoffCompleted, "Your skill '"+s.Name+"' is now active.")
}

// leave ends the session and keeps what there is (S4-046), unless nothing is to be kept.
func (r *run) leave(ctx context.Context, s session) error {
	if r.fleeting {
		if err := r.keep(ctx, session{}); err != nil {
			return err
		}
		r.say(agent.Text{Text: keptNone + returning})
		return r.giveBack(ctx, mesh.HandoffCancelled, s.unfinishedSkill()+" is not kept.")
	}
	s.Paused, s.Offer, s.Hint = false, "", ""
	if err := r.keep(ctx, s); err != nil {
		return err
	}
	if !r.active {
		r.say(agent.Text{Text: keptSoFar + "Write to me again when you want to continue."})
		return nil
	}
	r.say(agent.Text{Text: keptSoFar + returning})
	return r.giveBack(ctx, mesh.HandoffCancelled,
		s.unfinishedSkill()+" is kept.")
}

// refuse ends a session of a user who may not create skills.
func (r *run) refuse(ctx context.Context) error {
	if !r.active {
		return mesh.Errorf(mesh.Denied, "skillbuilder.refuse", "%s", mayNot)
	}
	r.say(agent.Text{Text: mayNot + " " + returning})
	return r.giveBack(ctx, mesh.HandoffError, mayNot)
}

// giveBack returns control. That somebody else did so already is as good.
func (r *run) giveBack(ctx context.Context, outcome mesh.HandoffOutcome, summary string) error {
	_, err := r.inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Outcome: string(outcome), Summary: summary})
	if mesh.IsCode(err, mesh.Precondition) {
		return nil
	}
	return err
}

// explained returns the field and detail of an error for the user.
func explained(err error) (field, detail string) {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e.Field, e.Detail
	}
	return "", ""
}
