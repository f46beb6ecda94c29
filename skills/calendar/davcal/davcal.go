// Package davcal keeps the events of one calendar on a CalDAV server (RFC 4791).
//
// An object is what the server has under one name: an event with all its exceptions, in the form
// of iCalendar. Objects are given and taken as bytes, as others wrote them; package calendar knows
// what they say, and that one cannot be read keeps nobody from the others. Writing names the
// version (ETag) that it replaces, or that there must be none, and is refused with Conflict
// otherwise: nothing of somebody else is overwritten unseen.
//
// The calendar is looked for once, from the address of the server, of the user's calendars or of
// the calendar itself. Nothing else is kept between calls; an [Account] may be used concurrently.
//
// github.com/emersion/go-webdav speaks the same protocol and is not used: it writes without
// conditions, gives up on a list for one object that it cannot read, and forgets the host of what a
// server points at.
package davcal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"agentmesh/mesh"
)

// DefaultTimeout is how long a call may take. It is shorter than a skill call may take, so that
// what is known is told.
const DefaultTimeout = 25 * time.Second

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 32 << 20

// Settings say which calendar is used, and as whom.
type Settings struct {
	// URL is that of the server, of the user's calendars or of one calendar.
	URL string
	// User and Password log in. They are sent only over TLS, or to this machine.
	User, Password string
	// Calendar is the name of the calendar; "" if there is only one.
	Calendar string
	// Timeout is for one call; 0 is DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities whose certificates are accepted; nil means those of the system.
	Roots *x509.CertPool
}

// An Account is a calendar on a server. Use [New].
type Account struct {
	settings Settings
	url      *url.URL
	client   *http.Client

	mu sync.Mutex
	at *url.URL // the calendar, once it was found
}

// An Object is what the server has under a name.
type Object struct {
	Name, ETag string
	Data       []byte
}

// New checks the settings. Its error is Invalid and names the field, as "url". It does not connect.
func New(s Settings) (*Account, error) {
	const op = "davcal.New"
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, mesh.InvalidField(op, "url", "must be a URL such as https://dav.example.com/")
	case u.Scheme == "http" && !thisMachine(u.Hostname()):
		return nil, mesh.InvalidField(op, "url", "must begin with https, because the password would be sent unencrypted")
	case s.User == "":
		return nil, mesh.InvalidField(op, "user", "is missing; name who logs in, often the address")
	case s.Password == "":
		return nil, mesh.InvalidField(op, "password", "is missing; many providers give one for programs alone, an app password")
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	carrier := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: s.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DisableCompression: true, // which some servers give an ETag of its own, that they refuse afterwards
	}
	return &Account{settings: s, url: u, client: &http.Client{Transport: carrier, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // followed here, with the method
	}}}, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Get returns the object of that name. The error is NotFound if there is none; others are those of
// all calls: Denied for a user, password or right that the server does not accept, Precondition for
// an address that is no calendar's, Unavailable.
func (a *Account) Get(ctx context.Context, name string) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	at, err := a.object(ctx, name)
	if err != nil {
		return Object{}, err
	}
	head, body, err := a.do(ctx, request{method: http.MethodGet, url: at})
	if err != nil {
		return Object{}, err
	}
	return Object{Name: name, ETag: head.Get("ETag"), Data: body}, nil
}

// Put writes the object in place of the version etag, or, if that is "", where there is none. The
// error is Conflict if it is otherwise.
func (a *Account) Put(ctx context.Context, name string, data []byte, etag string) error {
	condition := http.Header{"If-Match": {etag}}
	if etag == "" {
		condition = http.Header{"If-None-Match": {"*"}}
	}
	condition.Set("Content-Type", "text/calendar; charset=utf-8")
	return a.change(ctx, http.MethodPut, name, condition, data)
}

// Delete removes the version etag of the object. The error is Conflict if it is of another one,
// NotFound if there is none.
func (a *Account) Delete(ctx context.Context, name, etag string) error {
	return a.change(ctx, http.MethodDelete, name, http.Header{"If-Match": {etag}}, nil)
}

func (a *Account) change(ctx context.Context, method, name string, h http.Header, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	at, err := a.object(ctx, name)
	if err != nil {
		return err
	}
	_, _, err = a.do(ctx, request{method: method, url: at, header: h, body: data})
	return err
}

// object is where the object of that name is.
func (a *Account) object(ctx context.Context, name string) (*url.URL, error) {
	at, err := a.calendar(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return nil, mesh.Errorf(mesh.NotFound, "davcal", "There is no event %q", mesh.Clip(name, 60))
	}
	return at.JoinPath(url.PathEscape(name)), nil
}

// nameOf is the name of the object at the path of a URL.
func nameOf(u *url.URL) string { return path.Base(u.Path) }

