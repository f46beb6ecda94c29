package modelrun_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
)

// S3-033, S3-042, S3-044, S3-045, S3-114: at the limit of a turn the user reads
// what is done and what is open; with a yes the run goes on where it was, with
// what is done in its eyes, and makes no call twice.
func TestAtTheLimitTheUserIsAskedAndTheRunGoesOn(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "I begin.", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("All done."))
		d.Pause = true
		d.Allow(1, limit.TurnSkillCalls)
		h := d.Say("note it and mail bob")
		const want = "I have used the 1 skill call that I may make for one message." +
			"\n\nDone so far:\n- tasks.create(title: Call Ann)\n\nStill open:\n- mail.send(to: bob)\n\nWould you like me to continue?"
		if h.Err != nil || !texttest.Is(h.Ask.Text, want) || h.Ask.Approval || d.Made() != "tasks.create" {
			t.Fatalf("asked %q, %v, made %q", h.Ask.Text, h.Err, d.Made())
		}
		if told := agenttest.Logged[mesh.ToolReturned](d); len(told) != 1 || !told[0].Failed || !texttest.Has(told[0].Content, "1 of 1") {
			t.Errorf("the call that met the limit is settled as %+v", told)
		}
		if n := len(agenttest.Logged[mesh.LimitTripped](d)); n != 1 {
			t.Errorf("%d limits in the log", n)
		}

		h = d.Reply("yes")
		if h.Err != nil || h.Text != "All done." || d.Made() != "tasks.create mail.send" {
			t.Errorf("said %q, %v, made %q", h.Text, h.Err, d.Made())
		}
		reqs := d.Model.Requests()
		fresh := reqs[2].Fresh
		if got := reqs[2].About.Resume; got != llm.ResumeContinue { // finding C8
			t.Errorf("programs are told that it is to %q", got)
		}
		for _, part := range []string{"wants you to continue", "continue where you left off", "do not repeat", "- tasks.create(title: Call Ann)"} {
			if !texttest.Has(fresh, part) {
				t.Errorf("the guidance %q does not say %q", fresh, part)
			}
		}
		read := agenttest.Lines(reqs[2].Messages)
		if read[0] != "user: note it and mail bob" || read[len(read)-1] != "user: yes" || !slices.ContainsFunc(read, func(l string) bool { return strings.Contains(l, "did tasks.create") }) {
			t.Errorf("the model read %q", read)
		}
	})
}

// S3-031: a message that is more than a yes is a new instruction, and what was
// done before does not count for it; but the user is to be told of it.
func TestAfterALimitAnotherMessageIsANewInstruction(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), agenttest.Does(face, "", agenttest.SendBob), agenttest.Does(face, "", agenttest.NewTask))
		d.Pause = true
		d.Allow(1, limit.TurnSkillCalls)
		d.Say("note it and mail bob")
		h := d.Reply("no, mail bob first")
		if fresh := d.Model.Requests()[2].Fresh; strings.Contains(fresh, "continue") ||
			!texttest.Has(fresh, "Done already:\n- tasks.create(title: Call Ann)") {
			t.Errorf("the model is told %q", fresh)
		}
		if !texttest.Has(h.Ask.Text, "Done so far:\n- mail.send(to: bob)\n\nStill open:") {
			t.Errorf("asked %q", h.Ask.Text)
		}
	})
}

// S3-043: the limit of a conversation says so.
func TestTheLimitOfAConversationHasItsOwnMessage(t *testing.T) {
	for name, want := range map[string]string{
		limit.ThreadSkillCalls: "This conversation has used the 1 skill call", limit.UserSkillCalls: "You have used the 1 skill call",
	} {
		d := agenttest.NewDesk(t, skilltools.FaceUseSkill, agenttest.Does(skilltools.FaceUseSkill, "", agenttest.NewTask), agenttest.Does(skilltools.FaceUseSkill, "", agenttest.SendBob))
		d.Pause = true
		d.Allow(1, name)
		h := d.Say("go")
		if !texttest.Random() && !strings.HasPrefix(h.Ask.Text, want) || !texttest.Has(h.Ask.Text, "room for more at 12:34:56 UTC.") || strings.Contains(h.Ask.Text, "say what is done") {
			t.Errorf("%s: asked %q", name, h.Ask.Text)
		}
	}
}

