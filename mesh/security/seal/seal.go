// Package seal encrypts what the mesh keeps of the secrets of others.
//
// A [Box] guarantees that what it sealed is opened under the same secret, for the same
// purpose and under the same name, or not at all (AES-256-GCM; HKDF with SHA-256 makes the
// key). It does not change and may be used concurrently. Where the secrets come from, and
// who may open, is the caller's.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
)

// A Box encrypts for one purpose. Use [New].
type Box struct{ all []cipher.AEAD }

// New returns a Box whose keys are made of the secrets for the purpose: it seals under the
// first one, and opens under any, so that secrets can be replaced.
func New(purpose string, secrets ...[]byte) (*Box, error) {
	b := &Box{}
	for _, s := range secrets {
		aead, err := newAEAD(s, purpose)
		if err != nil {
			return nil, err
		}
		b.all = append(b.all, aead)
	}
	if len(b.all) == 0 {
		return nil, errors.New("a box needs a secret")
	}
	return b, nil
}

func newAEAD(secret []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal encrypts plain, bound to the name that it is kept under.
func (b *Box) Seal(name string, plain []byte) []byte {
	return b.all[0].Seal(nil, nil, plain, []byte(name)) //nolint:gosec // the AEAD makes a random nonce itself
}

// Open returns what was sealed under the name, and whether that was with the first secret:
// what was not is to be sealed again before the other secret goes.
func (b *Box) Open(name string, sealed []byte) (plain []byte, first bool, err error) {
	for i, aead := range b.all {
		if plain, err = aead.Open(nil, nil, sealed, []byte(name)); err == nil {
			return plain, i == 0, nil
		}
	}
	return nil, false, err
}
