package runs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/runs"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

func arguments(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASkillRunsAsATurnOfAThreadForItsCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = func(context.Context, skillCall) result {
			return result{text: "Sent.", files: []any{"outbox/1.eml"}, metadata: map[string]any{"id": 7.0}}
		}
		thread := mesh.NewThreadID()
		res := w.run(&meshv1.RunSkillRequest{Name: "mail.send", ThreadId: thread, Approved: true, Arguments: arguments(t, map[string]any{"to": "bob", "tags": []any{"a"}})})
		if res.GetState() != completed || res.GetContent() != "Sent." || strings.Join(res.GetFiles(), " ") != "outbox/1.eml" ||
			res.GetMetadata().GetFields()["id"].GetNumberValue() != 7 || res.GetThreadId() != thread {
			t.Errorf("answer is %v", res)
		}
		if of, ok := mesh.ExecutionID(res.GetTaskId()).ThreadID(); !ok || of != thread {
			t.Errorf("task %q is not of thread %s", res.GetTaskId(), thread)
		}
		want := []skillCall{{tenant: "acme", user: "ann", thread: thread, skill: "mail.send", source: mesh.SourceRun, approved: true,
			args: map[string]any{"to": "bob", "tags": []any{"a"}}, text: `Run the skill mail.send. Arguments: {"tags":["a"],"to":"bob"}`}}
		got := w.agents.seen()
		got[0].at = time.Time{}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(skillCall{})); diff != "" {
			t.Errorf("the agent was asked (-want +got):\n%s", diff)
		}
		// Without a thread each run has its own.
		one, two := w.run(&meshv1.RunSkillRequest{Name: "mail.send"}), w.run(&meshv1.RunSkillRequest{Name: "mail.send"})
		if _, err := mesh.ParseThreadID(one.GetThreadId()); err != nil || one.GetThreadId() == two.GetThreadId() {
			t.Errorf("threads are %q and %q, %v", one.GetThreadId(), two.GetThreadId(), err)
		}
		// Another source than a person.
		if _, err := w.runner.Run(w.as("acme", "ann"), mesh.SourceMCP, &meshv1.RunSkillRequest{Name: "mail.send"}); err != nil || w.agents.seen()[3].source != mesh.SourceMCP {
			t.Errorf("the agent was told %v, %v", w.agents.seen()[3], err)
		}
	})
}

func TestARunThatFailsOrAsksSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		does result
		want *meshv1.RunSkillResponse
	}{
		"fails":              {result{state: failed, said: "The server said no.", text: "half"}, &meshv1.RunSkillResponse{State: failed, Content: "The server said no."}},
		"fails, says before": {result{state: failed, text: "half"}, &meshv1.RunSkillResponse{State: failed, Content: "half"}},
		"asks":               {result{state: asks, said: "Really send it?"}, &meshv1.RunSkillResponse{State: asks, Content: "Really send it?"}},
		"last words only":    {result{said: "That was all."}, &meshv1.RunSkillResponse{State: completed, Content: "That was all."}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.agents.do = func(context.Context, skillCall) result { return tt.does }
				got := w.run(&meshv1.RunSkillRequest{Name: "mail.send"})
				if got.GetState() != tt.want.GetState() || got.GetContent() != tt.want.GetContent() || got.GetTaskId() == "" {
					t.Errorf("answer is %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestARequestIDMakesARunHappenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		req := func() *meshv1.RunSkillRequest {
			return &meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r1", Arguments: arguments(t, map[string]any{"to": "bob", "cc": "eve", "n": 1.0})}
		}
		answers := make(chan *meshv1.RunSkillResponse, 3)
		for range 3 { // at once
			go func() {
				res, err := w.runner.RunSkill(w.as("acme", "ann"), req())
				if err != nil {
					t.Error(err)
				}
				answers <- res
			}()
		}
		first := <-answers
		for _, res := range []*meshv1.RunSkillResponse{<-answers, <-answers, w.run(req())} {
			if res.GetTaskId() != first.GetTaskId() || res.GetThreadId() != first.GetThreadId() || res.GetContent() != "Done after 1m0s." {
				t.Errorf("a repeated call is answered %v, the first one %v", res, first)
			}
		}
		if _, err := mesh.ParseThreadID(first.GetThreadId()); err != nil {
			t.Error(err)
		}
		if n := len(w.agents.seen()); n != 1 {
			t.Errorf("the skill ran %d times", n)
		}
		// Another call under the same id is refused, and runs nothing.
		for _, other := range []*meshv1.RunSkillRequest{{Name: "mail.read", RequestId: "r1"}, {Name: "mail.send", RequestId: "r1"}} {
			_, err := w.runner.RunSkill(w.as("acme", "ann"), other)
			wantCode(t, err, mesh.Invalid, "request_id")
		}
		if n := len(w.agents.seen()); n != 1 {
			t.Errorf("the skill ran %d times", n)
		}
		// The id is the user's own, and so is its thread.
		for i, ctx := range []context.Context{w.as("acme", "bob"), w.as("globex", "ann")} {
			res, err := w.runner.RunSkill(ctx, req())
			if err != nil || res.GetThreadId() == first.GetThreadId() || len(w.agents.seen()) != i+2 {
				t.Errorf("another user's call is answered %v, %v", res, err)
			}
		}
	})
}

