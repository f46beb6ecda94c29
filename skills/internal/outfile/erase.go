package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// EraseAll removes the folder of an owner with all that is in it, or counts alone, and returns
// how many files there were that are not hidden. It may be cut short and called again. One
// that does not exist has none.
func EraseAll(dir string, countOnly bool) (n int, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			n++
		}
		if errors.Is(err, fs.ErrNotExist) { // it went away
			return nil
		}
		return err
	})
	if err != nil {
		return 0, failed(dir, err)
	}
	if _, err := os.Lstat(dir); countOnly || errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err := errors.Join(os.RemoveAll(dir), syncDir(filepath.Dir(dir))); err != nil {
		return 0, failed(dir, err)
	}
	return n, nil
}

// EraseLedgers removes what an owner did under keys, in all ledgers below dir.
func EraseLedgers(dir, owner string) error {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(dir, err)
	}
	for _, d := range list {
		if _, err := EraseAll(filepath.Join(dir, d.Name(), owner), false); err != nil {
			return err
		}
	}
	return nil
}
