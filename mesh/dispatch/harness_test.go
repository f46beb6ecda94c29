package dispatch_test

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/api/apitest"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// listen serves on a loopback port until the test ends.
func listen(t testing.TB, srv interface {
	Serve(net.Listener) error
	Stop()
}) (addr string, stop func()) {
	t.Helper()
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	stop = sync.OnceFunc(func() { srv.Stop(); <-done })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// A mission is what an agent of these tests is asked, and how it answers.
type mission struct {
	ctx    context.Context
	text   string
	msg    *a2apb.Message
	md     metadata.MD
	stream grpc.ServerStreamingServer[a2apb.StreamResponse]
	crash  func() // ends the agent's process, so to say
}

func (m *mission) send(r *a2apb.StreamResponse) error { return m.stream.Send(r) }

func (m *mission) say(text string) error {
	return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: "remote", Artifact: &a2apb.Artifact{ArtifactId: mesh.NewEventID(), Parts: parts(text)}}}})
}

func (m *mission) end(state mesh.TaskState, words string) error {
	s := &a2apb.TaskStatus{State: state}
	if words != "" {
		s.Message = &a2apb.Message{MessageId: "end", Role: a2apb.Role_ROLE_AGENT, Parts: parts(words)}
	}
	return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{TaskId: "remote", Status: s}}})
}

// endFor ends with a reason for programs.
func (m *mission) endFor(state mesh.TaskState, reason string) error {
	said := &structpb.Struct{Fields: map[string]*structpb.Value{"reason": structpb.NewStringValue(reason)}}
	return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "remote", Status: &a2apb.TaskStatus{State: state},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(said)}}}}})
}

// ask waits for the user's approval.
func (m *mission) ask(words string) error {
	reason := &structpb.Struct{Fields: map[string]*structpb.Value{"reason": structpb.NewStringValue(mesh.ReasonApproval)}}
	return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId:   "remote",
		Status:   &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_AGENT, Parts: parts(words)}},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(reason)}}}}})
}

func (m *mission) done(text string) error {
	if err := m.say(text); err != nil {
		return err
	}
	return m.end(a2apb.TaskState_TASK_STATE_COMPLETED, "")
}

func parts(s string) []*a2apb.Part {
	return []*a2apb.Part{{Content: &a2apb.Part_Text{Text: s}}}
}

// An actor is an agent with a server of its own.
type actor struct {
	a2apb.UnimplementedA2AServiceServer
	act      func(*mission) error
	stop     func()
	canceled chan string // ids of the tasks that were to be canceled
	has      *a2apb.Task // that it can be asked for, or nil
}

func (a *actor) GetTask(_ context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if a.has == nil {
		return nil, status.Error(codes.NotFound, "no such task")
	}
	return a.has, nil
}

func (a *actor) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	m := &mission{ctx: stream.Context(), msg: req.Message, md: md, stream: stream, crash: func() { go a.stop() }}
	for _, p := range req.Message.GetParts() {
		m.text += p.GetText()
	}
	task := &a2apb.Task{Id: "remote", ContextId: req.Message.ContextId, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	if err := m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	return a.act(m)
}

func (a *actor) CancelTask(_ context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	a.canceled <- req.Id
	return &a2apb.Task{Id: req.Id, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_CANCELED}}, nil
}

