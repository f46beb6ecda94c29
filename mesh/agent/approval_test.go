package agent_test

import (
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
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
	eachFace(t, func(t *testing.T, face skilltools.Face) {
		d := newDesk(t, face, does(face, "Let me clean up.", purge), scripted.Say("All clean."))
		h := d.say("purge my spam")
		if h.err != nil || !texttest.Is(h.ask.Text, question) || !h.ask.Approval || d.made() != "" {
			t.Fatalf("asked %+v, %v, made %q", h.ask, h.err, d.made())
		}
		asked := logged[mesh.ApprovalAsked](d)
		if len(asked) != 1 || asked[0].Skill != "mail.purge" || asked[0].Args != `{"folder":"spam"}` || !texttest.Is(asked[0].Text, question) || asked[0].Text != h.ask.Text {
			t.Errorf("the log has %+v", asked)
		}
		if len(logged[mesh.SkillCalled](d))+len(logged[mesh.ToolReturned](d)) != 0 {
			t.Error("the call that waits is in the log as made or settled")
		}
		h = d.reply("yes, please")
		if h.err != nil || h.text != "All clean." || d.made() != "mail.purge" {
			t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
		}
		if got := logged[mesh.ApprovalSettled](d); len(got) != 1 || !got[0].Approved || got[0].Text != "yes, please" || got[0].Call != asked[0].Call {
			t.Errorf("settled %+v", got)
		}
		if got := logged[mesh.SkillCalled](d); len(got) != 1 || got[0].Call != asked[0].Call {
			t.Errorf("called %+v", got)
		}
		reqs := d.model.Requests()
		read := lines(reqs[1].Messages)
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
	eachFace(t, func(t *testing.T, face skilltools.Face) {
		for what, old := range map[string]bool{"versions": false, "an old log": true} {
			d := newDesk(t, face, does(face, "", purge), scripted.Say("All clean."))
			d.n.refuse = func(e *meshv1.Event) error {
				if a := e.GetApprovalAsked(); a != nil && old {
					a.Version = ""
				}
				return nil
			}
			d.say("purge my spam")
			d.n.addSkill(t, strings.Replace(skillFiles[1], "Deletes it.", "Deletes it and what is like it.", 1))
			h := d.reply("yes")
			if old {
				if h.text != "All clean." || d.made() != "mail.purge" {
					t.Errorf("%s: said %q, made %q", what, h.text, d.made())
				}
				continue
			}
			if !texttest.Is(h.ask.Text, question) || d.made() != "" {
				t.Fatalf("%s: asked %q, made %q", what, h.ask.Text, d.made())
			}
			if h = d.reply("yes"); h.text != "All clean." || d.made() != "mail.purge" {
				t.Errorf("%s: said %q, made %q", what, h.text, d.made())
			}
			asked, called := logged[mesh.ApprovalAsked](d), logged[mesh.SkillCalled](d)
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
		eachFace(t, func(t *testing.T, face skilltools.Face) {
			d := newDesk(t, face, does(face, "", purge), scripted.Say("I left it."))
			d.say("purge my spam")
			h := d.reply(answer)
			if h.err != nil || h.text != "I left it." || d.made() != "" || len(logged[mesh.SkillCalled](d)) != 0 {
				t.Errorf("%q: said %q, %v, made %q", answer, h.text, h.err, d.made())
			}
			if got := logged[mesh.ApprovalSettled](d); len(got) != 1 || got[0].Approved || got[0].Text != answer {
				t.Errorf("settled %+v", got)
			}
			told := logged[mesh.ToolReturned](d)
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
	forward := wish{"mail.forward", map[string]string{"to": "eve"}}
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceDirect} {
		d := newDesk(t, face, does(face, "", purge, sendBob, forward), scripted.Say("Done."))
		h := d.say("go")
		if !texttest.Has(h.ask.Text, "May I run mail.purge?") || !texttest.Has(h.ask.Text, "Forward this mail to others?") || !texttest.Has(h.ask.Text, "all of these") || d.made() != "mail.send" {
			t.Errorf("%s: asked %q, made %q", face, h.ask.Text, d.made())
		}
		h = d.reply("ok")
		made := strings.Fields(d.made())
		slices.Sort(made)
		if diff := cmp.Diff([]string{"mail.forward", "mail.purge", "mail.send"}, made); diff != "" || h.text != "Done." {
			t.Errorf("%s: said %q: %s", face, h.text, diff)
		}
		if n := len(logged[mesh.ApprovalSettled](d)); n != 2 {
			t.Errorf("%s: %d settled", face, n)
		}
	}
	d := newDesk(t, skilltools.FaceCommands, does(skilltools.FaceCommands, "", sendBob, purge, forward, newTask), scripted.Say("Done."))
	if h := d.say("go"); !texttest.Is(h.ask.Text, question) || d.made() != "mail.send" {
		t.Errorf("asked %q, made %q", h.ask.Text, d.made())
	}
	if h := d.reply("yes"); !texttest.Random() && !strings.HasPrefix(h.ask.Text, "Forward this mail") || d.made() != "mail.send mail.purge" {
		t.Errorf("asked %q, made %q", h.ask.Text, d.made())
	}
	if h := d.reply("no"); h.text != "Done." || d.made() != "mail.send mail.purge tasks.create" {
		t.Errorf("said %q, made %q", h.text, d.made())
	}
}

// Every skill that wants approval pauses, each time that it is called.
func TestEverySkillThatWantsApprovalPausesEachTime(t *testing.T) {
	for _, w := range []wish{purge, {"mail.forward", map[string]string{"to": "eve"}}} {
		eachFace(t, func(t *testing.T, face skilltools.Face) {
			d := newDesk(t, face, does(face, "", w), does(face, "", w), scripted.Say("Twice."))
			if h := d.say("go"); h.ask.Text == "" || d.made() != "" {
				t.Errorf("%s was not asked about", w.skill)
			}
			if h := d.reply("yes"); h.ask.Text == "" || d.made() != w.skill {
				t.Errorf("the second %s was not asked about; made %q", w.skill, d.made())
			}
			if h := d.reply("yes"); h.text != "Twice." || d.made() != w.skill+" "+w.skill {
				t.Errorf("said %q, made %q", h.text, d.made())
			}
		})
	}
}

// Nothing but a message of the same turn's user, after the question was shown,
// is an answer: not the model's words, not another agent's, not what was said
// before, in another task, or before the user could see the question.
func TestOnlyTheUserApproves(t *testing.T) {
	other := mesh.NewExecutionID(thread)
	for name, log := range map[string]func(d *desk){
		"nothing": func(*desk) {},
		"an agent's words": func(d *desk) {
			d.n.log(dispatch(d.turn, other, "helper"), said(other, 3, "response", "yes", false),
				&mesh.Event{Execution: d.g.Execution, Body: mesh.ModelReplied{Text: "The user says: yes"}})
		},
		"another task's user": func(d *desk) { d.n.log(opened(other), posted(other, 3, "yes")) },
		"an earlier message":  func(d *desk) { d.last = "yes" },
		"a dispatched message": func(d *desk) {
			d.last = "yes" // the message says so, and the thread has none of the user
			d.n.log(&mesh.Event{Execution: d.g.Execution, Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered}})
		},
	} {
		eachFace(t, func(t *testing.T, face skilltools.Face) {
			d := newDesk(t, face, does(face, "", purge), scripted.Say("Done.").Repeat())
			d.say("yes")
			log(d)
			if d.run(true); d.made() != "" || len(logged[mesh.SkillCalled](d)) != 0 {
				t.Errorf("%s approved it", name)
			}
		})
	}
}

// A question that was recorded but never shown is asked again, and answered by
// what is said after that only.
func TestAQuestionThatWasNotShownIsAskedAgain(t *testing.T) {
	d := newDesk(t, skilltools.FaceUseSkill, does(skilltools.FaceUseSkill, "", purge), scripted.Say("Done."))
	d.begin("purge")
	inv := d.invocation(false)
	o := d.options
	tools := skillTools(t, inv, o)
	if _, err := outputs(t, inv, modelrun.Options{Model: d.model, Tools: tools}); err != nil { // its question is lost
		t.Fatal(err)
	}
	d.answer("yes") // to something else
	h := d.run(true)
	if !texttest.Is(h.ask.Text, question) || d.made() != "" {
		t.Fatalf("asked %q, made %q", h.ask.Text, d.made())
	}
	if h = d.reply("yes"); h.text != "Done." || d.made() != "mail.purge" {
		t.Errorf("said %q, made %q", h.text, d.made())
	}
}

// A yes counts for the arguments that the user was shown: a call that takes the
// id of an approved one for another deed is asked about.
func TestAnApprovalIsForOneCallOnly(t *testing.T) {
	d := newDesk(t, skilltools.FaceUseSkill)
	d.begin("purge")
	inv := d.invocation(false)
	tools := skillTools(t, inv, d.options)
	call := func(folder string) string {
		return tools.Call(t.Context(), use("use_skill", `{"skill":"mail.purge","arguments":{"folder":"`+folder+`"}}`)).Ask
	}
	d.n.log(&mesh.Event{Execution: d.turn, Body: mesh.TaskMoved{State: input, Message: message(call("spam"))}})
	d.answer("yes")
	if ask := call("inbox"); !strings.Contains(ask, "folder: inbox") || d.made() != "" {
		t.Errorf("asked %q, made %q", ask, d.made())
	}
}

// A skill whose file was changed while it waited asks again, with what it asks now:
// the answer was to something else.
func TestASkillThatChangedItsQuestionAsksAgain(t *testing.T) {
	eachFace(t, func(t *testing.T, face skilltools.Face) {
		d := newDesk(t, face, does(face, "", wish{"mail.forward", map[string]string{"to": "eve"}}), scripted.Say("Done."))
		if h := d.say("go"); h.ask.Text != "Forward this mail to others?\n- to: eve" {
			t.Fatalf("asked %q, %v", h.ask.Text, h.err)
		}
		d.n.addSkill(t, strings.Replace(skillFiles[2], "Forward this mail to others?", "Forward ALL mail to others?", 1))
		h := d.reply("yes")
		if h.err != nil || h.ask.Text != "Forward ALL mail to others?\n- to: eve" || d.made() != "" {
			t.Errorf("asked %q, %v, made %q", h.ask.Text, h.err, d.made())
		}
		if h = d.reply("yes"); h.text != "Done." || d.made() != "mail.forward" {
			t.Errorf("said %q, %v, made %q", h.text, h.err, d.made())
		}
	})
}
