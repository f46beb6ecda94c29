package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// All tests run on one node and then on two.
func TestMain(m *testing.M) {
	shared.Twice(m, "")
	goleak.VerifyTestMain(m)
}

var key = mesh.ThreadKey{Tenant: "acme", ID: "00000000-0000-4000-8000-000000000001"}

// people knows the agents builder, other and main; gone is not live.
type people struct{}

func (people) Resolve(tenant mesh.TenantID, name string) (registry.Entry, error) {
	switch name {
	case "builder", "other", "main":
		return registry.Entry{Name: name, Tenant: tenant, Live: true, Card: &a2apb.AgentCard{Name: "The " + name}}, nil
	case "author": // works for those who may create skills
		return registry.Entry{Name: name, Tenant: tenant, Live: true, Card: requiring("skill:create")}, nil
	case "gone":
		return registry.Entry{}, mesh.Errorf(mesh.Unavailable, "test", "gone does not answer")
	}
	return registry.Entry{}, mesh.Errorf(mesh.NotFound, "test", "there is no agent %q", name)
}

// requiring is the card of an agent that requires the permissions.
func requiring(permissions ...any) *a2apb.AgentCard {
	list, err := structpb.NewList(permissions)
	if err != nil {
		panic(err)
	}
	params := &structpb.Struct{Fields: map[string]*structpb.Value{"required_permissions": structpb.NewListValue(list)}}
	return &a2apb.AgentCard{Name: "The author", Capabilities: &a2apb.AgentCapabilities{Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI, Params: params}}}}
}

// The turn is driven elsewhere.
type elsewhere struct{ *cache.States }

func (e elsewhere) HandOver(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (cache.Decision, error)) error {
	return e.Decide(ctx, key, f)
}

func (elsewhere) EndTasks(context.Context, mesh.ThreadKey, []thread.Execution) {}

// A scene is a thread in which turn t1 runs with main's execution a1, at one node or
// at two, of which each call goes to any.
type scene struct {
	t     testing.TB
	nodes []member
}

// A member is a node of a scene.
type member struct {
	*handoff.Handoffs
	log    *threadlog.Log
	states *cache.States
}

func newScene(t testing.TB) *scene { return sceneOn(t, mem.Open()) }

func sceneOn(t testing.TB, backend threadlog.Backend) *scene {
	s := &scene{t: t}
	store := shared.New(backend)
	s.join(store)
	if shared.Pair() {
		s.join(store)
	}
	s.add(turn("t1"), run("t1", "a1", "main"))
	return s
}

// join adds a node that runs until the test ends.
func (s *scene) join(store *shared.Store) {
	log := threadlog.New(store.Handle())
	states := cache.New(log, 0)
	s.nodes = append(s.nodes, member{log: log, states: states,
		Handoffs: handoff.New(log, states, people{}, elsewhere{states}, func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC) })})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := log.Run(ctx); err != nil {
			s.t.Errorf("log: %v", err)
		}
	})
	s.t.Cleanup(func() { stop(); running.Wait() })
}

func (s *scene) any() member { return s.nodes[rand.IntN(len(s.nodes))] }

func (s *scene) Start(ctx context.Context, g *mesh.Grant, r handoff.Start) (*thread.Handoff, error) {
	return s.any().Start(ctx, g, r)
}

func (s *scene) End(ctx context.Context, k mesh.ThreadKey, g *mesh.Grant, user string, outcome mesh.HandoffOutcome, summary string, sent int64) (*thread.Handoff, error) {
	return s.any().End(ctx, k, mesh.Principal{Tenant: k.Tenant, User: user, Grant: g}, handoff.End{Outcome: outcome, Summary: summary, UpdatesSent: sent})
}

func (s *scene) Get(ctx context.Context, k mesh.ThreadKey) (*thread.Handoff, error) {
	h, _, err := s.any().Get(ctx, k, mesh.Principal{Tenant: k.Tenant, User: "ann"})
	return h, err
}

func turn(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "user:ann", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}}
}

func run(parent, id mesh.ExecutionID, agent string) *mesh.Event {
	return &mesh.Event{Execution: parent, Actor: "node", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: parent, Kind: mesh.KindAgent, Agent: agent, User: "ann"}}}
}

func moved(id mesh.ExecutionID, state mesh.TaskState) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "node", Body: mesh.TaskMoved{State: state}}
}

func piece(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "agent:main", Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a"}}}
}

