package thread

import (
	"cmp"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	catalogue "agentmesh/mesh/text"
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

	parties map[mesh.ExecutionID]*Party
	lines   []*Line
	waiting []*Line             // what was said in turns that wait behind others
	dropped map[string]mesh.Seq // since when agents have none of their notes
	hole    mesh.Seq            // of the last event before output was left out, or 0
}

// A Line is what one side said, or one reply of a model.
type Line struct {
	Turn      mesh.ExecutionID // in which it was said
	Execution mesh.ExecutionID // whose words they are; "" for the user's and the turn's own
	Reply     *Reply           // nil for what was said
	Asks      string           // why the turn waits for its user with these words, or ""

	said  Utterance
	files []*a2apb.Part
	texts []*artifactText // follow said.Text
}

type artifactText struct {
	id    string
	text  strings.Builder
	files []*a2apb.Part
	last  mesh.Seq // of its last piece
}

// A Party is a turn or an execution in a Transcript, and what is known of it.
type Party struct {
	Turn    mesh.ExecutionID // that it is, or whose stream it has or had; or ""
	Agent   string
	Mission *a2apb.Message        // with which it was dispatched
	Replies []*Reply              // of its models
	Label   string                // as who dispatched it calls it
	Ended   *mesh.DispatchSettled // how it ended; nil while it has not
	Waits   bool                  // for its user
	Ran     mesh.Seq              // at which it got the message that it works on, or did last

	Read []Instruction // that its model read before its first reply

	needs  string // what it asks while it waits for help
	told   []Instruction
	stream *stream     // of the turn
	begun  bool        // a turn that was worked on: it does not wait behind others
	before int         // how many lines there were when it was dispatched
	noted  *mesh.Event // its last StateNoted
}

func (p *Party) join(s *stream) { p.Turn, p.stream = s.turn, s }

// Transcript returns the transcript of what comes after the event with the given
// Seq, at most s.Seq.
func (s *State) Transcript(after mesh.Seq) *Transcript {
	t := new(Transcript)
	for _, turn := range s.turns {
		if turn.Opened > after {
			break
		}
		st := turn.stream(after)
		p := t.know(turn.ID)
		p.join(&st)
		for _, l := range turn.Legs {
			if l.From <= after {
				p.begun = true
				leg := t.know(l.Execution)
				leg.join(&st)
				leg.Agent = l.Agent
			}
		}
	}
	return t
}

// Apply adds the next event and returns the line of what was said that it begins or
// goes on with, or nil.
func (t *Transcript) Apply(e *mesh.Event) *Line {
	t.Seq = e.Seq
	p := t.know(e.Execution)
	gave := p.stream != nil && p.stream.apply(e)
	switch b := e.Body.(type) {
	case mesh.ArtifactAppended:
		if p.stream != nil && p.stream.carries(e.Execution) {
			return t.output(e, p, b)
		}
	case mesh.TaskOpened:
		if p.stream == nil && opens(e, b.Execution) {
			p.join(&stream{turn: e.Execution})
		}
	case mesh.MessagePosted:
		l := t.say(e, p, Utterance{Role: RoleUser, Text: mesh.TextOf(b.Message)})
		l.files = MediaOf(e)
		return l
	case mesh.DispatchAccepted:
		t.know(b.Child.ID).Label = b.Child.Label
	case mesh.DispatchSettled:
		if child := t.know(b.Child); child.Ended == nil {
			child.Ended, child.needs = &b, ""
		}
	case mesh.DispatchIssued:
		child := t.know(b.Child.ID)
		child.Agent, child.Label, child.Mission, child.before, child.Ran = b.Child.Agent, b.Child.Label, b.Message, len(t.lines), e.Seq
		if gave {
			child.join(p.stream)
			t.begin(e.Execution, p)
		}
	case mesh.TaskMoved:
		if p.Waits = mesh.Interrupted(b.State); mesh.Terminal(b.State) && p.Ended == nil {
			p.Ended = &mesh.DispatchSettled{Child: e.Execution, State: b.State, Reason: b.Reason, Result: mesh.TextOf(b.Message)}
		}
		if p.needs = ""; p.Waits && b.Reason == mesh.ReasonHelp {
			p.needs = mesh.TextOf(b.Message)
		}
		if b.Reason == mesh.ReasonDelivered {
			p.Ran = e.Seq
		}
		if p.stream != nil && p.Turn == e.Execution {
			return t.moved(e, p, b)
		}
	case mesh.StateNoted:
		if len(b.Data) == 0 {
			t.forget(b.Agent, e.Seq)
		} else if p.Agent == b.Agent || p.Agent == "" {
			p.noted = e
		}
	case mesh.HandoffEnded:
		t.drop(e, b)
	case mesh.InstructionPosted:
		p.instruct(e, b)
	case mesh.ResultsDelivered:
		(*replies)(&p.Replies).apply(e)
		t.needed(p, b)
	default:
		if r := (*replies)(&p.Replies).apply(e); r != nil && p.stream != nil {
			t.lines = append(t.lines, &Line{Turn: p.Turn, Execution: e.Execution, Reply: r})
		}
	}
	return nil
}

