package skilltools

import (
	"context"
	"encoding/json"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// approver asks the user before calls that need it. What was asked and answered
// is in the log, so that the answer finds its call again, whichever process
// goes on with the execution. An answer counts for the question and the arguments
// that the user was shown, and for no others: a skill that asks something else
// meanwhile asks anew, and so does another version of the skill: what is done may be
// something else although it is asked about in the same words.
type approver struct{ tools *Tools }

// maxAnswered bounds what is kept of an answer, in bytes.
const maxAnswered = 400

// Approve implements [skill.Approver].
func (a approver) Approve(ctx context.Context, s *skill.Skill, call *skill.Call) (v skill.Verdict, ask string, err error) {
	const op = "skilltools.Approve"
	if c := a.tools.asked; c != nil && c.Approved && call.ID == runCall && call.Source == c.Source && call.Effect == nil {
		return skill.Approved, "", nil
	}
	want, err := asking(s, call)
	if err != nil {
		return skill.Refused, "", mesh.Wrap(op, err)
	}
	record := a.tools.inv.Mesh
	did, err := record.Actions(ctx)
	if err != nil {
		return skill.Refused, "", mesh.Wrap(op, err)
	}
	known, answer := did.Approval(call.ID), did.Answer(call.ID)
	switch {
	case known == nil || !wasAsked(known, want):
		if _, err := record.Record(ctx, &mesh.Event{Body: want}); err != nil {
			return skill.Refused, "", mesh.Wrap(op, err)
		}
		if did, err = record.Actions(ctx); err != nil { // the mesh has put it in its own words
			return skill.Refused, "", mesh.Wrap(op, err)
		}
		if known = did.Approval(call.ID); known != nil {
			want = known.ApprovalAsked
		}
		return skill.Wait, want.Text, nil
	case known.Word != nil:
		return word(known.Word.Approved, known.Word.Text)
	case answer == "":
		return skill.Wait, known.Text, nil
	}
	approved := mesh.AnswerOf(answer) == mesh.AnswerYes
	answer = mesh.Clip(answer, maxAnswered)
	if _, err := record.Record(ctx, &mesh.Event{Body: mesh.ApprovalSettled{Call: call.ID, Approved: approved, Text: answer}}); err != nil {
		return skill.Refused, "", mesh.Wrap(op, err)
	}
	return word(approved, answer)
}

// asking is what the user is asked about the call: what it has the mesh do, if that is
// something, and else the call.
func asking(s *skill.Skill, call *skill.Call) (mesh.ApprovalAsked, error) {
	if f := call.Effect; f != nil {
		return mesh.ApprovalAsked{Call: call.ID, Skill: f.Name, Args: f.Args}, nil
	}
	data, err := json.Marshal(call.Args)
	if err != nil {
		return mesh.ApprovalAsked{}, mesh.InvalidField("skilltools.asking", "arguments", "have no JSON form")
	}
	return mesh.ApprovalAsked{Call: call.ID, Skill: s.Name, Args: string(data), Text: skill.Question(s, call), Version: s.Version}, nil
}

// word is what the user's answer says of the call. What is not a plain yes is
// told to the model, which may find out what the user wants instead.
func word(approved bool, answer string) (v skill.Verdict, ask string, err error) {
	if approved {
		return skill.Approved, "", nil
	}
	return skill.Refused, "", &mesh.Error{Code: mesh.Denied, Op: "skilltools.Approve", Reason: mesh.ReasonDeclined,
		Detail: text.RefusedBy(strings.Join(strings.Fields(answer), " "))}
}

// wasAsked reports whether the user was asked just this, about that version of the
// skill. A log that does not tell the version counts as one of the same.
func wasAsked(a *thread.CallApproval, want mesh.ApprovalAsked) bool {
	same := a.Version == want.Version
	if want.Text != "" && (a.Version == "" || want.Version == "") {
		same = a.Text == want.Text
	}
	return a.Skill == want.Skill && a.Args == want.Args && same
}
