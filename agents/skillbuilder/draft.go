package skillbuilder

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/session"
	"agentmesh/mesh/skill"
)

// The steps of a session (S4-040). The values are those on the card.
const (
	Gathering  = "gathering_requirements"
	Triggers   = "defining_triggers"
	Generating = "generating"
	Testing    = "testing"
	Complete   = "complete"
)

// machine is what sessions go through. Writing and testing lead back to where the cause of
// a problem was said.
var machine = must(session.New[draft](
	session.Step{Name: Gathering, Next: []string{Triggers, Generating, Testing, Complete}},
	session.Step{Name: Triggers, Next: []string{Gathering, Generating}},
	session.Step{Name: Generating, Next: []string{Testing, Triggers, Gathering}},
	session.Step{Name: Testing, Next: []string{Generating, Triggers, Gathering, Complete}},
	session.Step{Name: Complete}))

func must[T any](v T, err error) T {
	if err != nil {
		panic("skillbuilder: " + err.Error()) // the steps are constants
	}
	return v
}

// A draft is all that is known of the skill that is being built.
type draft struct {
	// Purpose is what the skill does, as "sends Slack alerts".
	Purpose string            `json:"purpose,omitempty"`
	Steps   []string          `json:"steps,omitempty"`
	Inputs  []skill.Parameter `json:"inputs,omitempty"`
	// Name is "domain.action".
	Name     string   `json:"name,omitempty"`
	Triggers []string `json:"triggers,omitempty"`
	// Confirm is what the user is asked before each call, or "", and Approval
	// says that they are asked, with or without it.
	Confirm  string `json:"confirm,omitempty"`
	Approval bool   `json:"approval,omitempty"`
	// Source is the file that was shown, and Problem why there is none.
	Source  string `json:"source,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Trial is what came of running that file once without effect, or "".
	Trial string `json:"trial,omitempty"`
	// Similar are skills that may do the same, by name: the user is asked about them.
	Similar []similar `json:"similar,omitempty"`
	// Replaces is the version of the skill of that name that is being changed, or "", and
	// Author and Created are those of that skill.
	Replaces string `json:"replaces,omitempty"`
	Author   string `json:"author,omitempty"`
	Created  string `json:"created,omitempty"`
	// Used says that the session ended with a skill that was there already.
	Used bool `json:"used,omitempty"`
	// After is what became of the skill before this one, which is offered and has not begun:
	// see offering.
	After string `json:"after,omitempty"`
	// Passed is what main was asked and did not answer yet.
	Passed *passed `json:"passed,omitempty"`
}

// maxDraft bounds what the user said of one skill, in bytes of its JSON form: with those that
// are set aside it must not be more than an agent may keep (mesh.MaxState).
const maxDraft = 6 << 10

// fits reports whether what was said of the skill is within the bound. What is written from it
// grows with it.
func (d draft) fits() bool {
	d.Source, d.Trial, d.Similar, d.Passed = "", "", nil, nil
	data, err := json.Marshal(d)
	return err == nil && len(data) <= maxDraft
}

// A talk is a session with what is said before its question is put.
type talk struct {
	session.Session[draft]
	Hint string
}

// begin starts a session for a skill with the purpose, which may be "".
func begin(purpose string) talk {
	return talk{Session: machine.Begin(draft{Purpose: purpose})}
}

// to moves the session to the step.
func (t talk) to(step string) talk {
	t.Session = must(machine.Go(t.Session, step)) // the machine has all moves that the code makes
	return t
}

// hear is the transition of the machine, with what it has to be told of the draft.
func (t talk) hear(in session.Input) (talk, session.Move) {
	if t.Hint = ""; t.offering() {
		return t.hearOffer(in)
	}
	next, move := machine.Hear(t.Session, in)
	t.Session = next
	if move.Do == session.Begin {
		t.Draft.Purpose = move.Words
	}
	if move.Do == session.Ask && in.Kind == session.Unclear && t.Waits != session.ForMeant {
		t.Hint = "I did not understand that."
	}
	return t, move
}

// An outcome is what becomes of an answer.
type outcome int

const (
	missed   outcome = iota // it was not understood; Hint says so
	noted                   // the question of the step is put
	found                   // the purpose is known now
	generate                // the skill is written and checked
	save                    // what was shown is saved
	adopt                   // the skill that is there already is used
	revise                  // the skill that is there already is changed
)

// take takes an answer into the draft. For adopt and revise, name is the skill's.
func (t talk) take(text string) (next talk, what outcome, name string) {
	switch {
	case len(t.Draft.Similar) > 0:
		return t.takeSimilar(text)
	case t.Step == Triggers:
		t, what = t.takeTriggers(text)
	case t.Step == Generating || t.Step == Testing:
		t, what = t.takeReview(text)
	default:
		t, what = t.takeRequirements(text)
	}
	return t, what, ""
}

func (t talk) takeRequirements(text string) (talk, outcome) {
	d := &t.Draft
	if d.Purpose == "" {
		if m := aboutPattern.FindStringSubmatch(text); m != nil {
			text = m[1]
		}
		if d.Purpose = purposeOf(text); d.Purpose == "" {
			t.Hint = "I need at least one sentence about what the skill does."
			return t, missed
		}
		d.Problem = ""
		return t.to(Gathering), found
	}
	if isNo(text) {
		t.Hint = "Then tell me how it works, or what it needs to know."
		return t, missed
	}
	if next, ok := t.aside(text); ok {
		return next, noted
	}
	d.Problem = ""
	text = d.approval(text)
	if !isDefault(text) && phrase(text) != "" {
		d.Steps, d.Inputs = details(text)
	}
	return t.suggest().to(Triggers), noted
}

// suggest fills in what the user left to us, of what the next question is about.
func (t talk) suggest() talk {
	d := &t.Draft
	if len(d.Inputs) == 0 {
		d.Inputs = usualInputs(d.Purpose)
	}
	if d.Name == "" {
		d.Name = nameFor(d.Purpose)
	}
	if len(d.Triggers) == 0 {
		d.Triggers = triggersFor(d.Purpose)
	}
	return t
}

// aside takes an answer that is about other parts of the skill than the step asks for; the
// step is still to be answered.
func (t talk) aside(text string) (talk, bool) {
	was := t.Draft
	if was.Name == "" {
		was.Name = nameFor(was.Purpose) // for the domain
	}
	changed, _ := was.edit(text)
	asked := changed.Name != was.Name || !slices.Equal(changed.Triggers, was.Triggers)
	if t.Step == Gathering {
		asked = changed.Approval != was.Approval || !slices.Equal(changed.Steps, was.Steps) || !reflect.DeepEqual(changed.Inputs, was.Inputs)
	}
	if asked || reflect.DeepEqual(changed, was) {
		return t, false
	}
	t.Draft = changed
	return t.to(t.Step), true
}

func (t talk) takeTriggers(text string) (talk, outcome) {
	if isNo(text) {
		t.Hint = "Then tell me another name, or other phrases."
		return t, missed
	}
	if next, ok := t.aside(text); ok || saysApproval(text) {
		return next, noted
	}
	t.Draft.Problem = ""
	if !isDefault(text) {
		if _, other := new(draft).hearApproval(text); other != "" && other != strings.TrimSpace(text) {
			t.Draft.approval(text)
			text = other
		}
		name, triggers := naming(text)
		if name == "" && len(triggers) == 0 {
			t.Hint = "I did not understand that."
			return t, missed
		}
		t.Draft = t.Draft.called(name)
		if len(triggers) > 0 {
			t.Draft.Triggers = triggers
		}
	}
	return t.to(Generating), generate
}

// called gives the skill the name, if there is one: with or without a domain.
func (d draft) called(name string) draft {
	if name == "" {
		return d
	}
	if !strings.Contains(name, ".") {
		domain, _, _ := strings.Cut(d.Name, ".")
		name = domain + "." + name
	}
	d.Name = name
	return d
}

func (t talk) takeReview(text string) (talk, outcome) {
	if isYes(text) || isDefault(text) {
		if t.Draft.Source == "" {
			return t.to(Generating), generate
		}
		if mesh.AnswerOf(text) != mesh.AnswerYes { // the mesh believes nothing else
			t.Hint = "Say “yes” to save it."
			return t, missed
		}
		return t.to(t.Step), save
	}
	if isNo(text) {
		t.Hint = "What should be different?"
		return t.to(t.Step), noted
	}
	changed, ok := t.Draft.edit(text)
	if !ok {
		t.Hint = "I did not understand that."
		return t, missed
	}
	return t.changed(changed)
}

// changed has the skill written anew. One that is being changed keeps its name.
func (t talk) changed(d draft) (talk, outcome) {
	if t.Draft.Replaces != "" && d.Name != t.Draft.Name {
		t.Hint = "A skill keeps its name when it is changed; begin a new one for another name."
		return t, missed
	}
	t.Draft = d
	if t.Step != Generating {
		t = t.to(Generating)
	}
	return t, generate
}
