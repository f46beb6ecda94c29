package skilltools_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
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
	all := map[skilltools.Face][]mesh.SkillCalled{}
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face,
			agenttest.Does(face, "I will do both.", agenttest.SendBob, agenttest.Want("tasks.create", map[string]string{"title": "Call Ann", "priority": "3"})),
			agenttest.Does(face, "", agenttest.NewTask), scripted.Say("All done."))
		h := d.Say("Mail bob and note two tasks")
		if h.Err != nil || h.Text != "I will do both.\n\nAll done." {
			t.Errorf("said %q, %v", h.Text, h.Err)
		}
		if len(h.Outs) != 5 { // three times "Using …"
			t.Errorf("outputs %v", h.Outs)
		}
		calls := agenttest.Logged[mesh.SkillCalled](d)
		for i := range calls {
			if calls[i].Source != agenttest.Sources[face] || calls[i].Version == "" || calls[i].Call == "" {
				t.Errorf("call %+v", calls[i])
			}
			calls[i].Source, calls[i].Call = "", ""
		}
		slices.SortFunc(calls[:2], agenttest.ByCall) // JSON calls run at the same time
		all[face] = calls
		if n := len(agenttest.Logged[mesh.SkillReturned](d)); n != 3 {
			t.Errorf("%d calls returned", n)
		}
		if n := len(agenttest.Logged[mesh.ToolReturned](d)); n != 0 {
			t.Errorf("%d calls are settled twice", n)
		}
	})
	want := all[skilltools.FaceCommands]
	if len(want) != 3 || want[1].Args != `{"priority":3,"title":"Call Ann"}` {
		t.Fatalf("called %+v", want)
	}
	for _, face := range agenttest.Faces {
		if diff := cmp.Diff(want, all[face]); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
}

// S3-087, S3-100, S3-102, S3-113, S3-122: a call that is refused tells what is
// wrong, the next one is right, and both are settled in the log.
func TestAModelCorrectsACallThatWasRefused(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Want("mail.send", nil)), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Sent."))
		h := d.Say("mail bob")
		if h.Err != nil || h.Text != "Sent." || d.Made() != "mail.send" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
		told := agenttest.Logged[mesh.ToolReturned](d)
		if len(told) != 1 || !told[0].Failed || !strings.Contains(told[0].Content, "Missing required field: 'to'") || told[0].Call == "" {
			t.Errorf("the refusal is settled as %+v", told)
		}
		if len(agenttest.Logged[mesh.SkillCalled](d)) != 1 {
			t.Error("the refused call is announced")
		}
	})
}

// S3-021 to S3-026, S3-099, S3-101, S3-103, S3-104: each refusal is a result
// that the model can go on with, has no effect, and is settled.
func TestEveryRefusalIsAResultAndSettled(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		wish agenttest.Wish
		want string
	}{
		"scope":     {agenttest.Want("secret.read", nil), "is not available to this agent"},
		"unknown":   {agenttest.Want("mail.sned", map[string]string{"to": "x"}), "Did you mean 'mail.send'?"},
		"arguments": {agenttest.Want("tasks.create", map[string]string{"title": "x", "prio": "1"}), "Unknown parameter: 'prio'"},
		"broken":    {agenttest.Want("mail.forward", map[string]string{"to": "x"}), "temporarily unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, face := range []skilltools.Face{skilltools.FaceCommands, skilltools.FaceUseSkill} { // the third has no tool for what there is not
				d := agenttest.NewDesk(t, face, agenttest.Does(face, "", tt.wish), scripted.Say("I could not."))
				d.Grant.Skills = []string{"mail.*", "tasks.*"}
				d.Node.AddSkill(t, strings.Replace(agenttest.SkillFiles[2], "confirm: Forward this mail to others?\n", "", 1))
				d.Result = func(*skill.Call) (*skill.Result, error) { return nil, mesh.Errorf(mesh.Unavailable, "x", "away") }
				if name == "broken" {
					breakSkill(d, "mail.forward")
				}
				h := d.Say("try")
				told := agenttest.Logged[mesh.ToolReturned](d)
				if h.Err != nil || h.Text != "I could not." || len(told) != 1 || !told[0].Failed || !strings.Contains(told[0].Content, tt.want) {
					t.Errorf("%s: said %q, %v; told %+v", face, h.Text, h.Err, told)
				}
				if !strings.Contains(d.LastRead(), tt.want) {
					t.Errorf("%s: the model read %q", face, d.LastRead())
				}
				if d.Made() != "" || len(agenttest.Logged[mesh.SkillCalled](d)) != 0 {
					t.Errorf("%s: it ran: %q", face, d.Made())
				}
			}
		})
	}
}

