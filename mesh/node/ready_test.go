package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/node/nodetest"
	"agentmesh/mesh/rpc"
)

// finding R2: nobody is served before the agents are there. Who calls while they start waits,
// and is answered by them, or refused when they do not.
func TestNobodyIsServedBeforeTheAgentsAreThere(t *testing.T) {
	broken := errors.New("the agent is broken")
	for name, fails := range map[string]error{"who start": nil, "who do not": broken} {
		t.Run(name, func(t *testing.T) {
			at := ""
			var early sync.WaitGroup
			var task *a2apb.Task
			var refused error
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			o := nodetest.Options()
			o.Backend = func(cfg node.Config, address string) (node.Backend, error) {
				at = address
				return datafolder.Opener(nil)(cfg, address)
			}
			o.Builtins = []node.Builtin{{Name: "main", New: func(node.Env) (agent.Agent, error) {
				c := raw(t, at)
				answered := make(chan struct{})
				early.Go(func() {
					defer close(answered)
					resp, err := a2apb.NewA2AServiceClient(c).SendMessage(plain(t), say("hello"))
					task, refused = resp.GetTask(), err
				})
				select {
				case <-answered:
					t.Errorf("before the agents are there, the answer is %v, %v", task, refused)
				case <-time.After(100 * time.Millisecond):
				}
				return testAgent{"main", echo}, fails
			}}}
			o.Ready = func(node.Addresses) { early.Wait(); stop() }
			if err := node.Run(ctx, config(t.TempDir()), o); !errors.Is(err, fails) {
				t.Fatalf("Run ended with %v, want %v", err, fails)
			}
			early.Wait()
			if fails == nil && (refused != nil || task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED) {
				t.Errorf("the answer is %v, %v", task, refused)
			}
			if fails != nil && status.Code(refused) != codes.Unavailable {
				t.Errorf("without agents the answer is %v, %v", task, refused)
			}
		})
	}
}

// finding R2: while nodes stop and start again, plain clients, which try nothing again, are
// refused as UNAVAILABLE or served, and what was accepted is not failed.
func TestWhoCallsWhileNodesStopIsRefusedOrServed(t *testing.T) {
	data := t.TempDir()
	agents := map[string]run{"main": slowEcho, "other": echo}
	accepted := map[string]string{} // threads by task
	for range 3 {
		m := start(t, config(data), agents)
		var mu sync.Mutex
		var callers sync.WaitGroup
		ctx, over := context.WithCancel(t.Context())
		begun := make(chan struct{}, 1)
		for i := range 4 {
			callers.Go(func() {
				edge := a2apb.NewA2AServiceClient(raw(t, m.GRPC))
				for ctx.Err() == nil {
					thread := mesh.NewThreadID()
					asks := metadata.AppendToOutgoingContext(plain(t), rpc.KeyThread, thread)
					if i == 0 {
						asks = metadata.AppendToOutgoingContext(asks, rpc.KeyAgent, "other")
					}
					req := say("hello")
					req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
					resp, err := edge.SendMessage(asks, req)
					if err != nil {
						if c := status.Code(err); c != codes.Unavailable {
							t.Errorf("refused: %v", err)
						}
						time.Sleep(time.Millisecond)
						continue
					}
					mu.Lock()
					accepted[resp.GetTask().GetId()] = thread
					mu.Unlock()
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		<-begun
		time.Sleep(50 * time.Millisecond)
		m.Stop()
		over()
		callers.Wait()
	}
	m := start(t, config(data), agents)
	for id, thread := range accepted {
		eventually(t, func() error {
			task, err := m.edge().GetTask(in(t, thread), &a2apb.GetTaskRequest{Id: id})
			if err == nil && !mesh.Terminal(task.GetStatus().GetState()) {
				err = errors.New("it is not over")
			} else if err == nil && task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("%s ended %v", id, task.GetStatus())
			}
			return err
		})
	}
	if len(accepted) == 0 {
		t.Error("nothing was accepted")
	}
}

// A sick backend has the health that a test says.
type sick struct {
	mu      sync.Mutex
	health  node.Health
	changed chan struct{}
}

func (s *sick) Health() node.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Changed = s.changed
	return h
}

func (s *sick) set(h node.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = h
	close(s.changed)
	s.changed = make(chan struct{})
}

// finding R3: a node that cannot write says so, over gRPC and HTTP alike, and lives; it ends
// when nobody can tell any more what was written.
func TestANodeIsReadyAsLongAsItCanWrite(t *testing.T) {
	disk := &sick{changed: make(chan struct{})}
	o := options(map[string]run{"main": echo}, nil)
	o.Backend = func(cfg node.Config, address string) (node.Backend, error) {
		b, err := datafolder.Opener(nil)(cfg, address)
		b.Health = disk.Health
		return b, err
	}
	up, ended := make(chan node.Addresses, 1), make(chan error, 1)
	o.Ready = func(a node.Addresses) { up <- a }
	go func() { ended <- node.Run(t.Context(), config(t.TempDir()), o) }()
	at := <-up
	probe := healthpb.NewHealthClient(raw(t, at.GRPC))
	is := func(want healthpb.HealthCheckResponse_ServingStatus, code int, warnings ...string) {
		t.Helper()
		eventually(t, func() error {
			resp, err := probe.Check(plain(t), &healthpb.HealthCheckRequest{})
			if err == nil && resp.GetStatus() != want {
				err = errors.New(resp.GetStatus().String())
			}
			return err
		})
		for path, want := range map[string]int{"/readyz": code, "/healthz": http.StatusOK} {
			resp, text := fetch(t, at.HTTP, func(r *http.Request) { r.URL.Path = path })
			var told struct {
				Reason   string
				Warnings []string
			}
			if err := json.Unmarshal([]byte(text), &told); err != nil || resp.StatusCode != want || !slices.Equal(told.Warnings, warnings) || (told.Reason == "") != (want == http.StatusOK) {
				t.Errorf("%s is %d %s, %v", path, resp.StatusCode, text, err)
			}
		}
	}
	is(healthpb.HealthCheckResponse_SERVING, http.StatusOK)
	full := mesh.Errorf(mesh.Unavailable, "test", "The disk is full")
	disk.set(node.Health{Fault: full})
	is(healthpb.HealthCheckResponse_NOT_SERVING, http.StatusServiceUnavailable, "data")
	disk.set(node.Health{})
	is(healthpb.HealthCheckResponse_SERVING, http.StatusOK)
	disk.set(node.Health{Fault: full, Final: true})
	if err := <-ended; !errors.Is(err, node.ErrStoreFailed) || !errors.Is(err, full) {
		t.Errorf("it ended with %v", err)
	}
}
