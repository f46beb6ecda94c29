package rest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// hop is the connection to the services. It sends exactly the metadata that the
// request was admitted with, whatever else is in the context.
type hop struct{ rpc.Conn }

func (h hop) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	return h.Conn.Invoke(outgoing(ctx), method, in, out, opts...)
}

func (h hop) Known(ctx context.Context) (mesh.Principal, error) {
	return h.Conn.Known(outgoing(ctx))
}

func (h hop) Stream(ctx context.Context, method string, in proto.Message, out rpc.Sink) error {
	return h.Conn.Stream(outgoing(ctx), method, in, out)
}

func (h hop) Feed(ctx context.Context, method string, next func() (proto.Message, error), out rpc.Sink) error {
	return h.Conn.Feed(outgoing(ctx), method, next, out)
}

// Conn returns conn as the handlers of this package use it: a call whose context
// comes from a request carries what the request's headers say.
func Conn(conn rpc.Conn) rpc.Conn { return hop{conn} }

func outgoing(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, admitted(ctx))
}
