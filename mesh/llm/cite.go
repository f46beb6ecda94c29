package llm

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// A Passage is a piece of a document that a call found: an answer cites it as [Number].
type Passage struct {
	Number   uint64 `json:"number"`
	Document string `json:"document"`
	Section  string `json:"section"`
	Path     string `json:"path"`
	// Line or Page is where it begins; the other one is 0.
	Line int    `json:"line"`
	Page int    `json:"page"`
	Text string `json:"text"`
}

// PassagesOf returns the passages that the metadata of a result has.
func PassagesOf(metadata string) []Passage {
	var m struct {
		Passages []Passage `json:"passages"`
	}
	if !strings.Contains(metadata, `"passages"`) || json.Unmarshal([]byte(metadata), &m) != nil {
		return nil
	}
	return m.Passages
}

// A citer puts sources in place of what a model cites: only passages that the model was given in
// the run are sources, whatever the model or a document says. What cites nothing that is known is left out.
// Nothing of code and of quoted lines is a citation. Where the model was given no passage, the text
// stays as it is.
type citer struct {
	known map[uint64]*Passage // nil for a number of several passages
	cited []*Passage          // the first is [1]

	held  string // what may become a citation
	line  string // the beginning of the line, as far as it tells what the line is
	begun bool   // the line has begun with something else
	fence string // what ends the block of code that we are in
	ticks int    // of the run of backticks that began the code that we are in, or 0
	run   int    // of backticks, so far
	tick  bool   // the line has a backtick behind its beginning
}

// Bounds of a citation, and of a title among the sources, in bytes.
const (
	maxHeld  = 200
	maxTitle = 200
)

var (
	citation  = regexp.MustCompile(`^ ?\[(\d{1,20}(?:, ?\d{1,20})*)\]$`)
	beginning = regexp.MustCompile(`^ ?(\[[\d, ]*)?$`)
)

// learn takes in the passages of the results since the user wrote last.
func (c *citer) learn(messages []Message) {
	c.known = map[uint64]*Passage{}
	add := func(metadata string) {
		for _, p := range PassagesOf(metadata) {
			if old, ok := c.known[p.Number]; !ok {
				c.known[p.Number] = &p
			} else if old != nil && (old.Path != p.Path || old.Line != p.Line || old.Page != p.Page) {
				c.known[p.Number] = nil
			}
		}
	}
	for _, m := range messages[min(settled(messages), len(messages)):] {
		if m.Role == RoleTool && !m.Failed {
			add(m.Metadata)
		}
		for _, r := range m.Results {
			if r.Use.Name != AgentTool && !r.Failed {
				add(r.Metadata)
			}
		}
	}
	c.held, c.fence = "", ""
	c.beginLine()
}

// write takes a piece of a reply, and returns what is certain of it.
func (c *citer) write(piece string) string {
	if len(c.known) == 0 {
		return piece
	}
	var out strings.Builder
	for i := range len(piece) { // of bytes, since all that matters is ASCII
		c.take(&out, piece[i])
	}
	return out.String()
}

// close returns what was held back at the end of a reply.
func (c *citer) close() string {
	held := c.held
	c.held = ""
	return held
}

func (c *citer) take(out *strings.Builder, b byte) {
	if b == '\n' {
		out.WriteString(c.close())
		out.WriteByte(b)
		c.endLine()
		return
	}
	if b != '`' {
		c.endRun()
	}
	plain := c.fence == "" && c.ticks == 0 && !strings.HasPrefix(c.line, ">")
	if next := c.held + string(rune(b)); plain && b < 0x80 && (c.held != "" || b == ' ' && c.begun || b == '[') {
		if m := citation.FindStringSubmatch(next); m != nil {
			c.held, c.begun = "", true
			out.WriteString(c.cite(next[:strings.IndexByte(next, '[')], m[1]))
			return
		}
		if len(next) < maxHeld && beginning.MatchString(next) {
			c.held = next
			return
		}
	}
	if c.held != "" {
		out.WriteString(c.close())
		c.begun = true
		c.take(out, b) // which may begin another one
		return
	}
	out.WriteByte(b)
	c.note(b)
}

// note takes notice of what kind of line it is.
func (c *citer) note(b byte) {
	switch {
	case c.begun && b == '`':
		c.run, c.tick = c.run+1, true
	case c.begun || b == ' ' || b == '\t':
	default:
		c.line += string(rune(b))
		if b != '`' && b != '~' {
			c.begun, c.ticks = true, c.lead("`")
		}
	}
}

// lead is how many of the mark begin the line.
func (c *citer) lead(mark string) int { return len(c.line) - len(strings.TrimLeft(c.line, mark)) }

// endRun ends a run of backticks: it begins code, or ends that which as many began.
func (c *citer) endRun() {
	switch {
	case c.run == 0:
	case c.ticks == 0:
		c.ticks = c.run
	case c.ticks == c.run:
		c.ticks = 0
	}
	c.run = 0
}

func (c *citer) endLine() {
	ticks, tildes := c.lead("`"), c.lead("~")
	switch {
	case c.fence != "" && !c.begun && strings.HasPrefix(c.line, c.fence):
		c.fence = ""
	case c.fence == "" && (ticks >= 3 && !c.tick || tildes >= 3): // with another backtick it is code within the line
		c.fence = c.line[:max(ticks, tildes)]
	}
	c.beginLine()
}

func (c *citer) beginLine() { c.line, c.begun, c.ticks, c.run, c.tick = "", false, 0, 0, false }

// cite returns the numbers of those of the sources that there are, behind what was before them.
func (c *citer) cite(before, numbers string) string {
	var out string
	for number := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		p := c.known[n]
		if err != nil || p == nil {
			continue
		}
		at := slices.IndexFunc(c.cited, func(o *Passage) bool { return o.Number == n })
		if at < 0 {
			at, c.cited = len(c.cited), append(c.cited, p)
		}
		out += "[" + strconv.Itoa(at+1) + "]"
	}
	if out == "" {
		return ""
	}
	return before + out
}

// sources are what ends an answer that cites some.
func (c *citer) sources() string {
	if len(c.cited) == 0 {
		return ""
	}
	var all []string
	for i, p := range c.cited {
		title := p.Document
		if p.Section != "" {
			title += " > " + p.Section
		}
		all = append(all, text.Cited(i+1, p.Path, p.Line, p.Page, mesh.Clip(title, maxTitle)))
	}
	return text.Sources(all)
}
