package tasks

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"agentmesh/mesh"
)

// KeySize is the length of the key of [New], in bytes.
const KeySize = 32

// maxToken bounds the tokens that are looked at, in bytes.
const maxToken = 512

func newSeal(key []byte) (cipher.AEAD, error) {
	const op = "tasks.New"
	if len(key) != KeySize {
		return nil, mesh.InvalidField(op, "key", "must be %d bytes, and is %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return seal, mesh.Wrap(op, err)
}

// Token returns the page token with which the query goes on after the task. It
// tells its bearer nothing and works for the same tenant, caller and filters
// only; the limit may change.
func (x *Index) Token(q Query, after Task) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(after.Since.UnixMilli()))
	sealed := x.seal.Seal(nil, nil, append(plain, after.ID...), q.binding()) //nolint:gosec // G407: this AEAD makes the nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// unseal returns the place after which the query's page begins; nil for the
// first page.
func (x *Index) unseal(q Query) (*place, error) {
	if q.Token == "" {
		return nil, nil
	}
	refused := mesh.InvalidField("tasks.List", "page_token",
		"was not given for this list; use the token of the page before with the same filters, or begin without one")
	if len(q.Token) > maxToken {
		return nil, refused
	}
	sealed, err := base64.RawURLEncoding.DecodeString(q.Token)
	if err != nil || base64.RawURLEncoding.EncodeToString(sealed) != q.Token { // the decoder also takes other spellings
		return nil, refused
	}
	plain, err := x.seal.Open(nil, nil, sealed, q.binding())
	if err != nil || len(plain) < 8 {
		return nil, refused
	}
	return &place{at: int64(binary.BigEndian.Uint64(plain)), id: mesh.ExecutionID(plain[8:])}, nil
}

// binding is what a token is bound to.
func (q Query) binding() []byte {
	return fmt.Appendf(nil, "%q %q %q %q %d %d.%d", q.Tenant, q.Caller.User, q.Agent, q.Thread, q.State, q.Since.Unix(), q.Since.Nanosecond())
}