func TestARunGoesOnWhenNobodyWaitsAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Hour)
		begin := time.Now()
		res := w.run(&meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"})
		if took := time.Since(begin); took != 5*time.Minute || res.GetState() != working || !strings.Contains(res.GetContent(), "still running") || !strings.Contains(res.GetContent(), res.GetTaskId()) {
			t.Errorf("after %v the answer is %v", took, res)
		}
		// The caller's deadline counts, and still there is an answer.
		ctx, cancel := context.WithTimeout(w.as("acme", "ann"), time.Minute)
		defer cancel()
		begin = time.Now()
		again, err := w.runner.RunSkill(ctx, &meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"})
		if took := time.Since(begin); err != nil || took >= time.Minute || again.GetState() != working || again.GetTaskId() != res.GetTaskId() {
			t.Errorf("after %v the answer is %v, %v", took, again, err)
		}
		// A caller that leaves ends nothing.
		ctx, leave := context.WithCancel(w.as("acme", "ann"))
		time.AfterFunc(time.Minute, leave)
		_, err = w.runner.RunSkill(ctx, &meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"})
		if !mesh.IsCode(err, mesh.Canceled) || !strings.Contains(mesh.DetailOf(err), res.GetTaskId()) {
			t.Errorf("who leaves is told %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		last := w.run(&meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"})
		if last.GetState() != completed || last.GetContent() != "Done after 1h0m0s." || len(w.agents.seen()) != 1 {
			t.Errorf("in the end the answer is %v", last)
		}
	})
}

func TestRunsOfAThreadTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		thread := mesh.NewThreadID()
		done := make(chan *meshv1.RunSkillResponse, 2)
		for _, name := range []string{"mail.send", "mail.read"} {
			go func() {
				res, err := w.runner.RunSkill(w.as("acme", "ann"), &meshv1.RunSkillRequest{Name: name, ThreadId: thread})
				if err != nil {
					t.Error(err)
				}
				done <- res
			}()
			synctest.Wait()
		}
		one, two := <-done, <-done
		calls := w.agents.seen()
		if one.GetThreadId() != thread || two.GetThreadId() != thread || one.GetTaskId() == two.GetTaskId() || calls[1].at.Sub(calls[0].at) != time.Minute {
			t.Errorf("the runs are %v and %v, called %v", one, two, calls)
		}
	})
}

// An approval is given by answering the task, as of any turn.
func TestARunThatAskedGoesOnWithTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = func(_ context.Context, c skillCall) result {
			if c.text == "yes" {
				return result{text: "Sent."}
			}
			return result{state: asks, said: "Send it?"}
		}
		res := w.run(&meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"})
		if res.GetState() != asks {
			t.Fatalf("answer is %v", res)
		}
		yes := a2a.NewMessage(a2apb.Role_ROLE_USER, "yes")
		yes.TaskId = res.GetTaskId()
		if _, err := w.Send(w.as("acme", "ann"), &a2apb.SendMessageRequest{Message: yes}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if res := w.run(&meshv1.RunSkillRequest{Name: "mail.send", RequestId: "r"}); res.GetState() != completed || res.GetContent() != "Sent." {
			t.Errorf("after the answer the run is %v", res)
		}
	})
}

