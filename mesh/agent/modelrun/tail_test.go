package modelrun_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/llm/window"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// longThread is a node whose thread has so many events of turns before the
// present one, of the grant.
func longThread(t testing.TB, events int) (*agenttest.Node, *mesh.Grant) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	n.Page = 1000
	for i := 0; len(n.Events) < events; i++ {
		n.Log(agenttest.TurnEvents(g.Agent, fmt.Sprintf("question %d about the report of last week", i), fmt.Sprintf("answer %d: it was sent on Monday, as you wanted.", i))...)
	}
	g.Turn = mesh.NewExecutionID(agenttest.Thread)
	g.Parent = g.Turn
	n.Log(agenttest.Opened(g.Turn), agenttest.Posted(g.Turn, 3, "and now?"), agenttest.Dispatch(g.Turn, g.Execution, g.Agent))
	return n, g
}

// S3-057, finding C13: what a turn reads of its thread is what its model can be
// shown, however long the thread is: the same as if it had read all of it. A turn is
// opened, and then its first message is posted, as the edge does.
func TestATurnDoesNotReadItsWholeThread(t *testing.T) {
	t.Parallel()
	n, g := longThread(t, 6_000)
	all, err := conversation(t.Context(), n.Client(t, g), g, "and now?", nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := &llm.Request{System: "You help.", Messages: all}
	window.Trim(window.For("", nil), new(tokens.Counter), whole, mesh.Usage{})

	model := scripted.New(scripted.Say("Soon."))
	inv := &agent.Invocation{
		Message: agenttest.Message("and now?"), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: n.Client(t, g),
	}
	n.Reads = 0
	served := 0
	n.Watch = func(events int) { served += events }
	outs, err := agenttest.Outputs(t, inv, modelrun.Options{Model: model, System: "You help.", Fit: window.For("", nil).Fit(new(tokens.Counter))})
	if err != nil || len(outs) == 0 {
		t.Fatalf("%v, %v", outs, err)
	}
	if n.Reads > 6 || served > 2000 {
		t.Errorf("%d reads of %d events in all", n.Reads, served)
	}
	got := model.Requests()[0].Messages
	if len(got) < 50 || got[0].Text == "question 0 about the report of last week" || got[len(got)-1].Text != "and now?" {
		t.Errorf("%d messages, from %q to %q", len(got), got[0].Text, got[len(got)-1].Text)
	}
	if diff := cmp.Diff(whole.Messages, got); diff != "" {
		t.Error(diff)
	}
}

// nearby is a connection to a node in the same process, for reading alone.
type nearby struct{ *agenttest.Node }

func (c nearby) Invoke(ctx context.Context, _ string, req, res any, _ ...grpc.CallOption) error {
	page, err := c.ReadThread(ctx, req.(*meshv1.ReadThreadRequest))
	if err == nil {
		proto.Merge(res.(proto.Message), page)
	}
	return err
}

func (nearby) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// However little of a thread is read, what is read is the end of the whole
// conversation, and has all of the execution that goes on: also where tasks that
// began long ago are among what is new.
func TestTheEndOfAThreadReadsAsTheWholeThreadDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n, g := agenttest.NewNode(t), agenttest.NewGrant()
		n.Page = rapid.SampledFrom([]int{2, 7, 1000}).Draw(rt, "page")
		var asleep [][2]mesh.ExecutionID // turn and leg
		for i := range rapid.IntRange(1, 40).Draw(rt, "turns") {
			events := agenttest.TurnEvents(rapid.SampledFrom([]string{g.Agent, "builder"}).Draw(rt, "agent"), fmt.Sprint("question ", i), fmt.Sprint("answer ", i))
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0: // it waits for its user
				asked := &mesh.Event{Execution: events[0].Execution, Body: mesh.TaskMoved{State: agenttest.InputRequired, Message: agenttest.Message(fmt.Sprint("which ", i))}}
				n.Log(append(events[:5], asked)...)
				asleep = append(asleep, [2]mesh.ExecutionID{events[0].Execution, events[3].Execution})
			case 1: // one that waited goes on
				if len(asleep) == 0 {
					continue
				}
				at := rapid.IntRange(0, len(asleep)-1).Draw(rt, "which")
				turn, leg := asleep[at][0], asleep[at][1]
				asleep = slices.Delete(asleep, at, at+1)
				n.Log(agenttest.Posted(turn, 5, fmt.Sprint("this one ", i)), &mesh.Event{Execution: leg, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}},
					agenttest.Said(leg, 6, "again", fmt.Sprint("went on ", i), false), &mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: agenttest.Completed}})
			default:
				n.Log(events...)
			}
		}
		g.Turn = mesh.NewExecutionID(agenttest.Thread)
		g.Parent = g.Turn
		n.Log(agenttest.Opened(g.Turn), agenttest.Posted(g.Turn, 3, "and now?"), agenttest.Dispatch(g.Turn, g.Execution, g.Agent))
		read := func(enough func([]llm.Message) bool) []string {
			m, err := meshclient.New(nearby{n}, n.Call(g))
			if err != nil {
				rt.Fatal(err)
			}
			got, err := conversation(t.Context(), m, g, "and now?", enough)
			if err != nil {
				rt.Fatal(err)
			}
			return agenttest.Lines(got)
		}
		all := read(nil)
		most := rapid.IntRange(1, 60).Draw(rt, "most")
		got := read(func(history []llm.Message) bool { return len(history) >= most })
		if len(got) < min(most, len(all)) || !slices.Equal(got, all[len(all)-len(got):]) {
			rt.Fatalf("of\n%s\nit read\n%s", strings.Join(all, "\n"), strings.Join(got, "\n"))
		}
	})
}

