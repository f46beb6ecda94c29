package offline

import (
	"cmp"
	"context"
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
	toolDispatch = "dispatch_agent"
	toolResults  = "get_agent_results"
	toolConsult  = "consult_agent"
	toolHandoff  = "request_handoff"
	toolUseSkill = "use_skill"
)

// A call is a call of the present turn, with what came of it.
type call struct {
	tool     string
	skill    string // that it uses, or ""
	args     map[string]any
	id       string
	result   string
	metadata string
	cause    mesh.Cause
	failed   bool
	done     bool
}

func (c *call) arg(name string) string {
	s, _ := c.args[name].(string)
	return s
}

// A turn is the request as the planner sees it: what the user wants, what the
// user answered since, and what was done about it so far.
type turn struct {
	text    string            // what the user, or who delegates, asks for
	files   []string          // that came with it, by their names
	answers []string          // what the user said to the questions of the planner
	steps   []*step           // what is to be done, if who delegates says it so
	results map[string]string // of the agents that this one waited for, by id
	calls   []call
	taken   map[string]bool // ids of agents that were dispatched before
	first   bool            // the conversation has no answer yet
	final   bool            // no call is made any more
	ended   bool            // because the user did not say yes
	serves  bool            // the agent works for another one, or has others work
	stopped *turn           // the turn that this one ended
	now     time.Time
	about   *llm.About
	facts   *llm.Facts
	skills  []skill
}

// readTurn reads the request. The error is that of finding out what can be done.
func readTurn(ctx context.Context, req *llm.Request, now time.Time) (*turn, error) {
	t := &turn{now: now, about: &req.About, facts: &llm.Facts{}, taken: map[string]bool{}, first: true, final: req.About.Last}
	if req.About.Facts != nil {
		f, err := req.About.Facts(ctx)
		if err != nil {
			return nil, err
		}
		t.facts = f
	}
	t.skills = make([]skill, len(t.facts.Skills))
	for i, s := range t.facts.Skills {
		t.skills[i] = learn(s)
	}
	t.serves = t.facts.Dispatches || req.About.Mission != nil
	t.read(req.Messages)
	return t, nil
}

// read finds the message that the turn is for, and what happened since.
func (t *turn) read(messages []llm.Message) {
	begin := written(messages, len(messages))
	for at := begin; at > 0; {
		before := written(messages, at)
		kind := waits(messages[:at])
		if kind == nothing || before < 0 {
			break
		}
		text := messages[at].Text
		switch answer := mesh.AnswerOf(text); {
		case kind == forAnswer:
			t.answers = slices.Insert(t.answers, 0, text)
		case answer == mesh.AnswerOther && !t.serves && at == begin:
			t.instead(messages, at)
			return
		case answer != mesh.AnswerYes:
			t.final, t.ended = true, true
		}
		at, begin = before, before
	}
	t.before(messages[:max(begin, 0)])
	if m := t.about.Mission; m != nil {
		t.text, t.results, t.answers = m.Text, m.Results, slices.Concat(m.Answers, t.answers)
		if json.Unmarshal([]byte(m.Context), &t.steps) != nil { // words, which it may have as well
			t.steps = nil
		}
	} else if begin >= 0 {
		t.text = strings.TrimSpace(messages[begin].Text)
	}
	for _, m := range messages[max(begin, 0):] {
		for _, f := range m.Files {
			t.files = append(t.files, cmp.Or(f.Name, f.MediaType, "one without a name"))
		}
	}
	t.happened(messages[begin+1:])
}

// before takes in what was in the conversation before the turn.
func (t *turn) before(messages []llm.Message) {
	for _, m := range messages {
		t.first = t.first && m.Role != llm.RoleAssistant
		for _, u := range m.Tools {
			if id := t.callOf(u).arg("agent_id"); u.Name == toolDispatch {
				t.taken[id] = true
			}
		}
	}
}

