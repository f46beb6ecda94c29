package grant_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"
)

// A permit is good once, for the call that it names, with its arguments, at the executor
// that it names, for a minute, and from the node alone.
func TestAPermitIsForOneCall(t *testing.T) {
	s, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := grant.NewSigner([]byte("another key, of another mesh, 32"))
	if err != nil {
		t.Fatal(err)
	}
	v, g, args := verifier(t, s, now), full(), `{"to":"bob"}`
	claims := grant.Claims{Holder: g.Holder, Agent: g.Agent, Execution: g.Execution, Call: "a", Skill: "mail.send", Version: "1",
		What: mesh.CallDigest("mail.send", "1", args), Expires: now.Add(grant.PermitTime).Unix()}
	other := g
	other.Agent = "eve"
	again := g
	again.Execution = child
	for _, local := range []bool{false, true} {
		for name, tt := range map[string]struct {
			by                *grant.Signer
			holder            *mesh.Grant
			call, skill, args string
			after             time.Duration
			ok                bool
		}{
			"as it was announced":      {s, &g, "a", "mail.send", args, time.Second, true},
			"with other arguments":     {s, &g, "a", "mail.send", `{"to":"eve"}`, 0, false},
			"for another call":         {s, &g, "b", "mail.send", args, 0, false},
			"of another skill":         {s, &g, "a", "mail.wipe", args, 0, false},
			"late":                     {s, &g, "a", "mail.send", args, 2 * grant.PermitTime, false},
			"at another agent":         {s, &other, "a", "mail.send", args, 0, false},
			"in another execution":     {s, &again, "a", "mail.send", args, 0, false},
			"signed by somebody else":  {foreign, &g, "a", "mail.send", args, 0, false},
			"changed on the way":       {nil, &g, "a", "mail.send", args, 0, false},
			"of a grant, and not such": {nil, &g, "a", "mail.send", args, 0, false},
		} {
			if local && tt.by != s {
				continue // nobody else is in the process
			}
			var token string
			switch {
			case tt.by != nil:
				token = tt.by.Permit(claims, local)
			case strings.HasPrefix(name, "of a grant"):
				token = s.Issue(g)
			default:
				token = strings.Replace(s.Permit(claims, false), ".", ".e", 1)
			}
			p, err := grant.CheckPermit(v, tt.holder, token)
			if err == nil {
				err = p.Use(tt.call, tt.skill, tt.args, now.Add(tt.after))
			}
			if (err == nil) != tt.ok {
				t.Errorf("in the process: %t, %s: %v", local, name, err)
			}
		}
		token := s.Permit(claims, local)
		var used atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				p, err := grant.CheckPermit(v, &g, token)
				if err == nil && p.Use("a", "mail.send", args, now) == nil {
					used.Add(1)
				}
			})
		}
		if all.Wait(); used.Load() != 1 {
			t.Errorf("in the process: %t, it was used %d times", local, used.Load())
		}
	}
	if (*grant.Permit)(nil).Use("a", "mail.send", args, now) == nil || new(grant.Permit).Use("", "", "", time.Time{}) == nil {
		t.Error("what nobody gave out permits a call")
	}
	if _, err := grant.CheckPermit(nil, &g, s.Permit(claims, false)); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("without the node's key: %v", err)
	}
}
