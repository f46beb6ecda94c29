package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh/store/segment"
)

// What is removed from a file of bbolt stays in pages of it that are free, until they are used
// for something else. A file from which something was removed therefore says so, and who opens
// it next writes it anew: what was deleted is in no file of the folder then.

// keyRemoved is in bucketMeta when something was removed.
var keyRemoved = []byte("removed")

// noteRemoved says in the file that something is removed from it.
func noteRemoved(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyRemoved, []byte{1}) }

// scrub writes the file, which nobody has open, anew if something was removed from it. After an
// error, as that of a full disk, it is as it was, and so it is after a kill.
func scrub(path string, page int) error {
	removed := false
	err := readFile(path, func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		removed = meta != nil && meta.Get(keyRemoved) != nil
		return nil
	})
	if err != nil || !removed {
		return err
	}
	next := path + newSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return err
	}
	if err = copyThere(next, path, page); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return segment.SyncFolder(filepath.Dir(path))
}

// copyThere makes the file next of all that is in the one at path.
func copyThere(next, path string, page int) (err error) {
	from, err := openFile(path, page, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard(from.Close)) }()
	to, err := openFile(next, page, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard(to.Close)) }()
	return guard(func() error {
		to.NoSync = true // it counts once it has its name
		if err := bolt.Compact(to, from, 1<<20); err != nil {
			return err
		}
		err := to.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyRemoved) })
		return errors.Join(err, to.Sync())
	})
}
