// Package mcp is the mesh as MCP clients call it: its skills as tools, over the
// services of the mesh, as whoever the context says calls.
//
// A call is a run of a skill (RunSkill), and so a turn of a thread with its log. What
// happens to it is told as it happens; a call that is cancelled cancels its task; and
// what a user answers to a question is a message of that user to the task.
//
// [Tools] may be used concurrently. What of this is MCP, package mesh/skill/mcp does.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"
)

const (
	// beginTime bounds how long a run may take to begin, and cancelTime to end.
	beginTime  = 30 * time.Second
	cancelTime = 30 * time.Second
)

// Tools is the skills of a mesh as an [mcp.Backend].
type Tools struct {
	skills meshv1.SkillServiceClient
	tasks  a2apb.A2AServiceClient
	// updates makes a call that answers with updates of a task.
	updates func(ctx context.Context, method string, in proto.Message, each func(*a2apb.StreamResponse) error) error
}

var _ mcp.Backend = (*Tools)(nil)

// InProcess returns the skills of the mesh that the connection leads to.
func InProcess(conn rpc.Conn) *Tools {
	t := of(conn)
	t.updates = func(ctx context.Context, method string, in proto.Message, each func(*a2apb.StreamResponse) error) error {
		return conn.Stream(ctx, method, in, sink(each))
	}
	return t
}

