package registry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/security/seal"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Bounds of registrations.
const (
	MinLease     = 5 * time.Second
	DefaultLease = 30 * time.Second
	MaxLease     = 10 * time.Minute
	// MaxAgents is how many agents one tenant may register, each process for one.
	MaxAgents = 1000
	// maxURL is the length of an interface's URL, in bytes.
	maxURL = 2048
	// MaxCard is the size of a card in bytes.
	MaxCard = 64 << 10
)

const (
	probeTimeout = 2 * time.Second
	fetchTimeout = 5 * time.Second
	// lapsedKept is how long an agent whose lease ran out is still listed, as
	// not live, so that people see what became of it.
	lapsedKept = 10 * time.Minute
)

// Options configure a [Registry]. The zero value works: nothing is durable,
// agents are asked by connecting to them, and cards are fetched over HTTP.
type Options struct {
	// Store keeps what was registered by URL.
	Store Store
	// Shared says that other registries have the same Store. It then keeps what has
	// a lease, too, and all of them know what is registered with any; only built-in
	// agents are each one's own.
	Shared bool
	// Probe asks whether the agent answers at e.Endpoint and returns nil if it
	// does. It must end with ctx. The default is [Dial].
	Probe func(ctx context.Context, e Entry) error
	// Fetch gets the card from a URL. The default is [HTTPFetch].
	Fetch Fetch
	// Box encrypts the credentials of agents, and Via says how these may travel for a card.
	// Without a Box none are taken.
	Box *seal.Box
	Via credentials.Via
	// Verify decides, after the card was found to be well made, whether it may
	// be registered, and again when it has changed at its URL; its error is the
	// caller's. It does not change the card. An Endpoint that was given beside a
	// card that does not have it is among the card's interfaces. By default
	// every card may. It is safe for concurrent use.
	Verify func(ctx context.Context, card *a2apb.AgentCard) error
	// Check refuses, with words for people, an address where a tenant's agent must not be:
	// "host:port", "grpcs://host:port" or a URL. All of a card are asked about. By default
	// agents may be anywhere.
	Check func(address string) error
	// Allows refuses principals that may not register an agent of that name. The default
	// refuses none.
	Allows func(p mesh.Principal, name string) error
	// Trusts says that the operator trusts the tenant's agent of that name. The default
	// trusts none.
	Trusts func(tenant mesh.TenantID, name string) bool
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Logger is told of agents that come, go and fail. The default discards.
	Logger *slog.Logger
	// Alarms are told of a store that cannot be read. The default is none.
	Alarms *alarm.Set
	// InstanceKey is under what processes are named in logs of threads; all nodes of a mesh
	// have the same. Who knows it can find out from a name where the process is.
	InstanceKey []byte
}

// A Registry is the agents of one mesh. Make it with [New].
type Registry struct {
	store  Store
	shared bool // the store is not this registry's alone
	probe  func(context.Context, Entry) error
	fetch  Fetch
	box    *seal.Box // nil takes no credentials
	via    credentials.Via
	verify func(context.Context, *a2apb.AgentCard) error // nil accepts all
	places func(string) error                            // nil accepts all
	allows func(mesh.Principal, string) error            // nil refuses none
	trusts func(mesh.TenantID, string) bool
	now    func() time.Time
	log    *slog.Logger
	alarms *alarm.Set
	key    []byte // of the names of processes
	// wake tells Run to look again; capacity 1.
	wake chan struct{}
	// writes serialises those who add and remove agents, so that the store and
	// the memory agree. It is taken before mu, and guards seen and read.
	writes sync.Mutex
	seen   int64     // the revision of the store that the memory has
	read   time.Time // when all of it was read last

	mu sync.Mutex
	// realms are the agents of each tenant, under "" those that all share, so
	// that nobody who looks for a tenant's agents comes by those of others. One
	// that lost its last agent is kept, as its revision must not go back.
	realms map[mesh.TenantID]*realm
	// rev counts visible changes; every record and realm has the one that it
	// came from.
	rev uint64
	// deadline is not after the first moment at which a lease ends or a lapsed
	// record is dropped; zero when there is none.
	deadline time.Time
	watchers map[chan struct{}]struct{}
	// left has the agents that deregistered themselves, and until when: what they have begun
	// they may bring to its end.
	left map[departed]time.Time
}

