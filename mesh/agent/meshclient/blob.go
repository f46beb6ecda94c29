package meshclient

import (
	"context"
	"errors"
	"io"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// ReadBlob returns the first bytes of a file of the execution's thread, at most so many. Blobs to
// which the thread does not refer are NotFound.
func (c *Client) ReadBlob(ctx context.Context, b mesh.Blob, most int64) ([]byte, error) {
	const op = "meshclient.ReadBlob"
	ctx, cancel := context.WithCancel(c.Context(ctx))
	defer cancel()
	stream, err := c.blobs.ReadBlob(ctx, &meshv1.ReadBlobRequest{ThreadId: c.grant.Thread, Sha256: b.Hash, Length: most})
	data := make([]byte, 0, min(b.Size, most))
	for err == nil {
		var resp *meshv1.ReadBlobResponse
		if resp, err = stream.Recv(); err == nil {
			data = append(data, resp.GetData()...)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, failed(op, err)
	}
	return data, nil
}
