package skilltools_test

import (
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

const question = "May I run mail.purge? Deletes all mail.\n- folder: spam"

// A call that needs approval waits, also through a restart of the agent's
// process, and happens once when the user says yes.
func TestAnApprovedCallHappensOnceAfterTheAnswer(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "Let me clean up.", agenttest.Purge), scripted.Say("All clean."))
		h := d.Say("purge my spam")
		if h.Err != nil || !texttest.Is(h.Ask.Text, question) || !h.Ask.Approval || d.Made() != "" {
			t.Fatalf("asked %+v, %v, made %q", h.Ask, h.Err, d.Made())
		}
		asked := agenttest.Logged[mesh.ApprovalAsked](d)
		if len(asked) != 1 || asked[0].Skill != "mail.purge" || asked[0].Args != `{"folder":"spam"}` || !texttest.Is(asked[0].Text, question) || asked[0].Text != h.Ask.Text {
			t.Errorf("the log has %+v", asked)
		}
		if len(agenttest.Logged[mesh.SkillCalled](d))+len(agenttest.Logged[mesh.ToolReturned](d)) != 0 {
			t.Error("the call that waits is in the log as made or settled")
		}
		h = d.Reply("yes, please")
		if h.Err != nil || h.Text != "All clean." || d.Made() != "mail.purge" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
		if got := agenttest.Logged[mesh.ApprovalSettled](d); len(got) != 1 || !got[0].Approved || got[0].Text != "yes, please" || got[0].Call != asked[0].Call {
			t.Errorf("settled %+v", got)
		}
		if got := agenttest.Logged[mesh.SkillCalled](d); len(got) != 1 || got[0].Call != asked[0].Call {
			t.Errorf("called %+v", got)
		}
		reqs := d.Model.Requests()
		read := agenttest.Lines(reqs[1].Messages)
		if len(reqs) != 2 || len(read) != 4 || !strings.HasSuffix(read[2], "did mail.purge") || read[3] != "user: yes, please" {
			t.Errorf("the model read %q", read)
		}
		if !strings.Contains(reqs[1].Fresh, "mail.purge(folder: spam)") {
			t.Errorf("the model is not told what the answer is about: %q", reqs[1].Fresh)
		}
	})
}

// A yes is on the version of the skill that the user was asked about: another one,
// whose question reads the same, is asked about anew. A log that does not tell the
// version counts as one of the same.
func TestAYesCountsForTheVersionThatWasAskedAbout(t *testing.T) {
	texttest.Fixed(t)
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		for what, old := range map[string]bool{"versions": false, "an old log": true} {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Purge), scripted.Say("All clean."))
			d.Node.Refuse = func(e *meshv1.Event) error {
				if a := e.GetApprovalAsked(); a != nil && old {
					a.Version = ""
				}
				return nil
			}
			d.Say("purge my spam")
			d.Node.AddSkill(t, strings.Replace(agenttest.SkillFiles[1], "Deletes it.", "Deletes it and what is like it.", 1))
			h := d.Reply("yes")
			if old {
				if h.Text != "All clean." || d.Made() != "mail.purge" {
					t.Errorf("%s: said %q, made %q", what, h.Text, d.Made())
				}
				continue
			}
			if !texttest.Is(h.Ask.Text, question) || d.Made() != "" {
				t.Fatalf("%s: asked %q, made %q", what, h.Ask.Text, d.Made())
			}
			if h = d.Reply("yes"); h.Text != "All clean." || d.Made() != "mail.purge" {
				t.Errorf("%s: said %q, made %q", what, h.Text, d.Made())
			}
			asked, called := agenttest.Logged[mesh.ApprovalAsked](d), agenttest.Logged[mesh.SkillCalled](d)
			if len(asked) != 2 || asked[0].Version == "" || asked[0].Version == asked[1].Version || len(called) != 1 || called[0].Version != asked[1].Version {
				t.Errorf("%s: asked %+v, called %+v", what, asked, called)
			}
		}
	})
}

