package handoff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/thread"
)

func said(id mesh.ExecutionID, artifact, name string) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "agent:x", Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: artifact, Name: name}}}
}

func fieldOf(err error) string {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

func (s *scene) end(g *mesh.Grant, req handoff.End) (*thread.Handoff, error) {
	return s.any().End(s.t.Context(), key, mesh.Principal{Tenant: key.Tenant, User: "ann", Grant: g}, req)
}

// What came of a handoff is named by artifacts that tasks of the thread have: by the ids
// that users read, or that their agent gave them itself.
func TestAHandoffEndsWithWhatCameOfIt(t *testing.T) {
	s, h := taken(t)
	s.add(run("b1", "x1", "scout"), said("a1", "answer", "Plan"), said("b1", "2.skill", "Skill"), said("b1", "2.answer", ""), said("x1", "notes", ""))
	if _, err := s.end(by("builder", "b1"), handoff.End{Artifacts: []string{"notes"}}); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("what a helper said is no artifact of a task: %v", err)
	}
	got, err := s.end(by("builder", "b1"), handoff.End{Summary: "made", Artifacts: []string{"skill", "answer", "2.skill"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []mesh.ArtifactRef{{Task: "t1", ID: "2.skill", Name: "Skill"}, {Task: "t1", ID: "2.answer"}}
	if diff := cmp.Diff(want, got.Artifacts); diff != "" {
		t.Errorf("returned\n%s", diff)
	}
	last, err := s.Get(t.Context(), key)
	if err != nil || last.Seq != h.Seq || last.State != mesh.HandoffReturning || !cmp.Equal(want, last.Artifacts) {
		t.Errorf("the thread has %+v, %v", last, err)
	}
	s.add(run("t1", "a2", "main"), &mesh.Event{Execution: "a2", Actor: "agent:main", Body: mesh.StateNoted{Agent: "main"}})
	if last, err := s.Get(t.Context(), key); err != nil || last.State != "completed" {
		t.Errorf("when main was heard: %+v, %v", last, err)
	}
}

// A user who ends a handoff may name artifacts too, as they read them.
func TestAUserNamesArtifactsAsTheyReadThem(t *testing.T) {
	s, _ := taken(t)
	s.add(said("a1", "answer", ""), said("b1", "2.answer", ""))
	got, err := s.end(nil, handoff.End{Artifacts: []string{"answer"}})
	if err != nil || len(got.Artifacts) != 1 || got.Artifacts[0].ID != "answer" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestArtifactsThatBreakARuleAreRefusedByName(t *testing.T) {
	many := make([]string, handoff.MaxArtifacts+1)
	for i := range many {
		many[i] = fmt.Sprintf("a%d", i)
	}
	tests := map[string]struct {
		ids   []string
		field string
	}{
		"too many":   {many, "artifact_ids"},
		"an empty":   {[]string{"answer", ""}, "artifact_ids[1]"},
		"a long":     {[]string{strings.Repeat("x", handoff.MaxArtifactID+1)}, "artifact_ids[0]"},
		"twice":      {[]string{"answer", "answer"}, "artifact_ids[1]"},
		"an unknown": {[]string{"answer", "nothing"}, "artifact_ids[1]"},
		"none such":  {[]string{strings.Repeat("x", handoff.MaxArtifactID)}, "artifact_ids[0]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := taken(t)
			s.add(said("b1", "2.answer", ""))
			_, err := s.end(by("builder", "b1"), handoff.End{Artifacts: tt.ids})
			if !mesh.IsCode(err, mesh.Invalid) || fieldOf(err) != tt.field {
				t.Errorf("got %v in field %q, want %q", err, fieldOf(err), tt.field)
			}
			if !s.state().Handoff.Active() {
				t.Error("the handoff is over")
			}
		})
	}
	s, _ := taken(t)
	s.add(said("b1", "2.answer", ""))
	for what, p := range map[string]mesh.Principal{"another tenant": {Tenant: "globex", User: "ann"}, "another user": {Tenant: key.Tenant, User: "eve"}} {
		_, known := s.any().End(t.Context(), mesh.ThreadKey{Tenant: p.Tenant, ID: key.ID}, p, handoff.End{Artifacts: []string{"2.answer"}})
		_, unknown := s.any().End(t.Context(), mesh.ThreadKey{Tenant: p.Tenant, ID: mesh.NewThreadID()}, p, handoff.End{Artifacts: []string{"2.answer"}})
		if p.Tenant != key.Tenant && (!mesh.IsCode(known, mesh.NotFound) || mesh.DetailOf(known) != mesh.DetailOf(unknown)) {
			t.Errorf("%s is told %v, and of a thread that is not there %v", what, known, unknown)
		}
		if known == nil {
			t.Errorf("%s ended it", what)
		}
	}
}

// finding O9: of a handoff from which nobody is to return, its agent keeps the conversation
// when it says that it is done. What came of it is kept, and stands when the user leaves;
// that it failed, or gave up, gives control back.
func TestNobodyReturnsWhereNobodyIsExpectedTo(t *testing.T) {
	staying := func(t *testing.T) *scene {
		s := newScene(t)
		req := start("builder")
		req.ReturnExpected = false
		if _, err := s.Start(t.Context(), by("main", "a1"), req); err != nil {
			t.Fatal(err)
		}
		s.add(run("t1", "b1", "builder"), said("b1", "2.answer", ""))
		return s
	}
	t.Run("done", func(t *testing.T) {
		s := staying(t)
		got, err := s.end(by("builder", "b1"), handoff.End{Summary: "it is made", Artifacts: []string{"answer"}})
		if err != nil || !got.Active() || got.Outcome != mesh.HandoffCompleted {
			t.Fatalf("%+v, %v", got, err)
		}
		if st := s.state(); st.ActiveAgent("main") != "builder" || st.Turn("t1").Leg() == nil || st.Turn("t1").Leg().Execution != "b1" {
			t.Error("the conversation is with somebody else")
		}
		got, err = s.end(nil, handoff.End{Outcome: mesh.HandoffCancelled})
		if err != nil || got.Active() || got.Outcome != mesh.HandoffCompleted || got.Result != "it is made" || len(got.Artifacts) != 1 {
			t.Errorf("the user left, and it is %+v, %v", got, err)
		}
		if s.state().ActiveAgent("main") != "main" {
			t.Error("the user did not get out")
		}
	})
	for _, o := range []mesh.HandoffOutcome{mesh.HandoffCancelled, mesh.HandoffError} {
		t.Run(string(o), func(t *testing.T) {
			s := staying(t)
			if got, err := s.end(by("builder", "b1"), handoff.End{Outcome: o}); err != nil || got.Active() || s.state().ActiveAgent("main") != "main" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// finding O9: the node drops what the target noted where a handoff ends early and nothing is
// to be kept of it, whoever ends it, and whatever is noted late.
func TestNotesAreDroppedWhereNothingIsToBeKept(t *testing.T) {
	note := func(id mesh.ExecutionID, data string) *mesh.Event {
		return &mesh.Event{Execution: id, Actor: "agent:builder", Body: mesh.StateNoted{Agent: "builder", Data: []byte(data)}}
	}
	tests := map[string]struct {
		keep    bool
		outcome mesh.HandoffOutcome
		byAgent bool
		want    string
	}{
		"broken off by the user, to be kept":      {true, mesh.HandoffCancelled, false, "late"},
		"broken off by the user":                  {false, mesh.HandoffCancelled, false, ""},
		"broken off by the agent":                 {false, mesh.HandoffCancelled, true, ""},
		"failed":                                  {false, mesh.HandoffError, true, ""},
		"done, with nothing to be kept otherwise": {false, mesh.HandoffCompleted, true, "late"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			req := start("builder")
			req.PreserveState = tt.keep
			if _, err := s.Start(t.Context(), by("main", "a1"), req); err != nil {
				t.Fatal(err)
			}
			s.add(run("t1", "b1", "builder"), note("b1", "draft"))
			var g *mesh.Grant
			if tt.byAgent {
				g = by("builder", "b1")
			}
			if _, err := s.end(g, handoff.End{Outcome: tt.outcome}); err != nil {
				t.Fatal(err)
			}
			s.add(note("b1", "late"), run("t1", "b2", "builder"))
			said := new(thread.Transcript)
			for _, e := range s.events() {
				said.Apply(e)
			}
			got, known := said.Note("builder", "b2")
			if string(got) != tt.want || !known {
				t.Errorf("it reads %q (%v), want %q", got, known, tt.want)
			}
			s.add(note("b2", "anew"))
			events := s.events()
			said.Apply(events[len(events)-1])
			if got, _ := said.Note("builder", "b2"); string(got) != "anew" {
				t.Errorf("what it notes afterwards reads %q", got)
			}
		})
	}
}

// What goes along word by word, and how long a session may be, is the operator's to set; a
// request says how much it wants within the bounds.
func TestTheOperatorSetsWhatGoesAlongAndForHowLong(t *testing.T) {
	set := handoff.Settings{Session: 2 * time.Hour, Recent: new(3), RecentFor: map[string]int{"builder": 7}}
	tests := map[string]struct {
		set     handoff.Settings
		target  string
		asked   *int
		recent  int
		session time.Duration
	}{
		"nothing is set":        {handoff.Settings{}, "builder", nil, 0, time.Hour},
		"for all":               {set, "other", nil, 3, 2 * time.Hour},
		"for the target":        {set, "builder", nil, 7, 2 * time.Hour},
		"asked for less":        {set, "builder", new(0), 0, 2 * time.Hour},
		"asked for more":        {set, "other", new(20), 3, 2 * time.Hour},
		"for the target, more":  {set, "builder", new(20), 7, 2 * time.Hour},
		"nothing may go along":  {handoff.Settings{Recent: new(0)}, "builder", new(5), 0, time.Hour},
		"a session has no end":  {handoff.Settings{Session: -1}, "builder", nil, 0, 0},
		"nothing for this one":  {handoff.Settings{Recent: new(4), RecentFor: map[string]int{"builder": 0}}, "builder", nil, 0, time.Hour},
		"asked where all is 0":  {handoff.Settings{}, "builder", new(5), 5, time.Hour},
		"the most that is sent": {handoff.Settings{Recent: new(20)}, "builder", nil, 20, time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			req := start(tt.target)
			req.RecentMessages = tt.asked
			m := s.any()
			h, err := m.With(tt.set).Start(t.Context(), by("main", "a1"), req)
			if err != nil || h.RecentMessages != tt.recent || h.Session != tt.session {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}
