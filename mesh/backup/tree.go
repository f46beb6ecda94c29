package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A Tree is files that others write while they are copied. They are copied as they were
// together at one moment, as a kill at that moment would have left them.
//
// What is there is copied as often as it changes, until two looks at all of it find the
// same files and folders, of the same times, between which those were read that had
// changed. Those who change something hold a lock meanwhile, a file in the folder whose name
// begins with LockPrefix, and take none while somebody holds LockAll there, which is so from
// the second round on as long as that lasts; nothing is sent meanwhile. The others, who know
// of no locks or hold one for long, have to pause for a moment.
type Tree struct {
	Dir   string   // what paths are relative to
	Roots []string // files and folders below it, with slashes; they need not be there
	// Skip reports what is not copied, by its path with slashes; nil for nothing.
	Skip func(path string) bool
}

const (
	// fresh is how long after a change another one may have the same time.
	fresh = 20 * time.Millisecond
	// atOnce bounds the bytes that are copied, into memory, while locks are held.
	atOnce = 4 << 20
	// rounds is how often the tree is looked at.
	rounds = 100
)

// Tree adds the files of the tree. The error is Unavailable if they change all the time, and
// Precondition if one cannot be read.
func (s *Source) Tree(ctx context.Context, t Tree) error {
	const op = "backup.Tree"
	c := &copier{s: s, t: t, have: map[string]fs.FileInfo{}}
	for round := range rounds {
		done, err := c.round(ctx, round > 0)
		if done || err != nil {
			return err
		}
	}
	return mesh.Errorf(mesh.Unavailable, op, "the files in %s change all the time; try again when less happens", filepath.Join(t.Dir, filepath.FromSlash(t.Roots[0])))
}

// Size is about how many bytes the tree has.
func (t Tree) Size() (n int64) {
	all, _ := t.look() // what cannot be looked at is told when it is copied
	for _, st := range all {
		if st.Mode().IsRegular() {
			n += st.Size()
		}
	}
	return n
}

// A copier copies one tree.
type copier struct {
	s    *Source
	t    Tree
	have map[string]fs.FileInfo // as it was when it was copied
}

// round copies what is not as it was copied, and reports whether that was nothing, or so
// little that it was copied while nothing changed.
func (c *copier) round(ctx context.Context, quietly bool) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, mesh.Wrap("backup.Tree", err)
	}
	if !quietly {
		all, err := c.t.look()
		if err != nil {
			return false, err
		}
		return false, c.copy(all, c.file)
	}
	held, err := c.quiet(ctx)
	if held == nil || err != nil {
		return false, err
	}
	for _, one := range held.files {
		if err := c.s.File(one.of, bytes.NewReader(one.data)); err != nil {
			return false, err
		}
	}
	for _, name := range held.removed {
		if err := c.s.remove(name); err != nil {
			return false, err
		}
	}
	return held.done, nil
}

// held is what a quiet round has read.
type held struct {
	files   []heldFile
	removed []string
	bytes   int
	done    bool
}

type heldFile struct {
	of   *meshv1.BackupFile
	data []byte
}

var errMuch = errors.New("too much has changed")

// quiet reads what has changed while nobody changes more who takes locks; nil if that is too
// much, after which it is copied as in the first round.
func (c *copier) quiet(ctx context.Context) (*held, error) {
	dirs, err := c.t.look()
	if err != nil {
		return nil, err
	}
	unlock := c.t.locks(ctx, dirs)
	defer unlock()
	began := time.Now()
	before, err := c.t.look()
	if err == nil && changing(before, began) {
		select { // what changes now has another time
		case <-time.After(fresh):
		case <-ctx.Done():
			return nil, mesh.Wrap("backup.Tree", ctx.Err())
		}
		began = time.Now()
		before, err = c.t.look()
	}
	if err != nil {
		return nil, err
	}
	h := new(held)
	err = c.change(before, func(name string, st fs.FileInfo) (fs.FileInfo, error) {
		of, r, err := c.t.open(name, st)
		if of == nil || err != nil {
			return nil, err
		}
		defer func() { _ = r.Close() }() // it is only read
		if h.bytes += int(min(st.Size(), atOnce+1)); h.bytes > atOnce {
			return nil, errMuch
		}
		data, err := io.ReadAll(io.LimitReader(r, atOnce))
		if err != nil {
			return nil, c.t.unreadable(name, err)
		}
		is := c.t.still(name, st, began)
		if is != nil {
			h.files = append(h.files, heldFile{of, data})
		}
		return is, nil
	}, func(name string) error {
		h.removed = append(h.removed, name)
		return nil
	})
	if errors.Is(err, errMuch) {
		unlock()
		for _, one := range h.files { // they are not copied yet
			delete(c.have, one.of.GetPath())
		}
		return &held{removed: h.removed}, c.copy(before, c.file)
	}
	if err != nil {
		return nil, err
	}
	after, err := c.t.look()
	if err != nil {
		return nil, err
	}
	h.done = maps.EqualFunc(before, after, same) && c.whole(after) && !changing(after, began)
	return h, nil
}

