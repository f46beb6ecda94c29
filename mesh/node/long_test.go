package node_test

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/llm/window"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/threadlog"
)

// shortly is a model that says one word.
type shortly struct{}

func (shortly) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		_ = yield(llm.Chunk{Text: "Hello."}, nil) && yield(llm.Chunk{Done: &llm.Done{}}, nil)
	}
}

// tokensKnown counts tokens for all agents here, as it does in a process, and remembers them.
var tokensKnown = new(tokens.Counter)

// attentive is an agent with a model that is shown as much of the conversation as fits.
func attentive(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return modelrun.Run(ctx, inv, modelrun.Options{Model: shortly{}, System: "You help.", Fit: window.For("", nil).Fit(tokensKnown)})
}

// uttered is of what the agent of a longTurn says.
const uttered = "some more of these words, and "

// longTurn is a finished turn of which the main agent said so many pieces, by its model or,
// if it is plain, by itself.
func longTurn(thread string, pieces int, plain bool) []*mesh.Event {
	turn, leg := mesh.NewExecutionID(thread), mesh.NewExecutionID(thread)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(of mesh.ExecutionID, b mesh.Body) *mesh.Event {
		at = at.Add(time.Millisecond)
		return &mesh.Event{ID: mesh.NewEventID(), Time: at, Execution: of, Actor: "agent:main", Body: b}
	}
	events := []*mesh.Event{
		add(turn, mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "local"}}),
		add(turn, mesh.MessagePosted{User: "local", Message: say("tell me all").Message}),
		add(turn, mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: turn, Kind: mesh.KindAgent, Agent: "main", User: "local"}, Message: say("tell me all").Message}),
	}
	for i := range pieces {
		events = append(events, add(leg, mesh.ArtifactAppended{Append: i > 0, Artifact: &a2apb.Artifact{ArtifactId: "response",
			Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: uttered}}}}}))
	}
	if !plain {
		events = append(events, add(leg, mesh.ModelReplied{Text: strings.Repeat(uttered, min(pieces, 2000))}))
	}
	return append(events,
		add(turn, mesh.DispatchSettled{Child: leg, State: a2apb.TaskState_TASK_STATE_COMPLETED}),
		add(turn, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}))
}

