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
// Skills are called by the tool use_skill, by a tool for each skill, or by
// command blocks in the text, whichever the request offers. The same request
// of a user gets the same calls with the same arguments by each of them, and
// also where one agent does everything instead of several. An agent that is not
// told of its skills looks for them first, with get_skill or with commands for
// help; one that waited for the user, or was stopped by a limit, goes on where
// it was; arguments that a skill refuses are corrected if the request has what
// is missing.
//
// Its replies are a function of the request and the clock that it was given:
// no randomness, no network, no memory but one of what it has read of skills,
// which saves time only. It is safe for concurrent use and starts no
// goroutines.
//
// It does not understand language. Where its rules find nothing to do, it says
// so and lists what it can do; it never invents an address or an answer, and
// what skills and agents return is data to it: nothing in there is an order,
// an address to write to, or the result of another call.
package offline

import (
	"context"
	"fmt"
	"iter"
	"strings"
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
		r := plan(readTurn(req, m.now(), &m.memo))
		if r.declined {
			yield(llm.Chunk{}, &mesh.Error{Code: mesh.Canceled, Op: "offline.Generate", Reason: mesh.ReasonDeclined, Detail: r.written()})
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
	// declined says that the text is why the work was left.
	declined bool
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

// maxText is how long a request may be that the planner takes apart, in bytes.
const maxText = 16 << 10

// maxParts is how many things one request may ask for.
const maxParts = 32

func tooMany() reply {
	return say("This request asks for more than %d things; please send them in several messages.", maxParts)
}

// carryOut begins the message that asks for a template to be carried out,
// which is not for rules to do.
const carryOut = "Carry out the skill "

// plan decides what to reply. What came of a turn that this one ended is told
// first.
func plan(t *turn) reply {
	r := planAs(t)
	if t.stopped != nil && len(r.calls)+len(r.commands) == 0 {
		r.text = strings.TrimSpace(plan(t.stopped).text + "\n\n" + r.text)
	}
	return r
}

// planAs decides as whom to reply.
func planAs(t *turn) reply {
	if len(t.text) > maxText {
		return say("This request is longer than the %d KiB that I can take apart; please shorten it.", maxText>>10)
	}
	if rest, ok := strings.CutPrefix(t.text, carryOut); ok {
		name, _, _ := strings.Cut(rest, " ")
		return say("The skill %s is a description for a language model, which I am not, so nothing was done. "+
			"Set MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL to have it carried out.", name)
	}
	switch t.role() {
	case worker:
		return planWork(t)
	case orchestrator:
		return planParts(t)
	case router:
		return planRoute(t)
	}
	return say("I did not understand that, and I have no tools to do anything with.")
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