// A departed agent is one that deregistered itself.
type departed struct {
	tenant mesh.TenantID
	name   string
	secret string // a digest
}

// A realm is the agents of one tenant, by name: one record each or, of those that may have
// several processes, one or more.
type realm struct {
	rev    uint64 // of the last change
	agents map[string][]*record
}

// A record is an entry with what only the registry knows of it.
type record struct {
	Entry
	rev     uint64
	leaseID string        // a digest of it
	secret  string        // a digest of it, too: what proves that a grant is the agent's
	consent bool          // it was registered by who may trust agents of the tenant
	lease   time.Duration // 0: none
	inner   bool          // it is found by its name alone
	lapsed  bool          // the lease ran out
	replica bool          // others may stand beside it
	id      string        // of a process, as in logs
	kept    time.Time     // when the lease ends by the store
	down    string        // why it may not be called, or ""
	failed  time.Time     // since when, if it was found out here
	given   string        // endpoint that was given beside a card URL
	odd     []Warning     // of the card
	creds   *credentials.Set
	sealed  []byte    // creds as they are kept
	reseal  bool      // creds are sealed under a secret that will go
	fails   int       // probes failed in a row
	probeAt time.Time // when to probe next; zero for never
	probing bool
}

// refresh sets what follows from the other fields.
func (c *record) refresh(via credentials.Via) {
	c.Credentials = c.creds.States(c.Card)
	c.Warnings = append(slices.Clip(c.odd), c.credentialWarnings(via)...)
	c.Gone = c.failed
	switch {
	case c.lapsed:
		if c.Gone.IsZero() {
			c.Gone = c.Expires.Add(-c.lease)
		}
		c.Live, c.Problem = false, "has not renewed its registration since "+c.Expires.UTC().Format(time.RFC3339)
	case c.down != "":
		c.Live, c.Problem = false, c.down
	default:
		c.Live, c.Problem = true, ""
	}
}

