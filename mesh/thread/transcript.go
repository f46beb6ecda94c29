package thread

import (
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// An Utterance is one thing that was said to or by the user of a thread.
type Utterance struct {
	Role  string    `json:"role"`            // RoleUser or RoleAgent
	Agent string    `json:"agent,omitempty"` // who said it, of RoleAgent
	Text  string    `json:"text"`
	Time  time.Time `json:"time,omitzero"`
}

// Roles of an [Utterance].
const (
	RoleUser  = "user"
	RoleAgent = "agent"
)

// A Transcript is the conversation in a thread: what the users wrote, what they
// could read of agents, and what the models of these replied and called. What a
// user writes while other turns are worked on has its place where its own turn
// goes on. The zero Transcript is that of a thread, or of the part of one from a
// [Beginning] on.
type Transcript struct {
	Seq mesh.Seq // of the last event applied

	parties map[mesh.ExecutionID]*party
	lines   []*Line
	waiting []*Line // what was said in turns that wait behind others
}

// A Line is what one side said, or one reply of a model.
type Line struct {
	Turn      mesh.ExecutionID // in which it was said
	Execution mesh.ExecutionID // whose words they are; "" for the user's and the turn's own
	Reply     *Reply           // nil for what was said

	said  Utterance
	texts []*artifactText // follow said.Text
}

type artifactText struct {
	id   string
	text strings.Builder
}

// A party is a turn or an execution of a Transcript.
type party struct {
	stream  *stream // of the turn that it is, or whose stream it has or had; or nil
	agent   string
	mission *a2apb.Message // with which it was dispatched
	begun   bool           // a turn that was worked on: it does not wait behind others
	before  int            // how many lines there were when it was dispatched
	waits   bool           // for its user
	replies replies
	noted   *mesh.Event // its last StateNoted
}

// Transcript returns the transcript of what comes after the event with the given
// Seq, at most s.Seq.
func (s *State) Transcript(after mesh.Seq) *Transcript {
	t := new(Transcript)
	for _, turn := range s.turns {
		if turn.Opened > after {
			break
		}
		st := turn.stream(after)
		p := t.party(turn.ID)
		p.stream, p.agent = &st, turn.Agent
		for _, l := range turn.Legs {
			if l.From <= after {
				p.begun = true
				leg := t.party(l.Execution)
				leg.stream, leg.agent = &st, l.Agent
			}
		}
	}
	return t
}

// Apply adds the next event and returns the text that it adds to what was said,
// or "".
func (t *Transcript) Apply(e *mesh.Event) string {
	t.Seq = e.Seq
	p := t.party(e.Execution)
	gave := p.stream != nil && p.stream.apply(e)
	switch b := e.Body.(type) {
	case mesh.ArtifactAppended:
		if p.stream != nil && p.stream.carries(e.Execution) {
			return t.output(e, p, b)
		}
	case mesh.TaskOpened:
		if p.stream == nil && opens(e, b.Execution) {
			p.stream, p.agent = &stream{turn: e.Execution}, b.Execution.Agent
		}
	case mesh.MessagePosted:
		return t.say(e, p, Utterance{Role: RoleUser, Text: messageText(b.Message)}).said.Text
	case mesh.DispatchIssued:
		child := t.party(b.Child.ID)
		child.agent, child.mission, child.before = b.Child.Agent, b.Message, len(t.lines)
		if gave {
			child.stream = p.stream
			t.begin(e.Execution, p)
		}
	case mesh.TaskMoved:
		return t.moved(e, p, b)
	case mesh.StateNoted:
		if p.agent == b.Agent || p.agent == "" {
			p.noted = e
		}
	default:
		if r := p.replies.apply(e); r != nil && p.stream != nil {
			t.lines = append(t.lines, &Line{Turn: p.stream.turn, Execution: e.Execution, Reply: r})
		}
	}
	return ""
}

func (t *Transcript) party(id mesh.ExecutionID) *party {
	p := t.parties[id]
	if p == nil {
		if t.parties == nil {
			t.parties = map[mesh.ExecutionID]*party{}
		}
		p = new(party)
		t.parties[id] = p
	}
	return p
}

// moved adds what a turn says of its state: a question, a failure, or an answer
// that nobody has said yet.
func (t *Transcript) moved(e *mesh.Event, p *party, b mesh.TaskMoved) string {
	p.waits = mesh.Interrupted(b.State)
	if p.stream == nil || p.stream.turn != e.Execution {
		return ""
	}
	t.begin(e.Execution, p)
	text := messageText(b.Message)
	switch {
	case text == "" || t.hasJustSaid(e.Execution, text):
		return ""
	case p.waits, b.State == a2apb.TaskState_TASK_STATE_FAILED, b.State == a2apb.TaskState_TASK_STATE_COMPLETED:
		l := t.say(e, p, Utterance{Role: RoleAgent, Agent: p.stream.agent, Text: text})
		if leg := t.parties[p.stream.has]; leg != nil && leg.replies.waits() { // its model knows by the calls what the user was asked
			l.Execution = p.stream.has
		}
		return text
	}
	return ""
}

// hasJustSaid reports whether the last words in the turn end with the text.
func (t *Transcript) hasJustSaid(turn mesh.ExecutionID, text string) bool {
	l := t.lastSaid()
	return l != nil && l.Turn == turn && l.said.Role == RoleAgent &&
		strings.HasSuffix(strings.TrimSpace(l.Utterance().Text), strings.TrimSpace(text))
}

// begin notes that the turn does not wait behind others any more: what its user
// said comes after what was said until now.
func (t *Transcript) begin(turn mesh.ExecutionID, p *party) {
	if p.begun {
		return
	}
	p.begun = true
	t.waiting = slices.DeleteFunc(t.waiting, func(l *Line) bool {
		if l.Turn == turn {
			t.lines = append(t.lines, l)
		}
		return l.Turn == turn
	})
}

func (t *Transcript) say(e *mesh.Event, turn *party, u Utterance) *Line {
	u.Time = e.Time
	l := &Line{Turn: e.Execution, said: u}
	if u.Role == RoleUser && !turn.begun {
		t.waiting = append(t.waiting, l)
	} else {
		t.lines = append(t.lines, l)
	}
	return l
}

// output adds a piece of an artifact to what its execution is saying.
func (t *Transcript) output(e *mesh.Event, p *party, b mesh.ArtifactAppended) string {
	l := t.lastSaid()
	if l == nil || l.Execution != e.Execution {
		l = t.say(e, p, Utterance{Role: RoleAgent, Agent: p.stream.agent})
		l.Turn, l.Execution = p.stream.turn, e.Execution
	}
	id, text := b.Artifact.GetArtifactId(), partsText(b.Artifact.GetParts())
	at := slices.IndexFunc(l.texts, func(a *artifactText) bool { return a.id == id })
	if at < 0 {
		at = len(l.texts)
		l.texts = append(l.texts, &artifactText{id: id})
	}
	if !b.Append {
		l.texts[at].text.Reset()
	}
	l.texts[at].text.WriteString(text)
	return text
}

// lastSaid is the last line that is no reply, or nil.
func (t *Transcript) lastSaid() *Line {
	for _, l := range slices.Backward(t.lines) {
		if l.Reply == nil {
			return l
		}
	}
	return nil
}

// Utterance returns what was said, with all its text; the artifacts of an agent
// on lines of their own.
func (l *Line) Utterance() Utterance {
	u := l.said
	for _, a := range l.texts {
		if a.text.Len() == 0 {
			continue
		}
		if u.Text != "" {
			u.Text += "\n"
		}
		u.Text += a.text.String()
	}
	return u
}

// Said returns what was said and has text, oldest first.
func (t *Transcript) Said() []Utterance {
	var out []Utterance
	for _, l := range slices.Concat(t.lines, t.waiting) {
		if u := l.Utterance(); u.Text != "" {
			out = append(out, u)
		}
	}
	return out
}

// Before returns the lines of other turns that there were when an execution that
// has or had the stream of its turn was dispatched.
func (t *Transcript) Before(id mesh.ExecutionID) []*Line {
	p, turn := t.parties[id], t.Turn(id)
	if turn == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.lines[:p.before]), func(l *Line) bool { return l.Turn == turn })
}

