package auth

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A Certificate says who somebody is that connects with a certificate, and what that one
// may do.
type Certificate struct {
	// ID is the SPIFFE ID in it, as "spiffe://example.com/people/alice", or with "/*" at
	// its end all those with one more part, which is then the user's name. Instead of it,
	// Subject is its subject as RFC 2253 writes it, as "CN=alice,O=Example".
	ID      string `yaml:"id"`
	Subject string `yaml:"subject"`
	Tenant  string `yaml:"tenant"`
	// User is the user's name, but for an ID with "/*"; UserPrefix is put before that one.
	User       string   `yaml:"user"`
	UserPrefix string   `yaml:"user_prefix"`
	Roles      []string `yaml:"roles"`
}

// Certify knows callers by the certificates with which they connected and which were
// verified; false for one of nobody. It is called concurrently.
type Certify func(*x509.Certificate) (mesh.Principal, bool)

// every is at the end of an ID that stands for many.
const every = "/*"

// CheckCertificates returns the field that is not as it should be, and why; both "" if all
// are.
func CheckCertificates(list []Certificate) (field, why string) {
	for n, c := range list {
		u, err := url.Parse(c.ID)
		many := strings.HasSuffix(c.ID, every)
		switch {
		case (c.ID == "") == (c.Subject == ""):
			return "id", "or subject is needed, and not both: what is in the certificate"
		case c.ID != "" && (err != nil || u.Scheme != "spiffe" || u.Host == "" || strings.Contains(strings.TrimSuffix(c.ID, every), "*")):
			return "id", fmt.Sprintf("must be as spiffe://example.com/people/alice, or end with /*, and is %q", mesh.Clip(c.ID, 100))
		case mesh.TenantID(c.Tenant).Validate() != nil:
			return "tenant", fmt.Sprintf("must be the name of a tenant, and is %q", mesh.Clip(c.Tenant, 48))
		case many && c.User != "":
			return "user", "is for one certificate; leave it out with " + c.ID
		case !many && c.UserPrefix != "":
			return "user_prefix", "is for an id that ends with /*; set user"
		case !many && rpc.CheckUser(c.User) != nil:
			return "user", "must be 1 to 128 printable ASCII characters without spaces"
		case len(c.Roles) == 0:
			return "roles", "are missing, and nobody may do anything without"
		}
		for _, r := range c.Roles {
			if _, ok := mesh.RoleOf(r); !ok {
				return "roles", "has " + mesh.Clip(r, 40) + ", which is no role"
			}
		}
		if slices.ContainsFunc(list[:n], func(o Certificate) bool { return o.ID == c.ID && o.Subject == c.Subject }) {
			return "id", "or subject is in the list twice: " + c.ID + c.Subject
		}
	}
	return "", ""
}

// Certificates returns what knows callers by the list, which CheckCertificates takes: by the
// first entry that fits.
func Certificates(list []Certificate) Certify {
	roles := make([][]mesh.Role, len(list))
	for i, c := range list {
		for _, name := range c.Roles {
			r, _ := mesh.RoleOf(name) // they were checked
			roles[i] = append(roles[i], r)
		}
		slices.Sort(roles[i])
		roles[i] = slices.Compact(roles[i])
	}
	return func(is *x509.Certificate) (mesh.Principal, bool) {
		id := ""
		if len(is.URIs) == 1 { // as SPIFFE has it
			id = is.URIs[0].String()
		}
		for i, c := range list {
			user, ok := c.user(id, is.Subject.String())
			if !ok {
				continue
			}
			return mesh.Principal{Tenant: mesh.TenantID(c.Tenant), User: user, Roles: roles[i], Credential: "certificate:" + id + c.Subject,
				Issued: is.NotBefore, Expires: is.NotAfter}, true
		}
		return mesh.Principal{}, false
	}
}

// user is the user of a certificate with the ID and subject; false if it is of somebody
// else.
func (c Certificate) user(id, subject string) (string, bool) {
	if c.ID == "" {
		return c.User, c.Subject == subject
	}
	prefix, many := strings.CutSuffix(c.ID, "*")
	if !many {
		return c.User, c.ID == id
	}
	name, ok := strings.CutPrefix(id, prefix)
	name = c.UserPrefix + name
	return name, ok && !strings.Contains(name, "/") && rpc.CheckUser(name) == nil
}

// AgentUser is the user that an agent is by its certificate. No other credential names
// one with a space.
func AgentUser(name string) string { return "agent " + name }

// Agents returns what knows agents by certificates of the trust domain. They may register
// themselves.
func Agents(domain string, issued func(*x509.Certificate) time.Time) Certify {
	return func(is *x509.Certificate) (mesh.Principal, bool) {
		if len(is.URIs) != 1 {
			return mesh.Principal{}, false
		}
		a, ok := mesh.AgentOf(domain, is.URIs[0])
		return mesh.Principal{Tenant: a.Tenant, User: AgentUser(a.Name), Agent: a.Name, Roles: []mesh.Role{mesh.RoleAgentPublisher},
			Credential: "certificate:" + is.URIs[0].String(), Issued: issued(is), Expires: is.NotAfter}, ok
	}
}

// Certified returns the mode in which callers who send no token are who their certificate
// says, and all others who mode says. A certificate does not count that revoked has
// something to say of.
func Certified(mode rpc.Authenticator, revoked func(mesh.Principal) (time.Time, bool), certify ...Certify) rpc.Authenticator {
	return certified{mode, revoked, certify}
}

type certified struct {
	mode    rpc.Authenticator
	revoked func(mesh.Principal) (time.Time, bool)
	certify []Certify
}

func (m certified) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	if c.Certificate == nil || c.Authorization != "" || c.Grant != "" || c.Ticket != "" {
		return m.mode.Authenticate(ctx, c)
	}
	for _, certify := range m.certify {
		p, known := certify(c.Certificate)
		if !known {
			continue
		}
		now := time.Now()
		at, revoked := m.revoked(p)
		switch {
		case revoked:
			return mesh.Principal{}, refusedCertificate("was revoked at " + at.UTC().Format(time.RFC3339) + "; get a new one")
		case now.After(p.Expires): // the connection is older than that
			return p, refusedCertificate("expired at " + p.Expires.UTC().Format(time.RFC3339) + "; connect with a new one")
		}
		return agree(p, c, "certificate")
	}
	return m.mode.Authenticate(ctx, c)
}

func refusedCertificate(why string) error {
	return &mesh.Error{Code: mesh.Unauthenticated, Op: "auth.Certified", Detail: "the certificate of this connection " + why}
}
