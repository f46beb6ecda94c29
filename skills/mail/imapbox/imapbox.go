// Package imapbox reads and files the mail of one account on an IMAP server (RFC 3501, 9051).
//
// # Connections
//
// Each call connects, logs in, does its work and leaves, within a time that is bounded; between
// calls nothing is held. An [Account] may therefore be used concurrently, by any number of
// processes.
//
// # Identity
//
// A message is named by its folder, the folder's UIDVALIDITY and its UID, all in one id that
// says nothing of them in words. An id is of one message for good: when the server numbers a
// folder anew, the ids of before are of nothing.
//
// # Bounds
//
// Searching is the server's work. Of what it finds, heads are fetched for what is shown; of a
// message, the texts up to a bound, and an attachment only when it is asked for. Nothing is
// marked as read.
//
// It does not know what messages say: their parts are read by package mail.
package imapbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"mime"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-message/charset"
	"github.com/emersion/go-sasl"

	"agentmesh/mesh"
)

// The values of Settings.TLS.
const (
	TLSImplicit = "tls"      // from the first byte, as on port 993
	TLSStart    = "starttls" // demanded: a server that does not offer it gets no password
	TLSNone     = "none"     // unencrypted, to this machine only
)

// DefaultTimeout is how long a call may take with connecting. It is shorter than a skill call
// may take, so that what is known is told.
const DefaultTimeout = 25 * time.Second

// Settings say which account is used, and how.
type Settings struct {
	// Addr is the server, as "imap.example.com:993".
	Addr string
	// User and Password log in. They are sent only over TLS, or to this machine.
	User, Password string
	// TLS is TLSImplicit, TLSStart or TLSNone; "" is TLSImplicit.
	TLS string
	// Timeout is for one call, with connecting; 0 is DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities whose certificates are accepted; nil means those of the system.
	Roots *x509.CertPool
}

// An Account is one on a server. Use [New].
type Account struct {
	settings Settings
	host     string
	tls      *tls.Config
}

// New checks the settings. Its error is Invalid and names the field, as "address". It does not
// connect.
func New(s Settings) (*Account, error) {
	const op = "imapbox.New"
	host, port, err := net.SplitHostPort(s.Addr)
	s.TLS, s.Timeout = cmp.Or(s.TLS, TLSImplicit), cmp.Or(s.Timeout, DefaultTimeout)
	switch {
	case err != nil || host == "" || port == "":
		return nil, mesh.InvalidField(op, "address", "must be host:port, as imap.example.com:993")
	case s.User == "":
		return nil, mesh.InvalidField(op, "user", "is missing; name who logs in, often the address")
	case s.Password == "":
		return nil, mesh.InvalidField(op, "password", "is missing; many providers give one for programs alone, an app password")
	case s.TLS != TLSImplicit && s.TLS != TLSStart && s.TLS != TLSNone:
		return nil, mesh.InvalidField(op, "tls", "must be %s, %s or %s, and is %q", TLSImplicit, TLSStart, TLSNone, s.TLS)
	case s.TLS == TLSNone && !thisMachine(host):
		return nil, mesh.InvalidField(op, "tls", "must be %s or %s, because the password would be sent unencrypted", TLSImplicit, TLSStart)
	}
	return &Account{settings: s, host: host, tls: &tls.Config{ServerName: host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"imap"}}}, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A session is one connection that has logged in.
type session struct {
	*imapclient.Client
	host    string
	folders []Folder // what the server has, once it was asked
}

// within runs do with a session, and ends it. All that waits for the server ends with ctx and
// with the account's time.
func (a *Account) within(ctx context.Context, do func(*session) error) error {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.settings.Addr)
	if err != nil {
		return a.failure(ctx, err, "cannot be reached")
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	bounded := &bounded{Conn: conn, left: maxRead}
	c, err := a.greet(ctx, bounded)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all that was said was answered
	if err := a.login(ctx, c); err != nil {
		return err
	}
	err = do(&session{Client: c, host: a.host})
	if err != nil && bounded.over.Load() {
		return mesh.Errorf(mesh.Unavailable, "imapbox", "The mail server %s answers with more than is taken of one call (%d MiB), or with parts within too many others; ask for less, or tell the operator of the mesh: %w", a.host, maxRead>>20, err)
	}
	if err != nil {
		return a.failure(ctx, err, "does not do what it was asked")
	}
	// The work is done. A deadline of the connection would not do: the library sets its own.
	farewell := time.AfterFunc(time.Second, func() { _ = conn.Close() })
	defer farewell.Stop()
	_ = c.Logout().Wait()
	return nil
}