// In returns the lines of the turn.
func (t *Transcript) In(turn mesh.ExecutionID) []*Line {
	return slices.DeleteFunc(slices.Clone(t.lines), func(l *Line) bool { return l.Turn != turn })
}

// Turn returns the turn whose stream the execution has or had; "" for none.
func (t *Transcript) Turn(id mesh.ExecutionID) mesh.ExecutionID {
	if p := t.parties[id]; p != nil && p.stream != nil {
		return p.stream.turn
	}
	return ""
}

// Agent returns the agent of an execution, and of a turn the one that has its
// stream, or had it when the turn ended.
func (t *Transcript) Agent(id mesh.ExecutionID) string {
	switch p := t.parties[id]; {
	case p == nil:
		return ""
	case p.stream != nil && p.stream.turn == id:
		return p.stream.agent
	default:
		return p.agent
	}
}

// Mission returns the message with which the execution was dispatched, or nil.
func (t *Transcript) Mission(id mesh.ExecutionID) *a2apb.Message {
	if p := t.parties[id]; p != nil {
		return p.mission
	}
	return nil
}

// Replies returns what the models of the execution replied.
func (t *Transcript) Replies(id mesh.ExecutionID) []*Reply {
	if p := t.parties[id]; p != nil {
		return p.replies
	}
	return nil
}

