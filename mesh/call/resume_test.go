package call_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// A plot is what an agent says at random, and when the network breaks.
type plot struct {
	seed  uint64
	began chan struct{} // closed when the caller knows the task
	cut   func() <-chan struct{}
	// What the log must have in the end.
	content map[string]string
	said    []string
}

// play is the agent. Every other cut is waited out, so that the agent goes on
// while it is followed anew; after others it goes on meanwhile.
func (p *plot) play(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
	r := rand.New(rand.NewPCG(p.seed, 0))
	if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
		return
	}
	<-p.began
	cuts := 1 + r.IntN(3)
	for i := range 12 {
		var ev a2a.Event
		id := string(rune('a' + r.IntN(3)))
		old, known := p.content[id]
		switch r.IntN(5) {
		case 0:
			words := fmt.Sprintf("step %d", i)
			p.said = append(p.said, words)
			ev = a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words)))
		case 1:
			p.content[id] = old + fmt.Sprintf("{%d}", i)
			ev = p.piece(ec, id, known, a2a.NewDataPart(map[string]any{"i": i}))
		default:
			words := strings.Repeat("é", r.IntN(3)) + "same "
			p.content[id] = old + words
			ev = p.piece(ec, id, known, a2a.NewTextPart(words))
		}
		if !yield(ev, nil) {
			return
		}
		if cuts > 0 && r.IntN(3) == 0 {
			cuts--
			again := p.cut()
			if r.IntN(2) == 0 {
				select {
				case <-again:
				case <-ctx.Done():
					return
				}
			}
		}
	}
	yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
}

func (*plot) piece(ec *a2asrv.ExecutorContext, id string, known bool, part *a2a.Part) a2a.Event {
	ev := a2a.NewArtifactUpdateEvent(ec, a2a.ArtifactID(id), part)
	ev.Append = known
	return ev
}

// listen follows the agent and returns what the log would have.
func listen(t testing.TB, c call.Client, req call.Request, began chan struct{}) (content map[string]string, said []string, last mesh.TaskMoved) {
	t.Helper()
	content, open := map[string]string{}, began
	for b := range call.Stream(t.Context(), c, req) {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			id := b.Artifact.ArtifactId
			if _, known := content[id]; known != b.Append {
				t.Errorf("artifact %s began anew, or never", id)
			}
			for _, p := range b.Artifact.Parts {
				content[id] += p.GetText()
				if d := p.GetData(); d != nil {
					content[id] += fmt.Sprintf("{%v}", d.GetStructValue().GetFields()["i"].GetNumberValue())
				}
			}
		case mesh.TaskMoved:
			last = b
			if b.State == working && words(b.Message) != "" {
				said = append(said, words(b.Message))
			}
			if b.RemoteTask != "" && open != nil {
				close(open)
				open = nil
			}
		}
	}
	return content, said, last
}

// However often the network breaks within a task, the log has everything that
// the agent said, once.
func TestBrokenStreamsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8) {
				p := &plot{seed: seed, began: make(chan struct{}), content: map[string]string{}}
				f := foreign(t, p.play)
				p.cut = f.web.cut
				if strings.HasPrefix(binding, "GRPC") {
					p.cut = f.net.cut
				}
				content, said, last := listen(t, f.client(t, f.at(binding)), saying("go"), p.began)
				if last.State != completed {
					t.Fatalf("seed %d: ended with %v", seed, last)
				}
				if diff := cmp.Diff(p.content, content); diff != "" {
					t.Errorf("seed %d: content (-said +heard):\n%s", seed, diff)
				}
				if diff := cmp.Diff(p.said, said); diff != "" {
					t.Errorf("seed %d: progress (-said +heard):\n%s", seed, diff)
				}
			}
		})
	}
}

