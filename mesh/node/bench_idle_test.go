//go:build linux

package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
)

// nodeEnv, when set, makes BenchmarkIdleStreams the node of another process
// that runs it: on descriptor 3 it says where it listens, and then what it
// holds whenever it gets a line.
const nodeEnv = "MESH_BENCH_NODE"

// footprint is what a process holds when garbage is collected. Private is
// memory that is not a file's.
type footprint struct {
	Private, Heap, Stack, Goroutines int64
}

func footprintNow() (f footprint, err error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what the first one's finalizers let go of
	m := memStats()
	f = footprint{Heap: int64(m.HeapAlloc), Stack: int64(m.StackInuse), Goroutines: int64(runtime.NumGoroutine())}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f, err
	}
	if _, rest, ok := bytes.Cut(status, []byte("RssAnon:")); ok {
		_, err = fmt.Sscanf(string(rest), "%d kB", &f.Private)
	}
	f.Private <<= 10
	return f, err
}

// asker leaves every task waiting for its user.
func asker(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "And?"}, nil) }
}

// serveFootprints is the node's process.
func serveFootprints(b *testing.B) {
	out := json.NewEncoder(os.NewFile(3, "answers"))
	m := start(b, config(b.TempDir()), map[string]run{"main": asker})
	if err := out.Encode(m.GRPC); err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		f, err := footprintNow()
		if err == nil {
			err = out.Encode(f)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A measuredNode is a node in a process of its own.
type measuredNode struct {
	addr string
	ask  io.Writer
	tell *json.Decoder
}

func startMeasured(b *testing.B) *measuredNode {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkIdleStreams$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), nodeEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = w.Close() // the child has its own
	b.Cleanup(func() {
		_ = stdin.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			b.Errorf("the node's process: %v", err)
		}
		_ = r.Close()
	})
	c := &measuredNode{ask: stdin, tell: json.NewDecoder(r)}
	if err := c.tell.Decode(&c.addr); err != nil {
		b.Fatalf("the node's process did not start: %v", err)
	}
	return c
}

func (c *measuredNode) footprint(b *testing.B) (f footprint) {
	b.Helper()
	if _, err := io.WriteString(c.ask, "\n"); err != nil {
		b.Fatal(err)
	}
	if err := c.tell.Decode(&f); err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkIdleStreams measures what a node, in a process of its own, holds for
// each of 10,000 streams that are subscribed to tasks of as many threads in
// which nothing happens; then it makes something happen in some of them.
func BenchmarkIdleStreams(b *testing.B) {
	if os.Getenv(nodeEnv) != "" {
		serveFootprints(b)
		return
	}
	const idle, workers, perConn = 10_000, 32, 1_000
	c := startMeasured(b)
	var clients []a2apb.A2AServiceClient
	for range idle / perConn {
		conn, err := rpc.Dial(c.addr, rpc.DialOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		clients = append(clients, a2apb.NewA2AServiceClient(conn))
	}
	var before, after footprint
	for b.Loop() {
		tasks := make([]*a2apb.Task, idle)
		atOnce(workers, idle, func(i int) { tasks[i] = waiting(b, clients[i%len(clients)], "") })
		if b.Failed() {
			return
		}
		before = c.footprint(b)
		ctx, cancel := context.WithCancel(b.Context())
		open := make([]grpc.ServerStreamingClient[a2apb.StreamResponse], idle)
		atOnce(workers, idle, func(i int) { open[i] = subscribe(ctx, b, clients[i%len(clients)], tasks[i]) })
		if b.Failed() {
			cancel()
			return
		}
		after = c.footprint(b)
		for i := 0; i < idle; i += idle / 10 {
			waiting(b, clients[i%len(clients)], tasks[i].GetId())
			if u, err := open[i].Recv(); err != nil || u.GetStatusUpdate().GetTaskId() != tasks[i].GetId() {
				b.Errorf("the stream's next update is %v: %v", u, err)
			}
		}
		cancel()
		for _, s := range open {
			for err := error(nil); err == nil; {
				_, err = s.Recv()
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(after.Private-before.Private)/1024/idle, "KiB/stream")
	b.ReportMetric(float64(after.Heap-before.Heap)/1024/idle, "heap-KiB/stream")
	b.ReportMetric(float64(after.Stack-before.Stack)/1024/idle, "stack-KiB/stream")
	b.ReportMetric(float64(after.Goroutines-before.Goroutines)/idle, "goroutines/stream")
}

// waiting sends a message, to the task if there is one, and returns the task,
// which waits for its user.
func waiting(b *testing.B, c a2apb.A2AServiceClient, task string) *a2apb.Task {
	req := say("begin")
	req.Message.TaskId = task
	resp, err := c.SendMessage(b.Context(), req)
	if state := resp.GetTask().GetStatus().GetState(); err != nil || state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		b.Errorf("the task is %v: %v", state, err)
	}
	return resp.GetTask()
}

// subscribe opens a stream of the task and reads its beginning.
func subscribe(ctx context.Context, b *testing.B, c a2apb.A2AServiceClient, t *a2apb.Task) grpc.ServerStreamingClient[a2apb.StreamResponse] {
	s, err := c.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: t.GetId()})
	if err == nil {
		var first *a2apb.StreamResponse
		if first, err = s.Recv(); err == nil && first.GetTask().GetId() != t.GetId() {
			err = fmt.Errorf("it begins with %v", first)
		}
	}
	if err != nil {
		b.Errorf("subscribing: %v", err)
	}
	return s
}