// Remote returns the skills of a mesh elsewhere.
func Remote(conn *grpc.ClientConn) *Tools {
	t := of(conn)
	t.updates = func(ctx context.Context, method string, in proto.Message, each func(*a2apb.StreamResponse) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
		if err == nil {
			err = errors.Join(stream.SendMsg(in), stream.CloseSend())
		}
		for err == nil {
			var u a2apb.StreamResponse
			if err = stream.RecvMsg(&u); err == nil {
				err = each(&u)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	return t
}

func of(conn grpc.ClientConnInterface) *Tools {
	return &Tools{skills: meshv1.NewSkillServiceClient(conn), tasks: a2apb.NewA2AServiceClient(conn)}
}

// A sink takes updates within the process.
type sink func(*a2apb.StreamResponse) error

// Header implements [rpc.Sink].
func (sink) Header(metadata.MD) error { return nil }

// Send implements [rpc.Sink].
func (s sink) Send(m proto.Message, _ int64) error {
	if u, ok := m.(*a2apb.StreamResponse); ok {
		return s(u)
	}
	return nil
}

// List implements [mcp.Backend].
func (t *Tools) List(ctx context.Context) ([]*skill.Skill, error) {
	return t.all(ctx, &meshv1.ListSkillsRequest{})
}

// Complete implements [mcp.Backend].
func (t *Tools) Complete(ctx context.Context, names []string) ([]*skill.Skill, error) {
	return t.all(ctx, &meshv1.ListSkillsRequest{Patterns: names, WithSource: true})
}

// all returns the skills on all pages.
func (t *Tools) all(ctx context.Context, req *meshv1.ListSkillsRequest) ([]*skill.Skill, error) {
	var all []*skill.Skill
	for {
		res, err := t.skills.ListSkills(ctx, req)
		if err != nil {
			return nil, rpc.FromStatus(err)
		}
		for _, s := range res.GetSkills() {
			all = append(all, skilltools.SkillOf(s))
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// Run implements [mcp.Backend].
func (t *Tools) Run(ctx context.Context, call *mcp.Call) (*mcp.Outcome, error) {
	const op = "mcp.Run"
	arguments, err := structpb.NewStruct(call.Args)
	if err != nil {
		return nil, mesh.InvalidField(op, "arguments", "have no JSON form: %v", err)
	}
	req := &meshv1.RunSkillRequest{Name: call.Skill, Arguments: arguments, RequestId: call.RequestID, Source: mesh.SourceMCP, ReturnImmediately: true}
	// It begins, or not, whatever becomes of ctx: then it is known what to cancel.
	beginning, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTime)
	defer cancel()
	ran, err := t.skills.RunSkill(beginning, req)
	if err != nil {
		return nil, rpc.FromStatus(err)
	}
	if err := t.watch(ctx, ran, call); err == nil {
		req.ReturnImmediately = false
		ran, err = t.skills.RunSkill(ctx, req)
		if err != nil && ctx.Err() == nil {
			return nil, rpc.FromStatus(err)
		}
	}
	if ctx.Err() != nil {
		return nil, t.cancel(ctx, ran)
	}
	return outcome(ran), nil
}

// watch follows the run until nothing more happens to it by itself, and answers its
// question if that is the one that the user was asked. The error is that of ctx.
func (t *Tools) watch(ctx context.Context, ran *meshv1.RunSkillResponse, call *mcp.Call) error {
	method, in := a2apb.A2AService_SubscribeToTask_FullMethodName, proto.Message(&a2apb.SubscribeToTaskRequest{Id: ran.GetTaskId()})
	switch state := ran.GetState(); {
	case mesh.Terminal(state):
		return nil
	case mesh.Interrupted(state):
		if call.Reply == "" || mcp.QuestionID(ran.GetContent()) != call.ReplyTo {
			return nil
		}
		method, in = a2apb.A2AService_SendStreamingMessage_FullMethodName, reply(ran, call)
	}
	// A stream that breaks tells no more; RunSkill waits all the same.
	_ = t.updates(ctx, method, in, func(u *a2apb.StreamResponse) error {
		if s := u.GetStatusUpdate(); s != nil && call.Progress != nil && s.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_WORKING {
			progress(s, call.Progress)
		}
		if state, ok := a2a.StateOf(u); ok && (mesh.Terminal(state) || mesh.Interrupted(state)) {
			return errRests // a subscription goes on while the user is asked
		}
		return nil
	})
	return ctx.Err()
}

// errRests ends a stream of which nothing more is wanted.
var errRests = errors.New("nothing more happens by itself")

// reply is the user's answer as a message to the task: the same one however often it
// is given.
func reply(ran *meshv1.RunSkillResponse, call *mcp.Call) proto.Message {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{
		MessageId: fmt.Sprintf("reply-%s-%s", call.ReplyTo, mcp.QuestionID(ran.GetTaskId())), TaskId: ran.GetTaskId(), ContextId: ran.GetThreadId(),
		Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{a2a.TextPart(call.Reply)},
	}}
}

// progress tells what an update says of how far the task is.
func progress(u *a2apb.TaskStatusUpdateEvent, to func(skill.Progress)) {
	p := skill.Progress{Text: a2a.TextOf(u.GetStatus().GetMessage())}
	ext := a2a.Extension(u.GetMetadata()).GetFields()
	p.Done, p.Total = ext[a2a.KeyStep].GetNumberValue(), ext[a2a.KeySteps].GetNumberValue()
	if p.Text != "" || p.Done > 0 {
		to(p)
	}
}

// cancel cancels the task of the run, whose caller has gone away, and returns why.
func (t *Tools) cancel(ctx context.Context, ran *meshv1.RunSkillResponse) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, err := t.tasks.CancelTask(ending, &a2apb.CancelTaskRequest{Id: ran.GetTaskId()})
	if err = rpc.FromStatus(err); err != nil && !mesh.IsCode(err, mesh.Precondition) { // it was over before
		return mesh.Errorf(mesh.CodeOf(err), "mcp.cancel", "the run goes on as task %s, which could not be cancelled: %w", ran.GetTaskId(), err)
	}
	return mesh.Errorf(mesh.Canceled, "mcp.Run", "the call was cancelled: %w", ctx.Err())
}

// outcome tells what came of a run.
func outcome(ran *meshv1.RunSkillResponse) *mcp.Outcome {
	out := &mcp.Outcome{Text: ran.GetContent(), Files: ran.GetFiles(), Parts: ran.GetParts(), Metadata: ran.GetMetadata().AsMap(), Task: ran.GetTaskId()}
	if mesh.Interrupted(ran.GetState()) {
		out.Asks, out.Text, out.Approval = ran.GetContent(), "", ran.GetAsksApproval()
		return out
	}
	out.Failed = ran.GetState() != a2apb.TaskState_TASK_STATE_COMPLETED
	return out
}
