package thread

import (
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// Bounds of what a State remembers of calls, whatever the log has.
const (
	// MaxWindowCalls and MaxWindow bound what [State.CallsWithin] can count.
	MaxWindowCalls = 1000
	MaxWindow      = time.Hour
	// MaxUnsettled bounds Execution.Unsettled, and MaxApprovals
	// Execution.Approvals; further ones are not remembered.
	MaxUnsettled = 256
	MaxApprovals = 32

	maxTripped = 16  // Execution.Tripped
	maxSeen    = 256 // ids of State.Seen
)

// discovery is the tool by which a model finds skills.
const discovery = "get_skill"

// Orchestration is the server to which the tools belong by which a model has agents
// work: they are shown with it, as tools of MCP servers are with theirs.
const Orchestration = "orchestrator"

// orchestration are those tools.
var orchestration = map[string]bool{
	"dispatch_agent": true, "get_agent_results": true, "cancel_agent": true, "list_agents": true, "answer_agent": true,
	"consult_agent": true, "request_help": true,
}

// ServerOf returns the server of a tool that is no skill; "" for those of no server.
func ServerOf(tool string) string {
	if orchestration[tool] {
		return Orchestration
	}
	return ""
}

// Calls counts what was called since the user's last message.
type Calls struct {
	Since       mesh.Seq // of that message, or 0
	Skills      int      // skills
	Tools       int      // tools that are no skills
	Discoveries int      // those of them that looked for skills
	Steps       int      // replies of the execution's own model that called tools
	// Agents are those that were dispatched: of an execution by it, and of a turn by all
	// agents that work on it, without whom the agent with the user's stream only consulted
	// so that they would dispatch others.
	Agents int
}

func (c *Calls) tool(name string) {
	c.Tools++
	if name == discovery {
		c.Discoveries++
	}
}

// dispatched counts an agent that was dispatched, when that was accepted.
func (s *State) dispatched(x *Execution) {
	by, t := s.execs[x.Parent], s.TurnOf(x.ID)
	if t == nil || by == t { // it has the user's stream: nobody dispatched it
		return
	}
	t.Calls.Agents += s.Counts(by, t)
	by.Calls.Agents++
	s.spend(by, mesh.Budget{Agents: 1})
}

// Counts is how many more agents of the turn it makes when the execution dispatches one:
// 0 for the first of one that was itself counted, and turns out to have been consulted.
func (s *State) Counts(by, turn *Execution) int {
	consulted := s.execs[by.Parent] != nil && s.execs[by.Parent].Parent == turn.ID
	if consulted && by.Calls.Agents == 0 && by.Opened > turn.Calls.Since {
		return 0
	}
	return 1
}

// An Approval is a call that waits for the user's word.
type Approval struct {
	Call  string
	Skill string
	Text  string      // what the user is asked
	What  mesh.Digest // of the call
	Asked mesh.Seq    // of the ApprovalAsked
	Shown mesh.Seq    // at which the turn last asked its user so, or 0
	// Answer is what was last said to it, by who may, while the turn asked nothing else.
	Answer mesh.Answer
	// Asking says that the question is among those that the turn asked last.
	Asking bool
}

// Approval returns the approval that the call waits for, or nil.
func (x *Execution) Approval(call string) *Approval {
	if i := x.approval(call); i >= 0 {
		return &x.Approvals[i]
	}
	return nil
}

func (x *Execution) approval(call string) int {
	return slices.IndexFunc(x.Approvals, func(a Approval) bool { return a.Call == call })
}

// HasTripped reports whether the limit stopped something since the user's last
// message.
func (x *Execution) HasTripped(name string) bool {
	return slices.ContainsFunc(x.Tripped, func(t mesh.LimitTripped) bool { return t.Limit == name })
}

// LastPost returns the Seq of the turn's last message of the user, or 0.
func (x *Execution) LastPost() mesh.Seq {
	if n := len(x.Posts); n > 0 {
		return x.Posts[n-1]
	}
	return 0
}

// CallsWithin counts the thread's skill calls whose time is within the window
// that ends now, and returns the time of the first of them. A call is within it
// for as long as no more than the window has passed (S3-046), and also if its
// time is that much ahead, for clocks are set back. It knows of MaxWindowCalls
// calls and of MaxWindow before the last one.
func (s *State) CallsWithin(now time.Time, window time.Duration) (n int, first time.Time) {
	for _, ms := range s.window.recent() {
		at := time.UnixMilli(ms)
		if now.Sub(at).Abs() > window {
			continue
		}
		if n++; n == 1 || at.Before(first) {
			first = at
		}
	}
	return n, first.UTC()
}

// Seen reports whether the thread has an event with the id that called a skill
// or was about an approval, as far as it is one of the last maxSeen of those.
// It is how a writer that sends such an event again is recognised.
func (s *State) Seen(id string) bool { return id != "" && slices.Contains(s.seen.ids, id) }

// called counts a call, unless its event was counted before.
func (s *State) called(x *Execution, e *mesh.Event, b mesh.SkillCalled) {
	if !s.remember(e) {
		return
	}
	x.SkillCalls++
	x.Calls.Skills++
	s.spend(x, mesh.Budget{Calls: 1})
	if t := s.TurnOf(x.ID); t != nil && t != x {
		t.Calls.Skills++
	}
	s.window.add(e.Time.UnixMilli())
	if of := ApprovedBy(b); x.Approved[of] == mesh.CallDigest(b.Skill, b.Version, b.Args) {
		delete(x.Approved, of)
	}
	if x.Requested != nil && x.Requested.Skill == b.Skill {
		x.Requested = nil
	}
	if x.Unsettled == nil {
		x.Unsettled = map[string]string{}
	}
	if _, again := x.Unsettled[b.Call]; again || len(x.Unsettled) < MaxUnsettled {
		x.Unsettled[b.Call] = b.Skill
		if x.Intents == nil {
			x.Intents = map[string]*mesh.Event{}
		}
		x.Intents[b.Call] = e
	}
}

// Begun reports whether the event announced a call of the execution, just so, that has not
// returned.
func (x *Execution) Begun(e *mesh.Event) bool {
	b, ok := e.Body.(mesh.SkillCalled)
	if !ok || mesh.Terminal(x.State) {
		return false
	}
	had := x.Intents[b.Call]
	return had != nil && had.ID == e.ID && had.Body == b
}

func (s *State) toolReturned(x *Execution, b mesh.ToolReturned) {
	x.ToolCalls++
	x.Calls.tool(b.Name)
	if t := s.TurnOf(x.ID); t != nil && t != x {
		t.Calls.tool(b.Name)
	}
}

func (s *State) asked(x *Execution, e *mesh.Event, b mesh.ApprovalAsked) {
	if !s.remember(e) || mesh.Terminal(x.State) {
		return
	}
	s.settled(x, b.Call)
	if len(x.Approvals) < MaxApprovals {
		x.Approvals = append(x.Approvals, Approval{Call: b.Call, Skill: b.Skill, Text: b.Text, What: mesh.CallDigest(b.Skill, b.Version, b.Args), Asked: e.Seq})
	}
}

// show notes which calls the turn asks its user about. An agent between the one
// that asks and the user may ask something else instead.
func (s *State) show(turn *Execution, at mesh.Seq, m mesh.TaskMoved) {
	text := mesh.TextOf(m.Message)
	for _, x := range s.order {
		if len(x.Approvals) == 0 || s.TurnOf(x.ID) != turn {
			continue
		}
		for i := range x.Approvals {
			a := &x.Approvals[i]
			if a.Asking = mesh.Shown(text, m.Metadata, mesh.Question{Execution: x.ID, Call: a.Call, Text: a.Text}); a.Asking {
				a.Shown, a.Answer = at, mesh.AnswerOther
			}
		}
	}
}

// hear notes what the user says to the calls that the turn asks about.
func (s *State) hear(turn *Execution, said mesh.Answer) {
	if said == mesh.AnswerOther { // it takes back nothing that was said plainly
		return
	}
	for _, x := range s.order {
		if len(x.Approvals) == 0 || s.TurnOf(x.ID) != turn {
			continue
		}
		for i := range x.Approvals {
			if a := &x.Approvals[i]; a.Asking {
				a.Answer = said
			}
		}
	}
}

// settled forgets the approval of the call, and returns what was asked.
func (s *State) settled(x *Execution, call string) (asked Approval) {
	if i := x.approval(call); i >= 0 {
		asked = x.Approvals[i]
		x.Approvals = slices.Delete(x.Approvals, i, i+1)
	}
	return asked
}

// answered notes the user's word: a yes is for one call, just as it was asked about.
func (s *State) answered(x *Execution, b mesh.ApprovalSettled) {
	asked := s.settled(x, b.Call)
	if !b.Approved || asked.Call == "" {
		return
	}
	if x.Approved == nil {
		x.Approved = map[string]mesh.Digest{}
	}
	if len(x.Approved) < MaxApprovals {
		x.Approved[b.Call] = asked.What
	}
}

// effect ends the id of what the mesh does for an agent, behind that of the call for which
// the user was asked.
const effect = "/effect"

// EffectOf is the id of what the mesh does because of the approval of a call.
func EffectOf(call string) string { return call + effect }

// ApprovedBy is the id of the call that the user was asked about before this one.
func ApprovedBy(b mesh.SkillCalled) string {
	if b.Skill == mesh.CallCreateSkill {
		return strings.TrimSuffix(b.Call, effect)
	}
	return b.Call
}

// tripped notes a limit that stopped something: with its execution and, unless
// it is the execution's own, with the turn.
func (s *State) tripped(x *Execution, b mesh.LimitTripped) {
	x.trip(b)
	if t := s.TurnOf(x.ID); t != nil && t != x && !strings.HasPrefix(b.Limit, "agent.") {
		t.trip(b)
	}
}

func (x *Execution) trip(b mesh.LimitTripped) {
	if !x.HasTripped(b.Limit) && len(x.Tripped) < maxTripped {
		x.Tripped = append(x.Tripped, b)
	}
}

// afresh begins the counts of an execution that goes on with a message of the
// user. That it goes on again with the same one changes nothing.
func (s *State) afresh(x *Execution) {
	t := s.TurnOf(x.ID)
	if t != nil && t.LastPost() > x.Calls.Since {
		x.Calls, x.Tripped, x.Used = Calls{Since: t.LastPost()}, nil, mesh.Budget{}
	}
}

// remember notes the event's id; false if it is there.
func (s *State) remember(e *mesh.Event) bool {
	if s.Seen(e.ID) {
		return false
	}
	if e.ID != "" {
		s.seen.add(e.ID)
	}
	return true
}

// ids are the last maxSeen ids.
type ids struct {
	ids []string
	at  int // the oldest, once there are maxSeen
}

func (r *ids) add(id string) {
	if len(r.ids) < maxSeen {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.at] = id
	r.at = (r.at + 1) % maxSeen
}

// window has the times of the last calls, in milliseconds: those from head on,
// at most MaxWindowCalls of them.
type window struct {
	times []int64
	head  int
}

func (w *window) recent() []int64 { return w.times[w.head:] }

// add costs the same on average however many there were.
func (w *window) add(ms int64) {
	for w.head < len(w.times) && w.times[w.head] < ms-MaxWindow.Milliseconds() {
		w.head++
	}
	if len(w.times)-w.head == MaxWindowCalls {
		w.head++
	}
	if w.head > len(w.times)/2 {
		w.times = append(w.times[:0], w.times[w.head:]...)
		w.head = 0
	}
	w.times = append(w.times, ms)
}
