package call

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// An oversize is in the chain of errors of what an agent sent as one that has more bytes than
// are read. The stream did not break: what comes of another look is as long.
type oversize struct {
	bytes int // 0 where nobody counted
	limit int
}

func (o *oversize) Error() string {
	return fmt.Sprintf("the agent sent more at once than is read: %d bytes, of %d at most", o.bytes, o.limit)
}

func tooLong(bytes, limit int) error {
	return &mesh.Error{Code: mesh.Exhausted, Op: "call", Err: &oversize{bytes, limit}}
}

// sized returns the error of a gRPC call, as an oversize if the library refused to read an
// answer for its length. It has no other sign of that than its words, which also have how long
// the answer is. An agent that says of itself that it is exhausted has its own.
func sized(err error) error {
	var said interface{ GRPCStatus() *status.Status } // without what was wrapped around it
	if !errors.As(err, &said) || said.GRPCStatus().Code() != codes.ResourceExhausted {
		return err
	}
	words := said.GRPCStatus().Message()
	if !strings.HasPrefix(words, "grpc: received message ") {
		return err
	}
	var bytes, limit int
	if n, _ := fmt.Sscanf(words[max(0, strings.LastIndexByte(words, '(')):], "(%d vs. %d)", &bytes, &limit); n < 2 {
		return tooLong(0, rpc.DefaultMaxMessage)
	}
	return tooLong(bytes, limit)
}

// sizing is a connection that keeps such errors from the SDK, which makes others of them.
type sizing struct{ grpc.ClientConnInterface }

// Invoke implements [grpc.ClientConnInterface].
func (c sizing) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return sized(c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...))
}

// NewStream implements [grpc.ClientConnInterface].
func (c sizing) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	return sizedStream{s}, err
}

type sizedStream struct{ grpc.ClientStream }

func (s sizedStream) RecvMsg(m any) error { return sized(s.ClientStream.RecvMsg(m)) }
