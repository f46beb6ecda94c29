// Package keyfile writes private keys, and other secrets, to files of their owner, and reads them.
//
// A key file is PEM (PKCS #8, and certificates behind it), readable by its owner alone, and there is whole
// or not at all, whatever happens while it is made. What that leaves, [Sweep] removes. Functions may be called
// concurrently, by several processes too: one of them makes the file. What a key
// is good for is the caller's.
package keyfile

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentmesh/mesh"
)

// Create makes the file with the key, a private key of package ecdsa or
// ed25519, and behind it the certificates, in DER. It returns an error that is fs.ErrExist
// if there is a file already, which it leaves as it is.
func Create(path string, key crypto.PrivateKey, certificates ...[]byte) error {
	return write(path, key, certificates, os.Link) // fails if another process was first
}

// Replace makes the file as Create does, in the place of one that is there.
func Replace(path string, key crypto.PrivateKey, certificates ...[]byte) error {
	return write(path, key, certificates, os.Rename)
}

// ReplaceText makes the file with a secret that is no key, in the place of one that is there.
func ReplaceText(path string, text []byte) error { return writeText(path, text, 0o600, os.Rename) }

// Publish makes the file with what everybody may read, in the place of one that is there.
func Publish(path string, text []byte) error { return writeText(path, text, 0o644, os.Rename) }

// What a process that died left of a file that it was writing is older than any process that
// came after it; grace is for those that are writing now.
const grace = time.Minute

var started = time.Now()

// secretSize is how long a secret is, in bytes.
const secretSize = 32

// LoadOrCreateSecret returns the random secret in the file, which it makes if there is
// none. A file that holds none, or that others can read, is a Precondition error and is
// left as it is.
func LoadOrCreateSecret(path string) ([]byte, error) {
	const op = "keyfile.LoadOrCreateSecret"
	text, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, secretSize)
		if _, err := rand.Read(fresh); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		err := writeText(path, []byte(hex.EncodeToString(fresh)+"\n"), 0o600, os.Link)
		if err != nil && !errors.Is(err, fs.ErrExist) { // then another process was first
			return nil, mesh.Errorf(mesh.Precondition, op, "the key file %s cannot be written; make its folder writable: %w", path, err)
		}
		text, err = Read(path)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
	} else if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != secretSize {
		return nil, mesh.Errorf(mesh.Precondition, op, "the key file %s does not hold a secret; restore it from a copy, or remove it for a new one", path)
	}
	return secret, nil
}

// Sweep removes from the folder what processes left that died while they wrote to it. It is
// called when one starts, and leaves what others may be writing.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		digits, ours := strings.CutPrefix(e.Name(), tempPrefix)
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if info, e2 := e.Info(); e2 == nil && info.ModTime().Before(started.Add(-grace)) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // another was first, or there is no folder yet
		return nil
	}
	return err
}

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".key-"

func write(path string, key crypto.PrivateKey, certificates [][]byte, put func(from, to string) error) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, c := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	return writeText(path, text, 0o600, put)
}

func writeText(path string, text []byte, mode fs.FileMode, put func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(tmp.Name()); !errors.Is(e, fs.ErrNotExist) { // it may have become the file
			err = errors.Join(err, e)
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := put(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// Read returns what is in the file. The error is Precondition if it cannot be
// read, which is fs.ErrNotExist if there is none, or if others than its owner
// may read it.
func Read(path string) ([]byte, error) {
	const op = "keyfile.Read"
	unreadable := func(err error) error {
		return mesh.Errorf(mesh.Precondition, op, "the file %s cannot be read; check its owner and permissions: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, mesh.Errorf(mesh.Precondition, op,
			"the file %s can be read by others, and holds secrets; run chmod 600 %s, or remove it for a new one", path, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
