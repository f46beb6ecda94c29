package api_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/api"
	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
)

const (
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
	inputs    = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

// A house is what outlives a process of the node and its orchestrator: the disk, and
// agents in processes of their own. It stands in virtual time, and so without a network.
type house struct {
	t          *testing.T
	store      *mem.Store
	signer     *grant.Signer
	key        mesh.ThreadKey
	turn, exec mesh.ExecutionID
	grant      *mesh.Grant
	limits     limit.Budgets
	terms      admission.Terms
	most       int                                               // agents at work at once
	going      int                                               // and with those that went on with the user's answer, which have a place whoever has one; 0 for as many
	places     int                                               // as many may be on the node; 0 for the default
	spares     bool                                              // agents of other processes live on when the node dies
	plan       func(label string) (takes time.Duration, end int) // nil for random ones
	down       sync.WaitGroup                                    // what ends with a process
	up         sync.WaitGroup                                    // the agents
	statuses   map[mesh.ExecutionID]string                       // as the model was told, and in which words
	texts      map[mesh.ExecutionID]string

	mu     sync.Mutex
	luck   *rand.Rand
	tasks  map[mesh.ExecutionID]*errand
	begun  map[mesh.ExecutionID]int
	closed bool
}

func newHouse(t *testing.T, luck *rand.Rand) *house {
	h := &house{t: t, store: mem.Open(), luck: luck, key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
		tasks: map[mesh.ExecutionID]*errand{}, begun: map[mesh.ExecutionID]int{}, statuses: map[mesh.ExecutionID]string{}, texts: map[mesh.ExecutionID]string{}}
	var err error
	if h.signer, err = grant.NewSigner(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	h.turn, h.exec = mesh.NewExecutionID(h.key.ID), mesh.NewExecutionID(h.key.ID)
	h.write(
		&mesh.Event{Execution: h.turn, Actor: "user:ann", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: h.turn, Kind: mesh.KindTurn, Agent: "orchestrator", User: "ann"}}},
		&mesh.Event{Execution: h.turn, Actor: "user:ann", Body: mesh.MessagePosted{Message: mesh.Say("go"), User: "ann"}},
		&mesh.Event{Execution: h.turn, Actor: "node", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: h.exec, Parent: h.turn, Kind: mesh.KindAgent, Agent: "orchestrator", User: "ann"}}})
	h.grant = &mesh.Grant{Tenant: h.key.Tenant, User: "ann", Thread: h.key.ID, Execution: h.exec, Parent: h.turn, Turn: h.turn, Agent: "orchestrator",
		Chain: []mesh.Actor{{Agent: "orchestrator"}}, Skills: []string{"*"}, Depth: 2, Expires: time.Now().Add(1000 * time.Hour).Unix()}
	return h
}

// random is a number below n.
func (h *house) random(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.luck.IntN(n)
}