// breakSkill has the node find that the skill fails until its circuit is open.
func breakSkill(d *agenttest.Desk, name string) {
	d.T.Helper()
	b := limit.NewBreaker(&d.Node.Values, limit.BreakerOptions{}) // the node's
	for n := range limit.DefaultFailures {
		if err := b.Begin(d.T.Context(), name, fmt.Sprint(n)); err != nil {
			d.T.Fatal(err)
		}
		b.End(d.T.Context(), name, fmt.Sprint(n), limit.Failure)
	}
}

// S3-091, S3-092: commands stay in the text of the assistant and come back as a
// message of the user; JSON calls are pairs of messages. Both are the same when
// the conversation is read from the log.
func TestTracesAreWrittenInTheFormOfTheFace(t *testing.T) {
	block := "I look.\n```cmd\nmail.send --to \"bob\"\ntasks.create --title \"Call Ann\"\n```\n"
	for face, want := range map[skilltools.Face][]string{
		skilltools.FaceCommands: {"user: go", "assistant: " + block, "user: [Command Result: mail.send]\ndid mail.send\n\n[Command Result: tasks.create]\ndid tasks.create", "assistant: Done.", "user: thanks"},
		skilltools.FaceUseSkill: {"user: go", "assistant: I look.", "tool: did mail.send", "tool: did tasks.create", "assistant: Done.", "user: thanks"},
		skilltools.FaceDirect:   {"user: go", "assistant: I look.", "tool: did mail.send", "tool: did tasks.create", "assistant: Done.", "user: thanks"},
	} {
		t.Run(string(face), func(t *testing.T) {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "I look.", agenttest.SendBob, agenttest.NewTask), scripted.Say("Done."), scripted.Say("You are welcome."))
			d.Say("go")
			if diff := cmp.Diff(want[:len(want)-2], d.Read()); diff != "" {
				t.Errorf("during the turn: %s", diff)
			}
			next := mesh.NewExecutionID(agenttest.Thread)
			d.Turn, d.Grant.Turn, d.Grant.Parent, d.Grant.Execution = next, next, next, mesh.NewExecutionID(agenttest.Thread)
			d.Say("thanks")
			if diff := cmp.Diff(want, d.Read()); diff != "" {
				t.Errorf("from the log: %s", diff)
			}
		})
	}
}

// S3-051, S3-053, S3-159: help is always there, costs no call, breaks nothing,
// runs nothing, and is settled.
func TestHelpAndDiscoveryCostNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		face  skilltools.Face
		steps func() scripted.Step
		want  string
	}{
		"commands": {skilltools.FaceCommands, func() scripted.Step {
			return scripted.Say("```cmd\ntasks.create --title x --help\nget_skill\nmail --help\n```")
		}, "The man page."},
		"json": {skilltools.FaceUseSkill, func() scripted.Step {
			return scripted.Call("get_skill", `{"domain":"tasks"}`).Call("get_skill", `{"domain":"nothing"}`)
		}, `"name":"tasks.create"`},
	} {
		t.Run(name, func(t *testing.T) {
			d := agenttest.NewDesk(t, tt.face, tt.steps(), tt.steps(), agenttest.Does(tt.face, "", agenttest.NewTask), scripted.Say("Done."))
			d.Options.Discovery, d.Options.MaxToolCalls = true, 1
			if h := d.Say("go"); h.Err != nil || h.Text != "Done." || d.Made() != "tasks.create" {
				t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
			}
			told := agenttest.Logged[mesh.ToolReturned](d)
			if !strings.Contains(told[0].Content, tt.want) || told[0].Failed || len(told) < 4 {
				t.Errorf("settled %+v", told)
			}
			if trips := agenttest.Logged[mesh.LimitTripped](d); len(trips) != 0 {
				t.Errorf("help counts: %+v", trips)
			}
			if items, err := d.Node.Values.List(t.Context(), "breaker", "", "", 10); err != nil || len(items) != 0 {
				t.Errorf("breakers %v, %v", items, err)
			}
		})
	}
}

// S3-134: who was dispatched for a task has its skills described, and no tool
// to look for others.
func TestAnAgentWithFewSkillsCannotLookForOthers(t *testing.T) {
	texttest.Fixed(t)
	d := agenttest.NewDesk(t, skilltools.FaceCommands, scripted.Say("```cmd\nget_skill\n```"), scripted.Say("ok"))
	d.Say("go")
	if !strings.Contains(d.LastRead(), "get_skill is not available") {
		t.Errorf("read %q", d.LastRead())
	}
	d = agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("get_skill", "{}"), scripted.Say("ok"))
	d.Say("go")
	if d.LastRead() != "Unknown tool: get_skill" {
		t.Errorf("read %q", d.LastRead())
	}
}

