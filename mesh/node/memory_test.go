package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
)

// asksBack has a diary ask, and tell what it was told with the answer.
const asksBack = "order"

// A diary is an agent on the official SDK's server, which knows nothing of any mesh. It
// says what it was told in its context, and refuses contexts that it does not have.
type diary struct {
	folder string // where it keeps them, or "": then it has no longer life than its process
	bare   bool   // it answers with a message alone
	meet   func(context.Context) error

	mu    sync.Mutex
	told  map[string][]string // by context
	asked []string            // the contexts that it was asked in
	parts [][]string          // of the last messages
}

func (d *diary) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said, err := d.note(ec)
		if err == nil && d.meet != nil && strings.Contains(said, "together") {
			err = d.meet(ctx)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if d.bare {
			m := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(said))
			m.ContextID = ec.ContextID
			yield(m, nil)
			return
		}
		if ec.StoredTask == nil && strings.HasSuffix(said, asksBack) {
			_ = yield(a2a.NewSubmittedTask(ec, ec.Message), nil) &&
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("How many?"))), nil)
			return
		}
		if ec.StoredTask != nil {
			_ = yield(a2a.NewArtifactEvent(ec, a2a.NewTextPart(said)), nil) && yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
			return
		}
		_ = yield(a2a.NewSubmittedTask(ec, ec.Message), nil) && yield(a2a.NewArtifactEvent(ec, a2a.NewTextPart(said)), nil) &&
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

func (d *diary) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// note keeps what it is told, and returns its answer.
func (d *diary) note(ec *a2asrv.ExecutorContext) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var parts []string
	for _, p := range ec.Message.Parts {
		parts = append(parts, p.Text())
	}
	d.asked, d.parts = append(d.asked, ec.Message.ContextID), append(d.parts, parts)
	file := filepath.Join(d.folder, ec.ContextID)
	if d.told == nil {
		d.told = map[string][]string{}
	}
	if data, err := os.ReadFile(file); d.folder != "" && err == nil {
		var told []string
		if err := json.Unmarshal(data, &told); err != nil {
			return "", err
		}
		d.told[ec.ContextID] = told
	}
	if ec.Message.ContextID != "" && d.told[ec.ContextID] == nil {
		return "", a2a.ErrInvalidParams
	}
	told := append(d.told[ec.ContextID], parts[len(parts)-1])
	d.told[ec.ContextID] = told
	if d.folder != "" {
		data, err := json.Marshal(told)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(told, ", "), nil
}

// lose has the diary lose all its contexts.
func (d *diary) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = nil
}

// seen returns the contexts that it was asked in since the last time, by the order in
// which they came up: 0 is none, and the parts of the last message.
func (d *diary) seen(ids *[]string) (contexts []int, last []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.asked {
		at := 0
		if id != "" {
			if !slices.Contains(*ids, id) {
				*ids = append(*ids, id)
			}
			at = 1 + slices.Index(*ids, id)
		}
		contexts = append(contexts, at)
	}
	last, d.asked = d.parts[len(d.parts)-1], nil
	return contexts, last
}

// serve serves the diary until the test ends, and returns its address.
func (d *diary) serve(t testing.TB) string {
	t.Helper()
	l := rpctest.Listen(t)
	srv := grpc.NewServer()
	a2agrpc.NewHandler(a2asrv.NewHandler(d)).RegisterWith(srv)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return l.Addr().String()
}

// diaryAgent is a program that is a diary, as [plainAgent] is another agent.
func diaryAgent() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	a2agrpc.NewHandler(a2asrv.NewHandler(&diary{folder: os.Getenv("MESH_TEST_DIARY")})).RegisterWith(server)
	go func() { _ = server.Serve(l) }() // ends with the process
	fmt.Println(l.Addr())
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	return err
}