// needed notes of a message to the party's model what those of its executions asked that
// wait for help.
func (t *Transcript) needed(p *Party, b mesh.ResultsDelivered) {
	if len(p.Replies) == 0 {
		return
	}
	all := p.Replies[len(p.Replies)-1].Told
	for _, id := range b.Executions {
		if needs := t.Party(id).needs; needs != "" {
			told := &all[len(all)-1]
			if told.Needs == nil {
				told.Needs = map[mesh.ExecutionID]string{}
			}
			told.Needs[id] = needs
		}
	}
}

// instruct notes what the party is told, and when it reads that.
func (p *Party) instruct(e *mesh.Event, b mesh.InstructionPosted) {
	if !b.Read {
		p.told = append(p.told, Instruction{ID: b.ID, By: b.By, Text: b.Text, Seq: e.Seq})
		return
	}
	at := slices.IndexFunc(p.told, func(i Instruction) bool { return i.ID == b.ID })
	if at < 0 {
		return
	}
	if n := len(p.Replies); n > 0 {
		p.Replies[n-1].Read = append(p.Replies[n-1].Read, p.told[at])
	} else {
		p.Read = append(p.Read, p.told[at])
	}
	p.told = slices.Delete(p.told, at, at+1)
}

// Party returns what is known of a turn or an execution.
func (t *Transcript) Party(id mesh.ExecutionID) *Party {
	return cmp.Or(t.parties[id], &Party{})
}

func (t *Transcript) know(id mesh.ExecutionID) *Party {
	p := t.parties[id]
	if p == nil {
		if t.parties == nil {
			t.parties = map[mesh.ExecutionID]*Party{}
		}
		p = new(Party)
		t.parties[id] = p
	}
	return p
}

// moved adds what a turn says of its state: a question, a failure, or an answer
// that nobody has said yet.
func (t *Transcript) moved(e *mesh.Event, p *Party, b mesh.TaskMoved) *Line {
	t.begin(e.Execution, p)
	text := mesh.TextOf(b.Message)
	says := p.Waits || b.State == a2apb.TaskState_TASK_STATE_FAILED || b.State == a2apb.TaskState_TASK_STATE_COMPLETED
	if !says || len(b.Message.GetParts()) == 0 || text != "" && t.hasJustSaid(e.Execution, text) {
		return nil
	}
	l := t.say(e, p, Utterance{Role: RoleAgent, Agent: p.stream.agent, Text: text})
	l.files = MediaOf(e)
	if p.Waits {
		l.Asks = mesh.ReasonOf(b.Reason, b.Metadata)
	}
	if said := replies(t.Party(p.stream.has).Replies); said.waits() { // its model knows by the calls what the user was asked
		l.Execution = p.stream.has
	}
	return l
}

// hasJustSaid reports whether the last words in the turn end with the text.
func (t *Transcript) hasJustSaid(turn mesh.ExecutionID, text string) bool {
	l := t.lastSaid()
	return l != nil && l.Turn == turn && l.said.Role == RoleAgent &&
		strings.HasSuffix(strings.TrimSpace(l.Utterance().Text), strings.TrimSpace(text))
}

// begin notes that the turn does not wait behind others any more: what its user
// said comes after what was said until now.
func (t *Transcript) begin(turn mesh.ExecutionID, p *Party) {
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

func (t *Transcript) say(e *mesh.Event, turn *Party, u Utterance) *Line {
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
func (t *Transcript) output(e *mesh.Event, p *Party, b mesh.ArtifactAppended) *Line {
	l := t.lastSaid()
	if l == nil || l.Execution != e.Execution {
		l = t.say(e, p, Utterance{Role: RoleAgent, Agent: p.stream.agent})
		l.Turn, l.Execution = p.Turn, e.Execution
	}
	id := b.Artifact.GetArtifactId()
	at := slices.IndexFunc(l.texts, func(a *artifactText) bool { return a.id == id })
	if at < 0 {
		at = len(l.texts)
		l.texts = append(l.texts, &artifactText{id: id})
	}
	a := l.texts[at]
	if !b.Append {
		a.text.Reset()
		a.files = nil
	} else if t.hole > 0 && a.last <= t.hole {
		a.text.WriteString(catalogue.Omitted())
	}
	a.last = e.Seq
	for _, p := range b.Artifact.GetParts() { // they may be pieces of one text
		a.text.WriteString(p.GetText())
	}
	a.files = append(a.files, MediaOf(e)...)
	return l
}

// LeaveOut says that the next event does not follow the last one: output was left out
// between them. Texts that go on say so where it was.
func (t *Transcript) LeaveOut() { t.hole = t.Seq }

// lastSaid is the last line that is no reply, or nil.
func (t *Transcript) lastSaid() *Line {
	for _, l := range slices.Backward(t.lines) {
		if l.Reply == nil {
			return l
		}
	}
	return nil
}

// Agent returns the agent who speaks; "" if it is the user.
func (l *Line) Agent() string { return l.said.Agent }

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
	p := t.Party(id)
	return slices.DeleteFunc(slices.Clone(t.lines[:p.before]), func(l *Line) bool { return l.Turn == p.Turn })
}

// In returns the lines of the turn.
func (t *Transcript) In(turn mesh.ExecutionID) []*Line {
	return slices.DeleteFunc(slices.Clone(t.lines), func(l *Line) bool { return l.Turn != turn })
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
		}
		switch b := e.Body.(type) {
		case mesh.DispatchAccepted:
			begins(b.Child.ID)
		case mesh.DispatchIssued:
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