// A world is a node of a few services, agents, and the log of what happens.
type world struct {
	meshv1.UnimplementedThreadServiceServer
	meshv1.UnimplementedRegistryServiceServer
	meshv1.UnimplementedSkillServiceServer
	meshv1.UnimplementedGrantServiceServer

	t      testing.TB
	log    *threadlog.Log
	states *cache.States
	signer *grant.Signer
	conn   *grpc.ClientConn
	pool   *rpc.Pool
	skills []string
	inner  map[string]*meshv1.Agent // in no list
	ours   bool                     // agents that are made speak our extension
	refuse func(*mesh.Event) bool   // what the log does not take
	deny   func(*mesh.Event) error  // what the node does not let happen, or nil
	page   int                      // events that are read at a time

	mu     sync.Mutex
	agents map[string]*meshv1.Agent
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, log: threadlog.New(mem.Open()), agents: map[string]*meshv1.Agent{}, skills: []string{"tasks.search", "mail.send"}, page: 3} // so that there are several pages
	w.states = cache.New(w.log, 0)
	var err error
	if w.signer, err = grant.NewSigner(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	verifier, err := grant.NewVerifier(w.signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.Options{Auth: auth.None(verifier)})
	meshv1.RegisterThreadServiceServer(srv, w)
	meshv1.RegisterRegistryServiceServer(srv, w)
	meshv1.RegisterSkillServiceServer(srv, w)
	meshv1.RegisterGrantServiceServer(srv, w)
	addr, _ := listen(t, srv)
	if w.conn, err = rpc.Dial(addr, rpc.DialOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pool = rpc.NewPool(rpc.DialOptions{})
	t.Cleanup(func() { _ = w.conn.Close(); _ = w.pool.Close() })
	return w
}

// agent adds an agent with the skills that acts as the function says.
func (w *world) agent(name string, act func(*mission) error, skills ...string) *actor {
	w.t.Helper()
	a := &actor{act: act, canceled: make(chan string, 64)}
	srv := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(srv, a)
	addr, stop := listen(w.t, srv)
	a.stop = stop
	card := &a2apb.AgentCard{Name: name, Description: "Does " + name + ".", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}}
	if w.ours {
		card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}
	}
	for _, s := range skills {
		card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: s, Tags: []string{name}})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agents[name] = &meshv1.Agent{Name: name, Card: card, Endpoint: addr, Live: true}
	return a
}

func (w *world) ListAgents(context.Context, *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resp := &meshv1.ListAgentsResponse{}
	for _, name := range slices.Sorted(maps.Keys(w.agents)) {
		resp.Agents = append(resp.Agents, w.agents[name])
	}
	return resp, nil
}

func (w *world) GetAgent(_ context.Context, req *meshv1.GetAgentRequest) (*meshv1.GetAgentResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := cmp.Or(w.agents[req.GetName()], w.inner[req.GetName()]); a != nil {
		return &meshv1.GetAgentResponse{Agent: a}, nil
	}
	return nil, status.Error(codes.NotFound, "there is no such agent")
}

func (w *world) ListSkills(context.Context, *meshv1.ListSkillsRequest) (*meshv1.ListSkillsResponse, error) {
	resp := &meshv1.ListSkillsResponse{}
	for _, s := range w.skills {
		resp.Skills = append(resp.Skills, &meshv1.Skill{Name: s})
	}
	return resp, nil
}

func (w *world) AppendEvents(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	g := call.Principal.Grant
	resp := &meshv1.AppendEventsResponse{Tickets: map[string]string{}}
	var events []*mesh.Event
	for _, p := range req.Events {
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			return nil, err
		}
		if w.deny != nil {
			if err := w.deny(e); err != nil {
				return nil, err
			}
		}
		if w.refuse != nil && w.refuse(e) {
			return nil, mesh.Errorf(mesh.Precondition, "world.AppendEvents", "the disk is full")
		}
		if b, ok := e.Body.(mesh.DispatchIssued); ok {
			child, err := grant.Narrow(g, b.Child, b.Child.Agent, b.Child.Skills, time.Now())
			if err != nil {
				return nil, err
			}
			resp.Tickets[string(b.Child.ID)] = w.signer.Ticket(child, time.Now())
		}
		if b, ok := e.Body.(mesh.TaskMoved); ok && (b.Reason == mesh.ReasonDelivered || b.Reason == mesh.ReasonContinued) {
			child, err := w.renew(ctx, g, e.Execution)
			if err != nil {
				return nil, err
			}
			resp.Tickets[string(e.Execution)] = w.signer.Ticket(child, time.Now())
		}
		events = append(events, e)
	}
	err := w.states.Decide(ctx, g.Key(), func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: events}, nil
	})
	return resp, err
}

func (w *world) RedeemTicket(ctx context.Context, _ *meshv1.RedeemTicketRequest) (*meshv1.RedeemTicketResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	return &meshv1.RedeemTicketResponse{Grant: w.signer.Issue(*call.Principal.Grant)}, nil
}

func (w *world) renew(ctx context.Context, g *mesh.Grant, id mesh.ExecutionID) (child mesh.Grant, err error) {
	err = w.states.With(ctx, g.Key(), func(s *thread.State) error {
		x := s.Execution(id)
		child, err = grant.Renew(g, x.Execution, x.Started, time.Now())
		return err
	})
	return child, err
}

