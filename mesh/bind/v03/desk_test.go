package v03_test

import (
	"context"
	"iter"
	"strings"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// A desk is a task service in memory. What a message says decides what comes of
// it: "ask" asks back, "slow" leaves the task to the test, "file" answers with
// parts of all kinds, and anything else is repeated word by word.
type desk struct {
	mu   sync.Mutex
	card *a2apb.AgentCard
	// extended is the extended card, if there is one.
	extended *a2apb.AgentCard
	jobs     map[string]*job // by tenant and task id
	sent     map[string]string
	changed  chan struct{}
}

type job struct {
	id, thread string
	history    []*a2apb.Message
	updates    []*a2apb.StreamResponse
}

func newDesk() *desk {
	return &desk{jobs: map[string]*job{}, sent: map[string]string{}, changed: make(chan struct{}), card: &a2apb.AgentCard{
		Name: "desk", Description: "Repeats what it is told.", Version: "1.0.0",
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: "http://desk.test", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"},
			{Url: "http://desk.test/v03", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"}},
		Capabilities:      &a2apb.AgentCapabilities{Streaming: proto.Bool(true), PushNotifications: proto.Bool(true)},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SecuritySchemes: map[string]*a2apb.SecurityScheme{"bearer": {Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{
			HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Scheme: "bearer"}}}},
		SecurityRequirements: []*a2apb.SecurityRequirement{{Schemes: map[string]*a2apb.StringList{"bearer": {}}}},
		Skills:               []*a2apb.AgentSkill{{Id: "echo", Name: "Echo", Description: "repeats", Tags: []string{"echo"}}},
	}}
}

// more appends to a task and wakes whoever follows it.
func (d *desk) more(j *job, updates ...*a2apb.StreamResponse) {
	j.updates = append(j.updates, updates...)
	close(d.changed)
	d.changed = make(chan struct{})
}

// let writes to a task of tenant a as its agent does.
func (d *desk) let(id string, f func(*job) []*a2apb.StreamResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs["a/"+id]
	d.more(j, f(j)...)
}

func (j *job) status(state mesh.TaskState, says string) *a2apb.StreamResponse {
	s := &a2apb.TaskStatus{State: state}
	if says != "" {
		s.Message = a2a.NewMessage(a2apb.Role_ROLE_AGENT, says)
		s.Message.MessageId = "status"
	}
	return a2a.StatusResponse(&a2apb.TaskStatusUpdateEvent{TaskId: j.id, ContextId: j.thread, Status: s})
}

func (j *job) piece(first bool, parts ...*a2apb.Part) *a2apb.StreamResponse {
	return a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{TaskId: j.id, ContextId: j.thread, Append: !first,
		Artifact: &a2apb.Artifact{ArtifactId: "response", Parts: parts}})
}

func (j *job) say(words ...string) []*a2apb.StreamResponse {
	out := []*a2apb.StreamResponse{}
	for i, w := range words {
		out = append(out, j.piece(i == 0, a2a.TextPart(w)))
	}
	return out
}

func (j *job) task() *a2apb.Task {
	t := &a2apb.Task{Id: j.id, ContextId: j.thread, History: j.history, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_SUBMITTED}}
	for _, u := range j.updates {
		if s := u.GetStatusUpdate(); s != nil {
			t.Status = s.Status
			continue
		}
		if len(t.Artifacts) == 0 {
			t.Artifacts = []*a2apb.Artifact{{ArtifactId: "response"}}
		}
		t.Artifacts[0].Parts = append(t.Artifacts[0].Parts, u.GetArtifactUpdate().GetArtifact().GetParts()...)
	}
	return t
}

// allParts are the kinds of parts that v1.0 has.
func allParts() []*a2apb.Part {
	list, _ := structpb.NewValue([]any{1, "two", nil})
	object, _ := structpb.NewValue(map[string]any{"k": "v"})
	return []*a2apb.Part{
		{Content: &a2apb.Part_Text{Text: "text"}},
		{Content: &a2apb.Part_Raw{Raw: []byte{0, 1, 0xff}}, Filename: "f.bin", MediaType: "application/octet-stream"},
		{Content: &a2apb.Part_Url{Url: "http://x.test/f"}, Filename: "f", MediaType: "text/plain"},
		{Content: &a2apb.Part_Data{Data: object}},
		{Content: &a2apb.Part_Data{Data: list}},
	}
}

