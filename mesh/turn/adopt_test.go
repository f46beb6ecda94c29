package turn

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"

	"agentmesh/mesh/lease"
)

// A survivor is an agent that worked on a turn whose node died.
type survivor struct {
	agent
	foreign bool      // it does not speak our extension
	back    time.Time // until then it is not live
	gone    time.Time // since then
	unknown string    // who is not even known until then
	has     *a2apb.Task

	mu    sync.Mutex
	sent  []*a2apb.Message
	asked int // for its task

	dies     func() bool      // says nothing more to a message; nil for never
	executed mesh.ExecutionID // of the last message

	// instance has the execution, of two processes, and is back at that time.
	instance string
	returns  time.Time
	dialed   []string // the instances there were when it was asked for a task
}

func (s *survivor) Resolve(tenant mesh.TenantID, name string) (registry.Entry, error) {
	if time.Now().Before(s.back) && s.unknown != "" {
		if s.unknown == name {
			return registry.Entry{}, mesh.Errorf(mesh.NotFound, "test", "not known")
		}
	} else if time.Now().Before(s.back) {
		return registry.Entry{Name: name, Gone: s.gone}, mesh.Errorf(mesh.Unavailable, "test", "not live")
	}
	e, err := s.agent.Resolve(tenant, name)
	if s.instance != "" {
		e.Instances = []registry.Instance{{ID: "other", Live: true}}
		if !time.Now().Before(s.returns) {
			e.Instances = append(e.Instances, registry.Instance{ID: s.instance, Live: true})
		}
	}
	if !s.foreign {
		e.Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}
	}
	return e, err
}

func (s *survivor) Dial(t call.Target) (call.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed = []string{t.At}
	for _, i := range t.Instances {
		s.dialed = append(s.dialed, i.ID)
	}
	return s, nil
}

func (s *survivor) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	s.mu.Lock()
	s.sent = append(s.sent, req.GetMessage())
	as, _ := mesh.CallFrom(ctx)
	s.executed = as.Execution
	dies := s.dies != nil && s.dies()
	s.mu.Unlock()
	if dies {
		return func(yield func(call.Response, error) bool) {
			yield(call.Response{}, mesh.Errorf(mesh.Unavailable, "test", "the connection broke"))
		}
	}
	return s.agent.SendStreamingMessage(ctx, req)
}

func (s *survivor) SubscribeToTask(context.Context, string) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		yield(call.Response{}, mesh.Errorf(mesh.Unsupported, "test", "no"))
	}
}

func (s *survivor) GetTask(_ context.Context, id string) (*a2apb.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.has == nil || s.has.Id != id {
		return nil, mesh.Errorf(mesh.NotFound, "test", "no such task")
	}
	return s.has, nil
}

// node returns a runner of a node that has just begun.
func node(t *testing.T, s *survivor) *Runner {
	t.Helper()
	signer, err := grant.NewSigner(make([]byte, 32))
	must(t, err)
	log := threadlog.New(&ledger{Backend: mem.Open()})
	r, err := New(Config{Log: log, States: cache.New(log, 0), Leases: lease.NewLocal(nil), Directory: s, Dialer: s, Signer: signer, Main: "main", Node: "n"})
	must(t, err)
	return r
}

// after returns a runner of a node that comes after one that died in turn t1, of which
// the agent had said something as execution a1.
func after(t *testing.T, s *survivor, more ...*mesh.Event) *Runner {
	t.Helper()
	r := node(t, s)
	remote := ""
	if s.foreign {
		remote = "own"
	}
	begun := begins("t1", "a1", "main")
	issued := begun.Body.(mesh.DispatchIssued)
	issued.Message = mesh.Say("go")
	begun.Body = issued
	r.write(t, append([]*mesh.Event{opened("t1"), posted("t1"), moved("t1", working), begun,
		{Execution: "a1", Actor: "agent:main", Body: mesh.TaskMoved{State: working, RemoteTask: remote}}, said("a1", "the ans", false)}, more...)...)
	return r
}

func said(id mesh.ExecutionID, words string, more bool) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "agent:main", Body: mesh.ArtifactAppended{Append: more,
		Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}}
}

func wentOn(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "node", Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonContinued}}
}

