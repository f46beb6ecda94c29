package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// A file is one of an archive or of a layer of an image; mode says whether it is a folder.
type file struct {
	path string // with slashes, and without one at the start
	mode fs.FileMode
	from string // where what is in it is; if it is nowhere, it is data
	data []byte
	uid  int // and the group
}

func (f *file) open() ([]byte, error) {
	if f.from == "" {
		return f.data, nil
	}
	return os.ReadFile(f.from)
}

// files lists what is in a folder, by its path below another one, in the order of names.
func files(folder, below string) (all []file, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		f := file{path: path.Join(below, filepath.ToSlash(rel)), mode: 0o644, from: name}
		switch {
		case d.IsDir():
			f.mode, f.from = fs.ModeDir|0o755, ""
		case filepath.Dir(name) == folder && (d.Name() == "mesh" || d.Name() == "mesh.exe"):
			f.mode = 0o755
		}
		all = append(all, f)
		return nil
	})
	return all, err
}

// archive packs the tree of a target: as a zip for Windows, which opens it by itself.
func (r *release) archive(t target) (err error) {
	below := r.name(t.os + "_" + t.arch)
	all, err := files(r.tree(t), below)
	if err != nil {
		return err
	}
	suffix, pack := ".tar.gz", tarGz
	if t.os == "windows" {
		suffix, pack = ".zip", zipped
	}
	w, err := os.Create(filepath.Join(r.out, below+suffix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return pack(w, all, r.time)
}

func tarGz(w io.Writer, all []file, at time.Time) error {
	z := gzip.NewWriter(w)
	return errors.Join(tarred(z, all, at), z.Close())
}

// tarred writes an archive that says nothing of who made it where and when.
func tarred(w io.Writer, all []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range all {
		data, err := f.open()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode.Perm()), Size: int64(len(data)), ModTime: at, Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.path+"/"
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}

func zipped(w io.Writer, all []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range all {
		if f.mode.IsDir() {
			continue
		}
		data, err := f.open()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}
