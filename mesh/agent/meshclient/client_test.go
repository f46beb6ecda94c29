package meshclient_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// S4-010, S4-011: an agent reads the history of its thread, and in it what the
// user could read, whoever said it.
func TestHistoryIsWhatTheUserSaidAndRead(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	id := func() mesh.ExecutionID { return mesh.NewExecutionID(agenttest.Thread) }
	turn1, main1, helper, builder, turn2, builder2 := id(), id(), id(), id(), id(), id()
	n.Log(
		agenttest.Opened(turn1), agenttest.Posted(turn1, 1, "hello"), agenttest.Dispatch(turn1, main1, "main"),
		agenttest.Said(main1, 2, "response", "Hi ", false),
		agenttest.Dispatch(main1, helper, "helper"), agenttest.Said(helper, 3, "response", "internal", false),
		agenttest.Said(main1, 4, "response", "there.", true), agenttest.Said(main1, 4, "list", "1, 2", false), agenttest.Said(main1, 5, "list", "1, 2, 3", false),
		&mesh.Event{Execution: main1, Body: mesh.HandoffStarted{From: "main", To: "builder"}},
		agenttest.Said(main1, 6, "response", "too late", true),
		agenttest.Dispatch(turn1, builder, "builder"), agenttest.Said(builder, 7, "response", "Let us build.", false),
		&mesh.Event{Execution: builder, Time: agenttest.At(8), Body: mesh.TaskMoved{State: agenttest.InputRequired, Message: agenttest.Message("dup")}},
		&mesh.Event{Execution: turn1, Time: agenttest.At(8), Body: mesh.TaskMoved{State: agenttest.InputRequired, Message: agenttest.Message("Which name?")}},
		agenttest.Posted(turn1, 9, "bob"), agenttest.Said(builder, 10, "response-2", "Done.", false),
		&mesh.Event{Execution: turn1, Time: agenttest.At(11), Body: mesh.TaskMoved{State: agenttest.Completed}},
		agenttest.Opened(turn2), agenttest.Posted(turn2, 12, "bye"), agenttest.Dispatch(turn2, builder2, "main"),
		&mesh.Event{Execution: turn2, Time: agenttest.At(13), Body: mesh.TaskMoved{State: agenttest.Failed, Message: agenttest.Message("Sorry.")}},
	)
	m := n.Client(t, g)
	got, err := m.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.HistoryItem{
		{Role: "user", Text: "hello", Time: agenttest.At(1)},
		{Role: "agent", Agent: "main", Text: "Hi there.\n1, 2, 3", Time: agenttest.At(2)},
		{Role: "agent", Agent: "builder", Text: "Let us build.", Time: agenttest.At(7)},
		{Role: "agent", Agent: "builder", Text: "Which name?", Time: agenttest.At(8)},
		{Role: "user", Text: "bob", Time: agenttest.At(9)},
		{Role: "agent", Agent: "builder", Text: "Done.", Time: agenttest.At(10)},
		{Role: "user", Text: "bye", Time: agenttest.At(12)},
		{Role: "agent", Agent: "main", Text: "Sorry.", Time: agenttest.At(13)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	n.Log(agenttest.Posted(id(), 14, "again"))
	got, err = m.History(t.Context(), 2)
	if err != nil || len(got) != 2 || got[0].Text != "Sorry." || got[1].Text != "again" {
		t.Errorf("the last two are %v, %v", got, err)
	}
}

func TestRecordFillsInWhatIsEmptyAndReturnsByWhatAgentsAreCalled(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	child := mesh.NewExecutionID(agenttest.Thread)
	e := agenttest.Dispatch("", child, "helper")
	issued, err := m.Record(t.Context(), e, &mesh.Event{Body: mesh.SkillCalled{Call: "1", Skill: "mail.send", Args: "{}"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[mesh.ExecutionID]meshclient.Issued{child: {Ticket: "ticket for helper", Context: "context of helper"}}, issued); diff != "" {
		t.Error(diff)
	}
	if e.ID == "" || e.Execution != g.Execution || e.Actor != "agent:fake" || time.Since(e.Time) > time.Minute {
		t.Errorf("got %+v", e)
	}
	if got := len(n.Bodies(t, g.Execution)); got != 2 {
		t.Errorf("%d events were added, want 2", got)
	}
}

func TestRecordIsRepeatedWhileTheNodeIsAwayAndAddsNothingTwice(t *testing.T) {
	for name, applied := range map[string]bool{"the request was lost": false, "the answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			n, g := agenttest.NewNode(t), agenttest.NewGrant()
			n.Fail, n.Applied = 3, applied
			m := n.Client(t, g)
			if err := m.Note(t.Context(), []byte(`{"step":1}`)); err != nil {
				t.Fatal(err)
			}
			if got := len(n.Bodies(t, g.Execution)); got != 1 {
				t.Errorf("%d events were added, want 1", got)
			}
		})
	}
}

func TestRecordGivesUpWithItsContext(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	n.Fail = 1000
	m := n.Client(t, g)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	if err := m.Note(ctx, []byte("{}")); !mesh.IsCode(err, mesh.Timeout) && !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentRecordsAreAllAdded(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	var writing sync.WaitGroup
	for i := range 20 {
		writing.Go(func() {
			if err := m.Note(t.Context(), fmt.Appendf(nil, "%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	if got := len(n.Bodies(t, g.Execution)); got != 20 {
		t.Errorf("%d events were added, want 20", got)
	}
}

func TestAnAgentFindsItsOwnLastNote(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	if _, ok, err := m.Noted(t.Context()); ok || err != nil {
		t.Errorf("before: %v, %v", ok, err)
	}
	n.Log(&mesh.Event{Execution: "x", Body: mesh.StateNoted{Agent: "other", Data: []byte("theirs")}})
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
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	s, ctx := n.Client(t, g).State(), t.Context()
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
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
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
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	addr, _ := n.Serve(t, nil)
	if _, err := meshclient.New(agenttest.Dial(t, addr), mesh.Call{}); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("got %v", err)
	}
	call := n.Call(g)
	call.GrantToken = strings.Replace(call.GrantToken, ".", ".A", 1)
	m, err := meshclient.New(agenttest.Dial(t, addr), call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.History(t.Context(), 0); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("a forged grant: %v", err)
	}
}

func TestSkillsAndAgentsOfTheMesh(t *testing.T) {
	texttest.Fixed(t)
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	n.Agents["helper"] = &meshv1.Agent{Name: "helper", Live: true}
	m := n.Client(t, g)
	agents, err := m.Agents(t.Context(), nil)
	if err != nil || len(agents) != 1 || agents[0].GetName() != "helper" {
		t.Errorf("agents: %v, %v", agents, err)
	}
	text := agenttest.Source("mail.send", "Sends an email.", "mail.send", "email")
	if s, err := m.CreateSkill(t.Context(), text, ""); err != nil || s.GetName() != "mail.send" {
		t.Errorf("create: %v, %v", s, err)
	}
	if s, err := m.Skill(t.Context(), "mail.send"); err != nil || s.GetSource() != text {
		t.Errorf("get: %v, %v", s, err)
	}
	if _, err := m.Skill(t.Context(), "mail.forward"); !mesh.IsCode(err, mesh.NotFound) || mesh.DetailOf(err) != "There is no skill mail.forward" {
		t.Errorf("unknown: %v", err)
	}
	if _, err := m.CreateSkill(t.Context(), "nonsense", ""); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a broken file: %v", err)
	}
}

// Whoever dispatches an agent has its grant and could note in its name.
func TestANoteCountsWhenTheUserTalkedToWhoWroteIt(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn, main, before, hired := mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread)
	note := func(in mesh.ExecutionID, data string) *mesh.Event {
		return &mesh.Event{Execution: in, Body: mesh.StateNoted{Agent: g.Agent, Data: []byte(data)}}
	}
	n.Log(agenttest.Opened(turn), agenttest.Dispatch(turn, before, g.Agent), note(before, "mine"),
		&mesh.Event{Execution: before, Body: mesh.StateNoted{Agent: "main", Data: []byte("under another name")}},
		agenttest.Dispatch(turn, main, "main"), note(main, "of an agent that has another name"),
		agenttest.Dispatch(main, hired, g.Agent), note(hired, "of one that main dispatched"))
	if data, ok, err := n.Client(t, g).Noted(t.Context()); string(data) != "mine" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", data, ok, err)
	}
}

func TestHistoryHasTheWordsOfAnAgentThatWaitedWhileAnotherTurnRan(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn1, asks, turn2, other := mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread)
	n.Log(agenttest.Opened(turn1), agenttest.Dispatch(turn1, asks, "asker"), &mesh.Event{Execution: turn1, Body: mesh.TaskMoved{State: agenttest.InputRequired}},
		agenttest.Opened(turn2), agenttest.Dispatch(turn2, other, "main"), agenttest.Said(other, 1, "response", "Meanwhile.", false),
		&mesh.Event{Execution: asks, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}},
		agenttest.Said(asks, 2, "response-2", "Thank you.", false))
	got, err := n.Client(t, g).History(t.Context(), 0)
	want := []agent.HistoryItem{
		{Role: "agent", Agent: "main", Text: "Meanwhile.", Time: agenttest.At(1)}, {Role: "agent", Agent: "asker", Text: "Thank you.", Time: agenttest.At(2)},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// What is kept is sent when nothing follows it, in the order in which it was said.
func TestWhatIsKeptIsSentWhenNothingFollows(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	for _, text := range []string{"first", "second"} {
		if err := m.Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	limit := time.Now().Add(time.Minute)
	for len(n.Bodies(t, g.Execution)) < 2 && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	got := n.Bodies(t, g.Execution)
	if len(got) != 2 || got[0].(mesh.ModelReplied).Text != "first" || n.Appended() != 1 {
		t.Errorf("%d requests brought %v", n.Appended(), got)
	}
}

// What is sent is in the thread before what another run kept earlier, and takes along
// what its own did. A machine that stops for a while may bring both at once.
func TestWhatIsSentDoesNotWait(t *testing.T) {
	for try := 0; ; try++ {
		n, g, other := agenttest.NewNode(t), agenttest.NewGrant(), agenttest.NewGrant()
		m := n.Client(t, g)
		for _, err := range []error{
			n.Client(t, other).Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: "kept"}}),
			m.Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: "kept"}}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		if err := m.Send(t.Context(), &mesh.Event{Body: mesh.SkillReturned{Call: "1"}}); err != nil {
			t.Fatal(err)
		}
		for len(n.Bodies(t, g.Execution)) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		early := len(n.Bodies(t, other.Execution)) == 0
		if got := n.Bodies(t, g.Execution); len(got) != 2 || n.Appended() > 2 {
			t.Fatalf("%d requests brought %v", n.Appended(), got)
		}
		if early {
			return
		}
		if try == 20 {
			t.Fatal("it waits as long as what is kept")
		}
	}
}