// ended tends the threads until the turn is over, and returns how it ended and what its
// user was shown.
func ended(t *testing.T, r *Runner) (end, text string, x thread.Execution) {
	t.Helper()
	r.Tend(t.Context())
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	events, err := r.Log.Read(t.Context(), key, 0, 1000)
	must(t, err)
	shown := thread.NewSnapshot(key.ID, "t1")
	for _, e := range events {
		shown.Apply(e)
	}
	task, _ := shown.Task()
	for _, a := range task.GetArtifacts() {
		text += a2a.ArtifactText(a) + "."
	}
	turn := thread.Fold(events).Turn("t1")
	return strings.TrimSpace(strings.TrimPrefix(turn.State.String(), "TASK_STATE_") + " " + turn.Reason), text, *thread.Fold(events).Execution("a1")
}

// again says the whole answer anew, under the id of the execution.
func again(say func(*a2apb.StreamResponse)) {
	say(task("a1"))
	say(piece("a1", "the answer"))
	say(status("a1", completed))
}

// finding R7, O9: what a node that died left is gone on with, whatever became of the agent,
// and nothing is said or asked for twice.
func TestATurnThatWasCutOffGoesOn(t *testing.T) {
	has := func(id string, state mesh.TaskState, words string) *a2apb.Task {
		return &a2apb.Task{Id: id, Status: &a2apb.TaskStatus{State: state},
			Artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}}
	}
	replied := &mesh.Event{Execution: "a1", Actor: "agent:main", Body: mesh.ModelReplied{Text: "the ans"}}
	for name, tt := range map[string]struct {
		agent *survivor
		away  time.Duration
		more  []*mesh.Event
		end   string
		text  string
		sent  int
	}{
		"it lost the task":         {&survivor{agent: agent{play: again}}, 0, nil, "COMPLETED", "the answer.", 1},
		"it is back in time":       {&survivor{agent: agent{play: again}}, 20 * time.Second, nil, "COMPLETED", "the answer.", 1},
		"it is not back":           {&survivor{agent: agent{play: again}}, time.Hour, nil, "FAILED " + mesh.ReasonUnavailable, "the ans.", 0},
		"it is done":               {&survivor{has: has("a1", completed, "the answer")}, 0, nil, "COMPLETED", "the answer.", 0},
		"another's is done":        {&survivor{foreign: true, has: has("own", completed, "the answer")}, 0, nil, "COMPLETED", "the answer.", 0},
		"another's lost the task":  {&survivor{foreign: true, agent: agent{play: again}}, 0, nil, "FAILED " + mesh.ReasonUnknown, "the ans.", 0},
		"three times":              {&survivor{agent: agent{play: again}}, 0, []*mesh.Event{wentOn("a1"), wentOn("a1"), wentOn("a1")}, "FAILED " + mesh.ReasonInterrupted, "the ans.", 0},
		"three times, and came on": {&survivor{agent: agent{play: again}}, 0, []*mesh.Event{wentOn("a1"), wentOn("a1"), replied, wentOn("a1")}, "COMPLETED", "the answer.", 1},
		"the user canceled it": {&survivor{agent: agent{play: again, canceled: make(chan string, 1)}}, 0,
			[]*mesh.Event{{Execution: "t1", Actor: "user:ann", Body: mesh.CancelRequested{}}}, "CANCELED CANCELED_BY_USER", "the ans.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.agent
				if tt.away > 0 {
					s.back = time.Now().Add(tt.away)
				}
				r := after(t, s, tt.more...)
				defer func() { _ = r.Close(t.Context()) }()
				end, text, _ := ended(t, r)
				if end != tt.end || text != tt.text || len(s.sent) != tt.sent {
					t.Errorf("ended %q after %q; the message was sent %d times", end, text, len(s.sent))
				}
				for _, m := range s.sent {
					continues := a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyContinues].GetStringValue()
					if mesh.TextOf(m) != "go" || m.GetTaskId() != "a1" || continues != a2a.ContinuesFirst {
						t.Errorf("sent %v", m)
					}
				}
				if r.Drives(key) {
					t.Error("a thread at rest has a driver")
				}
			})
		})
	}
}

