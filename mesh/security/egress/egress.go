// Package egress decides where the node may connect to when somebody else chose
// the address: webhooks, cards behind a URL, and agents of tenants over HTTP and
// gRPC.
//
// A [Guard] guarantees that nothing is sent to an address that only the node
// can reach: loopback, private and shared networks, link-local and multicast
// addresses, and the metadata services of clouds. It looks at the address that
// is connected to, after DNS, so that a name cannot lead elsewhere than where
// it led when it was checked. The operator allows exceptions by host or by
// network.
//
// A Guard does not change and may be used concurrently. It starts nothing of
// its own; the transports that it makes are their owners' to close.
//
// It is not a firewall: public addresses are all alike to it.
package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentmesh/mesh"
)

// MaxURL is the longest URL that is accepted, in bytes.
const MaxURL = 2048

// Options say what a [Guard] lets pass beyond https to public addresses.
type Options struct {
	// Allow names what may be reached although it is not public: host names,
	// as "hooks.internal"; addresses; and networks, as "10.1.0.0/16".
	Allow []string
	// AllowHTTP accepts http URLs beside https ones.
	AllowHTTP bool
	// Resolver looks names up. The default is net.DefaultResolver.
	Resolver *net.Resolver
}

// A Guard keeps requests away from where they must not go. Use [New].
type Guard struct {
	hosts    map[string]bool
	networks []netip.Prefix
	http     bool
	resolver *net.Resolver
}

// New returns a Guard. It refuses an entry of Allow that is neither a host, an
// address nor a network, with Invalid.
func New(o Options) (*Guard, error) {
	const op = "egress.New"
	g := &Guard{hosts: map[string]bool{}, http: o.AllowHTTP, resolver: o.Resolver}
	for _, entry := range o.Allow {
		if network, err := netip.ParsePrefix(entry); err == nil {
			g.networks = append(g.networks, network.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(entry); err == nil {
			addr = addr.Unmap().WithZone("")
			g.networks = append(g.networks, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		if !hostName(entry) {
			return nil, mesh.InvalidField(op, "allow", "must list hosts such as hooks.internal, addresses, "+
				"and networks such as 10.1.0.0/16, and has %q", mesh.PublicURL(entry))
		}
		g.hosts[canonical(entry)] = true
	}
	return g, nil
}

// Check refuses, with an Invalid error that names the field, a URL that could
// never be reached through the guard: one that is not https (or http, if that
// is allowed), that holds a password, or whose host is an address that is not
// allowed. A name is looked up only when it is connected to.
func (g *Guard) Check(field, raw string) (*url.URL, error) {
	const op = "egress.Check"
	if len(raw) > MaxURL {
		return nil, mesh.InvalidField(op, field, "is %d bytes long; the limit is %d", len(raw), MaxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, mesh.InvalidField(op, field, "must be a URL such as https://example.com/hook")
	}
	switch {
	case u.Scheme == "http" && !g.http:
		return nil, mesh.InvalidField(op, field, "must begin with https://; http is not encrypted and not allowed here")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, mesh.InvalidField(op, field, "must begin with https://")
	case u.User != nil:
		return nil, mesh.InvalidField(op, field, "must not hold a user name or password; send credentials on their own")
	case !validPort(u):
		return nil, mesh.InvalidField(op, field, "must have a port of 1 to 65535, or none")
	}
	u.Fragment, u.RawFragment = "", ""
	if why := g.refuseHost(u.Hostname()); why != "" {
		return nil, mesh.InvalidField(op, field, "leads to %s, which is not allowed; "+
			"use a public address, or ask the operator to allow this one", why)
	}
	return u, nil
}

// CheckAgent refuses, with an Invalid error, an address of an agent that it must not have:
// that of a gRPC server, as [mesh.Endpoint] has them, or a URL. Without TLS it must be on
// this machine, unless http is allowed. A name is looked up only when it is connected to.
func (g *Guard) CheckAgent(address string) error {
	const op = "egress.CheckAgent"
	at, secure := mesh.Endpoint(address)
	switch {
	case secure:
		at = "https://" + at
	case !strings.Contains(at, "://"):
		at = "http://" + at
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return mesh.Errorf(mesh.Invalid, op, "is not an address: it must be host:port, or begin with grpcs://, https:// or http://")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && !g.http && u.Hostname() != "localhost" && (err != nil || !addr.IsLoopback()) {
		return mesh.Errorf(mesh.Invalid, op, "is %s, which is called without TLS; give an address that begins with grpcs:// or https://, "+
			"or ask the operator to allow plaintext (egress.allow_http)", mesh.Clip(mesh.PublicURL(address), 64))
	}
	if why := g.refuseHost(u.Hostname()); why != "" {
		return mesh.Errorf(mesh.Invalid, op, "is %s: it leads to %s, which is not allowed; use a public address, or ask the operator to allow this one (egress.allow)", mesh.Clip(mesh.PublicURL(address), 64), why)
	}
	return nil
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// refuseHost says what is wrong with a host as it is written, or "".
func (g *Guard) refuseHost(host string) string {
	name := canonical(host)
	if g.hosts[name] {
		return ""
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.refuse(addr)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		if g.refuse(netip.AddrFrom4([4]byte{127, 0, 0, 1})) != "" {
			return "this machine"
		}
		return ""
	}
	if !hostName(host) {
		return "a host that has no valid name"
	}
	return ""
}

// Dial connects to host:port over TCP, as DialContext does. It is for gRPC: as
// the dialer of connections to targets that gRPC does not look up itself, as
// "passthrough:///host:port", so that names come here and are checked.
func (g *Guard) Dial(ctx context.Context, address string) (net.Conn, error) {
	return g.DialContext(ctx, "tcp", address)
}

// DialContext connects to the address, as net.Dialer does, but never to an IP
// address that is not allowed, which is Denied. It is for http.Transport.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	const op = "egress.Dial"
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, mesh.InvalidField(op, "address", "must be host:port")
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: g.resolver}
	if !g.hosts[canonical(host)] {
		d.ControlContext = g.control
	}
	return d.DialContext(ctx, network, address)
}

// control sees every address just before it is connected to.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	const op = "egress.Dial"
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return mesh.Errorf(mesh.Denied, op, "Only TCP connections to IP addresses are allowed")
	}
	if why := g.refuse(to.Addr()); why != "" {
		return mesh.Errorf(mesh.Denied, op, "The host leads to %s, which is not allowed", why)
	}
	return nil
}

// Transport returns a transport that connects through the guard and through no
// proxy, as a proxy would connect for it. Its owner closes idle connections.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext:           g.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// Answers are not wanted for their content.
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// canonical is the form in which host names are compared.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// hostName reports whether s can be a DNS name; ports and schemes cannot.
func hostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInLabel) {
			return false
		}
	}
	return true
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
