package call_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

// A twin is one process of an agent: a server of its own, which can be killed.
type twin struct {
	a2apb.UnimplementedA2AServiceServer
	addr string
	srv  *grpc.Server
	play func(w *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error

	mu       sync.Mutex
	got      []string // messages: their id, and under which execution
	canceled []string
	tasks    map[string]*a2apb.Task
	asked    int // for a task
}

// twins are n processes that do the same.
func twins(t *testing.T, n int, play func(w *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error) []*twin {
	t.Helper()
	var all []*twin
	for range n {
		l := rpctest.Listen(t)
		w := &twin{addr: l.Addr().String(), srv: grpc.NewServer(), play: play, tasks: map[string]*a2apb.Task{}}
		a2apb.RegisterA2AServiceServer(w.srv, w)
		done := make(chan struct{})
		go func() { defer close(done); _ = w.srv.Serve(l) }()
		t.Cleanup(func() { w.srv.Stop(); <-done })
		all = append(all, w)
	}
	return all
}

func (w *twin) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	w.mu.Lock()
	w.got = append(w.got, req.GetMessage().GetMessageId()+" "+strings.Join(md.Get("execution-id"), ","))
	w.mu.Unlock()
	return w.play(w, stream)
}

func (w *twin) GetTask(_ context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if t := w.tasks[req.GetId()]; t != nil {
		return t, nil
	}
	return nil, status.Error(codes.NotFound, "Task not found")
}

func (w *twin) CancelTask(_ context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	t, err := w.GetTask(context.Background(), &a2apb.GetTaskRequest{Id: req.GetId()})
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.canceled = append(w.canceled, req.GetId())
	}
	return t, err
}

func (w *twin) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// dies ends the process as kill -9 does: nobody is told anything.
func (w *twin) dies(stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	go w.srv.Stop() // the test waits for its end
	<-stream.Context().Done()
	return stream.Context().Err()
}

// tell sends what is said.
func tell(stream grpc.ServerStreamingServer[a2apb.StreamResponse], rs ...*a2apb.StreamResponse) error {
	for _, r := range rs {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	return nil
}

func does(_ *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	return tell(stream, task("t", working), piece("t", "a", "whole", false), status1("t", completed, ""))
}

// A crowd calls the twins as one agent.
type crowd struct {
	dialer *call.Dialer
	target call.Target

	hears sync.Once
	heard chan struct{} // closed when there is some output

	mu   sync.Mutex
	down []string
}

// gather makes an agent of the twins whose card has the params of our extension, or not the
// extension if they are nil.
func gather(t *testing.T, all []*twin, params map[string]any) *crowd {
	t.Helper()
	c := &crowd{heard: make(chan struct{}), target: call.Target{Name: "crunch", Endpoint: all[len(all)-1].addr, Card: &a2apb.AgentCard{Name: "crunch", Capabilities: &a2apb.AgentCapabilities{}}}}
	if params != nil {
		p, err := structpb.NewStruct(params)
		if err != nil {
			t.Fatal(err)
		}
		c.target.Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI, Params: p}}
	}
	for _, w := range all {
		c.target.Instances = append(c.target.Instances, call.Instance{Endpoint: w.addr, Live: true,
			Interfaces: []*a2apb.AgentInterface{{Url: w.addr, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}})
	}
	pool := rpc.NewPool(rpc.DialOptions{})
	t.Cleanup(func() { _ = pool.Close() })
	c.dialer = call.NewDialer(pool, call.Options{Down: func(t call.Target, _ error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.down = append(c.down, t.Endpoint)
	}})
	return c
}

func (c *crowd) reported() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(c.down)))
}

func (c *crowd) client(t *testing.T) call.Client {
	t.Helper()
	client, err := c.dialer.Dial(c.target)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ask sends the message for the execution and returns what comes back.
func (c *crowd) ask(t *testing.T, goesOn bool) []string {
	t.Helper()
	agent := call.Agent{Target: c.target}
	key := mesh.ThreadKey{Tenant: "acme", ID: "c"}
	msg := &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("go")}
	agent.Card.Capabilities.Streaming = new(true)
	req := agent.Request(key, "t", msg, call.Remote{GoesOn: goesOn})
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ann"}, Thread: "c", Execution: "t", Version: "1.0"})
	var all []mesh.Body
	for b := range call.Stream(ctx, c.client(t), req) {
		all = append(all, b)
		if _, ok := b.(mesh.ArtifactAppended); ok {
			c.hears.Do(func() { close(c.heard) })
		}
	}
	return lines(all)
}

