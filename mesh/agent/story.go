package agent

import (
	"context"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// History returns the last things said in the thread, at most limit (0 for
// all), oldest first: what the user wrote, and what was answered where the
// user could read it, by whichever agent.
func (m *Mesh) History(ctx context.Context, limit int) ([]HistoryItem, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	enough := func() bool { return limit > 0 && len(m.story.items()) >= limit }
	if err := m.read(ctx, enough); err != nil {
		return nil, mesh.Wrap("agent.History", err)
	}
	items := m.story.items()
	if limit > 0 && len(items) > limit {
		items = items[len(items)-limit:]
	}
	return items, nil
}

// Noted returns what this agent last noted in the thread, in this execution or
// in one that had the user's stream; false if it never did.
func (m *Mesh) Noted(ctx context.Context) ([]byte, bool, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	noted := func() bool { return m.story.notes[m.grant.Agent] != nil }
	if err := m.read(ctx, noted); err != nil {
		return nil, false, mesh.Wrap("agent.Noted", err)
	}
	data, ok := m.story.notes[m.grant.Agent]
	return slices.Clone(data), ok, nil
}

// A story is what was said in a thread, folded from its events, or from the
// newest of them. At any time
// at most one execution has the user's stream: what another one says is not
// part of the story.
type story struct {
	own   string // the execution that reads
	name  string // its agent
	seq   int64
	turns map[string]bool
	legs  map[string]string // executions that had the stream, and their agents
	of    map[string]string // and their turns
	leg   string            // the one that has it, or ""
	agent string            // its agent
	lines []*line
	begun map[string]bool // turns that do not wait behind others, or are over
	queue []*line         // what was said in turns that do
	past  []*line         // what was said in other turns before the own execution began
	notes map[string][]byte
	traces
}

// A line is what one side said, or one reply of the agent's own model.
type line struct {
	turn      string  // that it was said in
	execution string  // whose words they are; "" for the user's and the turn's
	said      *saying // nil for replies
	reply     *reply
}

// A saying is a HistoryItem that may still grow.
type saying struct {
	HistoryItem
	artifacts []*artifactText
	asks      string // why its task waits for the user, or ""
}

type artifactText struct {
	id   string
	text strings.Builder
}

// newStory returns a story that nothing was told of yet, for the execution of the
// grant.
func newStory(g *mesh.Grant) story {
	return story{own: string(g.Execution), name: g.Agent, traces: traces{turn: string(g.Turn), fromUser: g.Parent == g.Turn}}
}

func (s *story) add(e *meshv1.Event) {
	s.seq = max(s.seq, e.GetSeq())
	switch b := e.GetBody().(type) {
	case *meshv1.Event_TaskOpened:
		if s.turns == nil {
			s.turns = map[string]bool{}
		}
		s.turns[b.TaskOpened.GetExecution().GetId()] = true
	case *meshv1.Event_MessagePosted:
		text := a2a.TextOf(b.MessagePosted.GetMessage())
		s.say(e, RoleUser, text)
		s.hear(e, text)
	case *meshv1.Event_DispatchIssued:
		if b.DispatchIssued.GetChild().GetId() == s.own {
			s.mission = a2a.TextOf(b.DispatchIssued.GetMessage())
			s.past = slices.DeleteFunc(slices.Clone(s.lines), func(l *line) bool { return l.turn == e.GetExecutionId() })
			call := a2a.Extension(b.DispatchIssued.GetMessage().GetMetadata()).GetFields()[keySkill]
			s.requested, _ = skillCall(call, s.fromUser) // one that is wrong was refused when it came
		}
		if child := b.DispatchIssued.GetChild(); e.GetExecutionId() == s.own {
			s.asking = append(s.asking, &asking{execution: child.GetId(), agent: child.GetAgent(), label: child.GetLabel()})
		}
		if s.turns[e.GetExecutionId()] {
			s.begin(e.GetExecutionId())
			s.leg, s.agent = b.DispatchIssued.GetChild().GetId(), b.DispatchIssued.GetChild().GetAgent()
			if s.legs == nil {
				s.legs, s.of = map[string]string{}, map[string]string{}
			}
			s.legs[s.leg], s.of[s.leg] = s.agent, e.GetExecutionId()
		}
	case *meshv1.Event_HandoffStarted, *meshv1.Event_HandoffEnded:
		s.leg = ""
	case *meshv1.Event_ArtifactAppended:
		if e.GetExecutionId() == s.leg && s.leg != "" {
			s.piece(e, b.ArtifactAppended)
		}
	case *meshv1.Event_TaskMoved:
		state := b.TaskMoved.GetState()
		if e.GetExecutionId() == s.own {
			s.pause(b.TaskMoved)
		}
		s.relay(e.GetExecutionId(), b.TaskMoved)
		if s.legs[e.GetExecutionId()] != "" {
			if s.paused == nil {
				s.paused = map[string]bool{}
			}
			s.paused[e.GetExecutionId()] = mesh.Interrupted(state)
		}
		if agent, ok := s.legs[e.GetExecutionId()]; ok && b.TaskMoved.GetReason() == mesh.ReasonDelivered {
			s.leg, s.agent = e.GetExecutionId(), agent // it waited, and has the stream again
		}
		if s.turns[e.GetExecutionId()] {
			s.begin(e.GetExecutionId())
		}
		if s.turns[e.GetExecutionId()] && (mesh.Interrupted(state) || state == a2apb.TaskState_TASK_STATE_FAILED) {
			text := a2a.TextOf(b.TaskMoved.GetMessage())
			l := s.say(e, RoleAgent, text)
			if mesh.Interrupted(state) {
				l.said.asks = mesh.ReasonOf(b.TaskMoved.GetReason(), b.TaskMoved.GetMetadata())
			}
			if s.waits(s.leg) { // its model knows by the calls what the user was asked
				l.execution = s.leg
			}
			s.show(e, text, b.TaskMoved.GetMetadata())
		}
	case *meshv1.Event_StateNoted:
		// Whoever dispatches an agent can note under its name, so a note counts
		// for others only when the user talked to who wrote it.
		agent := b.StateNoted.GetAgent()
		if s.legs[e.GetExecutionId()] != agent && e.GetExecutionId() != s.own {
			return
		}
		if s.notes == nil {
			s.notes = map[string][]byte{}
		}
		s.notes[agent] = b.StateNoted.GetData()
	default:
		if t := e.GetLimitTripped(); t != nil {
			// The window of the conversation is all users'; who else's window is
			// used up says nothing here, and other limits are noted by agents.
			if trip := tripOf(t); trip != nil && trip.Limit == limit.ThreadSkillCalls && !trip.Free.IsZero() {
				s.window = trip
			}
		}
		s.trace(e)
	}
}

// begin notes that the turn does not wait behind others any more: what its user
// said comes after what was said until now.
func (s *story) begin(turn string) {
	if s.begun[turn] {
		return
	}
	if s.begun == nil {
		s.begun = map[string]bool{}
	}
	s.begun[turn] = true
	for _, l := range s.queue {
		if l.turn == turn {
			s.lines = append(s.lines, l)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(l *line) bool { return l.turn == turn })
}

func (s *story) say(e *meshv1.Event, role, text string) *line {
	item := HistoryItem{Role: role, Text: text, Time: e.GetTime().AsTime()}
	if role == RoleAgent {
		item.Agent = s.agent
	}
	l := &line{turn: e.GetExecutionId(), said: &saying{HistoryItem: item}}
	if role == RoleUser && !s.begun[l.turn] {
		s.queue = append(s.queue, l)
	} else {
		s.lines = append(s.lines, l)
	}
	return l
}

// piece adds a piece of an artifact to what its execution is saying.
func (s *story) piece(e *meshv1.Event, b *meshv1.ArtifactAppended) {
	var said *saying
	if l := s.lastSaid(); l != nil && l.execution == s.leg {
		said = l.said
	} else {
		l := s.say(e, RoleAgent, "")
		l.turn, l.execution, said = s.of[s.leg], s.leg, l.said
	}
	id := b.GetArtifact().GetArtifactId()
	at := slices.IndexFunc(said.artifacts, func(a *artifactText) bool { return a.id == id })
	if at < 0 {
		at = len(said.artifacts)
		said.artifacts = append(said.artifacts, &artifactText{id: id})
	}
	a := said.artifacts[at]
	if !b.GetAppend() {
		a.text.Reset()
	}
	a.text.WriteString(a2a.ArtifactText(b.GetArtifact()))
}

// lastSaid is the last line that is no reply, or nil.
func (s *story) lastSaid() *line {
	for _, l := range slices.Backward(s.lines) {
		if l.said != nil {
			return l
		}
	}
	return nil
}

// item returns what was said, with all its text.
func (s *saying) item() HistoryItem {
	item := s.HistoryItem
	for _, a := range s.artifacts {
		if a.text.Len() == 0 {
			continue
		}
		if item.Text != "" {
			item.Text += "\n"
		}
		item.Text += a.text.String()
	}
	return item
}

// items returns what was said and has text.
func (s *story) items() []HistoryItem {
	var out []HistoryItem
	for _, l := range slices.Concat(s.lines, s.queue) {
		if l.said == nil {
			continue
		}
		if item := l.said.item(); item.Text != "" {
			out = append(out, item)
		}
	}
	return out
}
