package node

import (
	"context"
	"net/http"

	"agentmesh/mesh/bind/v03"
	"agentmesh/mesh/rpc"
	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// registerA2A registers the A2A service in both versions.
func (n *node) registerA2A(server *rpc.Server, v10 a2apb.A2AServiceServer) {
	a2apb.RegisterA2AServiceServer(server, v10)
	legacypb.RegisterA2AServiceServer(server, v03.NewServer(v10, n.issuer.plain, !on(n.cfg.A2A.V03Blocking)))
}

// v03 returns the handlers for clients of A2A v0.3 over HTTP: of JSON-RPC, and
// of paths below /v1/. Their streams end when ctx does.
func (n *node) v03(ctx context.Context, conn rpc.Conn) (rpcs, rest http.Handler, err error) {
	opts := v03.Options{ReturnEarly: !on(n.cfg.A2A.V03Blocking), PlainRefusals: n.cfg.A2A.PlainRefusals, Logger: n.logger}
	if rpcs, err = v03.NewJSONRPC(ctx, conn, opts); err != nil {
		return nil, nil, err
	}
	rest, err = v03.NewREST(ctx, conn, opts)
	return rpcs, rest, err
}
