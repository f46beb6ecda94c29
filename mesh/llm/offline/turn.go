package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// The tools that the planner knows how to work with.
const (
	toolGetSkill   = "get_skill"
	toolDispatch   = "dispatch_agent"
	toolResults    = "get_agent_results"
	toolConsult    = "consult_agent"
	toolHandoff    = "request_handoff"
	toolUseSkill   = "use_skill"
	resultsHeading = "## results from prior agents"
	fence          = "```"
)

// A call is a tool call of the present turn, with what came of it.
type call struct {
	use    mesh.ToolUse
	args   map[string]any
	result string
	failed bool
	done   bool
}

// A round is one reply of the present turn with what its calls came to.
type round struct {
	from, to int    // its calls by tools, in turn.calls
	told     string // what its commands came to, or ""
}

// A turn is the request as the planner sees it: the user's last message and
// what was done about it so far.
type turn struct {
	text  string // what the user, or who delegates, asks for
	notes string // the rest of the message: context, not to be acted on
	// inputs are the results of the agents that this one waited for.
	inputs []string
	calls  []call
	rounds []round
	tools  []llm.Tool
	// earlier are the calls of former turns.
	earlier []mesh.ToolUse
	first   bool // the conversation has no answer yet
	final   bool // no call is made any more
	now     time.Time
	memo    *memo

	face    face
	listed  []skill  // the skills that the request describes
	domains []domain // and the domains that it names
}

type role uint8

const (
	nobody role = iota
	worker
	orchestrator
	router
)

func readTurn(req *llm.Request, now time.Time, known *memo) *turn {
	t := &turn{tools: req.Tools, first: true, now: now, memo: known}
	begin, end := t.span(req.Messages)
	for _, m := range req.Messages[:max(begin, 0)] {
		if m.Role == llm.RoleAssistant {
			t.first = false
			t.earlier = append(t.earlier, m.Tools...)
		}
	}
	if begin >= 0 {
		t.read(req.Messages[begin].Text)
	}
	for i, m := range req.Messages[begin+1:] {
		if m.Role == llm.RoleUser && m.ToolID == "" && i+begin+1 <= end {
			continue // the user's word to go on
		}
		t.happened(m)
	}
	t.readFace(req)
	return t
}

// limitMark is the id of the message that says that no command is run any more.
const limitMark = "limit"

// happened adds a message that came after the user's.
func (t *turn) happened(m llm.Message) {
	switch m.Role {
	case llm.RoleAssistant:
		from := len(t.calls)
		for _, u := range m.Tools {
			c := call{use: u}
			_ = json.Unmarshal([]byte(u.Arguments), &c.args) // arguments that cannot be read name nothing
			t.calls = append(t.calls, c)
		}
		t.rounds = append(t.rounds, round{from: from, to: len(t.calls)})
	case llm.RoleTool:
		i := slices.IndexFunc(t.calls, func(c call) bool { return c.use.ID == m.ToolID && !c.done })
		if i >= 0 {
			c := &t.calls[i]
			c.result, c.done = strings.TrimSpace(m.Text), true
			c.failed = m.Failed || strings.HasPrefix(c.result, "Error:")
		}
	case llm.RoleUser:
		if m.ToolID == limitMark {
			t.final = true
		} else if n := len(t.rounds); n > 0 {
			t.rounds[n-1].told = m.Text
		}
	}
}

// span returns where the turn begins: at the last message that the user wrote,
// or, if that only answers whether to go on with what was cut, at the one
// before. Then end is where the answer is, and otherwise it is begin.
func (t *turn) span(messages []llm.Message) (begin, end int) {
	end = written(messages, len(messages))
	for begin = end; begin > 0; {
		before := written(messages, begin)
		last := messages[begin-1]
		cut := last.Role == llm.RoleTool || last.Role == llm.RoleUser && last.ToolID != "" || last.Role == llm.RoleAssistant && len(last.Tools) > 0
		if last.Role == llm.RoleUser && last.ToolID == "" { // it was asked more than once
			cut, _ = goOn(last.Text)
		}
		yes, no := goOn(messages[begin].Text)
		if before < 0 || !cut || !yes && !no {
			break
		}
		t.final = t.final || no
		begin = before
	}
	return begin, end
}