// write adds to the log as a node that nothing happens to.
func (h *house) write(events ...*mesh.Event) {
	h.t.Helper()
	if err := cachetest.Decide(context.Background(), cache.New(threadlog.New(h.store), 0), h.key, events...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) events() []*mesh.Event {
	h.t.Helper()
	events, err := threadlog.New(h.store).Read(context.Background(), h.key, 0, math.MaxInt32)
	if err != nil {
		h.t.Fatal(err)
	}
	return events
}

func (h *house) state() *thread.State { return thread.Fold(h.events()) }

// answer is the user's.
func (h *house) answer(m *a2apb.Message) {
	h.write(&mesh.Event{Execution: h.turn, Actor: "node", Body: mesh.TaskMoved{State: inputs}})
	h.write(&mesh.Event{Execution: h.turn, Actor: "user:ann", Body: mesh.MessagePosted{Message: m, User: "ann"}},
		&mesh.Event{Execution: h.turn, Actor: "node", Body: mesh.TaskMoved{State: working}})
}

// over waits for what ends with the process.
func (h *house) over(p *process) {
	p.cancel()
	h.down.Wait()
	p.admits.Wait()
}

// stop ends all agents, also those that heed nobody.
func (h *house) stop() {
	h.mu.Lock()
	h.closed = true
	for _, e := range h.tasks {
		e.cut()
	}
	h.mu.Unlock()
	h.up.Wait()
	h.write(&mesh.Event{Execution: h.turn, Actor: "node", Body: mesh.DispatchSettled{Child: h.exec, State: completed}},
		&mesh.Event{Execution: h.turn, Actor: "node", Body: mesh.TaskMoved{State: completed}})
}

// atWork are the agents that nobody told to end, and that do not wait for the user; but
// for those of others of whose tasks nobody knows. The mutex is held.
func (h *house) atWork(s *thread.State) (labels []string, wentOn int) {
	for id, e := range h.tasks {
		if x := s.Execution(id); e.state == working && !e.told && (e.agent != "plain" || x.RemoteTask != "") {
			labels = append(labels, x.Label)
			if e.wentOn {
				wentOn++
			}
		}
	}
	return labels, wentOn
}

// tell has an agent end its task, if it has it.
func (h *house) tell(id mesh.ExecutionID) {
	h.mu.Lock()
	e := h.tasks[id]
	h.mu.Unlock()
	if e != nil {
		e.cancel()
	}
}

// end has an agent end its task for the user, as the node does it that drives the thread,
// and settles what does not react, of which the agent is told once more.
func (h *house) end(p *process, id mesh.ExecutionID) {
	h.tell(id)
	select {
	case <-time.After(5 * time.Second):
	case <-p.ctx.Done():
		return
	}
	settled := false
	err := p.states.Decide(p.ctx, h.key, func(s *thread.State) (cache.Decision, error) {
		x := s.Execution(id)
		if settled = x != nil && !mesh.Terminal(x.State) && !x.Waits(); !settled {
			return cache.Decision{}, nil
		}
		return cache.Decision{Events: []*mesh.Event{{Execution: x.Parent, Actor: "node", Body: mesh.DispatchSettled{Child: id, State: canceled, Reason: mesh.ReasonCanceled}}}}, nil
	})
	if err != nil && p.ctx.Err() == nil {
		h.t.Errorf("an agent that does not react is not settled: %v", err)
	}
	if settled && !p.dead() {
		h.tell(id)
	}
}

// A process is a node with its orchestrator, and the agent here. It dies when it is told,
// and does nothing from then on that anybody could see. It is the connection to its
// services, and calls agents.
type process struct {
	*house
	threads    *api.Threads
	executions *api.Executions
	states     *cache.States
	admits     *admission.Controller
	ctx        context.Context
	cancel     context.CancelFunc

	mu     sync.Mutex
	left   int // appends until it dies, or 0
	before bool
	gone   bool
}

func (h *house) start() *process {
	p := &process{house: h}
	p.ctx, p.cancel = context.WithCancel(h.t.Context())
	places := &admission.Places{Most: h.places}
	log := threadlog.New(fragile{h.store, p}, threadlog.WithAdded(places.Added))
	p.states = cache.New(log, 0)
	p.admits = admission.New(log, p.states, nil, admission.WithBudgets(h.limits), admission.WithPlaces(places), admission.WithTerms(func(mesh.TenantID, string, string) admission.Terms { return h.terms }), admission.WithDeferral(slog.New(slog.DiscardHandler)))
	agents, err := registry.New(p.ctx, registry.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	p.threads = api.NewThreads(log, p.states, p.admits, api.Tickets{Signer: h.signer, Agents: agents}, "orchestrator")
	p.executions = api.NewExecutions(p.threads, func(context.Context, mesh.ThreadKey, []thread.Execution) {}, func(mesh.TenantID, string) bool { return true })
	return p
}

// dieAt has it die before or after so many appends.
func (p *process) dieAt(n int, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.before = n, before
}

func (p *process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// die kills it, and the agent that it serves.
func (p *process) die() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.cancel()
	p.house.mu.Lock()
	defer p.house.mu.Unlock()
	for _, e := range p.tasks {
		if e.agent == "here" || !p.spares && p.luck.IntN(5) == 0 {
			e.cut()
		}
	}
}

func (p *process) cancelExecution(id mesh.ExecutionID) error {
	ctx := mesh.WithCall(p.ctx, mesh.Call{Principal: mesh.Principal{Tenant: p.key.Tenant, User: "ann"}})
	_, err := p.executions.CancelExecution(ctx, &meshv1.CancelExecutionRequest{ThreadId: p.key.ID, ExecutionId: string(id)})
	return err
}

// killed is what who dies is told; nobody tries again, holding what others wait for.
func killed() error { return mesh.Errorf(mesh.Denied, "process", "nobody is there") }

// away is what is known of an agent whose process died.
func away() error { return mesh.Errorf(mesh.Unavailable, "phone", "nobody is there") }

// fragile is the disk as a process has it that dies at an append. What was to be written
// with something else is lost, though it was accepted.
type fragile struct {
	threadlog.Backend
	p *process
}

func (f fragile) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	f.p.mu.Lock()
	gone, dies := f.p.gone, f.p.left == 1
	f.p.left = max(f.p.left-1, 0)
	before := f.p.before
	f.p.mu.Unlock()
	switch {
	case gone:
		return threadlog.Appended{}, killed()
	case dies && before:
		if b.Deferred && b.Placed != nil {
			b.Placed()
		}
		f.p.die()
		return threadlog.Appended{}, killed()
	}
	at, err := f.Backend.Append(ctx, key, b)
	if dies {
		f.p.die()
	}
	return at, err
}

// Invoke implements [grpc.ClientConnInterface].
func (p *process) Invoke(ctx context.Context, method string, in, reply any, _ ...grpc.CallOption) (err error) {
	if p.dead() {
		return killed()
	}
	var out proto.Message
	switch req := proto.Clone(in.(proto.Message)).(type) {
	case *meshv1.AppendEventsRequest:
		out, err = p.threads.AppendEvents(ctx, req)
		if trip := limit.TripOf(err); trip != nil && (trip.Limit == limit.OrchestratorAgents || trip.Limit == limit.OrchestratorTime) {
			p.t.Errorf("the node refuses what the dispatcher keeps itself: %v", err)
		}
	case *meshv1.ReadThreadRequest:
		out, err = p.threads.ReadThread(ctx, req)
	case *meshv1.ListAgentsRequest:
		out = &meshv1.ListAgentsResponse{Agents: p.agents()}
	case *meshv1.GetAgentRequest:
		all := p.agents()
		i := slices.IndexFunc(all, func(a *meshv1.Agent) bool { return a.GetName() == req.GetName() })
		if i < 0 {
			return mesh.Errorf(mesh.NotFound, "process.Invoke", "there is no such agent")
		}
		out = &meshv1.GetAgentResponse{Agent: all[i]}
	default:
		return mesh.Errorf(mesh.Unsupported, "process.Invoke", "there is no %s", method)
	}
	switch {
	case p.dead(): // the answer does not arrive
		return killed()
	case err != nil:
		return err
	}
	proto.Merge(reply.(proto.Message), out)
	return nil
}

// NewStream implements [grpc.ClientConnInterface].
func (p *process) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, killed()
}

