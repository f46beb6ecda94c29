// Package login logs the user of a program in at an OpenID Connect provider, and keeps what
// the provider gave.
//
// [Begin] asks for a code by the device authorization grant (RFC 8628), which needs neither
// a browser nor a port on the machine where the program runs; [Flow.Wait] waits until the
// user has entered it somewhere. A [Store] keeps the [Credential] of each mesh in a file of
// the user, and renews it. Tokens of one mesh are given to no other.
//
// A provider is called by https, or by http on this machine, and no further than its
// discovery document says. What it answers is bounded.
package login

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/oidc"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// ClientID is the client that a program is at a provider unless told otherwise.
const ClientID = "agentmesh"

const (
	// codeLasts is how long a code is good of which the provider does not say it.
	codeLasts = 15 * time.Minute
	// maxInterval bounds how many seconds a provider may have a program wait between questions.
	maxInterval = 60
)

// A Credential is what a provider gave the user for one mesh.
type Credential struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	// Access is the token that the mesh is shown, until Expiry; zero if nobody said.
	Access string    `json:"access_token"`
	Expiry time.Time `json:"expiry,omitzero"`
	// Refresh is what the next one is asked for with; "" if the provider gave none.
	Refresh string `json:"refresh_token,omitempty"`
}

// client returns a client for requests to a provider that end with ctx.
func client(ctx context.Context) *http.Client {
	c := oidc.Client()
	c.Transport, c.Timeout = whole{ctx, c.Timeout, c.Transport}, 0
	return c
}

// A whole transport returns an answer when all of it is there. It asks in a context of its
// own, and leaves nothing to close: oauth2 asks for codes without one, and closes nothing.
type whole struct {
	ctx     context.Context //nolint:containedctx // of one log-in
	timeout time.Duration
	http.RoundTripper
}

func (w whole) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	resp, err := w.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// A provider is what its discovery document says, for one client.
type provider struct {
	oauth2.Config
	issuer string
	more   struct {
		Scopes     []string `json:"scopes_supported"`
		Revocation string   `json:"revocation_endpoint"`
	}
}

// discover asks the issuer where its endpoints are. The context is one to call them with.
func discover(ctx context.Context, issuer, id string) (context.Context, *provider, error) {
	const op = "login.discover"
	if !oidc.Safe(issuer) {
		return ctx, nil, mesh.InvalidField(op, "issuer", "must be the https URL of a provider, or an http one of this machine, and is %s", mesh.Clip(issuer, 200))
	}
	ctx = goidc.ClientContext(ctx, client(ctx))
	found, err := goidc.NewProvider(ctx, issuer)
	if err != nil {
		return ctx, nil, mesh.Errorf(mesh.Unavailable, op, "the provider %s cannot be asked for how to log in: %s", issuer, mesh.Clip(err.Error(), 300))
	}
	p := &provider{issuer: issuer, Config: oauth2.Config{ClientID: id, Endpoint: found.Endpoint()}}
	p.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a program on the user's machine has no secret
	if err := found.Claims(&p.more); err != nil {
		return ctx, nil, mesh.Errorf(mesh.Unavailable, op, "the provider %s describes itself in a way that is not understood: %v", issuer, err)
	}
	for _, at := range []string{p.Endpoint.TokenURL, p.Endpoint.DeviceAuthURL, p.more.Revocation} {
		if at != "" && !oidc.Safe(at) {
			return ctx, nil, mesh.Errorf(mesh.Precondition, op, "the provider %s names an address that is not https: %s", issuer, mesh.Clip(at, 200))
		}
	}
	return ctx, p, nil
}

// A Flow is a log-in that waits for the user. Use Begin.
type Flow struct {
	// URL is where the user enters Code until Expires; Complete is one that has it
	// already, "" if the provider offers none.
	URL, Complete, Code string
	Expires             time.Time

	p      *provider
	answer *oauth2.DeviceAuthResponse
}

