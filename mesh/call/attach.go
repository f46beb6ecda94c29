package call

import (
	"context"
	"errors"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

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
	switch {
	case c.reader.task == "":
	case req.Attach.Answers && c.unanswered(ctx):
		req.Attach = nil
		c.reader = newReader(req)
		return c.send(ctx, req)
	default:
		err = c.resume(ctx, err)
	}
	if !errors.Is(err, errForgotten) && !c.leaves(err) || !req.Attach.Again || c.over(ctx) {
		return err
	}
	req.Attach = nil
	c.reader = newReader(req)
	return c.send(ctx, req)
}

// unanswered reports whether the agent waits for the user with words that were read before.
func (c *call) unanswered(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	task, err := c.agent.GetTask(ctx, c.reader.task)
	st := task.GetStatus()
	id := st.GetMessage().GetMessageId()
	return err == nil && st.GetState() == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && id != "" && c.reader.said[id]
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