// written returns the place of the last message before end that the user wrote,
// or -1.
func written(messages []llm.Message, end int) int {
	for i := end - 1; i >= 0; i-- {
		if messages[i].Role == llm.RoleUser && messages[i].ToolID == "" {
			return i
		}
	}
	return -1
}

var (
	yesWords = set("yes y yep yeah ok okay sure continue proceed resume ahead")
	noWords  = set("no n nope stop cancel abort don't not never")
	asides   = set("please go on it do that thanks thank you keep going with i and so , . !")
)

// goOn reads an answer to whether to go on.
func goOn(text string) (yes, no bool) {
	const most = 6
	tokens := tokenize(text)
	for _, t := range tokens {
		switch {
		case noWords[t.low]:
			no = true
		case yesWords[t.low]:
			yes = true
		case !asides[t.low]:
			return false, false
		}
	}
	if len(tokens) > most {
		return false, false
	}
	return (yes || newClause(text).begins("go on") > 0) && !no, no
}

var resultHead = regexp.MustCompile(`^(?:#+ )?Results? from [^\n:]{1,120}:[ \t]*`)

// read takes a message apart: what to do, context, and at the end the results
// of other agents. These are data: nothing in them is a heading, so that no
// agent can slip the next one a mission.
func (t *turn) read(text string) {
	var mission, notes []string
	section := &mission
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		head := strings.ToLower(strings.TrimSpace(line))
		if head == resultsHeading {
			t.inputs = results(lines[i+1:])
			break
		}
		switch {
		case strings.HasPrefix(head, "## mission") || strings.HasPrefix(head, "## task"):
			section = &mission
		case strings.HasPrefix(head, "## ") || head == "context:":
			section = &notes
		default:
			*section = append(*section, line)
		}
	}
	t.text = strings.TrimSpace(strings.Join(mission, "\n"))
	t.notes = strings.TrimSpace(strings.Join(notes, "\n"))
}

// results returns what other agents found, without the fences around it.
func results(lines []string) []string {
	var all, one []string
	end := func() {
		if in := strings.TrimSpace(strings.Join(one, "\n")); in != "" {
			all = append(all, in)
		}
		one = nil
	}
	fenced := false
	for _, line := range lines {
		switch head := resultHead.FindString(line); {
		case strings.TrimSpace(line) == fence:
			fenced = !fenced
		case !fenced && head != "":
			end()
			one = append(one, line[len(head):])
		default:
			one = append(one, line)
		}
	}
	end()
	return all
}

// tool returns the tool with the name, or nil.
func (t *turn) tool(name string) *llm.Tool {
	i := slices.IndexFunc(t.tools, func(x llm.Tool) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &t.tools[i]
}

// role is told by the tools and the prompt, or, when a limit took the tools
// away, by what was called before.
func (t *turn) role() role {
	has := func(name string) bool {
		return t.tool(name) != nil || len(t.tools) == 0 && len(t.called(name)) > 0
	}
	switch {
	case has(toolDispatch):
		return orchestrator
	case t.face != noFace:
		return worker
	case has(toolConsult) || has(toolHandoff):
		return router
	case has(toolGetSkill) || has(toolResults):
		return orchestrator
	}
	return nobody
}

// alone reports whether the agent has both skills and the user: it works
// without others.
func (t *turn) alone() bool {
	return t.face != noFace && (t.tool(toolHandoff) != nil || t.tool(toolGetSkill) != nil)
}

// called returns the calls of the tool in this turn that have ended.
func (t *turn) called(name string) []call {
	var out []call
	for _, c := range t.calls {
		if c.use.Name == name && c.done {
			out = append(out, c)
		}
	}
	return out
}

func (c *call) arg(name string) string {
	s, _ := c.args[name].(string)
	return s
}

// encode writes arguments as JSON. It is only given what JSON can hold.
func encode(args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// quoteShort quotes what somebody said, shortened.
func quoteShort(s string) string { return "“" + clip(squeeze(s), 80) + "”" }

// sentence ends s with a full stop if it has no mark of its own.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?:") {
		return s
	}
	return s + "."
}

// listed joins words as "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
