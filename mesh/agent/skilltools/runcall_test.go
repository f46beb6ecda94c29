package skilltools_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// order logs the user's message that asks for the call, and makes it.
func order(d *agenttest.Desk, c agent.SkillCall) agenttest.RunResult {
	d.T.Helper()
	md, err := c.Metadata()
	if err != nil {
		d.T.Fatal(err)
	}
	d.Last = "run " + c.Skill
	m := agenttest.Message(d.Last)
	m.Metadata = md
	begun := agenttest.Dispatch(d.Turn, d.Grant.Execution, d.Grant.Agent)
	begun.Body = mesh.DispatchIssued{Child: begun.Body.(mesh.DispatchIssued).Child, Message: m}
	d.Node.Log(agenttest.Opened(d.Turn), agenttest.Posted(d.Turn, 1, d.Last), begun)
	inv := d.Invocation(false)
	inv.SkillCall = &c
	return carry(d, inv)
}

// carry does what an agent does with a call that was asked for.
func carry(d *agenttest.Desk, inv *agent.Invocation) agenttest.RunResult {
	d.T.Helper()
	o := d.Options
	o.Face = d.Face
	tools := agenttest.SkillTools(d.T, inv, o)
	call, err := inv.Requested(d.T.Context())
	if err != nil || call == nil {
		d.T.Fatalf("the call that was asked for is %+v, %v", call, err)
	}
	var outs []agent.Output
	page := tools.RunCall(d.T.Context(), call, func(o agent.Output, failure error) bool {
		if failure != nil {
			err = failure
			return false
		}
		outs = append(outs, o)
		return true
	})
	if page != nil {
		var more []agent.Output
		more, err = agenttest.Outputs(d.T, inv, modelrun.Options{Model: d.Model, Page: page, Tools: tools, Commands: tools.Commands()})
		outs = append(outs, more...)
	}
	if err := inv.Mesh.Flush(d.T.Context()); err != nil { // as at the end of a run
		d.T.Error(err)
	}
	return d.Collect(outs, err, tools)
}

// goOn delivers the user's answer, which does not name the call.
func goOn(d *agenttest.Desk, text string) agenttest.RunResult {
	d.T.Helper()
	d.Answer(text)
	return carry(d, d.Invocation(true))
}

func TestASkillRunsWithoutAModel(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	d.Result = func(*skill.Call) (*skill.Result, error) {
		return &skill.Result{Content: "sent", Files: []string{"1.eml"}, Metadata: map[string]any{"id": "7"}}, nil
	}
	h := order(d, agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "bob"}, Source: mesh.SourceSchedule})
	want := []agent.Output{agent.Text{Text: "sent"}, agent.Data{Name: skilltools.ResultData, Value: map[string]any{"files": []string{"1.eml"}, "metadata": map[string]any{"id": "7"}}}}
	if diff := cmp.Diff(want, h.Outs); diff != "" || h.Err != nil {
		t.Error(diff, h.Err)
	}
	if c := agenttest.Logged[mesh.SkillCalled](d); len(c) != 1 || c[0].Source != mesh.SourceSchedule || c[0].Args != `{"to":"bob"}` {
		t.Errorf("called %+v", c)
	}
	if len(d.Model.Requests()) != 0 {
		t.Error("a model was asked")
	}
	if again := goOn(d, "and?"); again.Text != "sent" || d.Made() != "mail.send" {
		t.Errorf("said %q, made %q: a call that is done is not made again", again.Text, d.Made())
	}
}

func TestASkillThatFailsFailsTheRun(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		call   agent.SkillCall
		code   mesh.Code
		want   string
		change func(d *agenttest.Desk)
	}{
		"unknown":   {agent.SkillCall{Skill: "mail.sned"}, mesh.NotFound, "Did you mean", nil},
		"arguments": {agent.SkillCall{Skill: "mail.send"}, mesh.Invalid, "Missing required field: 'to'", nil},
		"status": {agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "x"}}, mesh.Precondition, "no such mailbox", func(d *agenttest.Desk) {
			d.Result = func(*skill.Call) (*skill.Result, error) {
				return &skill.Result{Status: skill.StatusError, Content: "no such mailbox"}, nil
			}
		}},
		"limit": {agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "x"}}, mesh.Exhausted, "I have used the 0 skill calls that I may make for one message.", func(d *agenttest.Desk) { d.Allow(0, limit.TurnSkillCalls) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
			if tt.change != nil {
				tt.change(d)
			}
			tt.call.Source = mesh.SourceRun
			h := order(d, tt.call)
			if !mesh.IsCode(h.Err, tt.code) || !strings.Contains(mesh.DetailOf(h.Err), tt.want) || len(h.Outs) != 0 {
				t.Errorf("ended with %v and %v", h.Err, h.Outs)
			}
			if name == "limit" && limit.TripOf(h.Err) == nil {
				t.Errorf("programs cannot tell that %v is a limit", h.Err)
			}
		})
	}
}