// Progress of an agent that does not stream is shown while it works.
func TestAgentsThatDoNotStreamAreAskedForTheTask(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			shown := make(chan struct{})
			f := foreign(t, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
				half := a2a.NewArtifactEvent(ec, a2a.NewTextPart("half"))
				half.Artifact.ID = "a"
				if yield(a2a.NewSubmittedTask(ec, ec.Message), nil) && yield(half, nil) {
					<-shown
					more := a2a.NewArtifactUpdateEvent(ec, "a", a2a.NewTextPart("whole"))
					_ = yield(more, nil) && yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
				}
			})
			req := saying("go")
			req.Unary = true
			var got []mesh.Body
			for b := range call.Stream(t.Context(), f.client(t, f.at(binding)), req) {
				if a, ok := b.(mesh.ArtifactAppended); ok && !a.Append {
					close(shown)
				}
				got = append(got, b)
			}
			l, _ := heard(got)
			l = slices.DeleteFunc(l, func(s string) bool { return s == "working" }) // first, or after what the task had at once
			if diff := cmp.Diff([]string{`new a "half"`, `append a "whole"`, "completed"}, l); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An agent that comes back without the task cannot say what became of it.
func TestAnAgentThatForgetsTheTaskFailsIt(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			began, over := make(chan struct{}), make(chan struct{})
			defer close(over)
			f := foreign(t, nil)
			f.swap = bindingsOf(a2asrv.NewHandler(act(func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
				yield(a2a.NewSubmittedTask(ec, ec.Message), nil)
				<-began
				f.mu.Lock()
				f.swap = nil
				f.mu.Unlock()
				f.web.cut()
				<-over
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil) // to nobody
			})))
			_, _, last := listen(t, f.client(t, f.at(binding)), saying("go"), began)
			if last.State != failedAt || last.Reason != mesh.ReasonNoAnswer || !strings.Contains(words(last.Message), "does not know the task") {
				t.Errorf("ended with %v", last)
			}
		})
	}
}

// An agent that never comes back is given up.
func TestAnAgentThatStaysAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	var f *foreigner
	f = foreign(t, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		yield(a2a.NewSubmittedTask(ec, ec.Message), nil)
		<-began
		_ = f.web.l.Close()
		f.web.cut()
		<-over
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil) // to nobody
	})
	_, _, last := listen(t, f.client(t, f.at("JSONRPC 1.0")), saying("go"), began)
	if last.State != failedAt || last.Reason != mesh.ReasonUnavailable {
		t.Errorf("ended with %v", last)
	}
}

