// Package bolt keeps threads and agents' state in one bbolt file.
//
// What it has acknowledged is on disk, survives the process and is there once.
// One goroutine writes: it commits whatever is waiting in one transaction, so
// that a lone append is committed at once and those that arrive meanwhile share
// the next commit. A file that is damaged is refused as it is, never repaired
// or overwritten, and a folder belongs to one process at a time. A folder has a
// version, which opening it brings up to date.
//
// Everything may be used concurrently. Readers never wait for the disk's sync.
//
// It is not for several processes, keeps an index of all threads in memory (8
// bytes an event, 40 more for each that has an id), and reads the whole file
// when it opens.
package bolt

import (
	"log/slog"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/memindex"
)

// Options of [Open]. The zero value has the defaults.
type Options struct {
	// Address is where the node that opens the store can be reached, for those
	// who find the folder in use.
	Address string
	// Logger hears of damage and of commits that failed. The default discards.
	Logger *slog.Logger

	migrations []migration // by default all; tests have more
}

// Store implements [threadlog.Backend] and [state.Store]. Use [Open].
type Store struct {
	path   string
	db     *bolt.DB
	hold   *hold
	logger *slog.Logger

	migrations []migration
	version    int // of the folder, as verify found it

	mu     sync.Mutex // guards the fields below
	queue  []*request
	closed bool
	wake   chan struct{} // capacity 1; closed by Close
	done   chan struct{} // closed when the committer has ended

	// index guards book against readers. Only the committer writes it, and so
	// reads it without.
	index sync.RWMutex
	book  memindex.Book
	// removing is the thread that is being deleted: the book has it still, and
	// the file perhaps no more. Guarded by index.
	removing mesh.ThreadKey

	// The committer's own.
	broken  error                            // why nothing can be written any more
	hurt    bool                             // a transaction panicked; bbolt may hold its locks
	update  func(func(*bolt.Tx) error) error // db.Update, but in tests
	lastTry int                              // id of the last transaction that was begun
}

// Open opens the file at path, makes it and its folder if need be, and checks
// and indexes all that it holds. Close the store after use.
//
// It returns a Precondition error that says what to do if another process uses
// the folder, if the folder cannot be written, if the file is damaged or not
// ours, and if it is missing or empty where there was one before. A folder that
// an older program made is brought to this one's version; one that a newer
// program made is refused like that, too, and left as it is.
func Open(path string, opts Options) (_ *Store, err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.migrations == nil {
		opts.migrations = migrations
	}
	h, err := take(path, opts.Address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if err := prepare(path, opts.migrations); err != nil {
		return nil, err
	}
	s := &Store{path: path, hold: h, logger: opts.Logger, migrations: opts.migrations, wake: make(chan struct{}, 1), done: make(chan struct{})}
	start := time.Now()
	if err := s.verify(); err != nil {
		return nil, err
	}
	if err := s.migrate(); err != nil {
		return nil, err
	}
	if s.db, err = openFile(path, false); err != nil {
		return nil, damaged(path, err)
	}
	if err := mark(path); err != nil {
		_ = s.db.Close() // nothing was written
		return nil, err
	}
	s.update = s.db.Update
	s.logger.Info("store opened", "path", path, "events", s.book.Records(), "took", time.Since(start))
	go s.commitLoop() // Close waits for it
	return s, nil
}

// openFile opens the file and survives what damage does to bbolt.
func openFile(path string, readOnly bool) (db *bolt.DB, err error) {
	err = guard(func() error {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:      time.Second,
			PageSize:     16 << 10,
			FreelistType: bolt.FreelistMapType,
			// The list of free pages is found anew when the file opens, which
			// reads it all anyway, and not written with each commit.
			NoFreelistSync: true,
			ReadOnly:       readOnly,
			NoStatistics:   true,
		})
		return err
	})
	return db, err
}

// Close commits what is waiting and closes the file. What comes later is
// refused with Unavailable. It may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		close(s.wake)
	}
	s.mu.Unlock()
	<-s.done
	if !first {
		return nil
	}
	defer s.hold.release()
	if s.hurt {
		return nil // bbolt would wait for a lock for ever
	}
	if err := s.db.Close(); err != nil {
		return mesh.Errorf(mesh.Unavailable, "bolt.Close", "The data file could not be closed: %w", err)
	}
	return nil
}

// damaged is the error for a file that cannot be read.
func damaged(path string, err error) error {
	return mesh.Errorf(mesh.Precondition, "bolt.Open",
		"The data file %s is damaged and was left as it is; move it away and restore a copy: %w", path, err)
}