// instead is the turn of what the user wrote when asked something else: what
// waited is over.
func (t *turn) instead(messages []llm.Message, at int) {
	stopped := *t
	stopped.answers = nil
	stopped.read(messages[:at])
	stopped.final, stopped.ended = true, true
	t.stopped, t.answers = &stopped, nil
	t.before(messages[:at])
	t.text = strings.TrimSpace(withoutAnswer(messages[at].Text))
	t.happened(messages[at+1:])
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
	for i, m := range slices.Backward(messages) {
		switch {
		case byUser(&m): // it was asked more than once, or nothing came of the message
			continue
		case m.Role == llm.RoleAssistant && m.Asks == llm.FinishAsk:
			return forAnswer
		case m.Role == llm.RoleAssistant && m.Asks == "" && len(m.Tools) == 0:
			return nothing
		case m.Role == llm.RoleAssistant:
			return forWord
		}
		for ; i >= 0 && messages[i].Role != llm.RoleAssistant && !byUser(&messages[i]); i-- {
			if c := messages[i].Cause; c == mesh.CauseWaiting || c == mesh.CauseInterrupted {
				return nothing // it stands for a call of another task
			}
		}
		return forWord
	}
	return nothing
}

// byUser reports whether the user wrote the message.
func byUser(m *llm.Message) bool { return m.Role == llm.RoleUser && m.ToolID == "" }

// written returns the place of the last message before end that the user wrote,
// or -1.
func written(messages []llm.Message, end int) int {
	for end--; end >= 0 && !byUser(&messages[end]); end-- {
	}
	return end
}

// callOf reads a call, whatever the face.
func (t *turn) callOf(u mesh.ToolUse) *call {
	c := &call{tool: u.Name, id: u.ID}
	_ = json.Unmarshal([]byte(u.Arguments), &c.args) // arguments that cannot be read name nothing
	if c.skill = c.arg("skill"); u.Name == toolUseSkill || u.Name == llm.CommandTool {
		c.args, _ = c.args["arguments"].(map[string]any)
		return c
	}
	c.skill = ""
	if i := slices.IndexFunc(t.facts.Skills, func(s llm.Skill) bool { return s.Tool == u.Name }); i >= 0 {
		c.skill = t.facts.Skills[i].Name
	}
	return c
}

// happened adds what was done.
func (t *turn) happened(messages []llm.Message) {
	for _, m := range messages {
		for _, u := range m.Tools {
			t.calls = append(t.calls, *t.callOf(u))
		}
		if m.Role == llm.RoleTool {
			at := slices.IndexFunc(t.calls, func(c call) bool { return c.id == m.ToolID && !c.done })
			if at >= 0 {
				t.calls[at].end(llm.ToolResult{Text: m.Text, Failed: m.Failed, Cause: m.Cause, Metadata: m.Metadata})
			}
		}
		for _, r := range m.Results {
			c := t.callOf(r.Use)
			c.end(r.ToolResult)
			t.calls = append(t.calls, *c)
		}
	}
}

func (c *call) end(r llm.ToolResult) {
	c.result, c.failed, c.cause, c.metadata, c.done = strings.TrimSpace(r.Text), r.Failed, r.Cause, r.Metadata, true
}

// called returns the calls of the tool in this turn that have ended.
func (t *turn) called(tool string) []call {
	return slices.DeleteFunc(slices.Clone(t.calls), func(c call) bool { return c.tool != tool || !c.done })
}

// uses returns the call that uses the skill.
func (t *turn) uses(s *step) toolCall {
	args := s.Arguments
	switch t.facts.Face {
	case llm.FaceDirect:
		return toolCall{s.skill.Tool, args}
	case llm.FaceCommands:
		line := s.Skill // for people, and for models that read it later
		for _, p := range s.skill.Parameters {
			if v, ok := args[p.Name]; ok {
				line += " --" + p.Name + " " + encode(v)
			}
		}
		return toolCall{llm.CommandTool, map[string]any{"line": line, "skill": s.Skill, "arguments": args}}
	}
	return toolCall{toolUseSkill, map[string]any{"skill": s.Skill, "arguments": args}}
}