// finding O9: where the log says which process has the turn, a node that has just begun waits
// until that one has registered again, though another one has already; later, or where it does
// not come, any process may go on.
func TestAReturningProcessIsWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		back, old time.Duration
		want      string // of the call: which process has it, and which were there
	}{
		"it comes":                 {10 * time.Second, 0, "[mine other mine]"},
		"it does not":              {time.Hour, 0, "[mine other]"},
		"the node has been up":     {10 * time.Second, time.Hour, "[mine other]"},
		"the node was up too long": {40 * time.Second, 0, "[mine other]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &survivor{agent: agent{play: again}, instance: "mine"}
				r := after(t, s, &mesh.Event{Execution: "a1", Actor: "agent:main", Body: mesh.TaskMoved{State: working, Instance: "mine"}})
				defer func() { _ = r.Close(t.Context()) }()
				time.Sleep(tt.old)
				s.returns = time.Now().Add(tt.back)
				end, text, x := ended(t, r)
				if got := fmt.Sprint(s.dialed); got != tt.want || end != "COMPLETED" || text != "the answer." || x.Instance != "mine" {
					t.Errorf("called %s, and it ended %q after %q", got, end, text)
				}
			})
		})
	}
}

// An agent that is killed while its node lives on gets its message again when it is back.
func TestAnAgentThatWasKilledGetsItsMessageAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &survivor{}
		plays := 0
		s.play = func(say func(*a2apb.StreamResponse)) {
			if plays++; plays > 1 {
				again(say)
				return
			}
			say(task("a1"))
			say(piece("a1", "the ans"))
			s.back = time.Now().Add(10 * time.Second)
		}
		r := after(t, s)
		defer func() { _ = r.Close(t.Context()) }()
		end, text, x := ended(t, r)
		if end != "COMPLETED" || text != "the answer." || len(s.sent) != 2 || x.Adoptions != 2 {
			t.Errorf("ended %q after %q; the message was sent %d times, and %d times it went on", end, text, len(s.sent), x.Adoptions)
		}
	})
}

// A turn that its user canceled before anybody took it over ends at once, whether its agent
// is there or not.
func TestATurnThatWasCanceledWaitsForNobody(t *testing.T) {
	for name, away := range map[string]time.Duration{"its agent is there": 0, "it comes back soon": 20 * time.Second, "it does not": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &survivor{agent: agent{play: again, canceled: make(chan string, 1)}, back: time.Now().Add(away)}
				r := after(t, s, &mesh.Event{Execution: "t1", Actor: "user:ann", Body: mesh.CancelRequested{}})
				defer func() { _ = r.Close(t.Context()) }()
				began := time.Now()
				end, _, _ := ended(t, r)
				events, err := r.Log.Read(t.Context(), key, 0, 1000)
				must(t, err)
				if at := events[len(events)-1].Time; end != "CANCELED CANCELED_BY_USER" || at.Sub(began) > 5*time.Second || len(s.sent) > 0 {
					t.Errorf("ended %q after %v", end, at.Sub(began))
				}
			})
		})
	}
}

// An agent that dies again and again while its node lives ends the turn as interrupted, and
// the user is told what may have had its effect; one whose end the user wanted, as canceled.
func TestATurnWhoseAgentDiesAgainAndAgainIsInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		canceled bool
		end      string
	}{"on its own": {false, "FAILED " + mesh.ReasonInterrupted}, "and is canceled": {true, "CANCELED CANCELED_BY_USER"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				texttest.Fixed(t)
				s := &survivor{agent: agent{canceled: make(chan string, 8)}}
				called := &mesh.Event{Execution: "a1", Actor: "agent:main", Body: mesh.SkillCalled{Call: "c", Skill: "mail.send", Args: `{"to":"bob"}`}}
				r := after(t, s, called)
				defer func() { _ = r.Close(t.Context()) }()
				s.play = func(say func(*a2apb.StreamResponse)) {
					say(task("a1"))
					say(piece("a1", "the ans"))
					if tt.canceled && len(s.sent) == 3 {
						r.write(t, &mesh.Event{Execution: "t1", Actor: "user:ann", Body: mesh.CancelRequested{}})
					}
				}
				end, _, x := ended(t, r)
				if end != tt.end || len(s.sent) != 3 || x.Adoptions != 3 || !tt.canceled && x.Reason != mesh.ReasonInterrupted {
					t.Errorf("ended %q, and the agent's work for %q; the message was sent %d times, and %d times it went on", end, x.Reason, len(s.sent), x.Adoptions)
				}
				if said := lastWords(t, r); strings.Contains(said, "mail.send(to: bob)") == tt.canceled {
					t.Errorf("the user was told %q", said)
				}
			})
		})
	}
}

