package cards

import (
	"crypto"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agentmesh/mesh"
)

// A Key is a public key with what limits its use.
type Key struct {
	jwk       jose.JSONWebKey
	thumb     string // RFC 7638
	notBefore int64  // Unix seconds; 0 is unlimited
	expires   int64
	revoked   bool
}

// A KeySet is a list of public keys: a trust store, or what a host publishes.
type KeySet []Key

// LoadTrust reads a trust store: a JWK set (RFC 7517 §5) whose keys may have
// the members nbf and exp, in Unix seconds, and revoked, a boolean. A revoked
// key is believed nowhere, also not when a host publishes it. Errors are
// Precondition and name the file.
func LoadTrust(path string) (KeySet, error) {
	const op = "cards.LoadTrust"
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mesh.Errorf(mesh.Precondition, op, "there is no trust store %s; correct its name, or make it: {\"keys\":[]}", path)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "the trust store %s cannot be read; check its permissions: %w", path, err)
	}
	set, bad := parseKeys(data)
	if bad != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "the trust store %s is not a JWK set of public keys with a kid each: %w", path, bad)
	}
	return set, nil
}

// parseKeys reads a JWK set. Of keys that cannot be used it returns the others
// and an error.
func parseKeys(data []byte) (KeySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc.Keys == nil {
		return nil, errors.New("there is no list of keys")
	}
	var set KeySet
	var bad error
	for _, raw := range doc.Keys[:min(len(doc.Keys), 100)] {
		k, err := parseKey(raw)
		if err != nil {
			bad = err
			continue
		}
		set = append(set, k)
	}
	return set, bad
}

func parseKey(raw []byte) (Key, error) {
	var k Key
	var limits struct {
		NotBefore int64 `json:"nbf"`
		Expires   int64 `json:"exp"`
		Revoked   bool  `json:"revoked"`
	}
	if err := errors.Join(json.Unmarshal(raw, &k.jwk), json.Unmarshal(raw, &limits)); err != nil {
		return k, err
	}
	if !k.jwk.Valid() || !k.jwk.IsPublic() || k.jwk.KeyID == "" || k.jwk.Use != "" && k.jwk.Use != "sig" {
		return k, errors.New("a key is not a public one for signatures with a kid")
	}
	thumb, err := k.jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return k, err
	}
	k.thumb = string(thumb)
	k.notBefore, k.expires, k.revoked = limits.NotBefore, limits.Expires, limits.Revoked
	return k, nil
}

// named returns the keys with the id.
func (s KeySet) named(kid string) KeySet {
	return slices.DeleteFunc(slices.Clone(s), func(k Key) bool { return k.jwk.KeyID != kid })
}

// revokes reports whether the set says that k, whatever it is called, is not
// to be believed.
func (s KeySet) revokes(k Key) bool {
	return slices.ContainsFunc(s, func(o Key) bool { return o.revoked && o.thumb == k.thumb })
}

// unusable says why the key may not be believed now, or "".
func (k Key) unusable(now time.Time) string {
	switch at := now.Unix(); {
	case k.revoked:
		return "is revoked"
	case k.expires != 0 && at >= k.expires:
		return "expired at " + time.Unix(k.expires, 0).UTC().Format(time.RFC3339)
	case k.notBefore != 0 && at < k.notBefore:
		return "is not valid before " + time.Unix(k.notBefore, 0).UTC().Format(time.RFC3339)
	}
	return ""
}
