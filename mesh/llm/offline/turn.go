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
	toolGetSkill = "get_skill"
	toolDispatch = "dispatch_agent"
	toolResults  = "get_agent_results"
	toolConsult  = "consult_agent"
	toolHandoff  = "request_handoff"
	toolUseSkill = "use_skill"
)

// A call is a call of the present turn, by a tool or by a command, with what
// came of it.
type call struct {
	use    mesh.ToolUse
	args   map[string]any
	skill  string // that it uses, or ""
	help   string // what it asks about skills, or ""
	result string
	failed bool
	done   bool
}

func (c *call) arg(name string) string {
	s, _ := c.args[name].(string)
	return s
}

// A face is the way in which the skills of a request are called.
type face uint8

const (
	noFace    face = iota
	byUse          // by the tool use_skill
	byTool         // by a tool for each skill
	byCommand      // by lines of command blocks in the text
)

// A turn is the request as the planner sees it: what the user wants, what the
// user answered since, and what was done about it so far.
type turn struct {
	text    string   // what the user, or who delegates, asks for
	answers []string // what the user said to the questions of the planner
	steps   []*step  // what is to be done, if who delegates says it so
	// results are those of the agents that this one waited for, by id.
	results    map[string]string
	calls      []call
	earlier    []mesh.ToolUse // calls of former turns
	tools      []llm.Tool
	first      bool  // the conversation has no answer yet
	final      bool  // no call is made any more
	ended      bool  // because the user did not say yes
	dispatched bool  // the agent works for one that talks to the user
	stopped    *turn // the turn that this one ended
	now        time.Time
	memo       *memo

	face    face
	listed  []skill  // the skills that the request describes
	domains []domain // and the domains that it names
}

// limitMark is the id of the message that says that no command is run any more.
const limitMark = "limit"

func readTurn(req *llm.Request, now time.Time, known *memo) *turn {
	t := &turn{tools: req.Tools, first: true, now: now, memo: known}
	t.readFace(req)
	t.dispatched = t.tool(toolDispatch) != nil || isDispatched(req.System)
	begin := written(req.Messages, len(req.Messages))
	other := -1 // where the user said something else than was asked
	for at := begin; at > 0; {
		before := written(req.Messages, at)
		kind := waits(req.Messages[:at])
		if kind == nothing || before < 0 {
			break
		}
		text := req.Messages[at].Text
		switch answer := mesh.AnswerOf(text); {
		case kind == forAnswer:
			t.answers = slices.Insert(t.answers, 0, text)
		case answer == mesh.AnswerOther && !t.dispatched && at == begin:
			other = at
		case answer != mesh.AnswerYes:
			t.final, t.ended = true, true
		}
		at, begin = before, before
		if other >= 0 {
			break
		}
	}
	if other >= 0 {
		return t.instead(req, other, now, known)
	}
	for _, m := range req.Messages[:max(begin, 0)] {
		if m.Role == llm.RoleAssistant {
			t.first = false
			t.earlier = append(t.earlier, m.Tools...)
		}
	}
	if begin >= 0 {
		t.readText(req.Messages[begin].Text)
	}
	for i := begin + 1; i < len(req.Messages); i++ {
		t.happened(req.Messages, i)
	}
	if t.face != noFace && len(req.Tools) == 0 && t.face != byCommand {
		t.final = true // a limit took the tools away
	}
	return t
}

// instead is the turn of what the user wrote when asked something else: what
// waited is over.
func (t *turn) instead(req *llm.Request, at int, now time.Time, known *memo) *turn {
	before := *req
	before.Messages = req.Messages[:at]
	stopped := readTurn(&before, now, known)
	stopped.final, stopped.ended = true, true
	next := *t
	next.answers, next.first, next.stopped = nil, false, stopped
	next.readText(withoutAnswer(req.Messages[at].Text))
	for i := at + 1; i < len(req.Messages); i++ {
		if byUser(&req.Messages[i]) {
			continue
		}
		next.happened(req.Messages, i)
	}
	for _, m := range req.Messages[:at] {
		next.earlier = append(next.earlier, m.Tools...)
	}
	return &next
}

var answerHead = regexp.MustCompile(`^([^,;.!:\n–—]{1,40})[,;.!:\n–—]+\s*`)

// withoutAnswer takes a yes or no off the beginning of what the user wants:
// "no, create a task to call Dave".
func withoutAnswer(text string) string {
	m := answerHead.FindStringSubmatch(text)
	if m == nil || len(m[0]) == len(text) || mesh.AnswerOf(m[1]) == mesh.AnswerOther || newClause(m[1]).order() != "" || negations[strings.ToLower(m[1])] && !strings.EqualFold(m[1], "no") || strings.EqualFold(m[1], "stop") {
		return text
	}
	return text[len(m[0]):]
}

// What the user's next message would be.
type waiting uint8

const (
	nothing   waiting = iota
	forAnswer         // the answer to a question of the planner
	forWord           // the word to go on, or to make a call
)

