package call

import (
	"context"
	"errors"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text"
)

// refusesContext reports whether the agent has refused a message for a reason that may be
// its context. What an agent has refused so, it has not begun. Its words do not matter.
func refusesContext(err error) bool {
	if err == nil {
		return false
	}
	var e *mesh.Error
	if !errors.As(rpc.FromStatus(err), &e) || e.Code != mesh.NotFound && e.Code != mesh.Invalid {
		return false
	}
	switch e.Reason { // which says of others with the same code that it is something else
	case "", ReasonTaskNotFound, ReasonNotFound, reasonParams:
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