// A call that needs approval waits, and goes on with an answer that does not
// name it any more; what the user approved along with the call does not wait.
func TestASkillThatIsRunWaitsForItsApproval(t *testing.T) {
	c := agent.SkillCall{Skill: "mail.purge", Arguments: map[string]any{"folder": "spam"}, Source: mesh.SourceRun}
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	if h := order(d, c); !texttest.Is(h.Ask.Text, question) || !h.Ask.Approval || d.Made() != "" {
		t.Fatalf("asked %+v, made %q", h.Ask, d.Made())
	}
	if h := goOn(d, "yes"); h.Text != "did mail.purge" || h.Err != nil || d.Made() != "mail.purge" {
		t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
	}
	d = agenttest.NewDesk(t, skilltools.FaceUseSkill)
	order(d, c)
	if h := goOn(d, "no"); !mesh.IsCode(h.Err, mesh.Denied) || d.Made() != "" {
		t.Errorf("ended with %v, made %q", h.Err, d.Made())
	}
	c.Approved = true
	d = agenttest.NewDesk(t, skilltools.FaceUseSkill)
	if h := order(d, c); h.Text != "did mail.purge" {
		t.Errorf("said %q, asked %q, %v", h.Text, h.Ask.Text, h.Err)
	}
}

// A template is carried out by a model, which keeps its instruction when the run
// goes on; the user's approval of the template approves nothing that the model
// does.
func TestATemplateIsCarriedOutByAModel(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.SendBob), agenttest.Does(face, "", agenttest.Purge), scripted.Say("Greeted."))
		h := order(d, agent.SkillCall{Skill: "workflows.greet", Arguments: map[string]any{"tone": "warm"}, Source: mesh.SourceRun, Approved: true})
		if !texttest.Is(h.Ask.Text, question) || d.Made() != "mail.send" {
			t.Fatalf("asked %q, %v, made %q", h.Ask.Text, h.Err, d.Made())
		}
		if h = goOn(d, "yes"); h.Text != "Greeted." || h.Err != nil || d.Made() != "mail.send mail.purge" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
		reqs := d.Model.Requests()
		for _, r := range reqs {
			if first := r.Messages[0].Text; !texttest.Has(first, "Carry out the skill workflows.greet") || !strings.Contains(first, "Say hello to everyone.") || !strings.Contains(first, `{"tone":"warm"}`) {
				t.Errorf("the model was told %q", first)
			}
		}
		if read := d.Read(); read[len(read)-1] != "user: yes" {
			t.Errorf("the model read %q", read)
		}
		if n := len(agenttest.Logged[mesh.SkillCalled](d)); n != 3 {
			t.Errorf("%d calls, want the template's and two", n)
		}
	})
}

// part of T2: what a message says was asked for and approved counts only if the log has
// it: whoever calls the agent has its message in the hands.
func TestACallThatTheLogDoesNotHaveWasNotAskedFor(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	c := agent.SkillCall{Skill: "mail.purge", Arguments: map[string]any{"folder": "spam"}, Source: mesh.SourceRun, Approved: true}
	d.Begin("hello") // and nothing else is logged
	inv := d.Invocation(false)
	inv.SkillCall = &c
	if call, err := inv.Requested(t.Context()); call != nil || err != nil {
		t.Errorf("the call that was asked for is %+v, %v", call, err)
	}
	// Nor does it make more of what is logged.
	logged := agent.SkillCall{Skill: "mail.purge", Arguments: map[string]any{"folder": "spam"}, Source: mesh.SourceRun}
	other := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	order := agenttest.Dispatch(other.Turn, other.Grant.Execution, other.Grant.Agent)
	md, err := logged.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	m := agenttest.Message("run it")
	m.Metadata = md
	order.Body = mesh.DispatchIssued{Child: order.Body.(mesh.DispatchIssued).Child, Message: m}
	other.Node.Log(agenttest.Opened(other.Turn), agenttest.Posted(other.Turn, 1, "run it"), order)
	inv = other.Invocation(false)
	inv.SkillCall = &c
	if call, err := inv.Requested(t.Context()); err != nil || call == nil || call.Approved {
		t.Errorf("the call that was asked for is %+v, %v", call, err)
	}
}
