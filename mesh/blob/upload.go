package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// An Upload writes the bytes of a blob for a thread. It is used by one goroutine, which calls
// Close when it is done with it.
type Upload struct {
	s    *Store
	key  mesh.ThreadKey
	name string // without suffix
	of   *item
	file *os.File
	sum  hash.Hash
	done bool
}

// tagOf is the user's part of the names of uploads: a name has any text.
func tagOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:8])
}

// Upload begins to write the blob, which the user has for the thread, whether there is one of
// that id or not; or goes on after so many bytes, of those that are there (see [Store.Received]).
// Errors: Invalid for a blob that cannot be; Exhausted for one that is too large, and if the
// tenant has as many uploads as it may; Precondition if fewer bytes are there; Conflict if the
// user is writing it elsewhere.
func (s *Store) Upload(ctx context.Context, key mesh.ThreadKey, user string, b mesh.Blob, offset int64) (*Upload, error) {
	const op = "blob.Upload"
	if err := b.Validate(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if b.Size > s.opts.Most {
		return nil, refused(mesh.Exhausted, op, "size", "is %d bytes, and the limit is %d; send less", b.Size, s.opts.Most)
	}
	if _, whole := s.Received(key, user, b.Hash); whole { // an event may refer to it already
		if err := s.resolve(ctx, key, func(u *item) bool { return u.blob.Hash == b.Hash }, false); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	return s.begin(key, user, b, offset, true)
}

// begin is Upload of a blob that may be, within what a tenant may upload, if it is bounded.
func (s *Store) begin(key mesh.ThreadKey, user string, b mesh.Blob, offset int64, bounded bool) (*Upload, error) {
	u := &Upload{s: s, key: key, name: b.Hash + "." + tagOf(user), sum: sha256.New()}
	if err := u.take(user, b, offset, bounded); err != nil {
		return nil, err
	}
	if err := u.open(offset); err != nil {
		u.Close()
		return nil, unwritable("blob.Upload", err)
	}
	return u, nil
}

// notThere refuses to go on after bytes that have not come.
func notThere(op string, offset, got int64) error {
	return refused(mesh.Precondition, op, "offset", "is %d, and %d bytes have come; go on after these", offset, got)
}

// take makes the upload the caller's.
func (u *Upload) take(user string, b mesh.Blob, offset int64, bounded bool) error {
	const op = "blob.Upload"
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t, sh := s.tenant(u.key.Tenant), s.shelf(u.key)
	defer s.clear(u.key) // of one that is refused
	is := sh.uploads[u.name]
	if is == nil {
		is = &item{user: tagOf(user)}
	}
	switch {
	case is.busy || is.pins > 0:
		return mesh.Errorf(mesh.Conflict, op, "the same bytes are being uploaded for this thread already; wait for that")
	case offset < 0 || offset > is.got:
		return notThere(op, offset, is.got)
	case bounded && t.writing >= s.opts.Uploads:
		return mesh.Errorf(mesh.Exhausted, op, "the tenant has %d uploads at a time, as many as it may; try again when one is done", t.writing)
	case bounded && t.pending-is.got+b.Size > s.opts.Pending:
		return mesh.Errorf(mesh.Exhausted, op, "the tenant has %d bytes of uploads that no message refers to, and may have %d; send the messages, or try again in an hour", t.pending, s.opts.Pending)
	}
	if is.whole { // from the offset on it is written anew
		if err := os.Rename(u.at(newSuffix), u.at(partSuffix)); err != nil {
			return unwritable(op, err)
		}
	}
	t.writing++
	t.pending += b.Size - is.got // it counts as what it will be
	is.blob, is.got, is.whole, is.busy = b, b.Size, false, true
	sh.uploads[u.name], u.of = is, is
	return nil
}

// open opens the file, with what it has up to the offset.
func (u *Upload) open(offset int64) error {
	if err := u.s.makeFolder(u.key); err != nil {
		return err
	}
	if st, err := os.Stat(u.at(partSuffix)); err != nil || st.Size() > offset {
		return u.renew(offset)
	}
	file, err := os.OpenFile(u.at(partSuffix), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	u.file = file
	n, err := io.Copy(u.sum, file)
	if err == nil && n != offset {
		err = notThere("blob.Upload", offset, n)
	}
	return err
}

// renew begins a file of its own, with what the one before has up to the offset. That one may
// have other names: the bytes of threads, which are not to change.
func (u *Upload) renew(offset int64) error {
	before, err := os.Open(u.at(partSuffix))
	if err == nil {
		defer func() { _ = before.Close() }()
		err = os.Remove(u.at(partSuffix))
	}
	if err != nil && (offset > 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	file, err := os.OpenFile(u.at(partSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if u.file != nil {
		_ = u.file.Close()
	}
	u.file = file
	if u.sum.Reset(); offset > 0 {
		_, err = io.CopyN(io.MultiWriter(file, u.sum), before, offset)
	}
	return err
}

func (u *Upload) at(suffix string) string {
	return filepath.Join(u.s.folder(u.key), u.name+suffix)
}

// Write adds bytes. The error is Invalid for more than there are to be, and Exhausted if the
// disk is full.
func (u *Upload) Write(p []byte) (int, error) {
	const op = "blob.Write"
	at, err := u.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, unwritable(op, err)
	}
	if at+int64(len(p)) > u.of.blob.Size {
		return 0, mesh.InvalidField(op, "size", "is %d, and more bytes came; say how many there are", u.of.blob.Size)
	}
	n, err := u.file.Write(p)
	_, _ = u.sum.Write(p[:n]) // it never fails
	return n, unwritable(op, err)
}

// Commit ends the upload, whose bytes are there then, durably. The error is Precondition if not
// all have come: those that have stay; and Invalid if they are others than their hash says:
// then nothing does.
func (u *Upload) Commit(ctx context.Context) error {
	const op = "blob.Commit"
	at, err := u.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return unwritable(op, err)
	}
	if at != u.of.blob.Size {
		return refused(mesh.Precondition, op, "size", "is %d, and %d bytes have come; go on after these", u.of.blob.Size, at)
	}
	if sum := hex.EncodeToString(u.sum.Sum(nil)); sum != u.of.blob.Hash {
		return errors.Join(mesh.InvalidField(op, "sha256", "is not that of the bytes that came, which have %s; send them again from the beginning", sum),
			unwritable(op, u.renew(0)))
	}
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	if err := u.file.Sync(); err != nil {
		return unwritable(op, err)
	}
	u.s.mu.Lock()
	u.share()
	err = os.Rename(u.at(partSuffix), u.at(newSuffix))
	u.s.mu.Unlock()
	if err == nil {
		err = segment.SyncFolder(u.s.folder(u.key))
	}
	u.done = err == nil
	return unwritable(op, err)
}

// share has the bytes there once that another thread of the tenant has: where the file system
// cannot do that, they are there twice. The caller holds mu.
func (u *Upload) share() {
	c := u.s.tenant(u.key.Tenant).held[u.of.blob.Hash]
	if c == nil {
		return
	}
	for key := range c.in {
		twin := u.at(".twin" + partSuffix)
		if os.Link(filepath.Join(u.s.folder(key), u.of.blob.Hash), twin) != nil {
			continue
		}
		_ = os.Rename(twin, u.at(partSuffix))
		_ = os.Remove(twin) // also where both were the same file, and nothing was renamed
		return
	}
}

// Close lets go of the upload. What came of one that was not committed stays for a while, so
// that it can go on.
func (u *Upload) Close() {
	size := int64(0)
	if u.file != nil {
		if st, err := u.file.Stat(); err == nil {
			size = st.Size()
		}
		_ = u.file.Close() // what counts is synced
	}
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenant(u.key.Tenant)
	t.writing--
	u.of.busy, u.of.whole, u.of.touched = false, u.done, s.opts.Now()
	if u.done {
		size = u.of.blob.Size
	}
	t.pending += size - u.of.got
	if u.of.got = size; size == 0 && !u.done {
		_ = os.Remove(u.at(partSuffix)) // there is nothing to go on with
		delete(s.shelf(u.key).uploads, u.name)
		s.clear(u.key)
	}
}

// Received is how many bytes of the blob have come that the user uploads for the thread, and
// whether those are all; nobody else is told. A user who has none has 0.
func (s *Store) Received(key mesh.ThreadKey, user, hash string) (n int64, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.threads[key]
	if sh == nil {
		return 0, false
	}
	u := sh.uploads[hash+"."+tagOf(user)]
	if u == nil {
		return 0, false
	}
	if u.busy {
		if st, err := os.Stat(filepath.Join(s.folder(key), hash+"."+u.user+partSuffix)); err == nil {
			return st.Size(), false
		}
		return 0, false
	}
	return u.got, u.whole
}
