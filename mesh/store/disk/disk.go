// Package disk keeps threads and agents' state in a folder.
//
// The truth is a log of segments ([segment]): every event, every change of a
// value and every deletion of a thread is a record there before it is
// acknowledged. One goroutine commits whatever is waiting, with one write and one
// sync, so that a lone append is committed at once and those that arrive meanwhile
// share the next commit. Values also stand in a bbolt file, into which they are
// brought from the log later, off the way of commits; until then they are served
// from memory, and after a crash read from the log again.
//
// What it has acknowledged is on disk, survives the process and is there once. A
// folder that is damaged is refused as it is, never repaired or overwritten, and
// belongs to one process at a time. It has a version, which opening it brings up
// to date.
//
// Everything may be used concurrently. Readers never wait for the disk's sync.
//
// A full disk, and one that can only be read, takes nothing and serves what it has, until
// there is room again; after a sync that failed nothing is written any more. [Store.Health]
// tells both.
//
// It opens from an index file, which the log is ahead of, and reads what came after that.
// All that was there is checked in the background, and by who reads it before: what is not
// what was written is not served, and closes its thread, with mesh.DataLoss. [Store.Health]
// tells that, too.
//
// It is not for several processes, and keeps an index of all threads in memory (some 300
// bytes each; of those that were written to, 12 bytes an event and 40 more for each that has
// an id).
package disk

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// Options of [Open]. The zero value has the defaults.
type Options struct {
	// Address is where the node that opens the store can be reached, for those
	// who find the folder in use.
	Address string
	// Logger hears of damage and of commits that failed. The default discards.
	Logger *slog.Logger
	// Rebuild makes the index of the log, whatever the index file has.
	Rebuild bool
	// Remade are kinds of values of the operator's own tenant that whoever keeps them makes
	// again: they are not verified at start but when they are read, and one that is damaged
	// has no data then.
	Remade []string

	// By default all, the real disk, and the size of package segment; tests have
	// others.
	migrations []migration
	disk       segment.Disk
	size       int64
	at         func(step string) // hears of the steps of a conversion
	unchecked  bool              // nothing is checked in the background
}

// Store implements [threadlog.Backend] and [state.Store]. Use [Open].
type Store struct {
	path   string
	opts   Options
	hold   *hold
	logger *slog.Logger
	db     *bolt.DB
	log    *segment.Log

	mu      sync.Mutex // guards the fields below
	queue   []*request
	due     bool // not all of the queue is deferred
	ticking bool // what is deferred will be due
	closed  bool
	health  Health
	changed chan struct{} // closed when health is another
	probing bool          // look will be set
	look    bool          // whether there is room again
	wake    chan struct{} // capacity 1; closed by Close
	done    chan struct{} // closed when the committer has ended

	// index guards the fields below. Only the committer changes book, and so
	// reads it without.
	index   sync.RWMutex
	book    memindex.Book
	chain   chain                    // over all records
	pending map[string]value         // by key, those that the file has not yet
	spent   []int64                  // records of values that a checkpoint makes useless
	unsaved int                      // bytes of records since the last checkpoint
	saved   mesh.Pos                 // of the last checkpoint
	ill     map[mesh.ThreadKey]error // threads that are closed, and why
	tidy    chan struct{}            // capacity 1: the keeper has something to do
	kept    chan struct{}            // closed when the keeper has ended

	// The committer's own.
	commits int
	woken   int              // requests that the last commit decided
	took    time.Duration    // how long the last write took
	recs    []segment.Record // of the commit, which the next one uses again
	buf     []byte           // of recs
	linking []byte           // of linkEvent

	saving  sync.Mutex // one checkpoint at a time; guards hurt and changes of threads
	hurt    bool       // one panicked; bbolt may hold its locks
	threads index
	rows    *Rows

	seen    memory
	opening chain         // as it was when the folder was opened
	opened  mesh.Pos      // what came after it is of this process
	checked atomic.Int64  // up to which position the background check has come
	stop    chan struct{} // closed to end the check
	ended   chan struct{} // closed when it has ended

	beginning sync.Mutex // one transaction of the file begins at a time; guards torn
	torn      error      // the fault at which one did
}

// Open opens the folder of the file at path, makes both if need be, and begins to check all
// that it holds. Close the store after use.
//
// It returns a Precondition error that says what to do if another process uses
// the folder, if the folder cannot be written, if something in it is damaged or
// not ours, and if something is missing or empty that was there before. A folder
// that an older program made is brought to this one's version; one that a newer
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
	s := &Store{
		path: path, opts: opts, hold: h, logger: opts.Logger, pending: map[string]value{}, changed: make(chan struct{}),
		threads: index{boltFile: boltFile{path: indexPath(path)}}, ill: map[mesh.ThreadKey]error{}, stop: make(chan struct{}), ended: make(chan struct{}),
		wake: make(chan struct{}, 1), done: make(chan struct{}), tidy: make(chan struct{}, 1), kept: make(chan struct{}),
	}
	s.rows = &Rows{s: s, file: boltFile{path: rowsPath(path)}}
	defer func() {
		if err != nil {
			_ = s.closeFiles() // nothing was written
		}
	}()
	start := time.Now()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	saved, err := s.upgrade()
	if err != nil {
		return nil, err
	}
	if err := scrub(path, valuesPage); err != nil {
		s.logger.Error("deleted values are still in the data folder", "path", path, "err", err)
	}
	if s.db, err = openFile(path, valuesPage, false); err != nil {
		return nil, damaged(path, err)
	}
	if err := s.openLog(saved); err != nil {
		return nil, err
	}
	if err := mark(path); err != nil {
		return nil, err
	}
	s.logger.Info("store opened", "path", path, "events", s.book.Records(), "took", time.Since(start))
	go s.commitLoop() // Close waits for all three
	go s.keep()
	go s.checkAll()
	return s, nil
}

// Close commits what is waiting and closes the folder. What comes later is
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
	close(s.stop)
	<-s.ended
	close(s.tidy)
	<-s.kept
	s.checkpoint() // without it, the next start reads more of the log
	if err := s.closeFiles(); err != nil {
		return mesh.Errorf(mesh.Unavailable, "disk.Close", "The data folder could not be closed: %w", err)
	}
	return nil
}

// closeFiles gives up the folder.
func (s *Store) closeFiles() error {
	defer s.hold.release()
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.db != nil && !s.hurt && s.torn == nil {
		errs = append(errs, guard(s.db.Close))
	}
	errs = append(errs, s.threads.close(), s.rows.file.close())
	return errors.Join(errs...)
}

// damaged is the error for a file or folder that cannot be read.
func damaged(path string, err error) error {
	return mesh.Errorf(mesh.Precondition, opOpen,
		"The data file %s is damaged and was left as it is; 'mesh data verify' says where; move it away and restore a copy: %w", path, err)
}
