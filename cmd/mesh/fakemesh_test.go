package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/skill"
)

// A fakeMesh behaves like a small mesh: it has threads with logs, tasks with
// streams that resume from a cursor, agents, skills and handoffs. What its
// agents do depends on a word in the message; see plan.
type fakeMesh struct {
	a2apb.UnimplementedA2AServiceServer
	meshv1.UnimplementedThreadServiceServer
	meshv1.UnimplementedHandoffServiceServer
	meshv1.UnimplementedRegistryServiceServer

	listener *breakable
	running  sync.WaitGroup
	stopped  chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	logs    map[mesh.ThreadKey]*fakeLog
	tasks   map[string]*fakeTask
	posted  map[string]string // message id to task id
	agents  map[string]*meshv1.Agent
	sends   int
	broken  map[string]bool // words whose connection was broken once

	library *skill.Library
}

// fakeLog is a thread. Each event may have an update of a task.
type fakeLog struct {
	events  []*meshv1.Event
	updates []*a2apb.StreamResponse
	handoff *meshv1.Handoff
}

type fakeTask struct {
	key      mesh.ThreadKey
	id       string
	state    mesh.TaskState
	text     string
	cancel   context.CancelFunc
	cursor   mesh.Seq // of the last message
	question string   // the plan that waits for an answer
}

// breakable is a listener whose connections can be cut.
type breakable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	deaf  bool
}

func (b *breakable) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if !b.deaf {
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			return conn, nil
		}
		b.mu.Unlock()
		_ = conn.Close()
	}
}

// cut breaks all connections; with deaf, new ones are refused too.
func (b *breakable) cut(deaf bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deaf = deaf
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
}

// startMesh serves a fake mesh on loopback and returns it with its address.
// Without a cleanup of t's nothing of it is left.
func startMesh(t testing.TB, auth rpc.Authenticator) (*fakeMesh, string) {
	f := &fakeMesh{
		listener: &breakable{Listener: rpctest.Listen(t)}, stopped: make(chan struct{}), changed: make(chan struct{}),
		logs: map[mesh.ThreadKey]*fakeLog{}, tasks: map[string]*fakeTask{}, posted: map[string]string{},
		agents: fakeAgents(), broken: map[string]bool{}, library: fakeSkills(t),
	}
	srv := rpc.NewServer(rpc.Options{Auth: auth, Authorizer: roles(authz.Node())})
	a2apb.RegisterA2AServiceServer(srv, f)
	meshv1.RegisterThreadServiceServer(srv, f)
	meshv1.RegisterHandoffServiceServer(srv, f)
	meshv1.RegisterRegistryServiceServer(srv, f)
	meshv1.RegisterSkillServiceServer(srv, api.NewSkills(f.library, fakeRunner{f}, api.WithBreakers(fakeBreakers(t))))
	meshv1.RegisterAccessServiceServer(srv, api.NewAccess(authz.Node().Explain, nil))
	f.running.Go(func() { _ = srv.Serve(f.listener) })
	t.Cleanup(func() {
		close(f.stopped)
		srv.Stop()
		f.running.Wait()
	})
	return f, f.listener.Addr().String()
}

// log returns the thread, which it makes if asked to.
func (f *fakeMesh) log(key mesh.ThreadKey, create bool) (*fakeLog, error) {
	l := f.logs[key]
	if l == nil && !create {
		return nil, mesh.ThreadNotFound("fake")
	}
	if l == nil {
		l = &fakeLog{}
		f.logs[key] = l
	}
	return l, nil
}

// epoch is when a fake thread begins; each event is a second later.
var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// append adds an event, and the update that the task's readers get for it.
func (f *fakeMesh) append(t *fakeTask, ev *meshv1.Event, u *a2apb.StreamResponse, ext map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, _ := f.log(t.key, true)
	ev.Seq = int64(len(l.events) + 1)
	ev.Time = timestamppb.New(epoch.Add(time.Duration(ev.Seq) * time.Second))
	if ev.ExecutionId == "" {
		ev.ExecutionId = t.id
	}
	l.events = append(l.events, ev)
	if u != nil {
		ext["seq"] = float64(ev.Seq)
		inner, err := structpb.NewStruct(ext)
		if err != nil {
			panic(err)
		}
		md := &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(inner)}}
		if s := u.GetStatusUpdate(); s != nil {
			s.TaskId, s.ContextId, s.Metadata = t.id, t.key.ID, md
			t.state = s.GetStatus().GetState()
		}
		if a := u.GetArtifactUpdate(); a != nil {
			a.TaskId, a.ContextId, a.Metadata = t.id, t.key.ID, md
		}
	}
	l.updates = append(l.updates, u)
	close(f.changed)
	f.changed = make(chan struct{})
}