func (p *process) agents() (all []*meshv1.Agent) {
	for _, name := range []string{"here", "plain", "there"} {
		card := &a2apb.AgentCard{Name: name, Description: "Does it.", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}}
		if name != "plain" {
			card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}
		}
		all = append(all, &meshv1.Agent{Name: name, Card: card, Endpoint: name, Live: true})
	}
	return all
}

// Dial implements [dispatch.Dialer].
func (p *process) Dial(to call.Target) (call.Client, error) { return &phone{p: p, agent: to.Name}, nil }

// An errand is a task of an agent. Its fields are under the mutex of the house.
type errand struct {
	h         *house
	agent, id string
	execution mesh.ExecutionID
	state     mesh.TaskState
	said      []*a2apb.StreamResponse
	changed   chan struct{}
	answered  chan struct{} // closed with the user's answer
	deaf      bool          // it does not heed CancelTask
	told      bool          // to end
	wentOn    bool          // with the user's answer
	lost      bool          // with its process
	ctx       context.Context
	stop      context.CancelFunc
}

// begin is a new errand of a message, of which the house judges whether it may be.
func (h *house) begin(p *process, name string, x mesh.ExecutionID, m *a2apb.Message) (*errand, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || p.dead() {
		return nil, killed()
	}
	s := h.state() // has all that began
	again := m.GetTaskId() != "" || a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyContinues].GetStringValue() != ""
	is := s.Execution(x)
	label := cmp.Or(is, &thread.Execution{}).Label
	switch has := h.tasks[x]; {
	case is == nil || is.Issued == 0 || mesh.Terminal(is.State):
		h.t.Errorf("%s (%q) begins, and is %+v in the log", x, label, is)
	case has != nil:
		h.t.Errorf("%s begins while its agent has it", label)
	case again && name == "plain", !again && h.begun[x] > 0:
		h.t.Errorf("%s begins again (%v) at %s", label, again, name)
	}
	for _, dep := range is.DependsOn {
		if y := s.Execution(dep); y.State != completed {
			h.t.Errorf("%s begins, and %s is %s", label, y.Label, y.State)
		}
	}
	h.begun[x]++
	e := &errand{h: h, agent: name, id: string(x), execution: x, state: working, changed: make(chan struct{}), answered: make(chan struct{}), deaf: h.luck.IntN(8) == 0}
	if name == "plain" {
		e.id = "task-" + mesh.NewEventID()
	}
	e.ctx, e.stop = context.WithCancel(h.t.Context())
	h.tasks[x] = e
	if all, wentOn := h.atWork(s); len(all)-wentOn > h.most || len(all) > max(h.most, h.going) {
		h.t.Errorf("%v are at work, of which %d went on, and %d may be", all, wentOn, h.most)
	}
	takes, end := time.Duration(h.luck.IntN(120)+1)*time.Second, h.luck.IntN(10)
	if h.luck.IntN(6) == 0 {
		takes *= 10
	}
	if h.plan != nil {
		e.deaf = false
		takes, end = h.plan(label)
	}
	h.up.Go(func() { e.work(takes, end) })
	return e, nil
}

