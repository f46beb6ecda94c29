package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// refreshEvery is how often keys are fetched; refreshLeast, how often at most, for
	// tokens that name keys which are not known, or after a failure.
	refreshEvery = 10 * time.Minute
	refreshLeast = 5 * time.Second
	// keepFor is how long keys count that cannot be fetched again.
	keepFor      = 24 * time.Hour
	fetchTimeout = 10 * time.Second
	// maxAnswer and maxKeys bound what a provider answers, and maxRSA the bits of a key.
	maxAnswer      = 1 << 20
	maxKeys        = 100
	minRSA, maxRSA = 2048, 8192
)

// keys are those with which an issuer signs.
type keys struct {
	issuer string
	client *http.Client
	alarms *alarm.Set
	now    func() time.Time
	wake   chan struct{} // of 1

	mu      sync.Mutex
	known   []jose.JSONWebKey
	fetched time.Time // when known was; zero for never
	tried   time.Time // when the last fetch ended
	failing bool      // the last fetch did
	wanted  bool      // somebody needs keys that are not known
}

func newKeys(issuer string, o Options) *keys {
	return &keys{issuer: issuer, alarms: o.Alarms, now: o.Now, wake: make(chan struct{}, 1), client: Client()}
}

// Client returns a client for requests to providers: what they answer, and how long they
// take for it, is bounded, and they send nobody elsewhere.
func Client() *http.Client {
	carrier := http.DefaultTransport.(*http.Transport).Clone()
	carrier.DisableKeepAlives = true // the next request is minutes away
	return &http.Client{
		Transport: bounded{carrier}, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run fetches the keys when they are wanted, or old, until ctx is done.
func (k *keys) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wake:
		}
		if k.due() {
			k.refresh(ctx)
		}
	}
}

// due reports whether the keys are to be fetched now.
func (k *keys) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.tried)
	return age >= refreshEvery || (k.wanted || k.failing) && age >= refreshLeast
}

// refresh fetches the keys. Those of before stay when that fails.
func (k *keys) refresh(ctx context.Context) {
	fresh, err := k.fetch(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // nobody asks any more
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried, k.failing, k.wanted = k.now(), err != nil, false
	if err == nil {
		k.known, k.fetched = fresh, k.tried
	}
	k.alarms.Report(ctx, alarm.Source{Setting: "oidc", Of: k.issuer},
		fmt.Sprintf("the %d keys of %s that there were count for a day", len(k.known), k.issuer), err)
}

// fetch asks the provider where its keys are, and for them.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	provider, err := goidc.NewProvider(goidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&doc); err != nil {
		return nil, err
	}
	if u, err := url.Parse(doc.Keys); err != nil || !safe(u) {
		return nil, fmt.Errorf("jwks_uri must be an https URL, and is %q", mesh.Clip(doc.Keys, 100))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, doc.Keys, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", doc.Keys, resp.Status)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parseKeys(data)
}

// parseKeys returns the keys of a JWK set that may sign tokens. Keys of kinds that are
// not known here are left out.
func parseKeys(data []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the keys are no JWK set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the JWK set has %d keys, and at most %d are taken", len(set.Keys), maxKeys)
	}
	var all []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && (key.Use == "" || key.Use == "sig") && usable(key.Key) {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of the %d keys in the JWK set can be used", len(set.Keys))
	}
	return all, nil
}

func usable(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey:
		return key.Params().BitSize == 256
	case ed25519.PublicKey:
		return true
	}
	return false
}

// fits reports whether the key may have made a signature of the algorithm.
func fits(key jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch key.Key.(type) {
	case *rsa.PublicKey:
		return alg == string(jose.RS256) || alg == string(jose.PS256)
	case *ecdsa.PublicKey:
		return alg == string(jose.ES256)
	}
	return alg == string(jose.EdDSA)
}

// find returns the key of the id, which may be left out where there is but one. Without
// one it says whether it may come: keys are being fetched.
func (k *keys) find(id, alg string) (key jose.JSONWebKey, ok, pending bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.fetched) < keepFor {
		var found []jose.JSONWebKey
		for _, key := range k.known {
			if fits(key, alg) && (id == "" || key.KeyID == id) {
				found = append(found, key)
			}
		}
		if len(found) == 1 {
			return found[0], true, false
		}
		if !k.failing && now.Sub(k.tried) < refreshLeast {
			return key, false, false // it is not among those of just now
		}
	}
	k.wanted = true
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return key, false, true
}

// bounded is a transport of which no more is read than a provider may answer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}