// lastWords are what the user is told with the last state of the turn.
func lastWords(t *testing.T, r *Runner) string {
	t.Helper()
	events, err := r.Log.Read(t.Context(), key, 0, 1000)
	must(t, err)
	return mesh.TextOf(thread.Fold(events).Turn("t1").Message)
}

// A runner that stops leaves what runs to the next one, and tells the agent nothing.
// An answer of the user that is in the log reaches the agent, although the node died before
// it sent it, and once.
func TestAnAnswerThatWasNotSentIsSentByTheNextNode(t *testing.T) {
	for name, foreign := range map[string]bool{"one of ours": false, "one of others": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id := map[bool]string{false: "a1", true: "own"}[foreign]
				s := &survivor{foreign: foreign, agent: agent{play: func(say func(*a2apb.StreamResponse)) {
					say(task(id))
					say(status(id, completed))
				}}}
				ask := &a2apb.Message{MessageId: "q", Role: a2apb.Role_ROLE_AGENT, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "Sure?"}}}}
				asks := func(id mesh.ExecutionID) *mesh.Event {
					return &mesh.Event{Execution: id, Actor: "agent:main", Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: ask}}
				}
				yes := posted("t1")
				yes.Body = mesh.MessagePosted{Message: &a2apb.Message{MessageId: "yes", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "yes"}}}}, User: "ann"}
				r := after(t, s, asks("a1"), asks("t1"), yes, moved("t1", working),
					&mesh.Event{Execution: "a1", Actor: "node", Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered}})
				defer func() { _ = r.Close(t.Context()) }()
				s.has = &a2apb.Task{Id: id, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: ask}}
				end, _, _ := ended(t, r)
				if len(s.sent) != 1 || s.sent[0].GetMessageId() != "yes" || mesh.TextOf(s.sent[0]) != "yes" || end != "COMPLETED" {
					t.Errorf("the turn ended %s, and the agent was told %v", end, s.sent)
				}
			})
		})
	}
}

func TestCloseLeavesWhatRunsToTheNextNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := &survivor{agent: agent{canceled: make(chan string, 1), play: func(say func(*a2apb.StreamResponse)) {
			say(task("a1"))
			say(piece("a1", "the ans"))
			<-hold
		}}}
		r := after(t, s)
		r.Tend(t.Context())
		synctest.Wait()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		closed := make(chan struct{})
		go func() { defer close(closed); _ = r.Close(over) }()
		synctest.Wait()
		close(hold)
		<-closed
		if got := story(t, r); got[len(got)-1] != "ArtifactAppended" || len(s.canceled) > 0 {
			t.Errorf("the log ends %q, and %d agents were asked to cancel", got, len(s.canceled))
		}
		next, err := New(r.Config)
		must(t, err)
		defer func() { _ = next.Close(t.Context()) }()
		s.play = again
		if end, text, _ := ended(t, next); end != "COMPLETED" || text != "the answer." {
			t.Errorf("then it ended %q after %q", end, text)
		}
	})
}

// A node that dies between a handoff and the leg that it leads to has left the handoff.
func TestAHandoffThatWasCutOffIsFollowed(t *testing.T) {
	for name, tt := range map[string]struct {
		more []*mesh.Event
		want []string // who is called
	}{
		"given":      {[]*mesh.Event{gives("a1", "main", "smith")}, []string{"main", "smith"}},
		"given back": {[]*mesh.Event{gives("a1", "main", "smith"), givesBack("t1", 7)}, []string{"main", "main"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &survivor{agent: agent{play: func(say func(*a2apb.StreamResponse)) { say(task("b")); say(status("b", completed)) }}}
				r := after(t, s, tt.more...)
				defer func() { _ = r.Close(t.Context()) }()
				end, _, _ := ended(t, r)
				var got []string
				must(t, r.States.With(t.Context(), key, func(st *thread.State) error {
					for _, l := range st.Turn("t1").Legs {
						got = append(got, l.Agent)
					}
					return nil
				}))
				if diff := cmp.Diff(tt.want, got); diff != "" || end != "COMPLETED" {
					t.Errorf("ended %q (-want +got):\n%s", end, diff)
				}
			})
		})
	}
}

