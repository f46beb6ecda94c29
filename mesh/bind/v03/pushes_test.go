package v03_test

import (
	"context"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// pushes keeps push notification configs in memory and sends none.
type pushes struct {
	desk *desk
	mu   sync.Mutex
	kept []*a2apb.TaskPushNotificationConfig
}

func newPushes(d *desk) *pushes { return &pushes{desk: d} }

func (p *pushes) Create(ctx context.Context, c *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	if _, _, err := p.desk.Task(ctx, c.GetTaskId()); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Id == "" {
		c.Id = "c1"
	}
	p.kept = append(p.kept, c)
	return c, nil
}

func (p *pushes) Get(_ context.Context, req *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.kept {
		if c.GetTaskId() == req.GetTaskId() && c.GetId() == req.GetId() {
			return c, nil
		}
	}
	return nil, mesh.TaskNotFound("pushes")
}

func (p *pushes) List(_ context.Context, req *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &a2apb.ListTaskPushNotificationConfigsResponse{}
	for _, c := range p.kept {
		if c.GetTaskId() == req.GetTaskId() {
			out.Configs = append(out.Configs, c)
		}
	}
	return out, nil
}

func (p *pushes) Delete(_ context.Context, req *a2apb.DeleteTaskPushNotificationConfigRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.kept {
		if c.GetTaskId() == req.GetTaskId() && c.GetId() == req.GetId() {
			p.kept = append(p.kept[:i], p.kept[i+1:]...)
			return nil
		}
	}
	return nil
}

func (p *pushes) Check(context.Context, *a2apb.SendMessageRequest) error { return nil }

func (p *pushes) Attach(_ context.Context, req *a2apb.SendMessageRequest, acc *a2a.Accepted) error {
	c := req.GetConfiguration().GetTaskPushNotificationConfig()
	c.TaskId = acc.Task.GetId()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, c)
	return nil
}
