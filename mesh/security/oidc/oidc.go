// Package oidc knows callers by the tokens of OpenID Connect providers.
//
// [Open] takes the providers that an operator believes ([Issuer]) and finds, by their
// discovery documents, the keys with which their tokens are signed. [Issuers.Prove] says
// whose a token is. It waits for nothing: keys are fetched by [Issuers.Run], once in a
// while and when a token names a key that is not known, at most every few seconds. Until
// then whoever shows such a token is told to come again (Unavailable).
//
// A provider says who somebody is and what roles that one has only as far as its [Issuer]
// allows. Providers that may name the same tenant give their users different prefixes, so
// that nobody is somebody of another provider.
//
// What providers answer is not trusted: it is bounded, and what cannot be used leaves the
// keys of before as they are.
package oidc

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/security/auth"

	"golang.org/x/sync/errgroup"
)

// An Issuer is a provider whose tokens are believed, and what of them is.
type Issuer struct {
	// Issuer is its URL, as its tokens have it. It is https, but on this machine.
	Issuer string `yaml:"issuer"`
	// Audience must be among those that a token is for.
	Audience string `yaml:"audience"`
	// Tenant is that of all of the issuer's users. Instead of it, TenantClaim is the claim
	// that names a user's tenant, one of Tenants.
	Tenant      string   `yaml:"tenant"`
	TenantClaim string   `yaml:"tenant_claim"`
	Tenants     []string `yaml:"tenants"`
	// UserClaim is the claim that names a user; default sub. UserPrefix is put before it.
	UserClaim  string `yaml:"user_claim"`
	UserPrefix string `yaml:"user_prefix"`
	// RolesClaim is a claim with a text, of words, or a list of texts, and Roles says which
	// roles those stand for; others are ignored. DefaultRoles all users have.
	RolesClaim   string              `yaml:"roles_claim"`
	Roles        map[string][]string `yaml:"roles"`
	DefaultRoles []string            `yaml:"default_roles"`
}

// Issuers are the providers that are believed. Use Open.
type Issuers struct{ all []*issuer }

// An issuer is a provider at work.
type issuer struct {
	Issuer
	roles   map[string][]mesh.Role
	usual   []mesh.Role
	tenants []string
	keys    *keys
	now     func() time.Time
}

var _ auth.Prover = (*Issuers)(nil)

// Options are the choices of Open. The zero value of each is its default.
type Options struct {
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Alarms are told of keys that cannot be fetched; default none.
	Alarms *alarm.Set
}

// firstWait is how long Open waits for keys.
const firstWait = 3 * time.Second

// Open returns the issuers of the configuration, which Check takes. It waits a moment for
// their keys; those that it does not get Run goes on to ask for.
func Open(ctx context.Context, config []Issuer, o Options) (*Issuers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if field, why := Check(config); why != "" {
		return nil, mesh.InvalidField("oidc.Open", field, "%s", why)
	}
	s := &Issuers{}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	var first errgroup.Group
	for _, c := range config {
		i := &issuer{Issuer: c, roles: map[string][]mesh.Role{}, tenants: tenantsOf(c), keys: newKeys(c.Issuer, o), now: o.Now}
		if i.UserClaim == "" {
			i.UserClaim = "sub"
		}
		i.usual, _ = rolesOf(c.DefaultRoles) // Check knows them all
		for value, names := range c.Roles {
			i.roles[value], _ = rolesOf(names)
		}
		s.all = append(s.all, i)
		first.Go(func() error { i.keys.refresh(ctx); return nil })
	}
	return s, first.Wait()
}

// Run keeps the keys fresh until ctx is done.
func (s *Issuers) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, i := range s.all {
		all.Go(func() error { i.keys.run(ctx); return nil })
	}
	return all.Wait()
}

// Names are the URLs of the issuers.
func Names(config []Issuer) []string {
	var names []string
	for _, c := range config {
		names = append(names, c.Issuer)
	}
	return names
}

// Check returns the field, within the list, that is not as it should be, and why; both ""
// if all are.
func Check(config []Issuer) (field, why string) {
	for n, c := range config {
		if field, why := c.check(); why != "" {
			return field, why + "; it is that of issuer " + mesh.Clip(c.Issuer, 100)
		}
		for _, o := range config[:n] {
			if o.Issuer == c.Issuer {
				return "issuer", "is in the list twice: " + c.Issuer
			}
			if strings.HasPrefix(o.UserPrefix, c.UserPrefix) || strings.HasPrefix(c.UserPrefix, o.UserPrefix) {
				for _, t := range tenantsOf(c) {
					if slices.Contains(tenantsOf(o), t) {
						return "user_prefix", "must be another one for each issuer of the tenant " + t + ", and none the beginning of another, so that nobody is somebody of another issuer; give " +
							o.Issuer + " and " + c.Issuer + " such as corp: and partner:"
					}
				}
			}
		}
	}
	return "", ""
}

func (c Issuer) check() (field, why string) {
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || !safe(u):
		return "issuer", "must be the https URL of a provider, or an http one of this machine"
	case c.Audience == "":
		return "audience", "is missing; name what tokens for this mesh are for, as the provider has it"
	case (c.Tenant == "") == (c.TenantClaim == ""):
		return "tenant", "or tenant_claim is needed, and not both: the tenant of all users, or the claim that names it"
	case c.Tenant != "" && len(c.Tenants) > 0:
		return "tenants", "is for tenant_claim; leave it out with tenant"
	case c.TenantClaim != "" && len(c.Tenants) == 0:
		return "tenants", "is missing; list the tenants that the issuer may name"
	case c.RolesClaim == "" && len(c.Roles) > 0:
		return "roles_claim", "is missing; name the claim whose values are in roles"
	case len(c.DefaultRoles) == 0 && len(c.Roles) == 0:
		return "default_roles", "or roles are needed, or nobody may do anything"
	}
	for _, t := range tenantsOf(c) {
		if err := mesh.TenantID(t).Validate(); err != nil {
			return "tenants", mesh.DetailOf(err)
		}
	}
	for _, names := range c.Roles {
		if _, bad := rolesOf(names); bad != "" {
			return "roles", "has " + bad
		}
	}
	if _, bad := rolesOf(c.DefaultRoles); bad != "" {
		return "default_roles", "has " + bad
	}
	return "", ""
}

// Safe reports whether nobody on the way can change what the URL answers: it is https, or on
// this machine.
func Safe(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && safe(u)
}

// safe reports whether nobody on the way can change what the URL answers.
func safe(u *url.URL) bool {
	host := u.Hostname()
	return u.Scheme == "https" || u.Scheme == "http" && (host == "127.0.0.1" || host == "::1" || host == "localhost")
}

func tenantsOf(c Issuer) []string {
	if c.Tenant != "" {
		return []string{c.Tenant}
	}
	return c.Tenants
}

// rolesOf returns the roles of the names, or the name that is none.
func rolesOf(names []string) (all []mesh.Role, bad string) {
	for _, name := range names {
		r, ok := mesh.RoleOf(name)
		if !ok {
			return nil, mesh.Clip(name, 40) + ", which is no role"
		}
		all = append(all, r)
	}
	return all, ""
}
