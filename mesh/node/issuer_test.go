package node

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/cards"
)

// counter signs with real keys and counts how often.
type counter struct {
	*cards.Keys
	signed atomic.Int32
}

func (c *counter) Sign(card *a2apb.AgentCard) (*a2apb.AgentCard, error) {
	c.signed.Add(1)
	return c.Keys.Sign(card)
}

func (c *counter) Write(card *a2apb.AgentCard, mode cards.Mode) ([]byte, error) {
	c.signed.Add(1)
	return c.Keys.Write(card, mode)
}

// desk is an issuer over a registry whose clock and probes the test has.
type desk struct {
	*issuer
	t    *testing.T
	keys *counter
	now  time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, keys: new(counter), now: time.Now()}
	agents, err := registry.New(t.Context(), registry.Options{
		Probe: func(context.Context, registry.Entry) error { return nil },
		Now:   func() time.Time { return d.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.keys.Keys, err = cards.LoadOrCreate(t.TempDir()+"/card.key", ""); err != nil {
		t.Fatal(err)
	}
	d.issuer = newIssuer(agents, d.keys, cards.Union, func() *a2apb.AgentCard {
		return &a2apb.AgentCard{Name: "mesh", SupportedInterfaces: []*a2apb.AgentInterface{
			{Url: "http://127.0.0.1:1", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}}}
	}, "main")
	return d
}

func (d *desk) register(tenant mesh.TenantID, name, description string) registry.Registration {
	d.t.Helper()
	return d.registerAt("127.0.0.1:2", tenant, name, description)
}

func (d *desk) registerAt(endpoint string, tenant mesh.TenantID, name, description string) registry.Registration {
	d.t.Helper()
	r, err := d.agents.Register(d.t.Context(), mesh.Principal{Tenant: tenant, Roles: []mesh.Role{mesh.RoleAgentPublisher}}, registry.Request{
		Name: name, Endpoint: endpoint, Lease: time.Minute, Card: &a2apb.AgentCard{
			Name: name, Description: description, Version: "1", Capabilities: new(a2apb.AgentCapabilities),
			DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
			Skills: []*a2apb.AgentSkill{{Id: name, Name: name, Description: "does it", Tags: []string{"do"}}},
		}})
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// skills returns what the signed card of the tenant's mesh says of its agents,
// by name, and how many signatures it took to say so.
func (d *desk) skills(tenant mesh.TenantID) (map[string]string, int) {
	d.t.Helper()
	before := d.keys.signed.Load()
	card, err := d.extended(d.t.Context(), tenant)
	if err != nil || len(card.GetSignatures()) == 0 {
		d.t.Fatalf("card %v, %v", card, err)
	}
	says := map[string]string{}
	for _, s := range card.GetSkills() {
		says[s.GetId()] = s.GetDescription()
	}
	return says, int(d.keys.signed.Load() - before)
}

// A card is signed once for each state of the agents that it tells of, and
// tells of that state: finding C4.
func TestACardIsSignedAnewWhenItsAgentsChangeAndOnlyThen(t *testing.T) {
	d := newDesk(t)
	expect := func(when string, signed int, want map[string]string) {
		t.Helper()
		says, n := d.skills("acme")
		if n != signed || !maps.Equal(says, want) {
			t.Errorf("%s: the card says %v after %d signatures, want %v after %d", when, says, n, want, signed)
		}
		if says, n := d.skills("acme"); n != 0 || !maps.Equal(says, want) {
			t.Errorf("%s, again: the card says %v after %d signatures, want %v after none", when, says, n, want)
		}
	}
	expect("at first", 1, map[string]string{})
	d.register("acme", "lamp", "Lights.")
	expect("after a registration", 1, map[string]string{"lamp": "Lights."})
	lamp := d.register("acme", "lamp", "Shines.")
	expect("after another card", 1, map[string]string{"lamp": "Shines."})
	d.registerAt("127.0.0.1:9", "other", "door", "Opens.")
	expect("after another tenant's registration", 0, map[string]string{"lamp": "Shines."})
	if err := d.agents.RegisterBuiltin("main", lamp.Entry.Card, "127.0.0.1:3", "secret"); err != nil {
		t.Fatal(err)
	}
	expect("after a shared agent came", 1, map[string]string{"lamp": "Shines.", "main": "Shines."})
	d.agents.RemoveBuiltin("main")
	expect("after it went", 1, map[string]string{"lamp": "Shines."})
	d.agents.ReportDown(lamp.Entry, errors.New("refused"))
	expect("after the agent went down", 1, map[string]string{})
	lamp = d.register("acme", "lamp", "Shines.")
	expect("after it came back", 1, map[string]string{"lamp": "Shines."})
	d.now = d.now.Add(30 * time.Second)
	if _, err := d.agents.KeepAlive(mesh.Principal{Tenant: "acme"}, "lamp", lamp.LeaseID); err != nil {
		t.Fatal(err)
	}
	expect("after a renewal", 0, map[string]string{"lamp": "Shines."})
	d.now = d.now.Add(2 * time.Minute)
	expect("after its lease ran out", 1, map[string]string{})
}

// Each form of a card is signed when it is first asked for: finding C4.
func TestEachFormOfACardIsSignedOnce(t *testing.T) {
	d := newDesk(t)
	d.register("acme", "lamp", "Lights.")
	for _, agent := range []string{"", "lamp"} {
		for range 3 {
			for _, v1 := range []bool{false, true} {
				if _, err := d.written(subject{"acme", agent}, v1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n := d.keys.signed.Load(); n != 4 {
		t.Errorf("%d signings for two forms of two cards, want 4", n)
	}
	for _, of := range []subject{{"acme", "nobody"}, {"other", "lamp"}} {
		if _, err := d.written(of, true); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("%v: %v, want NotFound", of, err)
		}
	}
	if n := d.kept.Len(); n != 2 {
		t.Errorf("%d cards are kept, want the two that exist", n)
	}
}

// What is kept is not what a caller's copy changes.
func TestTheCardOfAnAgentLeavesTheRegistrysAlone(t *testing.T) {
	d := newDesk(t)
	before := proto.CloneOf(d.register("acme", "lamp", "Lights.").Entry.Card)
	if _, err := d.written(subject{"acme", "lamp"}, true); err != nil {
		t.Fatal(err)
	}
	if e, err := d.agents.Get("acme", "lamp"); err != nil || !proto.Equal(e.Card, before) {
		t.Errorf("the registry has %v, %v; want the card as it came", e.Card, err)
	}
}
