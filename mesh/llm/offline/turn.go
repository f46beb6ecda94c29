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

// A turn is the request as the planner sees it: the user's last message and
// what was done about it so far.
type turn struct {
	text  string // what the user, or who delegates, asks for
	notes string // the rest of the message: context, not to be acted on
	// inputs are the results of the agents that this one waited for.
	inputs []string
	calls  []call
	tools  []llm.Tool
	// earlier are the calls of former turns.
	earlier []mesh.ToolUse
	first   bool // the conversation has no answer yet
	now     time.Time
}

type role uint8

const (
	nobody role = iota
	worker
	orchestrator
	router
)

func readTurn(req *llm.Request, now time.Time) *turn {
	t := &turn{tools: req.Tools, first: true, now: now}
	last := len(req.Messages) - 1
	for last >= 0 && req.Messages[last].Role != llm.RoleUser {
		last--
	}
	for _, m := range req.Messages[:max(last, 0)] {
		if m.Role == llm.RoleAssistant {
			t.first = false
			t.earlier = append(t.earlier, m.Tools...)
		}
	}
	if last >= 0 {
		t.read(req.Messages[last].Text)
	}
	for _, m := range req.Messages[last+1:] {
		switch m.Role {
		case llm.RoleAssistant:
			for _, u := range m.Tools {
				c := call{use: u}
				_ = json.Unmarshal([]byte(u.Arguments), &c.args)
				t.calls = append(t.calls, c)
			}
		case llm.RoleTool:
			i := slices.IndexFunc(t.calls, func(c call) bool { return c.use.ID == m.ToolID && !c.done })
			if i >= 0 {
				c := &t.calls[i]
				c.result, c.done = strings.TrimSpace(m.Text), true
				c.failed = m.Failed || strings.HasPrefix(c.result, "Error:")
			}
		}
	}
	return t
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

// role is told by the tools, or, when a limit took them away, by what was
// called before.
func (t *turn) role() role {
	has := func(name string) bool {
		return t.tool(name) != nil || len(t.tools) == 0 && len(t.called(name)) > 0
	}
	switch {
	case has(toolUseSkill):
		return worker
	case has(toolDispatch):
		return orchestrator
	case has(toolConsult) || has(toolHandoff):
		return router
	case has(toolGetSkill) || has(toolResults):
		return orchestrator
	}
	return nobody
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
