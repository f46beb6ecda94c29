package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/lease/leasetest"
	"agentmesh/mesh/rpc"
)

// at is the edge of one of the nodes.
func (m *testMesh) at(n int) a2apb.A2AServiceClient { return a2apb.NewA2AServiceClient(m.conn[n]) }

// log is what the thread has, as a node reads it.
func (m *testMesh) log(t testing.TB, n int, id string) []*meshv1.Event {
	t.Helper()
	return read(t, meshv1.NewThreadServiceClient(m.conn[n]), id)
}

// A listener is a stream whose first update has come.
type listener struct {
	said
	stream grpc.ServerStreamingClient[a2apb.StreamResponse]
}

// begin sends a message and returns when it is taken.
func begin(t *testing.T, edge a2apb.A2AServiceClient, id string, req *a2apb.SendMessageRequest) *listener {
	t.Helper()
	stream, err := edge.SendStreamingMessage(in(t, id), req)
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	k := &listener{stream: stream}
	k.add(t, first)
	return k
}

// to is a message into a task.
func to(task, text string) *a2apb.SendMessageRequest {
	req := say(text)
	req.Message.TaskId = task
	return req
}

// claims are the nodes that claimed the thread, each as often.
func claims(events []*meshv1.Event) (nodes []string) {
	for _, e := range events {
		if c := e.GetThreadClaimed(); c != nil {
			nodes = append(nodes, c.GetNode())
		}
	}
	return nodes
}

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
)

// finding C1: a node that takes a message, for the task or a new one, leaves the
// turn alone that runs at the other.
func TestPairAMessageIsTakenWhileTheOtherNodeDrives(t *testing.T) {
	g := newGate(t, 2)
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	first := begin(t, m.at(0), id, say("one"))
	g.let(1)
	more := begin(t, m.at(1), id, to(first.task.GetId(), "two"))
	next := begin(t, m.at(1), id, say("three"))
	if got := claims(m.log(t, 1, id)); len(got) != 1 {
		t.Errorf("the thread was claimed by %v while one node drove it", got)
	}
	g.let(5)
	both := g.whole("one") + g.whole("two")
	for _, x := range []struct {
		k           *listener
		whole, last string // what is said in the task, of which the listener hears the last, at least
	}{{first, both, both}, {more, both, g.whole("two")}, {next, g.whole("three"), g.whole("three")}} {
		x.k.rest(t, x.k.stream)
		if got := x.k.text; !strings.HasSuffix(x.whole, got) || !strings.HasSuffix(got, x.last) || x.k.state != completed {
			t.Errorf("heard %q and %v, want an end of %q", got, x.k.state, x.whole)
		}
	}
}

// finding C1: a turn is canceled at the node that does not drive it.
func TestPairATurnIsCanceledAtTheOtherNode(t *testing.T) {
	g := newGate(t, 2)
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	first := begin(t, m.at(0), id, say("one"))
	g.let(1)
	task, err := m.at(1).CancelTask(in(t, id), &a2apb.CancelTaskRequest{Id: first.task.GetId()})
	if err != nil || task.GetStatus().GetState() != canceled {
		t.Errorf("CancelTask: %v, %v", task.GetStatus(), err)
	}
	if first.rest(t, first.stream); first.state != canceled {
		t.Errorf("the stream ended %v: %v", first.state, first.status)
	}
	next := begin(t, m.at(1), id, say("two"))
	g.let(2)
	if next.rest(t, next.stream); next.text != g.whole("two") || next.state != completed {
		t.Errorf("then heard %q and %v", next.text, next.state)
	}
}

// A handoff that began at one node is ended at the other.
func TestPairAHandoffIsEndedAtTheOtherNode(t *testing.T) {
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	for from := range 2 {
		id := mesh.NewThreadID()
		stream, err := m.at(from).SendStreamingMessage(in(t, id), say("make a skill"))
		hear(t, stream, err)
		resp, err := meshv1.NewHandoffServiceClient(m.conn[1-from]).EndHandoff(in(t, id), &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "cancelled"})
		if err != nil || resp.GetHandoff().GetState() != "cancelled" {
			t.Fatalf("%v %v", resp, err)
		}
		stream, err = m.at(from).SendStreamingMessage(in(t, id), say("hello"))
		if s := hear(t, stream, err); s.text != "[main] hello" {
			t.Errorf("heard %q", s.text)
		}
	}
}

