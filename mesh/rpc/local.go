package rpc

import (
	"context"

	"agentmesh/mesh"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Local returns a connection to services in this process that stands for one of
// [Dial], without options: calls say of themselves what they would over the network,
// and nothing else, so that they are admitted as there; and they fail with
// *mesh.Error. Streams that are read, NewStream, go over streams, which is one of
// Dial to the same server.
func Local(c Conn, streams grpc.ClientConnInterface) Conn { return &local{c, streams} }

type local struct {
	conn    Conn
	streams grpc.ClientConnInterface
}

// Invoke implements [Conn].
func (l *local) Invoke(ctx context.Context, method string, in, reply any, opts ...grpc.CallOption) error {
	ctx, _ = client{}.outgoing(ctx) // nothing is exposed here
	return FromStatus(l.conn.Invoke(ctx, method, in, reply, opts...))
}

// Stream implements [Conn].
func (l *local) Stream(ctx context.Context, method string, in proto.Message, out Sink) error {
	ctx, _ = client{}.outgoing(ctx)
	return FromStatus(l.conn.Stream(ctx, method, in, out))
}

// Known implements [Conn].
func (l *local) Known(ctx context.Context) (mesh.Principal, error) {
	ctx, _ = client{}.outgoing(ctx)
	p, err := l.conn.Known(ctx)
	return p, FromStatus(err)
}

// NewStream implements [Conn].
func (l *local) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return l.streams.NewStream(ctx, desc, method, opts...)
}