// A node that has just begun knows no agent that registers itself: one that its thread knows
// is waited for, whether it is to have the stream or to get it back, and no other one is.
func TestAnAgentThatIsToRegisterAgainIsWaitedFor(t *testing.T) {
	const long = time.Hour
	for name, tt := range map[string]struct {
		unknown string
		back    time.Duration
		fails   bool // the target
		end     string
		want    []string // who is called
	}{
		"the target":                      {"smith", 8 * time.Second, false, "COMPLETED", []string{"main", "smith"}},
		"who gets it back":                {"main", 8 * time.Second, true, "COMPLETED", []string{"main", "smith", "main"}},
		"who gets it back and is away":    {"main", long, true, "FAILED " + mesh.ReasonUnavailable, []string{"main", "smith", "main"}},
		"the target, which does not come": {"smith", long, false, "COMPLETED", []string{"main", "smith", "main"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &survivor{unknown: tt.unknown, back: time.Now().Add(tt.back)}
				s.play = func(say func(*a2apb.StreamResponse)) {
					say(task(string(s.executed)))
					if tt.fails && len(s.sent) == 1 {
						say(status(string(s.executed), a2apb.TaskState_TASK_STATE_FAILED))
						return
					}
					say(status(string(s.executed), completed))
				}
				r := after(t, s, gives("a1", "main", "smith"))
				defer func() { _ = r.Close(t.Context()) }()
				end, _, _ := ended(t, r)
				var got []string
				must(t, r.States.With(t.Context(), key, func(st *thread.State) error {
					for _, l := range st.Turn("t1").Legs {
						got = append(got, l.Agent)
					}
					return nil
				}))
				if diff := cmp.Diff(tt.want, got); diff != "" || end != tt.end {
					t.Errorf("ended %q (-want +got):\n%s", end, diff)
				}
			})
		})
	}
}

// An agent that was live a moment ago is waited for, whether it had the message or not, and
// the user is told so once; who is gone for longer is not waited for, however many messages
// come.
func TestAnAgentThatMayBeBackIsWaitedFor(t *testing.T) {
	const long = time.Hour
	for name, tt := range map[string]struct {
		foreign        bool
		gone, back     time.Duration // before the message, and after it
		dies, canceled bool          // it dies with the message; the user cancels after 5 s
		end            string
		after          time.Duration
		told, sent     int
	}{
		"it is back in time":         {gone: 10 * time.Second, back: 8 * time.Second, end: "COMPLETED", after: 8 * time.Second, told: 1, sent: 1},
		"one of others is":           {foreign: true, gone: 10 * time.Second, back: 8 * time.Second, end: "COMPLETED", after: 8 * time.Second, told: 1, sent: 1},
		"it is back at once":         {gone: 10 * time.Second, back: 500 * time.Millisecond, end: "COMPLETED", sent: 1},
		"it is not back":             {gone: 10 * time.Second, back: long, end: "FAILED " + mesh.ReasonUnavailable, after: 20 * time.Second, told: 1},
		"it has long been gone":      {gone: 31 * time.Second, back: long, end: "FAILED " + mesh.ReasonUnavailable},
		"nobody knows since when":    {back: long, end: "FAILED " + mesh.ReasonUnavailable},
		"the user cancels":           {gone: time.Second, back: long, canceled: true, end: "CANCELED", after: 5 * time.Second, told: 1},
		"it dies with the message":   {dies: true, back: 8 * time.Second, end: "COMPLETED", after: 8 * time.Second, told: 1, sent: 2},
		"another's dies with it":     {foreign: true, dies: true, back: 8 * time.Second, end: "FAILED " + mesh.ReasonUnavailable, sent: 1},
		"it dies and is not back":    {dies: true, back: long, end: "FAILED " + mesh.ReasonUnavailable, after: 30 * time.Second, told: 1, sent: 1},
		"the user cancels meanwhile": {dies: true, back: long, canceled: true, end: "CANCELED", after: 5 * time.Second, told: 1, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &survivor{foreign: tt.foreign, agent: agent{canceled: make(chan string, 8)}}
				s.play = func(say func(*a2apb.StreamResponse)) {
					say(task(string(s.executed)))
					say(status(string(s.executed), completed))
				}
				if !tt.dies {
					s.back = time.Now().Add(tt.back)
					if tt.gone > 0 {
						s.gone = time.Now().Add(-tt.gone)
					}
				}
				s.dies = func() bool {
					if tt.dies && s.back.IsZero() {
						s.gone, s.back = time.Now(), time.Now().Add(tt.back)
						return true
					}
					return false
				}
				r := node(t, s)
				defer func() { _ = r.Close(t.Context()) }()
				began := time.Now()
				r.write(t, opened("t1"), posted("t1"))
				r.Wake(key)
				if tt.canceled {
					time.Sleep(5 * time.Second)
					r.write(t, &mesh.Event{Execution: "t1", Actor: "user:ann", Body: mesh.CancelRequested{}})
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				events, err := r.Log.Read(t.Context(), key, 0, 1000)
				must(t, err)
				turn, told := thread.Fold(events).Turn("t1"), 0
				for _, e := range events {
					if m, ok := e.Body.(mesh.TaskMoved); ok && m.Reason == mesh.ReasonAwaited {
						told++
					}
				}
				if end := strings.TrimSpace(strings.TrimPrefix(turn.State.String(), "TASK_STATE_") + " " + strings.TrimPrefix(turn.Reason, mesh.ReasonCanceled)); end != tt.end || told != tt.told || len(s.sent) != tt.sent {
					t.Errorf("ended %q; the user was told %d times, and the message was sent %d times", end, told, len(s.sent))
				}
				if took := turn.Updated.Sub(began); took < tt.after || took > tt.after+6*time.Second {
					t.Errorf("it took %v, want about %v", took, tt.after)
				}
			})
		})
	}
}