// joins registers the agent of the address as one that knows A2A alone.
func joins(t testing.TB, conn grpc.ClientConnInterface, name, address string) {
	t.Helper()
	c := card(name)
	c.Capabilities.Extensions = nil
	c.SupportedInterfaces = nil
	if _, err := meshv1.NewRegistryServiceClient(conn).RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: name, Card: c, Endpoint: address}); err != nil {
		t.Fatal(err)
	}
}

// tells says something in the thread and returns the answer.
func tells(t testing.TB, conn grpc.ClientConnInterface, thread, words string) string {
	t.Helper()
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(in(t, thread), say(words))
	s := hear(t, stream, err)
	if s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("%q: ended %v: %v", words, s.state, s.status)
	}
	return s.text
}

// replacements counts how often the log says that a context was replaced.
func replacements(t testing.TB, conn grpc.ClientConnInterface, thread string) int {
	t.Helper()
	n := 0
	for _, e := range read(t, meshv1.NewThreadServiceClient(conn), thread) {
		if e.GetTaskMoved().GetReason() == mesh.ReasonReplaced {
			n++
		}
	}
	return n
}

func inContexts(t testing.TB, what string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// finding N1: an agent of others that is main has the whole conversation, whether it
// answers with tasks or with messages alone, also after a restart of the mesh and under
// another card; what it has lost it is told again, once.
func TestAPlainAgentKeepsItsMemory(t *testing.T) {
	for name, bare := range map[string]bool{"with tasks": false, "with messages alone": true} {
		t.Run(name, func(t *testing.T) {
			d, ids := &diary{bare: bare}, new([]string)
			cfg := config(t.TempDir())
			cfg.Main = "diary"
			m := start(t, cfg, nil)
			joins(t, m.conn, "diary", d.serve(t))
			id := mesh.NewThreadID()
			for _, want := range []string{"one", "one, two", "one, two, three"} {
				if got := tells(t, m.conn, id, want[strings.LastIndex(want, " ")+1:]); got != want {
					t.Errorf("it remembers %q, want %q", got, want)
				}
			}
			if got := tells(t, m.conn, mesh.NewThreadID(), "elsewhere"); got != "elsewhere" {
				t.Errorf("in another thread it remembers %q", got)
			}
			contexts, _ := d.seen(ids)
			inContexts(t, "asked in", contexts, []int{0, 1, 1, 0})

			if _, err := meshv1.NewRegistryServiceClient(m.conn).DeregisterAgent(in(t, id), &meshv1.DeregisterAgentRequest{Name: "diary"}); err != nil {
				t.Fatal(err)
			}
			m.Stop()
			m = start(t, cfg, nil)
			joins(t, m.conn, "diary", d.serve(t)) // elsewhere, as a replica would be
			if got := tells(t, m.conn, id, "four"); got != "one, two, three, four" {
				t.Errorf("after a restart it remembers %q", got)
			}
			d.lose()
			stream, err := m.edge().SendStreamingMessage(in(t, id), say("five"))
			if s := hear(t, stream, err); s.text != "five" || len(s.status) != 1 || !reasoned(s, mesh.ReasonReplaced) {
				t.Errorf("it answers %q, and the user reads %q", s.text, s.status)
			}
			contexts, last := d.seen(ids)
			inContexts(t, "asked in", contexts, []int{1, 1, 0})
			if len(last) != 2 || last[1] != "five" || !inOrder(last[0], "one", "one", "two", "one, two", "four") || strings.Contains(last[0], "elsewhere") {
				t.Errorf("after it lost its context it was told %q", last)
			}
			if got := tells(t, m.conn, id, "six"); got != "five, six" || replacements(t, m.conn, id) != 1 {
				t.Errorf("it remembers %q, replaced %d times", got, replacements(t, m.conn, id))
			}
		})
	}
}

// reasoned reports whether an update had the reason.
func reasoned(s said, reason string) bool {
	return slices.ContainsFunc(s.all, func(r *a2apb.StreamResponse) bool {
		ext := r.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue()
		return ext.GetFields()["reason"].GetStringValue() == reason
	})
}

// inOrder reports whether the text has the words one after the other.
func inOrder(text string, words ...string) bool {
	for _, w := range words {
		_, rest, ok := strings.Cut(text, w)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// asker dispatches to the diary what its message says, each word for itself, and gives
// the stream to it when it is told to.
func asker(env node.Env) run {
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if inv.Text() == "go" {
				if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "diary", Reason: "r", ContextSummary: "summed up"}); err != nil {
					yield(nil, err)
				}
				return
			}
			d := dispatch.New(ctx, inv, env.Conns, dispatch.Options{})
			defer d.Close()
			var orders []dispatch.Order
			for _, w := range strings.Fields(inv.Text()) {
				orders = append(orders, dispatch.Order{AgentID: w, Name: "diary", Mission: w})
			}
			for _, err := range d.Dispatch(ctx, orders) {
				yield(nil, err)
				return
			}
			results, err := d.Wait(ctx, nil)
			if err != nil {
				yield(nil, err)
				return
			}
			var said []string
			for _, r := range results {
				said = append(said, r.Result)
			}
			yield(agent.Text{Text: strings.Join(said, "; ")}, nil)
		}
	}
}