func keyOf(ctx context.Context) mesh.ThreadKey {
	call, _ := mesh.CallFrom(ctx)
	return mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: call.Thread}
}

// accept makes a message known: a new task, the answer to one, or a resend.
func (f *fakeMesh) accept(ctx context.Context, msg *a2apb.Message) (*fakeTask, error) {
	call, _ := mesh.CallFrom(ctx)
	if !call.Extended() || msg.GetContextId() != call.Thread {
		return nil, mesh.InvalidField("fake", "thread-id", "must be sent with the extension")
	}
	f.mu.Lock()
	f.sends++
	if id, ok := f.posted[msg.GetMessageId()]; ok {
		defer f.mu.Unlock()
		return f.tasks[id], nil
	}
	t := cmp.Or(f.tasks[msg.GetTaskId()], f.left(keyOf(ctx), msg))
	if msg.GetTaskId() != "" && (t == nil || t.key != keyOf(ctx)) {
		f.mu.Unlock()
		return nil, mesh.TaskNotFound("fake")
	}
	text := partsText(msg.GetParts())
	plan := text
	fresh := t == nil
	if fresh {
		t = &fakeTask{key: keyOf(ctx), text: text,
			id: fmt.Sprintf("%s-%016x", strings.ReplaceAll(call.Thread, "-", ""), len(f.tasks)+1)}
		f.tasks[t.id] = t
	} else {
		plan = t.question
	}
	run, cancel := context.WithCancel(context.Background())
	t.cancel, t.state = cancel, a2apb.TaskState_TASK_STATE_WORKING
	f.posted[msg.GetMessageId()] = t.id
	f.mu.Unlock()

	if fresh {
		f.append(t, &meshv1.Event{Actor: "user:" + call.Principal.User, Body: &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{
			Execution: &meshv1.Execution{Id: t.id, Kind: "turn", Agent: "main", Text: text}}}}, nil, nil)
	}
	f.append(t, &meshv1.Event{Actor: "user:" + call.Principal.User, Body: &meshv1.Event_MessagePosted{
		MessagePosted: &meshv1.MessagePosted{User: call.Principal.User, Message: msg}}}, nil, nil)
	f.mu.Lock()
	t.cursor = mesh.Seq(len(f.logs[t.key].events))
	f.mu.Unlock()
	f.running.Go(func() {
		defer cancel()
		f.plan(run, t, plan, text)
	})
	return t, nil
}

func (f *fakeMesh) task(t *fakeTask, seq mesh.Seq) *a2apb.Task {
	inner, _ := structpb.NewStruct(map[string]any{"seq": float64(seq)})
	return &a2apb.Task{Id: t.id, ContextId: t.key.ID, Status: &a2apb.TaskStatus{State: t.state},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(inner)}}}
}

// stateAt is the state of the task at the Seq: that of its last update until
// then, unless a later message set it to work again.
func (f *fakeMesh) stateAt(t *fakeTask, at mesh.Seq) mesh.TaskState {
	state := a2apb.TaskState_TASK_STATE_WORKING
	l := f.logs[t.key]
	for i, u := range l.updates[:min(int(at), len(l.updates))] {
		if s := u.GetStatusUpdate(); s != nil && s.GetTaskId() == t.id {
			state = s.GetStatus().GetState()
		}
		if l.events[i].GetExecutionId() == t.id && l.events[i].GetMessagePosted() != nil {
			state = a2apb.TaskState_TASK_STATE_WORKING
		}
	}
	return state
}

func (f *fakeMesh) SendStreamingMessage(req *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	t, err := f.accept(s.Context(), req.GetMessage())
	if err != nil {
		return err
	}
	if strings.Contains(t.text, "unheard") && f.once("unheard"+t.id) {
		f.listener.cut(false)
		return mesh.Errorf(mesh.Unavailable, "fake", "cut")
	}
	f.mu.Lock()
	after := t.cursor
	f.mu.Unlock()
	return f.stream(s, t, after, true)
}

