package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"

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
	// Said is the conclusion of who reports, if nobody has read it.
	Said string `json:"said,omitempty"`
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

// Done returns those of the skill calls, in short, that had success, of each
// execution that made any.
func Done(calls []*thread.SkillCall) []Work {
	var out Report
	for _, c := range calls {
		if c.Status == thread.CallCompleted {
			w := out.of(string(c.Execution))
			w.Done = append(w.Done, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out.Work
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
		out.Said = strings.TrimSpace(out.Said + "\n\n" + r.Said)
		out.Add(r.Work...)
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

// Text tells the user, and asks whether to go on. A limit of the whole
// conversation says so, for going on takes time then, and not a word (S3-043).
func (r Report) Text() string {
	said := r.Said
	if said != "" {
		said += "\n\n"
	}
	return said + r.reason() + r.lists() + "\n\n" + text.MayContinue(r.when())
}

// Why says which limit was met, and when there is room again if that takes time.
func (r Report) Why() string { return strings.TrimSpace(r.reason() + " " + r.when()) }

func (r Report) reason() string {
	switch r.Limit {
	case limit.ThreadSkillCalls:
		return text.UsedInConversation(r.Most)
	case limit.UserSkillCalls:
		return text.UsedByUser(r.Most)
	case llm.LimitSteps:
		return text.TookSteps(r.Most)
	case limit.TurnAgents:
		return text.DispatchedAgents(r.Most)
	case limit.OrchestratorTime:
		return text.TimeIsOver(r.Most)
	case limit.ModelTokens, limit.ModelCost:
		return text.NotEnough(r.Limit, r.Most)
	}
	if limit.Noted(r.Limit) && !limit.Shared(r.Limit) {
		return text.LimitReached(r.Limit, r.Most, r.Most) + "."
	}
	return text.MadeCalls(r.Most)
}

// when says when there is room again; "" where the user's word makes room.
func (r Report) when() string {
	if r.Limit != limit.ThreadSkillCalls && r.Limit != limit.UserSkillCalls && r.Free.IsZero() {
		return ""
	}
	return text.RoomAt(r.Free)
}

// lists are what is done and what is open. Whose it is does not matter to a person.
func (r Report) lists() string {
	var did, left []string
	for _, w := range r.Work {
		did, left = append(did, w.Done...), append(left, w.Open...)
	}
	return text.WorkSoFar(did, left)
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
	r.Said = mesh.Clip(r.Said, MaxSaid)
	for i := range r.Work {
		w := &r.Work[i]
		w.Execution, w.Done, w.Open = item(w.Execution), items(w.Done), items(w.Open)
	}
	return r
}

// Bounds of what is read of a report: the lines of each list, and a line in bytes.
const (
	maxItems = 50
	maxItem  = 2 * mesh.MaxCallSummary
)

// MaxSaid bounds Report.Said, in bytes.
const MaxSaid = 4 << 10

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
