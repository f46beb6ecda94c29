package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// An exchange is one message to the agent and all that came back.
type exchange struct {
	continues bool // it went on with a task
	streamed  bool
	answers   []*a2apb.StreamResponse // as the agent sent them, of its first call
	polls     int                     // how often its task was asked for
	err       error                   // of the last call that failed
	open      bool                    // the stream did not end with its last event

	last          mesh.TaskMoved // what the mesh takes for the end
	ended         bool           // there is one
	task, context string         // the agent's ids
	words         strings.Builder
	sent          string // what was said
}

// A turn is what an exchange begins with.
type turn struct {
	text   string
	stream bool
	remote call.Remote
	// heard, if it is set, is called with the agent's id of the task as soon as it is known.
	heard func(task string)
}

// exchange sends the message and reads the answer to its end, as the mesh does.
func (p *probe) exchange(ctx context.Context, t turn) *exchange {
	x := &exchange{continues: t.remote.GoesOn, streamed: t.stream, sent: t.text}
	execution := mesh.NewExecutionID(p.thread)
	msg := &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: t.text}}}}
	req := p.agent.Request(p.key(), execution, msg, t.remote)
	req.Unary, req.Agent, req.Logger = !t.stream, p.agent.Name, p.Logger
	x.task, x.context = req.RemoteTask, t.remote.Context
	ctx = p.as(ctx, execution)
	linger := lingerTime
	if p.told[kindOpen] {
		linger = 0
	}
	relay := call.Open(ctx, recorder{p.client, x, linger}, req, nil, nil)
	defer relay.Close()
	for b := range relay.Bodies() {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			for _, part := range b.Artifact.GetParts() {
				x.words.WriteString(part.GetText())
			}
		case mesh.TaskMoved:
			x.words.WriteString("\n" + mesh.TextOf(b.Message) + "\n")
			x.last, x.ended = b, b.State != a2apb.TaskState_TASK_STATE_WORKING
			x.task, x.context = cmp.Or(b.RemoteTask, x.task), cmp.Or(b.RemoteContext, x.context)
			if x.task == "" && !x.ended && call.Speaks(p.agent.Card) {
				x.task = string(execution) // so the mesh names it
			}
			if t.heard != nil && x.task != "" && !x.ended {
				t.heard(x.task)
				t.heard = nil
			}
		}
	}
	x.learn()
	if x.task != "" && len(x.answers) > 0 && !x.answered() { // whoever gives up has it stopped
		if err := call.End(context.WithoutCancel(ctx), p.client, execution, x.task, stopTime); err != nil {
			p.Logger.InfoContext(ctx, "task left running", "task", x.task, "err", err)
		}
	}
	return x
}

// learn takes the agent's ids from its answers, where the mesh need not tell them.
func (x *exchange) learn() {
	for _, resp := range x.answers {
		for _, of := range []interface {
			GetTaskId() string
			GetContextId() string
		}{resp.GetStatusUpdate(), resp.GetArtifactUpdate()} {
			x.task, x.context = cmp.Or(x.task, of.GetTaskId()), cmp.Or(x.context, of.GetContextId())
		}
		x.task, x.context = cmp.Or(x.task, resp.GetTask().GetId()), cmp.Or(x.context, resp.GetTask().GetContextId(), resp.GetMessage().GetContextId())
	}
}

// as is a context for a call of the agent, as the mesh calls it.
func (p *probe) as(ctx context.Context, x mesh.ExecutionID) context.Context {
	return mesh.WithCall(ctx, p.agent.As(p.key(), mesh.Execution{ID: x, User: testUser}, nil))
}

// stopTime is how long an agent may take to stop a task.
const stopTime = 5 * time.Second

// Under these the agent is called.
const (
	testTenant = mesh.TenantID("conformance")
	testUser   = "conformance"
)

func (p *probe) key() mesh.ThreadKey { return mesh.ThreadKey{Tenant: testTenant, ID: p.thread} }

// A recorder notes what an agent answers.
type recorder struct {
	call.Client
	x      *exchange
	linger time.Duration
}

func (r recorder) failed(err error) error {
	if err != nil {
		r.x.err = err
	}
	return err
}

func (r recorder) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	resp, err := r.Client.SendMessage(ctx, req)
	switch p := resp.GetPayload().(type) {
	case *a2apb.SendMessageResponse_Task:
		r.x.answers = append(r.x.answers, &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: p.Task}})
	case *a2apb.SendMessageResponse_Message:
		r.x.answers = append(r.x.answers, &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{Message: p.Message}})
	}
	return resp, r.failed(err)
}

func (r recorder) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	r.x.polls++
	t, err := r.Client.GetTask(ctx, task)
	return t, r.failed(err)
}

func (r recorder) SubscribeToTask(ctx context.Context, task string) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		for resp, err := range r.Client.SubscribeToTask(ctx, task) {
			if !yield(resp, r.failed(err)) {
				return
			}
		}
	}
}

// SendStreamingMessage reads on for a while when its caller has left: what the agent says
// after the end is not legal.
func (r recorder) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false
		var linger *time.Timer
		for resp, err := range r.Client.SendStreamingMessage(ctx, req) {
			if err == nil {
				r.x.answers = append(r.x.answers, resp.StreamResponse)
			}
			switch {
			case left && err != nil:
				r.x.open = ctx.Err() != nil
			case !left && !yield(resp, r.failed(err)):
				left = true
				linger = time.AfterFunc(r.linger, cancel)
			}
		}
		if linger != nil {
			linger.Stop()
		}
	}
}

// how says in a clause how the exchange ended well.
func (x *exchange) how() string {
	kind := "a message alone"
	if x.task != "" {
		kind = "a task, which is " + stateName(x.last.State)
	}
	if words := mesh.TextOf(x.last.Message); x.last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && words != "" {
		kind += fmt.Sprintf(" and asks %q", mesh.Clip(words, 80))
	}
	switch {
	case x.streamed:
		kind += fmt.Sprintf("; %d events", len(x.answers))
	case x.polls == 1:
		kind += "; it was asked for once"
	case x.polls > 0:
		kind += fmt.Sprintf("; it was asked for %d times", x.polls)
	}
	return kind
}

// stateName is a state as people know it.
func stateName(s a2apb.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

// good reports whether the mesh has an answer.
func (x *exchange) good() bool {
	return x.ended && x.last.Reason == "" && slices.Contains([]a2apb.TaskState{
		a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED}, x.last.State)
}

// answered reports whether the agent said how it ended, well or not.
func (x *exchange) answered() bool { return x.ended && x.last.Reason == "" }

// interrupted reports whether the caller of Test ended it.
func interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTooLate)
}

// next is how the following message of the conversation is sent: to the task if it asks,
// else in its context.
func (x *exchange) next() call.Remote {
	r := call.Remote{Context: x.context}
	if x.last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		r.Task, r.GoesOn = x.task, true
	}
	return r
}
