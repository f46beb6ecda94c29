package agent_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// S3-001, S3-002, S3-085, S3-111, S3-112, S3-115, S3-121: what the model wants comes to
// the same calls through every face.
func TestTheSameWishesAreTheSameCallsThroughEveryFace(t *testing.T) {
	all := map[agent.Face][]mesh.SkillCalled{}
	eachFace(t, func(t *testing.T, face agent.Face) {
		d := newDesk(t, face,
			does(face, "I will do both.", sendBob, wish{"tasks.create", map[string]string{"title": "Call Ann", "priority": "3"}}),
			does(face, "", newTask), scripted.Say("All done."))
		h := d.say("Mail bob and note two tasks")
		if h.err != nil || h.text != "I will do both.\n\nAll done." {
			t.Errorf("said %q, %v", h.text, h.err)
		}
		if len(h.outs) != 5 { // three times "Using …"
			t.Errorf("outputs %v", h.outs)
		}
		calls := logged[mesh.SkillCalled](d)
		for i := range calls {
			if calls[i].Source != sources[face] || calls[i].Version == "" || calls[i].Call == "" {
				t.Errorf("call %+v", calls[i])
			}
			calls[i].Source, calls[i].Call = "", ""
		}
		slices.SortFunc(calls[:2], byCall) // JSON calls run at the same time
		all[face] = calls
		if n := len(logged[mesh.SkillReturned](d)); n != 3 {
			t.Errorf("%d calls returned", n)
		}
		if n := len(logged[mesh.ToolReturned](d)); n != 0 {
			t.Errorf("%d calls are settled twice", n)
		}
	})
	want := all[agent.FaceCommands]
	if len(want) != 3 || want[1].Args != `{"priority":3,"title":"Call Ann"}` {
		t.Fatalf("called %+v", want)
	}
	for _, face := range faces {
		if diff := cmp.Diff(want, all[face]); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
}

// S3-087, S3-100, S3-102, S3-113, S3-122: a call that is refused tells what is
// wrong, the next one is right, and both are settled in the log.
func TestAModelCorrectsACallThatWasRefused(t *testing.T) {
	eachFace(t, func(t *testing.T, face agent.Face) {
		d := newDesk(t, face, does(face, "", wish{"mail.send", nil}), does(face, "", sendBob), scripted.Say("Sent."))
		h := d.say("mail bob")
		if h.err != nil || h.text != "Sent." || d.made() != "mail.send" {
			t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
		}
		told := logged[mesh.ToolReturned](d)
		if len(told) != 1 || !told[0].Failed || !strings.Contains(told[0].Content, "Missing required field: 'to'") || told[0].Call == "" {
			t.Errorf("the refusal is settled as %+v", told)
		}
		if len(logged[mesh.SkillCalled](d)) != 1 {
			t.Error("the refused call is announced")
		}
	})
}

// S3-021 to S3-026, S3-099, S3-101, S3-103, S3-104: each refusal is a result
// that the model can go on with, has no effect, and is settled.
func TestEveryRefusalIsAResultAndSettled(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		wish wish
		want string
	}{
		"scope":     {wish{"secret.read", nil}, "is not available to this agent"},
		"unknown":   {wish{"mail.sned", map[string]string{"to": "x"}}, "Did you mean 'mail.send'?"},
		"arguments": {wish{"tasks.create", map[string]string{"title": "x", "prio": "1"}}, "Unknown parameter: 'prio'"},
		"broken":    {wish{"mail.forward", map[string]string{"to": "x"}}, "temporarily unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, face := range []agent.Face{agent.FaceCommands, agent.FaceUseSkill} { // the third has no tool for what there is not
				d := newDesk(t, face, does(face, "", tt.wish), scripted.Say("I could not."))
				d.g.Skills = []string{"mail.*", "tasks.*"}
				d.n.addSkill(t, strings.Replace(skillFiles[2], "confirm: Forward this mail to others?\n", "", 1))
				d.result = func(*skill.Call) (*skill.Result, error) { return nil, mesh.Errorf(mesh.Unavailable, "x", "away") }
				if name == "broken" {
					d.breakSkill("mail.forward")
				}
				h := d.say("try")
				told := logged[mesh.ToolReturned](d)
				if h.err != nil || h.text != "I could not." || len(told) != 1 || !told[0].Failed || !strings.Contains(told[0].Content, tt.want) {
					t.Errorf("%s: said %q, %v; told %+v", face, h.text, h.err, told)
				}
				if !strings.Contains(d.lastRead(), tt.want) {
					t.Errorf("%s: the model read %q", face, d.lastRead())
				}
				if d.made() != "" || len(logged[mesh.SkillCalled](d)) != 0 {
					t.Errorf("%s: it ran: %q", face, d.made())
				}
			}
		})
	}
}

