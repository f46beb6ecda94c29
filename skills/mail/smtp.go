package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"agentmesh/mesh"
)

// The values of SMTP.TLS.
const (
	TLSStart    = "starttls" // demanded: a server that does not offer it gets no mail
	TLSImplicit = "tls"      // from the first byte, as on port 465
	TLSNone     = "none"     // unencrypted
)

// DefaultTimeout is how long the delivery of a message may take. It is shorter
// than a skill call may take, so that what is known is told.
const DefaultTimeout = 25 * time.Second

// SMTP says by which server mail is sent, and as whom.
type SMTP struct {
	// Addr is the server, as "mail.example.com:587".
	Addr string
	// User and Password log in; an empty user does not. They are sent only
	// over TLS, or to this machine.
	User, Password string
	// TLS is TLSStart, TLSImplicit or TLSNone; "" is TLSStart.
	TLS string
	// From is the sender, as "Assistant <assistant@example.com>".
	From string
	// Timeout is for one message, with connecting; 0 is DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities whose certificates are accepted; nil means
	// those of the system.
	Roots *x509.CertPool
}

// A Transport gives messages to a mail server. It holds no connection between
// them and may be used concurrently. Use [NewTransport].
type Transport struct {
	addr, host     string
	user, password string
	mode           string
	from           mail.Address
	timeout        time.Duration
	tls            *tls.Config
}

// NewTransport checks the settings. Its error is Invalid and names the field,
// as "mail.smtp.addr". It does not connect.
func NewTransport(s SMTP) (*Transport, error) {
	const op = "mail.NewTransport"
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil || host == "" || port == "" {
		return nil, mesh.InvalidField(op, "mail.smtp.addr", "must be host:port, as mail.example.com:587, and is %q", s.Addr)
	}
	from, err := mail.ParseAddress(s.From)
	if err != nil || !plain(from) {
		return nil, mesh.InvalidField(op, "mail.smtp.from", "must be an address, as assistant@example.com, and is %q", s.From)
	}
	t := &Transport{addr: s.Addr, host: host, user: s.User, password: s.Password, mode: s.TLS, from: *from, timeout: s.Timeout,
		tls: &tls.Config{ServerName: host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12}}
	if t.mode == "" {
		t.mode = TLSStart
	}
	if t.timeout <= 0 {
		t.timeout = DefaultTimeout
	}
	switch t.mode {
	case TLSStart, TLSImplicit:
	case TLSNone:
		if s.User != "" && !thisMachine(host) {
			return nil, mesh.InvalidField(op, "mail.smtp.tls", "must be %s or %s where there is a user, because the password would be sent unencrypted", TLSStart, TLSImplicit)
		}
	default:
		return nil, mesh.InvalidField(op, "mail.smtp.tls", "must be %s, %s or %s, and is %q", TLSStart, TLSImplicit, TLSNone, s.TLS)
	}
	return t, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A lostError says that a message was given to the server, which then did not
// say whether it took it.
type lostError struct {
	why string
	err error
}

func (e *lostError) Error() string { return e.why + ": " + e.err.Error() }

// deliver gives the message to the server, to all recipients or to none. It
// calls accepted as soon as the server has taken it over, and then returns nil
// whatever else happens. Of any other error than a lostError, it is certain
// that nobody got the message, and its detail says so.
func (t *Transport) deliver(ctx context.Context, m *parcel, accepted func()) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return t.failure(ctx, err, "cannot be reached")
	}
	// Whatever waits for the server ends with the context.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }() // closed already after a QUIT
	c, err := t.greet(ctx, conn)
	if err != nil {
		return err
	}
	if err := t.login(ctx, c); err != nil {
		return err
	}
	if err := t.transact(ctx, c, m); err != nil {
		return err
	}
	accepted()
	c.CommandTimeout = time.Second // a farewell; the message is theirs
	_ = c.Quit()
	return nil
}

// greet says hello, encrypted as is configured.
func (t *Transport) greet(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	var c *smtp.Client
	switch t.mode {
	case TLSStart:
		var err error
		if c, err = smtp.NewClientStartTLS(conn, t.tls); err != nil {
			var said *smtp.SMTPError
			if !errors.As(err, &said) && strings.Contains(err.Error(), "support STARTTLS") {
				return nil, mesh.Errorf(mesh.Precondition, "mail.smtp", "The mail server %s does not offer encryption (STARTTLS), which is demanded; nothing was sent. Tell the operator of the mesh", t.host)
			}
			return nil, t.failure(ctx, err, "does not begin an encrypted session")
		}
	case TLSImplicit:
		c = smtp.NewClient(tls.Client(conn, t.tls))
	case TLSNone:
		c = smtp.NewClient(conn)
	}
	c.CommandTimeout, c.SubmissionTimeout = t.timeout, t.timeout
	if err := c.Hello(domainOf(t.from.Address)); err != nil {
		return nil, t.failure(ctx, err, "does not greet")
	}
	return c, nil
}