// Work is shared out by load: who has the fewest open calls gets the next one.
func TestTheProcessesOfAnAgentShareTheWork(t *testing.T) {
	t.Parallel()
	const n, each = 4, 6
	began, over := make(chan struct{}), make(chan struct{})
	all := twins(t, n, func(_ *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
		if err := tell(stream, task("t", working)); err != nil {
			return err
		}
		began <- struct{}{}
		<-over
		return tell(stream, status1("t", completed, ""))
	})
	c := gather(t, all, nil)
	var calls sync.WaitGroup
	for range n * each {
		calls.Go(func() {
			if got := c.ask(t, false); got[len(got)-1] != "completed" {
				t.Errorf("one call: %v", got)
			}
		})
		<-began
	}
	close(over)
	calls.Wait()
	for i, w := range all {
		if got := len(w.heard()); got != each {
			t.Errorf("process %d had %d calls, want %d", i, got, each)
		}
	}
}

// A process that was killed while it was idle fails nobody's work: the other one gets it, and
// the registry hears which one is gone (finding O9).
func TestAKilledProcessFailsNothingWhileAnotherIsIdle(t *testing.T) {
	t.Parallel()
	all := twins(t, 2, does)
	c := gather(t, all, nil)
	all[0].srv.Stop()
	calls := 0
	for len(c.reported()) == 0 && calls < 100 { // either process may be chosen first
		calls++
		if diff := cmp.Diff([]string{"working c", `new a "whole"`, "completed"}, c.ask(t, false)); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := c.reported(); len(all[1].heard()) != calls || !slices.Equal(got, []string{all[0].addr}) {
		t.Errorf("%d of %d calls arrived, and down are %v", len(all[1].heard()), calls, got)
	}
	all[1].srv.Stop()
	if got := c.ask(t, false); len(got) != 1 || !strings.HasPrefix(got[0], "failed AGENT_UNAVAILABLE") {
		t.Errorf("without any process: %v", got)
	}
}

// One that dies with the message in hand and has said nothing is replaced as well, by the
// same message for the same execution; each process gets it once.
func TestAMessageGoesElsewhereBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]map[string]any{"an agent of others": nil, "one of ours": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first sync.Once
			all := twins(t, 2, func(w *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
				dies := false
				first.Do(func() { dies = true })
				if dies {
					return w.dies(stream)
				}
				return does(w, stream)
			})
			c := gather(t, all, params)
			if got := c.ask(t, false); !slices.Contains(got, `new a "whole"`) || got[len(got)-1] != "completed" {
				t.Error(got)
			}
			for i, w := range all {
				if diff := cmp.Diff([]string{"m t"}, w.heard()); diff != "" {
					t.Errorf("process %d: %s", i, diff)
				}
			}
			if len(c.reported()) != 1 {
				t.Errorf("down are %v", c.reported())
			}
		})
	}
}

// What an agent answers is its answer, also that it will not, or cannot just now: nobody else is
// asked, and it is not taken for gone. One that speaks our extension and says that it is not
// available, as it does when it stops, has another process asked, which reads in the log what
// was done.
func TestARefusalIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code   codes.Code
		params map[string]any
		heard  int
	}{
		"it will not":                {codes.InvalidArgument, map[string]any{"idempotent": true}, 1},
		"another's is not available": {codes.Unavailable, nil, 1},
		"ours is not available":      {codes.Unavailable, map[string]any{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := twins(t, 2, func(*twin, grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
				return status.Error(tt.code, "not so")
			})
			c := gather(t, all, tt.params)
			if got := c.ask(t, false); len(got) != 1 || !strings.HasPrefix(got[0], "failed") || len(all[0].heard())+len(all[1].heard()) != tt.heard || len(c.reported()) != 0 {
				t.Errorf("%v; %q and %q were heard, and down are %v", got, all[0].heard(), all[1].heard(), c.reported())
			}
		})
	}
}

