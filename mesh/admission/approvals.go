package admission

import (
	"encoding/json"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"
)

// mayCreate refuses to ask, or to act, for agents that may create no skills.
func (w *ruling) mayCreate(i int) error {
	if t := w.st.TurnOf(w.mine.ID); !w.grant.Has(mesh.CapCreateSkill) || t == nil || !mesh.Allow(t.Roles, mesh.ActCreateSkill) {
		return w.refuse(i, "this agent may create no skills for this user")
	}
	return nil
}

// version is that of the skill as the mesh has it, or "".
func (w *ruling) version(name string) string {
	if s, ok := w.skill(name); ok {
		return s.Version
	}
	return ""
}

// approved reports whether nobody has to approve the call, or the user has: this call, of
// that version and with those arguments, once. Who made the call in a message of their own
// has approved it.
func (w *ruling) approved(b mesh.SkillCalled) bool {
	s, ok := w.skill(b.Skill)
	acts := b.Skill == mesh.CallCreateSkill
	if !acts && (!ok || !s.Asks()) {
		return true
	}
	if w.away.called[b.Call] {
		return false
	}
	of := thread.ApprovedBy(b)
	said := w.mine.Approved[of]
	if w.answers[of] { // by this request
		said = w.mine.Approval(of).What
	}
	if said == mesh.CallDigest(b.Skill, b.Version, b.Args) {
		return true
	}
	c := w.mine.Requested
	switch {
	case c == nil || c.Skill != b.Skill:
		return false
	case acts:
		args, err := json.Marshal(c.Arguments)
		return err == nil && string(args) == b.Args
	}
	return s.Same(c.Arguments, b.Args)
}

// checkAsked checks that the call may be asked about. What the user is asked is not the
// agent's to say: of what the mesh knows, it has the words, which come from what is asked
// about, so that nobody is shown one thing and approves another.
func (w *ruling) checkAsked(i int, e *mesh.Event, b mesh.ApprovalAsked) error {
	if err := w.mayCall(i, b.Skill); err != nil {
		return err
	}
	if w.st.Seen(e.ID) {
		return nil
	}
	if err := w.phrase(i, &b); err != nil {
		return err
	}
	e.Body = b
	err := w.bounded(i, "approval_asked", span{"call", b.Call, 1, maxName}, span{"skill", b.Skill, 1, maxName},
		span{"args", b.Args, 0, mesh.MaxResult}, span{"text", b.Text, 1, mesh.MaxResult}, span{"version", b.Version, 0, maxName})
	if err != nil {
		return err
	}
	mine := w.mine
	if n := len(mine.Approvals) + len(w.away.asked); mine.Approval(b.Call) == nil && n >= thread.MaxApprovals {
		return mesh.Errorf(mesh.Exhausted, w.op, "%d calls wait for the user's word already; settle those first", n)
	}
	return nil
}

// phrase gives the question its words, and the version that it is about.
func (w *ruling) phrase(i int, b *mesh.ApprovalAsked) (err error) {
	field := fmt.Sprintf("events[%d].approval_asked.", i)
	if b.Skill == mesh.CallCreateSkill {
		var args struct {
			Source   string `json:"source"`
			Replaces string `json:"replaces"`
		}
		if err := json.Unmarshal([]byte(b.Args), &args); err != nil || b.Args != mesh.ReplaceSkillArgs(args.Source, args.Replaces) {
			return mesh.InvalidField(w.op, field+"args", `must be {"source":TEXT} with the file of the skill, or {"replaces":VERSION,"source":TEXT}, without spaces`)
		}
		b.Version = ""
		b.Text, err = skill.CreateQuestion(args.Source, args.Replaces != "")
		return mesh.Wrap(w.op, err)
	}
	s, ok := w.skill(b.Skill)
	if !ok || !s.Asks() {
		return nil
	}
	if b.Version == "" {
		b.Version = s.Version
	}
	if b.Version != s.Version {
		return &mesh.Error{Code: mesh.Precondition, Op: w.op, Field: field + "version", Detail: "is not that of the skill any more, which has changed; look it up again"}
	}
	if b.Text, err = s.Question(b.Args); err != nil {
		return mesh.InvalidField(w.op, field+"args", "must be a JSON object")
	}
	return nil
}

// checkSettled checks that the user was asked and, for a yes, was shown the question and
// has said yes to it since: no agent approves its own calls, and none between it and the
// user has them approved by another question.
func (w *ruling) checkSettled(i int, e *mesh.Event, b mesh.ApprovalSettled) error {
	err := w.bounded(i, "approval_settled", span{"call", b.Call, 1, maxName}, span{"text", b.Text, 0, mesh.MaxResult})
	if err != nil || w.st.Seen(e.ID) {
		return err
	}
	asked := w.mine.Approval(b.Call)
	if asked == nil || w.away.answered[b.Call] {
		return unsaid(w.op, "the call %q does not wait for the user's word; ask for it first", b.Call)
	}
	if b.Approved && asked.Answer != mesh.AnswerYes {
		return unsaid(w.op, "the user has not said yes; the call %q can be approved by a plain yes after the turn has shown its question to the user", b.Call)
	}
	w.answers[b.Call] = b.Approved
	return nil
}

// unsaid refuses a word on the call that the user has not given.
func unsaid(op, format, call string) error {
	e := mesh.Errorf(mesh.Precondition, op, format, clip(call))
	e.Forbidden = true
	return e
}
