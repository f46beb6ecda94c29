package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// speechIn is the answer to the message as it is spoken, if the event has it, or nil.
func speechIn(r *a2apb.StreamResponse, to *a2apb.Message) *a2apb.Part {
	all := r.GetTask().GetArtifacts()
	if u := r.GetArtifactUpdate(); u != nil {
		all = []*a2apb.Artifact{u.GetArtifact()}
	}
	at := slices.IndexFunc(all, func(a *a2apb.Artifact) bool { return mesh.IsSpeech(a, to.GetMessageId()) })
	if at < 0 || len(all[at].GetParts()) == 0 {
		return nil
	}
	return all[at].GetParts()[0]
}

// keepSpeech writes the answer as it is spoken, nil if it is not, to the file.
func (c *client) keepSpeech(ctx context.Context, thread, file string, p *a2apb.Part) error {
	if p == nil {
		c.app.notef("the answer was not spoken; the mesh speaks where voice.speech is set\n")
		return nil
	}
	return replaceFile("--speak", file, func(to io.Writer) error {
		if raw := p.GetRaw(); len(raw) > 0 {
			_, err := to.Write(raw)
			return err
		}
		at, err := url.Parse(p.GetUrl())
		if err != nil {
			return err
		}
		return c.copyBlob(ctx, thread, path.Base(at.Path), to) // its address ends with the hash
	})
}

// copyBlob writes the bytes of a blob of the thread, and returns DataLoss if what comes is not
// what has the hash.
func (c *client) copyBlob(ctx context.Context, thread, hash string, to io.Writer) error {
	sum := sha256.New()
	err := c.download(ctx, thread, hash, func(p *meshv1.ReadBlobResponse) error {
		_, err := io.MultiWriter(to, sum).Write(p.GetData())
		return err
	})
	if is := hex.EncodeToString(sum.Sum(nil)); err == nil && is != hash {
		return mesh.Errorf(mesh.DataLoss, "mesh.download", "what came is not the file: its SHA-256 is %s; try again", is)
	}
	return err
}

// replaceFile makes the file that a flag names of what write writes: it is there whole or not at
// all.
func replaceFile(flag, name string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".mesh-*")
	if err != nil {
		return mesh.InvalidField("mesh.write", flag, "cannot be written: %v", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(file.Name(), name)
		}
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	return write(file)
}
