package grant

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
)

// PermitTime is how long a permit is good, from when the node took the call.
const PermitTime = time.Minute

// permits is the kind of their tokens.
const permits kind = "agentmesh permit v1\x00"

// Claims say which call a permit is for, and who carries it out.
type Claims struct {
	// ID is the permit's own: a call that goes on after a crash gets another one.
	ID string `json:"jti"`
	// Holder and Agent are the registration whose executor it is for.
	Holder    mesh.TenantID    `json:"hld,omitempty"`
	Agent     string           `json:"agt"`
	Execution mesh.ExecutionID `json:"exe"`
	Call      string           `json:"cal"`
	Skill     string           `json:"skl"`
	Version   string           `json:"ver,omitempty"`
	What      mesh.Digest      `json:"dig"`
	Expires   int64            `json:"exp"` // Unix time in seconds
}

// A Permit is the node's word that a call of a skill may be made: it took the intent, with
// the user's approval where that is needed. Executors run no handler without one. Nobody
// makes one but [CheckPermit], of what a [Signer] gave out; the zero Permit permits
// nothing. It is good for one call.
type Permit struct {
	claims Claims
	spent  atomic.Bool
}

// maxPermits bounds the permits of this process that were not used yet, and the ids of
// used ones that are remembered.
const maxPermits = 1 << 14

// In one process nothing is signed: a permit waits here for who has its name, which nobody
// can guess.
var (
	waiting = newest[*Permit]()
	used    = newest[struct{}]()
)

func newest[V any]() *lru.Cache[string, V] {
	c, err := lru.New[string, V](maxPermits)
	if err != nil {
		panic(err) // for a size that is not above 0
	}
	return c
}

// localPermit begins the names of permits that wait in the process.
const localPermit = "local."

// Permit returns the token of a permit: for an executor in this process a name, and else
// what the claims say, signed.
func (s *Signer) Permit(c Claims, local bool) string {
	c.ID = rand.Text()
	if local {
		waiting.Add(c.ID, &Permit{claims: c})
		return localPermit + c.ID
	}
	data, err := json.Marshal(c)
	if err != nil { // strings, bytes and integers always have a JSON form
		panic("grant.Permit: " + err.Error())
	}
	return s.seal(permits, data)
}

// CheckPermit returns the permit of the token, which the verifier's node gave out for the
// holder of the grant and its execution. A nil verifier knows those of this process alone.
func CheckPermit(v *Verifier, g *mesh.Grant, token string) (*Permit, error) {
	const op = "grant.CheckPermit"
	p, local := new(Permit), false
	if name, ok := strings.CutPrefix(token, localPermit); ok {
		if p, local = waiting.Get(name); local {
			waiting.Remove(name)
		}
	}
	if !local {
		if v == nil || len(token) > MaxToken {
			return nil, notOurs(op, permits)
		}
		id, rest, _ := strings.Cut(token, ".")
		key, known := v.keys[id]
		if !known {
			return nil, notOurs(op, permits)
		}
		data, signed := signedBy(key, permits, rest)
		if p = new(Permit); !signed || json.Unmarshal(data, &p.claims) != nil {
			return nil, notOurs(op, permits)
		}
	}
	if c := &p.claims; c.Execution != g.Execution || c.Agent != g.Agent || c.Holder != g.Holder {
		return nil, refuse(op, permits, "it is for another agent or execution")
	}
	return p, nil
}

// Version is that of the skill which the call is of.
func (p *Permit) Version() string { return p.claims.Version }

// Use spends the permit on the call, with the arguments as they were announced. It is
// Denied for another call, for one that was made, and when its time is over.
func (p *Permit) Use(call, skill, args string, now time.Time) error {
	const op = "grant.Use"
	switch {
	case p == nil || p.claims.ID == "":
		return mesh.Errorf(mesh.Denied, op, "the call has no permit; announce it first")
	case p.claims.Call != call || p.claims.Skill != skill || p.claims.What != mesh.CallDigest(skill, p.claims.Version, args):
		return mesh.Errorf(mesh.Denied, op, "the permit is for another call, or other arguments")
	case now.Unix() > p.claims.Expires:
		return mesh.Errorf(mesh.Denied, op, "the permit has expired; announce the call again under its id")
	case !p.spent.CompareAndSwap(false, true):
		return mesh.Errorf(mesh.Denied, op, "the permit was used already")
	}
	if again, _ := used.ContainsOrAdd(p.claims.ID, struct{}{}); again { // of the same token
		return mesh.Errorf(mesh.Denied, op, "the permit was used already")
	}
	return nil
}
