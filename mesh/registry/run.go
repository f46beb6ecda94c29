package registry

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// recheck is how often an agent added by URL is probed while it answers.
	recheck = 30 * time.Second
	// maxBackoff is the longest time between probes of one that does not.
	maxBackoff = 30 * time.Second
	// maxProbes is how many probes run at once.
	maxProbes = 16
)

// backoff returns how long to wait after that many failed probes.
func backoff(fails int) time.Duration {
	if fails > 4 {
		return maxBackoff
	}
	return min(time.Second<<fails, maxBackoff)
}

// Run ends leases on time and probes the agents that are down or were added by
// URL, until ctx is done. When it returns, which is always nil, nothing that it
// started is left. It is called once. A registry that shares its store looks once
// a second what others registered.
func (r *Registry) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	if r.shared {
		probes.Go(func() { r.follow(ctx) })
	}
	slots := make(chan struct{}, maxProbes)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next := r.due()
		for _, c := range due {
			probes.Go(func() {
				select {
				case slots <- struct{}{}:
					defer func() { <-slots }()
					r.check(ctx, c)
				case <-ctx.Done():
				}
			})
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(next.Sub(r.now()))
		}
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// expectBy lets expire look again at t at the latest. The caller holds mu.
func (r *Registry) expectBy(t time.Time) {
	if r.deadline.IsZero() || t.Before(r.deadline) {
		r.deadline = t
		poke(r.wake)
	}
}

// expire ends the leases that ran out and drops what lapsed long ago. The
// caller holds mu.
func (r *Registry) expire() {
	now := r.now()
	if r.deadline.IsZero() || now.Before(r.deadline) {
		return
	}
	r.deadline = time.Time{}
	for c := range r.all() {
		if c.lease == 0 {
			continue
		}
		if !c.lapsed && !now.Before(c.Expires) {
			c.lapsed = true
			r.changed(c)
			r.log.Warn("lease of agent ran out", "agent", c.Name, "tenant", c.Tenant, "endpoint", c.Endpoint)
		}
		until := c.Expires
		if c.lapsed {
			until = until.Add(lapsedKept)
		}
		if now.Before(until) {
			r.expectBy(until)
			continue
		}
		r.drop(c)
	}
}

// all yields the agents of all tenants. The caller holds mu.
func (r *Registry) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, of := range r.realms {
			for _, list := range of.agents {
				for _, c := range list {
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// due returns the records to probe now, marked as being probed, and when to
// look again; zero for not before something changes.
func (r *Registry) due() (due []*record, next time.Time) {
	r.lock()
	defer r.mu.Unlock()
	now, next := r.now(), r.deadline
	for c := range r.all() {
		switch {
		case c.probing || c.probeAt.IsZero() || c.lapsed:
		case !now.Before(c.probeAt):
			c.probing = true
			due = append(due, c)
		case next.IsZero() || c.probeAt.Before(next):
			next = c.probeAt
		}
	}
	return due, next
}

// check probes the agent of c, reads its card again if it has a URL, and
// records what it found.
func (r *Registry) check(ctx context.Context, c *record) {
	r.mu.Lock()
	fresh := &record{Entry: c.Entry, given: c.given, creds: c.creds, odd: c.odd}
	r.mu.Unlock()
	was, odd := fresh.Entry, fresh.odd
	if fresh.CardURL != "" {
		if card, err := r.get(ctx, fresh.CardURL, fresh.creds.Sender(was.Card, fresh.CardURL, r.via)); err == nil {
			fresh.Card = card
			err := fresh.describe(was.Name, fresh.given)
			if err == nil && !proto.Equal(was.Card, fresh.Card) {
				err = r.vouched(ctx, card, fresh)
			}
			if err != nil {
				r.log.Warn("agent has a card now that is broken or not vouched for; the one before is kept", "agent", was.Name, "tenant", was.Tenant, "err", err)
				fresh.Entry, fresh.odd = was, odd
			}
		}
	}
	err := r.ask(ctx, fresh.Entry)
	if ctx.Err() != nil {
		return
	}
	changed := was.Endpoint != fresh.Endpoint || !proto.Equal(was.Card, fresh.Card) || !slices.Equal(odd, fresh.odd)
	if changed && err == nil {
		r.replaceCard(ctx, c, fresh)
	}
	r.probed(c, err)
}

// replaceCard gives c the card and endpoint of fresh, unless c was replaced.
func (r *Registry) replaceCard(ctx context.Context, c, fresh *record) {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	if !r.has(c) {
		r.mu.Unlock()
		return
	}
	c.Card, c.Endpoint, c.odd = fresh.Card, fresh.Endpoint, fresh.odd
	r.changed(c)
	r.mu.Unlock()
	// Only replaceCard, under writes, changes what save reads.
	if err := r.save(ctx, c); err != nil {
		r.log.Warn("new card of agent could not be kept", "agent", c.Name, "tenant", c.Tenant, "err", err)
	}
}

// probed records the outcome of a probe of c and when the next one is due.
func (r *Registry) probed(c *record, err error) {
	r.lock()
	defer r.mu.Unlock()
	c.probing = false
	if !r.has(c) {
		return
	}
	problem, wait := "", recheck
	if err != nil {
		c.fails++
		problem, wait = doesNotAnswer(c.Endpoint), backoff(c.fails)
	} else {
		c.fails = 0
	}
	c.probeAt = r.now().Add(wait)
	if err == nil && c.CardURL == "" {
		c.probeAt = time.Time{}
	}
	if c.down != problem {
		if c.down == "" {
			c.failed = r.now()
		} else if problem == "" {
			c.failed = time.Time{}
		}
		c.down = problem
		r.changed(c)
		r.log.Info("agent was probed", "agent", c.Name, "tenant", c.Tenant, "endpoint", c.Endpoint, "live", err == nil)
	}
	poke(r.wake)
}

// ask probes an agent, within probeTimeout.
func (r *Registry) ask(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return r.probe(ctx, e)
}

// get fetches a card, within fetchTimeout.
func (r *Registry) get(ctx context.Context, url string, as *credentials.Sender) (*a2apb.AgentCard, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	card, err := r.fetch(ctx, url, as)
	if err == nil && card == nil {
		return nil, mesh.Errorf(mesh.Unknown, "registry.get", "no card")
	}
	return card, err
}
