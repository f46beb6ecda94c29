package agent_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// order logs the user's message that asks for the call, and makes it.
func (d *desk) order(c agent.SkillCall) heardRun {
	d.t.Helper()
	md, err := c.Metadata()
	if err != nil {
		d.t.Fatal(err)
	}
	d.last = "run " + c.Skill
	m := message(d.last)
	m.Metadata = md
	begun := dispatch(d.turn, d.g.Execution, d.g.Agent)
	begun.Body = mesh.DispatchIssued{Child: begun.Body.(mesh.DispatchIssued).Child, Message: m}
	d.n.log(opened(d.turn), posted(d.turn, 1, d.last), begun)
	inv := d.invocation(false)
	inv.SkillCall = &c
	return d.carry(inv)
}

// carry does what an agent does with a call that was asked for.
func (d *desk) carry(inv *agent.Invocation) heardRun {
	d.t.Helper()
	o := d.options
	o.Face = d.face
	tools := skillTools(d.t, inv, o)
	call, err := inv.Requested(d.t.Context())
	if err != nil || call == nil {
		d.t.Fatalf("the call that was asked for is %+v, %v", call, err)
	}
	var outs []agent.Output
	template := tools.RunCall(d.t.Context(), call, func(o agent.Output, failure error) bool {
		if failure != nil {
			err = failure
			return false
		}
		outs = append(outs, o)
		return true
	})
	if template != "" {
		var more []agent.Output
		more, err = outputs(d.t, inv, modelrun.Options{Model: d.model, Template: template, Tools: tools, Commands: tools.Commands()})
		outs = append(outs, more...)
	}
	return d.heard(outs, err, tools)
}

// goOn delivers the user's answer, which does not name the call.
func (d *desk) goOn(text string) heardRun {
	d.t.Helper()
	d.answer(text)
	return d.carry(d.invocation(true))
}

func TestASkillRunsWithoutAModel(t *testing.T) {
	d := newDesk(t, skilltools.FaceUseSkill)
	d.result = func(*skill.Call) (*skill.Result, error) {
		return &skill.Result{Content: "sent", Files: []string{"1.eml"}, Metadata: map[string]any{"id": "7"}}, nil
	}
	h := d.order(agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "bob"}, Source: mesh.SourceSchedule})
	want := []agent.Output{agent.Text{Text: "sent"}, agent.Data{Name: skilltools.ResultData, Value: map[string]any{"files": []string{"1.eml"}, "metadata": map[string]any{"id": "7"}}}}
	if diff := cmp.Diff(want, h.outs); diff != "" || h.err != nil {
		t.Error(diff, h.err)
	}
	if c := logged[mesh.SkillCalled](d); len(c) != 1 || c[0].Source != mesh.SourceSchedule || c[0].Args != `{"to":"bob"}` {
		t.Errorf("called %+v", c)
	}
	if len(d.model.Requests()) != 0 {
		t.Error("a model was asked")
	}
	if again := d.goOn("and?"); again.text != "sent" || d.made() != "mail.send" {
		t.Errorf("said %q, made %q: a call that is done is not made again", again.text, d.made())
	}
}

func TestASkillThatFailsFailsTheRun(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		call   agent.SkillCall
		code   mesh.Code
		want   string
		change func(d *desk)
	}{
		"unknown":   {agent.SkillCall{Skill: "mail.sned"}, mesh.NotFound, "Did you mean", nil},
		"arguments": {agent.SkillCall{Skill: "mail.send"}, mesh.Invalid, "Missing required field: 'to'", nil},
		"status": {agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "x"}}, mesh.Precondition, "no such mailbox", func(d *desk) {
			d.result = func(*skill.Call) (*skill.Result, error) {
				return &skill.Result{Status: skill.StatusError, Content: "no such mailbox"}, nil
			}
		}},
		"limit": {agent.SkillCall{Skill: "mail.send", Arguments: map[string]any{"to": "x"}}, mesh.Exhausted, "I have used the 0 skill calls that I may make for one message.", func(d *desk) { d.allow(0, limit.TurnSkillCalls) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, skilltools.FaceUseSkill)
			if tt.change != nil {
				tt.change(d)
			}
			tt.call.Source = mesh.SourceRun
			h := d.order(tt.call)
			if !mesh.IsCode(h.err, tt.code) || !strings.Contains(mesh.DetailOf(h.err), tt.want) || len(h.outs) != 0 {
				t.Errorf("ended with %v and %v", h.err, h.outs)
			}
			if name == "limit" && limit.TripOf(h.err) == nil {
				t.Errorf("programs cannot tell that %v is a limit", h.err)
			}
		})
	}
}