// Begin asks the provider for a code. Without scopes it asks for what a log-in that lasts
// needs.
func Begin(ctx context.Context, issuer, clientID string, scopes []string) (*Flow, error) {
	ctx, p, err := discover(ctx, issuer, clientID)
	if err != nil {
		return nil, err
	}
	if p.Endpoint.DeviceAuthURL == "" || p.Endpoint.TokenURL == "" {
		return nil, mesh.Errorf(mesh.Precondition, "login.Begin", "the provider %s does not offer the device authorization grant; have it switched on there, or give a token with MESH_TOKEN", issuer)
	}
	if p.Scopes = scopes; len(scopes) == 0 {
		p.Scopes = []string{goidc.ScopeOpenID}
		if slices.Contains(p.more.Scopes, goidc.ScopeOfflineAccess) {
			p.Scopes = append(p.Scopes, goidc.ScopeOfflineAccess)
		}
	}
	answer, err := p.DeviceAuth(ctx)
	if err != nil {
		return nil, p.refusal(ctx, err)
	}
	if answer.DeviceCode == "" || answer.UserCode == "" || answer.VerificationURI == "" {
		return nil, mesh.Errorf(mesh.Unavailable, "login.Begin", "the provider %s gave no code to enter, or not where", issuer)
	}
	if answer.Expiry.IsZero() {
		answer.Expiry = time.Now().Add(codeLasts)
	}
	answer.Interval = min(max(answer.Interval, 0), maxInterval)
	return &Flow{URL: answer.VerificationURI, Complete: answer.VerificationURIComplete, Code: answer.UserCode, Expires: answer.Expiry, p: p, answer: answer}, nil
}

// Wait waits until the user has entered the code, or will not, or ctx is done.
func (f *Flow) Wait(ctx context.Context) (Credential, error) {
	ctx = goidc.ClientContext(ctx, client(ctx))
	for {
		token, err := f.p.DeviceAccessToken(ctx, f.answer)
		if lost := (*url.Error)(nil); err != nil && errors.As(err, &lost) && ctx.Err() == nil && time.Now().Before(f.Expires) {
			continue // a provider that was away for a moment is asked again (RFC 8628 §3.5), after its interval
		}
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return Credential{}, over("nobody entered the code in time")
		case err != nil:
			return Credential{}, f.p.refusal(ctx, err)
		}
		return f.p.credential(token), nil
	}
}

func (p *provider) credential(t *oauth2.Token) Credential {
	return Credential{Issuer: p.issuer, ClientID: p.ClientID, Access: t.AccessToken, Expiry: t.Expiry, Refresh: t.RefreshToken}
}

// ErrOver is the cause of the Unauthenticated errors that another log-in mends.
var ErrOver = errors.New("the user has to log in again")

func over(format string, args ...any) error {
	e := mesh.Errorf(mesh.Unauthenticated, "login", format, args...)
	e.Err = ErrOver
	return e
}

// refusal is why the provider gave no token.
func (p *provider) refusal(ctx context.Context, err error) error {
	const op = "login"
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var said *oauth2.RetrieveError
	if !errors.As(err, &said) || said.ErrorCode == "" {
		return mesh.Errorf(mesh.Unavailable, op, "the provider %s gave no token: %s", p.issuer, mesh.Clip(err.Error(), 300))
	}
	switch said.ErrorCode {
	case "access_denied":
		return mesh.Errorf(mesh.Denied, op, "the log-in was refused at the provider %s", p.issuer)
	case "expired_token":
		return over("nobody entered the code in time")
	case "invalid_grant":
		return over("the log-in at the provider %s is over", p.issuer)
	case "invalid_client", "unauthorized_client":
		return mesh.Errorf(mesh.Precondition, op, "the provider %s lets no device log in by the client %q (%s); register it there, public and with the device authorization grant, or name another with --client-id",
			p.issuer, p.ClientID, said.ErrorCode)
	}
	return mesh.Errorf(mesh.Precondition, op, "the provider %s refused: %s", p.issuer, mesh.Clip(said.ErrorCode+" "+said.ErrorDescription, 300))
}

// renewed is the credential that the provider gives for this one.
func (c Credential) renewed(ctx context.Context) (Credential, error) {
	if c.Refresh == "" {
		return c, over("the log-in at the provider %s has expired", c.Issuer)
	}
	ctx, p, err := discover(ctx, c.Issuer, c.ClientID)
	if err != nil {
		return c, err
	}
	token, err := p.TokenSource(ctx, &oauth2.Token{RefreshToken: c.Refresh}).Token()
	if err != nil {
		return c, p.refusal(ctx, err)
	}
	return p.credential(token), nil
}

// Revoke has the provider end the credential (RFC 7009), if it offers that.
func (c Credential) Revoke(ctx context.Context) error {
	ctx, p, err := discover(ctx, c.Issuer, c.ClientID)
	if err != nil || p.more.Revocation == "" {
		return err
	}
	form := url.Values{"client_id": {c.ClientID}, "token": {c.Refresh}, "token_type_hint": {"refresh_token"}}
	if c.Refresh == "" {
		form.Set("token", c.Access)
		form.Set("token_type_hint", "access_token")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.more.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return mesh.Wrap("login.Revoke", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client(ctx).Do(req)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, "login.Revoke", "the provider %s cannot be reached: %w", c.Issuer, err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return mesh.Errorf(mesh.Unavailable, "login.Revoke", "the provider %s answered %s", c.Issuer, resp.Status)
	}
	return nil
}