// After the first word a message goes elsewhere only to agents that declare that its effect
// is had once, and what was said is said anew in its place. Of others the recorded task is
// asked for where it was, and with that process it is lost.
func TestAfterTheFirstWordOnlyIdempotentAgentsAreAskedAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		params map[string]any
		want   []string
	}{
		"an agent of others": {nil, []string{"working c", `new a "half"`, "failed AGENT_UNAVAILABLE The agent could not be reached."}},
		"one of ours":        {map[string]any{}, []string{"working", `new a "half"`, "failed AGENT_UNAVAILABLE The agent could not be reached."}},
		"one that declares it": {map[string]any{"idempotent": true},
			[]string{"working", `new a "half"`, "working", `new a "whole"`, `append a "some"`, "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first sync.Once
			var c *crowd
			all := twins(t, 2, func(w *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
				dies := false
				first.Do(func() { dies = true })
				if dies {
					if err := tell(stream, task("t", working), piece("t", "a", "half", false)); err != nil {
						return err
					}
					<-c.heard
					return w.dies(stream)
				}
				return tell(stream, task("t", working), piece("t", "a", "whole", false), piece("t", "a", "some", true), status1("t", completed, ""))
			})
			c = gather(t, all, tt.params)
			if diff := cmp.Diff(tt.want, c.ask(t, false)); diff != "" {
				t.Error(diff)
			}
			heard := append(all[0].heard(), all[1].heard()...)
			want := []string{"m t"}
			if name == "one that declares it" {
				want = append(want, "m t")
			}
			if diff := cmp.Diff(want, heard); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A stream that breaks while the process lives is taken up there.
func TestABrokenStreamIsTakenUpWhereItWas(t *testing.T) {
	t.Parallel()
	all := twins(t, 3, func(w *twin, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
		w.mu.Lock()
		w.tasks["t"] = task("t", completed, "a").GetTask()
		w.mu.Unlock()
		if err := tell(stream, task("t", working)); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "a proxy went away")
	})
	c := gather(t, all, map[string]any{"idempotent": true})
	if diff := cmp.Diff([]string{"working", `new a "whole a"`, "completed"}, c.ask(t, false)); diff != "" {
		t.Error(diff)
	}
	if n := len(all[0].heard()) + len(all[1].heard()) + len(all[2].heard()); n != 1 || len(c.reported()) != 0 {
		t.Errorf("the message arrived %d times, down are %v", n, c.reported())
	}
}

// What follows goes to the process that has the execution, which a client that knows nothing
// finds by asking. When that one is gone, another takes it if the agent reads in the log what
// was done; of others nobody does.
func TestAnExecutionStaysWithItsProcess(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]map[string]any{"an agent of others": nil, "one of ours": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := twins(t, 4, does)
			c := gather(t, all, params)
			has := all[2]
			has.tasks["t"] = task("t", asks).GetTask()
			for range 3 {
				if got := c.ask(t, true); got[len(got)-1] != "completed" {
					t.Fatal(got)
				}
			}
			if err := call.Cancel(t.Context(), c.client(t), "t"); err != nil || len(has.canceled) != 1 {
				t.Errorf("canceled %v, %v", has.canceled, err)
			}
			if err := call.Cancel(t.Context(), c.client(t), "unknown"); !mesh.IsCode(err, mesh.NotFound) {
				t.Errorf("an unknown task: %v", err)
			}
			if len(has.heard()) != 3 {
				t.Errorf("it had %v", has.heard())
			}

			// It is not for new work any more, and still has the task.
			c.target.Instances[2].Live = false
			if got := c.ask(t, true); got[len(got)-1] != "completed" || len(has.heard()) != 4 {
				t.Errorf("of one that leaves: %v, it had %v", got, has.heard())
			}
			for range 6 {
				c.ask(t, false)
			}
			if len(has.heard()) != 4 {
				t.Errorf("one that leaves got new work: %v", has.heard())
			}

			has.srv.Stop()
			before := len(all[0].heard()) + len(all[1].heard()) + len(all[3].heard())
			got := fmt.Sprint(c.ask(t, true))
			taken := len(all[0].heard()) + len(all[1].heard()) + len(all[3].heard()) - before
			if params == nil && (!strings.Contains(got, "AGENT_UNAVAILABLE") || taken != 0) || params != nil && (!strings.Contains(got, "completed") || taken != 1) {
				t.Errorf("when it is gone: %v, and %d others took it", got, taken)
			}
		})
	}
}

// A task that was followed by a node that is gone is taken up at the process that has it;
// when that is gone too, another one gets the message if the agent speaks our extension.
func TestATaskIsTakenUpAtTheProcessThatHasIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		params map[string]any
		gone   bool
		want   []string
	}{
		"an agent of others":       {nil, false, []string{"working c", `append a "ole a"`, "completed"}},
		"one of ours":              {map[string]any{}, false, []string{`append a "ole a"`, "completed"}},
		"one of ours that is gone": {map[string]any{}, true, []string{"working", `new a "whole"`, "completed"}},
		"one of others that is":    {nil, true, []string{"failed AGENT_UNAVAILABLE The agent could not be reached."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := twins(t, 3, does)
			all[1].tasks["t"] = task("t", completed, "a").GetTask()
			c := gather(t, all, tt.params)
			c.target.Card.Capabilities.Streaming = new(true)
			if tt.gone {
				all[1].srv.Stop()
			}
			had := []mesh.Body{mesh.ArtifactAppended{Artifact: piece("t", "a", "wh", false).GetArtifactUpdate().GetArtifact()}}
			req := call.Agent{Target: c.target}.Request(mesh.ThreadKey{Tenant: "acme", ID: "c"}, "t", &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("go")},
				call.Remote{Task: "t", GoesOn: true, Attach: &call.Attach{Had: had}})
			if diff := cmp.Diff(tt.want, lines(collect(t.Context(), c.client(t), req))); diff != "" {
				t.Error(diff)
			}
			if n := len(all[0].heard()) + len(all[1].heard()) + len(all[2].heard()); (n == 1) != (tt.gone && tt.params != nil) || n > 1 {
				t.Errorf("the message arrived %d times", n)
			}
		})
	}
}

