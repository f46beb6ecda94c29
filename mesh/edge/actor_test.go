package edge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/grant"
)

// A directory is an edge.Directory that knows what it is told.
type directory struct {
	mu     sync.Mutex
	agents map[string]registry.Entry
	down   []string // names that were reported
}

func (d *directory) Resolve(_ mesh.TenantID, name string) (registry.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.agents[name]
	switch {
	case !ok:
		return e, mesh.Errorf(mesh.NotFound, "directory", "no agent is called %q", name)
	case !e.Live:
		return e, mesh.Errorf(mesh.Unavailable, "directory", "%s is not live", name)
	}
	return e, nil
}

func (d *directory) List(_ mesh.TenantID, f registry.Filter) (all []registry.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.agents {
		if f.Match(e) {
			all = append(all, e)
		}
	}
	return all
}

func (d *directory) ReportDown(e registry.Entry, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = append(d.down, e.Name)
}

func (d *directory) reported() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.down...)
}

// A vouch believes what the metadata says, and grants of the signer.
type vouch struct{ v *grant.Verifier }

func (a vouch) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	p := mesh.Principal{Tenant: c.Tenant, User: c.User}
	if c.Ticket != "" {
		g, err := a.v.CheckTicket(c.Ticket)
		if err != nil {
			return p, err
		}
		p = mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g, Ticket: true}
	}
	return p, nil
}

// An actor is an agent on a real gRPC server that plays what a test wrote.
type actor struct {
	a2apb.UnimplementedA2AServiceServer
	w     *world
	name  string
	play  func(*scene)
	stop  func()
	plays atomic.Int64

	mu       sync.Mutex
	scenes   map[string]*scene // by task, the last of each
	canceled []string          // tasks that it was asked to cancel
	obeys    bool              // ends a task that is canceled
	doubted  bool              // is not trusted
}

// An as changes how an actor appears.
type as func(*actor, *a2apb.AgentCard)

// foreign is an agent that does not know our extension.
func foreign(_ *actor, c *a2apb.AgentCard) { c.Capabilities.Extensions = nil }

// untrusted is an agent that a user registered, of whom the operator knows nothing.
func untrusted(a *actor, _ *a2apb.AgentCard) { a.doubted = true }

// deaf is an agent that does not react to CancelTask.
func deaf(a *actor, _ *a2apb.AgentCard) { a.obeys = false }

// agent starts an agent that plays the script for each message.
func (w *world) agent(name string, play func(*scene), opts ...as) *actor {
	w.t.Helper()
	yes := true
	card := &a2apb.AgentCard{Name: "The " + name, Capabilities: &a2apb.AgentCapabilities{
		Streaming: &yes, Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}}}
	a := &actor{w: w, name: name, play: play, scenes: map[string]*scene{}, obeys: true}
	for _, o := range opts {
		o(a, card)
	}
	l := rpctest.Listen(w.t)
	srv := rpc.NewServer(rpc.Options{Auth: vouch{w.verifier}})
	a2apb.RegisterA2AServiceServer(srv, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }() // stop waits
	a.stop = func() { srv.Stop(); <-done }
	w.t.Cleanup(a.stop)
	w.dir.mu.Lock()
	defer w.dir.mu.Unlock()
	w.dir.agents[name] = registry.Entry{Name: name, Card: card, Endpoint: l.Addr().String(), Live: true, Trusted: !a.doubted}
	return a
}

// A scene is one message to an actor, and the stream of its answer.
type scene struct {
	*actor
	ctx    context.Context
	call   mesh.Call
	msg    *a2apb.Message
	task   string
	stream grpc.ServerStreamingServer[a2apb.StreamResponse]
	begun  bool
	err    error         // with which the stream ends
	cancel chan struct{} // closed by CancelTask
	once   sync.Once
}

func (a *actor) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	ctx := stream.Context()
	call, _ := mesh.CallFrom(ctx)
	n := a.plays.Add(1)
	s := &scene{actor: a, ctx: ctx, call: call, msg: req.Message, task: req.Message.TaskId, stream: stream, cancel: make(chan struct{})}
	if s.task == "" {
		s.task = string(call.Execution)
		if call.Principal.Grant == nil {
			s.task = fmt.Sprintf("%s-%d", a.name, n)
		}
	}
	a.mu.Lock()
	a.scenes[s.task] = s
	a.mu.Unlock()
	a.play(s)
	return s.err
}