// add appends events, one decision each.
func (s *scene) add(events ...*mesh.Event) {
	s.t.Helper()
	for _, e := range events {
		if err := s.any().states.Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) {
			return cache.Decision{Events: []*mesh.Event{e}}, nil
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) state() *thread.State {
	s.t.Helper()
	return thread.Fold(s.events())
}

func (s *scene) events() []*mesh.Event {
	s.t.Helper()
	events, err := s.any().log.Read(context.Background(), key, 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// by is the grant of an execution that serves t1.
func by(agent string, exec mesh.ExecutionID) *mesh.Grant {
	return &mesh.Grant{Tenant: key.Tenant, Thread: key.ID, User: "ann", Agent: agent, Execution: exec, Turn: "t1", Capabilities: mesh.CapabilitiesFor(nil)}
}

func start(target string) handoff.Start {
	return handoff.Start{Target: target, Reason: "asked for", Summary: "wants a skill", RecentMessages: new(3), PreserveState: true, ReturnExpected: true}
}

// taken is a scene in which builder's execution b1 has taken over.
func taken(t testing.TB) (*scene, *thread.Handoff) {
	s := newScene(t)
	h, err := s.Start(context.Background(), by("main", "a1"), start("builder"))
	if err != nil {
		t.Fatal(err)
	}
	s.add(run("t1", "b1", "builder"))
	return s, h
}

// S4-026, S4-031, S4-032: the decision has all that the target and the user
// must know.
func TestAHandoffIsADecisionInTheLog(t *testing.T) {
	s := newScene(t)
	h, err := s.Start(t.Context(), by("main", "a1"), start("builder"))
	if err != nil {
		t.Fatal(err)
	}
	events := s.events()
	e := events[len(events)-1]
	want := mesh.HandoffStarted{From: "main", To: "builder", ToName: "The builder", Reason: "asked for", Summary: "wants a skill", RecentMessages: 3, PreserveState: true, ReturnExpected: true, Session: time.Hour}
	if diff := cmp.Diff(want, e.Body); diff != "" || e.Execution != "a1" || e.Actor != "agent:main" || !e.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v\n%s", e, diff)
	}
	if h.Seq != e.Seq || h.Turn != "t1" || h.By != "ann" || !h.Active() || h.To != "builder" {
		t.Errorf("returned %+v", h)
	}
	got, err := s.Get(t.Context(), key)
	if err != nil || !got.Active() || got.Seq != h.Seq || s.state().ActiveAgent("main") != "builder" {
		t.Errorf("the thread has %+v, %v", got, err)
	}
}

// S4-073: the user of the turn needs what the target requires, with the last message; who
// lacks it has nothing logged.
func TestAHandoffNeedsWhatItsTargetRequires(t *testing.T) {
	posted := func(roles ...mesh.Role) *mesh.Event {
		return &mesh.Event{Execution: "t1", Actor: "user:ann", Body: mesh.MessagePosted{Message: mesh.Say("a skill"), User: "ann", Roles: roles}}
	}
	for name, tt := range map[string]struct {
		before []*mesh.Event
		may    bool
	}{
		"no roles":              {nil, false},
		"another role":          {[]*mesh.Event{posted(mesh.RoleUser)}, false},
		"the role":              {[]*mesh.Event{posted(mesh.RoleUser, mesh.RoleSkillAuthor)}, true},
		"the role until before": {[]*mesh.Event{posted(mesh.RoleUser, mesh.RoleSkillAuthor), posted(mesh.RoleUser)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.add(tt.before...)
			n := len(s.events())
			_, err := s.Start(t.Context(), by("main", "a1"), start("author"))
			if tt.may {
				if err != nil || len(s.events()) != n+1 {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if l := mesh.LackOf(err); !mesh.IsCode(err, mesh.Denied) || mesh.FieldOf(err) != "target_agent" || l == nil || *l != (mesh.Lack{Permission: "skill:create", Agent: "author"}) {
				t.Errorf("refused with %v, lacking %+v", err, l)
			}
			if len(s.events()) != n {
				t.Error("a refusal was logged")
			}
		})
	}
}

// S4-027, S4-063, S4-065: who may hand over, to whom, and how; a refusal
// changes nothing.
func TestAHandoffThatBreaksARuleIsRefused(t *testing.T) {
	long := strings.Repeat("x", 2001)
	with := func(f func(*handoff.Start)) handoff.Start {
		r := start("builder")
		f(&r)
		return r
	}
	main := by("main", "a1")
	tests := map[string]struct {
		before []*mesh.Event
		g      *mesh.Grant
		req    handoff.Start
		code   mesh.Code
		says   string
	}{
		"no name":            {nil, main, start(""), mesh.Invalid, "target_agent"},
		"a wrong name":       {nil, main, start("No Body"), mesh.Invalid, "target_agent"},
		"a long reason":      {nil, main, with(func(r *handoff.Start) { r.Reason = long[:501] }), mesh.Invalid, "reason"},
		"a long summary":     {nil, main, with(func(r *handoff.Start) { r.Summary = long }), mesh.Invalid, "context_summary"},
		"many messages":      {nil, main, with(func(r *handoff.Start) { r.RecentMessages = new(21) }), mesh.Invalid, "recent_messages"},
		"less than none":     {nil, main, with(func(r *handoff.Start) { r.RecentMessages = new(-1) }), mesh.Invalid, "recent_messages"},
		"less than nothing":  {nil, main, with(func(r *handoff.Start) { r.UpdatesSent = -1 }), mesh.Invalid, "updates_sent"},
		"itself":             {nil, main, start("main"), mesh.Precondition, "itself"},
		"nobody":             {nil, main, start("nobody"), mesh.NotFound, "nobody"},
		"not live":           {nil, main, start("gone"), mesh.Unavailable, "gone does not answer"},
		"a helper":           {[]*mesh.Event{run("a1", "x1", "scout")}, by("scout", "x1"), start("builder"), mesh.Precondition, "scout does not have the user's stream"},
		"an unknown one":     {nil, by("ghost", "zz"), start("builder"), mesh.NotFound, "Thread not found"},
		"a turn that ended":  {[]*mesh.Event{moved("t1", a2apb.TaskState_TASK_STATE_COMPLETED)}, main, start("builder"), mesh.Precondition, "does not have the user's stream"},
		"one that waits":     {[]*mesh.Event{moved("t1", a2apb.TaskState_TASK_STATE_INPUT_REQUIRED)}, main, start("builder"), mesh.Precondition, "does not have the user's stream"},
		"one that may go on": {[]*mesh.Event{moved("t1", a2apb.TaskState_TASK_STATE_AUTH_REQUIRED)}, main, start("builder"), mesh.Unknown, ""},
		"who lost the leg":   {[]*mesh.Event{run("t1", "a2", "main")}, main, start("builder"), mesh.Precondition, "does not have the user's stream"},
		"another's thread":   {nil, &mesh.Grant{Tenant: "globex", Thread: key.ID, Agent: "main", Execution: "a1", Turn: "t1"}, start("builder"), mesh.NotFound, "Thread not found"},
		"at the bounds":      {nil, main, with(func(r *handoff.Start) { r.Reason, r.Summary, r.RecentMessages = long[:500], long[:2000], new(20) }), mesh.Unknown, ""},
		"while it works":     {[]*mesh.Event{moved("a1", a2apb.TaskState_TASK_STATE_WORKING)}, main, start("builder"), mesh.Unknown, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.add(tt.before...)
			n := len(s.events())
			_, err := s.Start(t.Context(), tt.g, tt.req)
			if tt.says == "" {
				if err != nil || len(s.events()) != n+1 {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if !mesh.IsCode(err, tt.code) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v %q", err, tt.code, tt.says)
			}
			if len(s.events()) != n {
				t.Error("a refusal was logged")
			}
		})
	}
}

// S4-085, S4-065: handoffs do not nest. While one stands nobody starts another, neither who has
// the conversation nor who gave it away, and each learns who has it.
func TestAnActiveHandoffStandsInTheWayOfAnother(t *testing.T) {
	s, _ := taken(t)
	for _, g := range []*mesh.Grant{by("builder", "b1"), by("main", "a1")} {
		_, err := s.Start(t.Context(), g, start("other"))
		if !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), "builder has the conversation already") {
			t.Errorf("%s: %v", g.Agent, err)
		}
	}
}

// Of handoffs that start at once, in one node or in several, one stands.
func TestOfHandoffsAtOnceOneStands(t *testing.T) {
	s := newScene(t)
	var all sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = s.Start(t.Context(), by("main", "a1"), start([]string{"builder", "other"}[i%2]))
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !mesh.IsCode(err, mesh.Precondition):
			t.Errorf("a loser got %v", err)
		}
	}
	started := 0
	for _, e := range s.events() {
		if _, ok := e.Body.(mesh.HandoffStarted); ok {
			started++
		}
	}
	if won != 1 || started != 1 {
		t.Errorf("%d won, %d are logged", won, started)
	}
}

