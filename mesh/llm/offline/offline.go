// Package offline is a planner that stands in for a language model when none
// is configured: it decides by rules, from words.
//
// It works with the same means as a real model and nothing else. What an agent
// is able to do shows in the request, and so does the role that the planner
// plays for it: with dispatch_agent it takes a request apart and delegates the
// parts, with skills it fills in their arguments and calls them, with
// consult_agent or request_handoff it routes. It knows no skill and no agent by
// name; it matches words to what it is told of them.
//
// # What it guarantees
//
// A request is read as a whole before anything of it is done, and each of its
// words is accounted for: it is the verb, names the kind of thing, went into an
// argument, or says nothing. If one is left over, the answer names it and
// nothing is done. Two times that are no span are asked about. What is missing is asked
// ([llm.Done].Ask), and the answers complete the request. What would be sent to
// somebody, or removed, is shown and asked about first. It never invents an
// address, a day or an answer, and what skills and agents return is data to it:
// nothing in there is an order.
//
// # How it works
//
// A text is cut into clauses (clause.go). A clause is read as a form of each
// skill that may be meant (form.go and its neighbours), and the reading that
// leaves the least open is a [job] of the [plan] (plan.go). The same history
// gives the same plan: what was done about it shows in the calls of the
// transcript. What has to be read from texts of the mesh is in prose.go.
//
// Its replies are a function of the request and the clock that it was given:
// no randomness, no network, no memory but one of what it has read of skills,
// which saves time only. It is safe for concurrent use and starts no
// goroutines.
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// ModelName is what the planner calls itself.
const ModelName = "offline"

// A Model is the planner. Use [New].
type Model struct {
	now  func() time.Time
	memo memo
}

var _ llm.Model = (*Model)(nil)

// New returns a planner that reads the time, and the location in which people
// mean their dates, from now; nil is the local clock.
func New(now func() time.Time) *Model {
	if now == nil {
		now = time.Now
	}
	return &Model{now: now}
}

// Generate streams the reply to the last message of the user. If the user was
// asked and did not say yes, an agent that another one dispatched ends with an
// error instead that tells what is done and what is not: a result is what others
// wait for to go on.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		r := decide(readTurn(req, m.now(), &m.memo))
		switch {
		case r.declined:
			yield(llm.Chunk{}, &mesh.Error{Code: mesh.Canceled, Op: "offline.Generate", Reason: mesh.ReasonDeclined, Detail: r.written()})
			return
		case r.ask:
			yield(llm.Chunk{Done: &llm.Done{Finish: llm.FinishAsk, Ask: r.written(), Model: ModelName}}, nil)
			return
		}
		for _, piece := range pieced(r.written()) {
			if err := ctx.Err(); err != nil {
				yield(llm.Chunk{}, mesh.Wrap("offline.Generate", err))
				return
			}
			if !yield(llm.Chunk{Text: piece}, nil) {
				return
			}
		}
		finish := "stop"
		for i, c := range r.calls {
			finish = "tool_calls"
			use := mesh.ToolUse{ID: fmt.Sprintf("offline-%d-%d", len(req.Messages), i), Name: c.tool, Arguments: encode(c.args)}
			if !yield(llm.Chunk{Tool: &use}, nil) {
				return
			}
		}
		yield(llm.Chunk{Done: &llm.Done{Finish: finish, Model: ModelName}}, nil)
	}
}

// A reply is what the planner decided: words for the user, and calls by tools
// or by commands. With commands, there are no words.
type reply struct {
	text     string
	calls    []toolCall
	commands []string
	ask      bool // the text asks the user
	declined bool // the text is why the work was left
}

// written returns the reply's text. Its only block of commands is the one of
// the planner's own: what it quotes, of results or of what somebody said, must
// not be taken for one.
func (r *reply) written() string {
	if len(r.commands) > 0 {
		return commandBlock(r.commands)
	}
	return inert(r.text)
}

type toolCall struct {
	tool string
	args map[string]any
}

func say(format string, args ...any) reply { return reply{text: fmt.Sprintf(format, args...)} }

// maxText is how long a request may be that the planner takes apart, in bytes,
// and maxParts how many things it may ask for.
const (
	maxText  = 16 << 10
	maxParts = 32
)

// notice is said in the first answer of a conversation.
const notice = "(I am the offline planner: I follow rules and understand little; " +
	"set MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL to use a language model.)"

// decide decides what to reply. What came of a turn that this one ended is told
// first.
func decide(t *turn) reply {
	r := decideAs(t)
	if t.stopped != nil && len(r.calls)+len(r.commands) == 0 {
		r.text = strings.TrimSpace(decideAs(t.stopped).text + "\n\n" + r.text)
	}
	return r
}

// decideAs decides as whom to reply.
func decideAs(t *turn) reply {
	if len(t.text) > maxText {
		return say("This request is longer than the %d KiB that I can take apart; please shorten it.", maxText>>10)
	}
	if name := template(t.text); name != "" {
		return say("The skill %s is a description for a language model, which I am not, so nothing was done. "+
			"Set MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL to have it carried out.", name)
	}
	var r reply
	switch t.role() {
	case worker:
		r = planWork(t)
	case orchestrator:
		return planParts(t)
	case router:
		r = planRoute(t)
	default:
		return say("I did not understand that, and I have no tools to do anything with.")
	}
	if t.first && (t.role() == router || t.alone()) && len(r.commands) == 0 && !r.ask && (len(r.calls) == 0 || r.calls[0].tool == toolHandoff) {
		r.text = strings.TrimSpace(r.text + "\n\n" + notice)
	}
	return r
}

// pieced cuts text into pieces of a few words, as a model streams.
func pieced(text string) []string {
	const size = 32
	var out []string
	for len(text) > size {
		n := strings.IndexAny(text[size:], " \n")
		if n < 0 {
			break
		}
		out, text = append(out, text[:size+n+1]), text[size+n+1:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

// encode writes arguments as JSON. It is only given what JSON can hold.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// A memo remembers the skills that texts describe: the requests of a
// conversation tell the same again and again. It changes nothing but the time
// that a plan takes. It is safe for concurrent use, and a nil one remembers
// nothing.
type memo struct {
	mu    sync.Mutex
	known map[string][]skill
	size  int // of the texts, in bytes
}

// maxMemo bounds the texts that are remembered, in bytes.
const maxMemo = 4 << 20

// skills returns the skills of the text, learned, as read finds them there. They
// are shared: they are not to be changed.
func (m *memo) skills(text string, read func(string) []skill) []skill {
	if m != nil {
		m.mu.Lock()
		out, ok := m.known[text]
		m.mu.Unlock()
		if ok {
			return out
		}
	}
	var out []skill
	for _, s := range read(text) {
		out = append(out, learn(s))
	}
	if m == nil || len(text) > maxMemo/4 {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.size+len(text) > maxMemo {
		m.known, m.size = map[string][]skill{}, 0 // what is in use comes back with the next request
	}
	m.known[text] = out
	m.size += len(text)
	return out
}
