package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentmesh/mesh"
)

// Age is how long an upload stays to which nothing refers.
const Age = time.Hour

// Sweep settles uploads that were not touched within [Age]: those to which an event refers are
// the thread's, the others go.
func (s *Store) Sweep(ctx context.Context) error {
	const op = "blob.Sweep"
	before := s.opts.Now().Add(-Age)
	errs := []error{s.forgetDue(ctx)}
	old := func(u *item) bool { return u.touched.Before(before) }
	for _, key := range s.keys(func(sh *shelf) bool {
		for _, u := range sh.uploads {
			if old(u) {
				return true
			}
		}
		return false
	}) {
		errs = append(errs, s.resolve(ctx, key, old, true))
	}
	return mesh.Wrap(op, errors.Join(errs...))
}

// keys are the threads whose shelf is as wanted.
func (s *Store) keys(want func(*shelf) bool) (all []mesh.ThreadKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sh := range s.threads {
		if want(sh) {
			all = append(all, key)
		}
	}
	return all
}

// resolve settles those uploads of the thread that are as wanted, before it is looked what the
// thread refers to and after: what nothing refers to goes, if that is wanted too.
func (s *Store) resolve(ctx context.Context, key mesh.ThreadKey, want func(*item) bool, remove bool) error {
	refs, err := s.refs(ctx, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.threads[key]
	if sh == nil {
		return nil
	}
	for name, u := range sh.uploads {
		switch {
		case u.busy || !want(u):
		case u.whole && refs[u.blob.Hash]:
			if err := s.settle(key, u); err != nil {
				return unwritable("blob.Sweep", err)
			}
		case remove && u.pins == 0:
			if err := s.discard(key, name, u); err != nil {
				return unwritable("blob.Sweep", err)
			}
		}
	}
	s.clear(key)
	return nil
}

// discard removes the upload. The caller holds mu.
func (s *Store) discard(key mesh.ThreadKey, name string, u *item) error {
	suffix := partSuffix
	if u.whole {
		suffix = newSuffix
	}
	if err := os.Remove(filepath.Join(s.folder(key), name+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.threads[key].uploads, name)
	s.tenant(key.Tenant).pending -= u.got
	return nil
}

// Forget implements retention.Dependent: what threads had that were deleted goes, unless a thread
// of that id refers to it. While copies are made, which have events that refer to it, or an event
// is being added that does, it goes later, and another process sees to it if this one dies before.
func (s *Store) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	const op = "blob.Forget"
	s.mu.Lock()
	copying := s.copying > 0
	s.mu.Unlock()
	var errs []error
	for _, key := range keys {
		if copying {
			errs = append(errs, s.postpone(key))
		} else {
			errs = append(errs, s.forget(ctx, key))
		}
	}
	return mesh.Wrap(op, errors.Join(errs...))
}

// lateName is a file beside what a thread had that was deleted, and that is still to go: a thread
// of that id may begin anew before, and then nobody would see it.
const lateName = "deleted"

// postpone notes that what the thread had is to go later.
func (s *Store) postpone(key mesh.ThreadKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late(key)
}

// late is postpone. The caller holds mu.
func (s *Store) late(key mesh.ThreadKey) error {
	if sh := s.threads[key]; sh == nil || len(sh.held) == 0 {
		return nil
	}
	s.later[key] = true
	if err := os.WriteFile(filepath.Join(s.folder(key), lateName), nil, 0o600); err != nil {
		return unwritable("blob.Forget", err)
	}
	return nil
}

// forgetDue forgets what was to go later: again later where copies are being made, and what fails.
func (s *Store) forgetDue(ctx context.Context) error {
	s.mu.Lock()
	due := s.later
	s.later = map[mesh.ThreadKey]bool{}
	s.mu.Unlock()
	var errs []error
	for key := range due {
		if err := s.Forget(ctx, []mesh.ThreadKey{key}); err != nil {
			errs = append(errs, err)
			s.mu.Lock()
			s.later[key] = true
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

func (s *Store) forget(ctx context.Context, key mesh.ThreadKey) error {
	refs, err := s.refs(ctx, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.threads[key]
	if sh == nil {
		sh = &shelf{}
	}
	pinned := false
	for hash, is := range sh.held {
		if refs[hash] { // of a thread that has begun anew
			continue
		}
		if is.pins > 0 {
			pinned = true
			continue
		}
		if err := os.Remove(filepath.Join(s.folder(key), hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unwritable("blob.Forget", err)
		}
		s.drop(key, hash)
	}
	if pinned {
		return s.late(key)
	}
	if err := os.Remove(filepath.Join(s.folder(key), lateName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable("blob.Forget", err)
	}
	s.clear(key)
	return nil
}

// Kept implements retention.Dependent.
func (s *Store) Kept(context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(yield func(mesh.ThreadKey, error) bool) {
		for _, key := range s.keys(func(sh *shelf) bool { return len(sh.held) > 0 }) {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// heldUploads is the kind of what Erase removes.
const heldUploads = "uploads"

// Erase implements retention.Holder: what the user uploaded and nothing refers to goes. The rest
// is the threads'.
func (s *Store) Erase(ctx context.Context, o mesh.Owner, countOnly bool) (held []mesh.Held, err error) {
	tag, n := tagOf(o.User), 0
	theirs := func(u *item) bool { return u.user == tag }
	for _, key := range s.keys(func(sh *shelf) bool { return len(sh.uploads) > 0 }) {
		if key.Tenant != o.Tenant {
			continue
		}
		before := s.count(key, theirs)
		if n += before; countOnly || before == 0 {
			continue
		}
		if err := s.resolve(ctx, key, theirs, true); err != nil {
			return nil, mesh.Wrap("blob.Erase", err)
		}
		n -= s.count(key, theirs) // what is being written is found the next time
	}
	if n > 0 {
		held = []mesh.Held{{What: heldUploads, Count: n}}
	}
	return held, nil
}

func (s *Store) count(key mesh.ThreadKey, want func(*item) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.threads[key]; sh != nil {
		for _, u := range sh.uploads {
			if want(u) {
				n++
			}
		}
	}
	return n
}

// Copying keeps what threads have while the folder is copied, until done is called: what is
// deleted meanwhile goes then.
func (s *Store) Copying() (done func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copying++
	return func(ctx context.Context) error {
		s.mu.Lock()
		s.copying--
		s.mu.Unlock()
		return s.forgetDue(ctx)
	}
}

// Each calls f for each file in the folder that has all bytes of a blob, with its path from there,
// with slashes. Files that come meanwhile need not be among them. It ends with the first error.
func Each(dir string, f func(name string, file *os.File, size int64) error) error {
	var failed error
	err := walk(dir, func(key mesh.ThreadKey, name string, _ fs.FileInfo) {
		if failed != nil || !mesh.ValidHash(name) && filepath.Ext(name) != newSuffix {
			return
		}
		at := (&Store{dir: dir}).folder(key)
		file, err := os.Open(filepath.Join(at, name))
		if errors.Is(err, fs.ErrNotExist) { // it is the thread's by now, or was removed
			name = name[:64]
			file, err = os.Open(filepath.Join(at, name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if failed = err; err != nil {
			return
		}
		st, err := file.Stat()
		if err == nil {
			err = f(filepath.Base(filepath.Dir(at))+"/"+key.ID+"/"+name, file, st.Size())
		}
		failed = errors.Join(err, file.Close())
	})
	if errors.Is(err, fs.ErrNotExist) { // there is no folder
		err = nil
	}
	return errors.Join(err, failed)
}

// A Finding is a blob that is not what it is to be.
type Finding struct{ Where, What string }

// Check looks at all blobs in the folder, which may be in no use, and changes nothing: whether
// each is what its hash says, and is there for each thread that, as refs says, refers to it. The
// error is for a folder that cannot be read.
func Check(dir string, refs map[mesh.ThreadKey]map[string]bool) (found []Finding, err error) {
	seen := map[mesh.ThreadKey]map[string]bool{}
	err = walk(dir, func(key mesh.ThreadKey, name string, _ fs.FileInfo) {
		hash := name
		if len(name) > 64 && filepath.Ext(name) == newSuffix {
			hash = name[:64]
		}
		if !mesh.ValidHash(hash) {
			return
		}
		if seen[key] == nil {
			seen[key] = map[string]bool{}
		}
		seen[key][hash] = true
		sum, err := sumOf(filepath.Join((&Store{dir: dir}).folder(key), name))
		switch {
		case err != nil:
			found = append(found, Finding{where(key, hash), "cannot be read: " + err.Error()})
		case sum != hash:
			found = append(found, Finding{where(key, hash), "is not what was written: its SHA-256 is another"})
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for key, hashes := range refs {
		for hash := range hashes {
			if !seen[key][hash] {
				found = append(found, Finding{where(key, hash), "is missing, and an event refers to it"})
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return slices.Compare([]string{a.Where, a.What}, []string{b.Where, b.What}) })
	return found, err
}

func where(key mesh.ThreadKey, hash string) string {
	return "thread " + key.String() + " blob " + hash
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
