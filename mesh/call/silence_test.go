package call_test

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// A sleeper is a client of an agent that begins a task and then says nothing on its
// stream; what it answers about the task is a script.
type sleeper struct {
	call.Client
	first *a2apb.StreamResponse
	gets  []func() (*a2apb.Task, error) // the last one again and again
	asked int
	left  bool // its stream was ended
}

func (s *sleeper) SendStreamingMessage(ctx context.Context, _ *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		if s.first == nil || yield(call.Response{StreamResponse: s.first}, nil) {
			<-ctx.Done()
			s.left = true
			yield(call.Response{}, &mesh.Error{Code: mesh.Canceled})
		}
	}
}

func (s *sleeper) SubscribeToTask(context.Context, string) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		yield(call.Response{}, &mesh.Error{Code: mesh.Unsupported})
	}
}

func (s *sleeper) GetTask(context.Context, string) (*a2apb.Task, error) {
	s.asked++
	return s.gets[min(s.asked, len(s.gets))-1]()
}

func is(state mesh.TaskState) func() (*a2apb.Task, error) {
	return func() (*a2apb.Task, error) { return task("t", state).GetTask(), nil }
}

func fails(code mesh.Code) func() (*a2apb.Task, error) {
	return func() (*a2apb.Task, error) { return nil, &mesh.Error{Code: code, Op: "test"} }
}

// finding N11: an agent that says nothing is asked for its task after a while, and works
// on as long as it says that it does, up to its limit; what became of it otherwise is
// told with the cause.
func TestASilentAgentIsAskedForItsTask(t *testing.T) {
	begun := task("t", working)
	for name, tt := range map[string]struct {
		sleeper sleeper
		silence time.Duration
		want    []string
		asked   int           // at least
		took    time.Duration // at least
	}{
		"works on to its limit": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){is(working)}}, time.Minute,
			[]string{"working", "failed TIMEOUT The agent took too long and was stopped."}, 9, 10 * time.Minute},
		"has finished": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){is(working), is(completed)}}, time.Minute,
			[]string{"working", "completed"}, 2, 2 * time.Minute},
		"asks": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){is(asks)}}, time.Minute, []string{"working", "input_required"}, 2, time.Minute},
		"does not know the task": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){fails(mesh.NotFound)}}, time.Minute,
			[]string{"working", "failed NO_TERMINAL_EVENT The agent does not know the task any more; what became of it is unknown."}, 1, time.Minute},
		"is not there": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){fails(mesh.Unavailable)}}, time.Minute,
			[]string{"working", "failed AGENT_UNAVAILABLE The agent could not be reached."}, 2, time.Minute},
		"is back": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){fails(mesh.Unavailable), fails(mesh.Unavailable), is(completed)}}, time.Minute,
			[]string{"working", "completed"}, 3, time.Minute},
		"has no GetTask": {sleeper{first: begun, gets: []func() (*a2apb.Task, error){fails(mesh.Unsupported)}}, time.Minute,
			[]string{"working", "failed TIMEOUT The agent took too long and was stopped."}, 9, 10 * time.Minute},
		"has not said which task, and is there": {sleeper{gets: []func() (*a2apb.Task, error){fails(mesh.NotFound)}}, time.Minute,
			[]string{"failed TIMEOUT The agent took too long and was stopped."}, 9, 10 * time.Minute},
		"has not said which task, and was not there once": {sleeper{gets: []func() (*a2apb.Task, error){fails(mesh.Timeout), fails(mesh.Unsupported)}}, time.Minute,
			[]string{"failed TIMEOUT The agent took too long and was stopped."}, 9, 10 * time.Minute},
		"has not said which task, and is not there": {sleeper{gets: []func() (*a2apb.Task, error){fails(mesh.Timeout)}}, time.Minute,
			[]string{"failed AGENT_UNAVAILABLE The agent could not be reached."}, 2, time.Minute},
		"may be silent": {sleeper{first: begun}, 0,
			[]string{"working", "failed TIMEOUT The agent took too long and was stopped."}, 0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, mesh.Errorf(mesh.Timeout, "test", "over"))
				defer cancel()
				begin := time.Now()
				var log bytes.Buffer
				req := logged(&log)
				req.Silence = tt.silence
				if diff := cmp.Diff(tt.want, lines(collect(ctx, &tt.sleeper, req))); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(begin); tt.sleeper.asked < tt.asked || tt.asked == 0 && tt.sleeper.asked > 0 || took < tt.took || !tt.sleeper.left {
					t.Errorf("it was asked %d times in %v, and left: %v", tt.sleeper.asked, took, tt.sleeper.left)
				}
				if tt.asked > 0 && !strings.Contains(log.String(), "agent silent") {
					t.Errorf("the log has %s", log.String())
				}
			})
		})
	}
}

// finding N11: an agent that says something now and then is not asked.
func TestAnAgentThatSpeaksIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &speaker{every: 50 * time.Second, times: 20}
		req := saying("go")
		req.Silence = time.Minute
		if got := collect(t.Context(), s, req); len(got) != 22 || s.asked {
			t.Errorf("heard %q, and it was asked: %v", lines(got), s.asked)
		}
	})
}

// A speaker says a word from time to time.
type speaker struct {
	call.Client
	every time.Duration
	times int
	asked bool
}

func (s *speaker) SendStreamingMessage(context.Context, *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		ok := yield(call.Response{StreamResponse: task("t", working)}, nil)
		for i := 0; ok && i < s.times; i++ {
			time.Sleep(s.every)
			ok = yield(call.Response{StreamResponse: status1("t", working, "hm")}, nil)
		}
		_ = ok && yield(call.Response{StreamResponse: status1("t", completed, "")}, nil)
	}
}

func (s *speaker) GetTask(context.Context, string) (*a2apb.Task, error) {
	s.asked = true
	return task("t", working).GetTask(), nil
}

// Limits are those of the agent, or else those of all, or else the usual ones.
func TestLimitsOfAnAgentOverrideThoseOfAll(t *testing.T) {
	l := call.Limits{Time: time.Hour, Agents: map[string]call.Limits{"slow": {Time: 2 * time.Hour, Silence: time.Second}}}
	for name, want := range map[string]call.Limits{
		"slow": {Time: 2 * time.Hour, Silence: time.Second, Return: 30 * time.Second}, "other": {Time: time.Hour, Silence: 2 * time.Minute, Return: 30 * time.Second},
	} {
		if diff := cmp.Diff(want, l.For(name)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(call.Limits{Time: 30 * time.Minute, Silence: 2 * time.Minute, Return: 30 * time.Second}, call.Limits{}.For("x")); diff != "" {
		t.Error(diff)
	}
}