// work does the errand, and ends one way or the other.
func (e *errand) work(takes time.Duration, end int) {
	defer e.stop()
	for range 3 {
		if !e.pause(takes / 3) {
			return
		}
		e.say(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
			TaskId: e.id, Artifact: &a2apb.Artifact{ArtifactId: mesh.NewEventID(), Parts: parts("did some")}}}}, working)
	}
	switch end {
	case 0, 1:
		e.move(a2apb.TaskState_TASK_STATE_FAILED, "no luck")
		return
	case 2:
		e.move(inputs, "May I?")
		select {
		case <-e.answered:
		case <-e.ctx.Done():
			e.ends()
			return
		}
		if !e.pause(takes) {
			return
		}
	case 3:
		e.h.mu.Lock()
		e.cut() // its process dies
		e.h.mu.Unlock()
	}
	if e.pause(0) {
		e.move(completed, "")
	}
}

// pause takes its time; false if the errand is over.
func (e *errand) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		if e.ctx.Err() == nil {
			return true
		}
	case <-e.ctx.Done():
	}
	e.ends()
	return false
}

// ends says that it was canceled, unless its process is gone.
func (e *errand) ends() {
	e.h.mu.Lock()
	lost := e.lost
	e.h.mu.Unlock()
	if !lost {
		e.move(canceled, "")
	}
}

func (e *errand) move(state mesh.TaskState, words string) {
	s := &a2apb.TaskStatus{State: state}
	update := &a2apb.TaskStatusUpdateEvent{TaskId: e.id, Status: s}
	if words != "" {
		s.Message = &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_AGENT, Parts: parts(words)}
	}
	if state == inputs {
		reason := &structpb.Struct{Fields: map[string]*structpb.Value{"reason": structpb.NewStringValue(mesh.ReasonApproval)}}
		update.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(reason)}}
	}
	e.say(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: update}}, state)
}

func (e *errand) say(r *a2apb.StreamResponse, state mesh.TaskState) {
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	if e.lost || mesh.Terminal(e.state) {
		return
	}
	e.said, e.state = append(e.said, r), state
	e.wake()
}

func (e *errand) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// cut ends it with its process. The mutex of the house is held.
func (e *errand) cut() {
	if e.lost {
		return
	}
	if e.lost = true; e.h.tasks[e.execution] == e {
		delete(e.h.tasks, e.execution)
	}
	e.stop()
	e.wake()
}

// cancel is CancelTask.
func (e *errand) cancel() {
	e.h.mu.Lock()
	e.told = true
	deaf := e.deaf
	e.h.mu.Unlock()
	if !deaf {
		e.stop()
	}
}