// What is kept goes with what must be durable, before it; and before the thread is read.
func TestWhatIsKeptGoesWithWhatFollows(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	keep := func(text string) {
		t.Helper()
		if err := m.Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	keep("a reply")
	if _, err := m.Record(t.Context(), &mesh.Event{Body: mesh.SkillCalled{Call: "1", Skill: "mail.send"}}); err != nil {
		t.Fatal(err)
	}
	got := n.Bodies(t, g.Execution)
	if _, called := got[len(got)-1].(mesh.SkillCalled); !called || len(got) != 2 || n.Appended() != 1 {
		t.Errorf("%d requests brought %v", n.Appended(), got)
	}
	keep("another")
	if _, err := m.Actions(t.Context()); err != nil || len(n.Bodies(t, g.Execution)) != 3 {
		t.Errorf("what is read does not have what was said: %v", err)
	}
	for range 300 { // who says much waits for the log
		keep("more")
	}
	if n := len(n.Bodies(t, g.Execution)); n < 200 {
		t.Errorf("of 303 events %d are in the log", n)
	}
	if err := m.Flush(t.Context()); err != nil || len(n.Bodies(t, g.Execution)) != 303 {
		t.Errorf("%v; %d events are in the log", err, len(n.Bodies(t, g.Execution)))
	}
}

// A node that refuses some of what was kept takes the rest, and the agent is told once.
func TestWhatTheNodeRefusesTakesNothingAlong(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	n.Refuse = func(e *meshv1.Event) error {
		if e.GetModelReplied().GetText() == "bad" || e.GetSkillCalled().GetCall() == "bad" {
			return mesh.Errorf(mesh.Exhausted, "node", "no room")
		}
		return nil
	}
	m := n.Client(t, g)
	keep := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err := m.Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: text}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep("good", "bad", "good")
	if err := m.Flush(t.Context()); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("got %v", err)
	}
	if err := m.Flush(t.Context()); err != nil || len(n.Bodies(t, g.Execution)) != 2 {
		t.Errorf("%v; the log has %v", err, n.Bodies(t, g.Execution))
	}
	keep("good")
	if _, err := m.Record(t.Context(), &mesh.Event{Body: mesh.SkillCalled{Call: "bad"}}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("got %v", err)
	}
	if len(n.Bodies(t, g.Execution)) != 3 {
		t.Errorf("the log has %v", n.Bodies(t, g.Execution))
	}
	keep("bad") // nobody waits for it
	limit := time.Now().Add(time.Minute)
	for before := n.Appended(); n.Appended() < before+2 && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	if _, err := m.Record(t.Context(), &mesh.Event{Body: mesh.SkillCalled{Call: "1"}}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("the next is told %v", err)
	}
	if _, err := m.Record(t.Context(), &mesh.Event{Body: mesh.SkillCalled{Call: "1"}}); err != nil {
		t.Errorf("and the one after that %v", err)
	}
}

