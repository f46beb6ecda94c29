package credentials

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// A Via says how secrets may travel.
type Via struct {
	// Tokens carries requests to token endpoints, whose addresses are the agent's choice.
	Tokens http.RoundTripper
	// Plaintext lets secrets travel unencrypted beyond this machine.
	Plaintext bool
}

// A Sender adds credentials to what goes to one address.
type Sender struct {
	set    *Set
	origin string
	placed []placed
	via    Via
	cert   *tls.Certificate
	shown  error // why nothing is sent
}

// Sender returns what goes to the address of the agent with the card, which may be nil while
// it is not known; nil for nothing.
func (s *Set) Sender(card *a2apb.AgentCard, address string, via Via) *Sender {
	all := s.plan(card)
	if !s.GoesTo(address) || len(all) == 0 {
		return nil
	}
	out := &Sender{set: s, origin: Origin(address), via: via}
	for _, p := range all {
		if p.kind == MTLS {
			out.cert, _ = certificate(p.Secret) // it was read before
			continue
		}
		out.placed = append(out.placed, p)
	}
	if len(out.placed) > 0 && !via.may(address) {
		out.shown = &mesh.Error{Code: mesh.Precondition, Op: "credentials.Sender", Field: Field,
			Detail: "the connection to " + mesh.PublicURL(address) + " is not encrypted and would show the agent's credentials to the network; " +
				"give it an address that begins with grpcs:// or https://, or allow them to travel in plaintext (egress.plaintext_grants)"}
	}
	return out
}

// may reports whether a secret may go to the address: over TLS, or within this machine.
func (v Via) may(address string) bool {
	at := Origin(address)
	host, _, err := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	if strings.HasPrefix(at, "https://") || v.Plaintext || host == "localhost" {
		return true
	}
	addr, e := netip.ParseAddr(host)
	return err == nil && e == nil && addr.IsLoopback()
}

// Refused is why nothing is sent to the address; nil if it is.
func (s *Sender) Refused() error {
	if s == nil {
		return nil
	}
	return s.shown
}

// Certificate is what connections show; nil for none.
func (s *Sender) Certificate() *tls.Certificate {
	if s == nil {
		return nil
	}
	return s.cert
}

// An Attachment is what one call carries. It is shared and read-only.
type Attachment struct {
	Header  http.Header
	Query   url.Values
	Cookies []*http.Cookie
	secrets []string
	tokens  []string // those among them that can be had anew
}

// Attach returns what a call carries now. It gets a token first if one is needed, and fails
// as Unauthenticated if that cannot be, or as Precondition if nothing may be sent.
func (s *Sender) Attach(ctx context.Context) (*Attachment, error) {
	if s.shown != nil {
		return nil, s.shown
	}
	a := &Attachment{Header: http.Header{}, Query: url.Values{}}
	for _, p := range s.placed {
		a.secrets = append(a.secrets, p.Secret)
		switch p.kind {
		case Bearer:
			a.Header.Set("Authorization", "Bearer "+p.Secret)
		case Basic:
			pair := base64.StdEncoding.EncodeToString([]byte(p.Secret))
			_, password, _ := strings.Cut(p.Secret, ":")
			a.secrets = append(a.secrets, pair, password)
			a.Header.Set("Authorization", "Basic "+pair)
		case OAuth2:
			token, err := s.set.token(ctx, p, s.via)
			if err != nil {
				return nil, mesh.Wrap("credentials.Attach", err)
			}
			_, secret, _ := strings.Cut(p.Secret, ":")
			a.secrets, a.tokens = append(a.secrets, secret, token), append(a.tokens, token)
			a.Header.Set("Authorization", "Bearer "+token)
		case APIKey:
			switch p.in {
			case inHeader:
				a.Header.Set(p.key, p.Secret)
			case inQuery:
				a.Query.Set(p.key, p.Secret)
			case inCookie:
				a.Cookies = append(a.Cookies, &http.Cookie{Name: p.key, Value: p.Secret}) //nolint:gosec // it is sent, not set
			}
		}
	}
	return a, nil
}

