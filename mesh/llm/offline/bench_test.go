package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	meshskill "agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/skill/skilltest"
)

// friday is when the tests happen: Friday, 20 November 2026, 09:30 in a zone
// of its own.
func friday() time.Time {
	return time.Date(2026, 11, 20, 9, 30, 0, 0, time.FixedZone("here", 3600))
}

// planner serves all tests, also those that run at the same time: what it
// remembers of one must make no difference to another.
var planner = New(friday)

// bench runs requests with the skills that the mesh brings along: their pages
// and the executor are real, and their handlers remember the calls.
type bench struct {
	t        testing.TB
	skills   *meshskill.Catalog
	replies  map[string]string // what skills return
	found    map[string]string // and what they say of it for programs
	handlers map[string]meshskill.Handler
	strict   bool // see knowsItsTasks
	model    llm.Model
	handoffs bool // an agent that builds skills can be handed over to
	limited  bool // the limit of steps may be met

	mu      sync.Mutex
	calls   []string // "skill {arguments}", without those that are the default anyway
	handed  []string
	ordered []map[string]any // what was dispatched
	heard   []llm.Message    // what was said and done about the last message
}

func userSays(text string) llm.Message { return llm.Message{Role: llm.RoleUser, Text: text} }

// shipped are the pages of the skills in this repository.
var shipped = sync.OnceValues(func() (*meshskill.Catalog, []meshskill.Problem) {
	return meshskill.Load(os.DirFS("../../../skills"))
})

func newBench(t testing.TB) *bench {
	t.Helper()
	skills, problems := shipped()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return benchOf(t, skills)
}

