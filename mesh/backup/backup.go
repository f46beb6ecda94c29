// Package backup copies a data folder, as a stream of pieces, and makes a data folder of the
// copy again.
//
// A [Source] makes the pieces of what is in files: of readers, and of trees of files that
// are in use ([Tree]). They may go over a wire (NodeService.BackupData), and a [Folder]
// takes them. [Read] makes the pieces of a copy that was kept. So a backup of a mesh that
// serves, one of a folder that nobody uses, and a restore are one way.
//
// A copy is a folder with a manifest (backup.json) and the files (data/). It has that name
// only when it is whole, checked and on the disk: before, and after a kill, it is beside that
// as NAME.partial, in which nothing starts as a mesh. It has the mesh's keys, and is for its
// owner alone.
//
// A Source and a Folder are used by one goroutine each. The package does not know what a
// data folder has, nor how a store is read while it is in use.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Format is the version of the form of copies that this program makes and reads.
const Format = 1

// Data is the folder of the files in a copy.
const Data = "data"

const manifestName = "backup.json" // of what says what a copy is

// A Take takes the next piece of a copy, which it may keep.
type Take func(*meshv1.BackupDataResponse) error

// chunk is how many bytes of a file are in one piece, at most.
const chunk = 256 << 10

// A Source makes the pieces of a copy.
type Source struct {
	take  Take
	files map[string]*meshv1.BackupFile // that are part of it
	order []string                      // of their paths as they came first
}

// NewSource returns a source whose pieces take gets.
func NewSource(take Take) *Source {
	return &Source{take: take, files: map[string]*meshv1.BackupFile{}}
}

// Begin says of about how many bytes the copy will be. It comes first.
func (s *Source) Begin(bytes int64) error {
	return s.take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_Begun{Begun: &meshv1.BackupBegun{Bytes: bytes}}})
}

// File adds a file with what the reader has, in place of one that was there.
func (s *Source) File(f *meshv1.BackupFile, r io.Reader) error {
	if err := s.take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_File{File: proto.CloneOf(f)}}); err != nil {
		return err
	}
	sum, size := sha256.New(), int64(0)
	for {
		b := make([]byte, chunk)
		n, err := io.ReadFull(r, b)
		if n > 0 {
			_, _ = sum.Write(b[:n]) // it never fails
			size += int64(n)
			if err := s.take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_Data{Data: b[:n:n]}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	f = proto.CloneOf(f)
	f.Size, f.Sha256 = size, hex.EncodeToString(sum.Sum(nil))
	if s.files[f.GetPath()] == nil {
		s.order = append(s.order, f.GetPath())
	}
	s.files[f.GetPath()] = f
	return nil
}

// remove takes a file away again.
func (s *Source) remove(path string) error {
	delete(s.files, path)
	return s.take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_Removed{Removed: path}})
}

// End says that the copy is whole, with what the manifest says and all files.
func (s *Source) End(m *meshv1.BackupManifest) error {
	m = proto.CloneOf(m)
	m.Format = Format
	for _, name := range s.order {
		if f := s.files[name]; f != nil {
			m.Files = append(m.Files, f)
			delete(s.files, name) // one that came again is there once
		}
	}
	return s.take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_Manifest{Manifest: m}})
}

// describe is what a copy says of a file.
func describe(name string, st fs.FileInfo) *meshv1.BackupFile {
	return &meshv1.BackupFile{Path: name, Mode: uint32(st.Mode().Perm()), Size: st.Size(), Modified: timestamppb.New(st.ModTime())}
}

// Read makes the pieces of the copy in the folder, which [Check] has found whole.
func Read(dir string, take Take) error {
	const op = "backup.Read"
	m, err := Manifest(dir)
	if err != nil {
		return err
	}
	s := NewSource(take)
	if err := s.Begin(Size(m)); err != nil {
		return err
	}
	for _, f := range m.GetFiles() {
		r, err := open(dir, f)
		if err != nil {
			return mesh.Errorf(mesh.Precondition, op, "the file %s of the backup %s cannot be read: %w", f.GetPath(), dir, err)
		}
		if err := errors.Join(s.File(f, r), r.Close()); err != nil {
			return err
		}
	}
	m.Files = nil
	return s.End(m)
}