// breakSkill lets the skill fail until its circuit is open.
func (d *desk) breakSkill(name string) {
	d.t.Helper()
	g := *d.g
	g.Execution = mesh.NewExecutionID(thread)
	inv := &agent.Invocation{Message: message("x"), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: &g, Mesh: d.n.mesh(d.t, &g)}
	o := d.options
	tools := skillTools(d.t, inv, o)
	for range 5 {
		tools.Call(d.t.Context(), use("use_skill", encoded(map[string]any{"skill": name, "arguments": map[string]string{"to": "x"}})))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = nil
}

// S3-091, S3-092: commands stay in the text of the assistant and come back as a
// message of the user; JSON calls are pairs of messages. Both are the same when
// the conversation is read from the log.
func TestTracesAreWrittenInTheFormOfTheFace(t *testing.T) {
	block := "I look.\n```cmd\nmail.send --to \"bob\"\ntasks.create --title \"Call Ann\"\n```\n"
	for face, want := range map[agent.Face][]string{
		agent.FaceCommands: {"user: go", "assistant: " + block, "user: [Command Result: mail.send]\ndid mail.send\n\n[Command Result: tasks.create]\ndid tasks.create", "assistant: Done.", "user: thanks"},
		agent.FaceUseSkill: {"user: go", "assistant: I look.", "tool: did mail.send", "tool: did tasks.create", "assistant: Done.", "user: thanks"},
		agent.FaceDirect:   {"user: go", "assistant: I look.", "tool: did mail.send", "tool: did tasks.create", "assistant: Done.", "user: thanks"},
	} {
		t.Run(string(face), func(t *testing.T) {
			d := newDesk(t, face, does(face, "I look.", sendBob, newTask), scripted.Say("Done."), scripted.Say("You are welcome."))
			d.say("go")
			if diff := cmp.Diff(want[:len(want)-2], d.read()); diff != "" {
				t.Errorf("during the turn: %s", diff)
			}
			next := mesh.NewExecutionID(thread)
			d.turn, d.g.Turn, d.g.Parent, d.g.Execution = next, next, next, mesh.NewExecutionID(thread)
			d.say("thanks")
			if diff := cmp.Diff(want, d.read()); diff != "" {
				t.Errorf("from the log: %s", diff)
			}
		})
	}
}

// S3-051, S3-053, S3-159: help is always there, costs no call, breaks nothing,
// runs nothing, and is settled.
func TestHelpAndDiscoveryCostNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		face  agent.Face
		steps func() scripted.Step
		want  string
	}{
		"commands": {agent.FaceCommands, func() scripted.Step {
			return scripted.Say("```cmd\ntasks.create --title x --help\nget_skill\nmail --help\n```")
		}, "The man page."},
		"json": {agent.FaceUseSkill, func() scripted.Step {
			return scripted.Call("get_skill", `{"domain":"tasks"}`).Call("get_skill", `{"domain":"nothing"}`)
		}, `"name":"tasks.create"`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tt.face, tt.steps(), tt.steps(), does(tt.face, "", newTask), scripted.Say("Done."))
			d.options.Discovery, d.options.MaxToolCalls = true, 1
			if h := d.say("go"); h.err != nil || h.text != "Done." || d.made() != "tasks.create" {
				t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
			}
			told := logged[mesh.ToolReturned](d)
			if !strings.Contains(told[0].Content, tt.want) || told[0].Failed || len(told) < 4 {
				t.Errorf("settled %+v", told)
			}
			if trips := logged[mesh.LimitTripped](d); len(trips) != 0 {
				t.Errorf("help counts: %+v", trips)
			}
			if items, err := d.n.values.List(t.Context(), "breaker", "", "", 10); err != nil || len(items) != 0 {
				t.Errorf("breakers %v, %v", items, err)
			}
		})
	}
}

// S3-134: who was dispatched for a task has its skills described, and no tool
// to look for others.
func TestAnAgentWithFewSkillsCannotLookForOthers(t *testing.T) {
	texttest.Fixed(t)
	d := newDesk(t, agent.FaceCommands, scripted.Say("```cmd\nget_skill\n```"), scripted.Say("ok"))
	d.say("go")
	if !strings.Contains(d.lastRead(), "get_skill is not available") {
		t.Errorf("read %q", d.lastRead())
	}
	d = newDesk(t, agent.FaceUseSkill, scripted.Call("get_skill", "{}"), scripted.Say("ok"))
	d.say("go")
	if d.lastRead() != "Unknown tool: get_skill" {
		t.Errorf("read %q", d.lastRead())
	}
}

