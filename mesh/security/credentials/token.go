package credentials

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"agentmesh/mesh"
)

// tokenTime bounds how long a token may take to come.
const tokenTime = 10 * time.Second

// tokens are those that were got for client credentials, until they end.
type tokens struct {
	one chan struct{} // held by who asks for one

	mu  sync.Mutex
	all map[string]*oauth2.Token // by endpoint and scopes
}

func newTokens() *tokens {
	return &tokens{one: make(chan struct{}, 1), all: map[string]*oauth2.Token{}}
}

func (t *tokens) get(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token := t.all[key]; token.Valid() {
		return token.AccessToken
	}
	return ""
}

func (t *tokens) put(key string, token *oauth2.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[key] = token
}

// drop forgets the tokens, unless there are others by now.
func (t *tokens) drop(refused []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, token := range t.all {
		if slices.Contains(refused, token.AccessToken) {
			delete(t.all, key)
		}
	}
}

// token returns an access token for the client credentials, one that counts if there is one.
func (s *Set) token(ctx context.Context, p placed, via Via) (string, error) {
	const op = "credentials.token"
	key := p.tokenURL + "\x00" + strings.Join(p.scopes, " ")
	if token := s.tokens.get(key); token != "" {
		return token, nil
	}
	at := mesh.Clip(mesh.PublicURL(p.tokenURL), 200)
	switch {
	case via.Tokens == nil || Origin(p.tokenURL) == "":
		return "", mesh.Errorf(mesh.Unauthenticated, op, "there is no way from here to the token endpoint %s", at)
	case !slices.Contains(s.tokenPlaces, Origin(p.tokenURL)):
		return "", mesh.Errorf(mesh.Unauthenticated, op, "the token endpoint on the agent's card is %s now, to which its credentials were not given; give them again", at)
	case !via.may(p.tokenURL):
		return "", mesh.Errorf(mesh.Unauthenticated, op, "the token endpoint %s is not encrypted and would show the client's secret to the network", at)
	}
	select {
	case s.tokens.one <- struct{}{}:
		defer func() { <-s.tokens.one }()
	case <-ctx.Done():
		return "", mesh.Wrap(op, ctx.Err())
	}
	if token := s.tokens.get(key); token != "" { // another call got it meanwhile
		return token, nil
	}
	id, secret, _ := strings.Cut(p.Secret, ":")
	asked, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	c := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: p.tokenURL, Scopes: p.scopes}
	token, err := c.Token(context.WithValue(asked, oauth2.HTTPClient, &http.Client{Transport: via.Tokens,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})) // the secret is for this endpoint alone
	if err != nil {
		return "", noToken(ctx, at, err)
	}
	s.tokens.put(key, token)
	return token.AccessToken, nil
}

// noToken is why there is none. What the endpoint says may cite the secret: known codes
// alone are told (RFC 6749 §5.2).
func noToken(ctx context.Context, at string, err error) error {
	const op = "credentials.token"
	var said *oauth2.RetrieveError
	switch {
	case ctx.Err() != nil:
		return mesh.Wrap(op, ctx.Err())
	case errors.As(err, &said):
		why := said.Response.Status
		if slices.Contains([]string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}, said.ErrorCode) {
			why = said.ErrorCode
		}
		return mesh.Errorf(mesh.Unauthenticated, op, "the token endpoint %s gives no token for the client's credentials: %s", at, mesh.Clip(why, 64))
	}
	return mesh.Errorf(mesh.Unauthenticated, op, "the token endpoint %s does not answer as OAuth 2.0 has it", at)
}
