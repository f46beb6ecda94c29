// Package tokens counts the tokens of what a model is asked.
//
// A [Counter] uses one vocabulary, o200k_base, for every model: what other
// models make of a text differs by some percent, and a provider's own numbers
// correct that afterwards. Texts above [Exact] bytes are estimated from
// samples, rather too high than too low, so that counting stays cheap.
//
// A Counter is safe for concurrent use. It loads its vocabulary when it first
// counts, which takes some ten milliseconds and megabytes; a process needs one.
// It remembers the counts of some thousand texts, but not the texts: each
// request of a conversation has those of the one before.
package tokens

import (
	"hash/maphash"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"

	"agentmesh/mesh/llm"
)

// Exact is the size up to which a text is counted and not estimated, in bytes.
const Exact = 64 << 10

// What a protocol adds, in tokens: to a message, to a name or an id in it, to
// a call or a tool, and to a request.
const (
	perMessage = 4
	perName    = 1
	perTool    = 8
	perRequest = 3
)

// samples of sampleSize bytes are what a huge text is judged by.
const (
	samples    = 16
	sampleSize = 1 << 10
)

// maxKnown is of how many texts the counts are remembered.
const maxKnown = 8192

// A Counter counts tokens. Its zero value is ready; it must not be copied.
type Counter struct {
	once  sync.Once
	codec tokenizer.Codec // nil if the vocabulary cannot be loaded
	seed  maphash.Seed

	mu    sync.Mutex
	known map[fingerprint]int
}

// A fingerprint tells texts apart.
type fingerprint struct {
	hash uint64
	size int
}

// Text returns the tokens of s; for texts above Exact bytes an estimate that
// is rarely below.
func (c *Counter) Text(s string) int {
	if s == "" {
		return 0
	}
	c.load()
	key := fingerprint{maphash.String(c.seed, s), len(s)}
	c.mu.Lock()
	n, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return n
	}
	n = c.count(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[fingerprint]int{} // what is in use comes back with the next request
	}
	c.known[key] = n
	return n
}

// count is Text without memory.
func (c *Counter) count(s string) int {
	if len(s) <= Exact {
		return c.exact(s)
	}
	densest := 0.0
	for i := range samples {
		piece := sample(s, i)
		densest = max(densest, float64(c.exact(piece))/float64(len(piece)))
	}
	return min(len(s), int(math.Ceil(densest*float64(len(s)))))
}

// sample returns the i-th piece of s, from the beginning to the end.
func sample(s string, i int) string {
	from := i * (len(s) - sampleSize) / (samples - 1)
	to := from + sampleSize
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	return s[from:to]
}

// load makes the Counter ready.
func (c *Counter) load() {
	c.once.Do(func() {
		c.seed = maphash.MakeSeed()
		if codec, err := tokenizer.Get(tokenizer.O200kBase); err == nil {
			c.codec = codec
		}
	})
}

// exact returns the tokens of s. A text has at most as many as bytes.
func (c *Counter) exact(s string) int {
	if s == "" {
		return 0
	}
	c.load()
	if c.codec == nil {
		return len(s)
	}
	n, err := c.codec.Count(s)
	if err != nil {
		return len(s)
	}
	return n
}

// Message returns the tokens of a message with its files and calls.
func (c *Counter) Message(m llm.Message) int {
	n := perMessage + c.Text(m.Text)
	for _, f := range m.Files {
		if n += perMessage + c.Text(f.Words(len(f.Data) > 0)); len(f.Data) > 0 {
			n += llm.PictureTokens
		}
	}
	if m.Name != "" {
		n += perName + c.Text(m.Name)
	}
	if m.Role == llm.RoleTool {
		n += perName + c.Text(m.ToolID)
	}
	for _, u := range m.Tools {
		n += perTool + c.Text(u.ID) + c.Text(u.Name) + c.Text(u.Arguments)
	}
	return n
}

// Messages returns the tokens of all messages.
func (c *Counter) Messages(ms []llm.Message) int {
	n := 0
	for _, m := range ms {
		n += c.Message(m)
	}
	return n
}

// Tools returns the tokens of the definitions of tools.
func (c *Counter) Tools(ts []llm.Tool) int {
	n := 0
	for _, t := range ts {
		n += perTool + c.Text(t.Name) + c.Text(t.Description) + c.Text(string(t.Parameters))
	}
	return n
}

// Request returns the tokens of all that a model is asked.
func (c *Counter) Request(r *llm.Request) int {
	n := perRequest + c.Tools(r.Tools) + c.Messages(r.Messages)
	for _, s := range []string{r.System, r.Context, r.Fresh} {
		if s != "" {
			n += perMessage + c.Text(s)
		}
	}
	return n
}
