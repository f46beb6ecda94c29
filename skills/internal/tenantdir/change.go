package tenantdir

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// A Change is what is to become of one file.
type Change struct {
	// Name is one that Clean returned.
	Name string
	// Key is the change's idempotency key.
	Key string
	// Version is that of the content on which the change was decided, or "".
	Version string
	// Edit returns the file's new content. It gets the old one, or nil and
	// false if there is no file. It is called at most once, and its error ends
	// the change.
	Edit func(old []byte, exists bool) ([]byte, error)
	// Most is how many bytes the content may have, before and after; 0 is MaxFile.
	Most int64
}

// A Done is what became of a change.
type Done struct {
	Name    string
	Version string
	Size    int
	Created bool
}

// note is what is known of a change of a key. It is written when the new
// content is ready in a file beside the old one, before it takes its place:
// while that file is there, the change was not made.
type note struct {
	Done
	Key string // hashed
}

// maxNotes bounds how many notes each of 256 files keeps, the latest.
const maxNotes = 64

// Change changes the file. Under a key that was seen before it changes nothing
// and returns what it did then; how many keys are remembered is bounded, see the
// package. Errors: Conflict if the file is not of the
// version any more, Invalid for a content that is too long and for names of
// something else than a file, Exhausted if there are too many files,
// Unavailable, and those of Edit.
func (r *Root) Change(ctx context.Context, c Change) (Done, error) {
	const op = "tenantdir.Change"
	if c.Name == "." {
		return Done{}, mesh.Errorf(mesh.Invalid, op, "The path is missing; name the file")
	}
	unlock, err := outfile.Lock(ctx, r.notes, "change")
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	if err := outfile.Sweep(r.notes); err != nil {
		return Done{}, err
	}
	notes, err := r.noted(c.Key)
	if err != nil {
		return Done{}, err
	}
	if i := notes.find(); i >= 0 {
		done := notes.list[i].Done
		if _, err := r.root.Lstat(ready(done.Name, notes.key)); errors.Is(err, fs.ErrNotExist) {
			return done, nil
		}
	}
	c.Most = cmp.Or(c.Most, MaxFile)
	old, exists, err := r.old(c.Name, c.Most)
	if err != nil {
		return Done{}, err
	}
	before := ""
	if exists {
		before = Version(old)
	}
	if c.Version != "" && c.Version != before {
		return Done{}, mesh.Errorf(mesh.Conflict, op, "%s was changed since version %s was read; read it again and decide again",
			mesh.Clip(c.Name, maxShown), mesh.Clip(c.Version, maxShown))
	}
	data, err := c.Edit(old, exists)
	if err != nil {
		return Done{}, err
	}
	return r.settle(ctx, c, notes, before, data)
}

// settle notes the change and makes it.
func (r *Root) settle(ctx context.Context, c Change, notes notes, before string, data []byte) (Done, error) {
	const op = "tenantdir.Change"
	if int64(len(data)) > c.Most {
		return Done{}, mesh.Errorf(mesh.Invalid, op, "%s would have %d bytes; at most %d are allowed", mesh.Clip(c.Name, maxShown), len(data), c.Most)
	}
	n := note{Done: Done{Name: c.Name, Version: Version(data), Size: len(data), Created: before == ""}, Key: notes.key}
	if n.Created {
		if err := r.room(ctx); err != nil {
			return Done{}, err
		}
	}
	temp := ready(c.Name, n.Key)
	if n.Version == before { // nothing to do, now and when it is repeated
		if err := r.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Done{}, r.refused(op, c.Name, err) // what an earlier call left would say that it was not made
		}
		return n.Done, r.note(notes, n)
	}
	if err := r.prepare(temp, c.Name, data); err != nil {
		_ = r.root.Remove(temp) // it may not be there
		return Done{}, r.refused(op, c.Name, err)
	}
	if err := r.note(notes, n); err != nil {
		return Done{}, errors.Join(err, r.root.Remove(temp))
	}
	if err := r.root.Rename(temp, c.Name); err != nil {
		return Done{}, r.refused(op, c.Name, err)
	}
	return n.Done, failed(r.sync(path.Dir(c.Name)))
}

// notes are those of the keys that share a file, the latest last.
type notes struct {
	file string
	key  string // the one that is asked for, hashed
	list []note
}

// find returns where the note of the key is, or -1.
func (n notes) find() int {
	return slices.IndexFunc(n.list, func(one note) bool { return one.Key == n.key })
}

// noted reads the notes among which that of the key is, if it was seen.
func (r *Root) noted(key string) (notes, error) {
	n := notes{key: outfile.Name(r.tenant, key)}
	n.file = n.key[:2] + ".json"
	data, err := os.ReadFile(filepath.Join(r.notes, n.file))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &n.list)
	}
	return n, failed(err)
}

// note adds the note to the others, in place of an earlier one of the key.
func (r *Root) note(n notes, one note) error {
	if i := n.find(); i >= 0 {
		n.list = slices.Delete(n.list, i, i+1)
	}
	n.list = append(n.list, one)
	text, err := json.Marshal(n.list[max(0, len(n.list)-maxNotes):])
	if err != nil {
		return mesh.Wrap("tenantdir.note", err)
	}
	return outfile.Replace(r.notes, n.file, text)
}

// old returns what the file has. Links are not written through.
func (r *Root) old(name string, most int64) (data []byte, exists bool, err error) {
	const op = "tenantdir.Change"
	if info, err := r.root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, false, mesh.Errorf(mesh.Invalid, op, "%s is a link; name the file itself", mesh.Clip(name, maxShown))
	}
	data, err = r.Read(name, most)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// room reports whether one more file may be made.
func (r *Root) room(ctx context.Context) error {
	n := 0
	err := r.Walk(ctx, ".", func(string, fs.DirEntry) error {
		if n++; n >= r.files {
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && n >= r.files {
		return mesh.Errorf(mesh.Exhausted, "tenantdir.Change", "There are %d files, and no more are allowed; remove some", r.files)
	}
	return err
}
