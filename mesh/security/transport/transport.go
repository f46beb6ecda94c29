// Package transport keeps what connections are encrypted and proved with: certificates,
// keys, and the authorities that are believed.
//
// A [Source] is one side's: its configurations of TLS are those of the moment, also after
// files have changed or a certificate was renewed, and connections that stand are left
// alone. Files that cannot be used change nothing. An [Authority] is a certificate
// authority of the mesh's own, in a folder, which several processes may share.
//
// Both may be used concurrently. What somebody may do who has a certificate is not decided
// here.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

// Options say where a Source gets what it has.
type Options struct {
	// Cert and Key are PEM files with the certificate, its intermediates behind it, and
	// its key; they may be one file. Without them, Authority issues a certificate.
	Cert, Key string
	// ClientCA and CA are PEM files with the authorities of those who connect, and of
	// those who are connected to. Authority is believed besides, if there is one, and with
	// System, or without either, whom the system believes.
	ClientCA, CA string
	System       bool
	// Authority issues the certificate shown to those who are connected to, and that of
	// Names, renewed at half its life.
	Authority *Authority
	Names     []string
	// ClientAuth says whether who connects needs a certificate. The default is no.
	ClientAuth tls.ClientAuthType
	// Logger is told of what was read again, and Alarms of what cannot be. The default
	// discards.
	Logger *slog.Logger
	Alarms *alarm.Set
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// A Source is what one side shows and believes. Use [New].
type Source struct {
	opts  Options
	mu    sync.Mutex    // of who reads
	seen  []os.FileInfo // when the files were read last; nil if they could not be
	state atomic.Pointer[state]
}

// state is what a Source has at one moment.
type state struct {
	server, client *tls.Certificate // nil for none
	clients, roots *x509.CertPool   // nil: none, and the system's
	renew          time.Time        // zero for never
}

// New reads the files. Errors are Precondition and name the file.
func New(o Options) (*Source, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Source{opts: o}
	return s, s.read()
}

// Server returns the configuration of a server that speaks the protocols, the preferred
// one first.
func (s *Source) Server(protocols ...string) *tls.Config {
	var mu sync.Mutex
	var of *state
	var config *tls.Config // of it; sessions are resumed as long as nothing changes
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Time: s.opts.Now,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			if now := s.state.Load(); now != of {
				of = now
				config = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Time: s.opts.Now,
					Certificates: []tls.Certificate{*now.server}, ClientAuth: s.opts.ClientAuth, ClientCAs: now.clients}
			}
			return config, nil
		}}
}

// Client returns the configuration for a connection that is made now.
func (s *Source) Client() *tls.Config {
	now := s.state.Load()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: now.roots, Time: s.opts.Now}
	if now.client != nil {
		c.Certificates = []tls.Certificate{*now.client}
	}
	return c
}

// Self returns the configuration for a connection that is made now to this side's own
// server, whatever name its certificate has.
func (s *Source) Self() *tls.Config {
	c, own := s.Client(), s.state.Load().server.Certificate[0]
	c.InsecureSkipVerify = true // #nosec G402 -- the certificate is compared
	c.VerifyConnection = func(is tls.ConnectionState) error {
		if !slices.Equal(is.PeerCertificates[0].Raw, own) {
			return mesh.Errorf(mesh.Unavailable, "transport.Self", "the certificate of this server was renewed meanwhile; try again")
		}
		return nil
	}
	return c
}

// lookEvery is how often Run looks at the files and the clock.
const lookEvery = time.Second

// Run reads files again that have changed, and renews certificates, until ctx is done. It
// always returns nil.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Look(ctx)
		}
	}
}

// Look reads again what has changed, as Run does, at once. What cannot be used raises an
// alarm, and is looked at each time until it can: who may read it can change without a
// trace.
func (s *Source) Look(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil && slices.EqualFunc(s.seen, s.stat(), unchanged) && !s.state.Load().due(s.opts.Now()) {
		return
	}
	err := s.read()
	s.opts.Alarms.Report(ctx, alarm.Source{Setting: "tls"}, "the certificates of before go on to be shown and believed", err)
	if err != nil {
		s.seen = nil
		return
	}
	s.opts.Logger.InfoContext(ctx, "certificates were read again or renewed")
}

// due reports whether a certificate is to be renewed, or the one that is shown expired.
func (s *state) due(now time.Time) bool {
	return !s.renew.IsZero() && !now.Before(s.renew) || s.server != nil && now.After(s.server.Leaf.NotAfter)
}

// stat returns what is known of the files, nil for one that is not there.
func (s *Source) stat() []os.FileInfo {
	var all []os.FileInfo
	for _, path := range []string{s.opts.Cert, s.opts.Key, s.opts.ClientCA, s.opts.CA} {
		info, err := os.Stat(path)
		if err != nil {
			info = nil
		}
		all = append(all, info)
	}
	return all
}

// unchanged reports whether it is the same file as before; nil is none.
func unchanged(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == now
	}
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}

// read takes over what there is. When that cannot be, all stays as it is.
func (s *Source) read() (err error) {
	s.seen = s.stat()
	next, o := new(state), s.opts
	if o.Authority != nil || o.CA != "" {
		next.roots = x509.NewCertPool()
		if o.System {
			if next.roots, err = x509.SystemCertPool(); err != nil {
				return mesh.Errorf(mesh.Precondition, "transport.read", "the system's certificate authorities cannot be read: %w", err)
			}
		}
	}
	if o.Cert != "" {
		if next.server, err = pair(o.Cert, o.Key, o.Now()); err != nil {
			return err
		}
		next.client = next.server
	}
	if a := o.Authority; a != nil {
		if next.client, err = a.node(o.Names); err != nil {
			return err
		}
		if next.server == nil {
			next.server = next.client
		}
		next.renew = halfLife(next.client.Leaf)
		next.clients = x509.NewCertPool()
		for _, c := range a.Roots() {
			next.clients.AddCert(c)
			next.roots.AddCert(c)
		}
	}
	if next.clients, err = addFile(next.clients, o.ClientCA); err != nil {
		return err
	}
	if next.roots, err = addFile(next.roots, o.CA); err != nil {
		return err
	}
	s.state.Store(next)
	return nil
}

// pair reads a certificate that counts now, with its key.
func pair(cert, key string, now time.Time) (*tls.Certificate, error) {
	const op = "transport.pair"
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "the certificate %s with the key %s cannot be used; both must be PEM, and belong together: %w", cert, key, err)
	}
	if now.After(c.Leaf.NotAfter) {
		return nil, mesh.Errorf(mesh.Precondition, op, "the certificate %s expired at %s; renew it", cert, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &c, nil
}

// addFile adds the certificates in a PEM file to the pool, or to a new one for nil; ""
// is no file.
func addFile(to *x509.CertPool, path string) (*x509.CertPool, error) {
	if path == "" {
		return to, nil
	}
	data, err := os.ReadFile(path)
	if to == nil {
		to = x509.NewCertPool()
	}
	if err == nil && !to.AppendCertsFromPEM(data) {
		err = errors.New("it has no certificate")
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, "transport.addFile", "the certificate authorities in %s cannot be read; it must be PEM: %w", path, err)
	}
	return to, nil
}

// halfLife is when a certificate has half its life behind it.
func halfLife(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 2)
}
