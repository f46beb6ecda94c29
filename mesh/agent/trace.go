package agent

import (
	"encoding/json"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"

	"google.golang.org/protobuf/types/known/structpb"
)

// traces are what the agent's own models and tools did, as the log has it.
type traces struct {
	turn      string               // the turn that the own execution serves
	fromUser  bool                 // the own execution was dispatched by it
	mission   string               // the message that the own execution began with
	requested *SkillCall           // the call that it asked for, or nil
	replied   map[string][]*reply  // by execution
	paused    map[string]bool      // executions that wait for the user
	approvals map[string]*approval // of the own execution, by call
	actions   []*action            // skill calls of the own execution
	since     int                  // of these, those before the present instruction
	before    int                  // and those before the one that it follows
	posted    int64                // Seq of the user's last message in the turn
	answer    string               // its text
	asking    []*asking            // what agents that the own execution dispatched asked the user
	relayed   []*asking            // of these, what the user's last message answers
	wrote     time.Time            // when
	window    *limit.Trip          // the last of a limit that is free later, or nil
	tripped   bool                 // a limit was met since the last message
	stopped   bool                 // a limit was met before it
	open      []string             // what the own execution was last kept from
}

// An action is a call of a skill.
type action struct {
	call     string
	key      string // id of the event that announced it
	skill    string
	args     string                // JSON
	returned *meshv1.SkillReturned // nil while that is not known
}

func (a *action) worked() bool { return a.returned != nil && !a.returned.GetFailed() }

// A reply is one reply of a model, with what its calls came to.
type reply struct {
	text    string
	uses    []mesh.ToolUse
	results map[string]settled // by id of the call
}

// asking is what an agent that the own execution dispatched asks the user.
type asking struct {
	execution, agent string
	label            string // as the own execution calls it
	question         string // "" if it does not wait
}

// settled is what a call came to.
type settled struct {
	text   string
	failed bool
	cause  mesh.Cause
	raw    bool // as the skill returned it, and not as a model was told of it
}

// An approval is a call that waited for the user's word, or still does.
type approval struct {
	skill    string
	args     string // JSON
	question string
	version  string // of the skill; "" in logs that do not tell
	shown    int64  // Seq at which the user was asked so, or 0
	settled  bool
	approved bool
	text     string // what the user wrote
}

// about reports whether the user was asked just this, about that version of the
// skill. Where there is none, it is the question that tells.
func (a *approval) about(s *skill.Skill, args, question string) bool {
	same := a.version == s.Version
	if a.version == "" || s.Version == "" {
		same = a.question == question
	}
	return a.skill == s.Name && a.args == args && same
}

// trace adds what an execution of the reader's agent did: its own, and others
// that had the user's stream. Whoever dispatches an agent chooses its name, so
// no other execution's word is taken.
func (s *story) trace(e *meshv1.Event) {
	id := e.GetExecutionId()
	if id != s.own && (s.legs[id] == "" || s.legs[id] != s.name) {
		return
	}
	if id == s.own {
		s.act(e)
	}
	switch b := e.GetBody().(type) {
	case *meshv1.Event_ModelReplied:
		r := &reply{text: b.ModelReplied.GetText(), results: map[string]settled{}}
		for _, u := range b.ModelReplied.GetTools() {
			r.uses = append(r.uses, mesh.ToolUse{ID: u.GetId(), Name: u.GetName(), Arguments: u.GetArguments()})
		}
		if s.replied == nil {
			s.replied = map[string][]*reply{}
		}
		s.replied[id] = append(s.replied[id], r)
		s.lines = append(s.lines, &line{turn: s.of[id], execution: id, reply: r})
	case *meshv1.Event_SkillReturned:
		r := b.SkillReturned
		s.settle(id, r.GetCall(), settled{text: r.GetContent(), failed: r.GetFailed(), raw: !isTemplate(r.GetMetadata())})
	case *meshv1.Event_ToolReturned:
		s.settle(id, b.ToolReturned.GetCall(), settled{text: b.ToolReturned.GetContent(), failed: b.ToolReturned.GetFailed(), cause: mesh.Cause(b.ToolReturned.GetCause())})
	}
}

