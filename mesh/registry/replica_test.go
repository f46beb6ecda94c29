package registry

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// replica asks for a process of an agent at the endpoint.
func replica(name, endpoint string) Request {
	return Request{Name: name, Card: card(name), Endpoint: endpoint, Lease: 10 * time.Second, Replica: true}
}

func joins(t *testing.T, r *Registry, p mesh.Principal, req Request) Registration {
	t.Helper()
	got, err := r.Register(t.Context(), p, req)
	if err != nil {
		t.Fatalf("Register(%s at %s): %v", req.Name, req.Endpoint, err)
	}
	return got
}

// up are the endpoints of an agent's processes, those that are down in brackets.
func up(t *testing.T, r *Registry, name string) string {
	t.Helper()
	e, err := r.Get(acme, name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	live := false
	for _, i := range e.Instances {
		at := i.Endpoint
		if live = live || i.Live; !i.Live {
			at = "[" + at + "]"
		}
		all = append(all, at)
	}
	if live != e.Live {
		t.Errorf("%s is live: %v, of %v", name, e.Live, all)
	}
	return strings.Join(all, " ")
}

// Processes stand beside one another under one name; each is up, down, renewed and removed
// by itself, and the agent is one entry that is live while one of them is.
func TestSeveralProcessesAreOneAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		r := open(t, n, nil)
		start(t, r)
		next, end := iter.Pull2(r.Watch(t.Context(), acme))
		defer end()
		p := principal(acme)
		told := func() string {
			c, err, _ := next()
			if err != nil {
				t.Fatal(err)
			}
			return string(rune('0'+c.Kind)) + strings.Repeat("+", len(c.Entry.Instances))
		}
		if got := told(); got != "3" {
			t.Fatal(got)
		}
		a := joins(t, r, p, replica("crunch", "h:1"))
		b := joins(t, r, p, replica("crunch", "h:2"))
		if got := told(); got != "1++" {
			t.Error(got)
		}
		if list := r.List(acme, Filter{}); len(list) != 1 || len(list[0].Instances) != 2 || list[0].Instances[0].Interfaces[0].GetUrl() != "h:1" {
			t.Fatalf("listed are %+v", list)
		}
		if a.LeaseID == b.LeaseID || a.Secret == b.Secret || !r.Holds(acme, "crunch", a.Secret) || !r.Holds(acme, "crunch", b.Secret) || r.Holds(acme, "crunch", "x") {
			t.Error("each has a lease and a secret of its own")
		}

		e, err := r.Resolve(acme, "crunch")
		if err != nil {
			t.Fatal(err)
		}
		e.Endpoint = "h:1"
		n.kill("h:1")
		r.ReportDown(e, errors.New("refused"))
		if got := up(t, r, "crunch"); got != "[h:1] h:2" {
			t.Error(got)
		}
		if got := told(); got != "1++" {
			t.Error(got)
		}
		if e, err := r.Resolve(acme, "crunch"); err != nil || e.Endpoint != "h:2" {
			t.Errorf("resolved %v, %v", e.Endpoint, err)
		}
		n.revive("h:1")
		time.Sleep(5 * time.Second) // it is probed
		if got := up(t, r, "crunch"); got != "h:1 h:2" {
			t.Error(got)
		}

		for range 3 { // b's lease ends
			if _, err := r.KeepAlive(p, "crunch", a.LeaseID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
		}
		if got := up(t, r, "crunch"); got != "h:1 [h:2]" {
			t.Error(got)
		}
		if err := r.Deregister(t.Context(), p, "crunch", a.LeaseID, false); err != nil {
			t.Fatal(err)
		}
		if got := up(t, r, "crunch"); got != "[h:2]" || !r.Holds(acme, "crunch", a.Secret) {
			t.Errorf("%s; who left may bring to an end what it began", got)
		}
		if _, err := r.Resolve(acme, "crunch"); !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("without a live process: %v", err)
		}
		if _, err := r.KeepAlive(p, "crunch", b.LeaseID); err != nil {
			t.Fatal(err)
		}
		if got := up(t, r, "crunch"); got != "h:2" {
			t.Error(got)
		}
		if err := r.Deregister(t.Context(), p, "crunch", "", false); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Get(acme, "crunch"); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("removed: %v", err)
		}
	})
}

// That a process is gone is told to who watches, whichever of them changed last.
func TestWhoWatchesHearsOfEachProcess(t *testing.T) {
	r := open(t, newNetwork(), nil)
	next, end := iter.Pull2(r.Watch(t.Context(), acme))
	defer end()
	_, _, _ = next()
	p := principal(acme)
	a := joins(t, r, p, replica("crunch", "h:1"))
	joins(t, r, p, replica("crunch", "h:2"))
	if c, err, _ := next(); err != nil || len(c.Entry.Instances) != 2 {
		t.Fatal(c, err)
	}
	if err := r.Deregister(t.Context(), p, "crunch", a.LeaseID, false); err != nil {
		t.Fatal(err)
	}
	if c, err, _ := next(); err != nil || c.Kind != Put || len(c.Entry.Instances) != 1 {
		t.Errorf("told %v, %v", c, err)
	}
}

// A process replaces what is at its own place, and what its lease id is of, and nothing else.
func TestAProcessReplacesItself(t *testing.T) {
	r := open(t, newNetwork(), nil)
	p := principal(acme)
	a := joins(t, r, p, replica("crunch", "h:1"))
	joins(t, r, p, replica("crunch", "h:2"))
	again := joins(t, r, p, replica("crunch", "h:2")) // after a crash
	if got := up(t, r, "crunch"); got != "h:1 h:2" || again.Secret == "" {
		t.Errorf("%s, secret %q", got, again.Secret)
	}
	moved := replica("crunch", "h:3")
	moved.LeaseID = a.LeaseID
	if got := joins(t, r, p, moved); got.Secret != "" || !r.Holds(acme, "crunch", a.Secret) {
		t.Error("who replaces by its lease id keeps its secret")
	}
	if got := up(t, r, "crunch"); got != "h:2 h:3" {
		t.Error(got)
	}
	if _, err := r.KeepAlive(p, "crunch", a.LeaseID); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("the lease before: %v", err)
	}
}

