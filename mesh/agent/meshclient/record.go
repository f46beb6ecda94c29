package meshclient

import (
	"context"
	"maps"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

// Record retries a node that cannot be reached, or a lost race, this often, waiting longer each
// time: about five seconds in all.
const (
	recordTries = 7
	recordWait  = 50 * time.Millisecond
)

// Record appends events of this execution to the thread: all or none, after
// those of earlier calls. It fills in what is empty of ID, Time, Execution and
// Actor, so that recording the same events again adds nothing, and does so
// itself while the node is unavailable, or others write so much to the thread
// that it loses to them. It returns the signed grants of the
// executions that the events dispatched.
func (c *Client) Record(ctx context.Context, events ...*mesh.Event) (map[mesh.ExecutionID]string, error) {
	req := &meshv1.AppendEventsRequest{ThreadId: c.grant.Thread}
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, e := range events {
		c.fill(e)
		req.Events = append(req.Events, eventpb.EventToProto(e))
	}
	res, err := c.append(ctx, req)
	if err != nil {
		return nil, failed("meshclient.Record", err)
	}
	grants := make(map[mesh.ExecutionID]string, len(res.GetGrants()))
	for id, token := range maps.All(res.GetGrants()) {
		grants[mesh.ExecutionID(id)] = token
	}
	return grants, nil
}

func (c *Client) fill(e *mesh.Event) {
	if e.ID == "" {
		e.ID = mesh.NewEventID()
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC().Truncate(time.Millisecond)
	}
	if e.Execution == "" {
		e.Execution = c.grant.Execution
	}
	if e.Actor == "" {
		e.Actor = "agent:" + c.grant.Agent
	}
}

func (c *Client) append(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	wait := recordWait
	for try := 1; ; try++ {
		res, err := c.threads.AppendEvents(c.Context(ctx), req)
		err = failed("meshclient.append", err)
		retry := mesh.IsCode(err, mesh.Unavailable) || mesh.IsCode(err, mesh.Conflict)
		if !retry || try == recordTries {
			return res, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// Note keeps the agent's own workflow state in the thread: JSON of at most
// mesh.MaxState bytes, which Noted returns.
func (c *Client) Note(ctx context.Context, data []byte) error {
	if len(data) > mesh.MaxState {
		return mesh.InvalidField("meshclient.Note", "data", "is %d bytes long; the limit is %d", len(data), mesh.MaxState)
	}
	_, err := c.Record(ctx, &mesh.Event{Body: mesh.StateNoted{Agent: c.grant.Agent, Data: data}})
	return mesh.Wrap("meshclient.Note", err)
}