// finding N1: an agent that is dispatched, and that is given the user's stream, has one
// memory in a thread; one that is dispatched twice at once has another for the second,
// which nobody goes on in.
func TestAnAgentThatIsDispatchedKeepsItsMemory(t *testing.T) {
	d, ids := &diary{meet: together(2)}, new([]string)
	m := start(t, config(t.TempDir()), nil, builtin("main", asker))
	joins(t, m.conn, "diary", d.serve(t))
	id := mesh.NewThreadID()
	handBack := func() {
		t.Helper()
		if _, err := meshv1.NewHandoffServiceClient(m.conn).EndHandoff(in(t, id), &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "completed"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ words, want string }{
		{"one", "one"},
		{"two", "one, two"},
		{"go", "one, two, go"}, // by handoff
		{"three", "one, two, go, three"},
		{"back", ""},
		{"four", "one, two, go, three, four"},
		{"go", "one, two, go, three, four, go"},
		{"back", ""},
	} {
		if step.words == "back" {
			handBack()
		} else if got := tells(t, m.conn, id, step.words); got != step.want {
			t.Errorf("%s: it remembers %q, want %q", step.words, got, step.want)
		}
	}
	contexts, _ := d.seen(ids)
	inContexts(t, "asked in", contexts, []int{0, 1, 1, 1, 1, 1})

	if got := tells(t, m.conn, id, "together1 together2"); !strings.Contains(got, "three, four, go, together") || strings.Contains(got, "together1, together2") || strings.Contains(got, "together2, together1") {
		t.Errorf("two at once remember %q", got)
	}
	contexts, _ = d.seen(ids)
	slices.Sort(contexts)
	inContexts(t, "asked at once in", contexts, []int{0, 1})
	if got := tells(t, m.conn, id, "five"); !strings.HasPrefix(got, "one, two") || !strings.HasSuffix(got, "five") {
		t.Errorf("afterwards it remembers %q", got)
	}

	d.lose()
	_, _ = d.seen(ids)
	if got := tells(t, m.conn, id, "six"); got != "six" {
		t.Errorf("it answers %q", got)
	}
	contexts, last := d.seen(ids)
	inContexts(t, "asked in", contexts, []int{1, 0})
	if len(last) != 2 || last[1] != "six" || !inOrder(last[0], "one", "two", "one, two", "summed up", "go", "three", "four", "five") {
		t.Errorf("after it lost its context it was told %q", last)
	}
	if n := strings.Count(last[0], "together1") + strings.Count(last[0], "together2"); n != 3 { // told and said by the one in its context, and said again with "five"
		t.Errorf("it was told %d times what was said at once: %q", n, last[0])
	}
	if got := tells(t, m.conn, id, "seven"); got != "six, seven" || replacements(t, m.conn, id) != 1 {
		t.Errorf("it remembers %q, replaced %d times", got, replacements(t, m.conn, id))
	}
}
