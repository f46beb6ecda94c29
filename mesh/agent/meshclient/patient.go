package meshclient

import (
	"context"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// RestartTime is how long a run waits for its node to be there again, which may be
// restarting: what the run does goes on then, under the same grant.
const RestartTime = 60 * time.Second

const restartMost = time.Second // between two tries

// patient calls the node again while that is not there.
type patient struct {
	grpc.ClientConnInterface
	client *Client
}

// Invoke implements grpc.ClientConnInterface.
func (p patient) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if once(method) {
		err := p.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
		if gone(err) {
			p.client.away.Store(time.Now().UnixMilli())
		}
		return err
	}
	begun := time.Now()
	for wait := recordWait; ; wait = min(2*wait, restartMost) {
		err := p.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
		if !gone(err) || ctx.Err() != nil || time.Since(begun) > RestartTime {
			return err
		}
		p.client.away.Store(time.Now().UnixMilli())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		if call, ok := mesh.CallFrom(ctx); ok && call.Holder != "" { // it may have registered anew
			call.Holder = p.client.secret()
			ctx = mesh.WithCall(ctx, call)
		}
	}
}

// Away reports whether the node was not there at some time within the last d: agents that
// it does not know may be about to register again.
func (c *Client) Away(d time.Duration) bool { return time.Since(time.UnixMilli(c.away.Load())) < d }

// once reports whether the method may do something twice that is called again: whoever calls
// it looks first.
func once(method string) bool {
	switch method {
	case meshv1.HandoffService_StartHandoff_FullMethodName, meshv1.HandoffService_EndHandoff_FullMethodName,
		meshv1.SkillService_CreateSkill_FullMethodName, meshv1.StateService_PutState_FullMethodName:
		return true
	}
	return false
}

// gone reports whether nobody answered, or a node that was started anew and does not know
// the agent yet, which is about to register again.
func gone(err error) bool {
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unavailable {
		return len(st.Details()) == 0 // what the node itself says has some
	}
	return stranger(err)
}

// stranger reports whether the node does not know the secret of the agent.
func stranger(err error) bool {
	err = rpc.FromStatus(err)
	return mesh.IsCode(err, mesh.Unauthenticated) && mesh.FieldOf(err) == rpc.KeyHolder
}