// waits tells what the user was asked at the end of the messages: by the planner
// itself, or by the mesh, because calls wait or a limit was met.
func waits(messages []llm.Message) waiting {
	last := &messages[len(messages)-1]
	switch {
	case byUser(last): // it was asked more than once, or nothing came of the message
		if len(messages) > 1 {
			return waits(messages[:len(messages)-1])
		}
		return nothing
	case last.Role == llm.RoleAssistant && last.Asks == llm.FinishAsk:
		return forAnswer
	case last.Role == llm.RoleAssistant:
		if len(last.Tools) > 0 || asksToGoOn(last) {
			return forWord
		}
		return nothing
	}
	for _, m := range slices.Backward(messages) { // the results of calls
		if m.Role == llm.RoleAssistant || byUser(&m) {
			break
		}
		if ofAnotherTask(m.Text) {
			return nothing
		}
	}
	return forWord
}

// byUser reports whether the user wrote the message.
func byUser(m *llm.Message) bool { return m.Role == llm.RoleUser && m.ToolID == "" }

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

// happened adds a message that came after the user's.
func (t *turn) happened(messages []llm.Message, i int) {
	m := &messages[i]
	switch {
	case m.Role == llm.RoleAssistant:
		for _, u := range m.Tools {
			c := call{use: u}
			_ = json.Unmarshal([]byte(u.Arguments), &c.args) // arguments that cannot be read name nothing
			switch {
			case u.Name == toolUseSkill:
				c.skill = c.arg("skill")
			case u.Name == toolGetSkill:
				c.help = toolGetSkill
			case skillTool.MatchString(u.Name):
				c.skill = strings.ReplaceAll(u.Name, "-", ".")
			}
			t.calls = append(t.calls, c)
		}
	case m.Role == llm.RoleTool:
		at := slices.IndexFunc(t.calls, func(c call) bool { return c.use.ID == m.ToolID && !c.done })
		if at >= 0 {
			c := &t.calls[at]
			c.result, c.done = strings.TrimSpace(m.Text), true
			c.failed = m.Failed || strings.HasPrefix(c.result, "Error:")
		}
	case m.ToolID == limitMark:
		t.final = true
	case !byUser(m) && i > 0: // the results of commands
		reply := i - 1
		for reply > 0 && messages[reply].Role == llm.RoleTool {
			reply--
		}
		names, help := namesIn(messages[reply].Text)
		for n, result := range commandResults(m.Text, names) {
			c := call{skill: names[n], result: result, failed: failedCommand(result), done: true}
			if help[n] {
				c.skill, c.help = "", names[n]
			}
			t.calls = append(t.calls, c)
		}
	}
}

// readText takes the message apart, if it is from an agent: what a user writes or
// pastes has no sections.
func (t *turn) readText(text string) {
	t.text, t.results, t.steps = strings.TrimSpace(text), nil, nil
	if !t.dispatched {
		return
	}
	var answers []string
	t.text, answers = withAnswers(t.text)
	t.answers = append(answers, t.answers...)
	if t.tool(toolDispatch) != nil {
		return
	}
	var context string
	t.text, context, t.results = sections(t.text)
	var steps []*step
	if strings.HasPrefix(context, "[{") && json.Unmarshal([]byte(context), &steps) == nil {
		t.steps = steps
	}
}

// tool returns the tool with the name, or nil.
func (t *turn) tool(name string) *llm.Tool {
	i := slices.IndexFunc(t.tools, func(x llm.Tool) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &t.tools[i]
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

// alone reports whether the agent has both skills and the user.
func (t *turn) alone() bool {
	return t.face != noFace && (t.tool(toolHandoff) != nil || t.tool(toolGetSkill) != nil)
}

var skillTool = regexp.MustCompile(`^[a-z][a-z0-9_]*-[a-z][a-z0-9_]*$`)

// readFace finds out how the request's skills are called, and which of them it
// describes.
func (t *turn) readFace(req *llm.Request) {
	if listing, ok := commandSkills(req.System); ok {
		t.face, t.domains = byCommand, domainsIn(listing)
		t.listed = t.memo.skills(listing, usagesIn)
		return
	}
	if def := t.tool(toolUseSkill); def != nil {
		t.face, t.domains = byUse, domainsIn(def.Description)
		t.listed = t.memo.skills(def.Description, func(string) []skill { return describedIn(def) })
		return
	}
	for i := range req.Tools {
		if def := &req.Tools[i]; skillTool.MatchString(def.Name) {
			t.face = byTool
			t.listed = append(t.listed, t.memo.skills(def.Name+"\n"+def.Description+"\n"+string(def.Parameters), func(string) []skill {
				return []skill{{Name: strings.ReplaceAll(def.Name, "-", "."), Description: squeeze(def.Description), Parameters: schemaParams(def.Parameters)}}
			})...)
		}
	}
	if len(req.Tools) > 0 {
		return
	}
	for i := range req.Messages { // a limit took the tools away: what was called tells which there were
		for _, u := range req.Messages[i].Tools {
			switch {
			case u.Name == toolUseSkill:
				t.face = byUse
			case skillTool.MatchString(u.Name) && t.face == noFace:
				t.face = byTool
			}
		}
	}
}

// A role is what an agent is there for, by the tools that it has or had.
type role uint8

const (
	nobody role = iota
	worker
	orchestrator
	router
)

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
