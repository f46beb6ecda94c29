package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/store/shared"
)

// counted is how many pieces of text counter says, each followed by a word on
// its progress, so that no two pieces are put together.
const counted = 10

// together returns a function that returns once n goroutines have called it,
// or when ctx ends.
func together(n int) func(ctx context.Context) error {
	var arrived atomic.Int64
	all := make(chan struct{})
	return func(ctx context.Context) error {
		if arrived.Add(1) == int64(n) {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// counter is an agent that says ten pieces of what it is told, and after each
// how far it is, once so many runs of it are at work at the same time.
func counter(runs int) run {
	meet := together(runs)
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if err := meet(ctx); err != nil {
				yield(nil, err)
				return
			}
			for i := range counted {
				if !yield(agent.Text{Text: piece(inv.Text(), i)}, nil) || !yield(agent.Progress{Text: step(i), Step: i + 1, Steps: counted}, nil) {
					return
				}
			}
		}
	}
}

func piece(text string, i int) string { return fmt.Sprintf("<%s %d>", text, i) }
func step(i int) string               { return fmt.Sprintf("step %d", i) }

// listen is hear for goroutines of a test: it reports, and returns what came.
func listen(t testing.TB, stream grpc.ServerStreamingClient[a2apb.StreamResponse], err error) said {
	var s said
	if err != nil {
		t.Errorf("stream: %v", err)
		return s
	}
	s.rest(t, stream)
	return s
}

// rest hears the stream to its end.
func (s *said) rest(t testing.TB, stream grpc.ServerStreamingClient[a2apb.StreamResponse]) {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("stream broke after %d updates: %v", len(s.all), err)
			return
		}
		s.add(t, r)
	}
}

// told is the sequence of texts in a stream, output and progress alike.
func (s *said) told() []string {
	var all []string
	for _, r := range s.all {
		if u := r.GetArtifactUpdate(); u != nil {
			all = append(all, textOf(u.GetArtifact().GetParts()))
		} else if m := r.GetStatusUpdate().GetStatus().GetMessage(); m != nil {
			all = append(all, textOf(m.GetParts()))
		}
	}
	return all
}

// as ann, in the thread, for as long as ctx.
func ann(ctx context.Context, id string) context.Context {
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI}})
}

// from is ann's call with a cursor.
func from(ctx context.Context, id string, after mesh.Seq) context.Context {
	call, _ := mesh.CallFrom(ann(ctx, id))
	call.AfterSeq, call.HasCursor = after, true
	return mesh.WithCall(ctx, call)
}

// A thousand users talk to one node at the same time: each hears its own
// answer, whole, in order and once, and what each heard is what its log has
// (S4-053). Of two nodes it is those of one of them: fewer show the same.
func TestAThousandStreamsAtOnceAreWholeAndInOrder(t *testing.T) {
	users := 1000
	if shared.Pair() {
		users = 200
	}
	cfg := config(t.TempDir())
	// On a slow machine, what the mesh says of slow turns is not of the agent, and an agent
	// that is asked where it is tells its text in other pieces.
	cfg.Limits.Quiet, cfg.Limits.AgentSilence = time.Hour, time.Hour
	cfg.Turns.Running, cfg.Quotas.User.Turns, cfg.Quotas.Tenant.Turns = -1, -1, -1 // all talk at once
	m := start(t, cfg, map[string]run{"main": counter(users)})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	heard, ids := make([]said, users), make([]string, users)
	begun := time.Now()
	var talking sync.WaitGroup
	for i := range users {
		ids[i] = mesh.NewThreadID()
		talking.Go(func() {
			stream, err := m.edge().SendStreamingMessage(ann(ctx, ids[i]), say(fmt.Sprint("user ", i)))
			heard[i] = listen(t, stream, err)
		})
	}
	talking.Wait()
	t.Logf("%d streams took %v", users, time.Since(begun))

	for i, s := range heard {
		var want []string
		for n := range counted {
			want = append(want, piece(fmt.Sprint("user ", i), n), step(n))
		}
		if diff := cmp.Diff(want, s.told()); diff != "" || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Fatalf("user %d, who was left with %v, was not told everything in order (-want +got):\n%s", i, s.state, diff)
		}
		if s.task.GetContextId() != ids[i] || len(s.seqs) != len(s.all)-1 {
			t.Fatalf("user %d of thread %s heard thread %s, and %d of %d updates had a seq", i, ids[i], s.task.GetContextId(), len(s.seqs), len(s.all)-1)
		}
	}
	threads := meshv1.NewThreadServiceClient(m.conn)
	for i := 0; i < users; i += users / 20 {
		sameAsLog(t, &heard[i], read(t, threads, ids[i]))
	}
}

