package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func source(name, description, handler string, tags string) string {
	return "---\nname: \"" + name + "\"\ndescription: \"" + description + "\"\nhandler: " + handler + "\ntags: [" + tags + "]\n" +
		"parameters:\n  - {name: to, type: string, required: true, description: \"an <address>\"}\n---\n# " + name + "\n\nDoes it.\n"
}

// office is a node with three skills, and an invocation that may call two.
func office(t *testing.T) (*node, *agent.Invocation, map[string]skill.Handler, *[]*skill.Call) {
	t.Helper()
	n, g := newNode(t), newGrant()
	n.addSkill(t, source("mail.send", "Sends an email.", "mail.send", "email, message"))
	n.addSkill(t, source("mail.archive", "Archives an email.", "mail.archive", "email"))
	n.addSkill(t, source("tasks.create", "Creates a task.", "tasks.create", "todo"))
	g.Skills = []string{"mail.*"}
	inv := &agent.Invocation{
		Message: message("write to bob"), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: n.mesh(t, g),
	}
	calls := &[]*skill.Call{}
	handlers := map[string]skill.Handler{"mail.send": skill.HandlerFunc(func(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
		*calls = append(*calls, c)
		return &skill.Result{Content: "sent to " + c.String("to"), Files: []string{"1.eml"}}, nil
	})}
	return n, inv, handlers, calls
}

func skillTools(t *testing.T, inv *agent.Invocation, o skilltools.Options) *skilltools.Tools {
	t.Helper()
	tools, err := skilltools.New(t.Context(), inv, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Wait)
	return tools
}

func use(name, args string) mesh.ToolUse {
	return mesh.ToolUse{ID: "call-1", Name: name, Arguments: args}
}

// S0-008, S0-036, S0-037, S0-081: the tool names the granted skills and no
// other, in an order of its own, with their parameters.
func TestTheToolOffersTheGrantedSkillsOnly(t *testing.T) {
	_, inv, handlers, _ := office(t)
	var texts []string
	for range 5 {
		tools := skillTools(t, inv, skilltools.Options{Handlers: handlers})
		list := tools.List(t.Context())
		if len(list) != 1 || list[0].Name != "use_skill" {
			t.Fatalf("got %v", list)
		}
		texts = append(texts, list[0].Description+string(list[0].Parameters))
	}
	for _, s := range texts[1:] {
		if s != texts[0] {
			t.Error("equal sets of skills give different text")
		}
	}
	tool := skillTools(t, inv, skilltools.Options{}).List(t.Context())[0]
	want := "\n\n### mail.archive\nArchives an email.\n[{\"name\":\"to\",\"type\":\"string\",\"required\":true,\"description\":\"an <address>\"}]" +
		"\n\n### mail.send\nSends an email.\n[{\"name\":\"to\",\"type\":\"string\",\"required\":true,\"description\":\"an <address>\"}]"
	if !strings.HasSuffix(tool.Description, want) {
		t.Errorf("got %s", tool.Description)
	}
	var schema struct {
		Properties struct {
			Skill struct{ Enum []string }
		}
		Required []string
	}
	if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mail.archive", "mail.send"}, schema.Properties.Skill.Enum); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"skill", "arguments"}, schema.Required); diff != "" {
		t.Error(diff)
	}
	fewer := skillTools(t, inv, skilltools.Options{Skills: []string{"mail.send", "tasks.*"}})
	if diff := cmp.Diff([]string{"mail.send"}, fewer.Offered()); diff != "" {
		t.Error(diff)
	}
	none := skillTools(t, inv, skilltools.Options{Skills: []string{"tasks.*"}})
	if got := none.List(t.Context()); len(got) != 0 {
		t.Errorf("nothing is granted, and yet there is %v", got)
	}
}