// S3-027: missing arguments are none.
func TestArgumentsOfUseSkillMayBeMissing(t *testing.T) {
	texttest.Fixed(t)
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("use_skill", `{"skill":"mail.send"}`).Call("use_skill", `{"arguments":{}}`), scripted.Say("ok"))
	d.Say("go")
	told := agenttest.Logged[mesh.ToolReturned](d)
	slices.SortFunc(told, func(a, b mesh.ToolReturned) int { return strings.Compare(a.Call, b.Call) })
	if len(told) != 2 || !strings.Contains(told[0].Content, "Missing required field") || !strings.Contains(told[1].Content, `"skill", a name`) {
		t.Errorf("told %+v", told)
	}
}

// noting notes which tools are called.
type noting struct {
	*skilltools.Tools
	called *[]string
}

func (n noting) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	*n.called = append(*n.called, use.Name)
	return n.Tools.Call(ctx, use)
}

// S3-118: asked to send an email, the model discovers the skill, reads how it is
// called, and then sends.
func TestAModelDiscoversThenSends(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("get_skill", `{"search":"email"}`), agenttest.Does(skilltools.FaceUseSkill, "", agenttest.SendBob), scripted.Say("Sent."))
	d.Options.Discovery = true
	if h := d.Say("Send an email to bob"); h.Text != "Sent." || h.Err != nil || d.Made() != "mail.send" {
		t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
	}
	reqs := d.Model.Requests()
	if told := reqs[1].Messages[2].Text; !strings.Contains(told, "mail.send") || len(d.Calls) != 1 {
		t.Errorf("before it sent, the model was told %q", told)
	}
}

// S3-119, S3-120: asked for a task, the model discovers how one is created, and then
// creates it; asked what it can do, it looks, and uses nothing.
func TestAModelDiscoversThenCreatesOrTells(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("get_skill", `{"search":"create task"}`),
		scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Call Ann"}}`), scripted.Say("Created."), scripted.Call("get_skill", `{}`), scripted.Say("Mail and tasks."))
	d.Options.Discovery = true
	if h := d.Say("Create a task to call Ann"); h.Text != "Created." || h.Err != nil || d.Made() != "tasks.create" {
		t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
	}
	if told := d.Model.Requests()[1].Messages[2].Text; !strings.Contains(told, "tasks.create") {
		t.Errorf("before it created, the model was told %q", told)
	}
	if h := d.Say("What can you do?"); h.Text != "Mail and tasks." || h.Err != nil || d.Made() != "tasks.create" {
		t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
	}
	reqs := d.Model.Requests()
	if last := reqs[len(reqs)-1].Messages; !strings.Contains(last[len(last)-1].Text, "mail") || !strings.Contains(last[len(last)-1].Text, "tasks") {
		t.Errorf("before it told, the model was told %q", last[len(last)-1].Text)
	}
}

// S3-034, S3-038, S3-110: in one reply, skills are found before they are
// used, and the results are read in the order of the calls.
func TestSkillsAreFoundBeforeTheyAreUsed(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill,
		scripted.Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).Call("get_skill", `{"search":"email"}`), scripted.Say("Sent."))
	d.Options.Discovery = true
	var called []string
	d.Wrap = func(tools llm.Tools) llm.Tools {
		return modelrun.Combine(agenttest.NamedTool("other"), noting{tools.(*skilltools.Tools), &called})
	}
	if h := d.Say("Send an email"); h.Text != "Sent." || h.Err != nil {
		t.Errorf("said %q, %v", h.Text, h.Err)
	}
	if diff := cmp.Diff([]string{"get_skill", "use_skill"}, called); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"user: Send an email", "assistant: ", "tool: did mail.send"}, d.Read()[:3]); diff != "" {
		t.Error(diff)
	}
	if told := agenttest.Logged[mesh.ToolReturned](d); len(told) != 1 || told[0].Name != "get_skill" || !strings.Contains(told[0].Content, "mail.send") {
		t.Errorf("settled %+v", told)
	}
}

// A command goes to the skills, whatever tools are beside them.
func TestCombinedToolsRouteCommands(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceCommands, scripted.Say("```cmd\nmail.send --to bob\n```").Call("other", "{}"), scripted.Say("ok"))
	d.Wrap = func(tools llm.Tools) llm.Tools { return modelrun.Combine(agenttest.NamedTool("other"), tools) }
	if h := d.Say("go"); h.Err != nil || d.Made() != "mail.send" {
		t.Errorf("made %q, %v", d.Made(), h.Err)
	}
	if told := agenttest.Logged[mesh.ToolReturned](d); len(told) != 1 || told[0].Content != "I am other" {
		t.Errorf("told %+v", told)
	}
}