// What the user answered reaches the agent, although the node died before it sent it: whoever
// still waits with the question that the log has gets the answer, and nobody gets it twice.
func TestAnAnswerThatWasNotSentIsSent(t *testing.T) {
	t.Parallel()
	waits := func(id string) *a2apb.Task {
		return &a2apb.Task{Id: "t", ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED,
			Message: &a2apb.Message{MessageId: id, TaskId: "t", ContextId: "c", Role: a2apb.Role_ROLE_AGENT, Parts: text(id)}}}
	}
	for name, tt := range map[string]struct {
		task    *a2apb.Task
		answers bool
		sent    int
		last    mesh.TaskState
	}{
		"it still waits":           {waits("asked before"), true, 1, completed},
		"it asks something else":   {waits("asked since"), true, 0, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED},
		"it has done it":           {task("t", completed, "a").GetTask(), true, 0, completed},
		"the message is no answer": {waits("asked before"), false, 0, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED},
	} {
		for _, params := range []map[string]any{nil, {}} {
			t.Run(fmt.Sprint(name, params), func(t *testing.T) {
				t.Parallel()
				all := twins(t, 1, does)
				all[0].tasks["t"] = tt.task
				c := gather(t, all, params)
				c.target.Card.Capabilities.Streaming = new(true)
				had := []mesh.Body{mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: waits("asked before").GetStatus().GetMessage()}}
				req := call.Agent{Target: c.target}.Request(mesh.ThreadKey{Tenant: "acme", ID: "c"}, "t", &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("yes")},
					call.Remote{Task: "t", Context: "c", GoesOn: true, Attach: &call.Attach{Had: had, Answers: tt.answers}})
				got := collect(t.Context(), c.client(t), req)
				if len(got) == 0 {
					t.Fatal("nothing is heard")
				}
				if last, ok := got[len(got)-1].(mesh.TaskMoved); !ok || last.State != tt.last || len(all[0].heard()) != tt.sent {
					t.Errorf("the answer was sent %d times, and this was heard: %v", len(all[0].heard()), lines(got))
				}
			})
		}
	}
}

// finding O9: the process that the log names is asked first and, where it has the task, nobody
// else is. While it is live and silent the task is nobody else's: the message goes to another
// one only when it was waited for in vain.
func TestTheProcessThatTheLogNamesIsAsked(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"it is there": false, "it is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := twins(t, 4, does)
			c := gather(t, all, map[string]any{})
			for i := range c.target.Instances {
				c.target.Instances[i].ID = fmt.Sprint("i", i)
			}
			all[2].tasks["t"] = task("t", completed, "a").GetTask()
			if gone {
				all[2].srv.Stop()
			}
			c.target = c.target.Holder("i2")
			c.target.Card.Capabilities.Streaming = new(true)
			req := call.Agent{Target: c.target}.Request(mesh.ThreadKey{Tenant: "acme", ID: "c"}, "t", &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("go")},
				call.Remote{Task: "t", GoesOn: true, Attach: &call.Attach{}})
			got := collect(t.Context(), c.client(t), req)
			named, others := "", 0
			for _, b := range got {
				if m, ok := b.(mesh.TaskMoved); ok {
					named += m.Instance
				}
			}
			heard := 0
			for i, w := range all {
				if heard += len(w.heard()); i != 2 {
					others += w.asked
				}
			}
			if last, ok := got[len(got)-1].(mesh.TaskMoved); !ok || last.State != completed {
				t.Error(lines(got))
			}
			if !gone && (named != "" || others != 0 || heard != 0) || gone && (len(named) != 2 || named == "i2" || heard != 1 || others > 0) {
				t.Errorf("the log is told of %q, %d others were asked, and the message was sent %d times", named, others, heard)
			}
		})
	}
}

// Who begins on a message is named with the first word, and again when another one has it.
func TestTheFirstWordNamesTheProcess(t *testing.T) {
	t.Parallel()
	c := gather(t, twins(t, 1, does), nil)
	c.target.Instances[0].ID = "one"
	c.target.Card.Capabilities.Streaming = new(true)
	req := call.Agent{Target: c.target}.Request(mesh.ThreadKey{Tenant: "acme", ID: "c"}, "t", &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("go")}, call.Remote{})
	var named []string
	for b := range call.Stream(t.Context(), c.client(t), req) {
		if m, ok := b.(mesh.TaskMoved); ok {
			named = append(named, m.Instance)
		}
	}
	if !slices.Equal(named, []string{"one", ""}) {
		t.Errorf("named are %q", named)
	}
}
