package mail_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	meshmail "agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

// An imapServer is a real IMAP server on loopback, which fails as it is told.
type imapServer struct {
	addr  string
	roots *x509.CertPool
	user  *imapmemserver.User
	caps  imap.CapSet

	mu      sync.Mutex
	refuse  string        // the command that is not carried out
	cut     string        // the command after which the connection breaks, carried out as it is
	hang    chan struct{} // if not nil, closed when an APPEND that was carried out is to be answered
	begun   chan struct{} // gets a value when one was
	logins  int           // that succeeded
	fetched []string      // sections of bodies
}

type (
	imapserverOptions = imapserver.Options
	imapOption        func(*imapserverOptions)
)

// unencrypted offers no TLS, and takes passwords all the same.
func unencrypted(o *imapserver.Options) { o.TLSConfig, o.InsecureAuth = nil, true }

// withoutMove has the extension of before MOVE.
func withoutMove(o *imapserver.Options) {
	o.Caps = imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapUIDPlus: {}}
}

// newIMAP starts one whose account has the folders beside the inbox.
func newIMAP(t *testing.T, folders []string, opts ...imapOption) *imapServer {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	s := &imapServer{begun: make(chan struct{}, 8), roots: x509.NewCertPool(), user: imapmemserver.NewUser("ann@example.com", "s3cret-pw")}
	s.roots.AddCert(web.Certificate())
	for _, name := range append([]string{"INBOX"}, folders...) {
		if err := s.user.Create(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	o := &imapserver.Options{
		Caps:      imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapIMAP4rev2: {}},
		TLSConfig: &tls.Config{Certificates: web.TLS.Certificates},
		Logger:    log.New(io.Discard, "", 0),
		NewSession: func(c *imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return &imapSession{server: s, conn: c}, nil, nil
		},
	}
	for _, opt := range opts {
		opt(o)
	}
	s.caps = o.Caps
	l := rpctest.Listen(t)
	s.addr = l.Addr().String()
	if o.TLSConfig != nil && !o.InsecureAuth {
		l = &either{Listener: l, config: o.TLSConfig}
	}
	srv := imapserver.New(o)
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	t.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
	})
	return s
}

// either takes TLS from the first byte for who begins with it, and leaves others to STARTTLS. Its
// clients speak first: the library's does not wait for the greeting to ask for STARTTLS.
type either struct {
	net.Listener
	config *tls.Config
}

func (l *either) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	first := make([]byte, 1)
	_, _ = c.Read(first) // what is closed already is noticed by who reads on
	again := &begun{Conn: c, r: io.MultiReader(bytes.NewReader(first), c)}
	if first[0] != 0x16 { // of a handshake
		return again, nil
	}
	return tls.Server(again, l.config), nil
}

type begun struct {
	net.Conn
	r io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.r.Read(p) }

// receive puts a message into a folder, when it is dated.
func (s *imapServer) receive(t *testing.T, folder, message string) {
	t.Helper()
	at := time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC)
	if m, err := mail.ReadMessage(strings.NewReader(message)); err == nil {
		if date, err := m.Header.Date(); err == nil {
			at = date
		}
	}
	s.receiveAt(t, folder, message, at)
}

// receiveAt puts a message into a folder that arrived then.
func (s *imapServer) receiveAt(t *testing.T, folder, message string, at time.Time) {
	t.Helper()
	data := strings.ReplaceAll(message, "\n", "\r\n")
	if _, err := s.user.Append(folder, literal{strings.NewReader(data)}, &imap.AppendOptions{Time: at}); err != nil {
		t.Fatal(err)
	}
}

// count is how many messages the folder has.
func (s *imapServer) count(t *testing.T, folder string) int {
	t.Helper()
	data, err := s.user.Status(folder, &imap.StatusOptions{NumMessages: true})
	if err != nil {
		t.Fatal(err)
	}
	return int(*data.NumMessages)
}

func (s *imapServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// account returns one for what the users of the default tenant share.
func (s *imapServer) account(t *testing.T, transport *meshmail.Transport, change ...func(*imapbox.Settings)) meshmail.Option {
	t.Helper()
	c := imapbox.Settings{Addr: s.addr, User: "ann@example.com", Password: "s3cret-pw", Roots: s.roots, Timeout: 10 * time.Second}
	for _, f := range change {
		f(&c)
	}
	box, err := imapbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return meshmail.WithAccount(mesh.Owner{Tenant: mesh.DefaultTenant}, meshmail.Account{Box: box, Transport: transport})
}

type literal struct{ *strings.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }

// An imapSession is one of the library's that can break off.
type imapSession struct {
	*imapmemserver.UserSession
	server *imapServer
	conn   *imapserver.Conn
}

var _ imapserver.SessionIMAP4rev2 = (*imapSession)(nil)

func (s *imapSession) Login(user, password string) error {
	switch {
	case user == "busy":
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeUnavailable, Text: "not now: " + password}
	case s.server.user.Login(user, password) != nil:
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeAuthenticationFailed, Text: "no such password: " + password}
	}
	s.server.set(func() { s.server.logins++ })
	s.UserSession = imapmemserver.NewUserSession(s.server.user)
	return nil
}

// after breaks the connection if that is what the command is followed by.
func (s *imapSession) after(command string) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.cut == command {
		s.server.cut = ""
		_ = s.conn.NetConn().Close()
	}
}

func (s *imapSession) Append(name string, r imap.LiteralReader, o *imap.AppendOptions) (*imap.AppendData, error) {
	defer s.after("APPEND")
	data, err := s.UserSession.Append(name, r, o)
	s.server.mu.Lock()
	hang := s.server.hang
	s.server.mu.Unlock()
	select {
	case s.server.begun <- struct{}{}:
	default: // nobody waits for it
	}
	if hang != nil {
		<-hang
	}
	return data, err
}

// refused is the error of a command that is not carried out.
func (s *imapSession) refused(command string) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refuse != command {
		return nil
	}
	return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeOverQuota, Text: "no room"}
}

func (s *imapSession) Move(w *imapserver.MoveWriter, n imap.NumSet, to string) error {
	if err := s.refused("MOVE"); err != nil {
		return err
	}
	defer s.after("MOVE")
	return s.UserSession.Move(w, n, to)
}

func (s *imapSession) Copy(n imap.NumSet, to string) (*imap.CopyData, error) {
	if err := s.refused("COPY"); err != nil {
		return nil, err
	}
	defer s.after("COPY")
	return s.UserSession.Copy(n, to)
}

func (s *imapSession) Fetch(w *imapserver.FetchWriter, n imap.NumSet, o *imap.FetchOptions) error {
	s.server.set(func() {
		for _, b := range o.BodySection {
			s.server.fetched = append(s.server.fetched, fmt.Sprint(b.Part, b.Specifier))
		}
	})
	return s.UserSession.Fetch(w, n, o)
}