// fromOutside is a thread of which somebody asks something.
var fromOutside = mesh.ThreadKey{Tenant: "acme", ID: "00000000-0000-4000-8000-000000000002"}

// gated are leases of which, but for two threads, one is given for each word.
type gated struct {
	lease.Store

	words chan struct{}
	asked atomic.Int32
}

func (g *gated) Acquire(ctx context.Context, k mesh.ThreadKey, owner string, ttl time.Duration) (lease.Lease, error) {
	if k == key || k == fromOutside {
		return g.Store.Acquire(ctx, k, owner, ttl)
	}
	g.asked.Add(1)
	<-g.words
	return g.Store.Acquire(ctx, k, owner, ttl)
}

// However many threads a node finds unfinished, it brings a few under way at a time, of
// which none counts that works or waits for its agent; who comes meanwhile waits for none.
func TestThreadsThatWereLeftOverComeSomeAtATime(t *testing.T) {
	const threads = 3 * maxComing
	for name, back := range map[string]time.Duration{"agents that work": 0, "agents that are away": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &gated{Store: lease.NewLocal(nil), words: make(chan struct{})}
				working := make(chan struct{})
				s := &survivor{agent: agent{play: func(say func(*a2apb.StreamResponse)) {
					<-working
					say(task("own"))
					say(status("own", completed))
				}}, back: time.Now().Add(back)}
				r := after(t, s)
				r.Leases = gate
				left, err := r.Log.Read(t.Context(), key, 0, 100)
				must(t, err)
				for i := range threads + 1 {
					k := mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i)}
					if i == threads {
						k = fromOutside
					}
					must(t, r.States.Decide(t.Context(), k, func(*thread.State) (d cache.Decision, err error) {
						for _, e := range left {
							d.Events = append(d.Events, &mesh.Event{Execution: e.Execution, Actor: e.Actor, Body: e.Body})
						}
						return d, nil
					}))
				}
				r.Tend(t.Context())
				r.Wake(fromOutside) // which need not wait for others
				if !r.Drives(fromOutside) {
					t.Error("a thread that is woken waits for others")
				}
				for begun := range threads - maxComing + 1 {
					synctest.Wait()
					if n := int(gate.asked.Load()); n != begun+maxComing {
						t.Errorf("when %d are under way, %d have begun", begun, n)
						break
					}
					gate.words <- struct{}{}
				}
				close(gate.words)
				close(working)
				r.Tend(t.Context())
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := r.Running(); n != 0 || int(gate.asked.Load()) < threads {
					t.Errorf("%d are not driven to their end, %d have begun", n, gate.asked.Load())
				}
				must(t, r.Close(t.Context()))
			})
		})
	}
}
