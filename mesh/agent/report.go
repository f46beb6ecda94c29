package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"

	"google.golang.org/protobuf/types/known/structpb"
)

// keyReport names the report in our extension's data of the status of a task that
// waits because of a limit.
const keyReport = "limit_report"

// A Report is what the user is told when a limit was met that counts for a whole
// turn, conversation or user: what is done and what is open (S3-042, S0-076). It
// goes up to the user from agent to agent, and those between add to it.
type Report struct {
	// Limit is its name, and Most what it allows.
	Limit string `json:"limit"`
	Most  int64  `json:"most"`
	// Free is when there is room again, of limits of which that is known.
	Free time.Time `json:"free,omitzero"`
	// Work is of each execution once.
	Work []Work `json:"work,omitempty"`
}

// Work is what an execution has done, and what the limit kept it from (S0-077),
// in a line each.
type Work struct {
	Execution string   `json:"execution,omitempty"` // "" for the one that reports
	Done      []string `json:"done,omitempty"`
	Open      []string `json:"open,omitempty"`
}

// Add takes in work. What there is of the same execution becomes one: two tell of
// the same calls, so that a line is there as often as the one has it that has it
// more often.
func (r *Report) Add(work ...Work) {
	for _, w := range work {
		have := r.of(w.Execution)
		have.Done, have.Open = both(have.Done, w.Done), both(have.Open, w.Open)
	}
}

// of is the work of the execution, which is added if there is none yet.
func (r *Report) of(execution string) *Work {
	at := slices.IndexFunc(r.Work, func(have Work) bool { return have.Execution == execution })
	if at < 0 {
		at, r.Work = len(r.Work), append(r.Work, Work{Execution: execution})
	}
	return &r.Work[at]
}

// Under says whose the work is of who reports.
func (r Report) Under(execution mesh.ExecutionID) Report {
	r.Work = slices.Clone(r.Work)
	for i := range r.Work {
		if r.Work[i].Execution == "" {
			r.Work[i].Execution = string(execution)
		}
	}
	return r
}

// Merge makes one report of several, for one question: of the first limit, or of
// the one that has room last. A report without a limit only tells of work.
func Merge(reports []Report) Report {
	var out Report
	for _, r := range reports {
		if r.Limit != "" && (out.Limit == "" || r.Free.After(out.Free)) {
			out.Limit, out.Most, out.Free = r.Limit, r.Most, r.Free
		}
		out.Add(r.Work...)
	}
	return out
}

