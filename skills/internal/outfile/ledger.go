package outfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A Ledger remembers what was done under which keys, for good and apart from
// the files that it was done with: those may be taken away by others.
//
// Each key has a file of its own, named by [Name]. What Get, Put and Drop do to
// one key is consistent for whoever holds its lock.
type Ledger struct{ dir string }

// NewLedger returns the ledger in the folder, which is made when it is needed
// and holds nothing else.
func NewLedger(dir string) Ledger { return Ledger{dir} }

// Lock is [Lock] for a name of the ledger.
func (l Ledger) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return Lock(ctx, l.dir, name)
}

// Get returns what was noted, or nil if nothing was. The error is Unavailable.
func (l Ledger) Get(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(l.shelf(name), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(l.dir, err)
	}
	return data, nil
}

// Put notes the data, in place of what was noted before. They must not be
// empty. They are on the disk when it returns.
func (l Ledger) Put(name string, data []byte) error {
	dir := l.shelf(name)
	if err := makeDir(dir); err != nil {
		return failed(l.dir, err)
	}
	return Replace(dir, name, data)
}

// Claim notes the data unless something was noted before, and returns what is
// noted then, and whether it is new.
func (l Ledger) Claim(name string, data []byte) (noted []byte, fresh bool, err error) {
	fresh, err = Create(l.shelf(name), name, data)
	if fresh || err != nil {
		return data, fresh, err
	}
	noted, err = l.Get(name)
	return noted, false, err
}

// Drop forgets the name.
func (l Ledger) Drop(name string) error { return Remove(l.shelf(name), name) }

// shelf is one of 256 folders, so that none gets too many files.
func (l Ledger) shelf(name string) string { return filepath.Join(l.dir, name[:2]) }
