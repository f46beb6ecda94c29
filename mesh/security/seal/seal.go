// Package seal encrypts what the mesh keeps of the secrets of others.
//
// A [Box] guarantees that what it sealed is opened under the same secret, for the same
// purpose and under the same name, or not at all (AES-256-GCM; HKDF with SHA-256 makes the
// key). It does not change and may be used concurrently. Where the secret comes from, and
// who may open, is the caller's.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
)

// A Box encrypts for one purpose. Use [New].
type Box struct{ aead cipher.AEAD }

// New returns a Box whose key is made of the secret for the purpose.
func New(secret []byte, purpose string) (*Box, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// Seal encrypts plain, bound to the name that it is kept under.
func (b *Box) Seal(name string, plain []byte) []byte {
	return b.aead.Seal(nil, nil, plain, []byte(name)) //nolint:gosec // the AEAD makes a random nonce itself
}

// Open returns what was sealed under the name.
func (b *Box) Open(name string, sealed []byte) ([]byte, error) {
	return b.aead.Open(nil, nil, sealed, []byte(name))
}