func union(a, b []mesh.Question) []mesh.Question {
	out := slices.Clip(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// both returns a, and what b has more of.
func both(a, b []string) []string {
	out := slices.Clip(a)
	left := map[string]int{}
	for _, x := range a {
		left[x]++
	}
	for _, x := range b {
		if left[x]--; left[x] < 0 {
			out = append(out, x)
		}
	}
	return out
}

// maxItems bounds each list that a person reads.
const maxItems = 50

// Text tells the user, and asks whether to go on. A limit of the whole
// conversation says so, for going on takes time then, and not a word (S3-043).
func (r Report) Text() string {
	closing := "Would you like me to continue?"
	if when := r.when(); when != "" {
		closing = when + " Would you like me to continue then? Answer \"yes\" when it is time."
	}
	return r.reason() + r.lists("Done so far:", "Still open:") + "\n\n" + closing
}

// Why says which limit was met, and when there is room again if that takes time.
func (r Report) Why() string { return strings.TrimSpace(r.reason() + " " + r.when()) }

func (r Report) reason() string {
	switch r.Limit {
	case limit.ThreadSkillCalls:
		return "This conversation has used " + allOf(r.Most)
	case limit.UserSkillCalls:
		return "You have used " + allOf(r.Most)
	case llm.LimitSteps:
		return "I have taken the " + counted(r.Most, "step") + " that I may take for one message."
	}
	return "I have used the " + counted(r.Most, "skill call") + " that I may make for one message."
}

func allOf(calls int64) string {
	if calls == 1 {
		return "the 1 skill call that is allowed within a few minutes."
	}
	return "all of the " + counted(calls, "skill call") + " that are allowed within a few minutes."
}

func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// when says when there is room again; "" where the user's word makes room.
func (r Report) when() string {
	switch {
	case r.Limit != limit.ThreadSkillCalls && r.Limit != limit.UserSkillCalls:
		return ""
	case r.Free.IsZero():
		return "There is room for more in a few minutes."
	}
	return "There is room for more at " + r.Free.UTC().Format("15:04:05 UTC") + "."
}

// lists are what is done and what is open. Whose it is does not matter to a person.
func (r Report) lists(done, open string) string {
	var did, left []string
	for _, w := range r.Work {
		did, left = append(did, w.Done...), append(left, w.Open...)
	}
	return bullets(done, did) + bullets(open, left)
}

func bullets(title string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	text := "\n\n" + title
	for _, x := range items[:min(len(items), maxItems)] {
		text += "\n- " + x
	}
	if n := len(items) - maxItems; n > 0 {
		text += fmt.Sprintf("\n- and %d more", n)
	}
	return text
}

// declined is the end of an agent's work that the user does not want to go on.
func declined(done, open []string) error {
	text := "Stopped, as the user wishes." + bullets("Done:", done) + bullets("Not done:", open)
	return &mesh.Error{Code: mesh.Canceled, Op: "agent.RunModel", Reason: mesh.ReasonDeclined, Detail: text}
}

// ReportOf reads the report in the metadata of a status; nil if there is none.
// What is too long for people is cut.
func ReportOf(metadata *structpb.Struct) (r *Report) {
	v := metadata.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()[keyReport].GetStructValue()
	if v == nil {
		return nil
	}
	data, err := v.MarshalJSON()
	if err != nil || json.Unmarshal(data, &r) != nil {
		return nil
	}
	for i := range r.Work {
		w := &r.Work[i]
		w.Execution, w.Done, w.Open = item(w.Execution), items(w.Done), items(w.Open)
	}
	return r
}

// maxItem bounds a line of a report, in bytes.
const maxItem = 2 * mesh.MaxCallSummary

func item(s string) string { return mesh.Clip(strings.Join(strings.Fields(s), " "), maxItem) }

func items(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxItems)] {
		out = append(out, item(s))
	}
	return out
}

// value is the report as extension data.
func (r Report) value() *structpb.Value {
	data, err := json.Marshal(r)
	v := new(structpb.Struct)
	if err != nil || v.UnmarshalJSON(data) != nil {
		return structpb.NewNullValue() // of text and numbers it always is one
	}
	return structpb.NewStructValue(v)
}

// guidance is what a model is told that goes on after a limit (S3-045).
func guidance(done []string) string {
	text := "You stopped because a limit was met, and the user wants you to continue. Review the conversation, continue where you left off, and do not repeat what is done."
	if len(done) > 0 {
		text += "\nDone already:\n- " + strings.Join(done, "\n- ")
	}
	return text
}

// stopped is what a model is told whose user says something else than yes at a
// limit.
func stopped(done, open []string) string {
	return "You stopped because a limit was met, and asked the user whether to go on. The user's last message is the answer, and it is not a yes: do not do what was open unless it asks for it. " +
		"Tell the user what is done and what is not." + bullets("Done already:", done) + bullets("Not done:", open)
}

// settling is what a model is told whose calls waited for the user's word.
func settling(calls, done []string) string {
	text := "The user was asked to allow these calls, and the user's last message is the answer. What came of them is in their results.\n- " +
		strings.Join(calls, "\n- ")
	if len(done) > 0 {
		text += "\nDone already, apart from these:\n- " + strings.Join(done, "\n- ")
	}
	return text
}

// passedOn is what a model is told that had other agents at work which asked the
// user something.
func passedOn(questions []string, answer mesh.Answer) string {
	text := "The user's last message answers what other agents asked. It was given to them, and what they made of it is in their results above. "
	if answer == mesh.AnswerOther {
		text += "If it asks for something that is not in the results, see to that; do not have anything done again that is."
	} else {
		text += "It asks nothing else of you: do not have anything done again because of it."
	}
	return text + "\n\n" + strings.Join(questions, "\n\n")
}