// Names have owners: nobody else adds a process to an agent, whatever role lets him remove
// it, and no process comes to stand beside one that was not registered so (threat T11).
func TestNobodyJoinsTheAgentOfAnother(t *testing.T) {
	r := open(t, newNetwork(), nil)
	ann, bob := principal(acme), principal(acme)
	bob.User = "bob"
	admin := principal(acme, mesh.RoleTenantAdmin)
	admin.User = "admin"
	joins(t, r, ann, replica("crunch", "h:1"))
	register(t, r, ann, "solo", "h:9")
	shared := replica("common", "h:5")
	shared.Shared = true
	joins(t, r, operator, shared)

	other := replica("crunch", "h:2")
	other.Card.Capabilities = &a2apb.AgentCapabilities{Streaming: new(true)}
	alone := replica("crunch", "h:2")
	alone.Replica = false
	byURL := Request{CardURL: "http://far/card", Replica: true}
	secret := replica("crunch", "h:2")
	secret.Credentials = []credentials.Given{{Scheme: "bearer", Secret: "x"}}
	for name, tt := range map[string]struct {
		p    mesh.Principal
		req  Request
		code mesh.Code
		says string
	}{
		"a stranger":              {bob, replica("crunch", "h:2"), mesh.Precondition, "belongs to another user"},
		"a stranger, its place":   {bob, replica("crunch", "h:1"), mesh.Precondition, "belongs to another user"},
		"who may remove it":       {admin, replica("crunch", "h:2"), mesh.Precondition, "only that one can add processes"},
		"a tenant, of all":        {ann, replica("common", "h:2"), mesh.Precondition, "all tenants share"},
		"one that stands alone":   {ann, alone, mesh.Precondition, "each registers as a replica"},
		"beside one that does":    {ann, replica("solo", "h:2"), mesh.Precondition, "each registers as a replica"},
		"that is asked otherwise": {ann, other, mesh.Invalid, "card.capabilities"},
		"by URL":                  {ann, byURL, mesh.Invalid, "replica"},
		"with credentials":        {ann, secret, mesh.Invalid, "replica"},
	} {
		_, err := r.Register(t.Context(), tt.p, tt.req)
		t.Run(name, func(t *testing.T) { wantCode(t, err, tt.code, tt.says) })
	}
	solo, err := r.Resolve(acme, "solo")
	if got := up(t, r, "crunch"); got != "h:1" || err != nil || solo.Endpoint != "h:9" || solo.Instances != nil {
		t.Errorf("crunch at %s, solo %+v, %v", got, solo, err)
	}
	// Another tenant has names of its own.
	if got := joins(t, r, principal(globex), replica("crunch", "h:7")); len(got.Entry.Instances) != 1 {
		t.Errorf("of another tenant: %+v", got.Entry)
	}
	_, err = r.SetCredentials(t.Context(), ann, "crunch", false, nil)
	wantCode(t, err, mesh.Unsupported, "several processes")
}

// The number of processes has a bound, in which those that are gone do not count.
func TestProcessesHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newNetwork(), nil)
		p := principal(acme)
		join := func(i int) error {
			_, err := r.Register(t.Context(), p, replica("crunch", "h:"+string(rune('0'+i/10%10))+string(rune('0'+i%10))+string(rune('1'+i/100))))
			return err
		}
		for i := range MaxReplicas {
			if err := join(i); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, join(MaxReplicas), mesh.Exhausted, "limit")
		time.Sleep(time.Minute)
		if err := join(MaxReplicas); err != nil {
			t.Error(err)
		}
		if e, err := r.Get(acme, "crunch"); err != nil || len(e.Instances) != 1 {
			t.Errorf("listed are %d, %v", len(e.Instances), err)
		}
	})
}

// Nodes that share a store know the processes that registered with any of them.
func TestProcessesOfOneAgentMayRegisterWithDifferentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, b := two(t, newNetwork(), s)
		p := principal(acme)
		one := joins(t, a, p, replica("crunch", "h:1"))
		two := joins(t, b, p, replica("crunch", "h:2"))
		for i, r := range []*Registry{a, b} {
			if got := up(t, r, "crunch"); got != "h:1 h:2" || !r.Holds(acme, "crunch", one.Secret) || !r.Holds(acme, "crunch", two.Secret) {
				t.Errorf("node %d knows %s", i, got)
			}
		}
		if _, err := b.KeepAlive(p, "crunch", one.LeaseID); err != nil { // at the other node
			t.Error(err)
		}
		if err := a.Deregister(t.Context(), p, "crunch", two.LeaseID, false); err != nil {
			t.Fatal(err)
		}
		if got := up(t, b, "crunch"); got != "h:1" || len(s.all) != 1 {
			t.Errorf("after one left: %s, kept are %d", got, len(s.all))
		}
		breaks := func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fail = err
		}
		breaks(errors.New("no store"))
		if got := up(t, b, "crunch"); got != "h:1" {
			t.Errorf("without its store a node goes on with what it knew: %s", got)
		}
		breaks(nil)
		again, err := New(t.Context(), Options{Probe: newNetwork().probe, Store: s, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := again.Get(acme, "crunch"); err != nil || len(e.Instances) != 1 {
			t.Errorf("after a restart: %+v, %v", e.Instances, err)
		}
	})
}
