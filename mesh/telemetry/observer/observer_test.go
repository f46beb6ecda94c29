package observer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names are the spans that a receiver got, sorted.
type names struct {
	collectpb.UnimplementedTraceServiceServer
	mu  sync.Mutex
	got []string
}

func (n *names) Export(_ context.Context, req *collectpb.ExportTraceServiceRequest) (*collectpb.ExportTraceServiceResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				n.got = append(n.got, s.GetName())
			}
		}
	}
	slices.Sort(n.got)
	return &collectpb.ExportTraceServiceResponse{}, nil
}

// A process has a log and tells of it, until it ends well or is killed.
type process struct {
	*threadlog.Log
	tells *telemetry.Telemetry
	stop  func()
	got   *names
}

func begin(t *testing.T, backend threadlog.Backend) *process {
	t.Helper()
	l := rpctest.Listen(t)
	got, s := &names{}, grpc.NewServer()
	collectpb.RegisterTraceServiceServer(s, got)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	tells, err := telemetry.New(t.Context(), telemetry.Config{OTLP: l.Addr().String()}, telemetry.Service{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	o := New(tells, slog.New(slog.DiscardHandler))
	log := threadlog.New(backend, threadlog.WithAdded(o.Added))
	o.Watch(log, cache.New(log, 0))
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { o.Run(ctx) })
	return &process{log, tells, func() {
		cancel()
		_ = tells.Close(context.Background()) // this receiver takes no metrics
		s.Stop()
		running.Wait()
	}, got}
}

const came = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func (p *process) add(t *testing.T, key mesh.ThreadKey, epoch mesh.Epoch, events ...*mesh.Event) {
	t.Helper()
	opts := threadlog.AppendOptions{Epoch: epoch}
	if epoch == 0 {
		opts.Expect = map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0}
	}
	if _, err := p.Append(t.Context(), key, events, opts); err != nil {
		t.Fatal(err)
	}
}

// Whoever ends a turn that another process began tells of all of it; of a turn of its own
// it tells each thing once.
func TestATurnOfAProcessThatWasKilledIsToldOfByItsHeir(t *testing.T) {
	for name, dies := range map[string]bool{"it ends the turn": false, "it is killed": true} {
		t.Run(name, func(t *testing.T) {
			key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
			store := mem.Open()
			id := func() mesh.ExecutionID { return mesh.NewExecutionID(key.ID) }
			turn := mesh.Execution{ID: id(), Kind: mesh.KindTurn, Agent: "main", Traceparent: came}
			leg, child := mesh.Execution{ID: id(), Parent: turn.ID, Kind: mesh.KindAgent, Agent: "main"}, mesh.Execution{ID: id(), Kind: mesh.KindAgent, Agent: "mail"}
			child.Parent = leg.ID
			completed := a2apb.TaskState_TASK_STATE_COMPLETED
			first := begin(t, store)
			defer first.stop()
			first.add(t, key, 0, &mesh.Event{Execution: turn.ID, Body: mesh.TaskOpened{Execution: turn}}, &mesh.Event{Execution: turn.ID, Body: mesh.MessagePosted{Message: mesh.Say("go")}})
			first.add(t, key, 1, &mesh.Event{Body: mesh.ThreadClaimed{Epoch: 1}}, &mesh.Event{Execution: turn.ID, Body: mesh.DispatchIssued{Child: leg}},
				&mesh.Event{Execution: leg.ID, Body: mesh.DispatchIssued{Child: child}}, &mesh.Event{Execution: child.ID, ID: mesh.NewEventID(), Body: mesh.SkillCalled{Call: "c", Skill: "mail.send"}},
				&mesh.Event{Execution: child.ID, Body: mesh.SkillReturned{Call: "c", Duration: time.Second}}, &mesh.Event{Execution: leg.ID, Body: mesh.DispatchSettled{Child: child.ID, State: completed}})
			heir := first
			if dies {
				heir = begin(t, store)
				defer heir.stop()
			}
			heir.add(t, key, 2, &mesh.Event{Body: mesh.ThreadClaimed{Epoch: 2}}, &mesh.Event{Execution: turn.ID, Body: mesh.DispatchSettled{Child: leg.ID, State: completed}},
				&mesh.Event{Execution: turn.ID, Body: mesh.TaskMoved{State: completed}}, &mesh.Event{Execution: turn.ID, Body: mesh.TaskMoved{State: completed}})
			want := []string{"execute_tool mail.send", "invoke_agent mail", "invoke_agent main", "turn"}
			for ctx := t.Context(); ; time.Sleep(time.Millisecond) {
				_ = heir.tells.Flush(ctx)
				heir.got.mu.Lock()
				got := slices.Clone(heir.got.got)
				heir.got.mu.Unlock()
				if slices.Contains(got, "turn") && slices.Contains(got, "execute_tool mail.send") {
					if slices.Sort(got); dies {
						got = slices.Compact(got) // what is told twice has the same ids
					}
					if !slices.Equal(got, want) {
						t.Errorf("told is %q, want %q", got, want)
					}
					return
				}
			}
		})
	}
}

// Nobody waits for what tells: what finds the queue full is dropped.
func TestWhatIsNotToldInTimeIsDropped(t *testing.T) {
	tells, err := telemetry.New(t.Context(), telemetry.Config{Metrics: true}, telemetry.Service{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tells.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	o := New(tells, slog.New(slog.DiscardHandler)) // it does not run
	e := &mesh.Event{Execution: "x", Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}}
	for range maxWaiting + 10 {
		o.Added(mesh.ThreadKey{}, []*mesh.Event{e}, time.Millisecond)
	}
	if len(o.queue) != maxWaiting {
		t.Errorf("%d events wait", len(o.queue))
	}
}
