package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// firstVersion is the first version of folders with a log of segments. Those
// before it had all in the file, and are converted.
const firstVersion = 2

// A migration brings a data folder from firstVersion, or the version that the
// migration before it makes, to the next one. It runs in one transaction with
// the change of the version, so that a folder never has half of one, and none
// runs twice. What it does beside the file would not be undone with the
// transaction, and must bear to be done again.
//
// A file is verified before its migrations and after them, so that a damaged
// one is refused before anything is written: verifyFile reads all versions.
type migration func(tx *bolt.Tx) error

// migrations are all that there ever were since firstVersion; with that the number
// of them is the version of the folders that this program makes and serves. They
// are only added to, at the end. A new file takes the same way.
var migrations = []migration{
	// 3: records of the log have hashes, from the first one on that has one. What was
	// there stays; programs of before cannot read what comes.
	func(*bolt.Tx) error { return nil },
}

// newest is the version that this program makes.
func (s *Store) newest() int { return firstVersion + len(s.opts.migrations) }

// upgrade verifies the file, brings the folder to the newest version, and returns
// up to which position the log's changes are in the file. A folder of a version to
// come is refused.
func (s *Store) upgrade() (saved mesh.Pos, err error) {
	version, saved, err := verifyFile(s.path, s.newest(), s.opts.Remade)
	if err != nil {
		return 0, err
	}
	if version > s.newest() {
		return 0, mesh.Errorf(mesh.Precondition, opOpen,
			"Data folder %s is of version %d, and this program knows versions up to %d; nothing in it was changed. "+
				"Start the newer program that wrote it, or use another --data", filepath.Dir(s.path), version, s.newest())
	}
	if version >= firstVersion {
		if err := s.findLog(); err != nil {
			return 0, err
		}
	}
	if version == s.newest() {
		return saved, nil
	}
	is := version
	err = s.steps(&is)
	if err != nil {
		if mesh.IsCode(err, mesh.Precondition) {
			return 0, err
		}
		return 0, mesh.Errorf(mesh.Precondition, opOpen,
			"Data folder %s could not be brought from version %d to version %d (%v), and still is of version %d; "+
				"see that its disk can be written and has room, and start again: %w", filepath.Dir(s.path), version, s.newest(), err, is, err)
	}
	_, saved, err = verifyFile(s.path, s.newest(), s.opts.Remade)
	return saved, err
}

// steps takes the folder from that version to the newest, and counts it up.
func (s *Store) steps(version *int) error {
	if *version < firstVersion {
		if err := s.convert(); err != nil {
			return err
		}
		s.logger.Info("data folder migrated", "path", s.path, "from", *version, "to", firstVersion)
		*version = firstVersion
		if err := s.findLog(); err != nil {
			return err
		}
	}
	if *version == s.newest() {
		return nil
	}
	db, err := openFile(s.path, valuesPage, false)
	if err != nil {
		return err
	}
	err = guard(func() error {
		for ; *version < s.newest(); *version++ {
			err := db.Update(func(tx *bolt.Tx) error {
				return errors.Join(s.opts.migrations[*version-firstVersion](tx), putNumber(tx, keyVersion, uint64(*version+1)))
			})
			if err != nil {
				return err
			}
			s.logger.Info("data folder migrated", "path", s.path, "from", *version, "to", *version+1)
		}
		return nil
	})
	var p *panicError
	if !errors.As(err, &p) { // else bbolt may hold its locks
		err = errors.Join(err, db.Close())
	}
	return err
}

// step tells tests how far a conversion is.
func (s *Store) step(name string) {
	if s.opts.at != nil {
		s.opts.at(name)
	}
}

// In files before firstVersion the log was a bucket, whose keys are positions, 8
// bytes big endian, and whose values are what encode makes behind a checksum. The
// totals say how many records there are, and what the last position is that was
// ever given.
var (
	bucketLog  = []byte("log")
	keyTotals  = []byte("totals")
	errNotOurs = errors.New("it is not a data file of agentmesh")
)