func benchOf(t testing.TB, skills *meshskill.Catalog) *bench {
	b := &bench{t: t, skills: skills, model: planner, handlers: map[string]meshskill.Handler{}, replies: map[string]string{
		"tasks.search": "Overdue tasks: 2, as of 2026-11-20\n\n1. Buy milk (due 2026-11-18, todo) [t-ab2cd]\n2. Renew the \"main\" certificate's key (due 2026-11-19, todo) [t-xy3ef]",
		"calendar.list": "Events from 2026-11-20 00:00 to 2026-12-20 00:00: 2\n\n1. Mon 2026-11-23 10:00 to 11:00: Review [id 1a2b3c4d, version 9f8e]\n" +
			"2. Tue 2026-11-24 10:00 to 11:00: Lunch with Bob, with bob@evil.example [id 5e6f7a8b, version 1c2d]",
		"knowledge.search": "### 1. Limits > Rate limiting\nSource: limits.md:3\n\nSet rate_limit to configure rate limiting.\n\nSources: limits.md",
	}, found: map[string]string{
		"tasks.search":  `{"found":[{"id":"t-ab2cd","name":"Buy milk"},{"id":"t-xy3ef","name":"Renew the \"main\" certificate's key"}]}`,
		"calendar.list": `{"found":[{"id":"1a2b3c4d","name":"Review"},{"id":"5e6f7a8b","name":"Lunch with Bob"}]}`,
	}}
	for _, s := range skills.List() {
		b.handlers[s.Handler] = meshskill.HandlerFunc(func(_ context.Context, call *meshskill.Call, _ *meshskill.Env) (*meshskill.Result, error) {
			if id := call.Args["task_id"]; b.strict && slices.Contains([]string{"tasks.update", "tasks.delete", "tasks.archive"}, call.Skill) && id != "t-ab2cd" && id != "t-xy3ef" {
				return nil, mesh.Errorf(mesh.NotFound, "test", "there is no task %v", id)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.calls = append(b.calls, call.Skill+" "+plainJSON(b.chosen(call)))
			if r := b.replies[call.Skill]; r != "" {
				result := &meshskill.Result{Status: meshskill.StatusOK, Content: r}
				_ = json.Unmarshal([]byte(b.found[call.Skill]), &result.Metadata)
				return result, nil
			}
			return &meshskill.Result{Status: meshskill.StatusOK, Content: "Done with " + call.Skill + "."}, nil
		})
	}
	return b
}

// chosen are the arguments of the call that are not as the skill has them anyway.
func (b *bench) chosen(call *meshskill.Call) map[string]any {
	args := maps.Clone(call.Args)
	known, _ := b.skills.Get(call.Skill)
	for _, p := range known.Parameters {
		if got := strings.Trim(fmt.Sprint(args[p.Name]), "[]"); p.Default != "" && p.Default == got {
			delete(args, p.Name)
		}
	}
	return args
}

// way is how the mesh works and how models call skills in it; several says that
// main asks other agents.
type way struct {
	name    string
	face    llm.Face
	several bool
}

var ways = []way{
	{"several agents with use_skill", llm.FaceUseSkill, true},
	{"several agents with commands", llm.FaceCommands, true},
	{"alone with use_skill", llm.FaceUseSkill, false},
	{"alone with a tool for each skill", llm.FaceDirect, false},
	{"alone with commands", llm.FaceCommands, false},
}

// say lets the mesh answer the user.
func (b *bench) say(w way, history ...llm.Message) string {
	if w.several {
		return b.run(&benchTools{bench: b, tools: b.mainTools(), facts: b.mainFacts(), call: func(ctx context.Context, u mesh.ToolUse, args map[string]any) llm.ToolResult {
			return b.mainCall(ctx, w, u, args)
		}}, nil, history...)
	}
	tools := b.face(w, []string{"*"})
	if b.handoffs {
		tools.tools = append(tools.tools, llm.Tool{Name: toolHandoff})
		tools.facts.Agents = append(tools.facts.Agents, builder)
	}
	return b.run(tools, nil, history...)
}

// askMark begins the answers of runs that wait for the user.
const askMark = "ASKS: "

func (b *bench) run(tools *benchTools, mission *llm.Mission, history ...llm.Message) string {
	b.t.Helper()
	tools.executor = meshskill.NewExecutor(meshskill.Config{
		Journal:  skilltest.Journal{},
		Handlers: b.handlers, Allowed: tools.allowed,
		Lookup: func(_ context.Context, name string) (*meshskill.Skill, error) {
			if s, ok := b.skills.Get(name); ok {
				return s, nil
			}
			return nil, mesh.Errorf(mesh.NotFound, "test", "no such skill")
		},
	})
	loop := llm.Loop{Model: b.model, Tools: tools, About: about(tools.facts, mission), MaxSteps: 40}
	if tools.facts.Face == llm.FaceCommands {
		loop.Commands = benchCommands{}
	}
	answer := ""
	var heard []llm.Message
	defer func() { b.heard = heard }()
	for e, err := range loop.Run(b.t.Context(), history) {
		if err != nil {
			b.t.Errorf("loop: %v", err)
		}
		if e.Result != nil {
			heard = append(heard, llm.Message{Role: llm.RoleTool, ToolID: e.Result.Use.ID, Name: e.Result.Use.Name, Text: e.Result.Text, Failed: e.Result.Failed, Cause: e.Result.Cause, Metadata: e.Result.Metadata})
		}
		if e.Reply != nil {
			heard = append(heard, llm.Message{Role: llm.RoleAssistant, Text: e.Reply.Text, Tools: e.Reply.Tools, Asks: asked(e.Reply)})
			if e.Reply.Text != "" {
				answer = e.Reply.Text
			}
		}
		if e.Ask != nil {
			answer = askMark + e.Ask.Text
		}
		if e.Limit != nil && !b.limited {
			b.t.Error("the planner reached the limit of steps")
		}
	}
	return answer
}

// about are the facts of a request.
func about(f *llm.Facts, m *llm.Mission) llm.About {
	return llm.About{Mission: m, Facts: func(context.Context) (*llm.Facts, error) { return f, nil }}
}

// known are the skills of the patterns, as the mesh tells of them.
func (b *bench) known(patterns []string) []llm.Skill {
	var out []llm.Skill
	for _, s := range b.skills.Match(patterns) {
		k := llm.Skill{Name: s.Name, Description: s.Description, Tags: s.Tags, Tool: command.ToolName(s.Name), Reads: s.Access == "read", Asks: s.Confirm != ""}
		for _, p := range s.Parameters {
			k.Parameters = append(k.Parameters, llm.Parameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required, Default: p.Default, Enum: p.Enum})
		}
		out = append(out, k)
	}
	return out
}

