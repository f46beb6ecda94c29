package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

func at(sec int) time.Time { return time.Date(2026, 1, 2, 3, 4, sec, 0, time.UTC) }

func said(exec mesh.ExecutionID, sec int, id, text string, more bool) *mesh.Event {
	return &mesh.Event{Execution: exec, Time: at(sec), Body: mesh.ArtifactAppended{
		Artifact: &a2apb.Artifact{ArtifactId: id, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}, Append: more,
	}}
}

func dispatch(from, child mesh.ExecutionID, name string) *mesh.Event {
	return &mesh.Event{Execution: from, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: child, Parent: from, Agent: name}}}
}

func opened(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn}}}
}

func posted(id mesh.ExecutionID, sec int, text string) *mesh.Event {
	return &mesh.Event{Execution: id, Time: at(sec), Body: mesh.MessagePosted{Message: message(text)}}
}

// S4-010, S4-011: an agent reads the history of its thread, and in it what the
// user could read, whoever said it.
func TestHistoryIsWhatTheUserSaidAndRead(t *testing.T) {
	n, g := newNode(t), newGrant()
	id := func() mesh.ExecutionID { return mesh.NewExecutionID(thread) }
	turn1, main1, helper, builder, turn2, builder2 := id(), id(), id(), id(), id(), id()
	n.log(
		opened(turn1), posted(turn1, 1, "hello"), dispatch(turn1, main1, "main"),
		said(main1, 2, "response", "Hi ", false),
		dispatch(main1, helper, "helper"), said(helper, 3, "response", "internal", false),
		said(main1, 4, "response", "there.", true), said(main1, 4, "list", "1, 2", false), said(main1, 5, "list", "1, 2, 3", false),
		&mesh.Event{Execution: main1, Body: mesh.HandoffStarted{From: "main", To: "builder"}},
		said(main1, 6, "response", "too late", true),
		dispatch(turn1, builder, "builder"), said(builder, 7, "response", "Let us build.", false),
		&mesh.Event{Execution: builder, Time: at(8), Body: mesh.TaskMoved{State: input, Message: message("dup")}},
		&mesh.Event{Execution: turn1, Time: at(8), Body: mesh.TaskMoved{State: input, Message: message("Which name?")}},
		posted(turn1, 9, "bob"), said(builder, 10, "response-2", "Done.", false),
		&mesh.Event{Execution: turn1, Time: at(11), Body: mesh.TaskMoved{State: completed}},
		opened(turn2), posted(turn2, 12, "bye"), dispatch(turn2, builder2, "main"),
		&mesh.Event{Execution: turn2, Time: at(13), Body: mesh.TaskMoved{State: failed, Message: message("Sorry.")}},
	)
	m := n.mesh(t, g)
	got, err := m.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.HistoryItem{
		{Role: "user", Text: "hello", Time: at(1)},
		{Role: "agent", Agent: "main", Text: "Hi there.\n1, 2, 3", Time: at(2)},
		{Role: "agent", Agent: "builder", Text: "Let us build.", Time: at(7)},
		{Role: "agent", Agent: "builder", Text: "Which name?", Time: at(8)},
		{Role: "user", Text: "bob", Time: at(9)},
		{Role: "agent", Agent: "builder", Text: "Done.", Time: at(10)},
		{Role: "user", Text: "bye", Time: at(12)},
		{Role: "agent", Agent: "main", Text: "Sorry.", Time: at(13)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	n.log(posted(id(), 14, "again"))
	got, err = m.History(t.Context(), 2)
	if err != nil || len(got) != 2 || got[0].Text != "Sorry." || got[1].Text != "again" {
		t.Errorf("the last two are %v, %v", got, err)
	}
}

func TestRecordFillsInWhatIsEmptyAndReturnsGrants(t *testing.T) {
	n, g := newNode(t), newGrant()
	m := n.mesh(t, g)
	child := mesh.NewExecutionID(thread)
	e := dispatch("", child, "helper")
	grants, err := m.Record(t.Context(), e, &mesh.Event{Body: mesh.SkillCalled{Call: "1", Skill: "mail.send", Args: "{}"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[mesh.ExecutionID]string{child: "grant for helper"}, grants); diff != "" {
		t.Error(diff)
	}
	if e.ID == "" || e.Execution != g.Execution || e.Actor != "agent:fake" || time.Since(e.Time) > time.Minute {
		t.Errorf("got %+v", e)
	}
	if got := len(n.bodies(t, g.Execution)); got != 2 {
		t.Errorf("%d events were added, want 2", got)
	}
}

func TestRecordIsRepeatedWhileTheNodeIsAwayAndAddsNothingTwice(t *testing.T) {
	for name, applied := range map[string]bool{"the request was lost": false, "the answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			n, g := newNode(t), newGrant()
			n.fail, n.applied = 3, applied
			m := n.mesh(t, g)
			if err := m.Note(t.Context(), []byte(`{"step":1}`)); err != nil {
				t.Fatal(err)
			}
			if got := len(n.bodies(t, g.Execution)); got != 1 {
				t.Errorf("%d events were added, want 1", got)
			}
		})
	}
}

func TestRecordGivesUpWithItsContext(t *testing.T) {
	n, g := newNode(t), newGrant()
	n.fail = 1000
	m := n.mesh(t, g)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	if err := m.Note(ctx, []byte("{}")); !mesh.IsCode(err, mesh.Timeout) && !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentRecordsAreAllAdded(t *testing.T) {
	n, g := newNode(t), newGrant()
	m := n.mesh(t, g)
	var writing sync.WaitGroup
	for i := range 20 {
		writing.Go(func() {
			if err := m.Note(t.Context(), fmt.Appendf(nil, "%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	if got := len(n.bodies(t, g.Execution)); got != 20 {
		t.Errorf("%d events were added, want 20", got)
	}
}

func TestAnAgentFindsItsOwnLastNote(t *testing.T) {
	n, g := newNode(t), newGrant()
	m := n.mesh(t, g)
	if _, ok, err := m.Noted(t.Context()); ok || err != nil {
		t.Errorf("before: %v, %v", ok, err)
	}
	n.log(&mesh.Event{Execution: "x", Body: mesh.StateNoted{Agent: "other", Data: []byte("theirs")}})
	for _, s := range []string{"first", "second"} {
		if err := m.Note(t.Context(), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	data, ok, err := m.Noted(t.Context())
	if string(data) != "second" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", data, ok, err)
	}
	if err := m.Note(t.Context(), make([]byte, mesh.MaxState+1)); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a long note: %v", err)
	}
}

func TestStateIsThatOfTheTenant(t *testing.T) {
	n, g := newNode(t), newGrant()
	s, ctx := n.mesh(t, g).State(), t.Context()
	if _, _, err := s.Get(ctx, "tasks", "a"); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("a value that is not there: %v", err)
	}
	v, err := s.Put(ctx, "tasks", "a", []byte("1"), 0)
	if err != nil || v != 1 {
		t.Fatalf("got %d, %v", v, err)
	}
	if _, err := s.Put(ctx, "tasks", "a", []byte("2"), 0); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("a stale version: %v", err)
	}
	data, v, err := s.Get(ctx, "tasks", "a")
	if string(data) != "1" || v != 1 || err != nil {
		t.Errorf("got %q, %d, %v", data, v, err)
	}
	items, err := s.List(ctx, "tasks", "", "", 10)
	if diff := cmp.Diff([]skill.Item{{Key: "a", Data: []byte("1"), Version: 1}}, items); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
	if err := s.Delete(ctx, "tasks", "a", skill.AnyVersion); err != nil {
		t.Error(err)
	}
}

func TestHandoffsNameTheThread(t *testing.T) {
	n, g := newNode(t), newGrant()
	m := n.mesh(t, g)
	h, err := m.StartHandoff(t.Context(), &meshv1.StartHandoffRequest{TargetAgent: "builder", Reason: "build"})
	if err != nil || h.GetTargetAgentId() != "builder" || h.GetSourceAgentId() != "fake" {
		t.Errorf("got %v, %v", h, err)
	}
	h, err = m.EndHandoff(t.Context(), &meshv1.EndHandoffRequest{Summary: "built"})
	if err != nil || h.GetResultSummary() != "built" {
		t.Errorf("got %v, %v", h, err)
	}
}

func TestTheMeshIsClosedToThoseWithoutAGrant(t *testing.T) {
	n, g := newNode(t), newGrant()
	addr, _ := n.serve(t, nil)
	if _, err := meshclient.New(dial(t, addr), mesh.Call{}); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("got %v", err)
	}
	call := n.call(g)
	call.GrantToken = strings.Replace(call.GrantToken, ".", ".A", 1)
	m, err := meshclient.New(dial(t, addr), call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.History(t.Context(), 0); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("a forged grant: %v", err)
	}
}

func TestSkillsAndAgentsOfTheMesh(t *testing.T) {
	texttest.Fixed(t)
	n, g := newNode(t), newGrant()
	n.agents["helper"] = &meshv1.Agent{Name: "helper", Live: true}
	m := n.mesh(t, g)
	agents, err := m.Agents(t.Context(), nil)
	if err != nil || len(agents) != 1 || agents[0].GetName() != "helper" {
		t.Errorf("agents: %v, %v", agents, err)
	}
	text := source("mail.send", "Sends an email.", "mail.send", "email")
	if s, err := m.CreateSkill(t.Context(), text); err != nil || s.GetName() != "mail.send" {
		t.Errorf("create: %v, %v", s, err)
	}
	if s, err := m.Skill(t.Context(), "mail.send"); err != nil || s.GetSource() != text {
		t.Errorf("get: %v, %v", s, err)
	}
	if _, err := m.Skill(t.Context(), "mail.forward"); !mesh.IsCode(err, mesh.NotFound) || mesh.DetailOf(err) != "There is no skill mail.forward" {
		t.Errorf("unknown: %v", err)
	}
	if _, err := m.CreateSkill(t.Context(), "nonsense"); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a broken file: %v", err)
	}
}

// Whoever dispatches an agent has its grant and could note in its name.
func TestANoteCountsWhenTheUserTalkedToWhoWroteIt(t *testing.T) {
	n, g := newNode(t), newGrant()
	turn, main, before, hired := mesh.NewExecutionID(thread), mesh.NewExecutionID(thread), mesh.NewExecutionID(thread), mesh.NewExecutionID(thread)
	note := func(in mesh.ExecutionID, data string) *mesh.Event {
		return &mesh.Event{Execution: in, Body: mesh.StateNoted{Agent: g.Agent, Data: []byte(data)}}
	}
	n.log(opened(turn), dispatch(turn, before, g.Agent), note(before, "mine"),
		&mesh.Event{Execution: before, Body: mesh.StateNoted{Agent: "main", Data: []byte("under another name")}},
		dispatch(turn, main, "main"), note(main, "of an agent that has another name"),
		dispatch(main, hired, g.Agent), note(hired, "of one that main dispatched"))
	if data, ok, err := n.mesh(t, g).Noted(t.Context()); string(data) != "mine" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", data, ok, err)
	}
}

func TestHistoryHasTheWordsOfAnAgentThatWaitedWhileAnotherTurnRan(t *testing.T) {
	n, g := newNode(t), newGrant()
	turn1, asks, turn2, other := mesh.NewExecutionID(thread), mesh.NewExecutionID(thread), mesh.NewExecutionID(thread), mesh.NewExecutionID(thread)
	n.log(opened(turn1), dispatch(turn1, asks, "asker"), &mesh.Event{Execution: turn1, Body: mesh.TaskMoved{State: input}},
		opened(turn2), dispatch(turn2, other, "main"), said(other, 1, "response", "Meanwhile.", false),
		&mesh.Event{Execution: asks, Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered}},
		said(asks, 2, "response-2", "Thank you.", false))
	got, err := n.mesh(t, g).History(t.Context(), 0)
	want := []agent.HistoryItem{
		{Role: "agent", Agent: "main", Text: "Meanwhile.", Time: at(1)}, {Role: "agent", Agent: "asker", Text: "Thank you.", Time: at(2)},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
