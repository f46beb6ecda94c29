package backup

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// LockPrefix begins the names of the files that are locked by who changes files, and LockAll is
// the one that keeps them from being locked.
const (
	LockPrefix = ".lock-"
	LockAll    = LockPrefix + "all"
)

const (
	// maxLocks is in how many folders locks are taken at most.
	maxLocks = 1024
	// lockTime is how long they are waited for, since some calls hold one for long, and
	// lockRetry how often one is tried.
	lockTime  = 2 * time.Second
	lockRetry = time.Millisecond
)

// locks keeps locks in the folders that were seen from being taken, waits for those that are,
// as long as lockTime, and returns how that is given back; more than once does nothing.
func (t Tree) locks(ctx context.Context, seen map[string]fs.FileInfo) (unlock func()) {
	var held []*flock.Flock
	unlock = func() {
		for _, l := range held {
			_ = l.Close() // which drops it
		}
		held = nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for _, dir := range slices.Sorted(maps.Keys(seen)) {
		if !seen[dir].IsDir() || len(held) == maxLocks {
			continue
		}
		entries, _ := os.ReadDir(t.at(dir)) // without its locks it is looked at all the same
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), LockPrefix) || !e.Type().IsRegular() })
		if len(entries) == 0 {
			continue
		}
		if all := lock(ctx, filepath.Join(t.at(dir), LockAll)); all != nil {
			held = append(held, all)
		}
		for _, e := range entries {
			if e.Name() == LockAll {
				continue
			}
			if l := lock(ctx, filepath.Join(t.at(dir), e.Name())); l != nil {
				_ = l.Close() // nobody takes it again
			}
		}
	}
	return unlock
}

// lock returns the lock once it is taken; nil if it cannot be.
func lock(ctx context.Context, name string) *flock.Flock {
	l := flock.New(name, flock.SetPermissions(0o600))
	if got, err := l.TryLockContext(ctx, lockRetry); !got || err != nil {
		_ = l.Close()
		return nil
	}
	return l
}
