package mail_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"agentmesh/mesh/rpc/rpctest"
	meshmail "agentmesh/skills/mail"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childAddr); addr != "" {
		sendForever(addr) // a process that is killed in the middle of a delivery
	}
	goleak.VerifyTestMain(m)
}

// An accepted message is one that the server has taken over.
type accepted struct {
	user, from string
	to         []string
	data       string
	encrypted  bool
}

// A mailServer is a real SMTP server on loopback that fails as it is told.
type mailServer struct {
	addr  string
	roots *x509.CertPool

	mu     sync.Mutex
	got    []accepted
	refuse map[string]*smtp.SMTPError // by recipient, sender, or "data"
	cut    bool                       // the connection, when a message has arrived
	hang   chan struct{}              // if not nil, closed when hanging is to end
	begun  chan struct{}              // gets a value when a message has arrived
}

type serverOption func(*smtp.Server)

func newServer(t *testing.T, opts ...serverOption) *mailServer {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	m := &mailServer{refuse: map[string]*smtp.SMTPError{}, roots: x509.NewCertPool(), begun: make(chan struct{}, 8)}
	m.roots.AddCert(web.Certificate())
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{server: m, conn: c}, nil }))
	s.Domain = "mail.test"
	s.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates}
	s.ErrorLog = silent{}
	for _, opt := range opts {
		opt(s)
	}
	l := rpctest.Listen(t)
	m.addr = l.Addr().String()
	if s.TLSConfig != nil && s.LMTP { // a mark of implicitTLS
		s.LMTP = false
		l = tls.NewListener(l, s.TLSConfig)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		wg.Wait()
	})
	return m
}

func withoutTLS(s *smtp.Server)   { s.TLSConfig = nil }
func implicitTLS(s *smtp.Server)  { s.LMTP = true }
func insecureAuth(s *smtp.Server) { s.TLSConfig, s.AllowInsecureAuth = nil, true }

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// transport returns one to the server that logs in.
func (m *mailServer) transport(t *testing.T, change ...func(*meshmail.SMTP)) meshmail.Option {
	t.Helper()
	c := meshmail.SMTP{Addr: m.addr, User: "mesh", Password: "s3cret-pw", From: "Mesh <mesh@example.com>", Roots: m.roots, Timeout: 5 * time.Second}
	for _, f := range change {
		f(&c)
	}
	tr, err := meshmail.NewTransport(c)
	if err != nil {
		t.Fatal(err)
	}
	return meshmail.WithTransport(tr)
}

func (m *mailServer) accepted() []accepted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got
}

func (m *mailServer) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

type session struct {
	server *mailServer
	conn   *smtp.Conn
	now    accepted
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		switch {
		case user == "busy":
			return &smtp.SMTPError{Code: 454, Message: "not now: " + password}
		case user != "mesh" || password != "s3cret-pw":
			return &smtp.SMTPError{Code: 535, Message: "no such password: " + password}
		}
		s.now.user = user
		return nil
	}), nil
}

func (s *session) verdict(of string) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if e := s.server.refuse[of]; e != nil {
		return e
	}
	return nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.now.from, s.now.to = from, nil
	return s.verdict(from)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.now.to = append(s.now.to, to)
	return s.verdict(to)
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.verdict("data"); err != nil {
		return err
	}
	s.now.data = string(data)
	_, s.now.encrypted = s.conn.TLSConnectionState()
	s.server.mu.Lock()
	s.server.got = append(s.server.got, s.now)
	cut, hang := s.server.cut, s.server.hang
	s.server.mu.Unlock()
	s.server.begun <- struct{}{}
	if hang != nil {
		<-hang
	}
	if cut {
		return errors.Join(s.conn.Conn().Close(), errors.New("cut"))
	}
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