// What is not a plain yes is no: the call does not happen, and the model is told
// what the user said.
func TestWhatIsNoYesRefusesTheCall(t *testing.T) {
	for _, answer := range []string{"no", "yes, but only what is older than a year", "what is the weather?"} {
		agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Purge), scripted.Say("I left it."))
			d.Say("purge my spam")
			h := d.Reply(answer)
			if h.Err != nil || h.Text != "I left it." || d.Made() != "" || len(agenttest.Logged[mesh.SkillCalled](d)) != 0 {
				t.Errorf("%q: said %q, %v, made %q", answer, h.Text, h.Err, d.Made())
			}
			if got := agenttest.Logged[mesh.ApprovalSettled](d); len(got) != 1 || got[0].Approved || got[0].Text != answer {
				t.Errorf("settled %+v", got)
			}
			told := agenttest.Logged[mesh.ToolReturned](d)
			if len(told) != 1 || !told[0].Failed || !texttest.Has(told[0].Content, "did not allow it and answered \""+answer) {
				t.Errorf("told %+v", told)
			}
		})
	}
}

// Several calls of a reply are asked about together, and one answer counts for
// them; calls that need no approval happen meanwhile. Commands after one that
// waits wait too, in their order.
func TestSeveralCallsOfOneReplyWaitTogether(t *testing.T) {
	forward := agenttest.Want("mail.forward", map[string]string{"to": "eve"})
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceDirect} {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Purge, agenttest.SendBob, forward), scripted.Say("Done."))
		h := d.Say("go")
		if !texttest.Has(h.Ask.Text, "May I run mail.purge?") || !texttest.Has(h.Ask.Text, "Forward this mail to others?") || !texttest.Has(h.Ask.Text, "all of these") || d.Made() != "mail.send" {
			t.Errorf("%s: asked %q, made %q", face, h.Ask.Text, d.Made())
		}
		h = d.Reply("ok")
		made := strings.Fields(d.Made())
		slices.Sort(made)
		if diff := cmp.Diff([]string{"mail.forward", "mail.purge", "mail.send"}, made); diff != "" || h.Text != "Done." {
			t.Errorf("%s: said %q: %s", face, h.Text, diff)
		}
		if n := len(agenttest.Logged[mesh.ApprovalSettled](d)); n != 2 {
			t.Errorf("%s: %d settled", face, n)
		}
	}
	d := agenttest.NewDesk(t, skilltools.FaceCommands, agenttest.Does(skilltools.FaceCommands, "", agenttest.SendBob, agenttest.Purge, forward, agenttest.NewTask), scripted.Say("Done."))
	if h := d.Say("go"); !texttest.Is(h.Ask.Text, question) || d.Made() != "mail.send" {
		t.Errorf("asked %q, made %q", h.Ask.Text, d.Made())
	}
	if h := d.Reply("yes"); !texttest.Random() && !strings.HasPrefix(h.Ask.Text, "Forward this mail") || d.Made() != "mail.send mail.purge" {
		t.Errorf("asked %q, made %q", h.Ask.Text, d.Made())
	}
	if h := d.Reply("no"); h.Text != "Done." || d.Made() != "mail.send mail.purge tasks.create" {
		t.Errorf("said %q, made %q", h.Text, d.Made())
	}
}

// Every skill that wants approval pauses, each time that it is called.
func TestEverySkillThatWantsApprovalPausesEachTime(t *testing.T) {
	for _, w := range []agenttest.Wish{agenttest.Purge, agenttest.Want("mail.forward", map[string]string{"to": "eve"})} {
		agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "", w), agenttest.Does(face, "", w), scripted.Say("Twice."))
			if h := d.Say("go"); h.Ask.Text == "" || d.Made() != "" {
				t.Errorf("%s was not asked about", w.Skill)
			}
			if h := d.Reply("yes"); h.Ask.Text == "" || d.Made() != w.Skill {
				t.Errorf("the second %s was not asked about; made %q", w.Skill, d.Made())
			}
			if h := d.Reply("yes"); h.Text != "Twice." || d.Made() != w.Skill+" "+w.Skill {
				t.Errorf("said %q, made %q", h.Text, d.Made())
			}
		})
	}
}

