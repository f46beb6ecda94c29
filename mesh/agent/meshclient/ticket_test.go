package meshclient_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/meshclient"
)

// A vault is a node that gives grants to whoever has the secret.
type vault struct {
	grpc.ClientConnInterface
	secret string
	asked  int
}

func (v *vault) Invoke(ctx context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	v.asked++
	if call, _ := mesh.CallFrom(ctx); call.Holder != v.secret {
		return status.Error(codes.Unauthenticated, "it is not yours")
	}
	reply.(*meshv1.RedeemTicketResponse).Grant = "grant"
	return nil
}

// An agent that is called while it registers anew, as after a restart of the node, waits for the
// secret that it is about to get; one that gets none is refused, and asks no more often.
func TestATicketIsRedeemedWithTheSecretThatIsToCome(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // it has the secret; 0 for never
		asked int
		fails bool
	}{"at once": {1, 1, false}, "soon": {time.Second, 2, false}, "never": {0, 1, true}, "too late": {time.Minute, 1, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, begin := &vault{secret: "new"}, time.Now().Add(-1)
				secret := func() string {
					if c.after > 0 && time.Since(begin) >= c.after {
						return "new"
					}
					return "old"
				}
				call, _, err := meshclient.Redeem(t.Context(), v, mesh.Call{TicketToken: "ticket"}, secret)
				if v.asked != c.asked || mesh.IsCode(err, mesh.Unauthenticated) != c.fails || !c.fails && call.GrantToken != "grant" {
					t.Errorf("asked %d times: %v, %v", v.asked, call.GrantToken, err)
				}
			})
		})
	}
}