// S3-027: missing arguments are none.
func TestArgumentsOfUseSkillMayBeMissing(t *testing.T) {
	texttest.Fixed(t)
	d := newDesk(t, agent.FaceUseSkill, scripted.Call("use_skill", `{"skill":"mail.send"}`).Call("use_skill", `{"arguments":{}}`), scripted.Say("ok"))
	d.say("go")
	told := logged[mesh.ToolReturned](d)
	slices.SortFunc(told, func(a, b mesh.ToolReturned) int { return strings.Compare(a.Call, b.Call) })
	if len(told) != 2 || !strings.Contains(told[0].Content, "Missing required field") || !strings.Contains(told[1].Content, `"skill", a name`) {
		t.Errorf("told %+v", told)
	}
}

// noting notes which tools are called.
type noting struct {
	*agent.SkillTools
	called *[]string
}

func (n noting) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	*n.called = append(*n.called, use.Name)
	return n.SkillTools.Call(ctx, use)
}

// S3-118: asked to send an email, the model discovers the skill, reads how it is
// called, and then sends.
func TestAModelDiscoversThenSends(t *testing.T) {
	d := newDesk(t, agent.FaceUseSkill, scripted.Call("get_skill", `{"search":"email"}`), does(agent.FaceUseSkill, "", sendBob), scripted.Say("Sent."))
	d.options.Discovery = true
	if h := d.say("Send an email to bob"); h.text != "Sent." || h.err != nil || d.made() != "mail.send" {
		t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
	}
	reqs := d.model.Requests()
	if told := reqs[1].Messages[2].Text; !strings.Contains(told, "mail.send") || len(d.calls) != 1 {
		t.Errorf("before it sent, the model was told %q", told)
	}
}

// S3-119, S3-120: asked for a task, the model discovers how one is created, and then
// creates it; asked what it can do, it looks, and uses nothing.
func TestAModelDiscoversThenCreatesOrTells(t *testing.T) {
	d := newDesk(t, agent.FaceUseSkill, scripted.Call("get_skill", `{"search":"create task"}`),
		scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Call Ann"}}`), scripted.Say("Created."), scripted.Call("get_skill", `{}`), scripted.Say("Mail and tasks."))
	d.options.Discovery = true
	if h := d.say("Create a task to call Ann"); h.text != "Created." || h.err != nil || d.made() != "tasks.create" {
		t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
	}
	if told := d.model.Requests()[1].Messages[2].Text; !strings.Contains(told, "tasks.create") {
		t.Errorf("before it created, the model was told %q", told)
	}
	if h := d.say("What can you do?"); h.text != "Mail and tasks." || h.err != nil || d.made() != "tasks.create" {
		t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
	}
	reqs := d.model.Requests()
	if last := reqs[len(reqs)-1].Messages; !strings.Contains(last[len(last)-1].Text, "mail") || !strings.Contains(last[len(last)-1].Text, "tasks") {
		t.Errorf("before it told, the model was told %q", last[len(last)-1].Text)
	}
}

// S3-034, S3-038, S3-110: in one reply, skills are found before they are
// used, and the results are read in the order of the calls.
func TestSkillsAreFoundBeforeTheyAreUsed(t *testing.T) {
	d := newDesk(t, agent.FaceUseSkill,
		scripted.Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).Call("get_skill", `{"search":"email"}`), scripted.Say("Sent."))
	d.options.Discovery = true
	var called []string
	d.wrap = func(tools llm.Tools) llm.Tools {
		return agent.Combine(namedTool("other"), noting{tools.(*agent.SkillTools), &called})
	}
	if h := d.say("Send an email"); h.text != "Sent." || h.err != nil {
		t.Errorf("said %q, %v", h.text, h.err)
	}
	if diff := cmp.Diff([]string{"get_skill", "use_skill"}, called); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"user: Send an email", "assistant: ", "tool: did mail.send"}, d.read()[:3]); diff != "" {
		t.Error(diff)
	}
	if told := logged[mesh.ToolReturned](d); len(told) != 1 || told[0].Name != "get_skill" || !strings.Contains(told[0].Content, "mail.send") {
		t.Errorf("settled %+v", told)
	}
}

// A command goes to the skills, whatever tools are beside them.
func TestCombinedToolsRouteCommands(t *testing.T) {
	d := newDesk(t, agent.FaceCommands, scripted.Say("```cmd\nmail.send --to bob\n```").Call("other", "{}"), scripted.Say("ok"))
	d.wrap = func(tools llm.Tools) llm.Tools { return agent.Combine(namedTool("other"), tools) }
	if h := d.say("go"); h.err != nil || d.made() != "mail.send" {
		t.Errorf("made %q, %v", d.made(), h.err)
	}
	if told := logged[mesh.ToolReturned](d); len(told) != 1 || told[0].Content != "I am other" {
		t.Errorf("told %+v", told)
	}
}

