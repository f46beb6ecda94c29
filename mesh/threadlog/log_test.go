package threadlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = logtest.Key(1)

// said is a fact with a text by which it is known again.
func said(text string) *mesh.Event {
	return &mesh.Event{Actor: "agent:a", Body: mesh.CancelRequested{By: text}}
}

func text(e *mesh.Event) string {
	b, ok := e.Body.(mesh.CancelRequested)
	if !ok {
		return fmt.Sprintf("%T", e.Body)
	}
	return b.By
}

func add(t testing.TB, l *threadlog.Log, events ...*mesh.Event) []mesh.Seq {
	t.Helper()
	seqs, err := l.Append(context.Background(), key, events, threadlog.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

func TestAppendSetsThePlaceOfEachEvent(t *testing.T) {
	now := time.Date(2026, 11, 20, 16, 0, 0, 123_456_789, time.FixedZone("", 3600))
	l := threadlog.New(mem.Open(), threadlog.WithClock(func() time.Time { return now }))
	first, second := said("one"), said("two")
	second.Time = now.Add(time.Hour)
	seqs := add(t, l, first, second)
	if diff := cmp.Diff([]mesh.Seq{1, 2}, seqs); diff != "" {
		t.Error(diff)
	}
	if first.Seq != 1 || second.Seq != 2 || first.Pos < 1 || second.Pos != first.Pos+1 {
		t.Errorf("places are %d@%d and %d@%d", first.Seq, first.Pos, second.Seq, second.Pos)
	}
	want := time.Date(2026, 11, 20, 15, 0, 0, 123_000_000, time.UTC)
	if first.Time != want || second.Time != want.Add(time.Hour) {
		t.Errorf("times are %v and %v", first.Time, second.Time)
	}
	if tail, err := l.Tail(t.Context(), key); tail != 2 || err != nil {
		t.Errorf("tail is %d, %v", tail, err)
	}
	if tail, err := l.Tail(t.Context(), logtest.Key(9)); tail != 0 || err != nil {
		t.Errorf("tail of no thread is %d, %v", tail, err)
	}
}

func TestAppendRefusesWhatCannotBeStoredAndSaysWhy(t *testing.T) {
	l := threadlog.New(mem.Open())
	large := &mesh.Event{Body: mesh.ModelReplied{Text: strings.Repeat("x", mesh.MaxEvent)}}
	moved := &mesh.Event{Execution: "e1", Body: mesh.TaskMoved{}}
	opened := &mesh.Event{Body: mesh.TaskOpened{}}
	for name, c := range map[string]struct {
		events []*mesh.Event
		opts   threadlog.AppendOptions
		words  []string
	}{
		"nothing":        {nil, threadlog.AppendOptions{}, []string{"at least one event"}},
		"too large":      {[]*mesh.Event{said("x"), large}, threadlog.AppendOptions{}, []string{"model_replied", "1048", "1048576"}},
		"no body":        {[]*mesh.Event{{}}, threadlog.AppendOptions{}, []string{"event body"}},
		"pointer body":   {[]*mesh.Event{{Body: &mesh.TaskMoved{}}}, threadlog.AppendOptions{}, []string{"*mesh.TaskMoved"}},
		"not UTF-8":      {[]*mesh.Event{said("\xff")}, threadlog.AppendOptions{}, []string{"cancel_requested", "UTF-8"}},
		"no basis":       {[]*mesh.Event{moved}, threadlog.AppendOptions{}, []string{"task_moved", `"e1"`, "based on"}},
		"another basis":  {[]*mesh.Event{moved}, expect("", 0), []string{"task_moved"}},
		"one of two":     {[]*mesh.Event{opened, moved}, expect("", 0), []string{"task_moved"}},
		"claim of 0":     {[]*mesh.Event{{Body: mesh.ThreadClaimed{}}}, threadlog.AppendOptions{}, []string{"above 0"}},
		"broken foreign": {[]*mesh.Event{{Body: mesh.Foreign{Raw: []byte{0xff}}}}, threadlog.AppendOptions{}, []string{"broken"}},
	} {
		_, err := l.Append(t.Context(), key, c.events, c.opts)
		if !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
		for _, w := range c.words {
			if !strings.Contains(mesh.DetailOf(err), w) {
				t.Errorf("%s: %q does not say %q", name, mesh.DetailOf(err), w)
			}
		}
	}
	if tail, err := l.Tail(t.Context(), key); tail != 0 || err != nil {
		t.Errorf("something was stored: %d, %v", tail, err)
	}
}

func expect(scope mesh.Scope, seq mesh.Seq) threadlog.AppendOptions {
	return threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{scope: seq}}
}

func TestAnEventOfTheLargestSizeIsStored(t *testing.T) {
	l := threadlog.New(mem.Open())
	e := said(strings.Repeat("x", mesh.MaxEvent-64))
	add(t, l, e)
	got, err := l.Read(t.Context(), key, 0, 1)
	if err != nil || text(got[0]) != text(e) {
		t.Errorf("it did not come back: %v", err)
	}
}

func TestDecisionsAreScopedAndDriversAreFenced(t *testing.T) {
	l := threadlog.New(mem.Open())
	moved := func(x mesh.ExecutionID) *mesh.Event { return &mesh.Event{Execution: x, Body: mesh.TaskMoved{}} }
	claim := func(e mesh.Epoch) *mesh.Event { return &mesh.Event{Body: mesh.ThreadClaimed{Epoch: e}} }
	for i, step := range []struct {
		event *mesh.Event
		opts  threadlog.AppendOptions
		want  mesh.Code
	}{
		{moved("a"), expect("a", 0), 0},                                  // Seq 1
		{moved("a"), expect("a", 0), mesh.Conflict},                      // 1 stands
		{moved("b"), expect("b", 0), 0},                                  // 2, another scope
		{moved("a"), expect("a", 1), 0},                                  // 3
		{claim(1), threadlog.AppendOptions{Epoch: 1}, 0},                 // 4
		{moved("a"), threadlog.AppendOptions{Epoch: 1}, 0},               // 5, no Expect needed
		{claim(2), threadlog.AppendOptions{}, 0},                         // 6
		{said("late"), threadlog.AppendOptions{Epoch: 1}, mesh.Conflict}, // fenced
		{claim(2), threadlog.AppendOptions{}, mesh.Conflict},             // must rise
		{said("ok"), threadlog.AppendOptions{Epoch: 2}, 0},               // 7
		{said("not a driver"), threadlog.AppendOptions{}, 0},             // 8
		{moved("a"), expect("a", 3), mesh.Conflict},                      // 5 stands
		{&mesh.Event{Body: mesh.HandoffStarted{}}, expect("", 0), 0},     // 9, a claim is no decision of a scope
	} {
		_, err := l.Append(t.Context(), key, []*mesh.Event{step.event}, step.opts)
		if err == nil && step.want != 0 || err != nil && mesh.CodeOf(err) != step.want {
			t.Errorf("step %d: got %v, want code %v", i, err, step.want)
		}
	}
	events, err := l.Read(t.Context(), key, 0, 100)
	if err != nil || len(events) != 9 || events[4].Epoch != 1 || events[6].Epoch != 2 || events[7].Epoch != 0 {
		t.Errorf("the log has %v, %v", events, err)
	}
}

func TestARetryUnderTheSameIDAddsAndPublishesNothing(t *testing.T) {
	l := threadlog.New(mem.Open())
	a, again := said("a"), said("a, told otherwise")
	a.ID, again.ID = "id", "id"
	add(t, l, a)
	c := l.Cursor(key, 0, 0)
	defer c.Close()
	b := said("b")
	if diff := cmp.Diff([]mesh.Seq{1, 2}, add(t, l, again, b)); diff != "" {
		t.Error(diff)
	}
	if again.Seq != 1 || again.Pos != 0 || b.Seq != 2 {
		t.Errorf("the retry is at %d@%d", again.Seq, again.Pos)
	}
	if diff := cmp.Diff([]string{"a", "b"}, drain(t, c)); diff != "" {
		t.Error(diff)
	}
}

// drain returns the texts of all events at hand.
func drain(t *testing.T, c *threadlog.Cursor) []string {
	t.Helper()
	var out []string
	for {
		events, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			out = append(out, text(e))
		}
		if !c.Behind() {
			return out
		}
	}
}