// Renew forgets the tokens that the call carried, which the agent refused, and reports
// whether there were any: others can be had then.
func (s *Sender) Renew(refused *Attachment) bool {
	if refused == nil {
		return false
	}
	s.set.tokens.drop(refused.tokens)
	return len(refused.tokens) > 0
}

// To puts the attachment into a request, which is the caller's to change.
func (a *Attachment) To(req *http.Request) {
	for key, values := range a.Header {
		req.Header[key] = values
	}
	if len(a.Query) > 0 {
		at, q := *req.URL, req.URL.Query()
		for key, values := range a.Query {
			q[key] = values
		}
		at.RawQuery = q.Encode()
		req.URL = &at
	}
	for _, c := range a.Cookies {
		req.AddCookie(c)
	}
}

// Metadata is the attachment for gRPC, which has neither queries nor cookies of its own: a
// key of the query goes under its name, cookies as HTTP has them.
func (a *Attachment) Metadata() map[string]string {
	md := map[string]string{}
	for key := range a.Header {
		md[strings.ToLower(key)] = a.Header.Get(key)
	}
	for key := range a.Query {
		md[strings.ToLower(key)] = a.Query.Get(key)
	}
	var cookies []string
	for _, c := range a.Cookies {
		cookies = append(cookies, c.String())
	}
	if len(cookies) > 0 {
		md["cookie"] = strings.Join(cookies, "; ")
	}
	return md
}

// shortest is the length from which on what is found in a text is a secret.
const shortest = 4

// Conceal returns the error of a call that carried the attachment, without what its words
// cite of that: agents tell what they were sent.
func (a *Attachment) Conceal(err error) error {
	var e *mesh.Error
	if a == nil || !errors.As(err, &e) {
		return err
	}
	mask := a.mask()
	if said := err.Error() + e.Detail; mask.Replace(said) == said {
		return err
	}
	return &mesh.Error{Code: e.Code, Op: e.Op, Field: e.Field, Reason: e.Reason, Detail: mask.Replace(e.Detail), Err: errors.New(mask.Replace(err.Error()))}
}

// mask takes the secrets out of texts, in the forms in which they are sent and cited.
func (a *Attachment) mask() *strings.Replacer {
	all := slices.Clone(a.secrets)
	slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) }) // a part of another one after it
	var pairs []string
	for _, s := range all {
		if len(s) < shortest {
			continue
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), quoted, base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s))} {
			pairs = append(pairs, form, "[credential]")
		}
	}
	return strings.NewReplacer(pairs...)
}

// A Carrier gives the transport whose connections show the certificate, or none for nil.
type Carrier func(*tls.Certificate) http.RoundTripper

// Carry returns a transport that sends requests to the sender's address with what goes
// there, and others as they are: what redirects lead to gets nothing.
func (s *Sender) Carry(by Carrier) http.RoundTripper {
	if s == nil {
		return by(nil)
	}
	return carrier{s, by(nil), by(s.cert)}
}

type carrier struct {
	sender     *Sender
	plain, own http.RoundTripper
}

func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if Origin(req.URL.String()) != c.sender.origin || c.sender.shown != nil {
		return c.plain.RoundTrip(req)
	}
	for again := true; ; again = false {
		a, err := c.sender.Attach(req.Context())
		if err != nil {
			return c.without(req, err)
		}
		out := req.Clone(req.Context())
		a.To(out)
		resp, err := c.own.RoundTrip(out)
		if err != nil || resp.StatusCode != http.StatusUnauthorized || !again || !c.sender.Renew(a) {
			return resp, err
		}
		_ = resp.Body.Close()
	}
}

// without sends the request without what cannot be had, which not everything is for; why is
// the error if this is.
func (c carrier) without(req *http.Request, why error) (*http.Response, error) {
	resp, err := c.own.RoundTrip(req)
	if err == nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
		_ = resp.Body.Close()
		return nil, why
	}
	return resp, err
}