// act adds what the own execution did with skills.
func (s *story) act(e *meshv1.Event) {
	switch b := e.GetBody().(type) {
	case *meshv1.Event_SkillCalled:
		c := b.SkillCalled
		s.actions = append(s.actions, &action{call: c.GetCall(), key: e.GetId(), skill: c.GetSkill(), args: c.GetArgs()})
	case *meshv1.Event_SkillReturned:
		if a := s.action(b.SkillReturned.GetCall()); a != nil && a.returned == nil {
			a.returned = b.SkillReturned
		}
	case *meshv1.Event_LimitTripped:
		s.tripped = true
	case *meshv1.Event_ApprovalAsked:
		if s.approvals == nil {
			s.approvals = map[string]*approval{}
		}
		s.approvals[b.ApprovalAsked.GetCall()] = &approval{
			skill: b.ApprovalAsked.GetSkill(), args: b.ApprovalAsked.GetArgs(), question: b.ApprovalAsked.GetText(),
			version: b.ApprovalAsked.GetVersion(),
		}
	case *meshv1.Event_ApprovalSettled:
		if a := s.approvals[b.ApprovalSettled.GetCall()]; a != nil {
			a.settled, a.approved, a.text = true, b.ApprovalSettled.GetApproved(), b.ApprovalSettled.GetText()
		}
	}
}

// pause notes that the own execution waits for the user because it met a limit.
// The fact that the limit was met need not be its own: of a turn's limit it is
// that of the first execution which met it.
func (s *story) pause(m *meshv1.TaskMoved) {
	r := ReportOf(m.GetMetadata())
	if r == nil || !mesh.Interrupted(m.GetState()) {
		return
	}
	for _, w := range r.Work {
		if w.Execution == "" {
			s.tripped, s.open = true, w.Open
			if len(s.actions) == s.since { // nothing came of the instruction, and the one before still counts
				s.since = s.before
			}
		}
	}
}

// relay notes what an agent that the own execution dispatched asks the user, and
// that it goes on.
func (s *story) relay(execution string, m *meshv1.TaskMoved) {
	for _, a := range s.asking {
		if a.execution != execution {
			continue
		}
		if a.question = ""; mesh.Interrupted(m.GetState()) {
			a.question = a2a.TextOf(m.GetMessage())
		}
	}
}

// action is the last call with the id, or nil.
func (s *story) action(call string) *action {
	for _, a := range slices.Backward(s.actions) {
		if a.call == call {
			return a
		}
	}
	return nil
}

// hear notes a message of the user. What was done counts for the instruction
// that it was done for: one that comes after a limit, and is more than a yes,
// is a new one (S3-031).
func (s *story) hear(e *meshv1.Event, text string) {
	if e.GetExecutionId() != s.turn {
		return // a message for another task answers nothing here
	}
	if len(s.actions) > s.since {
		s.before = s.since
	}
	if s.tripped && mesh.AnswerOf(text) != mesh.AnswerYes {
		s.since = len(s.actions)
	}
	s.relayed = nil
	for _, a := range s.asking {
		if a.question != "" {
			was := *a
			s.relayed = append(s.relayed, &was)
		}
	}
	s.posted, s.answer, s.wrote = e.GetSeq(), text, e.GetTime().AsTime()
	s.stopped, s.tripped = s.tripped, false
}

// show notes which calls the turn asks its user about. A call whose question
// did not reach the user is not answered by what the user says next.
func (s *story) show(e *meshv1.Event, text string, metadata *structpb.Struct) {
	if e.GetExecutionId() != s.turn {
		return
	}
	for call, a := range s.approvals {
		if mesh.Shown(text, metadata, mesh.Question{Execution: mesh.ExecutionID(s.own), Call: call, Text: a.question}) {
			a.shown = e.GetSeq()
		}
	}
}

// waits reports whether the last reply of the execution has calls without
// results.
func (s *story) waits(execution string) bool {
	replies := s.replied[execution]
	return len(replies) > 0 && len(replies[len(replies)-1].results) < len(replies[len(replies)-1].uses)
}

// settle notes what a call came to, at the last reply that made a call of that
// id and at the first word on it: what a skill returned comes before what was
// told of it.
func (s *story) settle(execution, call string, r settled) {
	for _, reply := range slices.Backward(s.replied[execution]) {
		at := slices.IndexFunc(reply.uses, func(u mesh.ToolUse) bool { return u.ID == call })
		if at < 0 {
			continue
		}
		if _, twice := reply.results[call]; !twice {
			if r.raw && reply.uses[at].Name == llm.CommandTool {
				r.text = command.Defuse(r.text)
			}
			reply.results[call] = r
		}
		return
	}
}

// isTemplate reports whether the metadata of a result says that it is a template:
// its blocks are for the model.
func isTemplate(metadata string) bool {
	var m struct {
		Interpret bool `json:"requires_interpretation"`
	}
	return metadata != "" && json.Unmarshal([]byte(metadata), &m) == nil && m.Interpret
}