// New returns a registry with the registrations that opts.Store kept; their
// agents are not live until Run finds them to answer. A kept registration that
// cannot be read is logged and left out.
func New(ctx context.Context, opts Options) (*Registry, error) {
	r := &Registry{
		store: opts.Store, shared: opts.Shared && opts.Store != nil, probe: opts.Probe, fetch: opts.Fetch, box: opts.Box, via: opts.Via, verify: opts.Verify, places: opts.Check, trusts: opts.Trusts, allows: opts.Allows, now: opts.Now, log: opts.Logger, alarms: opts.Alarms, key: opts.InstanceKey,
		wake: make(chan struct{}, 1), realms: map[mesh.TenantID]*realm{}, watchers: map[chan struct{}]struct{}{}, left: map[departed]time.Time{},
	}
	if r.probe == nil {
		r.probe = Dial
	}
	if r.fetch == nil {
		r.fetch = HTTPFetch(nil)
	}
	if r.trusts == nil {
		r.trusts = func(mesh.TenantID, string) bool { return false }
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if err := r.load(ctx); err != nil {
		return nil, mesh.Wrap("registry.New", err)
	}
	return r, nil
}

// Get returns the agent of that name which the tenant sees, live or not. It
// returns NotFound if there is none.
func (r *Registry) Get(tenant mesh.TenantID, name string) (Entry, error) {
	const op = "registry.Get"
	e, lapsed, ok := r.known(tenant, name)
	unknown := !ok || lapsed
	// Others may know better, and of several processes those that have just come: one of
	// them may be at work on what the agent is wanted for.
	if r.shared && (unknown || e.Instances != nil) {
		if err := r.look(tenant, name); err != nil && unknown {
			return Entry{}, mesh.Wrap(op, err)
		}
		e, _, ok = r.known(tenant, name)
	}
	if !ok {
		return Entry{}, notFound(op, name)
	}
	return e, nil
}

func (r *Registry) known(tenant mesh.TenantID, name string) (e Entry, lapsed, ok bool) {
	r.lock()
	defer r.mu.Unlock()
	if c := r.find(tenant, name); c != nil {
		return whole(r.instances(c.Tenant, name)).Entry, c.lapsed, true
	}
	return Entry{}, false, false
}

// Resolve returns the agent of that name for a call. It returns NotFound if
// the tenant sees no such agent and Unavailable, naming the agent, if it is
// not live; then with what is known of it.
func (r *Registry) Resolve(tenant mesh.TenantID, name string) (Entry, error) {
	e, err := r.Get(tenant, name)
	if err != nil {
		return Entry{}, mesh.Wrap("registry.Resolve", err)
	}
	if !e.Live {
		return e, mesh.Errorf(mesh.Unavailable, "registry.Resolve",
			"Agent %s is not available: it %s; try again later or ask another agent", e.Name, e.Problem)
	}
	return e, nil
}

// List returns what the tenant sees and the filter lets through, by name.
func (r *Registry) List(tenant mesh.TenantID, f Filter) []Entry {
	var list []Entry
	for _, c := range r.visible(tenant) {
		if f.Match(c.Entry) {
			list = append(list, c.Entry)
		}
	}
	return list
}

// ReportDown tells that e, as Resolve returned it, or its process at e.Endpoint if it has
// several, refused the connection. That is not live from now on, until a probe finds it to answer. A report
// about an address that the agent has left is ignored.
func (r *Registry) ReportDown(e Entry, err error) {
	r.lock()
	defer r.mu.Unlock()
	all := r.instances(e.Tenant, e.Name)
	i := slices.IndexFunc(all, func(c *record) bool { return c.Endpoint == e.Endpoint })
	if i < 0 || all[i].down != "" {
		return
	}
	c := all[i]
	r.log.Warn("agent does not answer", "agent", e.Name, "tenant", e.Tenant, "endpoint", e.Endpoint, "err", err)
	c.down, c.failed = doesNotAnswer(e.Endpoint), r.now()
	c.fails, c.probeAt = 0, r.now().Add(backoff(0))
	r.changed(c)
}

func doesNotAnswer(endpoint string) string { return "does not answer at " + endpoint }

// versioned is an entry and the change that it came from.
type versioned struct {
	Entry
	rev uint64
}

// visible returns what the tenant sees, by name, without those that are found by their
// names alone.
func (r *Registry) visible(tenant mesh.TenantID) []versioned {
	r.lock()
	var list []versioned
	for _, all := range r.agentsOf("") {
		if !chief(all).inner {
			list = append(list, whole(all))
		}
	}
	if tenant != "" {
		for name, all := range r.agentsOf(tenant) {
			if r.record("", name) == nil {
				list = append(list, whole(all))
			}
		}
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b versioned) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// find returns what the name means to the tenant: a shared agent first, so that
// none can be replaced from within a tenant. The caller holds mu.
func (r *Registry) find(tenant mesh.TenantID, name string) *record {
	if c := r.record("", name); c != nil {
		return c
	}
	return r.record(tenant, name)
}

// record returns the tenant's own agent, or a shared one for "": of several processes the
// one that speaks for them. The caller holds mu.
func (r *Registry) record(tenant mesh.TenantID, name string) *record {
	return chief(r.instances(tenant, name))
}

// agentsOf returns the tenant's own agents, to be read. The caller holds mu.
func (r *Registry) agentsOf(tenant mesh.TenantID) map[string][]*record {
	if of := r.realms[tenant]; of != nil {
		return of.agents
	}
	return nil
}

// put makes c a record of its name, in place of those that are gone. The caller holds mu.
func (r *Registry) put(c *record, gone []*record) {
	of := r.realms[c.Tenant]
	if of == nil {
		of = &realm{agents: map[string][]*record{}}
		r.realms[c.Tenant] = of
	}
	of.agents[c.Name] = append(without(of.agents[c.Name], gone...), c)
	c.id = r.instanceID(c)
	c.Trusted = c.Builtin || c.Tenant == "" || c.consent || r.trusts(c.Tenant, c.Name)
	r.changed(c)
}

// drop removes c. The caller holds mu.
func (r *Registry) drop(c *record) {
	of := r.realms[c.Tenant]
	rest := without(of.agents[c.Name], c)
	if len(rest) == 0 {
		delete(of.agents, c.Name)
		r.touch(c.Tenant)
		return
	}
	of.agents[c.Name] = rest
	r.changed(rest[0]) // whose agent it is that changed
}

func notFound(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "name",
		Detail: "Agent " + clip(name) + " not found; check its name in the list of agents"}
}

// clip shortens hostile input for an error message.
func clip(s string) string { return mesh.Clip(s, 64) }
