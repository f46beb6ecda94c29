package agent_test

import (
	"context"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"

	"github.com/google/go-cmp/cmp"
)

// cut begins a run that ends in the handler of its second call, as if the
// process died there: the call is announced, and nothing more is logged.
func (d *desk) cut(resumed bool) (key string) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	inv := d.invocation(resumed)
	o := d.options
	o.Face, o.Handlers = d.face, map[string]skill.Handler{}
	for name := range d.options.Handlers {
		o.Handlers[name] = skill.HandlerFunc(func(ctx context.Context, c *skill.Call, env *skill.Env) (*skill.Result, error) {
			if c.Skill != "mail.send" {
				return d.execute(ctx, c, env)
			}
			key = c.Key
			d.n.mu.Lock()
			d.n.refuse = func(*meshv1.Event) error { return mesh.Errorf(mesh.Denied, "node", "the process is dead") }
			d.n.mu.Unlock()
			cancel()
			return nil, ctx.Err()
		})
	}
	tools := skillTools(d.t, inv, o)
	for range modelrun.Run(ctx, inv, modelrun.Options{Model: d.model, Tools: tools, Commands: tools.Commands()}) {
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.refuse = nil
	return key
}

// S0-027, S3-104: after a crash, what is settled is not done again, and the call
// that is not is made again under its key.
func TestARunThatWasCutGoesOnWithTheUnsettledCallsUnderTheirKeys(t *testing.T) {
	eachFace(t, func(t *testing.T, face skilltools.Face) {
		d := newDesk(t, face, does(face, "", newTask), does(face, "", sendBob), scripted.Say("Both done."))
		d.begin("note it and mail bob")
		key := d.cut(false)
		if key == "" || d.made() != "tasks.create" || len(logged[mesh.SkillCalled](d)) != 2 || len(logged[mesh.SkillReturned](d)) != 1 {
			t.Fatalf("the run was not cut as it should: key %q, made %q", key, d.made())
		}
		h := d.run(false)
		if h.err != nil || h.text != "Both done." || d.made() != "tasks.create mail.send" {
			t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
		}
		if got := d.calls[len(d.calls)-1].Key; got != key {
			t.Errorf("the call was made under %s, and before that under %s", got, key)
		}
		if n := len(logged[mesh.SkillCalled](d)); n != 2 {
			t.Errorf("%d calls are announced", n)
		}
		if n := len(d.model.Requests()); n != 3 {
			t.Errorf("the model was asked %d times: what it said before was lost", n)
		}
	})
}

// The words of a run that went on stay in their place when it is read later.
func TestAConversationGoesOnAfterItsLastMessage(t *testing.T) {
	n, g := newNode(t), newGrant()
	turn := mesh.NewExecutionID(thread)
	look := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"tasks.search"}`}
	n.log(opened(turn), posted(turn, 1, "look"), dispatch(turn, g.Execution, g.Agent), replied(g.Execution, "I look.", look),
		skillReturned(g.Execution, "a", "found"), posted(turn, 2, "a later message"))
	got, err := conversation(t.Context(), n.mesh(t, g), g, "look", nil)
	if diff := cmp.Diff([]string{"user: look", "assistant: I look.", "tool: found"}, lines(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = conversation(t.Context(), n.mesh(t, g), g, "not in the log", nil)
	if last := lines(got); last[len(last)-1] != "user: not in the log" || err != nil {
		t.Errorf("got %q, %v", last, err)
	}
}

// S3-032: a run that ends with an error is kept as one that is done or pauses is:
// what its calls came to is in the log, and the next message finds it.
func TestWhatCallsCameToIsLoggedWhenTheModelFails(t *testing.T) {
	d := newDesk(t, skilltools.FaceUseSkill, scripted.Call("use_skill", `{"skill":"mail.send","arguments":{}}`), scripted.Fail(mesh.Errorf(mesh.Unavailable, "x", "away")))
	h := d.say("go")
	if told := logged[mesh.ToolReturned](d); !mesh.IsCode(h.err, mesh.Unavailable) || len(told) != 1 {
		t.Errorf("%v; told %+v", h.err, told)
	}
	d.model.Add(scripted.Say("Where were we?"))
	d.reply("again")
	read := d.read()
	if len(read) != 4 || read[0] != "user: go" || !strings.HasPrefix(read[2], "tool: ") || read[3] != "user: again" {
		t.Errorf("the next message finds %q", read)
	}
}

// A tool's name that a model made up does not keep the rest from the log.
func TestNamesThatModelsMakeUpAreLogged(t *testing.T) {
	d := newDesk(t, skilltools.FaceUseSkill, scripted.Call("", "{}").Call(strings.Repeat("x", 300), "{}"), scripted.Say("ok"))
	h := d.say("go")
	told := logged[mesh.ToolReturned](d)
	if h.err != nil || len(told) != 2 {
		t.Fatalf("%v; told %+v", h.err, told)
	}
	for _, r := range told {
		if len(r.Name) == 0 || len(r.Name) > 128 {
			t.Errorf("the name is %q", r.Name)
		}
	}
}