// finding C2: who follows at the node that does not drive the turn has every event,
// once and in order, as it comes.
func TestPairASubscriberAtTheOtherNodeHearsEverything(t *testing.T) {
	g := newGate(t, 6)
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	first := begin(t, m.at(0), id, say("one"))
	stream, err := m.at(1).SubscribeToTask(from(in(t, id), id, 0), &a2apb.SubscribeToTaskRequest{Id: first.task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	update, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	other := &listener{stream: stream}
	other.add(t, update)
	for i := range 3 {
		g.let(1)
		for begun := time.Now(); !strings.Contains(other.text, piece("one", i)); {
			if update, err = stream.Recv(); err != nil {
				t.Fatal(err)
			}
			other.add(t, update)
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("piece %d came after %v", i, took)
			}
		}
	}
	g.let(3)
	first.rest(t, first.stream)
	other.rest(t, other.stream)
	for _, k := range []*listener{first, other} {
		if k.text != g.whole("one") || k.state != completed {
			t.Errorf("heard %q and %v", k.text, k.state)
		}
		sameAsLog(t, &k.said, m.log(t, 1, id))
	}
}

// takenOver checks that the first turn goes on at the other node, which then runs the
// one that waited behind it.
func (m *testMesh) takenOver(t *testing.T, g *gate, id, begun, waiting string) {
	t.Helper()
	g.let(4)
	stream, err := m.at(1).SubscribeToTask(from(in(t, id), id, 0), &a2apb.SubscribeToTaskRequest{Id: waiting})
	if s := hear(t, stream, err); s.text != g.whole("two") || s.state != completed {
		t.Errorf("of what waited, heard %q and %v", s.text, s.state)
	}
	ends := 0
	for _, e := range m.log(t, 1, id) {
		if moved := e.GetTaskMoved(); moved != nil && e.GetExecutionId() == begun && mesh.Terminal(moved.GetState()) {
			ends++
			if moved.GetState() != completed {
				t.Errorf("what had begun ended %v, %s", moved.GetState(), moved.GetReason())
			}
		}
	}
	if ends != 1 {
		t.Errorf("what had begun ended %d times", ends)
	}
	task, err := m.at(1).GetTask(in(t, id), &a2apb.GetTaskRequest{Id: begun})
	if got := textOf(task.GetArtifacts()[0].GetParts()); err != nil || got != g.whole("one") {
		t.Errorf("what had begun says %q, %v", got, err)
	}
	if nodes := claims(m.log(t, 1, id)); len(nodes) != 2 || nodes[0] == nodes[1] {
		t.Errorf("the thread was claimed by %v, want each node once", nodes)
	}
}

// leave has a turn run and another wait behind it, at the first node.
func (m *testMesh) leave(t *testing.T, g *gate, id string) (begun, waiting string) {
	t.Helper()
	first := begin(t, m.at(0), id, say("one"))
	g.let(1)
	return first.task.GetId(), begin(t, m.at(0), id, say("two")).task.GetId()
}

// A node that stops leaves what it cannot finish, and what waits, to the other.
func TestPairTheOtherNodeGoesOnWhereOneStopped(t *testing.T) {
	t.Parallel() // it waits for the other node to look
	g := newGate(t, 2)
	cfg := config(t.TempDir())
	cfg.Grace = 100 * time.Millisecond
	m := startPair(t, nil, cfg, map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	begun, waiting := m.leave(t, g, id)
	m.Nodes[0].Stop()
	m.takenOver(t, g, id, begun, waiting)
}

// A node that was killed has its threads taken over when its lease is over, by a
// node that nobody tells, and not before.
func TestPairTheOtherNodeTakesOverFromOneThatWasKilled(t *testing.T) {
	t.Parallel() // it waits for the other node to look
	g, clock := newGate(t, 2), leasetest.NewClock()
	m := startPair(t, lease.NewLocal(clock.Now), config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	begun, waiting := m.leave(t, g, id)
	m.kill(0)
	g.let(1) // its agent goes on, and nobody hears
	clock.Advance(14 * time.Second)
	task, err := m.at(1).GetTask(in(t, id), &a2apb.GetTaskRequest{Id: begun})
	if err != nil || mesh.Terminal(task.GetStatus().GetState()) {
		t.Errorf("before its lease is over: %v, %v", task.GetStatus(), err)
	}
	clock.Advance(time.Second)
	m.takenOver(t, g, id, begun, waiting)
}

// Messages to some threads from all sides at both nodes are all answered: none is
// left when the driver of one node goes as the other takes a message.
func TestPairEveryMessageIsAnsweredWhoeverTakesIt(t *testing.T) {
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": echo})
	var all sync.WaitGroup
	for range 8 {
		id := mesh.NewThreadID()
		for w := range 4 {
			all.Go(func() {
				for i := range 12 {
					text := fmt.Sprintf("%d of %d", i, w)
					stream, err := m.at((w+i)%2).SendStreamingMessage(in(t, id), say(text))
					if s := listen(t, stream, err); s.text != "You said: "+text || s.state != completed {
						t.Errorf("to %q: heard %q and %v", text, s.text, s.state)
					}
				}
			})
		}
	}
	all.Wait()
}

// A thread that was deleted at one node, and began again, is another one at both.
func TestPairADeletedThreadBeginsAnewAtBothNodes(t *testing.T) {
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": recall})
	id := mesh.NewThreadID()
	for round := range 4 {
		for n := range 2 {
			text := fmt.Sprintf("%d at %d", round, n)
			stream, err := m.at(n).SendStreamingMessage(in(t, id), say(text))
			if s := hear(t, stream, err); n == 0 && s.text != "user: "+text+"; " || s.state != completed {
				t.Errorf("round %d: heard %q and %v", round, s.text, s.state)
			}
		}
		deleter := meshv1.NewThreadServiceClient(m.conn[round%2])
		if _, err := deleter.DeleteThread(in(t, id), &meshv1.DeleteThreadRequest{ThreadId: id}); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if _, err := m.at(n).ListTasks(in(t, id), &a2apb.ListTasksRequest{ContextId: id}); err != nil && !mesh.IsCode(rpc.FromStatus(err), mesh.NotFound) {
				t.Errorf("node %d: %v", n, err)
			}
		}
	}
}

// What a specialist says before it gives control back is heard, also when it asked
// at one node and its process at the other got the answer.
func TestPairTheLastWordsBeforeAHandoffEndsAreHeard(t *testing.T) {
	m := startPair(t, nil, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	for i := range 30 {
		id := mesh.NewThreadID()
		stream, err := m.at(i%2).SendStreamingMessage(in(t, id), say("make a skill"))
		first := hear(t, stream, err)
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // until the first node has released it, or not
		stream, err = m.at(1-i%2).SendStreamingMessage(in(t, id), to(first.task.GetId(), "alert"))
		if s := hear(t, stream, err); s.text != "[builder] made alert. [main] it is completed: alert is ready" {
			t.Errorf("round %d: heard %q", i, s.text)
		}
	}
}