// A run is a call of its own also where another one waits for an answer, which
// the next message of a client that knows our extension would be.
func TestARunIsNoAnswerToAnotherOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = func(context.Context, skillCall) result { return result{state: asks, said: "Send it?"} }
		thread := mesh.NewThreadID()
		one := w.run(&meshv1.RunSkillRequest{Name: "mail.send", ThreadId: thread})
		two := w.run(&meshv1.RunSkillRequest{Name: "mail.read", ThreadId: thread})
		if one.GetState() != asks || two.GetState() != asks || one.GetTaskId() == two.GetTaskId() {
			t.Errorf("the runs are %v and %v", one, two)
		}
	})
}

func TestCallsThatCannotBeRunAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one, two := mesh.NewThreadID(), mesh.NewThreadID()
		inThread := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ann", Roles: []mesh.Role{mesh.RoleUser}}, Thread: one})
		for name, tt := range map[string]struct {
			ctx   context.Context
			req   *meshv1.RunSkillRequest
			code  mesh.Code
			field string
		}{
			"no thread id":     {w.as("acme", "ann"), &meshv1.RunSkillRequest{ThreadId: "t1"}, mesh.Invalid, "thread_id"},
			"two threads":      {inThread, &meshv1.RunSkillRequest{ThreadId: two}, mesh.Invalid, "thread_id"},
			"long request id":  {w.as("acme", "ann"), &meshv1.RunSkillRequest{RequestId: strings.Repeat("x", 257)}, mesh.Invalid, "request_id"},
			"too much":         {w.as("acme", "ann"), &meshv1.RunSkillRequest{Arguments: arguments(t, map[string]any{"text": strings.Repeat("x", 1<<20)})}, mesh.Invalid, "arguments"},
			"without identity": {t.Context(), &meshv1.RunSkillRequest{}, mesh.Unknown, ""},
		} {
			tt.req.Name = "mail.send"
			_, err := w.runner.RunSkill(tt.ctx, tt.req)
			if !mesh.IsCode(err, tt.code) || mesh.FieldOf(err) != tt.field {
				t.Errorf("%s: error is %v, want %v about %q", name, err, tt.code, tt.field)
			}
		}
		if res, err := w.runner.RunSkill(inThread, &meshv1.RunSkillRequest{Name: "mail.send"}); err != nil || res.GetThreadId() != one {
			t.Errorf("with a thread in the metadata the answer is %v, %v", res, err)
		}
		w.agents.leave(true)
		_, err := w.runner.RunSkill(w.as("acme", "ann"), &meshv1.RunSkillRequest{Name: "mail.send"})
		if !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), `agent "worker"`) {
			t.Errorf("without the agent the error is %v", err)
		}
		if n := len(w.agents.seen()); n != 1 {
			t.Errorf("%d calls were made", n)
		}
	})
}

func TestNewRefusesWhatItCannotWorkWith(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, c := range map[string]runs.Config{
			"nothing":       {},
			"no agent":      {Edge: w.Edge, Threads: w.states, KV: w.kv, Agent: "No Agent"},
			"negative wait": {Edge: w.Edge, Threads: w.states, KV: w.kv, Wait: -1},
		} {
			if _, err := runs.New(c); !mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%s: error is %v", name, err)
			}
		}
		for name, c := range map[string]runs.SchedulerConfig{
			"nothing":          {},
			"no tenant":        {Runner: w.runner, Library: library(t), Tenant: "no/tenant"},
			"negative timeout": {Runner: w.runner, Library: library(t), Timeout: -1},
		} {
			if _, err := runs.NewScheduler(c); !mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%s: error is %v", name, err)
			}
		}
	})
}