// What a task has beyond what was read is told, however its parts are cut;
// what was rewritten begins anew; what it leaves out stays.
func TestATaskIsReconciledWithWhatWasRead(t *testing.T) {
	read := []*a2apb.StreamResponse{task("own", working), piece("own", "a", "one ", false), piece("own", "a", "two", true), status1("own", working, "so far")}
	const start = `{"id":"own","status":{"state":"TASK_STATE_COMPLETED"}`
	tests := map[string]struct {
		task string
		want []string
	}{
		"nothing new":           {`,"artifacts":[{"artifactId":"a","parts":[{"text":"one "},{"text":"two"}]}]}`, nil},
		"parts in one":          {`,"artifacts":[{"artifactId":"a","parts":[{"text":"one two"}]}]}`, nil},
		"more in the same part": {`,"artifacts":[{"artifactId":"a","parts":[{"text":"one two three"}]}]}`, []string{`append a " three"`}},
		"more parts":            {`,"artifacts":[{"artifactId":"a","parts":[{"text":"one two"},{"text":"!"},{"data":1}]}]}`, []string{`append a "!"`, `append a ""`}},
		"rewritten":             {`,"artifacts":[{"artifactId":"a","parts":[{"text":"three and more"},{"text":"!"}]}]}`, []string{`new a "three and more"`, `append a "!"`}},
		"rewritten as data":     {`,"artifacts":[{"artifactId":"a","parts":[{"data":"one two three"}]}]}`, []string{`new a ""`}},
		"left out":              {`}`, nil},
		"less":                  {`,"artifacts":[{"artifactId":"a","parts":[{"text":"one"}]}]}`, nil},
		"another":               {`,"artifacts":[{"artifactId":"b","parts":[{"text":"x"}]}]}`, []string{`new b "x"`}},
		"progress missed": {`,"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"}]},{"messageId":"s","role":"ROLE_AGENT","parts":[{"text":"so far"}]},
			{"messageId":"s2","role":"ROLE_AGENT","parts":[{"text":"further"}]}]}`, []string{"working further"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &recalling{actor: &actor{says: script(read...)}, task: &a2apb.Task{}}
			if err := protojson.Unmarshal([]byte(start+tt.task), a.task); err != nil {
				t.Fatal(err)
			}
			want := append([]string{"working own", `new a "one "`, `append a "two"`, "working so far"}, tt.want...)
			got := lines(collect(t.Context(), serveAs(t, a), request()))
			if diff := cmp.Diff(append(want, "completed"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of what was missed of an artifact only the end is its last piece, and of a task
// that goes on there is none.
func TestOnlyTheEndOfAnArtifactIsItsLastPiece(t *testing.T) {
	for state, want := range map[mesh.TaskState][]bool{completed: {false, false, true, false, true}, asks: {false, false, false, false, false}} {
		a := &recalling{actor: &actor{says: script(task("own", working))}, task: task("own", state, "a", "b").GetTask()}
		for _, found := range a.task.Artifacts {
			found.Parts = append(found.Parts, text("more")...)
		}
		a.task.Artifacts[0].Parts = append(a.task.Artifacts[0].Parts, text("and more")...)
		var got []bool
		for _, b := range collect(t.Context(), serveAs(t, a), request()) {
			if piece, ok := b.(mesh.ArtifactAppended); ok {
				got = append(got, piece.LastChunk)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: last pieces (-want +got):\n%s", state, diff)
		}
	}
}

// An agent that waits for credentials, and has no stream to say when it goes
// on, is left waiting (A2A v1.0 §7.6).
func TestAnAgentThatIsFoundToWaitForCredentialsIsLeft(t *testing.T) {
	for name, change := range map[string]func(*call.Request){"stream": func(*call.Request) {}, "unary": unary} {
		t.Run(name, func(t *testing.T) {
			a := &recalling{actor: &actor{says: script(task("own", working))}, task: task("own", auth).GetTask()}
			req := request()
			change(&req)
			if diff := cmp.Diff([]string{"working own", "auth_required"}, lines(collect(t.Context(), serveAs(t, a), req))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An agent that has no streams and takes its time is asked less and less often, and
// more often again when it has said something.
func TestAnAgentThatTakesItsTimeIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slow{begun: time.Now()}
		req := request()
		unary(&req)
		if got := lines(collect(t.Context(), a, req)); got[len(got)-1] != "completed" {
			t.Errorf("it ended with %q", got)
		}
		said := slices.IndexFunc(a.asked, func(at time.Duration) bool { return at >= time.Minute })
		gap := func(i int) time.Duration { return a.asked[i] - a.asked[i-1] }
		for i, most := range map[int]time.Duration{1: time.Second / 8, said: 7 * time.Second, said + 1: time.Second / 8, len(a.asked) - 1: 7 * time.Second} {
			if gap(i) > most || gap(i) < most/2 {
				t.Errorf("it was asked for the %dth time %v after the one before", i, gap(i))
			}
		}
		if n := len(a.asked); n < 30 || n > 60 {
			t.Errorf("it was asked %d times within two minutes", n)
		}
	})
}

// An agent that goes away is given up within seconds, however seldom it was asked before.
func TestAnAgentThatIsAskedSeldomIsGivenUpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slow{begun: time.Now(), leaves: 50 * time.Second}
		req := request()
		unary(&req)
		if got := lines(collect(t.Context(), a, req)); !strings.Contains(got[len(got)-1], mesh.ReasonUnavailable) {
			t.Errorf("it ended with %q", got)
		}
		if took := time.Since(a.begun); took > a.leaves+12*time.Second { // until it is asked next, and the looks
			t.Errorf("it was given up after %v", took)
		}
	})
}

// slow is an agent without streams that says something after a minute, and is done
// after two.
type slow struct {
	call.Client
	begun  time.Time
	leaves time.Duration // 0 for never
	asked  []time.Duration
}

func (*slow) SendMessage(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task("own", working).GetTask()}}, nil
}

func (s *slow) GetTask(context.Context, string) (*a2apb.Task, error) {
	at := time.Since(s.begun)
	s.asked = append(s.asked, at)
	switch {
	case s.leaves > 0 && at > s.leaves:
		return nil, &mesh.Error{Code: mesh.Unavailable, Op: "test"}
	case at < time.Minute:
		return task("own", working).GetTask(), nil
	case at < 2*time.Minute:
		return task("own", working, "a").GetTask(), nil
	}
	return task("own", completed, "a").GetTask(), nil
}

// recalling is an actor that tells the task when it is asked.
type recalling struct {
	*actor
	task *a2apb.Task
}

func (r *recalling) GetTask(context.Context, *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return r.task, nil
}
