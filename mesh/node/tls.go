package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/transport"
)

// TLS says how connections to the node are encrypted, on both of its ports, and how it
// connects to agents. In a file it may be its Mode alone, as "tls: auto".
type TLS struct {
	// Mode is TLSFiles, the default where there is a Cert, TLSAuto or TLSOff, the default
	// where only this machine can connect.
	Mode string `yaml:"mode"`
	// Cert and Key are PEM files of the node's certificate; changes are noticed.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA is a PEM file of those who may issue certificates to callers, beside the
	// node itself.
	ClientCA string `yaml:"client_ca"`
	// ClientAuth says whether callers need a certificate: none, request (default), which
	// checks one that is shown, or require.
	ClientAuth string `yaml:"client_auth"`
	// CA is a PEM file of those who are believed when agents are called, beside the
	// system's and the node itself.
	CA string `yaml:"ca"`
	// Domain is the trust domain of the SPIFFE IDs in certificates; default agentmesh.
	Domain string `yaml:"domain"`
}

// The values of TLS.Mode.
const (
	TLSOff   = "off"   // what is before the node encrypts, or nobody does
	TLSAuto  = "auto"  // the node issues its certificate itself
	TLSFiles = "files" // Cert and Key
)

// UnmarshalYAML reads the mode alone, or all fields.
func (t *TLS) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		t.Mode = n.Value
		return nil
	}
	type plain TLS
	return n.Load((*plain)(t), yaml.WithKnownFields(true))
}

// On reports whether connections to the node are encrypted.
func (t TLS) On() bool { return t.Mode == TLSAuto || t.Mode == TLSFiles }

var clientAuths = map[string]tls.ClientAuthType{
	"none": tls.NoClientCert, "request": tls.VerifyClientCertIfGiven, "require": tls.RequireAndVerifyClientCert,
}

// fillTLS sets defaults and checks the rest. The mode stays "" where nothing is said.
func (c *Config) fillTLS() error {
	t := &c.TLS
	if t.Mode == "" && (t.Cert != "" || t.Key != "") {
		t.Mode = TLSFiles
	}
	t.ClientAuth, t.Domain = cmp.Or(t.ClientAuth, "request"), cmp.Or(t.Domain, "agentmesh")
	switch {
	case !slices.Contains([]string{"", TLSOff, TLSAuto, TLSFiles}, t.Mode):
		return invalid("tls.mode", "must be %s, %s or %s, and is %q", TLSOff, TLSAuto, TLSFiles, mesh.Clip(t.Mode, 48))
	case t.Mode == TLSFiles && t.Cert == "":
		return invalid("tls.cert", "is missing; name the PEM file of the certificate, or set tls: auto")
	case t.Mode == TLSFiles && t.Key == "":
		return invalid("tls.key", "is missing; name the PEM file of the key of %s", t.Cert)
	case t.Mode != TLSFiles && t.Cert != "":
		return invalid("tls.cert", "is of no use with tls.mode %s; leave one of them out", t.Mode)
	case !t.On() && t.ClientCA != "":
		return invalid("tls.client_ca", "is of no use without TLS; set tls.mode: auto, or tls.cert and tls.key")
	case clientAuths[t.ClientAuth] == tls.NoClientCert && t.ClientAuth != "none":
		return invalid("tls.client_auth", "must be none, request or require, and is %q", mesh.Clip(t.ClientAuth, 48))
	}
	if u, err := url.Parse("spiffe://" + t.Domain); err != nil || u.Host != t.Domain || u.Port() != "" || len(t.Domain) > 255 {
		return invalid("tls.domain", "must be a name such as mesh.example.com, and is %q", mesh.Clip(t.Domain, 48))
	}
	return nil
}