// oldFormat is the newest of those files' format.
const oldFormat = 2

// convert makes the log of a file before firstVersion, and a file without it. The
// old file is only read: until another takes its place, nothing has happened.
func (s *Store) convert() error {
	dir := logPath(s.path)
	if there, err := exists(dir); err != nil || there {
		return mesh.Errorf(mesh.Precondition, opOpen,
			"The data file %s is older than the folder %s beside it; restore both from one copy (%v)", s.path, dir, err)
	}
	return readFile(s.path, func(old *bolt.Tx) error {
		last, _, err := oldTotals(old)
		if err != nil {
			return err
		}
		err = s.newLog(func(log *segment.Log) error {
			s.step("log")
			return copyLog(log, old, int64(last))
		})
		if err != nil {
			return err
		}
		return s.newFile(last, 0, func(tx *bolt.Tx) error {
			s.step("file")
			to := tx.Bucket(bucketState)
			return old.Bucket(bucketState).ForEach(to.Put)
		})
	})
}

// copyLog appends the records of the old log under their positions; those of
// events that were deleted are dropped ones.
func copyLog(log *segment.Log, old *bolt.Tx, last int64) error {
	var recs []segment.Record
	size, next := 0, int64(1)
	add := func(r segment.Record) error {
		recs = append(recs, r)
		next++
		if size += len(r.Data) + 16; size < 1<<20 && next <= last {
			return nil
		}
		_, err := log.Append(recs)
		recs, size = recs[:0], 0
		return err
	}
	c := old.Bucket(bucketLog).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		body, err := unseal(k, v)
		if err != nil {
			return err
		}
		for pos := int64(binary.BigEndian.Uint64(k)); next < pos; {
			if err := add(segment.Record{Kind: segment.Dropped}); err != nil {
				return err
			}
		}
		if err := add(segment.Record{Kind: kindEvent, Data: body}); err != nil {
			return err
		}
	}
	for next <= last {
		if err := add(segment.Record{Kind: segment.Dropped}); err != nil {
			return err
		}
	}
	return nil
}

// verifyOld checks the log of a file before firstVersion.
func verifyOld(tx *bolt.Tx) error {
	last, records, err := oldTotals(tx)
	if err != nil {
		return err
	}
	var book memindex.Book
	err = tx.Bucket(bucketLog).ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("key %x of the log is not a position", k)
		}
		pos := mesh.Pos(binary.BigEndian.Uint64(k))
		body, err := unseal(k, v)
		if err != nil {
			return fmt.Errorf("the event at position %d: %w", pos, err)
		}
		r, err := decode(body)
		if err != nil {
			return fmt.Errorf("the event at position %d: %w", pos, err)
		}
		return book.Restore(r.key, r.seq, pos, &r.Entry, r.settled)
	})
	if err != nil {
		return err
	}
	if book.Records() != records || book.Last() > last {
		return fmt.Errorf("it has %d events up to position %d and should have %d up to %d",
			book.Records(), book.Last(), records, last)
	}
	return nil
}

// oldTotals returns the last position and the number of records.
func oldTotals(tx *bolt.Tx) (last mesh.Pos, records int, err error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || tx.Bucket(bucketLog) == nil || tx.Bucket(bucketState) == nil {
		return 0, 0, errNotOurs
	}
	b, err := unseal(keyTotals, meta.Get(keyTotals))
	if err != nil || len(b) == 0 {
		return 0, 0, errBroken
	}
	if b[0] < 1 || b[0] > oldFormat {
		return 0, 0, fmt.Errorf("it has format %d and this program reads %d", b[0], oldFormat)
	}
	n, b, err := cutNumber(b[1:])
	if err != nil {
		return 0, 0, err
	}
	count, _, err := cutNumber(b)
	return mesh.Pos(n), int(count), err
}