// S3-086, S3-156: the lines of a block run in their order, each with the result
// of the one before there.
func TestTheLinesOfABlockRunInTheirOrder(t *testing.T) {
	d := newDesk(t, agent.FaceCommands, does(agent.FaceCommands, "", newTask, sendBob, wish{"mail.sned", nil}, newTask), scripted.Say("Done."))
	d.result = func(c *skill.Call) (*skill.Result, error) { // d.calls has it already
		if ended := len(logged[mesh.SkillReturned](d)); ended != len(d.calls)-1 {
			t.Errorf("call %d began when %d had ended", len(d.calls), ended)
		}
		return &skill.Result{Content: "did " + c.Skill}, nil
	}
	d.say("go")
	if d.made() != "tasks.create mail.send tasks.create" {
		t.Errorf("made %q", d.made())
	}
}

// S3-088: what is only talked about is not run.
func TestAnAnswerWithoutCallsRunsNothing(t *testing.T) {
	d := newDesk(t, agent.FaceCommands, scripted.Say("I can mail: write `mail.send --to bob`.\n```sh\nmail.send --to bob\n```\n> ```cmd\n> mail.send --to eve\n> ```"))
	if h := d.say("What can you do?"); d.made() != "" || !strings.Contains(h.text, "mail.send --to bob") {
		t.Errorf("made %q, said %q", d.made(), h.text)
	}
}

// An unterminated block runs nothing, and words that belong to no flag are told.
func TestWhatIsWrongWithABlockIsToldToTheModel(t *testing.T) {
	texttest.Fixed(t)
	d := newDesk(t, agent.FaceCommands, scripted.Say("```cmd\nmail.send --to bob"), scripted.Say("```cmd\nmail.send please --to bob\n```"), scripted.Say("ok"))
	h := d.say("go")
	if told := logged[mesh.ToolReturned](d); h.err != nil || len(told) != 1 || !strings.Contains(told[0].Content, "not closed") {
		t.Errorf("told %+v, %v", told, h.err)
	}
	if !strings.Contains(d.lastRead(), "did mail.send\n\nNote: `please` had no effect") || d.made() != "mail.send" {
		t.Errorf("the model read %q", d.lastRead())
	}
}

// S3-036, S3-037, S3-039: a call that is late and one that panics are results,
// and the others of their reply are what they are.
func TestALateCallLeavesTheOthersAlone(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	d := newDesk(t, agent.FaceUseSkill, does(agent.FaceUseSkill, "", sendBob, newTask, purge), scripted.Say("One of three."))
	d.options.Timeout = 4 * time.Second // the others must be done within it, also on a busy machine
	d.options.Handlers["mail.send"] = skill.HandlerFunc(func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	d.n.addSkill(t, strings.Replace(skillFiles[1], "requires_approval: true\n", "", 1))
	d.options.Handlers["mail.purge"] = skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { panic("secret") })
	if h := d.say("go"); h.text != "One of three." || h.err != nil {
		t.Errorf("said %q, %v", h.text, h.err)
	}
	want := []string{"tool: Failed to execute 'mail.send': it did not finish in time", "tool: did tasks.create", "tool: Failed to execute 'mail.purge': internal error"}
	for i, line := range d.read()[2:] {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("result %d is %q, want %q", i+1, line, want[i])
		}
	}
	for _, r := range logged[mesh.SkillReturned](d) {
		if r.Failed != (r.Content != "did tasks.create") {
			t.Errorf("returned %+v", r)
		}
	}
}

// S3-067: every call of the model is told of, with what it cost.
func TestEveryCallOfTheModelIsInTheTelemetry(t *testing.T) {
	var log strings.Builder
	d := newDesk(t, agent.FaceUseSkill)
	d.begin("go")
	model := scripted.New(scripted.Say("Hello.").Usage(mesh.Usage{Prompt: 100, Cached: 80, CacheWrite: 10, Completion: 5}))
	if _, err := outputs(t, d.invocation(false), agent.ModelRun{Model: model, Name: "m1", Logger: slog.New(rpc.LogHandler(slog.NewTextHandler(&log, nil)))}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"thread=" + thread, "execution=" + string(d.g.Execution), "model=scripted", "iteration=1", "input=100", "output=5", "took=", "cache_read=80", "cache_creation=10", "hit_ratio=0.8"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
}
