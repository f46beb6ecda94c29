package datafolder

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/store/segment"
)

// Backup copies a folder that no node uses, to take, with what made says of who made it. The
// error is NotFound if there is no such folder, and Precondition if a node uses it.
func Backup(ctx context.Context, dir string, made *meshv1.BackupManifest, take backup.Take) error {
	if err := notKept(dir); err != nil {
		return err
	}
	return disk.CopyUnused(filepath.Join(dir, file), func(c disk.Copy) error {
		acts, err := segment.List(filepath.Join(dir, record))
		if err != nil {
			return mesh.Errorf(mesh.Precondition, "datafolder.Backup", "the record in %s cannot be read; restore a copy: %w", dir, err)
		}
		return copying{dir: dir, made: made, store: c, acts: acts}.run(ctx, take)
	})
}

// online copies the folder of a node, which goes on. The record comes before the log, of
// which it says how far it had come, and files come after it: what the log says was done is
// there.
func online(ctx context.Context, dir string, store *disk.Store, acts *audit.Store, made *meshv1.BackupManifest, take backup.Take) error {
	files, last := acts.Files()
	made.AuditLast = last
	return store.Copy(ctx, func(c disk.Copy) error {
		return copying{dir: dir, made: made, store: c, acts: files}.run(ctx, take)
	})
}

// copying is a copy that is made of a folder.
type copying struct {
	dir   string
	made  *meshv1.BackupManifest
	store disk.Copy
	acts  []segment.File
}

// run copies all: first the mark, and the data file last, so that what has not come whole is
// no folder that opens.
func (c copying) run(ctx context.Context, take backup.Take) error {
	c.made.Time, c.made.LogLast = timestamppb.New(time.Now()), int64(c.store.Last)
	all, err := trees(c.dir)
	if err != nil {
		return mesh.Errorf(mesh.Precondition, "datafolder.Backup", "%s cannot be read: %w", c.dir, err)
	}
	s := backup.NewSource(func(p *meshv1.BackupDataResponse) error {
		if err := ctx.Err(); err != nil {
			return mesh.Wrap("datafolder.Backup", err)
		}
		return take(p)
	})
	if err := s.Begin(c.size(all)); err != nil {
		return err
	}
	if err := s.Tree(ctx, backup.Tree{Dir: c.dir, Roots: []string{markFile}}); err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		files []segment.File
	}{{record, c.acts}, {c.store.LogName, c.store.Log}} {
		if err := c.log(s, part.name, part.files); err != nil {
			return err
		}
	}
	for _, t := range all {
		if err := s.Tree(ctx, t); err != nil {
			return err
		}
	}
	if err := s.File(c.plain(file, c.store.Size), c.store.Values); err != nil {
		return err
	}
	return s.End(c.made)
}

// log copies the files of a log.
func (c copying) log(s *backup.Source, name string, files []segment.File) error {
	for _, f := range files {
		r, err := f.Open()
		if err != nil {
			return mesh.Errorf(mesh.Unavailable, "datafolder.Backup", "%s/%s cannot be read: %w", name, f.Name, err)
		}
		err = s.File(c.plain(name+"/"+f.Name, f.Size), r)
		_ = r.Close() // it is only read
		if err != nil {
			return err
		}
	}
	return nil
}

// plain describes a file that only its owner may read, and that is of now.
func (c copying) plain(name string, size int64) *meshv1.BackupFile {
	return &meshv1.BackupFile{Path: name, Mode: 0o600, Size: size, Modified: c.made.GetTime()}
}

// size is about how many bytes the copy will have.
func (c copying) size(all []backup.Tree) int64 {
	n := c.store.Size
	for _, files := range [][]segment.File{c.store.Log, c.acts} {
		for _, f := range files {
			n += f.Size
		}
	}
	for _, t := range all {
		n += t.Size()
	}
	return n
}

// Unused returns a Precondition error that says who uses the folder, if a node does, and
// NotFound if there is none.
func Unused(dir string) error {
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		return mesh.Errorf(mesh.NotFound, "datafolder.Unused", "there is no data folder %s; name it with --data: %w", dir, err)
	}
	return disk.Unused(path)
}