// sameAsLog checks that every piece of output that the log has was heard, with
// the log's Seq and in its order, and that the log has no gaps.
func sameAsLog(t *testing.T, s *said, events []*meshv1.Event) {
	t.Helper()
	type at struct {
		Seq  mesh.Seq
		Text string
	}
	var logged, heard []at
	for i, e := range events {
		if e.GetSeq() != int64(i+1) {
			t.Errorf("event %d of the log has seq %d", i+1, e.GetSeq())
		}
		if a := e.GetArtifactAppended(); a != nil {
			logged = append(logged, at{mesh.Seq(e.GetSeq()), textOf(a.GetArtifact().GetParts())})
		}
	}
	for i, r := range s.all[1:] {
		if u := r.GetArtifactUpdate(); u != nil {
			heard = append(heard, at{s.seqs[i], textOf(u.GetArtifact().GetParts())})
		}
	}
	if diff := cmp.Diff(logged, heard); diff != "" {
		t.Errorf("heard something else than the log has (-log +heard):\n%s", diff)
	}
}

// A gate is an agent that says so many pieces, each when it is let through.
type gate struct {
	t       testing.TB
	through chan struct{} // one for each piece
	pieces  int
}

func newGate(t testing.TB, pieces int) *gate { return &gate{t, make(chan struct{}), pieces} }

func (g *gate) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		for i := range g.pieces {
			select {
			case <-g.through:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			if !yield(agent.Text{Text: piece(inv.Text(), i)}, nil) || !yield(agent.Progress{Text: step(i)}, nil) {
				return
			}
		}
	}
}

// let lets n pieces through: when it returns, the agent is about to say the
// last of them.
func (g *gate) let(n int) {
	g.t.Helper()
	for range n {
		select {
		case g.through <- struct{}{}:
		case <-time.After(time.Minute):
			g.t.Fatal("the agent does not go on")
		}
	}
}

// whole is all that the gate says.
func (g *gate) whole(text string) string {
	var b strings.Builder
	for i := range g.pieces {
		b.WriteString(piece(text, i))
	}
	return b.String()
}

// A hundred followers of one task see the same updates as its sender, whether
// they came before the first of them, in the middle, or when the task was over
// (S4-053).
func TestAHundredSubscribersSeeTheSame(t *testing.T) {
	g := newGate(t, 12)
	m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("to all"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	heard := make([]said, 100)
	var listening sync.WaitGroup
	subscribe := func(some []said) {
		var in sync.WaitGroup // of those that have had their first update
		for i := range some {
			in.Add(1)
			listening.Go(func() {
				stream, err := m.edge().SubscribeToTask(from(t.Context(), id, 0), &a2apb.SubscribeToTaskRequest{Id: first.GetTask().GetId()})
				if err == nil {
					_, err = stream.Header() // it is accepted
				}
				in.Done()
				some[i] = listen(t, stream, err)
			})
		}
		in.Wait()
	}
	subscribe(heard[:30])
	g.let(4)
	subscribe(heard[30:60])
	g.let(4)
	subscribe(heard[60:90])
	g.let(4)
	var sender said
	sender.add(t, first)
	sender.rest(t, stream)
	subscribe(heard[90:])
	listening.Wait()

	if want := g.whole("to all"); sender.text != want || sender.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("the sender heard %q, want %q; ended %v", sender.text, want, sender.state)
	}
	for i, s := range heard {
		if len(s.all) == 0 {
			t.Fatalf("subscriber %d heard nothing", i)
		}
		if diff := cmp.Diff(sender.all[1:], s.all[1:], protocmp.Transform()); diff != "" {
			t.Fatalf("subscriber %d saw something else (-sender +subscriber):\n%s", i, diff)
		}
	}
}

// A client that leaves in the middle changes nothing: the agent goes on, and
// another program of the user picks the task up where the first one was.
func TestAClientThatLeavesChangesNothing(t *testing.T) {
	g := newGate(t, 9)
	m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	there, leave := context.WithCancel(t.Context())
	stream, err := m.edge().SendStreamingMessage(ann(there, id), say("to one"))
	if err != nil {
		t.Fatal(err)
	}
	var before said
	next := func() {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		before.add(t, r)
	}
	for next(); before.state != a2apb.TaskState_TASK_STATE_WORKING; {
		next()
	}
	g.let(3)
	for before.text != piece("to one", 0)+piece("to one", 1)+piece("to one", 2) {
		next()
	}
	leave()
	g.let(3) // said to nobody

	other, err := rpc.Dial(m.All[len(m.All)-1].GRPC, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // of a test
	again, err := a2apb.NewA2AServiceClient(other).SubscribeToTask(from(t.Context(), id, before.seqs[len(before.seqs)-1]),
		&a2apb.SubscribeToTaskRequest{Id: before.task.GetId()})
	g.let(3)
	after := hear(t, again, err)
	if got := before.text + after.text; got != g.whole("to one") || after.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the two heard %q, want %q; ended %v", got, g.whole("to one"), after.state)
	}
	if after.seqs[0] <= before.seqs[len(before.seqs)-1] {
		t.Errorf("seq %d again after %d", after.seqs[0], before.seqs[len(before.seqs)-1])
	}
	both := said{all: append(before.all, after.all[1:]...), seqs: append(before.seqs, after.seqs...)}
	sameAsLog(t, &both, read(t, meshv1.NewThreadServiceClient(m.conn), id))
}