func (w *world) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	after, most := mesh.Seq(0), math.MaxInt32
	onward := !req.GetTail() && req.GetBeforeSeq() == 0
	if onward { // as a node does, which reads no more than it is asked for
		after, most = mesh.Seq(req.GetAfterSeq()), w.page+1
	}
	events, err := w.log.Read(ctx, call.Principal.Grant.Key(), after, most)
	all := make([]*meshv1.Event, len(events))
	for i, e := range events {
		all[i] = eventpb.EventToProto(e)
	}
	if onward {
		req = &meshv1.ReadThreadRequest{}
	}
	return apitest.Page(all, req, w.page), err
}

func (w *world) GetThread(ctx context.Context, req *meshv1.GetThreadRequest) (*meshv1.GetThreadResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	resp := &meshv1.GetThreadResponse{Thread: &meshv1.Thread{ThreadId: req.ThreadId}}
	return resp, w.states.With(ctx, call.Principal.Grant.Key(), func(s *thread.State) error {
		for _, x := range s.Executions() {
			resp.Thread.Executions = append(resp.Thread.Executions, &meshv1.ExecutionState{Execution: eventpb.ExecutionToProto(x.Execution), State: x.State, SkillCalls: int32(x.SkillCalls)})
		}
		return nil
	})
}

// orchestrator opens a conversation in which the agent orchestrator works, and
// returns its invocation.
func (w *world) orchestrator() *agent.Invocation {
	w.t.Helper()
	key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
	turn, exec := mesh.NewExecutionID(key.ID), mesh.NewExecutionID(key.ID)
	err := w.states.Decide(w.t.Context(), key, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{
			{Execution: turn, Actor: "user:ann", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "orchestrator", User: "ann"}}},
			{Execution: turn, Actor: "node", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: exec, Parent: turn, Kind: mesh.KindAgent, Agent: "orchestrator", User: "ann"}}},
		}}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	g := &mesh.Grant{Tenant: key.Tenant, User: "ann", Thread: key.ID, Execution: exec, Parent: turn, Turn: turn, Agent: "orchestrator",
		Chain: []mesh.Actor{{Agent: "orchestrator"}}, Skills: []string{"*"}, Depth: 2, Expires: time.Now().Add(time.Hour).Unix()}
	m, err := meshclient.New(w.conn, mesh.Call{Principal: mesh.Principal{Tenant: key.Tenant, User: "ann", Grant: g}, GrantToken: w.signer.Issue(*g)})
	if err != nil {
		w.t.Fatal(err)
	}
	return &agent.Invocation{Execution: exec, Thread: key, User: "ann", Grant: g, Mesh: m}
}

// dispatcher is one for a new conversation, closed when the test ends.
func (w *world) dispatcher(o dispatch.Options) (*dispatch.Dispatcher, *agent.Invocation) {
	inv := w.orchestrator()
	d := dispatch.New(w.t.Context(), inv, w.pool, o)
	w.t.Cleanup(d.Close)
	return d, inv
}

// state is what the conversation adds up to.
func (w *world) state(inv *agent.Invocation) *thread.State {
	w.t.Helper()
	_ = inv.Mesh.Flush(context.Background()) // of an execution that is over it fails
	events, err := w.log.Read(context.Background(), inv.Thread, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return thread.Fold(events)
}

// bodies are those of the log that the function takes.
func bodies[B mesh.Body](w *world, inv *agent.Invocation) []B {
	w.t.Helper()
	_ = inv.Mesh.Flush(context.Background()) // of an execution that is over it fails
	events, err := w.log.Read(context.Background(), inv.Thread, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// run dispatches a batch and waits for all of it.
func run(t testing.TB, d *dispatch.Dispatcher, batch ...dispatch.Order) map[string]dispatch.Result {
	t.Helper()
	for _, err := range d.Dispatch(t.Context(), batch) {
		t.Fatal(err)
	}
	return wait(t, d)
}

func wait(t testing.TB, d *dispatch.Dispatcher, ids ...string) map[string]dispatch.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := d.Wait(ctx, ids)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]dispatch.Result{}
	for _, r := range got {
		out[r.AgentID] = r
	}
	return out
}

// receive waits for what must come.
func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// order asks the agent worker.
func order(id string, after ...string) dispatch.Order {
	return dispatch.Order{AgentID: id, Name: "worker", Mission: "do " + id, DependsOn: after}
}

// idOf is the order's id in its mission "do ID".
func idOf(m *mission) string {
	first, _, _ := strings.Cut(m.text, "\n")
	return strings.TrimPrefix(first, "do ")
}
