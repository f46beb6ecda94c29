package api

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/transfer"
)

// WithImport has threads imported by t. It returns s, and is called before s serves.
func (s *Threads) WithImport(t *transfer.Threads) *Threads {
	s.imports = t
	return s
}

// ImportThread implements meshv1.ThreadServiceServer.
func (s *Threads) ImportThread(stream grpc.ClientStreamingServer[meshv1.ImportThreadRequest, meshv1.ImportThreadResponse]) error {
	const op = "api.ImportThread"
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
	}
	key, call, err := keyFor(ctx, op, first.GetThreadId())
	switch {
	case err != nil:
		return err
	case call.Thread == "": // which the record has
		return mesh.InvalidField(op, "thread-id", "is missing in the metadata; send the id of the thread there too")
	}
	if err := s.imports.Free(ctx, op, key); err != nil {
		return err
	}
	in := transfer.NewIncoming(key.ID, first.GetTotal())
	for req := first; ; {
		if err := in.Add(op, req.GetEvents()); err != nil {
			return err
		}
		if req, err = stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
		}
	}
	ended, err := s.imports.Begin(ctx, op, key, in)
	if err != nil {
		return err
	}
	resp := &meshv1.ImportThreadResponse{Ended: int32(ended)} // #nosec G115 -- of at most MaxEvents
	err = s.states.With(ctx, key, func(st *thread.State) error {
		resp.Thread = s.describe(key, st)
		return nil
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(resp)
}
