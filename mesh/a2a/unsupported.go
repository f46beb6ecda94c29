package a2a

import (
	"context"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/emptypb"
)

// What follows is refused with the errors that A2A v1.0 §3.3.4 asks for, before
// anything is looked up.

func (s *server) ListTasks(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	const op = "a2a.ListTasks"
	if _, err := s.admit(ctx, op, req.GetTenant(), mesh.TaskNotFound(op)); err != nil {
		return nil, err
	}
	return nil, UnsupportedOperation(op, "Tasks are not listed here; read one with GetTask")
}

func (s *server) GetExtendedAgentCard(ctx context.Context, req *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	const op = "a2a.GetExtendedAgentCard"
	if _, err := s.admit(ctx, op, req.GetTenant(), mesh.ThreadNotFound(op)); err != nil {
		return nil, err
	}
	card, err := s.service.Card(ctx)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if !card.GetCapabilities().GetExtendedAgentCard() {
		return nil, UnsupportedOperation(op, "There is no extended agent card; use the public one")
	}
	return nil, &mesh.Error{Code: mesh.Precondition, Op: op, Reason: ReasonCardNotConfigured,
		Detail: "The extended agent card is not configured; use the public one"}
}

func (s *server) refusePush(ctx context.Context, op, tenant string) error {
	if _, err := s.admit(ctx, op, tenant, mesh.TaskNotFound(op)); err != nil {
		return err
	}
	return pushNotSupported(op)
}

func (s *server) CreateTaskPushNotificationConfig(ctx context.Context, req *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	return nil, s.refusePush(ctx, "a2a.CreateTaskPushNotificationConfig", req.GetTenant())
}

func (s *server) GetTaskPushNotificationConfig(ctx context.Context, req *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	return nil, s.refusePush(ctx, "a2a.GetTaskPushNotificationConfig", req.GetTenant())
}

func (s *server) ListTaskPushNotificationConfigs(ctx context.Context, req *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	return nil, s.refusePush(ctx, "a2a.ListTaskPushNotificationConfigs", req.GetTenant())
}

func (s *server) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	return nil, s.refusePush(ctx, "a2a.DeleteTaskPushNotificationConfig", req.GetTenant())
}
