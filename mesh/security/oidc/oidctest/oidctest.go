// Package oidctest is a small OpenID Connect provider for tests: discovery, keys that
// rotate, tokens, over HTTP on this machine. It can be slow, gone and hostile.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Audience is that of the tokens which a Provider makes.
const Audience = "https://mesh.example.com"

// A Provider answers at URL. Its zero value is not usable; see Start.
type Provider struct {
	URL string

	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex
	keys    map[jose.SignatureAlgorithm]jose.JSONWebKey // that sign
	named   int
	answer  http.HandlerFunc // to requests for keys; nil for the keys
	fetched int
	devices devices
}

// Start starts a provider, which ends with the test.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, keys: map[jose.SignatureAlgorithm]jose.JSONWebKey{}}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		write(w, map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "token_endpoint": p.URL + "/token", "authorization_endpoint": p.URL + "/auth",
			"device_authorization_endpoint": p.URL + "/device", "revocation_endpoint": p.URL + "/revoke", "scopes_supported": []string{"openid", "offline_access"}})
	})
	p.handleDevices(mux)
	mux.HandleFunc("/keys", p.serveKeys)
	p.server = httptest.NewServer(mux)
	p.URL = p.server.URL
	t.Cleanup(p.server.Close)
	return p
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // of keys and texts there is always a form
	}
	_, _ = w.Write(data) // whoever is gone needs no answer
}

func (p *Provider) serveKeys(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	answer := p.answer
	p.fetched++
	var set jose.JSONWebKeySet
	for _, key := range p.keys {
		set.Keys = append(set.Keys, key.Public())
	}
	p.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	write(w, set)
}

// Fetched is how often somebody asked for keys.
func (p *Provider) Fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

// AnswerKeys has requests for keys answered so, or with the keys for nil.
func (p *Provider) AnswerKeys(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// Rotate has the provider sign with other keys, and publish those alone.
func (p *Provider) Rotate() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	must(p.t, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(p.t, err)
	for alg, key := range map[jose.SignatureAlgorithm]crypto.Signer{jose.RS256: r, jose.PS256: r, jose.ES256: e, jose.EdDSA: ed} {
		p.named++
		p.keys[alg] = jose.JSONWebKey{Key: key, KeyID: fmt.Sprintf("%s-%d", alg, p.named), Algorithm: string(alg), Use: "sig"}
	}
}

// Key is the key with which the provider signs by the algorithm.
func (p *Provider) Key(alg jose.SignatureAlgorithm) jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[alg]
}

// Claims are those of a token of the user that counts from now for an hour, with what is
// in more, where nil takes a claim away.
func (p *Provider) Claims(user string, more map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "sub": user, "aud": Audience, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Token is a token of the user, as of Claims, signed by ES256.
func (p *Provider) Token(user string, more map[string]any) string {
	return p.Sign(jose.ES256, "at+jwt", p.Claims(user, more))
}

// Sign is a token of the type with the claims, signed with the provider's key.
func (p *Provider) Sign(alg jose.SignatureAlgorithm, typ string, claims map[string]any) string {
	return Sign(p.t, alg, p.Key(alg), typ, claims)
}

// Sign is a token of the type with the claims, signed with any key.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, key any, typ string, claims map[string]any) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	must(t, err)
	data, err := json.Marshal(claims)
	must(t, err)
	signed, err := signer.Sign(data)
	must(t, err)
	token, err := signed.CompactSerialize()
	must(t, err)
	return token
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