func (a *actor) CancelTask(_ context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	a.mu.Lock()
	a.canceled = append(a.canceled, req.Id)
	s := a.scenes[req.Id]
	a.mu.Unlock()
	if s == nil {
		return nil, mesh.TaskNotFound("actor")
	}
	if a.obeys {
		s.once.Do(func() { close(s.cancel) })
	}
	return &a2apb.Task{Id: req.Id, Status: &a2apb.TaskStatus{State: canceled}}, nil
}

func (a *actor) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.canceled...)
}

func (s *scene) send(r *a2apb.StreamResponse) { _ = s.stream.Send(r) }

// begin sends the task, which comes first, with the artifacts that it has.
func (s *scene) begin(state mesh.TaskState, artifacts ...string) {
	s.begun = true
	t := &a2apb.Task{Id: s.task, ContextId: s.msg.ContextId, Status: &a2apb.TaskStatus{State: state}}
	for _, a := range artifacts {
		t.Artifacts = append(t.Artifacts, &a2apb.Artifact{ArtifactId: a, Parts: text("whole " + a)})
	}
	s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: t}})
}

func (s *scene) ensure() {
	if !s.begun {
		s.begin(working)
	}
}

// put sends a piece of an artifact.
func (s *scene) put(artifact, words string, add bool) {
	s.ensure()
	s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: s.task, ContextId: s.msg.ContextId, Append: add,
		Artifact: &a2apb.Artifact{ArtifactId: artifact, Parts: text(words)}}}})
}

// say puts words into the artifact "answer".
func (s *scene) say(words string) { s.put("answer", words, false) }

// move sends a status, with words if there are any.
func (s *scene) move(state mesh.TaskState, words string) {
	s.ensure()
	st := &a2apb.TaskStatus{State: state}
	if words != "" {
		st.Message = &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_AGENT, Parts: text(words)}
	}
	s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: s.task, ContextId: s.msg.ContextId, Status: st}}})
}

func (s *scene) answer(words string) { s.say(words); s.move(completed, "") }

// hang waits until the caller leaves or cancels; then the task is canceled.
func (s *scene) hang() {
	s.ensure()
	if !s.until(nil) {
		s.move(canceled, "")
	}
}

// until waits for ch; false if the caller left or canceled before.
func (s *scene) until(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-s.cancel:
	case <-s.ctx.Done():
	}
	return false
}

func (s *scene) text() string { return textOf(s.msg.Parts) }

// told returns the data of that name that the mesh sent along.
func (s *scene) told(name string) *structpb.Struct {
	return s.msg.Metadata.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()[name].GetStructValue()
}

// give hands the user's stream over to the target.
func (s *scene) give(target string, sent int64) error {
	_, err := s.w.any().handoffs.Start(s.ctx, s.call.Principal.Grant, handoff.Start{Target: target, Reason: "because", Summary: "what was said", PreserveState: true, ReturnExpected: true, UpdatesSent: sent})
	return err
}

// giveBack ends the handoff.
func (s *scene) giveBack(summary string, sent int64) error {
	g := s.call.Principal.Grant
	_, err := s.w.any().handoffs.End(s.ctx, g.Key(), mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}, handoff.End{Summary: summary, UpdatesSent: sent})
	return err
}

// must ends the scene's task as failed if err is not nil, which the test sees.
func (s *scene) must(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.move(failed, "script: "+err.Error())
	}
}

// logged waits until a piece with the words is in the log.
func (s *scene) logged(words string) {
	for ev, err := range s.w.log.Follow(s.ctx, s.w.key(), 0, 0) {
		if err != nil {
			return
		}
		if a, ok := ev.Body.(mesh.ArtifactAppended); ok && textOf(a.Artifact.Parts) == words {
			return
		}
	}
}

// breaks ends the stream as a dead server does.
func (s *scene) breaks() { s.ensure(); s.err = status.Error(codes.Unavailable, "gone") }

func text(s string) []*a2apb.Part {
	return []*a2apb.Part{{Content: &a2apb.Part_Text{Text: s}}}
}

func textOf(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.GetText())
	}
	return b.String()
}
