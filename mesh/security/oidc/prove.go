package oidc

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// skew is how far the clocks of issuers may be from ours.
const skew = time.Minute

// algorithms are those of signatures that count. There is none with a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// types are those of tokens that say who calls; a token may also say none.
var types = []string{"", "jwt", "at+jwt", "application/at+jwt"}

const again = "; log in again at the issuer"

// Prove implements [auth.Prover] for tokens in the form of a JWT.
func (s *Issuers) Prove(token string) (mesh.Principal, bool, error) {
	if strings.Count(token, ".") != 2 {
		return mesh.Principal{}, false, nil
	}
	p, err := s.prove(token)
	return p, true, err
}

func (s *Issuers) prove(token string) (p mesh.Principal, err error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return p, auth.Refused(fmt.Sprintf("is no JWT that is signed with one of %v; have the issuer sign it so", algorithms))
	}
	var says jwt.Claims // what nobody has proved yet
	if err := parsed.UnsafeClaimsWithoutVerification(&says); err != nil {
		return p, auth.Refused("has claims that are not as RFC 7519 says" + again)
	}
	at := slices.IndexFunc(s.all, func(i *issuer) bool { return i.Issuer.Issuer == says.Issuer })
	if at < 0 {
		return p, auth.Refused(fmt.Sprintf("is of the issuer %q, which this mesh does not believe; use one of %s", mesh.Clip(says.Issuer, 100), strings.Join(s.names(), ", ")))
	}
	i := s.all[at]
	head := parsed.Headers[0]
	if typ, _ := head.ExtraHeaders[jose.HeaderType].(string); !slices.Contains(types, strings.ToLower(typ)) {
		return p, auth.Refused(fmt.Sprintf("is of the type %q; send an access token (at+jwt or JWT)", mesh.Clip(typ, 40)))
	}
	key, ok, pending := i.keys.find(head.KeyID, head.Algorithm)
	switch {
	case pending:
		return p, rpc.WithRetryAfter(mesh.Errorf(mesh.Unavailable, "oidc.Prove",
			"the keys of the issuer %s are not known at the moment; try again in a few seconds", i.Issuer.Issuer), refreshLeast)
	case !ok:
		return p, auth.Refused(fmt.Sprintf("is signed with a key (%q, %s) that its issuer does not publish", mesh.Clip(head.KeyID, 60), head.Algorithm) + again)
	}
	return i.believe(token, head.Algorithm, key.Key)
}

// believe returns who the token says, if the key signed it and it counts here and now.
func (i *issuer) believe(token, alg string, key crypto.PublicKey) (p mesh.Principal, err error) {
	signed, err := goidc.NewVerifier(i.Issuer.Issuer, &goidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}, &goidc.Config{
		SupportedSigningAlgs: []string{alg},
		SkipClientIDCheck:    true, SkipExpiryCheck: true, // below, where there is more to say
	}).Verify(context.Background(), token)
	if err != nil {
		return p, auth.Refused("is not signed by its issuer as it says" + again)
	}
	var std jwt.Claims
	var claims map[string]any
	if signed.Claims(&std) != nil || signed.Claims(&claims) != nil {
		return p, auth.Refused("has claims that are not as RFC 7519 says" + again)
	}
	if !slices.Contains(std.Audience, i.Audience) {
		return p, auth.Refused(fmt.Sprintf("is not for the audience %q; ask the issuer for one that is", i.Audience))
	}
	if claims["cnf"] != nil {
		return p, auth.Refused("is bound to a key, which is not asked for here; ask the issuer for a bearer token")
	}
	if err := inTime(std, i.now()); err != nil {
		return p, err
	}
	if p, err = i.principal(claims); err != nil {
		return p, err
	}
	p.Issuer = i.Issuer.Issuer
	p.Credential = "oidc:" + i.Issuer.Issuer + "#" + mesh.Clip(std.Subject, 255)
	p.Expires = std.Expiry.Time().Add(skew)
	if std.IssuedAt != nil {
		p.Issued = std.IssuedAt.Time()
	}
	return p, nil
}

// inTime returns why the token does not count now, or nil.
func inTime(c jwt.Claims, now time.Time) error {
	const clocks = "; log in again, and if that does not help, set the clocks of issuer and mesh right"
	say := func(what string, t time.Time) error {
		return auth.Refused(fmt.Sprintf("%s %s, and here it is %s", what, t.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)) + clocks)
	}
	switch {
	case c.Expiry == nil:
		return auth.Refused("does not say when it expires; have the issuer set exp")
	case now.After(c.Expiry.Time().Add(skew)):
		return say("expired at", c.Expiry.Time())
	case c.NotBefore != nil && now.Add(skew).Before(c.NotBefore.Time()):
		return say("counts from", c.NotBefore.Time())
	case c.IssuedAt != nil && now.Add(skew).Before(c.IssuedAt.Time()):
		return say("was issued at", c.IssuedAt.Time())
	}
	return nil
}

// principal is who the claims name, as far as the issuer may.
func (i *issuer) principal(claims map[string]any) (p mesh.Principal, err error) {
	tenant := i.Tenant
	if i.TenantClaim != "" {
		tenant, _ = claim(claims, i.TenantClaim).(string)
	}
	if !slices.Contains(i.tenants, tenant) {
		return p, auth.Refused(fmt.Sprintf("names in %s no tenant that its issuer may name; have the operator add it to oidc.tenants", i.TenantClaim))
	}
	user, _ := claim(claims, i.UserClaim).(string)
	if user == "" {
		return p, auth.Refused(fmt.Sprintf("names no user in %s; have the issuer add it, or the operator set oidc.user_claim", i.UserClaim))
	}
	user = i.UserPrefix + user
	if rpc.CheckUser(user) != nil {
		return p, auth.Refused(fmt.Sprintf("names in %s a user that is not 1 to 128 printable ASCII characters; have the operator set another oidc.user_claim", i.UserClaim))
	}
	roles := slices.Clone(i.usual)
	for _, value := range texts(claim(claims, i.RolesClaim)) {
		roles = append(roles, i.roles[value]...)
	}
	slices.Sort(roles)
	return mesh.Principal{Tenant: mesh.TenantID(tenant), User: user, Roles: slices.Compact(roles)}, nil
}

// claim is the claim of the name or, of one with dots, what is there in an object.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, _ := strings.Cut(name, ".")
	if within, ok := claims[first].(map[string]any); ok && rest != "" {
		return claim(within, rest)
	}
	return nil
}

// texts are the words of a text, or the texts of a list.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

func (s *Issuers) names() (names []string) {
	for _, i := range s.all {
		names = append(names, i.Issuer.Issuer)
	}
	return names
}