func (d *desk) Capabilities() *a2apb.AgentCapabilities { return d.card.GetCapabilities() }

func tenantOf(ctx context.Context) string {
	call, _ := mesh.CallFrom(ctx)
	return string(call.Principal.Tenant)
}

func (d *desk) Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := req.GetMessage()
	resend := tenantOf(ctx) + "/" + m.GetMessageId()
	if id, ok := d.sent[resend]; ok {
		j := d.jobs[tenantOf(ctx)+"/"+id]
		return &a2a.Accepted{Task: j.task(), Cursor: mesh.Seq(len(j.updates))}, nil
	}
	j := d.jobs[tenantOf(ctx)+"/"+m.GetTaskId()]
	if j == nil {
		if m.GetTaskId() != "" {
			return nil, mesh.TaskNotFound("desk")
		}
		thread := mesh.NewThreadID()
		j = &job{id: string(mesh.NewExecutionID(thread)), thread: thread}
		d.jobs[tenantOf(ctx)+"/"+j.id] = j
	}
	d.sent[resend] = j.id
	if len(j.history) > 0 { // it goes on
		d.more(j, j.status(a2apb.TaskState_TASK_STATE_WORKING, ""))
	}
	j.history = append(j.history, m)
	acc := &a2a.Accepted{Task: j.task(), Cursor: mesh.Seq(len(j.updates))}
	said := ""
	for _, p := range m.GetParts() {
		said += p.GetText()
	}
	working, done := j.status(a2apb.TaskState_TASK_STATE_WORKING, ""), j.status(a2apb.TaskState_TASK_STATE_COMPLETED, "")
	switch said {
	case "ask":
		d.more(j, working, j.status(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, "Which one?"))
	case "slow":
		d.more(j, working)
	case "file":
		d.more(j, j.piece(true, allParts()...), done)
	default:
		d.more(j, append(append([]*a2apb.StreamResponse{working}, j.say(strings.SplitAfter(said, " ")...)...), done)...)
	}
	return acc, nil
}

func (d *desk) find(ctx context.Context, id string) (*job, error) {
	if j := d.jobs[tenantOf(ctx)+"/"+id]; j != nil {
		return j, nil
	}
	return nil, mesh.TaskNotFound("desk")
}

func (d *desk) Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j, err := d.find(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	return j.task(), mesh.Seq(len(j.updates)), nil
}

func (d *desk) Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	task, seq, err := d.Task(ctx, id)
	if err == nil {
		task.Artifacts = nil
	}
	return task, seq, err
}

func (d *desk) Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	call, _ := mesh.CallFrom(ctx)
	return func(yield func(a2a.Update, error) bool) {
		for {
			d.mu.Lock()
			j, err := d.find(ctx, id)
			if err != nil {
				d.mu.Unlock()
				yield(a2a.Update{}, err)
				return
			}
			updates, changed := j.updates[after:], d.changed
			over := mesh.Terminal(j.task().Status.State)
			d.mu.Unlock()
			for _, u := range updates {
				after++
				if call.Extended() || call.WantSeq {
					u = proto.CloneOf(u)
					if s := u.GetStatusUpdate(); s != nil {
						s.Metadata = a2a.SetSeq(s.Metadata, after)
					} else {
						u = a2a.WithSeq(u, after)
					}
				}
				if !yield(a2a.Update{Seq: after, Response: u}, nil) {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(a2a.Update{}, ctx.Err())
				return
			}
		}
	}
}

func (d *desk) Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j, err := d.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if mesh.Terminal(j.task().Status.State) {
		return nil, a2a.NotCancelable("desk")
	}
	d.more(j, j.status(a2apb.TaskState_TASK_STATE_CANCELED, ""))
	return j.task(), nil
}