// At the end of a run all that was kept is in the log, or said to be lost, and nothing
// is sent later.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	m := n.Client(t, g)
	reply := &mesh.Event{Body: mesh.ModelReplied{Text: "last"}}
	if err := m.Keep(t.Context(), reply); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil || len(n.Bodies(t, g.Execution)) != 1 {
		t.Errorf("%v; the log has %v", err, n.Bodies(t, g.Execution))
	}
	if err := m.Keep(t.Context(), &mesh.Event{Body: mesh.ModelReplied{Text: "later"}}); err != nil || len(n.Bodies(t, g.Execution)) != 2 {
		t.Errorf("what is kept after the end: %v; the log has %v", err, n.Bodies(t, g.Execution))
	}
	cut := n.Client(t, g)
	n.Refuse = func(*meshv1.Event) error { return mesh.Errorf(mesh.Unavailable, "node", "away") }
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := cut.Keep(ctx, &mesh.Event{Body: mesh.ModelReplied{Text: "lost"}}); err != nil {
		t.Fatal(err)
	}
	if err := cut.Close(ctx); err == nil {
		t.Error("what was lost is not said")
	}
	before := n.Appended()
	time.Sleep(250 * time.Millisecond)
	if after := n.Appended(); after != before {
		t.Errorf("%d requests came after the end", after-before)
	}
}

