package cards

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agentmesh/mesh"
)

const (
	fetchTimeout = 5 * time.Second
	maxKeySet    = 64 << 10
	// fresh is how long a published key set is believed without looking again,
	// and retry how long one that does not have a key, or cannot be had, is not
	// asked for again.
	fresh = 5 * time.Minute
	retry = 30 * time.Second
	// maxHosts bounds the key sets that are remembered.
	maxHosts = 256
)

// published keeps the key sets that were fetched. It is safe for concurrent
// use; two that want the same one at once may both fetch it.
type published struct {
	client *http.Client
	now    func() time.Time

	mu   sync.Mutex
	sets map[string]fetched
}

type fetched struct {
	set KeySet
	err error
	at  time.Time
}

func newPublished(transport http.RoundTripper, now func() time.Time) *published {
	return &published{now: now, sets: map[string]fetched{}, client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		// Elsewhere is not the host that was found to be trusted.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// keys returns the keys of that id at the URL. A set without it may be an old
// one and is looked at again, though not at once.
func (p *published) keys(ctx context.Context, u *url.URL, kid string) (KeySet, error) {
	at := u.String()
	p.mu.Lock()
	have, known := p.sets[at]
	p.mu.Unlock()
	age := p.now().Sub(have.at)
	found := have.set.named(kid)
	if known && (age < retry || age < fresh && len(found) > 0) {
		return found, have.err
	}
	set, err := p.fetch(ctx, at)
	if ctx.Err() != nil { // says nothing about the host
		return nil, err
	}
	if err != nil && known && have.err == nil && age < fresh { // a host that is away for a moment
		return found, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sets) >= maxHosts {
		clear(p.sets)
	}
	p.sets[at] = fetched{set, err, p.now()}
	return set.named(kid), err
}

func (p *published) fetch(ctx context.Context, at string) (KeySet, error) {
	const op = "cards.fetch"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "the jku is not a URL")
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "the host of the keys does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, mesh.Errorf(mesh.Unavailable, op, "the host of the keys answered %s", res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet+1))
	if err != nil || len(data) > maxKeySet {
		return nil, mesh.Errorf(mesh.Unavailable, op, "the keys could not be read, or are longer than %d bytes: %w", maxKeySet, err)
	}
	set, bad := parseKeys(data) // keys of kinds that we do not know are no reason to refuse the others
	if set == nil && bad != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "the host of the keys does not answer with a JWK set: %w", bad)
	}
	return set, nil
}
