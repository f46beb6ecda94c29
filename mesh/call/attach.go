package call

import (
	"context"
	"errors"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// begin sends the message, or takes up the task that the agent has. It returns how that
// ended, as send does.
func (c *call) begin(ctx context.Context, req Request) error {
	if req.Attach == nil {
		return c.send(ctx, req)
	}
	c.attached = true
	var err error = mesh.Errorf(mesh.NotFound, "call.begin", "the agent has no task that we know of: %w", errForgotten)
	c.reader.recall(req.Attach.Had)
	if c.reader.task != "" {
		err = c.resume(ctx, err)
	}
	if !errors.Is(err, errForgotten) && !c.leaves(err) || !req.Attach.Again || c.over(ctx) {
		return err
	}
	req.Attach = nil
	c.reader = newReader(req)
	return c.send(ctx, req)
}

// noteLost says whether the call ended because the agent, or its task, was lost.
func (c *call) noteLost(err error) {
	r := c.reader
	if r.req.lost != nil && (r.seen || c.attached) && !r.done && (errors.Is(err, errForgotten) || mesh.IsCode(rpc.FromStatus(err), mesh.Unavailable)) {
		r.req.lost.Store(true)
	}
}

// recall takes in what was read of the task before, by whomever.
func (r *reader) recall(had []mesh.Body) {
	r.begun, r.seen = true, true
	for _, b := range had {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			r.known[b.Artifact.GetArtifactId()] = true
			r.count(b.Artifact, b.Append)
		case mesh.TaskMoved:
			r.said[b.Message.GetMessageId()] = true
		}
	}
}