// Waits reports whether the execution waits for its user.
func (t *Transcript) Waits(id mesh.ExecutionID) bool { p := t.parties[id]; return p != nil && p.waits }

// Note returns what the agent last noted, as its execution id may know: in that
// one, or in another where the user talked to the agent, for whoever dispatches an
// agent can note under its name.
func (t *Transcript) Note(agent string, id mesh.ExecutionID) []byte {
	var last *mesh.Event
	for of, p := range t.parties {
		if p.noted == nil || p.noted.Body.(mesh.StateNoted).Agent != agent || last != nil && p.noted.Seq < last.Seq {
			continue
		}
		if of == id || p.stream != nil && p.stream.turn != of && p.agent == agent {
			last = p.noted
		}
	}
	if last == nil {
		return nil
	}
	return last.Body.(mesh.StateNoted).Data
}

// Beginning returns where in the newest events of a thread a [Transcript] or
// [Actions] can begin that has all of the execution: where a turn is opened from
// which on nothing is about executions that began before. False means that older
// events are needed.
func Beginning(events []*mesh.Event, id mesh.ExecutionID) (at int, ok bool) {
	begun := map[mesh.ExecutionID]bool{}
	missing := map[mesh.ExecutionID]bool{id: true}
	begins := func(x mesh.ExecutionID) {
		begun[x] = true
		delete(missing, x)
	}
	for i, e := range slices.Backward(events) {
		b, opened := e.Body.(mesh.TaskOpened)
		if opened {
			begins(b.Execution.ID)
		} else if b, ok := e.Body.(mesh.DispatchIssued); ok {
			begins(b.Child.ID)
		}
		if x := e.Execution; x != "" && !begun[x] {
			missing[x] = true
		}
		if opened && len(missing) == 0 {
			at, ok = i, true
		}
	}
	return at, ok
}

// messageText is the text of a message, its parts on lines of their own.
func messageText(m *a2apb.Message) string {
	var b strings.Builder
	for _, p := range m.GetParts() {
		if t := p.GetText(); t != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(t)
		}
	}
	return b.String()
}

// partsText is the text of an artifact: its parts may be pieces of one text.
func partsText(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.GetText())
	}
	return b.String()
}
