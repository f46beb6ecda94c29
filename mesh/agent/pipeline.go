package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// run sends a call through the executor, whatever face it came from.
func (t *SkillTools) run(ctx context.Context, call *skill.Call) llm.ToolResult {
	r := t.executor.Execute(ctx, call, t.env)
	out := llm.ToolResult{Text: r.Content, Failed: r.Failed(), Ask: r.Ask}
	if call.Source == mesh.SourceCommand && r.Metadata["requires_interpretation"] != true {
		out.Text = command.Defuse(out.Text) // of a template, the blocks are meant
	}
	if trip := limit.TripOf(r.Err); trip != nil {
		out.Trip = &llm.Trip{Limit: trip.Limit, Used: trip.Used, Most: trip.Most, Detail: trip.Detail(), Free: trip.Free}
		// What to do about it is the loop's to say: results get into reports.
		out.Text = text.CallFailed(call.Skill, trip.Text())
	}
	out.Cause, out.Metadata = cause(r.Err, t.Settles(call.ID)), metadata(r)
	return out
}

// cause is why a call came to nothing. Of one that was made, what the skill says
// is not the mesh's to judge.
func cause(err error, made bool) mesh.Cause {
	var e *mesh.Error
	switch code := mesh.CodeOf(err); {
	case err == nil:
	case code == mesh.Timeout:
		return mesh.CauseTimeout
	case made:
	case limit.TripOf(err) != nil:
		return mesh.CauseLimit
	case errors.As(err, &e) && e.Reason == mesh.ReasonDeclined:
		return mesh.CauseRefused
	case code == mesh.Invalid:
		return mesh.CauseInvalid
	case code == mesh.NotFound, code == mesh.Denied:
		return mesh.CauseMissing
	case code == mesh.Unavailable:
		return mesh.CauseUnavailable
	}
	return ""
}

// runCall is the id of the one call of an execution that runs a skill without a
// model: the same one when the execution goes on.
const runCall = "run"

// Take implements [skill.Budget]: the agent's own limit of calls. Those of the
// turn, the thread and the user the mesh keeps.
func (t *SkillTools) Take(ctx context.Context, _ string) error {
	if t.most == Unlimited {
		return nil
	}
	t.mu.Lock()
	used, first := t.used, !t.tripped
	if used < t.most {
		t.used++
		t.mu.Unlock()
		return nil
	}
	t.tripped = true
	t.mu.Unlock()
	trip := &limit.Trip{Limit: limit.AgentToolCalls, Used: int64(used), Most: int64(t.most)}
	if first {
		if _, err := t.inv.Mesh.Record(ctx, &mesh.Event{Body: trip.Fact()}); err != nil { // it holds all the same
			t.logger.WarnContext(ctx, "the trip of a limit could not be recorded", "limit", trip.Limit, "err", err)
		}
	}
	return trip.Err("agent.Take")
}

// Begin implements [skill.Journal]: a call whose intent cannot be recorded does
// not happen. A call whose intent is in the log, but not what came of it, keeps
// its key: if it had its effect, it has no second one.
func (t *SkillTools) Begin(ctx context.Context, s *skill.Skill, call *skill.Call) (key string, err error) {
	args, err := json.Marshal(call.Args)
	if err != nil {
		return "", mesh.InvalidField("agent.Begin", "arguments", "have no JSON form")
	}
	if key := t.inv.Mesh.unsettled(call, string(args)); key != "" {
		return key, nil
	}
	intent := &mesh.Event{ID: mesh.NewEventID(), Body: mesh.SkillCalled{
		Call: call.ID, Skill: call.Skill, Args: string(args), Source: call.Source, Version: s.Version,
	}}
	if _, err := t.inv.Mesh.Record(ctx, intent); err != nil {
		return "", mesh.Wrap("agent.Begin", err)
	}
	return intent.ID, nil
}

