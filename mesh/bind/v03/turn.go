package v03

import (
	"context"

	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
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

// turns is a connection whose streams of A2A end where those of v0.3 do.
type turns struct{ rpc.Conn }

func (c turns) Stream(ctx context.Context, method string, in proto.Message, out rpc.Sink) error {
	t := &turnSink{Sink: out}
	err := c.Conn.Stream(ctx, method, in, t)
	if t.turn.over {
		return nil
	}
	if err == nil {
		if last := t.turn.ending(); last != nil {
			return out.Send(last, 0)
		}
	}
	return err
}

type turnSink struct {
	rpc.Sink
	turn turn
}

func (s *turnSink) Send(m proto.Message, seq int64) error {
	if err := s.Sink.Send(m, seq); err != nil {
		return err
	}
	if r, ok := m.(*a2apb.StreamResponse); ok {
		s.turn.saw(r)
	}
	if s.turn.over {
		return errOver
	}
	return nil
}