// face offers the skills of the patterns as the mesh does.
func (b *bench) face(w way, patterns []string) *benchTools {
	set := &benchTools{bench: b, patterns: patterns, facts: &llm.Facts{Face: w.face, Skills: b.known(patterns)}}
	switch w.face {
	case llm.FaceDirect:
		for _, s := range set.facts.Skills {
			set.tools = append(set.tools, llm.Tool{Name: s.Tool})
		}
	case llm.FaceUseSkill:
		set.tools = []llm.Tool{{Name: toolUseSkill}}
	}
	return set
}

// benchTools calls skills by any face.
type benchTools struct {
	bench    *bench
	tools    []llm.Tool
	facts    *llm.Facts
	patterns []string
	executor *meshskill.Executor
	// call runs tools that are not for skills.
	call func(ctx context.Context, u mesh.ToolUse, args map[string]any) llm.ToolResult
}

func (s *benchTools) allowed(name string) bool {
	return slices.ContainsFunc(s.patterns, func(p string) bool { return mesh.SkillMatches(p, name) })
}

func (s *benchTools) List(context.Context) []llm.Tool { return s.tools }

func (s *benchTools) Call(ctx context.Context, u mesh.ToolUse) llm.ToolResult {
	var args map[string]any
	if err := json.Unmarshal([]byte(u.Arguments), &args); err != nil {
		return llm.ToolResult{Text: err.Error(), Failed: true}
	}
	switch {
	case s.call != nil:
		return s.call(ctx, u, args)
	case u.Name == toolHandoff:
		s.bench.handed = append(s.bench.handed, fmt.Sprint(args["agent"]))
		return llm.ToolResult{Text: "handed over", Stop: true}
	case u.Name == toolUseSkill || u.Name == llm.CommandTool:
		values, _ := args["arguments"].(map[string]any)
		return s.use(ctx, fmt.Sprint(args["skill"]), values)
	}
	return s.use(ctx, command.SkillName(u.Name), args)
}

func (s *benchTools) use(ctx context.Context, name string, args map[string]any) llm.ToolResult {
	r := s.executor.Execute(ctx, &meshskill.Call{Skill: name, Args: args}, &meshskill.Env{})
	metadata := ""
	if r.Metadata != nil {
		metadata = toJSON(r.Metadata)
	}
	return llm.ToolResult{Text: r.Content, Failed: r.Failed(), Metadata: metadata}
}

// benchCommands reads command blocks as the mesh does.
type benchCommands struct{}

func (benchCommands) Split() llm.Splitter { return &benchSplitter{} }

type benchSplitter struct{ command.Splitter }

func (s *benchSplitter) Close() (text string, calls []mesh.ToolUse, problem string) {
	text, lines, err := s.Splitter.Close()
	for _, l := range lines {
		calls = append(calls, mesh.ToolUse{Name: llm.CommandTool, Arguments: toJSON(map[string]string{"line": l.Raw})})
	}
	if err != nil {
		problem = err.Error()
	}
	return text, calls, problem
}

func (benchCommands) Results(results []*llm.CallResult) llm.Message {
	var parts []string
	for _, r := range results {
		var args struct{ Line string }
		_ = json.Unmarshal([]byte(r.Use.Arguments), &args)
		parts = append(parts, "[Command Result: "+strings.Fields(args.Line + " cmd")[0]+"]\n"+r.Text)
	}
	return llm.Message{Role: llm.RoleUser, Text: strings.Join(parts, "\n\n")}
}

// plainJSON is JSON without escapes for HTML.
func plainJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// asked is what the message of a reply says of it.
func asked(r *mesh.ModelReplied) string {
	if r.Finish == llm.FinishAsk {
		return llm.FinishAsk
	}
	return ""
}
