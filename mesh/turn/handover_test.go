package turn

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A giver gives the stream away, and who is called then is done at once.
type giver struct {
	*agent
	give func() error
	told []*a2apb.Message
	err  error
}

func (g *giver) Dial(call.Target) (call.Client, error) { return g, nil }

func (g *giver) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	if g.told = append(g.told, req.GetMessage()); len(g.told) == 1 {
		g.play = func(say func(*a2apb.StreamResponse)) {
			say(task("own"))
			g.err = g.give()
			say(status("own", completed))
		}
	} else {
		g.play = func(say func(*a2apb.StreamResponse)) { say(piece("own", "hello")); say(status("own", completed)) }
	}
	return g.agent.SendStreamingMessage(ctx, req)
}

// The agent that gets the stream is logged with the handoff, unless the user has said
// something meanwhile; whatever comes in between, it is called once, with all that was
// said, and knows the handoff by its place in the log.
func TestAHandoffBeginsWhatFollowsFromIt(t *testing.T) {
	refused := mesh.Errorf(mesh.Precondition, "test", "no")
	for name, tt := range map[string]struct {
		meant func(r *Runner) error // before the driver decides
		want  []string              // what was appended at once with the handoff
		calls int
		words string // that the last one is told
		err   error
	}{
		"nothing comes in between": {func(*Runner) error { return nil }, []string{"handoff_started dispatch_issued"}, 2, "go", nil},
		"the user says more": {func(r *Runner) error {
			more := posted("t1")
			more.Body = mesh.MessagePosted{User: "ann", Message: mesh.Say("more")}
			return add(r, more)
		}, []string{"handoff_started"}, 2, "more", nil},
		"the user wants it to end": {func(r *Runner) error {
			return add(r, &mesh.Event{Execution: "t1", Actor: "user:ann", Body: mesh.CancelRequested{}})
		}, []string{"handoff_started"}, 1, "go", nil},
		"another node claims it": {func(r *Runner) error {
			return add(r, &mesh.Event{Actor: "node", Body: mesh.ThreadClaimed{Epoch: 9, Node: "m"}})
		}, []string{"handoff_started dispatch_issued", "handoff_started"}, 1, "go", nil}, // both are refused
		"it is refused": {func(*Runner) error { return refused }, []string{}, 1, "go", refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &ledger{Backend: mem.Open()}
				g := &giver{agent: &agent{canceled: make(chan string, 9)}}
				r := runner(t, store, g.agent)
				r.Dialer = g
				defer func() { _ = r.Close(t.Context()) }()
				tries := 0
				started := &mesh.Event{Actor: "agent:main", Body: mesh.HandoffStarted{From: "main", To: "builder"}}
				g.give = func() error {
					return r.HandOver(t.Context(), key, func(s *thread.State) (cache.Decision, error) {
						if tries++; tries == 2 { // it is asked for, and the leg is not made yet
							if err := tt.meant(r); err != nil {
								return cache.Decision{}, err
							}
						}
						started.Execution = s.Turn("t1").Leg().Execution
						return cache.Decision{Events: []*mesh.Event{started}, Scopes: []mesh.Scope{"t1"}}, nil
					})
				}
				post(t, r, "t1")
				synctest.Wait()
				if !errors.Is(g.err, tt.err) || len(g.told) != tt.calls {
					t.Fatalf("the giver hears %v, and there were %d calls", g.err, len(g.told))
				}
				got := g.told[len(g.told)-1]
				if words := mesh.TextOf(got); words != tt.words {
					t.Errorf("who has the stream is told %q", words)
				}
				if tt.calls == 2 {
					told := a2a.Extension(got.GetMetadata()).GetFields()["handoff"].GetStructValue().GetFields()["seq"].GetStringValue()
					if diff := cmp.Diff(seqValue(&thread.Handoff{Seq: started.Seq}).GetStringValue(), told); diff != "" || started.Seq == 0 {
						t.Errorf("the handoff is known by another place than its own (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(tt.want, slices.DeleteFunc(store.kinds, func(k string) bool { return !strings.HasPrefix(k, "handoff_started") })); diff != "" {
					t.Errorf("appended at once (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// add appends the events as another node.
func add(r *Runner, events ...*mesh.Event) error {
	return cache.New(r.Log, 0).Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: events}, nil })
}
