package blob

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentmesh/mesh"
)

// Keeps implements retention.Holder.
func (s *Store) Keeps() string { return "large files" }

// Export implements retention.Holder: what was uploaded and nothing refers to stays. What threads
// refer to goes with them, by ExportThread.
func (s *Store) Export(_ context.Context, t mesh.TenantID, _ func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	n := 0
	for _, key := range s.keys(func(sh *shelf) bool { return len(sh.uploads) > 0 }) {
		if key.Tenant == t {
			n += s.count(key, func(*item) bool { return true })
		}
	}
	return []mesh.Left{{Held: mesh.Held{What: heldUploads, Count: n}, Why: "no message refers to them; send them where the tenant goes"}}, nil
}

// ExportThread gives put all to which events of the thread refer that were added by now, and
// perhaps what is being added. It ends with the error of put.
func (s *Store) ExportThread(ctx context.Context, key mesh.ThreadKey, put func(mesh.Kept, io.Reader) error) error {
	if err := s.resolve(ctx, key, func(u *item) bool { return u.whole }, false); err != nil {
		return mesh.Wrap("blob.Export", err)
	}
	for _, b := range s.heldBy(key) {
		if err := s.give(ctx, key, b, put); err != nil {
			return mesh.Wrap("blob.Export", err)
		}
	}
	return nil
}

// heldBy returns what the thread has, in order.
func (s *Store) heldBy(key mesh.ThreadKey) (all []mesh.Blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.threads[key]; sh != nil {
		for _, is := range sh.held {
			all = append(all, is.blob)
		}
	}
	slices.SortFunc(all, func(a, b mesh.Blob) int { return strings.Compare(a.Hash, b.Hash) })
	return all
}

func (s *Store) give(ctx context.Context, key mesh.ThreadKey, b mesh.Blob, put func(mesh.Kept, io.Reader) error) error {
	file, size, err := s.Open(ctx, key, b.Hash)
	if mesh.IsCode(err, mesh.NotFound) { // the thread was deleted just now
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	return put(mesh.Kept{Name: key.ID + "/" + b.Hash, Size: size}, file)
}

// importer has what is imported until events refer to it; no user has that name.
const importer = "\x00import"

// Import implements retention.Holder: the bytes are ready for events that refer to them, and go
// within an hour if none comes.
func (s *Store) Import(ctx context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (fresh bool, err error) {
	const op = "blob.Import"
	id, sum, _ := strings.Cut(k.Name, "/")
	key, b := mesh.ThreadKey{Tenant: t, ID: id}, mesh.Blob{Hash: sum, Size: k.Size}
	if canon, err := mesh.ParseThreadID(id); err != nil || canon != id || !mesh.ValidHash(sum) {
		return false, mesh.InvalidField(op, "name", "must be the id of a thread and a SHA-256 with a slash between, and is %q", mesh.Clip(k.Name, 64))
	}
	switch {
	case b.Validate() != nil:
		return false, mesh.Wrap(op, b.Validate())
	case b.Size > s.opts.Most:
		return false, refused(mesh.Exhausted, op, "size", "is %d bytes, and the limit is %d; raise limits.blob, and import again", b.Size, s.opts.Most)
	case s.has(key, b):
		return false, nil
	}
	u, err := s.begin(key, importer, b, 0, false)
	if err != nil {
		return false, mesh.Wrap(op, err)
	}
	defer u.Close()
	n, err := io.Copy(u, r)
	if err == nil && n != b.Size {
		err = fmt.Errorf("%d of %d bytes came", n, b.Size)
	}
	if err != nil {
		return false, mesh.Wrap(op, err)
	}
	return true, mesh.Wrap(op, u.Commit(ctx))
}
