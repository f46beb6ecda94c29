package a2a

import (
	"context"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Bounds of the page_size of ListTasks (A2A v1.0 §3.1.4).
const (
	DefaultPageSize = 50
	MaxPageSize     = 100
)

// A Lister is a [Service] that can list tasks. Of one that is not, ListTasks is
// refused.
type Lister interface {
	// List returns a page of the tasks that the caller may see, in the order
	// and by the filters of A2A v1.0 §3.1.4. The request is valid and has a
	// page size. The tasks have as much history and artifacts as it says, and
	// are in the shape that the caller may see, as those of Updates are. A page
	// token that was not made for the caller and the filters is Invalid and
	// names page_token.
	List(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error)
}

// An Extender is a [Service] that has an extended agent card. Of one that is
// not, GetExtendedAgentCard is refused.
type Extender interface {
	// ExtendedCard returns the agent card for the caller, shared and read-only.
	ExtendedCard(ctx context.Context) (*a2apb.AgentCard, error)
}

// ListTasks returns a page of the caller's tasks.
func (s *server) ListTasks(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	const op = "a2a.ListTasks"
	call, err := s.admit(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	lister, ok := s.service.(Lister)
	if !ok {
		return nil, UnsupportedOperation(op, "Tasks are not listed here; read one with GetTask")
	}
	if err := checkList(op, req); err != nil {
		return nil, err
	}
	if req.PageSize == nil {
		req = proto.CloneOf(req)
		req.PageSize = proto.Int32(DefaultPageSize)
	}
	res, err := lister.List(ctx, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for i, t := range res.Tasks { // a page has one task at least, which may be of any size
		res.Tasks[i] = s.fit(call, t)
	}
	return res, mesh.Wrap(op, grpc.SetHeader(ctx, activated(call)))
}

func checkList(op string, req *a2apb.ListTasksRequest) error {
	if n := req.GetPageSize(); req.PageSize != nil && (n < 1 || n > MaxPageSize) {
		return mesh.InvalidField(op, "page_size", "must be 1 to %d, and is %d", MaxPageSize, n)
	}
	if err := checkHistory(op, "history_length", req.HistoryLength); err != nil {
		return err
	}
	if _, known := a2apb.TaskState_name[int32(req.GetStatus())]; !known {
		return mesh.InvalidField(op, "status", "must be a state such as TASK_STATE_WORKING, and is %d", req.GetStatus())
	}
	if ts := req.GetStatusTimestampAfter(); ts != nil && ts.CheckValid() != nil {
		return mesh.InvalidField(op, "status_timestamp_after", "must be a time such as 2026-01-31T12:00:00Z")
	}
	if n := len(req.GetContextId()); n > MaxID {
		return mesh.InvalidField(op, "context_id", "is %d bytes long; the limit is %d", n, MaxID)
	}
	return nil
}

// GetExtendedAgentCard returns the agent card for the caller, who is known by
// then (A2A v1.0 §3.1.11).
func (s *server) GetExtendedAgentCard(ctx context.Context, req *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	const op = "a2a.GetExtendedAgentCard"
	if _, err := s.admit(ctx, op, req.GetTenant()); err != nil {
		return nil, err
	}
	if !s.service.Capabilities().GetExtendedAgentCard() {
		return nil, UnsupportedOperation(op, "There is no extended agent card; use the public one")
	}
	extender, ok := s.service.(Extender)
	if !ok {
		return nil, &mesh.Error{Code: mesh.Precondition, Op: op, Reason: ReasonCardNotConfigured,
			Detail: "The extended agent card is not configured; use the public one"}
	}
	card, err := extender.ExtendedCard(ctx)
	return card, mesh.Wrap(op, err)
}
