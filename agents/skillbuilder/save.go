package skillbuilder

import (
	"context"
	"errors"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// What is said when a session ends.
const (
	ready      = "Your skill is ready! "
	returning  = "Returning you to the main assistant."
	mayNot     = "Creating skills needs the role \"skill-author\", which you do not have. Ask the operator of the mesh for it."
	keptSoFar  = "No problem! I keep what we have so far. "
	keptNone   = "No problem! Nothing of it is kept. "
	gaveUp     = "I am sorry, I do not understand. I keep what we have so far. "
	unreadable = "I could not read what we had so far, so we begin anew."
)

// save saves the skill that the user has seen.
func (r *run) save(ctx context.Context, t talk) error {
	_, err := r.inv.Mesh.CreateSkill(ctx, t.Draft.Source, t.Draft.Replaces)
	switch mesh.CodeOf(err) {
	case mesh.Denied:
		return r.refuse(ctx)
	case mesh.Canceled, mesh.Timeout:
		if ctx.Err() != nil {
			return err
		}
	case mesh.Precondition:
		return r.taken(ctx, t, err)
	case mesh.Invalid: // by rules that it did not have when the file was written
		field, why := explained(err)
		return r.put(ctx, t.refused(strings.TrimPrefix(field, "source."), why))
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "a skill could not be saved", "skill", t.Draft.Name, "thread", r.inv.Thread, "err", err)
		t.Hint = "I could not save the skill: " + problem(err) + ". Nothing is lost; say “yes” to try again."
		return r.put(ctx, t)
	}
	return r.complete(ctx, t)
}

// taken handles a name that is taken: by this very skill, if it was saved but not heard of,
// or by another one, which came in between; and a skill that was changed by others since it
// was read. A yes that the mesh does not know of was said to something else.
func (r *run) taken(ctx context.Context, t talk, why error) error {
	there, err := r.inv.Mesh.Skill(ctx, t.Draft.Name)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return err
	}
	if there.GetSource() == t.Draft.Source {
		return r.complete(ctx, t)
	}
	if e := new(mesh.Error); errors.As(why, &e) && e.Reason == mesh.ReasonApproval {
		return r.put(ctx, t)
	}
	occupied := t.Draft.Name
	if t.Draft.Replaces != "" {
		t.Hint = "The skill " + t.Draft.Name + " was changed by somebody else, and this replaces that."
		if t.Draft.Replaces = there.GetVersion(); t.Draft.Replaces == "" {
			t.Hint = "The skill " + t.Draft.Name + " was deleted, so this is a new one."
		}
		occupied = ""
	}
	hint := t.Hint
	if t, err = r.write(ctx, t, occupied); err != nil {
		return err
	}
	t.Hint = strings.TrimSpace(hint + " " + t.Hint)
	return r.put(ctx, t)
}

// adopt ends the session with a skill that is there already.
func (r *run) adopt(ctx context.Context, t talk, name string) error {
	t.Draft = draft{Purpose: t.Draft.Purpose, Name: name, Used: true}
	return r.complete(ctx, t)
}

// revise goes on with the draft of a skill that is there already. One that was not written
// here is left alone: what it has besides would be lost.
func (r *run) revise(ctx context.Context, t talk, name string) error {
	there, err := r.inv.Mesh.Skill(ctx, name)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return err
	}
	d, ours := draftOf(there.GetSource())
	if !ours || !d.fits() {
		t.Hint = "The skill " + name + " was not written in such a conversation, and I cannot change it without losing something; change its file instead."
		return r.put(ctx, t)
	}
	d.Replaces = there.GetVersion()
	t.Draft = d
	if t, err = r.write(ctx, t, ""); err != nil {
		return err
	}
	t.Hint = "This is the skill as it is."
	return r.putAs(ctx, t)
}

func (r *run) complete(ctx context.Context, t talk) error {
	done := t.to(Complete)
	s, more := machine.Unpark(done.Session) // what was set aside goes first
	next := talk{Session: s}
	if !more {
		next, more = done.offer()
	}
	if !more {
		if err := r.keep(ctx, done); err != nil {
			return err
		}
		r.progress(done.Session)
		return r.finish(ctx, done)
	}
	if next.Draft.After != "" {
		next.Draft.After = done.Draft.outcome()
	}
	r.progress(done.Session)
	r.say(agent.Text{Text: done.Draft.outcome() + "\n\n"})
	return r.put(ctx, next)
}

// outcome is what became of the skill, in a sentence.
func (d draft) outcome() string {
	switch {
	case d.After != "":
		return d.After
	case d.Used:
		return "You can use the skill '" + d.Name + "', which was there already."
	case d.Replaces != "":
		return "Your skill '" + d.Name + "' is changed, and active as it is now."
	}
	return "Your skill '" + d.Name + "' is now active."
}

// finish tells that the skill is there, and gives control back.
func (r *run) finish(ctx context.Context, t talk) error {
	if !r.active {
		said := ready + "It is called " + t.Draft.Name + " and can be used at once."
		if t.Draft.Used || t.Draft.Replaces != "" {
			said = t.Draft.outcome()
		}
		r.say(agent.Text{Text: said})
		return nil
	}
	said := ready
	if t.Draft.Used {
		said = ""
	}
	r.say(agent.Text{Text: said + returning})
	return r.giveBack(ctx, mesh.HandoffCompleted, t.Draft.outcome())
}

// leave ends the session and keeps what there is (S4-046), unless the mesh drops it.
// said is what the user reads.
func (r *run) leave(ctx context.Context, t talk, said string) error {
	if t.Draft.After != "" {
		return r.decline(ctx, t)
	}
	if r.fleeting {
		r.say(agent.Text{Text: keptNone + returning})
		return r.giveBack(ctx, mesh.HandoffCancelled, t.Draft.unfinishedSkill()+" is not kept.")
	}
	t.Session = machine.Leave(t.Session)
	if err := r.keep(ctx, t); err != nil {
		return err
	}
	if !r.active {
		r.say(agent.Text{Text: said + "Write to me again when you want to continue."})
		return nil
	}
	r.say(agent.Text{Text: said + returning})
	return r.giveBack(ctx, mesh.HandoffCancelled, t.Draft.unfinishedSkill()+" is kept.")
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
