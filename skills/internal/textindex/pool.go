package textindex

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"agentmesh/mesh"
)

// maxOpen bounds how many indexes a Pool leaves open when nobody uses them.
const maxOpen = 32

// A Pool keeps the indexes of one kind, one file for each owner, and opens
// those that are used. It may be used concurrently.
type Pool struct {
	dir     string
	columns []Column

	mu   sync.Mutex
	open map[string]*entry
}

type entry struct {
	// turn has room for whoever may use the index.
	turn  chan struct{}
	users int // that have the entry or wait for it
	last  time.Time
	ix    *Index // nil until it is used
	file  os.FileInfo
}

// NewPool returns a Pool of indexes in the folder, which is made when the first
// of them is. The caller closes the Pool.
func NewPool(dir string, columns ...Column) *Pool {
	return &Pool{dir: dir, columns: columns, open: make(map[string]*entry)}
}

// File returns where the index of that name is.
func (p *Pool) File(name string) string { return filepath.Join(p.dir, name+".db") }

// Close closes the indexes. No call of With may be running.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for name, e := range p.open {
		err = errors.Join(err, e.close())
		delete(p.open, name)
	}
	return mesh.Wrap("textindex.Close", err)
}

// With runs do with the index of that name, a file name without suffix, while
// nobody else in this process uses it. When the index turns out to be damaged,
// do runs once more with an empty one. A file that was deleted or replaced is
// noticed, too: an index is always the one that is in the folder.
func (p *Pool) With(ctx context.Context, name string, do func(*Index) error) error {
	e := p.take(name)
	defer p.put(name, e)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return mesh.Wrap("textindex.With", ctx.Err())
	}
	for again := false; ; again = true {
		err := e.prepare(ctx, p.File(name), p.columns)
		if err == nil {
			err = do(e.ix)
		}
		if again || !damaged(ctx, err) {
			return err
		}
		if err := errors.Join(e.close(), remove(p.File(name))); err != nil {
			return failure(ctx, "textindex.With", err)
		}
	}
}

// Drop removes the index of that name, if there is one. The next call of With makes it anew.
func (p *Pool) Drop(ctx context.Context, name string) error {
	e := p.take(name)
	defer p.put(name, e)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return mesh.Wrap("textindex.Drop", ctx.Err())
	}
	return failure(ctx, "textindex.Drop", errors.Join(e.close(), remove(p.File(name))))
}

// take returns the entry of that name, for one user more.
func (p *Pool) take(name string) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.open[name]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		p.open[name] = e
	}
	e.users++
	return e
}

// put takes the entry back. If too many are open, it closes the one that was
// not used for longest.
func (p *Pool) put(name string, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.last = time.Now()
	if len(p.open) <= maxOpen {
		return
	}
	for n, other := range p.open {
		if other.users == 0 && (e.users > 0 || other.last.Before(e.last)) {
			name, e = n, other
		}
	}
	if e.users == 0 {
		_ = e.close() // what was committed is in the file
		delete(p.open, name)
	}
}

// prepare opens the index unless the one that is open is still the file's.
func (e *entry) prepare(ctx context.Context, file string, columns []Column) error {
	if e.ix != nil {
		if now, err := os.Stat(file); err == nil && os.SameFile(now, e.file) {
			return nil
		}
		_ = e.close() // its file is gone
	}
	ix, err := Open(ctx, file, columns...)
	if err != nil {
		return err
	}
	e.ix = ix
	if e.file, err = os.Stat(file); err != nil {
		return failure(ctx, "textindex.With", errors.Join(err, e.close()))
	}
	return nil
}

func (e *entry) close() error {
	if e.ix == nil {
		return nil
	}
	ix := e.ix
	e.ix = nil
	return ix.Close()
}

// remove deletes the file and what SQLite has beside it.
func remove(file string) error {
	var all error
	for _, name := range []string{file, file + "-wal", file + "-shm", file + "-journal"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// damaged reports whether an error is the file's fault, so that a new one
// helps. What remains after that is a fault of the disk or of this package.
func damaged(ctx context.Context, err error) bool {
	if errors.Is(err, errOther) {
		return true
	}
	var e *sqlite.Error
	if ctx.Err() != nil || !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // without the extension of the code
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_IOERR, lib.SQLITE_ERROR, lib.SQLITE_CONSTRAINT:
		return true
	}
	return false
}

// failure makes an error of this package of one of the database or the disk.
func failure(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return mesh.Wrap(op, ctx.Err())
	}
	return mesh.Errorf(mesh.Unavailable, op, "The search index cannot be used; check the data folder's permissions and the space left: %w", err)
}