// The stream changes hands a bounded number of times for one message.
func TestTheStreamChangesHandsABoundedNumberOfTimes(t *testing.T) {
	s := newScene(t)
	for i := range handoff.MaxHandoffsInTurn {
		main, spec := mesh.ExecutionID(fmt.Sprintf("m%d", i)), mesh.ExecutionID(fmt.Sprintf("s%d", i))
		s.add(run("t1", main, "main"))
		if _, err := s.Start(t.Context(), by("main", main), start("builder")); err != nil {
			t.Fatal(err)
		}
		s.add(run("t1", spec, "builder"))
		if _, err := s.End(t.Context(), key, by("builder", spec), "", "", "", 0); err != nil {
			t.Fatal(err)
		}
	}
	s.add(run("t1", "last", "main"))
	if _, err := s.Start(t.Context(), by("main", "last"), start("builder")); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("got %v", err)
	}
}

// What an agent said before it hands over is in the log before the handoff.
func TestAHandoffWaitsForWhatWasSaidBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.add(piece("a1"))
		req := start("builder")
		req.UpdatesSent = 3
		done := make(chan error, 1)
		go func() { _, err := s.Start(t.Context(), by("main", "a1"), req); done <- err }()
		synctest.Wait()
		s.add(run("a1", "x1", "scout"), piece("x1"), piece("a1")) // one of them counts
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it did not wait for the third: %v", err)
		default:
		}
		s.add(piece("a1"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		events := s.events()
		if _, last := events[len(events)-1].Body.(mesh.HandoffStarted); !last {
			t.Error("the handoff is not after what was said")
		}
	})
}

func TestUpdatesThatNeverComeEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.add(piece("a1"))
		req := start("builder")
		req.UpdatesSent = 2
		begun := time.Now()
		_, err := s.Start(t.Context(), by("main", "a1"), req)
		if !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), "only 1 of the 2 updates") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it waited %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Start(ctx, by("main", "a1"), req); !mesh.IsCode(err, mesh.Timeout) {
			t.Errorf("a caller out of time: %v", err)
		}
		req.UpdatesSent = 1
		if _, err := s.Start(t.Context(), by("main", "a1"), req); err != nil {
			t.Errorf("all that was said is there: %v", err)
		}
	})
}

// What an agent said before its node was killed is logged anew in fewer pieces: that keeps it
// from nothing.
func TestWhoWentOnIsNotHeldToItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.add(&mesh.Event{Execution: "a1", Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonContinued}})
		s.add(piece("a1")) // all that it said
		req := start("builder")
		req.UpdatesSent = 2
		if _, err := s.Start(t.Context(), by("main", "a1"), req); err != nil {
			t.Error(err)
		}
	})
}

// S4-027, S4-036: the agent that has the conversation gives it back.
func TestTheActiveAgentGivesControlBack(t *testing.T) {
	s, h := taken(t)
	summary := strings.Repeat("x", handoff.MaxSummary) // as long as it may be
	got, err := s.End(t.Context(), key, by("builder", "b1"), "", "", summary, 0)
	if err != nil {
		t.Fatal(err)
	}
	events := s.events()
	e := events[len(events)-1]
	want := mesh.HandoffEnded{Started: h.Seq, Outcome: mesh.HandoffCompleted, Summary: summary, By: "agent:builder"}
	if diff := cmp.Diff(want, e.Body); diff != "" || e.Execution != "b1" {
		t.Errorf("%+v\n%s", e, diff)
	}
	if got.Active() || got.Ended != e.Seq || got.Outcome != mesh.HandoffCompleted || got.Result != summary {
		t.Errorf("returned %+v", got)
	}
	if last, err := s.Get(t.Context(), key); err != nil || last.Active() || last.Ended != e.Seq || s.state().ActiveAgent("main") != "main" {
		t.Errorf("the thread has %+v, %v", last, err)
	}
	if _, err := s.End(t.Context(), key, nil, "ann", "", "", 0); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("ended twice: %v", err)
	}
}