func TestASkillCallIsRecordedBeforeAndAfterUnderItsKey(t *testing.T) {
	n, inv, handlers, calls := office(t)
	tools := skillTools(t, inv, skilltools.Options{Handlers: handlers})
	r := tools.Call(t.Context(), use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`))
	if r.Failed || r.Text != "sent to bob" {
		t.Fatalf("got %+v", r)
	}
	sent, ok := n.skills.Get("mail.send")
	if !ok || sent.Version == "" {
		t.Fatalf("the skill is %+v", sent)
	}
	want := []mesh.Body{
		mesh.SkillCalled{Call: "call-1", Skill: "mail.send", Args: `{"to":"bob"}`, Source: mesh.SourceUseSkill, Version: sent.Version},
		mesh.SkillReturned{Call: "call-1", Content: "sent to bob", Files: []string{"1.eml"}},
	}
	if diff := cmp.Diff(want, n.bodies(t, inv.Execution), cmpopts.IgnoreFields(mesh.SkillReturned{}, "Duration")); diff != "" {
		t.Error(diff)
	}
	if len(*calls) != 1 || (*calls)[0].Key == "" || (*calls)[0].Key != n.events[0].GetId() {
		t.Errorf("the key of the call is %q, and the event's id %q", (*calls)[0].Key, n.events[0].GetId())
	}
}

// S0-038, S0-039: what is out of scope does not run, and the agent goes on.
func TestASkillThatIsNotGrantedDoesNotRun(t *testing.T) {
	texttest.Fixed(t)
	n, inv, handlers, _ := office(t)
	tools := skillTools(t, inv, skilltools.Options{Handlers: handlers})
	for args, want := range map[string]string{
		`{"skill":"tasks.create","arguments":{"to":"x"}}`: "Skill 'tasks.create' is not available to this agent.",
		`{"skill":"mail.send"}`:                           "to",
		`{"skill":"mail.archive","arguments":{"to":"x"}}`: "not installed",
		`{"skill":7}`: "Give use_skill",
	} {
		r := tools.Call(t.Context(), use("use_skill", args))
		if !r.Failed || !strings.Contains(r.Text, want) {
			t.Errorf("%s: got %+v, want %q", args, r, want)
		}
	}
	for _, b := range n.bodies(t, inv.Execution) {
		if c, ok := b.(mesh.SkillCalled); ok && c.Skill == "tasks.create" {
			t.Error("the call was recorded as one that happens")
		}
	}
	if r := tools.Call(t.Context(), use("other", "{}")); r.Text != "Unknown tool: other" {
		t.Errorf("got %+v", r)
	}
}

// S0-059: five calls by default.
func TestSkillCallsAreLimited(t *testing.T) {
	for name, tt := range map[string]struct{ invocation, option, want int }{
		"default": {0, 0, 5}, "the agent's": {0, 2, 2}, "the dispatcher's": {3, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n, inv, handlers, calls := office(t)
			inv.MaxToolCalls = tt.invocation
			tools := skillTools(t, inv, skilltools.Options{Handlers: handlers, MaxToolCalls: tt.option})
			for i := range tt.want + 2 {
				r := tools.Call(t.Context(), use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`))
				if r.Failed != (i >= tt.want) {
					t.Errorf("call %d: got %+v", i+1, r)
				}
			}
			if len(*calls) != tt.want {
				t.Errorf("%d calls ran", len(*calls))
			}
			bodies := n.bodies(t, inv.Execution)
			if l, ok := bodies[len(bodies)-1].(mesh.LimitTripped); !ok || l.Most != int64(tt.want) {
				t.Errorf("the last event is %+v", bodies[len(bodies)-1])
			}
		})
	}
}

func TestACallWhoseIntentCannotBeRecordedDoesNotHappen(t *testing.T) {
	texttest.Fixed(t)
	_, inv, handlers, calls := office(t)
	tools := skillTools(t, inv, skilltools.Options{Handlers: handlers})
	if r := tools.Call(t.Context(), use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`)); r.Failed {
		t.Fatal(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := tools.Call(ctx, use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`)); !r.Failed || !strings.Contains(r.Text, "was not called") {
		t.Errorf("got %+v", r)
	}
	if len(*calls) != 1 {
		t.Errorf("%d calls ran", len(*calls))
	}
}

// S0-013, S3-134: discovery, of what may be granted.
func TestGetSkillFindsWhatMayBeGranted(t *testing.T) {
	_, inv, _, _ := office(t)
	for _, tt := range []struct {
		granted, args string
		want          []string // names, in their order
	}{
		{"*", `{"domain":"mail"}`, []string{"mail.archive", "mail.send"}},
		{"*", `{"search":"todo"}`, []string{"tasks.create"}},
		{"mail.*", `{"domain":"mail.send"}`, []string{"mail.send"}},
		{"tasks.*", `{"search":"email"}`, nil},
		{"tasks.*", `{"domain":"mail"}`, nil},
		{"tasks.*", `{"domain":"mail.send"}`, nil},
	} {
		inv.Grant.Skills = []string{tt.granted}
		tools, err := skilltools.Discovery(t.Context(), inv)
		if err != nil {
			t.Fatal(err)
		}
		r := tools.Call(t.Context(), use("get_skill", tt.args))
		var got struct {
			Skills []struct {
				Name, Description string
				Parameters        struct{ Properties map[string]any }
			}
		}
		if err := json.Unmarshal([]byte(r.Text), &got); (err == nil) != (tt.want != nil) {
			t.Fatalf("%s %s: %v in %+v", tt.granted, tt.args, err, r)
		}
		var names []string
		for _, s := range got.Skills {
			names = append(names, s.Name)
			if s.Description == "" || len(s.Parameters.Properties) != 1 {
				t.Errorf("%s lacks something: %+v", s.Name, s)
			}
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%s %s: %s", tt.granted, tt.args, diff)
		}
		if strings.Contains(r.Text, "Sends an email") && tt.granted == "tasks.*" {
			t.Errorf("a skill that is not granted is told of: %s", r.Text)
		}
	}
	inv.Grant.Skills = []string{"*"}
	tools, err := skilltools.Discovery(t.Context(), inv)
	if err != nil {
		t.Fatal(err)
	}
	if r := tools.Call(t.Context(), use("get_skill", "{}")); r.Failed || !strings.Contains(r.Text, "- mail (2 skills)") || strings.Contains(r.Text, "mail.send") {
		t.Errorf("the summary is %+v", r)
	}
	if r := tools.Call(t.Context(), use("get_skill", `{"domain":7}`)); !r.Failed {
		t.Errorf("got %+v", r)
	}
	if list := tools.List(t.Context()); !strings.Contains(string(list[0].Parameters), `"enum":["mail","tasks"]`) {
		t.Errorf("the domains are not in %s", list[0].Parameters)
	}
}