// A call that needs approval waits, and goes on with an answer that does not
// name it any more; what the user approved along with the call does not wait.
func TestASkillThatIsRunWaitsForItsApproval(t *testing.T) {
	c := agent.SkillCall{Skill: "mail.purge", Arguments: map[string]any{"folder": "spam"}, Source: mesh.SourceRun}
	d := newDesk(t, skilltools.FaceUseSkill)
	if h := d.order(c); !texttest.Is(h.ask.Text, question) || !h.ask.Approval || d.made() != "" {
		t.Fatalf("asked %+v, made %q", h.ask, d.made())
	}
	if h := d.goOn("yes"); h.text != "did mail.purge" || h.err != nil || d.made() != "mail.purge" {
		t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
	}
	d = newDesk(t, skilltools.FaceUseSkill)
	d.order(c)
	if h := d.goOn("no"); !mesh.IsCode(h.err, mesh.Denied) || d.made() != "" {
		t.Errorf("ended with %v, made %q", h.err, d.made())
	}
	c.Approved = true
	d = newDesk(t, skilltools.FaceUseSkill)
	if h := d.order(c); h.text != "did mail.purge" {
		t.Errorf("said %q, asked %q, %v", h.text, h.ask.Text, h.err)
	}
}

// A template is carried out by a model, which keeps its instruction when the run
// goes on; the user's approval of the template approves nothing that the model
// does.
func TestATemplateIsCarriedOutByAModel(t *testing.T) {
	eachFace(t, func(t *testing.T, face skilltools.Face) {
		d := newDesk(t, face, does(face, "", sendBob), does(face, "", purge), scripted.Say("Greeted."))
		h := d.order(agent.SkillCall{Skill: "workflows.greet", Arguments: map[string]any{"tone": "warm"}, Source: mesh.SourceRun, Approved: true})
		if !texttest.Is(h.ask.Text, question) || d.made() != "mail.send" {
			t.Fatalf("asked %q, %v, made %q", h.ask.Text, h.err, d.made())
		}
		if h = d.goOn("yes"); h.text != "Greeted." || h.err != nil || d.made() != "mail.send mail.purge" {
			t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
		}
		reqs := d.model.Requests()
		for _, r := range reqs {
			if first := r.Messages[0].Text; !texttest.Has(first, "Carry out the skill workflows.greet") || !strings.Contains(first, "Say hello to everyone.") || !strings.Contains(first, `{"tone":"warm"}`) {
				t.Errorf("the model was told %q", first)
			}
		}
		if read := d.read(); read[len(read)-1] != "user: yes" {
			t.Errorf("the model read %q", read)
		}
		if n := len(logged[mesh.SkillCalled](d)); n != 3 {
			t.Errorf("%d calls, want the template's and two", n)
		}
	})
}

// A skill call in a message counts when the node sends it for the user: another
// agent can neither run skills so nor approve anything.
func TestOnlyTheUserNamesASkillToRun(t *testing.T) {
	for name, tt := range map[string]struct {
		call     map[string]any
		fromUser bool
		want     *agent.SkillCall
		field    string
	}{
		"the user":          {map[string]any{"skill": "a.b", "approved": true}, true, &agent.SkillCall{Skill: "a.b", Source: mesh.SourceRun, Approved: true}, ""},
		"an agent":          {map[string]any{"skill": "a.b", "approved": true}, false, nil, ""},
		"without a skill":   {map[string]any{"source": "run"}, true, nil, "skill_call.skill"},
		"an unknown source": {map[string]any{"skill": "a.b", "source": "cmd"}, true, nil, "skill_call.source"},
	} {
		t.Run(name, func(t *testing.T) {
			r, g, invocation := invoked(t, tt.fromUser)
			m := message("go")
			md, err := agent.SkillCall{Skill: "x"}.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			a2a.Extension(md).Fields["skill_call"] = value(t, tt.call)
			m.Metadata = md
			if tt.field != "" {
				_, err := r.Send(under(t.Context(), g), &a2apb.SendMessageRequest{Message: m})
				if !strings.HasSuffix(mesh.FieldOf(err), tt.field) || !mesh.IsCode(err, mesh.Invalid) {
					t.Errorf("got %v", err)
				}
				return
			}
			listen(t, r, g, send(t, r, g, m).Cursor)
			got := invocation()
			if tt.want != nil {
				tt.want.Arguments = map[string]any{}
			}
			if got.SkillCall != nil && got.SkillCall.Arguments == nil {
				got.SkillCall.Arguments = map[string]any{}
			}
			if diff := cmp.Diff(tt.want, got.SkillCall); diff != "" {
				t.Error(diff)
			}
		})
	}
}