// task is the errand as A2A has it. The mutex of the house is held.
func (e *errand) task() *a2apb.Task {
	t := &a2apb.Task{Id: e.id, Status: &a2apb.TaskStatus{State: e.state}}
	for _, r := range e.said {
		if a := r.GetArtifactUpdate(); a != nil {
			t.Artifacts = append(t.Artifacts, a.Artifact)
		}
		if s := r.GetStatusUpdate(); s != nil {
			t.Status, t.Metadata = s.Status, s.Metadata
		}
	}
	if e.state == working {
		t.Status = &a2apb.TaskStatus{State: working}
	}
	return t
}

// A phone calls an agent from a process.
type phone struct {
	p     *process
	agent string
}

var _ call.Client = (*phone)(nil)

func (c *phone) SendMessage(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return nil, mesh.Errorf(mesh.Unsupported, "phone", "the agents stream")
}

func (c *phone) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		as, _ := mesh.CallFrom(ctx)
		if c.p.dead() || ctx.Err() != nil {
			yield(call.Response{}, killed())
			return
		}
		e := c.find(req.GetMessage().GetTaskId())
		from := 0
		if goesOn := req.GetMessage().GetTaskId() != ""; goesOn && e == nil && c.agent == "plain" {
			yield(call.Response{}, c.lost())
			return
		} else if !goesOn || e == nil {
			var err error
			if e, err = c.p.begin(c.p, c.agent, as.Execution, req.GetMessage()); err != nil {
				yield(call.Response{}, err)
				return
			}
		} else {
			c.p.house.mu.Lock()
			if from = len(e.said); e.state == inputs {
				e.state, e.wentOn = working, true
				close(e.answered)
			}
			c.p.house.mu.Unlock()
		}
		c.stream(ctx, e, from, yield)
	}
}

func (c *phone) SubscribeToTask(ctx context.Context, id string) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		e := c.find(id)
		if e == nil {
			yield(call.Response{}, c.lost())
			return
		}
		c.p.house.mu.Lock()
		from := len(e.said)
		c.p.house.mu.Unlock()
		c.stream(ctx, e, from, yield)
	}
}

// stream yields the task, and what is said of it from there on.
func (c *phone) stream(ctx context.Context, e *errand, from int, yield func(call.Response, error) bool) {
	h := c.p.house
	h.mu.Lock()
	t := e.task()
	if from == 0 {
		t = &a2apb.Task{Id: e.id, Status: &a2apb.TaskStatus{State: working}}
	}
	h.mu.Unlock()
	if !yield(call.Response{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: t}}}, nil) {
		return
	}
	for {
		h.mu.Lock()
		news, changed, lost := slices.Clone(e.said[min(from, len(e.said)):]), e.changed, e.lost
		rests := e.state != working
		h.mu.Unlock()
		for _, r := range news {
			from++
			if c.p.dead() || !yield(call.Response{StreamResponse: r}, nil) {
				return
			}
		}
		switch {
		case lost:
			yield(call.Response{}, away())
			return
		case rests && len(news) == 0:
			return
		case len(news) > 0:
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			yield(call.Response{}, mesh.Errorf(mesh.Canceled, "phone", "hung up: %w", ctx.Err()))
			return
		}
	}
}

func (c *phone) GetTask(_ context.Context, id string) (*a2apb.Task, error) {
	e := c.find(id)
	if e == nil {
		return nil, c.lost()
	}
	c.p.house.mu.Lock()
	defer c.p.house.mu.Unlock()
	return e.task(), nil
}

func (c *phone) CancelTask(_ context.Context, id string) error {
	e := c.find(id)
	if e == nil {
		return c.lost()
	}
	e.cancel()
	return nil
}

// find is the errand that the agent calls so; nil if it has none, or nobody asks.
func (c *phone) find(id string) *errand {
	if c.p.dead() {
		return nil
	}
	c.p.house.mu.Lock()
	defer c.p.house.mu.Unlock()
	for _, e := range c.p.tasks {
		if e.agent == c.agent && e.id == id {
			return e
		}
	}
	return nil
}

func (c *phone) lost() error {
	if c.p.dead() {
		return killed()
	}
	return mesh.Errorf(mesh.NotFound, "phone", "%s", fmt.Sprintf("%s has no such task", c.agent))
}

func parts(s string) []*a2apb.Part {
	return []*a2apb.Part{{Content: &a2apb.Part_Text{Text: s}}}
}

func use(id, name, args string) mesh.ToolUse {
	return mesh.ToolUse{ID: id, Name: name, Arguments: args}
}
