package a2a

import (
	"context"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A Pusher keeps push notification configs and delivers by them (A2A v1.0
// §3.1.7 to §3.1.10, §4.3). Its methods may be called concurrently; the
// caller's identity is in [mesh.CallFrom] of ctx. A task that the caller may
// not see, and a config that does not exist, are [mesh.TaskNotFound].
type Pusher interface {
	// Create keeps the config, in place of one with the same id, and returns
	// it with the id that it has.
	Create(ctx context.Context, c *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error)
	Get(ctx context.Context, req *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error)
	List(ctx context.Context, req *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error)
	// Delete removes the config, and succeeds if there is none.
	Delete(ctx context.Context, req *a2apb.DeleteTaskPushNotificationConfigRequest) error

	// Check refuses a message whose configuration Attach would refuse, before
	// the message is taken.
	Check(ctx context.Context, req *a2apb.SendMessageRequest) error
	// Attach keeps the config that came with the message for the message's
	// task. A resend of the message attaches nothing new.
	Attach(ctx context.Context, req *a2apb.SendMessageRequest, acc *Accepted) error
}

// WithPusher offers push notifications; the Service's card should then say so.
// Without it they are refused as A2A v1.0 §3.3.4 asks for.
func WithPusher(p Pusher) Option { return func(s *server) { s.pusher = p } }

// send gives a checked message to the Service, and its push notification config
// to the Pusher. The message was taken also if the config could not be kept; a
// resend then tries again.
func (s *server) send(ctx context.Context, req *a2apb.SendMessageRequest) (*Accepted, error) {
	if req.GetConfiguration().GetTaskPushNotificationConfig() == nil {
		return s.service.Send(ctx, req)
	}
	if err := s.pusher.Check(ctx, req); err != nil {
		return nil, err
	}
	acc, err := s.service.Send(ctx, req)
	if err != nil || acc.Message != nil {
		return acc, err
	}
	return acc, s.pusher.Attach(ctx, req, acc)
}

// admitPush admits the caller, and refuses all when there is no Pusher, before
// anything is looked up.
func (s *server) admitPush(ctx context.Context, op, tenant string) (mesh.Call, error) {
	call, err := s.admit(ctx, op, tenant)
	if err == nil && s.pusher == nil {
		err = pushNotSupported(op)
	}
	return call, err
}

func (s *server) CreateTaskPushNotificationConfig(ctx context.Context, req *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	const op = "a2a.CreateTaskPushNotificationConfig"
	if _, err := s.admitPush(ctx, op, req.GetTenant()); err != nil {
		return nil, err
	}
	if err := checkPushIDs(op, req.GetTaskId(), req.GetId()); err != nil {
		return nil, err
	}
	c, err := s.pusher.Create(ctx, req)
	return c, mesh.Wrap(op, err)
}

func (s *server) GetTaskPushNotificationConfig(ctx context.Context, req *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	const op = "a2a.GetTaskPushNotificationConfig"
	call, err := s.admitPush(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := checkPushIDs(op, req.GetTaskId(), req.GetId()); err != nil {
		return nil, err
	}
	if req.GetId() == "" {
		return s.firstPush(ctx, op, call, req.GetTaskId())
	}
	c, err := s.pusher.Get(ctx, req)
	return c, mesh.Wrap(op, err)
}

// firstPush returns the config of the task that a call without an id means: in v0.3, which
// had one config for a task, the id may be missing.
func (s *server) firstPush(ctx context.Context, op string, call mesh.Call, task string) (*a2apb.TaskPushNotificationConfig, error) {
	if !call.PushV03 {
		return nil, mesh.InvalidField(op, "id", "is empty; name the config, or list those of the task")
	}
	all, err := s.pusher.List(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: task, PageSize: 1})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if len(all.GetConfigs()) == 0 {
		return nil, mesh.TaskNotFound(op)
	}
	return all.GetConfigs()[0], nil
}

func (s *server) ListTaskPushNotificationConfigs(ctx context.Context, req *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	const op = "a2a.ListTaskPushNotificationConfigs"
	if _, err := s.admitPush(ctx, op, req.GetTenant()); err != nil {
		return nil, err
	}
	if err := checkPushIDs(op, req.GetTaskId(), ""); err != nil {
		return nil, err
	}
	res, err := s.pusher.List(ctx, req)
	return res, mesh.Wrap(op, err)
}

func (s *server) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	const op = "a2a.DeleteTaskPushNotificationConfig"
	if _, err := s.admitPush(ctx, op, req.GetTenant()); err != nil {
		return nil, err
	}
	if err := checkPushIDs(op, req.GetTaskId(), req.GetId()); err != nil {
		return nil, err
	}
	if err := s.pusher.Delete(ctx, req); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &emptypb.Empty{}, nil
}

// checkPushIDs checks the id of a task, and the id of a config unless it is
// empty.
func checkPushIDs(op, task, id string) error {
	if task == "" {
		return mesh.InvalidField(op, "task_id", "is empty; name the task")
	}
	if err := checkID(op, "task_id", task); err != nil {
		return err
	}
	return checkID(op, "id", id)
}
