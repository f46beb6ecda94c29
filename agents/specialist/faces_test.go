package specialist_test

import (
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// S3-001, S3-002, S3-085, S3-091, S3-092, S3-134: the same mission through every
// face is the same calls with the same effects, and the user reads no commands.
func TestTheSameMissionThroughEveryFace(t *testing.T) {
	create := map[skilltools.Face]scripted.Step{
		skilltools.FaceCommands: scripted.Say("I note it.\n```cmd\ntasks.create --title \"Call Ann\" --due 2026-11-20\n", "tasks.search\n```"),
		skilltools.FaceUseSkill: scripted.Say("I note it.").Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Call Ann","due":"2026-11-20"}}`),
		skilltools.FaceDirect:   scripted.Say("I note it.").Call("tasks-create", `{"title":"Call Ann","due":"2026-11-20"}`),
	}
	search := map[skilltools.Face][]scripted.Step{
		skilltools.FaceUseSkill: {scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`)},
		skilltools.FaceDirect:   {scripted.Call("tasks-search", `{}`)},
	}
	all := map[skilltools.Face][]mesh.SkillCalled{}
	for face, source := range map[skilltools.Face]string{
		skilltools.FaceCommands: mesh.SourceCommand, skilltools.FaceUseSkill: mesh.SourceUseSkill, skilltools.FaceDirect: mesh.SourceDirect,
	} {
		t.Run(string(face), func(t *testing.T) {
			model := scripted.New(append(slices.Insert(search[face], 0, create[face]), scripted.Say("It is on your list."))...)
			m := direct(t, model, func(c *specialist.Config) { c.Interface = face })
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Note that I call Ann today, and show me my tasks")
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "I note it.\n\nIt is on your list." || !s.Heard("Using tasks.create") || !s.Heard("Using tasks.search") {
				t.Errorf("ended %v with %q, heard %q", s.State, s.Text, s.Status)
			}
			reqs := model.Requests()
			for _, r := range reqs {
				if r.System != reqs[0].System || !cmp.Equal(r.Tools, reqs[0].Tools) {
					t.Error("the beginning of the requests of a run differs")
				}
			}
			if has := strings.Contains(reqs[0].System, "## Commands"); has != (face == skilltools.FaceCommands) {
				t.Errorf("the prompt tells of commands: %v", has)
			}
			last := reqs[len(reqs)-1].Messages
			if text := last[len(last)-1].Text; !strings.Contains(text, "Call Ann") {
				t.Errorf("the model read %q of the list", text)
			}
			for _, e := range m.Events(thread) {
				if c, ok := e.Body.(mesh.SkillCalled); ok {
					if c.Source != source || c.Version == "" {
						t.Errorf("call %+v", c)
					}
					c.Source, c.Call = "", ""
					all[face] = append(all[face], c)
				}
			}
		})
	}
	if len(all[skilltools.FaceCommands]) != 2 {
		t.Fatalf("called %+v", all)
	}
	for face, calls := range all {
		if diff := cmp.Diff(all[skilltools.FaceCommands], calls); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
}

// S3-051, S3-159: looks at help leave all the calls, and room for them.
func TestHelpLeavesRoomForAllCalls(t *testing.T) {
	var steps []scripted.Step
	for range 5 {
		steps = append(steps, scripted.Say("```cmd\ntasks.search --help\n```"), scripted.Say("```cmd\ntasks.search\n```"))
	}
	m := direct(t, scripted.New(append(steps, scripted.Say("Five times."))...), func(c *specialist.Config) { c.Interface = skilltools.FaceCommands })
	thread := mesh.NewThreadID()
	if s := m.Say(thread, "search five times"); s.Text != "Five times." {
		t.Errorf("said %q", s.Text)
	}
	calls := 0
	for _, e := range m.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.SkillCalled:
			calls++
		case mesh.LimitTripped:
			t.Errorf("the limit %s was met", b.Limit)
		}
	}
	if calls != 5 {
		t.Errorf("%d calls", calls)
	}
}