// everyBody has an event of every kind, with times finer than the store's.
func everyBody() []*mesh.Event {
	deadline := time.Now().Add(time.Hour)
	x := mesh.Execution{ID: "x", Parent: "p", Kind: mesh.KindAgent, Agent: "a", Skills: []string{"s"},
		DependsOn: []mesh.ExecutionID{"d"}, MaxToolCalls: 3, Deadline: deadline, Context: "c", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	msg := &a2apb.Message{MessageId: "m", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hi"}}}}
	bodies := []mesh.Body{
		mesh.MessagePosted{Message: msg, User: "u", Digest: []byte{1}, Credential: "token:x"},
		mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a"}, Append: true},
		mesh.SkillCalled{Call: "c"}, mesh.SkillReturned{Call: "c", Blameless: true, Duration: 1234567 * time.Nanosecond},
		mesh.ModelReplied{Tools: []mesh.ToolUse{{ID: "t"}}, Usage: mesh.Usage{Prompt: 1}},
		mesh.DispatchSettled{Child: "x", State: a2apb.TaskState_TASK_STATE_COMPLETED},
		mesh.StateNoted{Agent: "a", Data: []byte("{}")}, mesh.CancelRequested{By: "u"}, mesh.LimitTripped{Used: 1},
		mesh.ThreadClaimed{Epoch: 2}, mesh.TaskOpened{Execution: x}, mesh.TaskMoved{Message: msg},
		mesh.DispatchIssued{Child: x, Message: msg}, mesh.HandoffStarted{RecentMessages: 2}, mesh.HandoffEnded{Started: 1}, mesh.ThreadShared{Readable: true, Participants: []string{"eve"}, Owner: "bob"},
		mesh.Foreign{Raw: []byte("\x12\x01i\xfa\x3e\x03new")}, // id "i", field 1007
	}
	events := make([]*mesh.Event, len(bodies))
	for i, b := range bodies {
		events[i] = &mesh.Event{Execution: "e", Actor: "node", Time: time.Now().Local(), Body: b}
	}
	return events
}

func TestLiveReadersAndReadersOfTheStoreSeeTheSame(t *testing.T) {
	store := mem.Open()
	l := threadlog.New(store)
	c := l.Cursor(key, 0, 0)
	defer c.Close()
	events := everyBody()
	if _, err := l.Append(t.Context(), key, events, threadlog.AppendOptions{Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	live, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := threadlog.New(store).Read(t.Context(), key, 0, 100) // by one who has none of it in memory
	if err != nil {
		t.Fatal(err)
	}
	for i := range live {
		if live[i] != events[i] {
			t.Errorf("event %d was copied for live readers", i)
		}
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Body" }, cmp.Comparer(func(a, b mesh.Body) bool {
		_, af := a.(mesh.Foreign)
		_, bf := b.(mesh.Foreign)
		return af && bf || cmp.Equal(a, b, protocmp.Transform())
	}))
	if diff := cmp.Diff(live, stored, ignore); diff != "" {
		t.Errorf("live and stored differ (-live +stored):\n%s", diff)
	}
}

func TestReadGivesAllItIsAskedForAcrossShortPages(t *testing.T) {
	l := threadlog.New(mem.Open())
	big := strings.Repeat("x", mesh.MaxEvent/2)
	for range 20 {
		add(t, l, said(big))
	}
	for _, limit := range []int{0, 1, 19, 20, 21} {
		events, err := l.Read(t.Context(), key, 0, limit)
		if err != nil || len(events) != min(limit, 20) {
			t.Errorf("limit %d gives %d events, %v", limit, len(events), err)
		}
	}
}

// brokenStore fails every call.
type brokenStore struct{ threadlog.Backend }

var errDown = mesh.Errorf(mesh.Unavailable, "store", "The disk is gone")

func (brokenStore) Append(context.Context, mesh.ThreadKey, *threadlog.Batch) (threadlog.Appended, error) {
	return threadlog.Appended{}, errDown
}

func (brokenStore) Read(context.Context, mesh.ThreadKey, mesh.Seq, int) ([]threadlog.Record, error) {
	return nil, errDown
}

func (brokenStore) Scan(context.Context, mesh.Pos, int) ([]threadlog.Record, error) {
	return nil, errDown
}

func TestErrorsOfTheStoreKeepTheirCodeAndDetail(t *testing.T) {
	mem := mem.Open()
	add(t, threadlog.New(mem), said("x"))
	l := threadlog.New(brokenStore{mem})
	_, appendErr := l.Append(t.Context(), key, []*mesh.Event{said("x")}, threadlog.AppendOptions{})
	_, readErr := l.Read(t.Context(), key, 0, 1)
	_, scanErr := l.Scan(t.Context(), 0, 1)
	errs := []error{appendErr, readErr, scanErr}
	for _, err := range l.Follow(t.Context(), key, 0, 0) {
		errs = append(errs, err)
	}
	for _, err := range l.FollowAll(t.Context(), 0) {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) != "The disk is gone" || !errors.Is(err, errDown) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if len(errs) != 5 {
		t.Errorf("%d errors, want one from each call", len(errs))
	}
}

// A follower that reconnects with its last Seq misses nothing and sees nothing
// twice, whether the events were written before, during or after the gap.
func ExampleLog_Follow() {
	ctx := context.Background()
	log := threadlog.New(mem.Open())
	thread := mesh.ThreadKey{Tenant: "acme", ID: "550e8400-e29b-41d4-a716-446655440000"}
	say := func(text string) {
		_, err := log.Append(ctx, thread, []*mesh.Event{said(text)}, threadlog.AppendOptions{})
		if err != nil {
			fmt.Println(err)
		}
	}
	say("one")
	say("two")
	const lastSeen = 1 // the client dropped after the first event
	for e, err := range log.Follow(ctx, thread, 0, lastSeen) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(e.Seq, text(e))
		if e.Seq == 2 {
			say("three")
		}
		if e.Seq == 3 {
			break
		}
	}
	// Output:
	// 2 two
	// 3 three
}