func (f *fakeMesh) SubscribeToTask(req *a2apb.SubscribeToTaskRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	call, _ := mesh.CallFrom(s.Context())
	f.mu.Lock()
	t := f.tasks[req.GetId()]
	f.mu.Unlock()
	if t == nil || t.key != keyOf(s.Context()) || !call.HasCursor {
		return mesh.TaskNotFound("fake")
	}
	return f.stream(s, t, call.AfterSeq, false)
}

// stream sends the task as it was at the Seq and its updates after it, as the
// edge does, however far the task is by now.
func (f *fakeMesh) stream(s grpc.ServerStreamingServer[a2apb.StreamResponse], t *fakeTask, after mesh.Seq, turn bool) error {
	f.mu.Lock()
	task := f.task(t, after)
	task.Status.State = f.stateAt(t, after)
	f.mu.Unlock()
	first := &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}
	if err := s.Send(first); err != nil {
		return err
	}
	for {
		f.mu.Lock()
		l, wake := f.logs[t.key], f.changed
		var news []*a2apb.StreamResponse
		for ; int(after) < len(l.updates); after++ {
			if u := l.updates[after]; u != nil && taskOf(u) == t.id {
				news = append(news, u)
			}
		}
		f.mu.Unlock()
		for _, u := range news {
			if err := s.Send(u); err != nil {
				return err
			}
			if strings.Contains(u.GetArtifactUpdate().String(), "CUT") && f.once(t.id) {
				f.listener.cut(false)
			}
			state := u.GetStatusUpdate().GetStatus().GetState()
			if mesh.Terminal(state) || turn && state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
				return nil
			}
		}
		select {
		case <-wake:
		case <-s.Context().Done():
			return s.Context().Err()
		case <-f.stopped:
			return mesh.Errorf(mesh.Unavailable, "fake", "shutting down")
		}
	}
}

func taskOf(u *a2apb.StreamResponse) string {
	return u.GetStatusUpdate().GetTaskId() + u.GetArtifactUpdate().GetTaskId()
}

// once reports whether it was not asked about the word before.
func (f *fakeMesh) once(word string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.broken[word]
	f.broken[word] = true
	return !was
}

func (f *fakeMesh) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	t, err := f.accept(ctx, req.GetMessage())
	if err != nil {
		return nil, err
	}
	if req.GetConfiguration().GetReturnImmediately() {
		f.mu.Lock()
		defer f.mu.Unlock()
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: f.task(t, 1)}}, nil
	}
	if err := f.await(ctx, func() bool { return mesh.Terminal(t.state) || mesh.Interrupted(t.state) }); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	whole := f.task(t, 1)
	var text strings.Builder
	var data []*a2apb.Artifact
	for _, u := range f.logs[t.key].updates {
		if taskOf(u) == t.id {
			if art := u.GetArtifactUpdate().GetArtifact(); art.GetName() != "" {
				data = append(data, art)
			} else {
				text.WriteString(partsText(art.GetParts()))
			}
			if s := u.GetStatusUpdate(); s != nil {
				whole.Status = s.GetStatus()
			}
		}
	}
	whole.Artifacts = append([]*a2apb.Artifact{{ArtifactId: "response", Parts: textParts(text.String())}}, data...)
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: whole}}, nil
}

// await waits for a condition, which is asked under the lock.
func (f *fakeMesh) await(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, wake := ok(), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-f.stopped:
			return mesh.Errorf(mesh.Unavailable, "fake", "shutting down")
		}
	}
}

func (f *fakeMesh) GetTask(ctx context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[req.GetId()]
	if t == nil || t.key != keyOf(ctx) {
		return nil, mesh.TaskNotFound("fake")
	}
	return f.task(t, 1), nil
}

func (f *fakeMesh) CancelTask(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	f.mu.Lock()
	t := f.tasks[req.GetId()]
	f.mu.Unlock()
	if t == nil || t.key != keyOf(ctx) {
		return nil, mesh.TaskNotFound("fake")
	}
	t.cancel()
	if err := f.await(ctx, func() bool { return mesh.Terminal(t.state) }); err != nil {
		return nil, err
	}
	return f.GetTask(ctx, &a2apb.GetTaskRequest{Id: t.id})
}

func textParts(text string) []*a2apb.Part {
	return []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}
}

// roles authorizes by the table alone.
type roles authz.Table

func (r roles) Authorize(ctx context.Context, p mesh.Principal, method string, _ any) (string, error) {
	return "", authz.Table(r).Authorize(ctx, p, method)
}
