package main

import (
	"context"
	"encoding/json"
	"io"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

// A blobList is the large files to which events refer, each once.
type blobList struct {
	list []mesh.Blob
	seen map[mesh.Blob]bool
}

func (l *blobList) add(ev *meshv1.Event) {
	e, err := eventpb.EventFromProto(ev)
	if err != nil { // a newer program's, which it knows
		return
	}
	for b := range mesh.Blobs(mesh.PartsOf(e.Body)) {
		if l.seen == nil {
			l.seen = map[mesh.Blob]bool{}
		}
		if !l.seen[b] {
			l.seen[b], l.list = true, append(l.list, b)
		}
	}
}

// exportBlobs writes the files of the thread.
func (c *client) exportBlobs(ctx context.Context, w *lines, thread string, all []mesh.Blob) error {
	for _, b := range all {
		w.put(fileBlob{blobLine{b.Hash, b.Size}})
		err := c.download(ctx, thread, b.Hash, func(p *meshv1.ReadBlobResponse) error {
			if len(p.GetData()) > 0 {
				w.put(fileData{p.GetData()})
			}
			return w.err
		})
		if err != nil {
			return err
		}
	}
	return w.err
}

// importBlobs uploads the files of the thread, of which the lines follow, and checks the end.
func (c *client) importBlobs(ctx context.Context, r *threadReader, thread string) error {
	for {
		line, err := r.next("the hash of it")
		if err != nil {
			return err
		}
		var is fileBlob
		if json.Unmarshal(line, &is) != nil || is.Blob.SHA256 == "" {
			return r.end(line)
		}
		r.sum.Write(line)
		b := mesh.Blob{Hash: is.Blob.SHA256, Size: is.Blob.Size}
		if err := b.Validate(); err != nil {
			return r.bad(mesh.FieldOf(err), "%s", mesh.DetailOf(err))
		}
		data := &dataReader{r: r, left: b.Size}
		_, err = c.upload(ctx, thread, &meshv1.Blob{Sha256: b.Hash, Size: b.Size}, data)
		switch {
		case data.err != nil:
			return data.err
		case err != nil:
			return err
		case data.left > 0:
			return r.bad("data", "is not all: the file lacks %d bytes", data.left)
		}
	}
}

// A dataReader reads the bytes of one file in the lines.
type dataReader struct {
	r    *threadReader
	left int64  // bytes that are in lines to come
	rest []byte // of the last line
	err  error
}

// Read implements [io.Reader].
func (d *dataReader) Read(p []byte) (int, error) {
	if d.err == nil && len(d.rest) == 0 && d.left > 0 {
		d.err = d.more()
	}
	if d.err != nil {
		return 0, d.err
	}
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *dataReader) more() error {
	line, err := d.r.next("all bytes of a file")
	if err != nil {
		return err
	}
	d.r.sum.Write(line)
	var is fileData
	if err := json.Unmarshal(line, &is); err != nil || len(is.Data) == 0 || int64(len(is.Data)) > d.left {
		return d.r.bad("data", "must be the next of %d bytes of a file", d.left)
	}
	d.rest, d.left = is.Data, d.left-int64(len(is.Data))
	return nil
}
