package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// acked is a message that the mesh acknowledged before it was killed.
type acked struct{ thread, task, text string }

// talk sends messages, with so many words more, in threads of its own until the mesh dies, and
// returns what was acknowledged. It calls heard when something was.
func talk(ctx context.Context, client a2apb.A2AServiceClient, who, more int, heard func()) []acked {
	var all []acked
	id := mesh.NewThreadID()
	for n := 0; ; n++ {
		if n%3 == 2 {
			id = mesh.NewThreadID()
		}
		text := fmt.Sprintf("words of %d number %d and some more to say slowly", who, n) + strings.Repeat(" word", more)
		call := mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI}})
		stream, err := client.SendStreamingMessage(call, say(text))
		if err != nil {
			return all
		}
		for first := true; ; first = false {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return all
			}
			if first {
				all = append(all, acked{id, r.GetTask().GetId(), text})
				heard()
			}
		}
	}
}

// kill -9 at any moment: what was acknowledged is there, no event twice, and
// what was unfinished goes on and completes with what was to be said, once, unless the
// mesh was killed three more times before it came on; threads go on (finding R7).
func TestNothingAcknowledgedIsLostByKill9(t *testing.T) {
	data := t.TempDir()
	var all []acked
	for rounds := 0; rounds < 4 || len(all) < 10 && rounds < 40; rounds++ {
		at, kill := child(t, "mesh", "MESH_TEST_DATA="+data)
		conn, err := rpc.Dial(at[0], rpc.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		client := a2apb.NewA2AServiceClient(conn)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var talking sync.WaitGroup
		begun := make(chan struct{})
		heard := sync.OnceFunc(func() { close(begun) })
		for who := range 6 {
			more, first := 0, func() {}
			if who == 0 { // whose turns take ten seconds each, so that one is cut off for certain
				more, first = 2000, heard
			}
			talking.Go(func() {
				got := talk(ctx, client, who, more, first)
				first() // or nothing is any more
				mu.Lock()
				defer mu.Unlock()
				all = append(all, got...)
			})
		}
		<-begun                                                                    // however busy the machine is
		wait := time.NewTimer(time.Duration(60+rand.IntN(250)) * time.Millisecond) // the moment is the point
		<-wait.C
		kill()
		cancel()
		talking.Wait()
		_ = conn.Close()
	}
	if len(all) < 10 {
		t.Fatalf("only %d messages were acknowledged", len(all))
	}

	m := start(t, config(data), map[string]run{"main": echo})
	threads := meshv1.NewThreadServiceClient(m.conn)
	interrupted, continued := 0, 0
	for _, a := range all {
		m.ended(t, a.thread, a.task) // one that had not begun is run now
		events := read(t, threads, a.thread)
		posted, terminal := 0, 0
		for i, e := range events {
			if e.GetTaskMoved().GetReason() == mesh.ReasonContinued {
				continued++
			}
			if e.GetSeq() != int64(i+1) {
				t.Fatalf("thread %s: event %d has seq %d", a.thread, i+1, e.GetSeq())
			}
			if e.GetExecutionId() != a.task {
				continue
			}
			if e.GetMessagePosted() != nil && e.GetMessagePosted().GetMessage().GetParts()[0].GetText() == a.text {
				posted++
			}
			if mesh.Terminal(e.GetTaskMoved().GetState()) {
				terminal++
				if e.GetTaskMoved().GetState() == a2apb.TaskState_TASK_STATE_COMPLETED {
					task, err := m.edge().GetTask(in(t, a.thread), &a2apb.GetTaskRequest{Id: a.task})
					if got := textOf(task.GetArtifacts()[0].GetParts()); err != nil || strings.TrimPrefix(strings.TrimSpace(got), "You said: ") != a.text { // as the agent of either mesh has it
						t.Errorf("task %s said %q, %v", a.task, got, err)
					}
				}
				if e.GetTaskMoved().GetState() == a2apb.TaskState_TASK_STATE_FAILED {
					interrupted++
					if e.GetTaskMoved().GetReason() != mesh.ReasonInterrupted {
						t.Errorf("task %s failed because of %q", a.task, e.GetTaskMoved().GetReason())
					}
				}
			}
		}
		if posted != 1 || terminal != 1 {
			t.Errorf("message %q is there %d times, its task ended %d times", a.text, posted, terminal)
		}
	}
	if continued == 0 {
		t.Error("no turn was cut off; the test proves nothing")
	}
	if interrupted > continued/3 {
		t.Errorf("%d turns were interrupted, and %d times one went on", interrupted, continued)
	}
	// A thread goes on.
	stream, err := m.edge().SendStreamingMessage(in(t, all[len(all)-1].thread), say("again"))
	if s := hear(t, stream, err); s.text != "You said: again" {
		t.Errorf("heard %q", s.text)
	}
	t.Logf("%d messages were acknowledged, %d turns interrupted, %d times one went on", len(all), interrupted, continued)
}

// ended returns when the task is over.
func (m *testMesh) ended(t testing.TB, thread, task string) {
	t.Helper()
	for {
		got, err := m.edge().GetTask(in(t, thread), &a2apb.GetTaskRequest{Id: task})
		if err != nil {
			t.Fatal(err)
		}
		if mesh.Terminal(got.GetStatus().GetState()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// read returns all events of a thread.
func read(t testing.TB, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	t.Helper()
	var all []*meshv1.Event
	for after := int64(0); ; {
		resp, err := threads.ReadThread(in(t, id), &meshv1.ReadThreadRequest{ThreadId: id, AfterSeq: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp.GetEvents()...)
		if !resp.GetMore() {
			return all
		}
		after = all[len(all)-1].GetSeq()
	}
}

// A stream that broke because the mesh was restarted is resumed from its last
// cursor, with nothing lost or doubled: what the agent says again replaces what it had said.
func TestAStreamResumesFromItsCursorAfterARestart(t *testing.T) {
	data := t.TempDir()
	at, kill := child(t, "mesh", "MESH_TEST_DATA="+data)
	conn, err := rpc.Dial(at[0], rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := mesh.NewThreadID()
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(in(t, id), say(strings.Repeat("word ", 200)))
	if err != nil {
		t.Fatal(err)
	}
	var before said
	for len(before.text) < 50 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		before.add(t, r)
	}
	kill()
	_ = conn.Close()

	m := start(t, config(data), map[string]run{"main": echo})
	call := mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI},
		AfterSeq: before.seqs[len(before.seqs)-1], HasCursor: true}
	again, err := m.edge().SubscribeToTask(mesh.WithCall(in(t, id), call), &a2apb.SubscribeToTaskRequest{Id: before.task.GetId()})
	after := hear(t, again, err)
	if after.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("ended %v: %v", after.state, after.status)
	}
	if len(after.seqs) > 0 && after.seqs[0] <= call.AfterSeq {
		t.Errorf("seq %d again after %d", after.seqs[0], call.AfterSeq)
	}
	task, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: before.task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	want := "You said: " + strings.Repeat("word ", 200)
	if got := textOf(task.GetArtifacts()[0].GetParts()); strings.TrimSpace(got) != strings.TrimSpace(want) || len(task.GetArtifacts()) != 1 {
		t.Errorf("the task says %q", got)
	}
	if begins := strings.Count(after.text, "You said: "); begins != 1 || !strings.HasSuffix(strings.TrimSpace(after.text), strings.TrimSpace(want)) {
		t.Errorf("the second stream begins %d times anew: %q", begins, after.text)
	}
}
