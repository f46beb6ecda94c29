package transport_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/keyfile"
	"agentmesh/mesh/security/transport"
)

// A clock is moved by tests.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// authority is one in a folder of its own, by the clock.
func authority(t *testing.T, c *clock) *transport.Authority {
	t.Helper()
	a, err := transport.OpenAuthority(filepath.Join(t.TempDir(), "tls"), "mesh.test", c.now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issued writes a certificate of the authority, with its key, into one file.
func issued(t *testing.T, a *transport.Authority, path string, l transport.Leaf) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := a.Issue(key.Public(), l)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyfile.Replace(path, key, der); err != nil {
		t.Fatal(err)
	}
}

// source is one by the clock, whose log can be read.
func source(t *testing.T, c *clock, o transport.Options) (*transport.Source, *logbuffer.Buffer) {
	t.Helper()
	logs := new(logbuffer.Buffer)
	o.Now, o.Logger = c.now, slog.New(slog.NewTextHandler(logs, nil))
	o.Alarms = alarm.New(o.Logger, nil)
	s, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, logs
}

// failures counts the errors that were logged.
func failures(logs *logbuffer.Buffer) int { return strings.Count(logs.String(), "level=ERROR") }

// servers serve gRPC and HTTP over TLS with the source's configurations.
func servers(t *testing.T, s *transport.Source) (grpcAt, httpAt string) {
	t.Helper()
	l := rpctest.Listen(t)
	server := rpc.NewServer(rpc.Options{Open: rpc.Infrastructure(), TLS: s.Server("h2"), TrustDomain: "mesh.test"})
	status := health.NewServer()
	status.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, status)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	web.TLS = s.Server("h2", "http/1.1")
	web.StartTLS()
	t.Cleanup(web.Close)
	return l.Addr().String(), web.Listener.Addr().String()
}

