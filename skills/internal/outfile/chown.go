package outfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentmesh/mesh"
)

// MoveAll puts the files of the folder from into the folder to, with the folders
// below it if deep, and returns how many there were. Nothing is replaced: where to has
// another file of that name, the one that comes has mark in its name. It may be cut short
// and called again. Nobody else may use the folders.
func MoveAll(from, to, mark string, deep bool) (n int, err error) {
	list, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, failed(from, err)
	}
	for _, d := range list {
		name := d.Name()
		switch {
		case strings.HasPrefix(name, ".lock-"):
		case !d.IsDir():
			if err := moveFile(from, to, name, mark); err != nil {
				return n, err
			}
			n++
		case deep:
			more, err := MoveAll(filepath.Join(from, name), filepath.Join(to, name), mark, true)
			if n += more; err != nil {
				return n, err
			}
			if err := os.Remove(filepath.Join(from, name)); err != nil && !leftLocks(filepath.Join(from, name)) {
				return n, failed(from, err)
			}
		}
	}
	return n, nil
}

// leftLocks reports whether nothing but locks is left in the folder, which is removed.
func leftLocks(dir string) bool {
	list, err := os.ReadDir(dir)
	for _, d := range list {
		if err == nil && !strings.HasPrefix(d.Name(), ".lock-") {
			return false
		}
	}
	return err == nil && os.RemoveAll(dir) == nil
}

// moveFile moves one file, or leaves out one that is there already.
func moveFile(from, to, name, mark string) error {
	src := filepath.Join(from, name)
	as := name
	for i := 1; ; i++ {
		there, err := os.Lstat(filepath.Join(to, as))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return failed(to, err)
		}
		if there.Mode().IsRegular() && equal(src, filepath.Join(to, as)) {
			return Remove(from, name)
		}
		ext := filepath.Ext(name)
		if as = strings.TrimSuffix(name, ext) + "~" + mark + ext; i > 1 {
			as = fmt.Sprintf("%s~%s%d%s", strings.TrimSuffix(name, ext), mark, i, ext)
		}
	}
	if err := makeDir(to); err != nil {
		return failed(to, err)
	}
	if err := errors.Join(os.Rename(src, filepath.Join(to, as)), syncDir(to), syncDir(from)); err != nil {
		return failed(to, err)
	}
	return nil
}

// equal reports whether both are files with the same content.
func equal(a, b string) bool {
	if info, err := os.Lstat(a); err != nil || !info.Mode().IsRegular() {
		return false
	}
	one, err := os.ReadFile(a)
	two, err2 := os.ReadFile(b)
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// Shared reports whether in a folder of owners, as [Folder] or [Distinct] names them, is a
// file of what the users of a tenant share, if deep also in a folder below.
func Shared(dir string, deep bool) bool {
	list, _ := os.ReadDir(dir) // without the folder there are none
	for _, d := range list {
		name := d.Name()
		switch {
		case strings.HasPrefix(name, "."), strings.Contains(name, "@"):
		case !d.IsDir(), has(filepath.Join(dir, name), deep):
			return true
		}
	}
	return false
}

// has reports whether a folder has a file that is not hidden.
func has(dir string, deep bool) bool {
	list, _ := os.ReadDir(dir)
	for _, d := range list {
		if !strings.HasPrefix(d.Name(), ".") && (!d.IsDir() || deep && has(filepath.Join(dir, d.Name()), true)) {
			return true
		}
	}
	return false
}

// ChownLedgers gives what was done under keys, in all ledgers below dir, to another owner.
func ChownLedgers(dir string, from, to mesh.Owner, mark string) error {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(dir, err)
	}
	for _, d := range list {
		if _, err := MoveAll(filepath.Join(dir, d.Name(), Distinct(from)), filepath.Join(dir, d.Name(), Distinct(to)), mark, true); err != nil {
			return err
		}
	}
	return nil
}
