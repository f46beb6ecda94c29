package registry

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// MaxReplicas is how many processes one agent may have.
const MaxReplicas = 100

// An Instance is one of the processes of an agent that has several.
type Instance struct {
	// ID names the process in logs of threads: it follows from where the process is, which
	// it does not tell.
	ID string
	// Endpoint and Interfaces are those of an Entry and its card, of this process.
	Endpoint   string
	Interfaces []*a2apb.AgentInterface
	// Live and Problem are those of an Entry, of this process.
	Live       bool
	Problem    string
	Registered time.Time
	Expires    time.Time
}

// chief is the record that speaks for the agent: of the live ones, or else of all, the one
// that came last. It is nil for none.
func chief(of []*record) *record {
	var best *record
	for _, c := range of {
		if best == nil || c.Live && !best.Live || c.Live == best.Live && !c.Registered.Before(best.Registered) {
			best = c
		}
	}
	return best
}

// whole is the agent as those who call it see it: one entry, with its processes if it may
// have several. It is live as long as one of them is.
func whole(of []*record) versioned {
	c := chief(of)
	v := versioned{c.Entry, c.rev}
	if !c.replica {
		return v
	}
	for _, o := range of {
		v.rev = max(v.rev, o.rev)
		if !v.Live && o.Gone.After(v.Gone) {
			v.Gone = o.Gone
		}
		v.Instances = append(v.Instances, Instance{o.id, o.Endpoint, o.Card.GetSupportedInterfaces(), o.Live, o.Problem, o.Registered, o.Expires})
	}
	slices.SortFunc(v.Instances, func(a, b Instance) int {
		return cmp.Or(a.Registered.Compare(b.Registered), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return v
}

// instanceID names the process at the endpoint of an agent. Where agents are called is not
// for everybody who may read a thread, so nobody finds out who has not the key.
func (r *Registry) instanceID(c *record) string {
	mac := hmac.New(sha256.New, r.key)
	for _, s := range []string{"agentmesh instance v1", string(c.Tenant), c.Name, c.Endpoint} {
		_, _ = mac.Write(append([]byte(s), 0)) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// instances returns the records of one agent, to be read. The caller holds mu.
func (r *Registry) instances(tenant mesh.TenantID, name string) []*record {
	return r.agentsOf(tenant)[name]
}

// has reports whether c was not replaced or removed. The caller holds mu.
func (r *Registry) has(c *record) bool { return slices.Contains(r.instances(c.Tenant, c.Name), c) }

// replaced returns what c takes the place of when it comes: all of its name, unless it is
// one of several; then the one at its place, the one with the lease and, when there are many,
// those whose lease ran out. The caller holds mu.
func (r *Registry) replaced(c *record, leaseID string) (gone []*record) {
	all := r.instances(c.Tenant, c.Name)
	for _, o := range all {
		if !c.replica || !o.replica || o.lapsed && len(all) >= MaxReplicas || o.Endpoint == c.Endpoint || o.owns(leaseID) {
			gone = append(gone, o)
		}
	}
	return gone
}

// beside reports whether c may stand beside what has its name, all of which is of its
// registrant and wants others beside it; the error says why not. The caller holds mu.
func (r *Registry) beside(c *record, leaseID string) (bool, error) {
	const op = "registry.beside"
	all := r.instances(c.Tenant, c.Name)
	if !c.replica || slices.ContainsFunc(all, func(o *record) bool { return !o.replica }) {
		return false, nil
	}
	others := 0
	for _, o := range all {
		switch {
		case o.Owner != c.Owner:
			return false, taken(op, "Agent %s belongs to another user; only that one can add processes to it", c.Name)
		case o.lapsed || o.Endpoint == c.Endpoint || o.owns(leaseID):
			continue
		case !proto.Equal(o.Card.GetCapabilities(), c.Card.GetCapabilities()):
			return false, mesh.InvalidField(op, "card.capabilities", "must be those of the other processes of agent %s, which is asked the same way wherever it is; "+
				"stop those first, or register under another name", c.Name)
		}
		others++
	}
	if others >= MaxReplicas {
		return false, mesh.Errorf(mesh.Exhausted, op, "Agent %s has %d processes already, which is the limit; stop some first", c.Name, others)
	}
	return true, nil
}

// without returns a new list, of those that are not gone.
func without(all []*record, gone ...*record) []*record {
	rest := make([]*record, 0, len(all)+1)
	for _, c := range all {
		if !slices.Contains(gone, c) {
			rest = append(rest, c)
		}
	}
	return rest
}
