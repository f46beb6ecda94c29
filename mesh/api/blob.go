package api

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/blob"
)

// Blobs serves BlobService. Use NewBlobs.
type Blobs struct {
	meshv1.UnimplementedBlobServiceServer
	store   *blob.Store
	threads *Threads
}

// NewBlobs returns the server of the blobs in the store, which are read by whom threads lets read
// the thread.
func NewBlobs(store *blob.Store, threads *Threads) *Blobs {
	return &Blobs{store: store, threads: threads}
}

// describeBlob is the blob as callers see it.
func describeBlob(b mesh.Blob) *meshv1.Blob {
	return &meshv1.Blob{Sha256: b.Hash, Size: b.Size, Url: b.URL()}
}

// UploadBlob implements meshv1.BlobServiceServer. It says nothing of the thread, of which its
// caller need know no more than the id that it chose.
func (s *Blobs) UploadBlob(stream grpc.ClientStreamingServer[meshv1.UploadBlobRequest, meshv1.UploadBlobResponse]) error {
	const op = "api.UploadBlob"
	ctx := stream.Context()
	req, err := stream.Recv()
	if err != nil {
		return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
	}
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return err
	}
	if call.Principal.Grant != nil {
		if err := s.threads.mayRead(ctx, op, key, call.Principal); err != nil {
			return err
		}
	}
	b := mesh.Blob{Hash: req.GetSha256(), Size: req.GetSize()}
	to, err := s.store.Upload(ctx, key, call.Principal.User, b, req.GetOffset())
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer to.Close()
	for err == nil {
		if _, err := to.Write(req.GetData()); err != nil {
			return mesh.Wrap(op, err)
		}
		req, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
	}
	if err := to.Commit(ctx); err != nil {
		return mesh.Wrap(op, err)
	}
	return stream.SendAndClose(&meshv1.UploadBlobResponse{Blob: describeBlob(b)})
}

// GetBlob implements meshv1.BlobServiceServer.
func (s *Blobs) GetBlob(ctx context.Context, req *meshv1.GetBlobRequest) (*meshv1.GetBlobResponse, error) {
	const op = "api.GetBlob"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	if n, whole := s.store.Received(key, call.Principal.User, req.GetSha256()); n > 0 || whole {
		return &meshv1.GetBlobResponse{Received: n, Complete: whole}, nil
	}
	r, size, err := s.open(ctx, op, req.GetThreadId(), req.GetSha256())
	if err != nil {
		return nil, err
	}
	return &meshv1.GetBlobResponse{Received: size, Complete: true}, r.Close()
}

// open opens a blob of a thread that the caller may read.
func (s *Blobs) open(ctx context.Context, op, thread, hash string) (io.ReadSeekCloser, int64, error) {
	key, _, _, err := s.threads.existing(ctx, op, thread, 0)
	if err != nil {
		return nil, 0, err
	}
	r, size, err := s.store.Open(ctx, key, hash)
	return r, size, mesh.Wrap(op, err)
}

// ReadBlob implements meshv1.BlobServiceServer.
func (s *Blobs) ReadBlob(req *meshv1.ReadBlobRequest, stream grpc.ServerStreamingServer[meshv1.ReadBlobResponse]) (err error) {
	const op = "api.ReadBlob"
	r, size, err := s.open(stream.Context(), op, req.GetThreadId(), req.GetSha256())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	from, n := req.GetOffset(), req.GetLength()
	if from < 0 {
		from = max(0, size+from)
	}
	switch {
	case from > size || from == size && size > 0:
		return mesh.InvalidField(op, "offset", "is %d, and must be below %d", from, size)
	case n < 0:
		return mesh.InvalidField(op, "length", "is %d; it must be a number of bytes, or 0 for all", n)
	case n == 0 || n > size-from:
		n = size - from
	}
	if err := accept(stream); err != nil {
		return err
	}
	if _, err := r.Seek(from, io.SeekStart); err != nil {
		return mesh.Errorf(mesh.DataLoss, op, "The bytes cannot be read; the node's operator must restore a copy: %w", err)
	}
	resp := &meshv1.ReadBlobResponse{Blob: describeBlob(mesh.Blob{Hash: req.GetSha256(), Size: size})}
	for first := true; n > 0 || first; first = false {
		resp.Data = make([]byte, min(n, mesh.MaxPiece)) // whoever sends it has it until it is sent
		if _, err := io.ReadFull(r, resp.Data); err != nil {
			return mesh.Errorf(mesh.DataLoss, op, "The bytes cannot be read; the node's operator must restore a copy: %w", err)
		}
		if err := stream.Send(resp); err != nil {
			return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
		}
		n -= int64(len(resp.Data))
		resp = &meshv1.ReadBlobResponse{}
	}
	return nil
}
