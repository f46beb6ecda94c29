package v03

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// final reports whether a stream of v0.3 ends with the state: the task is over,
// or it is the user's turn to speak.
func final(s mesh.TaskState) bool {
	return mesh.Terminal(s) || s == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
}

// A turn follows a stream of v1.0 to tell where it ends in v0.3.
type turn struct {
	task *a2apb.TaskStatusUpdateEvent // the last task that was sent, as a status
	over bool                         // a final event was sent
}

// saw takes note of what the client gets.
func (t *turn) saw(r *a2apb.StreamResponse) {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		t.task = &a2apb.TaskStatusUpdateEvent{TaskId: p.Task.GetId(), ContextId: p.Task.GetContextId(), Status: p.Task.GetStatus()}
	case *a2apb.StreamResponse_StatusUpdate:
		t.over = t.over || final(p.StatusUpdate.GetStatus().GetState())
	}
}

// ending returns the final event that a stream which ended well still lacks,
// or nil. It returns it once.
func (t *turn) ending() *a2apb.StreamResponse {
	if t.over || t.task == nil || !final(t.task.GetStatus().GetState()) {
		return nil
	}
	t.over = true
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: t.task}}
}

// turns is a connection to the node whose streams of A2A end where those of
// v0.3 do. Who opened such a stream must cancel its context when it is done.
type turns struct{ grpc.ClientConnInterface }

func (c turns) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, d, method, opts...)
	if err != nil {
		return nil, err
	}
	return &turnStream{ClientStream: s}, nil
}

// turnStream is read by one goroutine, as all streams are.
type turnStream struct {
	grpc.ClientStream
	turn turn
}

func (s *turnStream) RecvMsg(m any) error {
	out, ok := m.(*a2apb.StreamResponse)
	if !ok {
		return s.ClientStream.RecvMsg(m)
	}
	if s.turn.over {
		return io.EOF
	}
	err := s.ClientStream.RecvMsg(out)
	if err == nil {
		s.turn.saw(out)
		return nil
	}
	if errors.Is(err, io.EOF) {
		if last := s.turn.ending(); last != nil {
			proto.Merge(out, last)
			return nil
		}
	}
	return err
}