// Bounds of what a server sends.
const (
	maxRead   = 64 << 20 // bytes in one call, with encryption
	maxFrames = 2000     // of the stack of who reads; some hundred parts within each other
)

// bounded is a connection that fails when so much was read of it, or when it is read from too deep.
// The library keeps what a server sends for one answer, however long it is, and calls itself for
// each part that is within another one: a stack of a gigabyte would end the process. It reads
// anew every some thousand bytes, wherever it is.
type bounded struct {
	net.Conn
	left int         // only of who reads
	over atomic.Bool // more was to be read
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 || runtime.Callers(maxFrames, make([]uintptr, 1)) > 0 {
		b.over.Store(true)
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

var errTooMuch = errors.New("the server sends too much")

// greet begins a session, encrypted as is configured.
func (a *Account) greet(ctx context.Context, conn net.Conn) (*imapclient.Client, error) {
	opts := &imapclient.Options{TLSConfig: a.tls, WordDecoder: &mime.WordDecoder{CharsetReader: charset.Reader}}
	if a.settings.TLS == TLSStart {
		c, err := imapclient.NewStartTLS(conn, opts)
		var said *imap.Error
		switch {
		case errors.As(err, &said):
			_ = conn.Close()
			return nil, mesh.Errorf(mesh.Precondition, "imapbox", "The mail server %s does not offer encryption (STARTTLS), which is demanded; no password was sent. Tell the operator of the mesh", a.host)
		case err != nil:
			_ = conn.Close()
			return nil, a.failure(ctx, err, "does not begin an encrypted session")
		}
		return c, nil
	}
	if a.settings.TLS == TLSImplicit {
		secure := tls.Client(conn, a.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, a.failure(ctx, err, "does not begin an encrypted session")
		}
		conn = secure
	}
	c := imapclient.New(conn, opts)
	if err := c.WaitGreeting(); err != nil {
		_ = c.Close()
		return nil, a.failure(ctx, err, "does not greet")
	}
	return c, nil
}

// login says who we are. What the server answers is told nobody: it may repeat the password.
func (a *Account) login(ctx context.Context, c *imapclient.Client) error {
	var err error
	switch caps := c.Caps(); {
	case caps.Has(imap.AuthCap(sasl.Plain)):
		err = c.Authenticate(sasl.NewPlainClient("", a.settings.User, a.settings.Password))
	case caps.Has(imap.CapLoginDisabled):
		return mesh.Errorf(mesh.Precondition, "imapbox", "The mail server %s offers no way to log in that is known here (PLAIN or LOGIN). Tell the operator of the mesh", a.host)
	default:
		err = c.Login(a.settings.User, a.settings.Password).Wait()
	}
	var said *imap.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &said):
		return a.failure(ctx, err, "does not log the mesh in")
	case said.Code == imap.ResponseCodeUnavailable, said.Code == imap.ResponseCodeInUse, said.Code == imap.ResponseCodeLimit:
		return mesh.Errorf(mesh.Unavailable, "imapbox", "The mail server %s does not log the mesh in for now (%s); try again in some minutes", a.host, said.Code)
	}
	return mesh.Errorf(mesh.Denied, "imapbox", "The mail server %s does not accept the user and password of the account; they may have changed, or it wants a password for programs (an app password). Tell the operator of the mesh", a.host)
}

// failure is the error of a call in words. What this package says itself stays as it is.
func (a *Account) failure(ctx context.Context, err error, what string) error {
	const op = "imapbox"
	var known *mesh.Error
	var said *imap.Error
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &known):
		return mesh.Wrap(op, err)
	case errors.As(err, &said) && said.Code == imap.ResponseCodeOverQuota:
		return mesh.Errorf(mesh.Exhausted, op, "The account on the mail server %s is full; delete mail there: %w", a.host, err)
	case errors.As(err, &said) && said.Code == imap.ResponseCodeNoPerm:
		return mesh.Errorf(mesh.Denied, op, "The mail server %s does not allow that for the account: %w", a.host, err)
	case errors.As(err, &said):
		return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s: %q. Try again later: %w", a.host, what, mesh.Clip(said.Text, 200), err)
	case errors.As(err, &cert):
		return mesh.Errorf(mesh.Precondition, op, "The certificate of the mail server %s is not valid; no password was sent. Tell the operator of the mesh: %w", a.host, err)
	case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
		return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s, or not in time; try again later: %w", a.host, what, err)
	}
	return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s; try again later: %w", a.host, what, err)
}