// changing reports whether something was written so shortly before the look began, or since,
// that it may have been written again and have the same time.
func changing(all map[string]fs.FileInfo, began time.Time) bool {
	for _, st := range all {
		if recent(st, began) {
			return true
		}
	}
	return false
}

// recent is changing of one file.
func recent(st fs.FileInfo, began time.Time) bool {
	at := st.ModTime()
	return at.After(began.Add(-fresh)) && at.Before(time.Now().Add(fresh)) // later ones are somebody's wish
}

// whole reports whether all files are copied as they are.
func (c *copier) whole(all map[string]fs.FileInfo) bool {
	for name, st := range all {
		if is := c.have[name]; !st.IsDir() && (is == nil || !same(is, st)) {
			return false
		}
	}
	return true
}

// copy copies all that is not as it was copied, and takes away what is there no more.
func (c *copier) copy(all map[string]fs.FileInfo, file func(string, fs.FileInfo) (fs.FileInfo, error)) error {
	return c.change(all, file, c.s.remove)
}

// change calls file for what is not as it was copied, which returns what it has copied or
// nil, and gone for what is there no more.
func (c *copier) change(all map[string]fs.FileInfo, file func(string, fs.FileInfo) (fs.FileInfo, error), gone func(string) error) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		st := all[name]
		if was := c.have[name]; st.IsDir() || was != nil && same(was, st) {
			continue
		}
		is, err := file(name, st)
		if err != nil {
			return err
		}
		if is != nil {
			c.have[name] = is
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.have)) {
		if st := all[name]; st == nil || st.IsDir() {
			delete(c.have, name)
			if err := gone(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// file copies a file, and returns how it was; nil if it has changed meanwhile.
func (c *copier) file(name string, st fs.FileInfo) (fs.FileInfo, error) {
	began := time.Now()
	of, r, err := c.t.open(name, st)
	if of == nil || err != nil {
		return nil, err
	}
	err = c.s.File(of, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if is := c.t.still(name, st, began); is != nil {
		return is, nil
	}
	if c.have[name] == nil { // so that it is not left if it goes away
		return nil, c.s.remove(name)
	}
	return nil, nil
}

// open opens a file that was seen so; it returns none if there is another one by now.
func (t Tree) open(name string, st fs.FileInfo) (*meshv1.BackupFile, io.ReadCloser, error) {
	at := t.at(name)
	of := describe(name, st)
	if st.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(at)
		if gone(err) {
			return nil, nil, nil
		}
		of.Link, of.Size = to, 0
		return of, io.NopCloser(bytes.NewReader(nil)), t.unreadable(name, err)
	}
	file, err := os.Open(at)
	if gone(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, t.unreadable(name, err)
	}
	if is, err := file.Stat(); err != nil || !os.SameFile(is, st) {
		return nil, nil, errors.Join(t.unreadable(name, err), file.Close())
	}
	return of, file, nil
}

// still returns how the file is if it is as it was seen, and was when its reading began.
func (t Tree) still(name string, st fs.FileInfo, began time.Time) fs.FileInfo {
	if is, err := os.Lstat(t.at(name)); err == nil && same(is, st) && !recent(is, began) {
		return is
	}
	return nil
}

// gone reports whether there is no such file any more, or no folder in which it was.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

func (t Tree) at(name string) string { return filepath.Join(t.Dir, filepath.FromSlash(name)) }

func (t Tree) unreadable(name string, err error) error {
	if err == nil {
		return nil
	}
	return mesh.Errorf(mesh.Precondition, "backup.Tree", "%s cannot be read, so there is no backup of it; see to its permissions: %w", t.at(name), err)
}

// look returns what is there: files, links, and folders, of which each was seen before what is
// in it. What is neither, as a pipe, is left out.
func (t Tree) look() (map[string]fs.FileInfo, error) {
	all := map[string]fs.FileInfo{}
	for _, root := range t.Roots {
		err := filepath.WalkDir(t.at(root), func(at string, d fs.DirEntry, err error) error {
			rel, err2 := filepath.Rel(t.Dir, at)
			if err2 != nil {
				return err2
			}
			name := filepath.ToSlash(rel)
			if gone(err) { // it went away
				return nil
			}
			if err != nil {
				return t.unreadable(name, err)
			}
			if t.Skip != nil && t.Skip(name) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			st, err := d.Info()
			if gone(err) {
				return nil
			}
			if err != nil {
				return t.unreadable(name, err)
			}
			if st.IsDir() || st.Mode().IsRegular() || st.Mode()&fs.ModeSymlink != 0 {
				all[name] = st
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// same reports whether it is the same file, or folder, and was not written since.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime()) && (a.IsDir() || a.Size() == b.Size())
}
