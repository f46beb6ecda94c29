//go:build unix

package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// maxRestarts is how often a run with -rounds stops and starts a mesh.
const maxRestarts = 15

// A caller knows nothing of restarts: it sends, and tries nothing again.
type caller struct {
	way way
	at  *address

	mu       *sync.Mutex
	accepted map[string]string // threads by task, of all callers
	refused  map[string]int    // how often, by why
}

// run sends one message after the other until the context is done, and returns an error for a
// call that was refused in another way than one that says to come again.
func (c *caller) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.turn(context.WithoutCancel(ctx))
		if err == nil {
			continue
		}
		if !comeAgain(err) {
			return err
		}
		c.mu.Lock()
		c.refused[fmt.Sprintf("%T", c.way)]++
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return nil
}

// turn sends a message and reads what comes back.
func (c *caller) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	req := message("plan pz0 of chaos-z: ")
	s, err := c.way.send(ctx, c.at, req)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		u, err := s.next()
		if err != nil {
			return err
		}
		if task := u.GetTask(); task != nil {
			c.mu.Lock()
			c.accepted[task.GetId()] = req.GetMessage().GetContextId()
			c.mu.Unlock()
		}
		if mesh.Terminal(u.GetStatusUpdate().GetStatus().GetState()) {
			return nil
		}
	}
}

// comeAgain reports whether the error says UNAVAILABLE, or that nobody listens.
func comeAgain(err error) bool {
	var r *refusal
	if errors.As(err, &r) {
		return false
	}
	if st, is := status.FromError(err); is {
		return st.Code() == codes.Unavailable
	}
	if words := err.Error(); strings.Contains(words, "the stream broke") {
		return strings.Contains(words, `"UNAVAILABLE"`)
	} else if code, _, http := strings.Cut(words, " {"); http {
		return code == "503"
	}
	return true // the connection broke
}

// finding R2: while a mesh under load is stopped and started again and again, in a process of
// its own and with the same addresses, plain clients without a retry policy are served, or
// refused as UNAVAILABLE and in no other way; and no message that was accepted has failed.
func TestGracefulRestartsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	n, s := min(cmp.Or(*rounds, sample), maxRestarts), cmp.Or(*seed, uint64(time.Now().UnixNano()))
	fmt.Printf("restarts: %d, seed %d\n", n, s)
	m := prepare(t)
	m.grpc, m.http = rpctest.Free(t), rpctest.Free(t)
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.end(syscall.SIGKILL) })
	conn, err := grpc.NewClient(m.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond}, MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	at := &address{conn, "http://" + m.http}
	var mu sync.Mutex
	accepted, refusals := map[string]string{}, map[string]int{}
	load, over := context.WithCancel(t.Context())
	defer over()
	var callers sync.WaitGroup
	for i := range clients {
		c := &caller{[]way{overGRPC{}, overREST{}}[i%2], at, &mu, accepted, refusals}
		callers.Go(func() {
			if err := c.run(load); err != nil {
				t.Errorf("%T was refused: %v", c.way, err)
			}
		})
	}
	chance := rand.New(rand.NewPCG(s, 0))
	idle := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted) == 0 || len(refusals) == 0
	}
	for i := 0; i < n || i < maxRestarts && idle(); i++ { // however busy the machine is
		time.Sleep(time.Duration(100+chance.IntN(900)) * time.Millisecond) // the moment is the point
		if err := errors.Join(m.end(syscall.SIGTERM), m.start(0)); err != nil {
			t.Fatalf("restart %d: %v", i+1, err)
		}
	}
	over()
	callers.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for task, thread := range accepted {
		if err := completes(ctx, conn, thread, task); err != nil {
			t.Errorf("seed %d: an accepted message: %v", s, err)
		}
	}
	fmt.Printf("restarts: %d tasks accepted, calls that were to come again: %v\n", len(accepted), refusals)
	if len(accepted) == 0 || len(refusals) == 0 {
		t.Error("nobody was accepted, or nobody was refused: this proves nothing")
	}
}

// completes waits for the end of the task, and returns an error for another one than COMPLETED.
func completes(ctx context.Context, conn grpc.ClientConnInterface, thread, task string) error {
	for {
		got, err := a2apb.NewA2AServiceClient(conn).GetTask(outgoing(ctx, thread), &a2apb.GetTaskRequest{Id: task}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		switch st := got.GetStatus(); {
		case st.GetState() == a2apb.TaskState_TASK_STATE_COMPLETED:
			return nil
		case mesh.Terminal(st.GetState()):
			return fmt.Errorf("task %s ended %v", task, st)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