type namedTool string

func (n namedTool) List(context.Context) []llm.Tool { return []llm.Tool{{Name: string(n)}} }
func (n namedTool) Call(context.Context, mesh.ToolUse) llm.ToolResult {
	return llm.ToolResult{Text: "I am " + string(n)}
}

func TestCombinedToolsAreSortedAndEachIsCalled(t *testing.T) {
	texttest.Fixed(t)
	tools := modelrun.Combine(namedTool("zebra"), nil, namedTool("ant"), namedTool("ant"))
	var names []string
	for _, tool := range tools.List(t.Context()) {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"ant", "zebra"}, names); diff != "" {
		t.Error(diff)
	}
	if r := tools.Call(t.Context(), use("zebra", "{}")); r.Text != "I am zebra" {
		t.Errorf("got %+v", r)
	}
	if r := tools.Call(t.Context(), use("fox", "{}")); !r.Failed || r.Text != "Unknown tool: fox" { // S0-040
		t.Errorf("got %+v", r)
	}
}

// outputs runs the model and returns what the agent would say.
func outputs(t *testing.T, inv *agent.Invocation, run modelrun.Options) ([]agent.Output, error) {
	t.Helper()
	var outs []agent.Output
	for o, err := range modelrun.Run(t.Context(), inv, run) {
		if err != nil {
			return outs, err
		}
		outs = append(outs, o)
	}
	return outs, nil
}

func TestAModelAnswersWithItsToolsAndEveryReplyIsRecorded(t *testing.T) {
	n, inv, handlers, _ := office(t)
	model := scripted.New(
		scripted.Say("I will ", "write.").Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).Usage(mesh.Usage{Prompt: 3, Completion: 2}),
		scripted.Say("Done: sent."),
	)
	outs, err := outputs(t, inv, modelrun.Options{
		Model: model, System: "You write mail.", Tools: skillTools(t, inv, skilltools.Options{Handlers: handlers}),
		Progress: func(u mesh.ToolUse) (agent.Progress, bool) { return agent.Progress{Text: "Using " + u.Name}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.Output{
		agent.Text{Text: "I will "}, agent.Text{Text: "write."}, agent.Progress{Text: "Using use_skill"}, agent.Text{Text: "\n\nDone: sent."},
	}
	if diff := cmp.Diff(want, outs); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, b := range n.bodies(t, inv.Execution) {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", b), "mesh."))
	}
	if diff := cmp.Diff([]string{"ModelReplied", "SkillCalled", "SkillReturned", "ModelReplied"}, kinds); diff != "" {
		t.Error(diff)
	}
	if r, ok := n.bodies(t, inv.Execution)[0].(mesh.ModelReplied); !ok || r.Text != "I will write." || r.Usage.Prompt != 3 || len(r.Tools) != 1 {
		t.Errorf("got %+v", r)
	}
	req := model.Requests()[0]
	if req.System != "You write mail." || len(req.Messages) != 1 || req.Messages[0].Text != "write to bob" {
		t.Errorf("the model was asked %+v", req)
	}
}

func TestAModelThatFailsFailsTheRun(t *testing.T) {
	texttest.Fixed(t)
	_, inv, _, _ := office(t)
	model := scripted.New(scripted.Say("Well").Fail(mesh.Errorf(mesh.Unavailable, "x", "The model is away")))
	outs, err := outputs(t, inv, modelrun.Options{Model: model})
	if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) != "The model is away" || len(outs) != 1 {
		t.Errorf("got %v, %v", outs, err)
	}
}

func TestAModelThatNeverComesToAnEndIsStopped(t *testing.T) {
	n, inv, handlers, _ := office(t)
	model := scripted.New(
		scripted.Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).For(scripted.HasTool("use_skill")).Repeat(),
		scripted.Say("That is all."),
	)
	outs, err := outputs(t, inv, modelrun.Options{
		Model: model, Tools: skillTools(t, inv, skilltools.Options{Handlers: handlers}), MaxSteps: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agent.Output{agent.Text{Text: "That is all."}}, outs); diff != "" {
		t.Error(diff)
	}
	tripped := false
	for _, b := range n.bodies(t, inv.Execution) {
		if l, ok := b.(mesh.LimitTripped); ok {
			tripped = l.Limit == "agent.steps" && l.Most == 2
		}
	}
	if !tripped {
		t.Error("the limit is not in the log")
	}
}
