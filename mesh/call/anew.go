package call

import (
	"context"
	"errors"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text"
)

// errRefusedPlainly is in the chain when an agent's server said "not found" or "bad
// request" without words of A2A.
var errRefusedPlainly = errors.New("refused with HTTP status 400 or 404")

// refusesContext reports whether the agent has refused a message for a reason that may be
// its context. What an agent has refused so, it has not begun. Its words do not matter.
func refusesContext(err error) bool {
	if errors.Is(err, errRefusedPlainly) || errors.Is(err, a2a.ErrTaskNotFound) || errors.Is(err, a2a.ErrInvalidParams) {
		return true
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.NotFound && st.Code() != codes.InvalidArgument {
		return false
	}
	var e *mesh.Error
	errors.As(rpc.FromStatus(err), &e)
	switch e.Reason { // which says of others with the same code that it is something else
	case "", a2a.ErrorReason(a2a.ErrTaskNotFound), a2a.ErrorReason(a2a.ErrInvalidParams):
		return true
	}
	return false
}

// sendAnew sends the message that the agent has refused once more, in a new context and
// after what it was told and said in the one that it had. It returns how that ended.
func (c *call) sendAnew(ctx context.Context, req Request, refusal error) error {
	before, err := req.Recall(ctx)
	if err != nil {
		return refusal
	}
	c.tell([]mesh.Body{mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonReplaced, Message: mesh.Say(text.AgentToldAgain())}})
	if c.over(ctx) {
		return refusal
	}
	req.Message = proto.CloneOf(req.Message)
	req.Message.ContextId = ""
	if before != "" {
		req.Message.Parts = append([]*a2apb.Part{{Content: &a2apb.Part_Text{Text: before}}}, req.Message.Parts...)
	}
	c.reader.req = req
	return c.send(ctx, req)
}