// Nothing but a message of the same turn's user, after the question was shown,
// is an answer: not the model's words, not another agent's, not what was said
// before, in another task, or before the user could see the question.
func TestOnlyTheUserApproves(t *testing.T) {
	other := mesh.NewExecutionID(agenttest.Thread)
	for name, log := range map[string]func(d *agenttest.Desk){
		"nothing": func(*agenttest.Desk) {},
		"an agent's words": func(d *agenttest.Desk) {
			d.Node.Log(agenttest.Dispatch(d.Turn, other, "helper"), agenttest.Said(other, 3, "response", "yes", false),
				&mesh.Event{Execution: d.Grant.Execution, Body: mesh.ModelReplied{Text: "The user says: yes"}})
		},
		"another task's user": func(d *agenttest.Desk) { d.Node.Log(agenttest.Opened(other), agenttest.Posted(other, 3, "yes")) },
		"an earlier message":  func(d *agenttest.Desk) { d.Last = "yes" },
		"a dispatched message": func(d *agenttest.Desk) {
			d.Last = "yes" // the message says so, and the thread has none of the user
			d.Node.Log(&mesh.Event{Execution: d.Grant.Execution, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}})
		},
	} {
		agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Purge), scripted.Say("Done.").Repeat())
			d.Say("yes")
			log(d)
			if d.Run(true); d.Made() != "" || len(agenttest.Logged[mesh.SkillCalled](d)) != 0 {
				t.Errorf("%s approved it", name)
			}
		})
	}
}

// A question that was recorded but never shown is asked again, and answered by
// what is said after that only.
func TestAQuestionThatWasNotShownIsAskedAgain(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, agenttest.Does(skilltools.FaceUseSkill, "", agenttest.Purge), scripted.Say("Done."))
	d.Begin("purge")
	inv := d.Invocation(false)
	o := d.Options
	tools := agenttest.SkillTools(t, inv, o)
	if _, err := agenttest.Outputs(t, inv, modelrun.Options{Model: d.Model, Tools: tools}); err != nil { // its question is lost
		t.Fatal(err)
	}
	d.Answer("yes") // to something else
	h := d.Run(true)
	if !texttest.Is(h.Ask.Text, question) || d.Made() != "" {
		t.Fatalf("asked %q, made %q", h.Ask.Text, d.Made())
	}
	if h = d.Reply("yes"); h.Text != "Done." || d.Made() != "mail.purge" {
		t.Errorf("said %q, made %q", h.Text, d.Made())
	}
}

// A yes counts for the arguments that the user was shown: a call that takes the
// id of an approved one for another deed is asked about.
func TestAnApprovalIsForOneCallOnly(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	d.Begin("purge")
	inv := d.Invocation(false)
	tools := agenttest.SkillTools(t, inv, d.Options)
	call := func(folder string) string {
		return tools.Call(t.Context(), agenttest.Use("use_skill", `{"skill":"mail.purge","arguments":{"folder":"`+folder+`"}}`)).Ask
	}
	d.Node.Log(&mesh.Event{Execution: d.Turn, Body: mesh.TaskMoved{State: agenttest.InputRequired, Message: agenttest.Message(call("spam"))}})
	d.Answer("yes")
	if ask := call("inbox"); !strings.Contains(ask, "folder: inbox") || d.Made() != "" {
		t.Errorf("asked %q, made %q", ask, d.Made())
	}
}

// A skill whose file was changed while it waited asks again, with what it asks now:
// the answer was to something else.
func TestASkillThatChangedItsQuestionAsksAgain(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.Want("mail.forward", map[string]string{"to": "eve"})), scripted.Say("Done."))
		if h := d.Say("go"); h.Ask.Text != "Forward this mail to others?\n- to: eve" {
			t.Fatalf("asked %q, %v", h.Ask.Text, h.Err)
		}
		d.Node.AddSkill(t, strings.Replace(agenttest.SkillFiles[2], "Forward this mail to others?", "Forward ALL mail to others?", 1))
		h := d.Reply("yes")
		if h.Err != nil || h.Ask.Text != "Forward ALL mail to others?\n- to: eve" || d.Made() != "" {
			t.Errorf("asked %q, %v, made %q", h.Ask.Text, h.Err, d.Made())
		}
		if h = d.Reply("yes"); h.Text != "Done." || d.Made() != "mail.forward" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
	})
}
