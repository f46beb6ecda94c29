package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Dial is the default probe: it connects to the endpoint and hangs up. When it
// is an interface of the card, one of the others will do too.
func Dial(ctx context.Context, e Entry) error { return dial(ctx, e, new(net.Dialer).DialContext) }

// A DialFunc connects as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// GuardedDial returns a probe that connects to agents of tenants, who choose
// the addresses, through guarded, and to those of the operator as [Dial] does.
// An address that guarded refuses with Denied cannot be registered.
func GuardedDial(guarded DialFunc) func(ctx context.Context, e Entry) error {
	return func(ctx context.Context, e Entry) error {
		if e.Tenant == "" {
			return Dial(ctx, e)
		}
		return dial(ctx, e, guarded)
	}
}

func dial(ctx context.Context, e Entry, connect DialFunc) error {
	var failed error
	for _, at := range e.addresses() {
		conn, err := connect(ctx, "tcp", hostPort(at))
		if err == nil {
			return conn.Close()
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// A Fetch gets the card at a URL, as whom the sender says, who may be nil.
type Fetch func(ctx context.Context, url string, as *credentials.Sender) (*a2apb.AgentCard, error)

// HTTPFetch returns the default way to get a card: a GET that follows at most three
// redirects, without credentials where these lead elsewhere. The node
// fetches from where it stands in the network; the permission to register
// agents is what guards that. The default of by is that of package http, which shows no
// certificates.
func HTTPFetch(by credentials.Carrier) Fetch {
	if by == nil {
		by = func(*tls.Certificate) http.RoundTripper { return http.DefaultTransport }
	}
	return func(ctx context.Context, url string, as *credentials.Sender) (*a2apb.AgentCard, error) {
		const op = "registry.HTTPFetch"
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, mesh.InvalidField(op, "card_url", "is not a URL")
		}
		req.Header.Set("Accept", "application/json")
		client := &http.Client{Transport: as.Carry(by), CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		res, err := client.Do(req)
		if e := (*mesh.Error)(nil); errors.As(err, &e) && e.Code == mesh.Unauthenticated {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The card is for those with credentials: %s: %w", mesh.DetailOf(e), withoutURL(err))
		}
		if err != nil {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The server of the card does not answer: %w", withoutURL(err))
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
			return nil, wantsCredentials(op, res.Status, as)
		}
		if res.StatusCode != http.StatusOK {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The server of the card answered %s", res.Status)
		}
		data, err := io.ReadAll(io.LimitReader(res.Body, 4*MaxCard+1))
		if err != nil {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The card could not be read: %w", err)
		}
		if len(data) > 4*MaxCard {
			return nil, mesh.InvalidField(op, "card", "is longer than %d bytes", 4*MaxCard)
		}
		card, err := decodeCard("", data)
		if err != nil {
			// The data may be something that its reader was not meant to see:
			// who registers an agent chooses where the node reads it.
			return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Field: "card", Err: err,
				Detail: fmt.Sprintf("at %s is not the JSON of an A2A agent card; correct the URL, or the card", clip(mesh.PublicURL(url)))}
		}
		return card, nil
	}
}

// wantsCredentials is the error of a card that is for those with credentials.
func wantsCredentials(op, status string, as *credentials.Sender) error {
	switch {
	case as.Refused() != nil:
		return mesh.Errorf(mesh.Unavailable, op, "The server of the card answered %s, and its credentials were not sent: %s", status, mesh.DetailOf(as.Refused()))
	case as != nil:
		return mesh.Errorf(mesh.Unavailable, op, "The server of the card answered %s to the credentials that were given; correct them", status)
	}
	return mesh.Errorf(mesh.Unavailable, op, "The server of the card answered %s; give credentials for it that need no card to be understood: "+
		"--credential SCHEME=env:VARIABLE, with bearer, basic, mtls, or for an API key header:NAME, query:NAME or cookie:NAME for SCHEME", status)
}

// withoutURL is the error of a request without its URL, which may have secrets in it.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// CardURL returns where the card is that the URL, or the address of a server as
// [mesh.Endpoint] has them, leads to. Its error is Invalid and names the field card_url.
func CardURL(s string) (string, error) {
	const op = "registry.CardURL"
	if scheme, _, _ := strings.Cut(strings.ToLower(s), "://"); scheme != "http" && scheme != "https" {
		at, secure := mesh.Endpoint(s)
		switch {
		case secure:
			s = "https://" + at
		case !strings.Contains(at, "://"):
			s = "http://" + at
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return "", mesh.InvalidField(op, "card_url", "must be a URL such as http://host:port, and is %q", clip(mesh.PublicURL(s)))
	case u.Scheme != "http" && u.Scheme != "https":
		return "", mesh.InvalidField(op, "card_url", "must begin with http:// or https://, and is %q", clip(mesh.PublicURL(s)))
	case u.User != nil:
		return "", mesh.InvalidField(op, "card_url", "must not hold a user name or password; the URL is shown to others")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/.well-known/agent-card.json"
	}
	u.Fragment = ""
	return u.String(), nil
}
