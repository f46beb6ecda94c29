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
	ended   bool // because the user did not say yes
	// stopped is the turn that this one ended, because the user was asked
	// something and wrote this instead of a yes or no; it is final.
	stopped *turn
	// dispatched says that the agent works for one that talks to the user: what the
	// user answers is no mission of its.
	dispatched bool
	now        time.Time
	memo       *memo

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
	begin, end, final := span(req.Messages)
	t := &turn{tools: req.Tools, first: true, final: final, ended: final, now: now, memo: known}
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
		if byUser(&m) && i+begin+1 <= end || asksToGoOn(&m) {
			continue // the user's word to go on, and what it answers
		}
		t.happened(m)
	}
	t.readFace(req)
	t.dispatched = t.role() == orchestrator || strings.Contains(req.System, missionRule)
	if begin <= 0 || !waited(req.Messages[:begin]) {
		return t
	}
	// The user was asked, and said something else: what waited is over.
	before := *req
	before.Messages = req.Messages[:begin]
	stopped := readTurn(&before, now, known)
	stopped.final, stopped.ended = true, true
	if t.dispatched {
		return stopped
	}
	t.first, stopped.first = stopped.first, false
	t.stopped = stopped
	return t
}

// missionRule is how the prompts of agents that others dispatch tell them so.
const missionRule = "You do exactly one mission"

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
// or, if that only answers what the user was asked, at the one before. Then end is
// where the answer is, and otherwise it is begin. After an answer that is not a
// plain yes nothing more is done: final.
func span(messages []llm.Message) (begin, end int, final bool) {
	end = written(messages, len(messages))
	for begin = end; begin > 0 && waited(messages[:begin]); {
		before := written(messages, begin)
		answer := mesh.AnswerOf(messages[begin].Text)
		// What another answer follows at once went to a call that asked again.
		wanted := answer == mesh.AnswerOther && (begin == end || !byUser(&messages[begin+1]))
		if before < 0 || wanted {
			break
		}
		final = final || answer != mesh.AnswerYes
		begin = before
	}
	return begin, end, final
}

// waited reports whether the user was asked something at the end of the
// messages: calls were made that have no reply yet, or it was asked whether to go
// on after a limit.
func waited(messages []llm.Message) bool {
	last := &messages[len(messages)-1]
	switch {
	case byUser(last): // it was asked more than once, or nothing came of the message
		before := messages[:len(messages)-1]
		return len(before) > 0 && waited(before)
	case last.Role == llm.RoleAssistant:
		return len(last.Tools) > 0 || asksToGoOn(last)
	}
	for _, m := range slices.Backward(messages) { // the results of calls
		if m.Role == llm.RoleAssistant || byUser(&m) {
			break
		}
		if strings.Contains(m.Text, callWaits) || strings.Contains(m.Text, callLost) {
			return false
		}
	}
	return true
}

// What stands for the results of calls of another task: one that waits for an
// answer of its own, which this is not, or that was cut, and asks nothing.
const (
	callWaits = "it waits for the user's answer to an earlier task."
	callLost  = "The call was interrupted; it is not known whether it had an effect."
)

// byUser reports whether the user wrote the message.
func byUser(m *llm.Message) bool { return m.Role == llm.RoleUser && m.ToolID == "" }

// asksToGoOn reports whether the message is the mesh's own report of a limit,
// which comes in the name of the agent. Replies of the planner have no name,
// whatever they quote.
func asksToGoOn(m *llm.Message) bool {
	return m.Role == llm.RoleAssistant && m.Name != "" && len(m.Tools) == 0 && strings.Contains(m.Text, "Would you like me to continue")
}

// answerHead is what may be an answer before the rest of a message.
var answerHead = regexp.MustCompile(`^([^,;.!:\n–—]{1,40})[,;.!:\n–—]+\s*`)

// withoutAnswer takes a yes or no off the beginning of what the user wants:
// "no, create a task to call Dave". "Send: …" and "Don't: …" are no answers.
func withoutAnswer(text string) string {
	m := answerHead.FindStringSubmatch(text)
	if m == nil || len(m[0]) == len(text) || mesh.AnswerOf(m[1]) == mesh.AnswerOther {
		return text
	}
	if head := newClause(m[1]); len(verbOf(head)) > 0 || forbids(head) {
		return text
	}
	return text[len(m[0]):]
}

// written returns the place of the last message before end that the user wrote,
// or -1.
func written(messages []llm.Message, end int) int {
	for i := end - 1; i >= 0; i-- {
		if byUser(&messages[i]) {
			return i
		}
	}
	return -1
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
	t.text = withoutAnswer(strings.TrimSpace(strings.Join(mission, "\n")))
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