func (t *Transport) login(ctx context.Context, c *smtp.Client) error {
	if t.user == "" {
		return nil
	}
	var with sasl.Client
	switch {
	case c.SupportsAuth(sasl.Plain):
		with = sasl.NewPlainClient("", t.user, t.password)
	case c.SupportsAuth(sasl.Login):
		with = sasl.NewLoginClient(t.user, t.password)
	default:
		return mesh.Errorf(mesh.Precondition, "mail.smtp", "The mail server %s offers no way to log in that is known here (PLAIN or LOGIN); nothing was sent. Tell the operator of the mesh", t.host)
	}
	err := c.Auth(with)
	var said *smtp.SMTPError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &said):
		return t.failure(ctx, err, "does not log the mesh in")
	case said.Temporary(): // what the server says may repeat the password
		return mesh.Errorf(mesh.Unavailable, "mail.smtp", "The mail server %s does not log the mesh in for now (%d); nothing was sent. Try again in some minutes", t.host, said.Code)
	}
	return mesh.Errorf(mesh.Denied, "mail.smtp", "The mail server %s does not accept the user and password of the mesh (%d); nothing was sent. Tell the operator of the mesh", t.host, said.Code)
}

// transact sends one message.
func (t *Transport) transact(ctx context.Context, c *smtp.Client, m *parcel) error {
	if err := c.Mail(t.from.Address, &smtp.MailOptions{Size: int64(len(m.message))}); err != nil {
		return t.failure(ctx, err, "refuses the sender "+t.from.Address)
	}
	if err := t.address(ctx, c, m); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return t.failure(ctx, err, "does not take the message")
	}
	if _, err := w.Write(m.message); err != nil {
		return t.failure(ctx, err, "does not take the message") // without its end, it is none
	}
	err = w.Close()
	var said *smtp.SMTPError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said) && !said.Temporary():
		return mesh.Errorf(mesh.Invalid, "mail.smtp", "The mail server %s refuses the message: %s. Nothing was sent; change the message before another try: %w", t.host, answer(said), err)
	case errors.As(err, &said):
		return t.failure(ctx, err, "does not take the message now")
	case late(ctx, err):
		return &lostError{why: "the mail server took it and did not answer in time", err: err}
	}
	return &lostError{why: "the connection to the mail server broke after it took it", err: err}
}

// late reports whether the time was over. The deadlines of the context and of
// the connection are close together, and either may be noticed first.
func late(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// address names the recipients. If the server does not take all of them, it
// says which and why.
func (t *Transport) address(ctx context.Context, c *smtp.Client, m *parcel) error {
	var refused []string
	forGood := false
	for _, to := range m.to {
		err := c.Rcpt(to.Address, nil)
		var said *smtp.SMTPError
		switch {
		case err == nil:
		case errors.As(err, &said):
			forGood = forGood || !said.Temporary()
			refused = append(refused, to.Address+" ("+answer(said)+")")
		default:
			return t.failure(ctx, err, "does not take the recipients")
		}
	}
	if len(refused) == 0 {
		return nil
	}
	list := strings.Join(refused, "; ")
	if forGood {
		return mesh.Errorf(mesh.Invalid, "mail.smtp", "The mail server refuses %s. Nothing was sent, to nobody; correct or leave out the recipients that are refused permanently", list)
	}
	return mesh.Errorf(mesh.Unavailable, "mail.smtp", "The mail server does not take mail now for %s. Nothing was sent, to nobody; try again in some minutes", list)
}

// failure is the error of a delivery that certainly reached nobody.
func (t *Transport) failure(ctx context.Context, err error, what string) error {
	const op = "mail.smtp"
	var said *smtp.SMTPError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &said) && said.Temporary():
		return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s: %s. Nothing was sent; try again in some minutes: %w", t.host, what, answer(said), err)
	case errors.As(err, &said):
		return mesh.Errorf(mesh.Precondition, op, "The mail server %s %s: %s. Nothing was sent; tell the operator of the mesh: %w", t.host, what, answer(said), err)
	case errors.As(err, &cert):
		return mesh.Errorf(mesh.Precondition, op, "The certificate of the mail server %s is not valid; nothing was sent. Tell the operator of the mesh: %w", t.host, err)
	case late(ctx, err):
		return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s, or not in time; nothing was sent. Try again later: %w", t.host, what, err)
	}
	return mesh.Errorf(mesh.Unavailable, op, "The mail server %s %s; nothing was sent. Try again later: %w", t.host, what, err)
}

// answer is what the server said, as `550 5.1.1 "no such user", permanently`.
func answer(e *smtp.SMTPError) string {
	code := fmt.Sprint(e.Code)
	if x := e.EnhancedCode; x != smtp.EnhancedCodeNotSet && x != smtp.NoEnhancedCode {
		code += fmt.Sprintf(" %d.%d.%d", x[0], x[1], x[2])
	}
	lasting := "permanently"
	if e.Temporary() {
		lasting = "for now"
	}
	return fmt.Sprintf("%s %q, %s", code, mesh.Clip(oneLine(e.Message), 200), lasting)
}
