package meshclient_test

import (
	"context"
	"errors"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/meshclient"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// flaky is a connection to a node that dies with a call, and has carried it out before, or not.
type flaky struct {
	grpc.ClientConnInterface
	method  string
	carried bool
	calls   int
}

func (f *flaky) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if method != f.method {
		return f.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if f.calls++; f.calls > 1 {
		return f.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	gone := status.Error(codes.Unavailable, "the connection broke")
	if f.carried {
		if err := f.ClientConnInterface.Invoke(ctx, method, args, reply, opts...); err != nil {
			return errors.Join(err, gone)
		}
	}
	return gone
}

// A handoff begins and ends once, whether the node died before it did or after: it is called
// for again only where the thread does not have it.
func TestAHandoffIsCalledForOnceAlsoWhereTheNodeDies(t *testing.T) {
	for name, carried := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			n, g := agenttest.NewNode(t), agenttest.NewGrant()
			addr, _ := n.Serve(t, nil)
			client := func(method string) (*meshclient.Client, *flaky) {
				f := &flaky{ClientConnInterface: agenttest.Dial(t, addr), method: method, carried: carried}
				m, err := meshclient.New(f, n.Call(g))
				if err != nil {
					t.Fatal(err)
				}
				return m, f
			}
			want := map[bool]int{false: 2, true: 1}[carried]
			m, f := client(meshv1.HandoffService_StartHandoff_FullMethodName)
			h, err := m.StartHandoff(t.Context(), &meshv1.StartHandoffRequest{TargetAgent: "builder", Reason: "build"})
			if err != nil || h.GetTargetAgentId() != "builder" || h.GetEndedSeq() != 0 || f.calls != want {
				t.Errorf("begun: %v, %v after %d calls, want %d", h, err, f.calls, want)
			}
			m, f = client(meshv1.HandoffService_EndHandoff_FullMethodName)
			h, err = m.EndHandoff(t.Context(), &meshv1.EndHandoffRequest{Summary: "built"})
			if err != nil || h.GetResultSummary() != "built" || f.calls != want {
				t.Errorf("ended: %v, %v after %d calls, want %d", h, err, f.calls, want)
			}
		})
	}
}
