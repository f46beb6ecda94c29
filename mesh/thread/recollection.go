package thread

import (
	"bytes"
	"strings"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	catalogue "agentmesh/mesh/text"
)

// maxRecollection bounds what a Recollection keeps, in bytes of text: the newest.
const maxRecollection = 32 << 10

// A Recollection is what an agent was told and has said in its context of a thread, and
// nothing that it was not: for agents that have lost it. Use NewRecollection.
type Recollection struct {
	state State
	agent string
	until mesh.ExecutionID

	lines []recollected
	size  int
	cut   bool                          // there was more before
	posts []post                        // of users, the newest
	told  map[mesh.ExecutionID]mesh.Seq // when an execution was last told something
}

type recollected struct {
	of   mesh.ExecutionID
	own  bool // it is what the agent said
	text []byte
}

type post struct {
	turn mesh.ExecutionID
	seq  mesh.Seq
	text string
}

// NewRecollection returns what the agent has in its context before the execution. The
// thread's events go to Apply, in order, from the first one on.
func NewRecollection(agent string, before mesh.ExecutionID) *Recollection {
	return &Recollection{agent: agent, until: before, told: map[mesh.ExecutionID]mesh.Seq{}}
}

// Text is all of it as one message to the agent; "" if there is nothing.
func (r *Recollection) Text() string {
	said := make([]catalogue.Saying, len(r.lines))
	for i, l := range r.lines {
		said[i] = catalogue.Saying{Own: l.own, Text: strings.ToValidUTF8(string(l.text), "")}
	}
	return catalogue.Recollection(said, r.cut)
}

// Apply adds the next event.
func (r *Recollection) Apply(e *mesh.Event) {
	r.state.Apply(e)
	x := r.state.Execution(e.Execution)
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		r.post(e, b)
	case mesh.DispatchIssued:
		if child := r.state.Execution(b.Child.ID); r.has(child) && child.Issued == e.Seq {
			r.tell(child, e.Seq, strings.TrimSpace(Preamble(b.Message)+"\n"+mesh.TextOf(b.Message)))
		}
	case mesh.ArtifactAppended:
		if r.has(x) {
			r.say(x, textOf(b.Artifact), b.Append)
		}
	case mesh.TaskMoved:
		r.moved(e, x, b)
	case mesh.DispatchSettled:
		if child := r.state.Execution(b.Child); r.has(child) && child.Ended == e.Seq && b.State == a2apb.TaskState_TASK_STATE_COMPLETED && !r.spoke(child) {
			r.say(child, b.Result, false)
		}
	}
}

// has reports whether what the execution was told and said is part of it.
func (r *Recollection) has(x *Execution) bool {
	return x != nil && x.Remembers && x.Agent == r.agent && x.ID != r.until
}

func (r *Recollection) post(e *mesh.Event, b mesh.MessagePosted) {
	text := mesh.TextOf(b.Message)
	if text == "" {
		return
	}
	r.posts = append(r.posts, post{e.Execution, e.Seq, clipFront(text)})
	size := 0
	for _, p := range r.posts {
		size += len(p.text)
	}
	for size > maxRecollection {
		size -= len(r.posts[0].text)
		r.posts = r.posts[1:]
	}
}

// moved takes in the words with which an execution, or the turn for which it had the
// stream, moved, as far as they are the agent's: those of the node have a reason.
func (r *Recollection) moved(e *mesh.Event, x *Execution, b mesh.TaskMoved) {
	if x != nil && x.Kind == mesh.KindTurn && len(x.Legs) > 0 && mesh.Terminal(b.State) {
		x = r.state.Execution(x.Legs[len(x.Legs)-1].Execution)
	}
	switch {
	case !r.has(x):
	case b.Reason == mesh.ReasonDelivered:
		t := r.state.TurnOf(x.ID)
		var texts []string
		if b.Message != nil { // who dispatched it answers
			texts, t = []string{mesh.TextOf(b.Message)}, nil
		}
		for _, p := range r.posts {
			if t != nil && p.turn == t.ID && p.seq > r.told[x.ID] {
				texts = append(texts, p.text)
			}
		}
		r.tell(x, e.Seq, strings.Join(texts, "\n"))
	case b.Reason == "" && b.State != a2apb.TaskState_TASK_STATE_WORKING && b.State != a2apb.TaskState_TASK_STATE_CANCELED:
		words := strings.TrimSpace(mesh.TextOf(b.Message))
		if n := len(r.lines); r.spoke(x) && bytes.HasSuffix(bytes.TrimSpace(r.lines[n-1].text), []byte(words)) {
			return // it was said before
		}
		r.say(x, words, false)
	}
}

// spoke reports whether the execution's words are the last.
func (r *Recollection) spoke(x *Execution) bool {
	n := len(r.lines)
	return n > 0 && r.lines[n-1].own && r.lines[n-1].of == x.ID
}

func (r *Recollection) tell(x *Execution, at mesh.Seq, words string) {
	r.told[x.ID] = at
	r.add(recollected{of: x.ID, text: []byte(words)})
}

func (r *Recollection) say(x *Execution, words string, more bool) {
	if !r.spoke(x) {
		r.add(recollected{of: x.ID, own: true, text: []byte(words)})
		return
	}
	if !more && words != "" {
		words = "\n" + words
	}
	last := &r.lines[len(r.lines)-1]
	last.text = append(last.text, words...)
	r.trim(len(words))
}

func (r *Recollection) add(l recollected) {
	if len(l.text) > 0 {
		r.lines = append(r.lines, l)
		r.trim(len(l.text))
	}
}

// trim counts what was added, and makes room for it.
func (r *Recollection) trim(added int) {
	for r.size += added; r.size > maxRecollection; r.cut = true {
		excess, first := r.size-maxRecollection, &r.lines[0]
		if excess >= len(first.text) {
			r.size -= len(first.text)
			r.lines = r.lines[1:]
			continue
		}
		r.size -= excess
		first.text = first.text[excess:]
	}
}

// clipFront is the end of a text that is too long.
func clipFront(s string) string {
	if len(s) <= maxRecollection {
		return s
	}
	s = s[len(s)-maxRecollection:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// textOf is the text of an artifact, which may be pieces of one.
func textOf(a *a2apb.Artifact) string {
	var b strings.Builder
	for _, p := range a.GetParts() {
		b.WriteString(p.GetText())
	}
	return b.String()
}

// Preamble is what an agent that does not know the mesh is told before a message with
// which it takes over: why; "" for others.
func Preamble(m *a2apb.Message) string {
	about := m.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["handoff"].GetStructValue().GetFields()
	if summary := about["context_summary"].GetStringValue(); summary != "" {
		return "Context: " + summary
	}
	return ""
}