// prefill writes threads into the folder of a mesh that does not run.
func prefill(b testing.TB, folder string, threads map[string][]*mesh.Event) {
	b.Helper()
	store, err := disk.Open(filepath.Join(folder, "mesh.db"), disk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	log := threadlog.New(store)
	for id, events := range threads {
		key := mesh.ThreadKey{Tenant: "default", ID: id}
		for len(events) > 0 {
			n := min(len(events), 500)
			opts := threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{}}
			for _, e := range events[:n] {
				if scope, ok := mesh.ScopeOf(e); ok {
					opts.Expect[scope] = 0
				}
			}
			if tail, err := log.Tail(b.Context(), key); err != nil {
				b.Fatal(err)
			} else if tail > 0 {
				had, err := log.Read(b.Context(), key, 0, 3)
				if err != nil {
					b.Fatal(err)
				}
				for _, e := range had {
					if scope, ok := mesh.ScopeOf(e); ok {
						if _, asked := opts.Expect[scope]; asked {
							opts.Expect[scope] = e.Seq
						}
					}
				}
			}
			if _, err := log.Append(b.Context(), key, events[:n], opts); err != nil {
				b.Fatal(err)
			}
			events = events[n:]
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLongConversation is what users wait for behind a turn of so many pieces of output,
// of an agent with a model (model) and without (plain).
func BenchmarkLongConversation(b *testing.B) {
	for _, pieces := range []int{10, 1_000, 100_000} {
		for _, kind := range []string{"model", "plain"} {
			b.Run(fmt.Sprintf("%s/%d", kind, pieces), func(b *testing.B) {
				cfg := config(b.TempDir())
				thread := mesh.NewThreadID()
				turn := longTurn(thread, pieces, kind == "plain")
				task := string(turn[0].Execution)
				prefill(b, cfg.Data, map[string][]*mesh.Event{thread: turn})
				m := start(b, cfg, map[string]run{"main": attentive})
				threads := meshv1.NewThreadServiceClient(m.conn)
				last := func(b *testing.B) {
					if _, err := threads.ReadThread(in(b, thread), &meshv1.ReadThreadRequest{ThreadId: thread, Tail: true, Limit: 50}); err != nil {
						b.Fatal(err)
					}
				}
				begun := time.Now()
				last(b)
				b.Logf("cold: %v", time.Since(begun))
				hello := func(b *testing.B, thread string) {
					for b.Loop() {
						m.hello(b, thread)
					}
				}
				b.Run("hello", func(b *testing.B) { hello(b, thread) })
				b.Run("hello-fresh", func(b *testing.B) { hello(b, mesh.NewThreadID()) })
				b.Run("last-page", func(b *testing.B) {
					for b.Loop() {
						last(b)
					}
				})
				b.Run("get-task", func(b *testing.B) {
					for b.Loop() {
						if _, err := m.edge().GetTask(in(b, thread), &a2apb.GetTaskRequest{Id: task}); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run("list-tasks", func(b *testing.B) {
					for b.Loop() {
						if _, err := m.edge().ListTasks(in(b, thread), &a2apb.ListTasksRequest{ContextId: thread}); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// hello says that in the thread, and returns how long the first word of the answer took.
func (m *testMesh) hello(b *testing.B, thread string) (first time.Duration) {
	b.Helper()
	begun := time.Now()
	stream, err := m.edge().SendStreamingMessage(in(b, thread), say("hello"))
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = stream.Recv(); first == 0 && r.GetArtifactUpdate() != nil {
			first = time.Since(begun)
		}
	}
	if first == 0 {
		b.Fatal(err)
	}
	return first
}

// BenchmarkHelloAfterRestart is until the first word of the first answer of a mesh that was just
// started, behind a turn of 100,000 pieces of output (ms) and behind one of 10 (x-short).
func BenchmarkHelloAfterRestart(b *testing.B) {
	for _, kind := range []string{"model", "plain"} {
		b.Run(kind, func(b *testing.B) {
			cfg := config(b.TempDir())
			long, short := mesh.NewThreadID(), mesh.NewThreadID()
			prefill(b, cfg.Data, map[string][]*mesh.Event{long: longTurn(long, 100_000, kind == "plain"), short: longTurn(short, 10, kind == "plain")})
			cold := func(thread string) time.Duration {
				m := start(b, cfg, map[string]run{"main": attentive})
				defer m.Stop()
				return m.hello(b, thread)
			}
			cold(long) // has its state kept
			var took, of []time.Duration
			for b.Loop() {
				took, of = append(took, cold(long)), append(of, cold(short))
			}
			slices.Sort(took)
			slices.Sort(of)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "ms")
			b.ReportMetric(float64(took[len(took)/2])/float64(of[len(of)/2]), "x-short")
		})
	}
}

// finding C6: an agent that is asked behind a very long turn knows how that ended, and reads
// little of it: in the words of its model, or, of one without, their end and that there
// was more.
func TestAnAgentKnowsALongTurnWithoutReadingIt(t *testing.T) {
	cfg := config(t.TempDir())
	thread := mesh.NewThreadID()
	const pieces = 20_000
	prefill(t, cfg.Data, map[string][]*mesh.Event{thread: longTurn(thread, pieces, true)})
	heard := make(chan []llm.Message, 1)
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			said, err := modelrun.Conversation(ctx, inv, nil)
			if err != nil {
				t.Error(err)
			}
			heard <- said
			yield(agent.Text{Text: "yes"}, nil)
		}
	}})
	stream, err := m.edge().SendStreamingMessage(in(t, thread), say("hello"))
	if s := hear(t, stream, err); s.text != "yes" {
		t.Errorf("it says %q", s.text)
	}
	said := <-heard
	if len(said) != 3 || said[0].Text != "tell me all" || said[2].Text != "hello" {
		t.Fatalf("it has %d messages: %v", len(said), said)
	}
	words := said[1].Text
	for strings.HasSuffix(words, uttered) {
		words = strings.TrimSuffix(words, uttered)
	}
	if n := len(said[1].Text); strings.TrimSpace(words) == "" || n < 8<<10 || n > 32<<10 {
		t.Errorf("of %d bytes it has %d, and before them %q", pieces*len(uttered), n, words)
	}
}

// findings C5 and C6: a very long task is whole for who reads it, and bare for who lists tasks
// without artifacts or goes on behind its end.
func TestALongTaskIsWholeOrBareAsItIsAskedFor(t *testing.T) {
	cfg := config(t.TempDir())
	thread := mesh.NewThreadID()
	const pieces = 5_000
	turn := longTurn(thread, pieces, true)
	task := string(turn[0].Execution)
	prefill(t, cfg.Data, map[string][]*mesh.Event{thread: turn})
	m := start(t, cfg, map[string]run{"main": attentive})
	for range 2 { // the second time it may be kept
		bare, err := m.edge().ListTasks(in(t, thread), &a2apb.ListTasksRequest{ContextId: thread})
		if err != nil || len(bare.GetTasks()) != 1 || len(bare.Tasks[0].Artifacts) != 0 || len(bare.Tasks[0].History) != 1 || bare.Tasks[0].Status.State != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Fatalf("listed is %v, %v", bare, err)
		}
		yes := true
		whole, err := m.edge().ListTasks(in(t, thread), &a2apb.ListTasksRequest{ContextId: thread, IncludeArtifacts: &yes})
		if err != nil || len(whole.GetTasks()) != 1 || len(whole.Tasks[0].Artifacts) != 1 {
			t.Fatalf("listed with artifacts: %v", err)
		}
		got, err := m.edge().GetTask(in(t, thread), &a2apb.GetTaskRequest{Id: task})
		if err != nil || len(got.GetArtifacts()) != 1 || got.Artifacts[0].Parts[0].GetText() != strings.Repeat(uttered, pieces) {
			t.Fatalf("it is not whole: %v", err)
		}
	}
	ctx := mesh.WithCall(plain(t), mesh.Call{Principal: mesh.Principal{Tenant: "default"}, Thread: thread, HasCursor: true, AfterSeq: mesh.Seq(len(turn) - 1), Extensions: []string{mesh.ExtensionURI}})
	stream, err := m.edge().SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: task})
	if s := hear(t, stream, err); len(s.task.GetArtifacts()) != 0 || len(s.all) != 2 || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("behind its end it has %d artifacts and %d updates", len(s.task.GetArtifacts()), len(s.all))
	}
}