// checkOpen refuses to be open to a network unencrypted, unless that is wanted.
func (c *Config) checkOpen() error {
	if c.TLS.Mode != "" {
		return nil
	}
	for _, a := range []struct{ field, addr string }{{"grpc", c.GRPC}, {"http", c.HTTP}} {
		if host, _, err := net.SplitHostPort(a.addr); err != nil || !loopback(host) {
			return invalid("tls", "is not set, and %s (%s) can be reached from other machines, which would show credentials to the network; "+
				"set tls: auto, or tls.cert and tls.key, or tls: off where a proxy with TLS is in front of the mesh", a.addr, a.field)
		}
	}
	return nil
}

// buildTLS makes what encrypts the node's connections, and what it calls agents with.
func (n *node) buildTLS() (err error) {
	o := transport.Options{CA: n.cfg.TLS.CA, System: true, Logger: n.logger, Alarms: n.alarms}
	if t := n.cfg.TLS; t.On() {
		if n.authority, err = transport.OpenAuthority(filepath.Join(n.cfg.Data, "tls"), t.Domain, nil); err != nil {
			return err
		}
		o.Authority, o.Names = n.authority, n.names()
		o.Cert, o.Key, o.ClientCA, o.ClientAuth = t.Cert, t.Key, t.ClientCA, clientAuths[t.ClientAuth]
	}
	n.transport, err = transport.New(o)
	return err
}

// names are those under which the node is called.
func (n *node) names() []string {
	all := []string{"localhost", "127.0.0.1", "::1"}
	add := func(host string) {
		if host != "" && !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
	}
	for _, l := range []net.Listener{n.grpcL, n.httpL} {
		host, _, _ := net.SplitHostPort(l.Addr().String())
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			add(host)
			continue
		}
		own, err := net.InterfaceAddrs()
		if err != nil {
			n.logger.Warn("the addresses of this machine are not known, so that the mesh's certificate is for its name alone", "err", err)
		}
		for _, a := range own {
			if of, ok := a.(*net.IPNet); ok && !of.IP.IsLinkLocalUnicast() {
				add(of.IP.String())
			}
		}
	}
	if host, _, err := net.SplitHostPort(n.cfg.Public.GRPC); err == nil {
		add(host)
	}
	if u, err := url.Parse(n.cfg.Public.HTTP); err == nil {
		add(u.Hostname())
	}
	return all
}

// dialOptions are those of connections to agents.
func (n *node) dialOptions() rpc.DialOptions {
	return rpc.DialOptions{TLS: n.transport.Client, AllowPlaintextGrant: n.cfg.Egress.PlaintextGrants}
}

// serverTLS is the configuration of a server of the node for the protocols; nil without
// TLS.
func (n *node) serverTLS(protocols ...string) *tls.Config {
	if !n.cfg.TLS.On() {
		return nil
	}
	return n.transport.Server(protocols...)
}

// dialSelf connects to the node's own gRPC server.
func (n *node) dialSelf() (err error) {
	at, o := n.grpcL.Addr().String(), rpc.DialOptions{AllowPlaintextGrant: true} // to itself
	if n.cfg.TLS.On() {
		at, o.TLS = mesh.SecureScheme+at, n.transport.Self
	}
	n.local, err = rpc.Dial(at, o)
	return err
}

// ownCA is the file of the authority that clients have to believe.
func (n *node) ownCA() string {
	if n.cfg.TLS.Mode == TLSAuto {
		return n.authority.Path()
	}
	return ""
}

// secured has the transport believe, and show, what n does when it connects over TLS.
func (n *node) secured(t *http.Transport) *http.Transport { return n.securedAs(t, nil) }

// securedAs is secured for connections that show the certificate in place of n's own, unless
// it is nil.
func (n *node) securedAs(t *http.Transport, cert *tls.Certificate) *http.Transport {
	client := func() *tls.Config {
		c := n.transport.Client()
		if cert != nil {
			c.Certificates = []tls.Certificate{*cert}
		}
		return c
	}
	t.TLSClientConfig = client() // for connections through a proxy
	connect := t.DialContext
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := client()
		config.NextProtos = []string{"h2", "http/1.1"}
		config.ServerName, _, _ = net.SplitHostPort(address)
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake says why
			return nil, err
		}
		return conn, nil
	}
	return t
}