// overGRPC asks the server over a connection of its own.
func overGRPC(t *testing.T, at string, config func() *tls.Config) error {
	t.Helper()
	conn, err := rpc.Dial(mesh.SecureScheme+at, rpc.DialOptions{TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

// overHTTP asks the server over a connection of its own, and returns the protocol.
func overHTTP(t *testing.T, at string, config *tls.Config) (string, error) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("https://" + at)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	proto, err := io.ReadAll(resp.Body)
	return string(proto), err
}

// both asks over both protocols, and wants the same of them.
func both(t *testing.T, what, grpcAt, httpAt string, config func() *tls.Config, want bool) {
	t.Helper()
	if err := overGRPC(t, grpcAt, config); (err == nil) != want {
		t.Errorf("%s: over gRPC: %v", what, err)
	}
	if proto, err := overHTTP(t, httpAt, config()); (err == nil) != want || want && proto != "HTTP/2.0" {
		t.Errorf("%s: over HTTP: %q, %v", what, proto, err)
	}
}

var nodeID = &url.URL{Scheme: "spiffe", Host: "mesh.test", Path: "/x"}

func TestOnlyWhoIsBelievedConnects(t *testing.T) {
	c := new(clock)
	own, other := authority(t, c), authority(t, c)
	dir := t.TempDir()
	named := func(a *transport.Authority, host string) string {
		path := filepath.Join(dir, rand.Text())
		issued(t, a, path, transport.Leaf{ID: nodeID, Hosts: []string{host}})
		return path
	}
	for name, tt := range map[string]struct {
		server, client string // certificates
		believes       string
		auth           tls.ClientAuthType
		want           bool
	}{
		"without a client's":         {named(own, "127.0.0.1"), "", own.Path(), tls.VerifyClientCertIfGiven, true},
		"with one":                   {named(own, "127.0.0.1"), named(own, "x"), own.Path(), tls.RequireAndVerifyClientCert, true},
		"a wrong name":               {named(own, "127.0.0.2"), "", own.Path(), tls.NoClientCert, false},
		"an unknown authority":       {named(other, "127.0.0.1"), "", own.Path(), tls.NoClientCert, false},
		"no client's":                {named(own, "127.0.0.1"), "", own.Path(), tls.RequireAndVerifyClientCert, false},
		"a client's of nobody known": {named(own, "127.0.0.1"), named(other, "x"), own.Path(), tls.VerifyClientCertIfGiven, false},
	} {
		s, _ := source(t, c, transport.Options{Cert: tt.server, Key: tt.server, ClientCA: own.Path(), ClientAuth: tt.auth})
		client, _ := source(t, c, transport.Options{Cert: tt.client, Key: tt.client, CA: tt.believes})
		grpcAt, httpAt := servers(t, s)
		both(t, name, grpcAt, httpAt, client.Client, tt.want)
		if err := overGRPC(t, grpcAt, func() *tls.Config {
			c := client.Client()
			c.MaxVersion = tls.VersionTLS11
			c.MinVersion = tls.VersionTLS10
			return c
		}); err == nil {
			t.Errorf("%s: TLS 1.1 is spoken", name)
		}
	}
}

// What has expired is refused to whoever connects anew; what is open lives on.
func TestAnExpiredCertificateEndsNoStream(t *testing.T) {
	c, stays := new(clock), new(clock)
	a := authority(t, stays)
	dir := t.TempDir()
	server, client := filepath.Join(dir, "server"), filepath.Join(dir, "client")
	issued(t, a, server, transport.Leaf{ID: nodeID, Hosts: []string{"127.0.0.1"}})
	issued(t, a, client, transport.Leaf{ID: nodeID})
	serves, _ := source(t, c, transport.Options{Cert: server, Key: server, ClientCA: a.Path(), ClientAuth: tls.RequireAndVerifyClientCert})
	calls, _ := source(t, stays, transport.Options{Cert: client, Key: client, CA: a.Path()})
	grpcAt, httpAt := servers(t, serves)
	conn, err := rpc.Dial(mesh.SecureScheme+grpcAt, rpc.DialOptions{TLS: calls.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	both(t, "before", grpcAt, httpAt, calls.Client, true)
	c.ahead.Store(int64(25 * time.Hour)) // the server's clock
	both(t, "the caller's has expired", grpcAt, httpAt, calls.Client, false)
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a connection that stands: %v", err)
	}
	c.ahead.Store(0)
	stays.ahead.Store(int64(25 * time.Hour)) // the caller's
	both(t, "the server's has expired", grpcAt, httpAt, calls.Client, false)
	cancel()
	if _, err := stream.Recv(); !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("the stream ended: %v", err)
	}
}

// run has the source look at its files until the test ends.
func run(t *testing.T, s *transport.Source) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
}

// until waits until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: " + what)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestChangedFilesCountAndBrokenOnesDoNot(t *testing.T) {
	c := new(clock)
	a, later := authority(t, c), authority(t, c)
	dir := t.TempDir()
	cert, ca := filepath.Join(dir, "cert"), filepath.Join(dir, "ca")
	fresh := func(by *transport.Authority) []byte {
		issued(t, by, cert+".made", transport.Leaf{ID: nodeID, Hosts: []string{"127.0.0.1"}})
		data, err := os.ReadFile(cert + ".made")
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := fresh(a)
	write(t, cert, first)
	write(t, ca, a.Bundle())
	s, logs := source(t, c, transport.Options{Cert: cert, Key: cert, ClientCA: ca})
	run(t, s)
	grpcAt, httpAt := servers(t, s)
	of := func(by *transport.Authority) func() *tls.Config {
		client, _ := source(t, c, transport.Options{CA: by.Path()})
		return client.Client
	}
	expired := new(clock)
	expired.ahead.Store(int64(-48 * time.Hour))
	old := fresh(authority(t, expired))
	for n, bad := range map[string][]byte{"half a key": first[:60], "no certificate": first[:bytes.Index(first, []byte("-----BEGIN CERT"))], "empty": nil, "expired": old} {
		write(t, cert, first)
		s.Look(t.Context())
		told := failures(logs)
		write(t, cert, bad)
		until(t, n+" is told", func() bool { return failures(logs) > told })
		both(t, n, grpcAt, httpAt, of(a), true)
		if again := failures(logs); again != told+1 {
			t.Errorf("%s: told %d times", n, again-told)
		}
	}
	write(t, cert, first)
	s.Look(t.Context())
	told := failures(logs)
	write(t, ca, []byte("nothing"))
	until(t, "a broken authority is told", func() bool { return failures(logs) > told })
	write(t, ca, later.Bundle())
	write(t, cert, fresh(later))
	until(t, "a new certificate counts", func() bool { return overGRPC(t, grpcAt, of(later)) == nil })
	both(t, "the new one", grpcAt, httpAt, of(later), true)
	both(t, "the old authority", grpcAt, httpAt, of(a), false)
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	for _, o := range []transport.Options{{Cert: "none.pem", Key: "none.key"}, {CA: "none.pem"}, {ClientCA: "none.pem"}} {
		if _, err := transport.New(o); !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), "none.pem") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Leaves are renewed at half their life, and authorities at half of theirs; whoever
// believes what was published before goes on to be served.
func TestAnAuthorityRenewsWithoutABreak(t *testing.T) {
	c := new(clock)
	a := authority(t, c)
	s, _ := source(t, c, transport.Options{Authority: a, Names: []string{"127.0.0.1"}})
	run(t, s)
	grpcAt, httpAt := servers(t, s)
	believes := func() func() *tls.Config { // what is published now
		client, _ := source(t, c, transport.Options{CA: a.Path()})
		return client.Client
	}
	shown := func() *x509.Certificate {
		conn, err := tls.Dial("tcp", grpcAt, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0]
	}
	before, was := believes(), shown()
	for day := range 365 { // beyond the first authority's own end
		c.ahead.Store(int64(time.Duration(day)*24*time.Hour + 13*time.Hour))
		if day%60 != 59 {
			continue
		}
		until(t, "the leaf is renewed", func() bool { return !shown().Equal(was) })
		was = shown()
		both(t, "who looked 60 days ago", grpcAt, httpAt, before, true)
		before = believes()
	}
	if n := len(a.Roots()); n != 2 {
		t.Errorf("there are %d authorities", n)
	}
	again, err := transport.OpenAuthority(filepath.Dir(a.Path()), "mesh.test", c.now)
	if err != nil || !bytes.Equal(again.Bundle(), a.Bundle()) {
		t.Errorf("opened again it is another: %v", err)
	}
	keys, _ := filepath.Glob(filepath.Join(filepath.Dir(a.Path()), "*.key"))
	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", key, info.Mode(), err)
		}
	}
	if len(keys) != 2 {
		t.Errorf("keys: %v", keys)
	}
}
