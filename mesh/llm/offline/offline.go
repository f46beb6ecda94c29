// Package offline is a planner that stands in for a language model when none
// is configured: it decides by rules, from words.
//
// It works with the same tools as a real model and nothing else. What an agent
// is able to do shows in the tools of the request, and so does the role that
// the planner plays for it: with consult_agent or request_handoff it routes,
// with dispatch_agent it takes a request apart and delegates the parts, with
// use_skill it fills in the arguments of skills and calls them. It knows no
// skill and no agent by name; it matches words to what discovery tells about
// them.
//
// Its replies are a function of the request and the clock that it was given:
// no randomness, no network, no memory. It is safe for concurrent use and
// starts no goroutines.
//
// It does not understand language. Where its rules find nothing to do, it says
// so and lists what it can do; it never invents an address or an answer.
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
type Model struct{ now func() time.Time }

var _ llm.Model = (*Model)(nil)

// New returns a planner that reads the time, and the location in which people
// mean their dates, from now; nil is the local clock.
func New(now func() time.Time) *Model {
	if now == nil {
		now = time.Now
	}
	return &Model{now: now}
}

// Generate streams the reply to the last message of the user.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		r := plan(readTurn(req, m.now()))
		for _, piece := range pieced(r.text) {
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

// A reply is what the planner decided: words for the user, and calls.
type reply struct {
	text  string
	calls []toolCall
}

type toolCall struct {
	tool string
	args map[string]any
}

func say(format string, args ...any) reply { return reply{text: fmt.Sprintf(format, args...)} }

// maxText is how long a request may be that the planner takes apart, in bytes.
const maxText = 16 << 10

// plan decides as whom to reply.
func plan(t *turn) reply {
	if len(t.text) > maxText {
		return say("This request is longer than the %d KiB that I can take apart; please shorten it.", maxText>>10)
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
