// Package window keeps requests within the context window of their model.
//
// A [Budget] says how many tokens a model may be sent, and [Trim] drops the
// oldest turns of a conversation until it fits: always whole turns, from one
// message of the user to the next, so that no call is parted from its result,
// and never the last one, however large it is. What is kept is the newest part
// of the conversation, unchanged and in order; of files in it, where that is not enough, as much as
// has room.
//
// Counting is an estimate. Where the provider told what the request before
// really came to, the estimate is corrected by it.
//
// The package has no state. It neither shortens what was said nor sums it up.
package window

import (
	"math"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// The budget of models whose window is not known (S3-056).
const (
	DefaultContext  = 8_000
	DefaultSystem   = 1_000
	DefaultResponse = 2_000
)

// What is used of windows that are known, and kept free in them for the
// response.
const (
	DefaultUtilisation = 0.85
	KnownResponse      = 4_096
)

// A Budget is how the window of a model is shared out, in tokens. A zero field
// is its default.
type Budget struct {
	// Context is the size of the window.
	Context int
	// System is what is reserved for the system prompt and the tools; if they
	// are larger, they get what they need.
	System int
	// Response is what is kept free for the reply.
	Response int
	// Utilisation is the part of Context that is used at all, above 0 and at
	// most 1, because counting is an estimate.
	Utilisation float64
}

// For returns the budget of the model: by the size in sizes, which the
// operator gives by the beginning of a model's name, or else by what is known
// of common models. A model that nobody knows gets a small window, all of
// which is used.
func For(model string, sizes map[string]int) Budget {
	size, ok := longest(sizes, model)
	if !ok {
		size, ok = longest(known(), model)
	}
	if !ok || size <= 0 {
		return Budget{Context: DefaultContext, System: DefaultSystem, Response: DefaultResponse, Utilisation: 1}
	}
	return Budget{
		Context: size, System: min(DefaultSystem, size/8), Response: min(KnownResponse, size/4),
		Utilisation: DefaultUtilisation,
	}
}

// longest finds the longest beginning of the model's name, which may have a
// vendor before it.
func longest(sizes map[string]int, model string) (int, bool) {
	for name := strings.ToLower(model); ; {
		for n := len(name); n > 0; n-- {
			if size, ok := sizes[name[:n]]; ok {
				return size, true
			}
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok {
			return 0, false
		}
		name = rest
	}
}

// known are windows of common models by the beginning of their names. Models
// that people run themselves are not here: their window is what the server was
// started with.
func known() map[string]int {
	return map[string]int{
		"claude-":   200_000,
		"deepseek-": 65_536,
		"gemini-2":  1_048_576, "gemini-3": 1_048_576,
		"gpt-3.5-turbo": 16_385, "gpt-4": 8_192, "gpt-4-turbo": 128_000, "gpt-4.1": 1_047_576,
		"gpt-4o": 128_000, "gpt-5": 400_000, "gpt-5-chat": 128_000, "gpt-oss": 131_072,
		"grok-3": 131_072, "grok-4": 256_000,
		"mistral-large": 131_072,
		"o1":            200_000, "o1-mini": 128_000, "o3": 200_000, "o4-mini": 200_000,
	}
}

// filled returns the budget with its defaults.
func (b Budget) filled() Budget {
	if b.Context <= 0 {
		b.Context = DefaultContext
	}
	if b.System <= 0 {
		b.System = DefaultSystem
	}
	if b.Response <= 0 {
		b.Response = DefaultResponse
	}
	if b.Utilisation <= 0 || b.Utilisation > 1 {
		b.Utilisation = DefaultUtilisation
	}
	return b
}

// Request is how many tokens a request may have.
func (b Budget) Request() int {
	b = b.filled()
	return int(float64(b.Context)*b.Utilisation) - b.Response
}

// History is what of it is left for messages, beside a system prompt with
// tools and a context of these sizes; it may be negative.
func (b Budget) History(system, context int) int {
	b = b.filled()
	return b.Request() - max(b.System, system) - context
}

// A Counter counts tokens, as a tokens.Counter does: at most one for each
// byte, and a few more for each message, call and tool.
type Counter interface {
	Text(s string) int
	Message(m llm.Message) int
	Tools(ts []llm.Tool) int
}

// Fit returns Trim for [llm.Loop].
func (b Budget) Fit(count Counter) func(req *llm.Request, last mesh.Usage) (dropped int) {
	return func(req *llm.Request, last mesh.Usage) int { return Trim(b, count, req, last) }
}

// Trim drops the oldest turns of the request until it fits the budget, then what is in the
// files of the last one, and returns how many messages it dropped. last is what the last reply in the
// request really used, or zero if that is not known: the estimate of
// everything is then corrected by it. Without it, trimming a second time drops
// nothing.
func Trim(b Budget, count Counter, req *llm.Request, last mesh.Usage) (dropped int) {
	cuts := turns(req.Messages)
	if len(cuts) == 0 && !slices.ContainsFunc(req.Messages, hasFiles) || fitsSurely(b, req, last) {
		return 0
	}
	e := estimate(count, req)
	f := e.correction(b, req.Messages, last)
	room := float64(b.History(int(f*float64(e.system)), int(f*float64(e.context))))
	left := f * float64(e.all)
	for _, cut := range cuts {
		if left <= room {
			break
		}
		for ; dropped < cut; dropped++ {
			left -= f * float64(e.messages[dropped])
		}
	}
	req.Messages = req.Messages[dropped:]
	req.Settled = max(0, req.Settled-dropped)
	if left > room {
		lighten(count, req, int(math.Ceil((left-room)/f)))
	}
	return dropped
}

// turns returns where messages may be cut: at messages that the user wrote,
// other than the first message of all.
func turns(messages []llm.Message) []int {
	var cuts []int
	for i, m := range messages {
		if i > 0 && m.Role == llm.RoleUser && m.ToolID == "" {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

// sizes are estimates of the parts of a request, in tokens.
type sizes struct {
	system   int // with the tools
	context  int // with what is fresh
	messages []int
	all      int // of the messages
}

func estimate(count Counter, req *llm.Request) sizes {
	e := sizes{
		system:   count.Text(req.System) + count.Tools(req.Tools),
		context:  count.Text(req.Context) + count.Text(req.Fresh),
		messages: make([]int, len(req.Messages)),
	}
	for i, m := range req.Messages {
		e.messages[i] = count.Message(m) + thoughts(m)/bytesOfThought
		e.all += e.messages[i]
	}
	return e
}

// bytesOfThought is how many bytes of a thought are a token: it is encrypted, and
// written in base 64.
const bytesOfThought = 4

// thoughts is the size of what the model thought, in bytes.
func thoughts(m llm.Message) int {
	n := 0
	for _, t := range m.Thoughts {
		n += len(t.Data)
	}
	return n
}

// Bounds of a correction: one that is further off comes from another request
// than the one it is taken for. The first tokens of a request count little,
// because some providers add to it what is not ours.
const (
	leastCorrection = 0.25
	mostCorrection  = 4
	uncounted       = 200
)

// correction is by what estimates have to be multiplied, according to what the
// last reply used: its request was all that comes before it.
func (e sizes) correction(b Budget, messages []llm.Message, last mesh.Usage) float64 {
	at := len(messages) - 1
	for at >= 0 && messages[at].Role != llm.RoleAssistant {
		at--
	}
	if last.Prompt <= 0 || at < 0 {
		return 1
	}
	before := e.system + e.context
	for _, n := range e.messages[:at] {
		before += n
	}
	f := float64(last.Prompt+uncounted) / float64(before+uncounted)
	if before > b.Request() {
		// That request was trimmed itself, and so smaller than what is here.
		f = max(f, 1)
	}
	return min(max(f, leastCorrection), mostCorrection)
}

// fitsSurely reports whether the request fits even if every byte is a token,
// so that the usual request need not be counted at all.
func fitsSurely(b Budget, req *llm.Request, last mesh.Usage) bool {
	const each, mostWords = 16, 1 << 10 // for what a message, a call or a tool adds, and for what is said of a file
	system := len(req.System)
	for _, t := range req.Tools {
		system += each + len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	rest := 0
	for _, m := range req.Messages {
		rest += each + len(m.Text) + len(m.Name) + len(m.ToolID) + thoughts(m)
		for _, f := range m.Files {
			if rest += mostWords + len(f.Text); len(f.Data) > 0 {
				rest += llm.PictureTokens
			}
		}
		for _, u := range m.Tools {
			rest += each + len(u.ID) + len(u.Name) + len(u.Arguments)
		}
	}
	f := 1
	if last.Prompt > 0 {
		f = mostCorrection
	}
	return f*rest <= b.History(f*system, f*(len(req.Context)+len(req.Fresh)))
}