// A request is one to the server.
type request struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
}

// maxHops is how many redirections are followed.
const maxHops = 4

// do makes the request and returns the head and the body of the answer. The password goes to the host of the
// settings, and to those of its domain.
func (a *Account) do(ctx context.Context, r request) (http.Header, []byte, error) {
	for range maxHops {
		req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
		if err != nil {
			return nil, nil, mesh.Errorf(mesh.Precondition, "davcal", "The calendar server %s tells an address that is none: %w", a.url.Hostname(), err)
		}
		for name, values := range r.header {
			req.Header[name] = values
		}
		if !a.trusted(r.url) {
			return nil, nil, mesh.Errorf(mesh.Precondition, "davcal", "The calendar server %s leads to %s, which is not told the password; give that one's address as url if it is right. Tell the operator of the mesh", a.url.Hostname(), r.url.Hostname())
		}
		req.SetBasicAuth(a.settings.User, a.settings.Password)
		resp, body, err := a.send(req) //nolint:bodyclose // closed there, once it was read
		if err != nil {
			return nil, nil, a.failure(ctx, err)
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
			to, err := resp.Location()
			if err != nil {
				return nil, nil, a.failure(ctx, err)
			}
			r.url = to
			continue
		}
		return resp.Header, body, a.said(resp)
	}
	return nil, nil, mesh.Errorf(mesh.Precondition, "davcal", "The calendar server %s leads from one address to the next; check the url. Tell the operator of the mesh", a.url.Hostname())
}

// trusted reports whether the password may be sent there: to the server itself, or, over TLS, to
// one beside it, as p42-caldav.icloud.com is beside caldav.icloud.com.
func (a *Account) trusted(u *url.URL) bool {
	if u.Scheme == a.url.Scheme && u.Host == a.url.Host {
		return true
	}
	ours, err1 := publicsuffix.EffectiveTLDPlusOne(a.url.Hostname())
	theirs, err2 := publicsuffix.EffectiveTLDPlusOne(u.Hostname())
	return u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && err1 == nil && err2 == nil && ours == theirs && net.ParseIP(u.Hostname()) == nil
}

func (a *Account) send(req *http.Request) (*http.Response, []byte, error) {
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = mesh.Errorf(mesh.Exhausted, "davcal", "The calendar server %s answers with more than %d MiB; ask for a shorter time", a.url.Hostname(), maxAnswer>>20)
	}
	return resp, body, err
}

// said is the error that an answer is, in words, or nil.
func (a *Account) said(resp *http.Response) error {
	const op = "davcal"
	host := a.url.Hostname()
	switch code := resp.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusUnauthorized:
		return mesh.Errorf(mesh.Denied, op, "The calendar server %s does not accept the user and password of the account; they may have changed, or it wants a password for programs (an app password). Tell the operator of the mesh", host)
	case code == http.StatusForbidden:
		return mesh.Errorf(mesh.Denied, op, "The calendar server %s does not allow that for the account", host)
	case code == http.StatusNotFound, code == http.StatusGone:
		return mesh.Errorf(mesh.NotFound, op, "The calendar server %s has nothing there", host)
	case code == http.StatusPreconditionFailed:
		return mesh.Errorf(mesh.Conflict, op, "The event was changed meanwhile; look at it again with calendar.list, then decide again")
	case code == http.StatusInsufficientStorage:
		return mesh.Errorf(mesh.Exhausted, op, "The account on the calendar server %s is full", host)
	case code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
		return mesh.Errorf(mesh.Precondition, op, "There is no calendar at the address of the calendar server %s (%s); check the url. Tell the operator of the mesh", host, resp.Status)
	}
	return mesh.Errorf(mesh.Unavailable, op, "The calendar server %s does not do what it was asked (%s); try again later", host, resp.Status)
}

// failure is the error of a call that got no answer.
func (a *Account) failure(ctx context.Context, err error) error {
	const op = "davcal"
	var known *mesh.Error
	var cert *tls.CertificateVerificationError
	host := a.url.Hostname()
	switch {
	case errors.As(err, &known):
		return mesh.Wrap(op, err)
	case errors.As(err, &cert):
		return mesh.Errorf(mesh.Precondition, op, "The certificate of the calendar server %s is not valid; no password was sent. Tell the operator of the mesh: %w", host, err)
	case ctx.Err() != nil:
		return mesh.Errorf(mesh.Unavailable, op, "The calendar server %s does not answer in time; try again later: %w", host, fmt.Errorf("%w: %w", ctx.Err(), err))
	}
	return mesh.Errorf(mesh.Unavailable, op, "The calendar server %s cannot be reached; try again later: %w", host, err)
}