// S0-030, S0-059: at a limit of its own, an agent that does not have the user's
// stream answers once more without tools.
func TestAtTheLimitAnAgentWithoutAUserAnswersWithWhatItHas(t *testing.T) {
	for name, limits := range map[string]func(*agenttest.Desk){
		limit.AgentToolCalls: func(d *agenttest.Desk) { d.Options.MaxToolCalls = 1 },
		limit.AgentSteps:     func(d *agenttest.Desk) { d.MaxSteps = 1 },
	} {
		agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
			d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask))
			if name != limit.AgentSteps {
				d.Model.Add(agenttest.Does(face, "", agenttest.SendBob, agenttest.SendBob))
			}
			d.Model.Add(scripted.Say("This is what I have."))
			limits(d)
			h := d.Say("go")
			if h.Err != nil || h.Text != "This is what I have." || h.Ask.Text != "" || d.Made() != "tasks.create" {
				t.Errorf("%s: said %q, asked %q, %v, made %q", name, h.Text, h.Ask.Text, h.Err, d.Made())
			}
			reqs := d.Model.Requests()
			if last := reqs[len(reqs)-1]; len(last.Tools) != 0 {
				t.Errorf("%s: the last request has tools", name)
			}
			if trips := agenttest.Logged[mesh.LimitTripped](d); len(trips) == 0 || trips[0].Limit != name || trips[0].Most != 1 {
				t.Errorf("the log has %+v, want %s", trips, name)
			}
			if n := len(agenttest.Logged[mesh.LimitTripped](d)); name == limit.AgentToolCalls && n != 1 {
				t.Errorf("the trip is in the log %d times", n)
			}
			if told := agenttest.Logged[mesh.ToolReturned](d); name != limit.AgentSteps && len(told) != 2 {
				t.Errorf("%s: settled %+v", name, told)
			}
		})
	}
}

// S3-032, S3-042: the limit of steps pauses too.
func TestTheLimitOfStepsPauses(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Done."))
		d.Pause, d.MaxSteps = true, 1
		h := d.Say("go")
		if diff := texttest.Diff("I have taken the 1 step that I may take for one message.\n\nDone so far:\n- tasks.create(title: Call Ann)\n\nWould you like me to continue?", h.Ask.Text); diff != "" {
			t.Error(diff)
		}
		d.MaxSteps = 2
		if h = d.Reply("continue"); h.Text != "Done." || d.Made() != "tasks.create mail.send" {
			t.Errorf("said %q, made %q", h.Text, d.Made())
		}
		if fresh := d.Model.Requests()[1].Fresh; !strings.Contains(fresh, "- tasks.create(title: Call Ann)") {
			t.Errorf("guided by %q", fresh)
		}
	})
}

// S3-029: limits are checked before every call of the model. While the window of
// the conversation has no room, the user is told so without one; then the model
// is asked again.
func TestWithoutRoomInTheWindowTheModelIsNotAsked(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Hello again."))
		d.Pause = true
		d.Allow(1, limit.ThreadSkillCalls)
		d.Say("note it and mail bob")
		free := agenttest.Now().Truncate(time.Hour).Add(3*time.Hour + 34*time.Minute + 56*time.Second)
		for _, tt := range []struct {
			when  time.Time
			asked int
		}{{free.Add(-time.Minute), 2}, {free.Add(time.Second), 3}} {
			d.Last = "and now?"
			d.Node.Log(&mesh.Event{Execution: d.Turn, Time: tt.when, Body: mesh.MessagePosted{Message: agenttest.Message(d.Last)}},
				&mesh.Event{Execution: d.Grant.Execution, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}})
			h := d.Run(true)
			if n := len(d.Model.Requests()); n != tt.asked || h.Err != nil {
				t.Errorf("at %v: the model was asked %d times, want %d; %v", tt.when, n, tt.asked, h.Err)
			}
			if paused := texttest.Random() && h.Ask.Report != nil || strings.HasPrefix(h.Ask.Text, "This conversation has used the 1 skill call"); paused != (tt.asked == 2) {
				t.Errorf("at %v: asked %q", tt.when, h.Ask.Text)
			}
		}
	})
}