// End implements [skill.Journal].
func (t *SkillTools) End(ctx context.Context, call *skill.Call, r *skill.Result, took time.Duration) {
	_, err := t.inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillReturned{
		Call: call.ID, Failed: r.Failed(), Content: clipText(r.Content), Files: r.Files, Duration: took, Metadata: metadata(r),
	}})
	if err != nil { // it did happen: the model must know what came of it
		t.logger.WarnContext(ctx, "the end of a skill call could not be recorded", "skill", call.Skill, "err", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recorded[call.ID] = true
}

// metadata is what the result says for programs, as JSON.
func metadata(r *skill.Result) string {
	data, err := json.Marshal(r.Metadata)
	if len(r.Metadata) == 0 || err != nil {
		return ""
	}
	return string(data)
}

// Settles implements [Settler].
func (t *SkillTools) Settles(call string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recorded[call]
}

// Wait returns when no handler is running any more, also none that was given
// up for being late. Whoever made the tools calls it when the run is over.
func (t *SkillTools) Wait() { t.executor.Wait() }

// approver asks the user before calls that need it. What was asked and answered
// is in the log, so that the answer finds its call again, whichever process
// goes on with the execution. An answer counts for the question and the arguments
// that the user was shown, and for no others: a skill that asks something else
// meanwhile asks anew, and so does another version of the skill: what is done may be
// something else although it is asked about in the same words.
type approver struct{ tools *SkillTools }

// maxAnswered bounds what is kept of an answer, in bytes.
const maxAnswered = 400

// Approve implements [skill.Approver].
func (a approver) Approve(ctx context.Context, s *skill.Skill, call *skill.Call) (v skill.Verdict, ask string, err error) {
	if c := a.tools.asked; c != nil && c.Approved && call.ID == runCall && call.Source == c.Source {
		return skill.Approved, "", nil
	}
	data, err := json.Marshal(call.Args)
	if err != nil {
		return skill.Refused, "", mesh.InvalidField("agent.Approve", "arguments", "have no JSON form")
	}
	record := a.tools.inv.Mesh
	known, answer, err := record.approval(ctx, call.ID)
	switch args, question := string(data), skill.Question(s, call); {
	case err != nil:
		return skill.Refused, "", err
	case known == nil || !wasAsked(known, s, args, question):
		_, err := record.Record(ctx, &mesh.Event{Body: mesh.ApprovalAsked{Call: call.ID, Skill: s.Name, Args: args, Text: question, Version: s.Version}})
		if err != nil {
			return skill.Refused, "", mesh.Wrap("agent.Approve", err)
		}
		return skill.Wait, question, nil
	case known.Word != nil:
		return word(known.Word.Approved, known.Word.Text)
	case answer == "":
		return skill.Wait, known.Text, nil
	}
	approved := mesh.AnswerOf(answer) == mesh.AnswerYes
	answer = mesh.Clip(answer, maxAnswered)
	if _, err := record.Record(ctx, &mesh.Event{Body: mesh.ApprovalSettled{Call: call.ID, Approved: approved, Text: answer}}); err != nil {
		return skill.Refused, "", mesh.Wrap("agent.Approve", err)
	}
	return word(approved, answer)
}

// word is what the user's answer says of the call. What is not a plain yes is
// told to the model, which may find out what the user wants instead.
func word(approved bool, answer string) (v skill.Verdict, ask string, err error) {
	if approved {
		return skill.Approved, "", nil
	}
	return skill.Refused, "", &mesh.Error{Code: mesh.Denied, Op: "agent.Approve", Reason: mesh.ReasonDeclined,
		Detail: text.RefusedBy(strings.Join(strings.Fields(answer), " "))}
}

// clipText shortens a result to what an event may have.
func clipText(s string) string {
	if len(s) <= mesh.MaxResult {
		return s
	}
	end := mesh.MaxResult - len("\n[cut]")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "\n[cut]"
}
