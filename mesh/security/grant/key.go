package grant

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

// LoadOrCreateKey returns the signer whose keys are in the file, PEM blocks
// with a PKCS #8 private key each, that only its owner may read: the first one signs. If there is no file
// it makes one with a new key. The file appears whole or not at all, also when
// the machine stops in between or when two processes do it at once, of which
// both then have the same key.
//
// A file that others can read, or that holds no such key, is a Precondition
// error and is left as it is.
func LoadOrCreateKey(path string) (*Signer, error) {
	const op = "grant.LoadOrCreateKey"
	s, err := loadKey(op, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, mesh.Errorf(mesh.Precondition, op, "the key file %s cannot be written; make its folder writable: %w", path, err)
	}
	return loadKey(op, path)
}

func loadKey(op, path string) (*Signer, error) {
	data, err := keyfile.Read(path)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	damaged := mesh.Errorf(mesh.Precondition, op,
		"the key file %s does not hold an Ed25519 private key; restore it from a copy, or remove it for a new key", path)
	var keys []ed25519.PrivateKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		key, ok := parsed.(ed25519.PrivateKey)
		if err != nil || !ok {
			damaged.Err = err
			return nil, damaged
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, damaged
	}
	return &Signer{keys}, nil
}

// createKey makes the file with a new key, or returns fs.ErrExist.
func createKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	return keyfile.Create(path, key)
}
