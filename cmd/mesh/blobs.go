package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"
)

// enclose makes a part of the file, for a message in the thread. What is too large for a message is
// uploaded before it, from where an upload of it was cut off.
func (c *client) enclose(ctx context.Context, thread, name string) (*a2apb.Part, error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, mesh.InvalidField("mesh.enclose", "--file", "cannot be read: %v", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	part := &a2apb.Part{Filename: filepath.Base(name), MediaType: typeOf(name)}
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, mesh.InvalidField("mesh.enclose", "--file", "cannot be read: %v", err)
	}
	if size <= mesh.MaxPiece {
		data, err := io.ReadAll(file)
		part.Content = &a2apb.Part_Raw{Raw: data}
		return part, err
	}
	b, err := c.upload(ctx, thread, &meshv1.Blob{Sha256: hex.EncodeToString(sum.Sum(nil)), Size: size}, file)
	part.Content = &a2apb.Part_Url{Url: b.GetUrl()}
	return part, err
}

// taken refuses files of media types that no agent takes, or not the one that is named, by their
// cards, before a byte of them is uploaded. Who gets the message is for the mesh to say, which
// judges it then.
func (c *client) taken(ctx context.Context, agent string, files []string) error {
	files = slices.DeleteFunc(slices.Clone(files), func(name string) bool { return typeOf(name) == "" })
	if len(files) == 0 {
		return nil
	}
	agents, err := c.agents.ListAgents(c.call(ctx, ""), &meshv1.ListAgentsRequest{})
	if err != nil {
		return err
	}
	var modes []string
	for _, a := range agents.GetAgents() {
		if agent != "" && a.GetName() != agent {
			continue
		}
		e := registry.Entry{Card: a.GetCard(), Builtin: a.GetBuiltin()}
		if !e.SaysInput() { // it judges for itself, and may have the conversation
			return nil
		}
		modes = append(modes, e.InputModes()...)
	}
	slices.Sort(modes)
	modes = slices.Compact(modes)
	for _, name := range files {
		if kind := typeOf(name); len(modes) > 0 && !mesh.AudioType(kind) && // which the mesh may make text
			!slices.ContainsFunc(modes, func(m string) bool { return registry.Accepts(m, kind) }) {
			return mesh.InvalidField("mesh.send", "--file", "%s is %s, which no agent takes; they take %s", name, kind, strings.Join(modes, ", "))
		}
	}
	return nil
}

// typeOf is the media type of the file by its name, or "".
func typeOf(name string) string { return mime.TypeByExtension(filepath.Ext(name)) }

// upload has the bytes of the reader, which are those of the blob, uploaded for the thread: of what
// has come before, the rest.
func (c *client) upload(ctx context.Context, thread string, b *meshv1.Blob, data io.Reader) (*meshv1.Blob, error) {
	ctx, cancel := context.WithCancel(ctx) // an end without all
	defer cancel()
	blobs := meshv1.NewBlobServiceClient(c.conn)
	is, err := blobs.GetBlob(c.call(ctx, thread), &meshv1.GetBlobRequest{ThreadId: thread, Sha256: b.GetSha256()})
	offset := is.GetReceived()
	switch {
	case err != nil && !mesh.IsCode(err, mesh.NotFound):
		return nil, err
	case is.GetComplete() || offset > b.GetSize():
		offset = 0 // it takes less to send it again than to find out whose it is
	}
	if _, err := io.CopyN(io.Discard, data, offset); err != nil {
		return nil, err
	}
	stream, err := blobs.UploadBlob(c.call(ctx, thread))
	if err != nil {
		return nil, err
	}
	req := &meshv1.UploadBlobRequest{ThreadId: thread, Sha256: b.GetSha256(), Size: b.GetSize(), Offset: offset}
	for at := offset; ; {
		if req.Data = make([]byte, min(mesh.MaxPiece, b.GetSize()-at)); len(req.Data) > 0 {
			if _, err := io.ReadFull(data, req.Data); err != nil {
				return nil, mesh.Errorf(mesh.Invalid, "mesh.upload", "the file became shorter while it was read: %w", err)
			}
		}
		at += int64(len(req.Data))
		if err := stream.Send(req); err != nil || at == b.GetSize() {
			resp, failed := stream.CloseAndRecv() // which says why, if it failed
			return resp.GetBlob(), failed
		}
		req = &meshv1.UploadBlobRequest{}
	}
}

// download gives the bytes of a blob of the thread to write, one piece after the other.
func (c *client) download(ctx context.Context, thread, hash string, write func(*meshv1.ReadBlobResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := meshv1.NewBlobServiceClient(c.conn).ReadBlob(c.call(ctx, thread), &meshv1.ReadBlobRequest{ThreadId: thread, Sha256: hash})
	for err == nil {
		var piece *meshv1.ReadBlobResponse
		if piece, err = stream.Recv(); err == nil {
			err = write(piece)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (a *app) threadsDownloadCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "download SHA256",
		Short: "Get a large file of a thread",
		Long: `Get a large file to which a message or an artifact of the thread refers: the SHA256 is in its
URL. It goes to stdout, or to the file that --output names, which is there whole or not at all.`,
		Example: `  mesh threads download --thread 550e8400-e29b-41d4-a716-446655440000 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 -o report.pdf`,
		Args:    exactly("SHA256"),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `file` that gets it")
	cmd.RunE = a.stream(func(ctx context.Context, c *client, args []string) error {
		thread, err := parseThread("--thread", a.flags.thread)
		if err != nil {
			return err
		}
		if out == "" {
			return c.copyBlob(ctx, thread, args[0], a.stdout)
		}
		return replaceFile("--output", out, func(to io.Writer) error { return c.copyBlob(ctx, thread, args[0], to) })
	})
	return cmd
}