// S3-086, S3-156: the lines of a block run in their order, each with the result
// of the one before there.
func TestTheLinesOfABlockRunInTheirOrder(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceCommands, agenttest.Does(skilltools.FaceCommands, "", agenttest.NewTask, agenttest.SendBob, agenttest.Want("mail.sned", nil), agenttest.NewTask), scripted.Say("Done."))
	d.Result = func(c *skill.Call) (*skill.Result, error) { // d.calls has it already
		if ended := len(agenttest.Logged[mesh.SkillReturned](d)); ended != len(d.Calls)-1 {
			t.Errorf("call %d began when %d had ended", len(d.Calls), ended)
		}
		return &skill.Result{Content: "did " + c.Skill}, nil
	}
	d.Say("go")
	if d.Made() != "tasks.create mail.send tasks.create" {
		t.Errorf("made %q", d.Made())
	}
}

// S3-088: what is only talked about is not run.
func TestAnAnswerWithoutCallsRunsNothing(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceCommands, scripted.Say("I can mail: write `mail.send --to bob`.\n```sh\nmail.send --to bob\n```\n> ```cmd\n> mail.send --to eve\n> ```"))
	if h := d.Say("What can you do?"); d.Made() != "" || !strings.Contains(h.Text, "mail.send --to bob") {
		t.Errorf("made %q, said %q", d.Made(), h.Text)
	}
}

// An unterminated block runs nothing, and words that belong to no flag are told.
func TestWhatIsWrongWithABlockIsToldToTheModel(t *testing.T) {
	texttest.Fixed(t)
	d := agenttest.NewDesk(t, skilltools.FaceCommands, scripted.Say("```cmd\nmail.send --to bob"), scripted.Say("```cmd\nmail.send please --to bob\n```"), scripted.Say("ok"))
	h := d.Say("go")
	if told := agenttest.Logged[mesh.ToolReturned](d); h.Err != nil || len(told) != 1 || !strings.Contains(told[0].Content, "not closed") {
		t.Errorf("told %+v, %v", told, h.Err)
	}
	if !strings.Contains(d.LastRead(), "did mail.send\n\nNote: `please` had no effect") || d.Made() != "mail.send" {
		t.Errorf("the model read %q", d.LastRead())
	}
}

// S3-036, S3-037, S3-039: a call that is late and one that panics are results,
// and the others of their reply are what they are.
func TestALateCallLeavesTheOthersAlone(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, agenttest.Does(skilltools.FaceUseSkill, "", agenttest.SendBob, agenttest.NewTask, agenttest.Purge), scripted.Say("One of three."))
	d.Options.Timeout = 4 * time.Second // the others must be done within it, also on a busy machine
	d.Options.Handlers["mail.send"] = skill.HandlerFunc(func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	d.Node.AddSkill(t, strings.Replace(agenttest.SkillFiles[1], "requires_approval: true\n", "", 1))
	d.Options.Handlers["mail.purge"] = skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { panic("secret") })
	if h := d.Say("go"); h.Text != "One of three." || h.Err != nil {
		t.Errorf("said %q, %v", h.Text, h.Err)
	}
	want := []string{"tool: Failed to execute 'mail.send': it did not finish in time", "tool: did tasks.create", "tool: Failed to execute 'mail.purge': internal error"}
	for i, line := range d.Read()[2:] {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("result %d is %q, want %q", i+1, line, want[i])
		}
	}
	for _, r := range agenttest.Logged[mesh.SkillReturned](d) {
		if r.Failed != (r.Content != "did tasks.create") {
			t.Errorf("returned %+v", r)
		}
	}
}

// S3-067: every call of the model is told of, with what it cost.
func TestEveryCallOfTheModelIsInTheTelemetry(t *testing.T) {
	var log strings.Builder
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	d.Begin("go")
	model := scripted.New(scripted.Say("Hello.").Usage(mesh.Usage{Prompt: 100, Cached: 80, CacheWrite: 10, Completion: 5}))
	if _, err := agenttest.Outputs(t, d.Invocation(false), modelrun.Options{Model: model, Name: "m1", Logger: slog.New(rpc.LogHandler(slog.NewTextHandler(&log, nil)))}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"thread=" + agenttest.Thread, "execution=" + string(d.Grant.Execution), "model=scripted", "iteration=1", "input=100", "output=5", "took=", "cache_read=80", "cache_creation=10", "hit_ratio=0.8"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
}
