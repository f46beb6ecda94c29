package node

import (
	"context"
	"io"
	"net/url"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// references are the hashes of the blobs to which the thread's events refer.
func (n *node) references(ctx context.Context, key mesh.ThreadKey) (map[string]bool, error) {
	const page = 256
	all := map[string]bool{}
	for after := mesh.Seq(0); ; {
		events, err := n.log.Read(ctx, key, after, page)
		if err != nil || len(events) == 0 {
			return all, mesh.Wrap("node.references", err)
		}
		for _, e := range events {
			for b := range mesh.Blobs(mesh.PartsOf(e.Body)) {
				all[b.Hash] = true
			}
			after = e.Seq
		}
	}
}

// blobURL is where a blob of the thread is read over HTTP.
func (n *node) blobURL(key mesh.ThreadKey, b mesh.Blob, filename string) string {
	at := n.publicHTTP() + "/mesh/v1/threads/" + key.ID + "/blobs/" + b.Hash
	if filename != "" {
		at += "?filename=" + url.QueryEscape(mesh.Clip(filename, 120))
	}
	return at
}

// withFiles is a message as agents get it that do not know blobs: the bytes are in it as far as
// they have room, and of others it says where they are read.
func (n *node) withFiles(ctx context.Context, key mesh.ThreadKey, m *a2apb.Message) (*a2apb.Message, error) {
	room := int64(mesh.MaxMessage - proto.Size(m))
	parts := append([]*a2apb.Part(nil), m.GetParts()...)
	found := false
	for i, p := range parts {
		b, ok := mesh.ParseBlob(p.GetUrl())
		if !ok {
			continue
		}
		found = true
		if b.Size > room {
			continue
		}
		data, err := n.bytesOf(ctx, key, b)
		if err != nil {
			return nil, err
		}
		room -= b.Size
		parts[i] = &a2apb.Part{Content: &a2apb.Part_Raw{Raw: data}, Filename: p.GetFilename(), MediaType: p.GetMediaType(), Metadata: p.GetMetadata()}
	}
	if !found {
		return m, nil
	}
	parts, _ = mesh.Linked(parts, n.link(key))
	return mesh.MessageWith(m, parts), nil
}

func (n *node) link(key mesh.ThreadKey) thread.Link {
	return func(b mesh.Blob, name string) string { return n.blobURL(key, b, name) }
}

func (n *node) bytesOf(ctx context.Context, key mesh.ThreadKey, b mesh.Blob) ([]byte, error) {
	r, size, err := n.backend.Blobs.Open(ctx, key, b.Hash)
	if err != nil {
		return nil, mesh.Wrap("node.bytesOf", err)
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	_ = r.Close() // it is only read
	if err != nil {
		return nil, mesh.Errorf(mesh.DataLoss, "node.bytesOf", "The bytes of a file cannot be read; the node's operator must restore a copy: %w", err)
	}
	return data, nil
}