// An execution that goes on finds what it began with, however much happened
// since, and so does an agent that noted something long ago.
func TestWhatIsNeededIsReadHoweverFarBackItIs(t *testing.T) {
	t.Parallel()
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	n.Page = 100
	old := agenttest.TurnEvents(g.Agent, "first", "noted")
	old[3] = &mesh.Event{Execution: old[3].Execution, Body: mesh.StateNoted{Agent: g.Agent, Data: []byte("mine")}}
	n.Log(old...)
	g.Turn = mesh.NewExecutionID(agenttest.Thread)
	g.Parent = g.Turn
	n.Log(agenttest.Opened(g.Turn), agenttest.Posted(g.Turn, 3, "begin"), agenttest.Dispatch(g.Turn, g.Execution, g.Agent))
	for i := range 300 {
		n.Log(agenttest.TurnEvents("other", fmt.Sprint("between ", i), "yes")...)
	}
	n.Log(agenttest.Posted(g.Turn, 4, "go on"))
	got, err := conversation(t.Context(), n.Client(t, g), g, "go on", func([]llm.Message) bool { return true })
	// What was said in other turns since it began is not its own.
	if said := agenttest.Lines(got); err != nil || len(said) != 4 || !slices.Equal(said[2:], []string{"user: begin", "user: go on"}) {
		t.Errorf("read %q, %v", said, err)
	}
	data, ok, err := n.Client(t, g).Noted(t.Context())
	if string(data) != "mine" || !ok || err != nil {
		t.Errorf("noted %q, %v, %v", data, ok, err)
	}
}

// brief is a model that says one word.
type brief struct{}

func (brief) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		_ = yield(llm.Chunk{Text: "Soon."}, nil) && yield(llm.Chunk{Done: &llm.Done{}}, nil)
	}
}

// BenchmarkTurn is what one more turn costs, without its model, after so many
// events.
func BenchmarkTurn(b *testing.B) {
	for _, events := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(events), func(b *testing.B) {
			n, g := longThread(b, events)
			addr, _ := n.Serve(b, nil)
			conn := agenttest.Dial(b, addr)
			fit := window.For("", nil).Fit(new(tokens.Counter))
			b.ReportAllocs()
			for b.Loop() {
				m, err := meshclient.New(conn, n.Call(g))
				if err != nil {
					b.Fatal(err)
				}
				inv := &agent.Invocation{Message: agenttest.Message("and now?"), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: m}
				for _, err := range modelrun.Run(b.Context(), inv, modelrun.Options{Model: brief{}, System: "You help.", Fit: fit}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n.Reads)/float64(b.N), "reads/op")
		})
	}
}
