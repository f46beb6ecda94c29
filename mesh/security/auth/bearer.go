package auth

import (
	"context"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
)

// A Prover knows callers by bearer tokens of one kind. It is called concurrently, and
// waits for nothing.
type Prover interface {
	// Prove returns whose the token is; false for a token of another kind. Its errors
	// are Unauthenticated, as of Refused, or Unavailable.
	Prove(token string) (mesh.Principal, bool, error)
}

// Bearer returns the mode in which callers are who a bearer token says, that the first of
// the provers knows which knows it. A tenant-id or user-id that disagrees is refused as
// Denied, but believed from who has the role operator and acts for every tenant. Grants
// and tickets are checked with the verifier; without one, calls under them are refused.
func Bearer(grants *grant.Verifier, provers ...Prover) rpc.Authenticator {
	return bearers{grants, provers}
}

type bearers struct {
	grants  *grant.Verifier
	provers []Prover
}

// Revocable is the prover whose tokens do not count that were issued before revoked says
// that those of their user were revoked.
func Revocable(p Prover, revoked func(mesh.Principal) (time.Time, bool)) Prover {
	return revocable{p, revoked}
}

type revocable struct {
	Prover
	revoked func(mesh.Principal) (time.Time, bool)
}

func (r revocable) Prove(token string) (mesh.Principal, bool, error) {
	p, known, err := r.Prover.Prove(token)
	if !known || err != nil {
		return p, known, err
	}
	if at, revoked := r.revoked(p); revoked {
		return mesh.Principal{}, true, Refused("is older than " + at.UTC().Format(time.RFC3339) + ", when all of its user were revoked; log in again, or have the operator make one whose not_before is later")
	}
	return p, true, nil
}

// Refused is the refusal of a bearer token, as "expired" or "is for another audience":
// what is wrong with it, and after a semicolon what to do, by default to get another.
func Refused(why string) error {
	if !strings.Contains(why, ";") {
		why += "; ask the operator for one"
	}
	return &mesh.Error{Code: mesh.Unauthenticated, Op: "auth.Bearer", Field: rpc.KeyAuth,
		Detail: "the token " + why + ` (scheme Bearer, realm "agentmesh")`}
}

func (b bearers) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	const op = "auth.Bearer"
	if c.Grant != "" || c.Ticket != "" {
		return underGrant(b.grants, c)
	}
	token, ok := bearer(c.Authorization)
	if !ok && len(b.provers) == 0 {
		return mesh.Principal{}, refusedCertificate("is missing, or is of nobody that the mesh knows; connect with one that is listed in mtls")
	}
	if !ok {
		return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: rpc.KeyAuth,
			Detail: "a token is needed: send the header " + rpc.KeyAuth + `: Bearer TOKEN (scheme Bearer, realm "agentmesh")`}
	}
	p, err := b.prove(token)
	if err != nil {
		return p, err
	}
	return agree(p, c, "token")
}

// agree returns who the call is for that p makes, which proved who it is.
func agree(p mesh.Principal, c rpc.Credentials, proof string) (mesh.Principal, error) {
	const op = "auth.agree"
	operator, self := p.Can(mesh.ActAdminNode), string(p.Tenant)+"/"+p.User
	if c.Tenant != "" && c.Tenant != p.Tenant {
		if !operator {
			return p, otherTenant(op, proof)
		}
		p.Tenant = c.Tenant
	}
	if c.User != "" && c.User != p.User {
		if !operator {
			return p, denied(op, rpc.KeyUser, "must be the user of the "+proof+"; leave it out")
		}
		p.User = c.User
	}
	if self != string(p.Tenant)+"/"+p.User {
		p.ImpersonatedBy = self
	}
	return p, nil
}

func (b bearers) prove(token string) (mesh.Principal, error) {
	for _, prover := range b.provers {
		if p, known, err := prover.Prove(token); known {
			return p, err
		}
	}
	return mesh.Principal{}, Refused("is not known")
}

// bearer returns the token of an authorization header of scheme Bearer.
func bearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, ok && token != "" && strings.EqualFold(scheme, "bearer")
}
