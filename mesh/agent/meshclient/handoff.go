package meshclient

import (
	"context"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// BeforeHandoff has sent called before the user's stream changes hands: it sends
// what the run has said and is not sent yet, and counts the artifact updates. It is
// set before the run begins.
func (c *Client) BeforeHandoff(sent func() int64) { c.sent = sent }

// Handoff returns the thread's last handoff, which may have ended.
func (c *Client) Handoff(ctx context.Context) (*meshv1.Handoff, error) {
	res, err := c.handoffs.GetHandoff(c.Context(ctx), &meshv1.GetHandoffRequest{ThreadId: c.grant.Thread})
	return res.GetHandoff(), failed("meshclient.Handoff", err)
}

// StartHandoff gives the user's stream to another agent, after all that the
// run has said so far. The thread is filled in. When it returns, the caller's run should end.
//
// It outlives a node that is started anew: see [Client.Handoff], which tells whether the
// stream has changed hands. A target that the new node does not know yet may be about to
// register again, as this agent was.
func (c *Client) StartHandoff(ctx context.Context, req *meshv1.StartHandoffRequest) (*meshv1.Handoff, error) {
	return c.changeHands(ctx, "meshclient.StartHandoff", func(sent int64) (*meshv1.Handoff, error) {
		req.ThreadId, req.UpdatesSent = c.grant.Thread, sent
		res, err := c.handoffs.StartHandoff(c.Context(ctx), req)
		return res.GetHandoff(), err
	}, func(h *meshv1.Handoff) bool {
		return h.GetEndedSeq() == 0 && h.GetSourceAgentId() == c.grant.Agent && h.GetTargetAgentId() == req.GetTargetAgent()
	})
}

// EndHandoff gives control back, after all that the run has said so far. The
// thread is filled in. It outlives a node that is started anew.
func (c *Client) EndHandoff(ctx context.Context, req *meshv1.EndHandoffRequest) (*meshv1.Handoff, error) {
	return c.changeHands(ctx, "meshclient.EndHandoff", func(sent int64) (*meshv1.Handoff, error) {
		req.ThreadId, req.UpdatesSent = c.grant.Thread, sent
		res, err := c.handoffs.EndHandoff(c.Context(ctx), req)
		return res.GetHandoff(), err
	}, func(h *meshv1.Handoff) bool { return h.GetEndedSeq() != 0 && h.GetTargetAgentId() == c.grant.Agent })
}

// fieldUpdates is the field of the node's refusal for updates that have not arrived.
const fieldUpdates = "updates_sent"

// returnTime is how long agents may take to register again with a node that was not there.
const returnTime = 30 * time.Second

// changeHands calls for a handoff to begin or to end. Neither may happen twice: where the
// answer was lost, the call is made again only if the thread does not have what it was for.
// A node that has waited for updates in vain, and was started anew meanwhile, got them in
// fewer, as the task that it took up has them.
func (c *Client) changeHands(ctx context.Context, op string, call func(sent int64) (*meshv1.Handoff, error), done func(*meshv1.Handoff) bool) (*meshv1.Handoff, error) {
	if err := c.Flush(ctx); err != nil {
		return nil, err
	}
	sent := c.sent()
	for wait := recordWait; ; wait = min(2*wait, restartMost) {
		h, err := call(sent)
		refusal := rpc.FromStatus(err)
		switch away := c.Away(returnTime); {
		case away && mesh.IsCode(refusal, mesh.Precondition) && mesh.FieldOf(refusal) == fieldUpdates && sent > 0:
			sent = 0
		case !gone(err) && (!away || !mesh.IsCode(refusal, mesh.NotFound)):
			return h, failed(op, err)
		}
		last, looked := c.Handoff(ctx) // which waits for the node
		if looked == nil && last != nil && done(last) {
			return last, nil
		}
		if looked != nil || ctx.Err() != nil {
			return nil, failed(op, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
