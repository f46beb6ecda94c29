package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// Beside a blob, whose file has its hash as its name, uploads are HASH.USER.part, and
// HASH.USER.new once they are whole.
const (
	partSuffix = ".part"
	newSuffix  = ".new"
)

// Options are the choices of [Open].
type Options struct {
	// Most is how many bytes a blob may have; default [mesh.DefaultMaxBlob].
	Most int64
	// Pending is how many bytes a tenant may have uploaded to which nothing refers; default
	// four times Most.
	Pending int64
	// Uploads is how many uploads of a tenant may be written at a time; default 16.
	Uploads int
	// Now is the clock by which uploads age; default time.Now.
	Now func() time.Time
}

// A Store keeps the blobs in a folder, of which it is the only one. Use [Open].
type Store struct {
	dir  string
	opts Options

	mu      sync.Mutex
	threads map[mesh.ThreadKey]*shelf
	tenants map[mesh.TenantID]*tenant
	copying int                     // how many copies of the folder are being made
	later   map[mesh.ThreadKey]bool // to be forgotten after them
	refs    References
}

// A shelf is what a thread has.
type shelf struct {
	held    map[string]*item // by hash, that events refer to
	uploads map[string]*item // by name, to which nothing refers yet, as far as is known
}

// An item is the bytes of a blob, or what has come of them.
type item struct {
	blob mesh.Blob
	pins int // events that are being added refer to it

	// Of uploads. Of one that is not whole the blob's size is not known after a start.
	user    string // as tagOf has it
	got     int64
	whole   bool
	touched time.Time
	busy    bool // it has a writer
}

// A tenant is what its threads have together.
type tenant struct {
	held    map[string]*shared // by hash
	bytes   int64
	pending int64
	writing int
}

type shared struct {
	size int64
	in   map[mesh.ThreadKey]bool
}

// References tells the hashes to which the events of a thread refer; none if there is no such
// thread.
type References func(ctx context.Context, key mesh.ThreadKey) (map[string]bool, error)

// Open opens the folder, which it makes if need be. The error is Precondition if it cannot be
// used.
func Open(dir string, o Options) (*Store, error) {
	if o.Most == 0 {
		o.Most = mesh.DefaultMaxBlob
	}
	if o.Pending == 0 {
		o.Pending = 4 * o.Most
	}
	if o.Uploads == 0 {
		o.Uploads = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{dir: dir, opts: o, threads: map[mesh.ThreadKey]*shelf{}, tenants: map[mesh.TenantID]*tenant{}, later: map[mesh.ThreadKey]bool{},
		refs: func(context.Context, mesh.ThreadKey) (map[string]bool, error) { return nil, nil }}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = walk(dir, s.found)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, "blob.Open", "the folder %s of large files cannot be used; check its permissions: %w", dir, err)
	}
	return s, nil
}

// WithReferences has f say which blobs the events of threads refer to; before, none do. Most is
// how many bytes a blob may have, or 0 for what it was. It is called before the store is used.
func (s *Store) WithReferences(f References, most int64) *Store {
	s.refs = f
	if most > 0 {
		s.opts.Most, s.opts.Pending = most, 4*most
	}
	return s
}

// Most is how many bytes a blob may have.
func (s *Store) Most() int64 { return s.opts.Most }

// walk calls f for each file below the folder that is a thread's.
func walk(dir string, f func(key mesh.ThreadKey, name string, st fs.FileInfo)) error {
	tenants, err := os.ReadDir(dir)
	for _, t := range tenants {
		tenant, bad := hex.DecodeString(t.Name())
		if bad != nil || !t.IsDir() {
			continue
		}
		threads, err := os.ReadDir(filepath.Join(dir, t.Name()))
		if err != nil {
			return err
		}
		for _, th := range threads {
			id, bad := mesh.ParseThreadID(th.Name())
			if bad != nil || id != th.Name() || !th.IsDir() {
				continue
			}
			key := mesh.ThreadKey{Tenant: mesh.TenantID(tenant), ID: id}
			files, err := os.ReadDir(filepath.Join(dir, t.Name(), th.Name()))
			if err != nil {
				return err
			}
			for _, file := range files {
				st, err := file.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				f(key, file.Name(), st)
			}
		}
	}
	return err
}