func TestAnEndThatBreaksARuleIsRefused(t *testing.T) {
	tests := map[string]struct {
		g       *mesh.Grant
		key     mesh.ThreadKey
		outcome mesh.HandoffOutcome
		summary string
		code    mesh.Code
		says    string
	}{
		"an unknown outcome": {nil, key, "fine", "", mesh.Invalid, "outcome"},
		"a long summary":     {nil, key, "", strings.Repeat("x", 2001), mesh.Invalid, "summary"},
		"who gave it away":   {by("main", "a1"), key, "", "", mesh.Precondition, "builder has it"},
		"a helper of theirs": {by("builder", "x1"), key, "", "", mesh.Precondition, "does not have the conversation"},
		"another tenant":     {nil, mesh.ThreadKey{Tenant: "globex", ID: key.ID}, "", "", mesh.NotFound, "Thread not found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := taken(t)
			s.add(run("b1", "x1", "builder"))
			_, err := s.End(t.Context(), tt.key, tt.g, "ann", tt.outcome, tt.summary, 0)
			if !mesh.IsCode(err, tt.code) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v %q", err, tt.code, tt.says)
			}
			if !s.state().Handoff.Active() {
				t.Error("the handoff is over")
			}
		})
	}
	s := newScene(t)
	if _, err := s.End(t.Context(), key, nil, "ann", "", "", 0); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("without a handoff: %v", err)
	}
}

// S4-036, S4-046: the user gets out at any time. A task that waits for an
// answer to the specialist ends with the handoff, and all below it; one that
// runs goes on; and one that is over stays.
func TestTheUserEndsAHandoffInAnyState(t *testing.T) {
	canceled, completed := a2apb.TaskState_TASK_STATE_CANCELED, a2apb.TaskState_TASK_STATE_COMPLETED
	asks, working := a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_WORKING
	tests := map[string]struct {
		before []*mesh.Event
		want   map[mesh.ExecutionID]mesh.TaskState
		about  mesh.ExecutionID // of HandoffEnded
	}{
		"while it asks": {[]*mesh.Event{run("b1", "x1", "scout"), moved("b1", asks), moved("t1", asks)},
			map[mesh.ExecutionID]mesh.TaskState{"t1": canceled, "b1": canceled, "x1": canceled}, "t1"},
		"while it works": {[]*mesh.Event{moved("t1", working)},
			map[mesh.ExecutionID]mesh.TaskState{"t1": working, "b1": a2apb.TaskState_TASK_STATE_SUBMITTED}, "t1"},
		"between two messages": {[]*mesh.Event{moved("t1", completed)}, map[mesh.ExecutionID]mesh.TaskState{"t1": completed}, "t1"},
		"in a later message": {[]*mesh.Event{moved("t1", completed), turn("t2"), run("t2", "b2", "builder"), moved("b2", asks), moved("t2", asks)},
			map[mesh.ExecutionID]mesh.TaskState{"t1": completed, "t2": canceled, "b2": canceled}, "t2"},
		"before the next begins": {[]*mesh.Event{moved("t1", completed), turn("t2")},
			map[mesh.ExecutionID]mesh.TaskState{"t1": completed, "t2": a2apb.TaskState_TASK_STATE_SUBMITTED}, "t1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, h := taken(t)
			s.add(tt.before...)
			got, err := s.End(t.Context(), key, nil, "ann", mesh.HandoffCancelled, "", 0)
			if err != nil || got.Outcome != mesh.HandoffCancelled {
				t.Fatalf("%+v, %v", got, err)
			}
			st := s.state()
			for id, want := range tt.want {
				if x := st.Execution(id); x.State != want {
					t.Errorf("%s is %v, want %v", id, x.State, want)
				}
			}
			if st.Handoff.Active() || st.ActiveAgent("main") != "main" {
				t.Error("the handoff stands")
			}
			for _, e := range s.events() {
				if b, ok := e.Body.(mesh.HandoffEnded); ok && (e.Execution != tt.about || b.Started != h.Seq || b.By != "user:ann" || e.Actor != "user:ann") {
					t.Errorf("ended by %+v %+v, want it about %s", e, b, tt.about)
				}
			}
		})
	}
}

func TestAThreadThatIsNotThereHasNoHandoff(t *testing.T) {
	s := newScene(t)
	if h, err := s.Get(t.Context(), key); h != nil || err != nil {
		t.Errorf("before any: %v, %v", h, err)
	}
	var e *mesh.Error
	_, err := s.Get(t.Context(), mesh.ThreadKey{Tenant: "globex", ID: key.ID})
	if !errors.As(err, &e) || e.Code != mesh.NotFound || !strings.HasPrefix(e.Detail, "Thread not found for tenant") {
		t.Errorf("got %v", err)
	}
}