// What a run says while its node restarts is added when that is back, and once.
func TestARunWaitsForItsNodeToRestart(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	addr, stop := n.Serve(t, nil)
	m, err := meshclient.New(agenttest.Dial(t, addr), n.Call(g))
	if err != nil {
		t.Fatal(err)
	}
	record := func(id string) error {
		_, err := m.Record(t.Context(), &mesh.Event{ID: id, Body: mesh.StateNoted{Agent: g.Agent, Data: []byte(`{}`)}})
		return err
	}
	if err := record("before"); err != nil {
		t.Fatal(err)
	}
	stop()
	done := make(chan error, 1)
	go func() { done <- record("meanwhile") }()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	n.Serve(t, rpctest.ListenAt(t, addr))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := len(n.Events); got != 2 {
		t.Errorf("%d events are there", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Record(over, &mesh.Event{Body: mesh.StateNoted{Agent: g.Agent}}); err == nil {
		t.Error("it goes on after its end")
	}
}

// finding R7: a node that was started anew sends a message to an agent that has registered
// again and has not read the answer yet: its grant is got with the secret that this brings.
func TestAMessageMayComeBeforeTheSecretOfTheRegistration(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	var held atomic.Value
	held.Store("old")
	n.Redeem = func(call mesh.Call) error {
		if call.Holder != "new" {
			held.Store("new") // the answer arrives after this one
			return &mesh.Error{Code: mesh.Unauthenticated, Op: "node", Field: "mesh-holder", Detail: "must be the secret"}
		}
		return nil
	}
	addr, _ := n.Serve(t, nil)
	call, _, err := meshclient.Redeem(t.Context(), agenttest.Dial(t, addr), n.Call(g), func() string { return held.Load().(string) })
	if err != nil || call.GrantToken == "" {
		t.Errorf("redeemed %+v, %v", call, err)
	}
}
