package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is who a mesh runs as in a container: nobody there is.
const imageUser = 65532

// image writes the container image for all targets as one file, which 'docker load', 'podman
// load' and 'skopeo copy oci-archive:' read. It is made of nothing but what is here.
func (r *release) image(targets []target) (err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	system, err := r.systemLayer()
	if err != nil {
		return err
	}
	for _, t := range targets {
		one, err := r.imageOf(t, system)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: t.os, Architecture: t.arch},
		}})
	}
	folder := r.path("image")
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	tag := strings.ReplaceAll(r.version, "+", "-") // which a tag may not have
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "localhost/agentmesh:" + tag,
	}))
	if err != nil {
		return err
	}
	entries, err := files(folder, "")
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := tarred(&data, entries[1:], r.time); err != nil { // the first one is the folder itself
		return err
	}
	return write(filepath.Join(r.out, r.name("image.tar")), data.Bytes(), 0o644)
}

// imageOf is the image of one target: what every system has, and the mesh.
func (r *release) imageOf(t target, system v1.Layer) (v1.Image, error) {
	const docs = "usr/share/doc/agentmesh"
	folders := []file{dir("usr"), dir("usr/bin"), dir("usr/share"), dir("usr/share/doc"), dir(docs)}
	program, err := layer(append(folders,
		file{path: "usr/bin/mesh", mode: 0o755, from: filepath.Join(r.tree(t), t.binary())},
		file{path: docs + "/LICENSE", mode: 0o644, from: filepath.Join(r.tree(t), "LICENSE")},
		file{path: docs + "/" + noticesFile, mode: 0o644, from: filepath.Join(r.tree(t), noticesFile)},
	), r)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made := v1.History{CreatedBy: "agentmesh " + r.version, Created: v1.Time{Time: r.time}}
	image, err := mutate.Append(base, mutate.Addendum{Layer: system, History: made}, mutate.Addendum{Layer: program, History: made})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usr/bin/mesh"},
		Cmd:          []string{"up"},
		Env:          []string{"PATH=/usr/bin", "HOME=/data", "MESH_DATA=/data", "MESH_GRPC=0.0.0.0:7420", "MESH_HTTP=0.0.0.0:7480"},
		WorkingDir:   "/etc/agentmesh",
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"7420/tcp": {}, "7480/tcp": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "agentmesh",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// systemLayer is what a program expects of a system: users, a folder for what is temporary,
// and the authorities that vouch for servers.
func (r *release) systemLayer() (v1.Layer, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // it vouches for some certificates alone, which a file of PEM cannot say
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	data := dir("data")
	data.mode, data.uid = fs.ModeDir|0o700, imageUser
	temporary := dir("tmp")
	temporary.mode = fs.ModeDir | fs.ModeSticky | 0o777
	return layer([]file{
		data, dir("etc"), dir("etc/agentmesh"),
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nmesh:x:65532:\nnogroup:x:65534:\n")},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0::/:/sbin/nologin\nmesh:x:65532:65532::/data:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\n")},
		dir("etc/ssl"), dir("etc/ssl/certs"),
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		temporary,
	}, r)
}

func dir(path string) file { return file{path: path, mode: fs.ModeDir | 0o755} }

// layer packs files in the order that they are given, with folders before what is in them.
func layer(all []file, r *release) (v1.Layer, error) {
	var packed bytes.Buffer
	if err := tarred(&packed, all, r.time); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
