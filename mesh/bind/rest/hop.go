package rest

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// hop is the connection to the node. It sends exactly the metadata that the
// request was admitted with, whatever else is in the context, and says of a
// node that does not answer just that, without addresses.
type hop struct {
	conn   grpc.ClientConnInterface
	logger *slog.Logger
}

func (h hop) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var header, trailer metadata.MD
	opts = append(opts, grpc.Header(&header), grpc.Trailer(&trailer))
	err := h.conn.Invoke(outgoing(ctx), method, args, reply, opts...)
	return h.explain(method, err, len(header)+len(trailer) > 0)
}

func (h hop) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := h.conn.NewStream(outgoing(ctx), desc, method, opts...)
	if err != nil {
		return nil, h.explain(method, err, false)
	}
	return &hopStream{s, h, method}, nil
}

// hopStream explains how the call ended.
type hopStream struct {
	grpc.ClientStream
	hop    hop
	method string
}

func (s *hopStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		return nil
	}
	return s.hop.explain(s.method, err, len(s.Trailer()) > 0)
}

// explain replaces the transport's error for a call that the node did not
// answer to its end: an answer has at least a content type in its header or,
// if it has no header, in its trailer.
func (h hop) explain(method string, err error, answered bool) error {
	if answered || status.Code(err) != codes.Unavailable {
		return err
	}
	h.logger.Warn("the node did not answer", "method", method, "err", err)
	return status.Error(codes.Unavailable, "the node cannot be reached; try again soon")
}

// Conn returns conn as the handlers of this package use it: a call whose context
// comes from a request carries what the request's headers say.
func Conn(conn grpc.ClientConnInterface, logger *slog.Logger) grpc.ClientConnInterface {
	return hop{conn, logger}
}

func outgoing(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, admitted(ctx))
}