// open returns what a file of the copy has: nothing for a link.
func open(dir string, f *meshv1.BackupFile) (io.ReadCloser, error) {
	if f.GetLink() != "" {
		return io.NopCloser(io.LimitReader(nil, 0)), nil
	}
	return os.Open(filepath.Join(dir, Data, filepath.FromSlash(f.GetPath())))
}

// Size is how many bytes the files have.
func Size(m *meshv1.BackupManifest) (n int64) {
	for _, f := range m.GetFiles() {
		n += f.GetSize()
	}
	return n
}

// Is reports whether the folder has a manifest, as a copy has and a data folder has not.
func Is(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, manifestName))
	return err == nil
}

// Manifest returns what the copy in the folder says of itself. The error is NotFound if
// there is none, and Precondition if it cannot be read or is of a form to come.
func Manifest(dir string) (*meshv1.BackupManifest, error) {
	const op = "backup.Manifest"
	name := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mesh.Errorf(mesh.NotFound, op, "%s is no backup: it has no %s; name a folder that 'mesh data backup' made", dir, manifestName)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "%s cannot be read; see that you may read it: %w", name, err)
	}
	m := new(meshv1.BackupManifest)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m); err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "%s is damaged; use another backup: %w", name, err)
	}
	if m.GetFormat() != Format {
		return nil, mesh.Errorf(mesh.Precondition, op, "the backup %s is of format %d, and this program reads %d; use the program that made it (%s)", dir, m.GetFormat(), Format, mesh.Clip(m.GetProgram(), 64))
	}
	for _, f := range m.GetFiles() {
		if !sound(f.GetPath()) {
			return nil, mesh.Errorf(mesh.Precondition, op, "%s is damaged: it names the file %q", name, mesh.Clip(f.GetPath(), 64))
		}
	}
	return m, nil
}

// sound reports whether a path stays in its folder.
func sound(name string) bool {
	return name != "." && fs.ValidPath(name) && filepath.IsLocal(filepath.FromSlash(name))
}

// A Finding is a file of a copy that is not what was copied.
type Finding struct{ Path, What string }

// Check looks at all files of the copy in the folder, and says which are not as its manifest
// has them. The error is as that of [Manifest].
func Check(dir string) (m *meshv1.BackupManifest, found []Finding, err error) {
	if m, err = Manifest(dir); err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, f := range m.GetFiles() {
		known[f.GetPath()] = true
		if what := differs(dir, f); what != "" {
			found = append(found, Finding{f.GetPath(), what})
		}
	}
	base := filepath.Join(dir, Data)
	err = filepath.WalkDir(base, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name, err := filepath.Rel(base, at); err == nil && !known[filepath.ToSlash(name)] {
			found = append(found, Finding{filepath.ToSlash(name), "was not copied: it came later"})
		}
		return nil
	})
	if err != nil {
		return nil, nil, mesh.Errorf(mesh.Precondition, "backup.Check", "%s cannot be read; see that you may read it: %w", base, err)
	}
	return m, found, nil
}

// differs says how the file is not what was copied; "" if it is.
func differs(dir string, f *meshv1.BackupFile) string {
	at := filepath.Join(dir, Data, filepath.FromSlash(f.GetPath()))
	st, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is missing"
	case err != nil:
		return fmt.Sprintf("cannot be looked at: %v", err)
	case f.GetLink() != "":
		if to, err := os.Readlink(at); err != nil || to != f.GetLink() {
			return "is not the link that was copied"
		}
		return ""
	case !st.Mode().IsRegular():
		return "is no file"
	case st.Size() != f.GetSize():
		return fmt.Sprintf("has %d bytes, and had %d", st.Size(), f.GetSize())
	}
	is, err := sumOf(at)
	if err != nil {
		return fmt.Sprintf("cannot be read: %v", err)
	}
	if is != f.GetSha256() {
		return "is not what was copied: its SHA-256 is another"
	}
	return ""
}

func sumOf(name string) (string, error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, file.Close())
}
