package bolt

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/memindex"
)

// A migration brings a data folder from the version that is its place in
// migrations, counted from 0, to the next one. It runs in one transaction with
// the change of the version, so that a folder never has half of one, and none
// runs twice. What it does beside the file would not be undone with the
// transaction, and must bear to be done again.
//
// A file is verified before its migrations and after them, so that a damaged
// one is refused before anything is written: verify reads all versions.
type migration func(tx *bolt.Tx) error

// migrations are all that there ever were; the number of them is the version of
// the folders that this program makes and serves. They are only added to, at the
// end. A new file takes the same way.
var migrations = []migration{
	func(tx *bolt.Tx) error { // folders before version 1 do not say theirs
		if tx.Bucket(bucketMeta).Get(keyTotals) == nil { // a new file
			return nil
		}
		t, err := getTotals(tx)
		if err != nil {
			return err
		}
		return putTotals(tx, t) // with the format that programs of then refuse
	},
}

// keyVersion has the folder's version, in bucketMeta.
var keyVersion = []byte("version")

func putVersion(tx *bolt.Tx, version int) error {
	b := binary.AppendUvarint(make([]byte, 4, 4+binary.MaxVarintLen64), uint64(version))
	seal(keyVersion, b)
	return tx.Bucket(bucketMeta).Put(keyVersion, b)
}

// getVersion returns the folder's version, 0 for one that does not say.
func getVersion(tx *bolt.Tx) (int, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(keyVersion) == nil {
		return 0, nil
	}
	b, err := unseal(keyVersion, meta.Get(keyVersion))
	if err != nil {
		return 0, err
	}
	version, _, err := cutNumber(b)
	return int(version), err
}

// migrate brings a file that was verified to the newest version, and verifies it
// again. One of a version to come is refused.
func (s *Store) migrate() error {
	newest := len(s.migrations)
	switch {
	case s.version > newest:
		return mesh.Errorf(mesh.Precondition, opOpen,
			"Data folder %s is of version %d, and this program knows versions up to %d; nothing in it was changed. "+
				"Start the newer program that wrote it, or use another --data", filepath.Dir(s.path), s.version, newest)
	case s.version == newest:
		return nil
	}
	db, err := openFile(s.path, false)
	if err != nil {
		return damaged(s.path, err)
	}
	err = guard(func() error {
		for from := s.version; from < newest; from++ {
			err := db.Update(func(tx *bolt.Tx) error {
				return errors.Join(s.migrations[from](tx), putVersion(tx, from+1))
			})
			if err != nil {
				return err
			}
			s.logger.Info("data folder migrated", "path", s.path, "from", from, "to", from+1)
			s.version = from + 1
		}
		return nil
	})
	var p *panicError
	if !errors.As(err, &p) { // else bbolt may hold its locks
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return mesh.Errorf(mesh.Precondition, opOpen,
			"Data folder %s could not be brought from version %d to version %d (%v), and still is of version %d; "+
				"see that its disk can be written and has room, and start again: %w", filepath.Dir(s.path), s.version, newest, err, s.version, err)
	}
	s.book = memindex.Book{}
	return s.verify()
}
