// Package offline is a planner that stands in for a language model when none
// is configured: it decides by rules, from words.
//
// It reads what users write, and nothing that the mesh writes for models: what an
// agent can do, what another one wants of it and why it goes on are data
// ([llm.About]). An agent that dispatches others takes a request apart and
// delegates the parts, one with skills fills in their arguments and calls them, one
// that can ask others routes. It knows no skill and no agent by name; it matches
// words to what it is told of them.
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
// transcript.
//
// Its replies are a function of the request and the clock that it was given:
// no randomness, no network, no memory. It is safe for concurrent use and starts
// no goroutines.
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// ModelName is what the planner calls itself.
const ModelName = "offline"

// A Model is the planner. Use [New].
type Model struct{ now func() time.Time }

var _ llm.Model = (*Model)(nil)

// New returns a planner that reads the time, and the location in which people
// mean their dates, from now; nil is the local clock.
func New(now func() time.Time) *Model {
	if now == nil {
		now = time.Now
	}
	return &Model{now}
}

// Generate streams the reply to the last message of the user. If the user was
// asked and did not say yes, an agent that another one dispatched ends with an
// error instead that tells what is done and what is not: a result is what others
// wait for to go on.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var r reply
		if t, err := readTurn(ctx, req, m.now()); err != nil {
			r = say("I cannot find out what can be done here, so I did nothing: %s", sentence(mesh.DetailOf(err)))
		} else {
			r = decide(t)
		}
		// What it quotes, of results or of what somebody said, is no block of commands.
		text := fenceOfCommands.ReplaceAllString(r.text, "$1 cmd")
		switch {
		case r.declined:
			yield(llm.Chunk{}, &mesh.Error{Code: mesh.Canceled, Op: "offline.Generate", Reason: mesh.ReasonDeclined, Detail: text})
			return
		case r.failed != "":
			yield(llm.Chunk{}, &mesh.Error{Code: mesh.Precondition, Op: "offline.Generate", Reason: r.failed, Detail: text})
			return
		case r.ask:
			yield(llm.Chunk{Done: &llm.Done{Finish: llm.FinishAsk, Ask: text, Model: ModelName}}, nil)
			return
		}
		for _, piece := range pieced(text) {
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

var fenceOfCommands = regexp.MustCompile("(`{3,})cmd")

// A reply is what the planner decided: words for the user, and calls.
type reply struct {
	text     string
	calls    []toolCall
	ask      bool   // the text asks the user
	declined bool   // the text is why the work was left
	failed   string // why the text is what could not be done, as of [mesh.ReasonSkill]; "" if it is not
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

// unread is said of files, which no rule reads.
const unread = "(Without a language model I cannot read files, and have not read what came with the message: %s.)"

// decide decides what to reply. What came of a turn that this one ended is told
// first.
func decide(t *turn) reply {
	r := decideAs(t)
	if t.stopped != nil && len(r.calls) == 0 {
		r.text = strings.TrimSpace(decideAs(t.stopped).text + "\n\n" + r.text)
	}
	if len(t.files) > 0 && len(r.calls) == 0 {
		r.text = strings.TrimSpace(r.text + "\n\n" + fmt.Sprintf(unread, strings.Join(t.files, ", ")))
	}
	return r
}

// decideAs decides as whom to reply.
func decideAs(t *turn) reply {
	var r reply
	switch f := t.facts; {
	case len(t.text) > maxText:
		return say("This request is longer than the %d KiB that I can take apart; please shorten it.", maxText>>10)
	case t.about.Page != nil:
		return carryOut(t)
	case t.text == "" && len(t.files) > 0:
		return reply{}
	case f.Dispatches:
		return planParts(t)
	case f.Consults:
		r = planRoute(t)
	case f.Face != "" || len(f.Agents) > 0:
		r = planWork(t)
	default:
		return say("I did not understand that, and I have no tools to do anything with.")
	}
	if t.first && !t.serves && !r.ask && (len(r.calls) == 0 || r.calls[0].tool == toolHandoff) {
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
		panic("offline: " + err.Error()) // of texts, numbers and lists of them it never fails
	}
	return string(b)
}
