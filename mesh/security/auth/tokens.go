package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"os"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
)

// hashPrefix names the hash of a token in a file.
const hashPrefix = "sha256:"

// Hash returns the hash of a token as it is written into a token file. Tokens
// must be long and random: the hash is fast, and protects nothing that can be
// guessed.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Tokens is the mode in which callers are known by bearer tokens.
type Tokens struct {
	entries []entry
	grants  *grant.Verifier
}

// An entry is one token of the file.
type entry struct {
	name      string
	hash      [sha256.Size]byte
	principal mesh.Principal
}

var _ rpc.Authenticator = (*Tokens)(nil)

// LoadTokens reads the token file, YAML or JSON: a list of entries as
//
//   - name: alice-laptop            # for people; unique
//     hash: sha256:9f86d0...        # Hash of the token; unique
//     tenant: acme
//     user: alice
//     permissions: [chat, agents]
//
// All fields are required and there are no others. Errors are Invalid and name
// file, line, entry and field; a file that cannot be read is Precondition. The
// file is read once. Grants are checked with the verifier; without one, calls
// under a grant are refused.
func LoadTokens(path string, grants *grant.Verifier) (*Tokens, error) {
	const op = "auth.LoadTokens"
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op,
			"the token file %s cannot be read; create it, or start with auth none: %w", path, err)
	}
	entries, err := parseTokens(path, data)
	if err != nil {
		return nil, err
	}
	return &Tokens{entries: entries, grants: grants}, nil
}

// Authenticate implements [rpc.Authenticator]. A caller is who its token says.
// A tenant-id or user-id that disagrees is refused as Denied, but believed
// from a token with the operator permission, which acts for every tenant.
func (t *Tokens) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	const op = "auth.Tokens"
	if c.Grant != "" {
		return underGrant(t.grants, c)
	}
	token, ok := bearer(c.Authorization)
	if !ok {
		return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: rpc.KeyAuth,
			Detail: "a token is needed: send the header " + rpc.KeyAuth + `: Bearer TOKEN (scheme Bearer, realm "agentmesh")`}
	}
	p, ok := t.find(token)
	if !ok {
		return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: rpc.KeyAuth,
			Detail: `the token is not known; ask the operator for one (scheme Bearer, realm "agentmesh")`}
	}
	p.Permissions = append([]mesh.Permission(nil), p.Permissions...)
	operator := p.Can(mesh.PermOperator)
	if c.Tenant != "" && c.Tenant != p.Tenant {
		if !operator {
			return mesh.Principal{}, otherTenant(op, "token")
		}
		p.Tenant = c.Tenant
	}
	if c.User != "" && c.User != p.User {
		if !operator {
			return mesh.Principal{}, denied(op, rpc.KeyUser, "must be the user of the token; leave it out")
		}
		p.User = c.User
	}
	return p, nil
}

// find looks at every entry, however early it finds the token, so that the
// time it takes says nothing.
func (t *Tokens) find(token string) (mesh.Principal, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range t.entries {
		match := subtle.ConstantTimeCompare(sum[:], t.entries[i].hash[:])
		found = subtle.ConstantTimeSelect(match, i, found)
	}
	if found < 0 {
		return mesh.Principal{}, false
	}
	return t.entries[found].principal, true
}
