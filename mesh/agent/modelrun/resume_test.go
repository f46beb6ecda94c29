package modelrun_test

import (
	"agentmesh/mesh/text/texttest"
	"context"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"

	"github.com/google/go-cmp/cmp"
)

// cut begins a run that ends in the handler of its second call, as if the
// process died there: the call is announced, and nothing more is logged.
func cut(d *agenttest.Desk, resumed bool) (key string) {
	d.T.Helper()
	ctx, cancel := context.WithCancel(d.T.Context())
	defer cancel()
	inv := d.Invocation(resumed)
	o := d.Options
	o.Face, o.Handlers = d.Face, map[string]skill.Handler{}
	for name := range d.Options.Handlers {
		o.Handlers[name] = skill.HandlerFunc(func(ctx context.Context, c *skill.Call, env *skill.Env) (*skill.Result, error) {
			if c.Skill != "mail.send" {
				return d.Execute(ctx, c, env)
			}
			key = c.Key
			d.Node.Mu.Lock()
			d.Node.Refuse = func(*meshv1.Event) error { return mesh.Errorf(mesh.Denied, "node", "the process is dead") }
			d.Node.Mu.Unlock()
			cancel()
			return nil, ctx.Err()
		})
	}
	tools := agenttest.SkillTools(d.T, inv, o)
	for range modelrun.Run(ctx, inv, modelrun.Options{Model: d.Model, Tools: tools, Commands: tools.Commands()}) {
	}
	_ = inv.Mesh.Close(d.T.Context()) // what it kept dies with it
	d.Node.Mu.Lock()
	defer d.Node.Mu.Unlock()
	d.Node.Refuse = nil
	return key
}

// S3-104: after a crash, what is settled is not done again, and neither is the call
// of which nobody knows whether it had its effect: the model is told.
func TestARunThatWasCutMakesNoCallTwice(t *testing.T) {
	texttest.Fixed(t)
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Both done."))
		d.Begin("note it and mail bob")
		key := cut(d, false)
		if key == "" || d.Made() != "tasks.create" || len(agenttest.Logged[mesh.SkillCalled](d)) != 2 || len(agenttest.Logged[mesh.SkillReturned](d)) != 1 {
			t.Fatalf("the run was not cut as it should: key %q, made %q", key, d.Made())
		}
		h := d.Run(false)
		if h.Err != nil || h.Text != "Both done." || d.Made() != "tasks.create" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
		if told := d.LastRead(); !strings.Contains(told, "it is not known whether it had its effect") {
			t.Errorf("the model was told %q", told)
		}
		if n := len(agenttest.Logged[mesh.SkillCalled](d)); n != 2 {
			t.Errorf("%d calls are announced", n)
		}
		if n := len(d.Model.Requests()); n != 3 {
			t.Errorf("the model was asked %d times: what it said before was lost", n)
		}
	})
}

// stopping is a tool that returns because its process stops, the first time.
type stopping struct {
	stop  context.CancelCauseFunc
	calls int
}

func (*stopping) List(context.Context) []llm.Tool {
	return []llm.Tool{{Name: "wait", Parameters: []byte(`{"type":"object"}`)}}
}

func (s *stopping) Call(ctx context.Context, _ mesh.ToolUse) llm.ToolResult {
	if s.calls++; s.calls > 1 {
		return llm.ToolResult{Text: "They are done.", Delivered: []mesh.ExecutionID{"b"}}
	}
	s.stop(agent.ErrShutdown)
	<-ctx.Done()
	return llm.ToolResult{Text: "They are running.", Delivered: []mesh.ExecutionID{"a"}}
}

// finding R7: what a call returns because its process stops is neither logged nor told: the
// run that goes on makes the call again, as it does after kill -9.
func TestACallThatAStopCutsIsMadeAgain(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("wait", "{}"), scripted.Say("Done.").For(scripted.Last("They are done.")))
	d.Begin("go")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	tool := &stopping{stop: stop}
	inv := d.Invocation(false)
	for range modelrun.Run(ctx, inv, modelrun.Options{Model: d.Model, Tools: tool}) {
	}
	if err := inv.Mesh.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if told := agenttest.Logged[mesh.ToolReturned](d); tool.calls != 1 || len(told) != 0 {
		t.Fatalf("after %d calls the log has the results %+v", tool.calls, told)
	}
	inv = d.Invocation(false)
	inv.Continued = true
	outs, err := agenttest.Outputs(t, inv, modelrun.Options{Model: d.Model, Tools: tool})
	if h := d.Collect(outs, err, nil); err != nil || h.Text != "Done." || tool.calls != 2 {
		t.Errorf("it went on to %q, %v, with %d calls", h.Text, err, tool.calls)
	}
	if told := agenttest.Logged[mesh.ToolReturned](d); len(told) != 1 || told[0].Content != "They are done." {
		t.Errorf("the log has the results %+v", told)
	}
}

// The words of a run that went on stay in their place when it is read later.
func TestAConversationGoesOnAfterItsLastMessage(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn := mesh.NewExecutionID(agenttest.Thread)
	look := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"tasks.search"}`}
	n.Log(agenttest.Opened(turn), agenttest.Posted(turn, 1, "look"), agenttest.Dispatch(turn, g.Execution, g.Agent), agenttest.Replied(g.Execution, "I look.", look),
		agenttest.SkillReturned(g.Execution, "a", "found"), agenttest.Posted(turn, 2, "a later message"))
	got, err := conversation(t.Context(), n.Client(t, g), g, "look", nil)
	if diff := cmp.Diff([]string{"user: look", "assistant: I look.", "tool: found"}, agenttest.Lines(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = conversation(t.Context(), n.Client(t, g), g, "not in the log", nil)
	if last := agenttest.Lines(got); last[len(last)-1] != "user: not in the log" || err != nil {
		t.Errorf("got %q, %v", last, err)
	}
}

// S3-032: a run that ends with an error is kept as one that is done or pauses is:
// what its calls came to is in the log, and the next message finds it.
func TestWhatCallsCameToIsLoggedWhenTheModelFails(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("use_skill", `{"skill":"mail.send","arguments":{}}`), scripted.Fail(mesh.Errorf(mesh.Unavailable, "x", "away")))
	h := d.Say("go")
	if told := agenttest.Logged[mesh.ToolReturned](d); !mesh.IsCode(h.Err, mesh.Unavailable) || len(told) != 1 {
		t.Errorf("%v; told %+v", h.Err, told)
	}
	d.Model.Add(scripted.Say("Where were we?"))
	d.Reply("again")
	read := d.Read()
	if len(read) != 4 || read[0] != "user: go" || !strings.HasPrefix(read[2], "tool: ") || read[3] != "user: again" {
		t.Errorf("the next message finds %q", read)
	}
}

// A tool's name that a model made up does not keep the rest from the log.
func TestNamesThatModelsMakeUpAreLogged(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Call("", "{}").Call(strings.Repeat("x", 300), "{}"), scripted.Say("ok"))
	h := d.Say("go")
	told := agenttest.Logged[mesh.ToolReturned](d)
	if h.Err != nil || len(told) != 2 {
		t.Fatalf("%v; told %+v", h.Err, told)
	}
	for _, r := range told {
		if len(r.Name) == 0 || len(r.Name) > 128 {
			t.Errorf("the name is %q", r.Name)
		}
	}
}