// found adds a file that was there when the store was opened.
func (s *Store) found(key mesh.ThreadKey, name string, st fs.FileInfo) {
	if mesh.ValidHash(name) {
		s.add(key, &item{blob: mesh.Blob{Hash: name, Size: st.Size()}})
		return
	}
	if name == lateName {
		s.later[key] = true
		return
	}
	base, whole := strings.CutSuffix(name, newSuffix)
	base, part := strings.CutSuffix(base, partSuffix)
	hash, user, ok := strings.Cut(base, ".")
	if whole == part || !ok || !mesh.ValidHash(hash) {
		return
	}
	u := &item{blob: mesh.Blob{Hash: hash, Size: st.Size()}, user: user, got: st.Size(), whole: whole, touched: st.ModTime()}
	s.shelf(key).uploads[base] = u
	s.tenant(key.Tenant).pending += u.got
}

// shelf returns that of the thread. The caller holds mu, as for those below.
func (s *Store) shelf(key mesh.ThreadKey) *shelf {
	sh := s.threads[key]
	if sh == nil {
		sh = &shelf{held: map[string]*item{}, uploads: map[string]*item{}}
		s.threads[key] = sh
	}
	return sh
}

func (s *Store) tenant(id mesh.TenantID) *tenant {
	t := s.tenants[id]
	if t == nil {
		t = &tenant{held: map[string]*shared{}}
		s.tenants[id] = t
	}
	return t
}

// add notes that the thread has the bytes.
func (s *Store) add(key mesh.ThreadKey, is *item) {
	b := is.blob
	s.shelf(key).held[b.Hash] = is
	t := s.tenant(key.Tenant)
	c := t.held[b.Hash]
	if c == nil {
		c = &shared{size: b.Size, in: map[mesh.ThreadKey]bool{}}
		t.held[b.Hash] = c
		t.bytes += b.Size
	}
	c.in[key] = true
}

// drop notes that the thread has the blob no more.
func (s *Store) drop(key mesh.ThreadKey, hash string) {
	delete(s.threads[key].held, hash)
	t := s.tenant(key.Tenant)
	if c := t.held[hash]; c != nil {
		if delete(c.in, key); len(c.in) == 0 {
			delete(t.held, hash)
			t.bytes -= c.size
		}
	}
	s.clear(key)
}

// clear removes the folder of a thread that has nothing.
func (s *Store) clear(key mesh.ThreadKey) {
	if sh := s.threads[key]; sh != nil && len(sh.held)+len(sh.uploads) == 0 {
		delete(s.threads, key)
		_ = os.Remove(filepath.Join(s.folder(key), lateName)) // it may not be there
		_ = os.Remove(s.folder(key))                          // what is in it by another hand stays
	}
}

// Bytes is how many bytes the tenant has: what its threads refer to, each once, and what was
// uploaded beside.
func (s *Store) Bytes(id mesh.TenantID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tenants[id]; t != nil {
		return t.bytes + t.pending
	}
	return 0
}

// ThreadBytes is how many bytes the events of the thread refer to.
func (s *Store) ThreadBytes(key mesh.ThreadKey) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.threads[key]; sh != nil {
		for _, is := range sh.held {
			n += is.blob.Size
		}
	}
	return n
}

func (s *Store) folder(key mesh.ThreadKey) string {
	return filepath.Join(s.dir, hex.EncodeToString([]byte(key.Tenant)), key.ID)
}

// makeFolder makes the thread's folder, durably.
func (s *Store) makeFolder(key mesh.ThreadKey) error {
	at := s.folder(key)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	return errors.Join(segment.SyncFolder(filepath.Dir(at)), segment.SyncFolder(s.dir))
}

// unwritable is the error of a write.
func unwritable(op string, err error) error {
	var known *mesh.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return mesh.Errorf(mesh.Exhausted, op, "The node's disk is full; go on with the upload when its operator has made room: %w", err)
	}
	return mesh.Errorf(mesh.Unavailable, op, "The node could not write to its disk; try again: %w", err)
}

// unknown is the error of a blob that the thread does not have, as far as the caller may know.
func unknown(op string) error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "sha256", Detail: "Blob not found in the thread; name one that an event of it refers to"}
}

// refused is an error that names the field.
func refused(code mesh.Code, op, field, format string, args ...any) error {
	e := mesh.Errorf(code, op, format, args...)
	e.Field = field
	return e
}
