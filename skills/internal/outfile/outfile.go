// Package outfile writes the files by which skills have their effects.
//
// A file is complete or absent, also after a crash, and is on the disk before
// the call returns. A name that is taken is left as it is, which is what makes
// effects happen once per key. All functions may be called concurrently, also
// from several processes on one folder.
//
// It does not decide what the files say.
package outfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentmesh/mesh"
)

// Name returns a file name, without suffix, for the idempotency key: 32
// hexadecimal digits, equal for equal keys of one tenant and otherwise not.
func Name(tenant mesh.TenantID, key string) string {
	sum := sha256.Sum256([]byte(string(tenant) + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// TenantFolder returns the folder of the tenant, below a folder of all. It is
// "." for the default tenant. Tenants whose names differ in case alone have
// different folders also where the file system knows no case.
func TenantFolder(tenant mesh.TenantID) string {
	if tenant == "" || tenant == mesh.DefaultTenant {
		return "."
	}
	name := string(tenant)
	if low := strings.ToLower(name); low != name {
		name = low + "=" + Name(tenant, "")[:8] // no tenant's name has a '='
	}
	return "tenant-" + name // never "..", whatever the tenant is called
}

// WriteOnce writes the file dir/name, making dir if need be, unless there is
// one of that name. The error is Unavailable if the disk does not let it.
func WriteOnce(dir, name string, data []byte) error {
	final := filepath.Join(dir, name)
	if _, err := os.Lstat(final); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return failed(dir, err)
	}
	temp, err := writeTemp(dir, name, data)
	if err != nil {
		return failed(dir, err)
	}
	defer func() { _ = os.Remove(temp) }() // gone already after a rename
	// A link, unlike a rename, does not replace what another call wrote.
	if err := os.Link(temp, final); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(temp, final); err != nil { // a file system without links
			return failed(dir, err)
		}
	}
	if err := syncDir(dir); err != nil {
		return failed(dir, err)
	}
	return nil
}

func failed(dir string, err error) error {
	return mesh.Errorf(mesh.Unavailable, "outfile.WriteOnce", "The folder %s cannot be written; check its permissions and the space left: %w", filepath.Base(dir), err)
}

func writeTemp(dir, name string, data []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
