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
func (l *local) Invoke(from context.Context, method string, in, reply any, opts ...grpc.CallOption) error {
	ctx, err := client{}.outgoing(from)
	if err == nil {
		err = l.conn.Invoke(ctx, method, in, reply, opts...)
	}
	return FromStatus(err)
}

// Stream implements [Conn].
func (l *local) Stream(ctx context.Context, method string, in proto.Message, out Sink) error {
	ctx, err := client{}.outgoing(ctx)
	if err == nil {
		err = l.conn.Stream(ctx, method, in, out)
	}
	return FromStatus(err)
}

// Feed implements [Conn].
func (l *local) Feed(ctx context.Context, method string, next func() (proto.Message, error), out Sink) error {
	ctx, err := client{}.outgoing(ctx)
	if err == nil {
		err = l.conn.Feed(ctx, method, next, out)
	}
	return FromStatus(err)
}

// Known implements [Conn].
func (l *local) Known(ctx context.Context) (mesh.Principal, error) {
	var p mesh.Principal
	ctx, err := client{}.outgoing(ctx)
	if err == nil {
		p, err = l.conn.Known(ctx)
	}
	return p, FromStatus(err)
}

// Unfinished implements [Conn].
func (l *local) Unfinished() *Unfinished { return l.conn.Unfinished() }

// NewStream implements [Conn].
func (l *local) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return l.streams.NewStream(ctx, desc, method, opts...)
}

// InProcess reports whether the call whose context a handler has comes from this process,
// and not through it from somebody else.
func InProcess(ctx context.Context) bool {
	_, ok := grpc.ServerTransportStreamFromContext(ctx).(transport)
	return ok && Remote(ctx) == ""
}
