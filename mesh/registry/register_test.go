package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestNamesOfOthersCannotBeTakenOver(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, r *Registry, n *network) Request // what to change in the request
		who     mesh.Principal
		says    string // "" when it is allowed
	}{
		"a built-in agent's by a tenant": {builtin, principal(acme), "built-in"},
		"a built-in agent's by an operator": {func(t *testing.T, r *Registry, n *network) Request {
			builtin(t, r, n)
			return Request{Shared: true}
		}, operator, "choose another name"},
		"a shared agent's by a tenant": {func(t *testing.T, r *Registry, _ *network) Request {
			_, err := r.Register(t.Context(), operator, Request{Name: "mail", Card: card("mail"), Endpoint: "h:1", Shared: true})
			if err != nil {
				t.Fatal(err)
			}
			return Request{}
		}, principal(acme), "all tenants share"},
		"a live agent's":        {theirs, principal(acme), "remove it first"},
		"another tenant's name": {theirs, principal(globex), ""},
		"by its lease id": {func(t *testing.T, r *Registry, _ *network) Request {
			return Request{LeaseID: register(t, r, principal(acme), "mail", "h:1").LeaseID}
		}, principal(acme), ""},
		"by a wrong lease id": {func(t *testing.T, r *Registry, n *network) Request {
			theirs(t, r, n)
			return Request{LeaseID: "WRONG"}
		}, principal(acme), "remove it first"},
		"from the same address": {func(t *testing.T, r *Registry, n *network) Request {
			theirs(t, r, n)
			return Request{Endpoint: "h:1"}
		}, principal(acme), ""},
		"of an agent that crashed": {func(t *testing.T, r *Registry, n *network) Request {
			theirs(t, r, n)
			n.kill("h:1")
			return Request{}
		}, principal(acme), ""},
		"of an agent whose lease ran out": {func(t *testing.T, r *Registry, n *network) Request {
			theirs(t, r, n)
			time.Sleep(10 * time.Second)
			return Request{}
		}, principal(acme), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				r := open(t, n, nil)
				req := tt.prepare(t, r, n)
				req.Name, req.Card = "mail", card("mail")
				if req.Endpoint == "" {
					req.Endpoint = "h:2"
				}
				before, _ := r.Get(tt.who.Tenant, "mail")
				got, err := r.Register(t.Context(), tt.who, req)
				if tt.says == "" {
					if err != nil {
						t.Fatalf("refused: %v", err)
					}
					if e, err := r.Resolve(tt.who.Tenant, "mail"); err != nil || e.Endpoint != req.Endpoint || !same(e, got.Entry) {
						t.Errorf("Resolve = %+v, %v; want what was registered", e, err)
					}
					return
				}
				wantCode(t, err, mesh.Precondition, "name", tt.says)
				if after, _ := r.Get(tt.who.Tenant, "mail"); !same(after, before) {
					t.Errorf("refused, and yet the agent changed from %+v to %+v", before, after)
				}
			})
		})
	}
}

func builtin(t *testing.T, r *Registry, _ *network) Request {
	if err := r.RegisterBuiltin("mail", card("mail"), "h:1", "secret"); err != nil {
		t.Fatal(err)
	}
	return Request{}
}

func theirs(t *testing.T, r *Registry, _ *network) Request {
	register(t, r, principal(acme), "mail", "h:1")
	return Request{}
}

// S4-052, S4-068.
func TestAnotherTenantsAgentLooksExactlyLikeNone(t *testing.T) {
	r := open(t, newNetwork(), nil)
	reg := register(t, r, principal(acme), "secret", "h:1")
	own := register(t, r, principal(globex), "own", "h:2")

	p := principal(globex)
	for op, call := range map[string]func(name string) error{
		"Get":     func(name string) error { _, err := r.Get(globex, name); return err },
		"Resolve": func(name string) error { _, err := r.Resolve(globex, name); return err },
		"KeepAlive with their lease": func(name string) error {
			_, err := r.KeepAlive(p, name, reg.LeaseID)
			return err
		},
		"Deregister with their lease": func(name string) error { return r.Deregister(t.Context(), p, name, reg.LeaseID, false) },
		"Deregister":                  func(name string) error { return r.Deregister(t.Context(), p, name, "", false) },
		"Deregister shared":           func(name string) error { return r.Deregister(t.Context(), operator, name, "", true) },
	} {
		foreign, unknown := call("secret"), call("absent")
		wantCode(t, unknown, mesh.NotFound)
		got := strings.ReplaceAll(foreign.Error(), "secret", "absent")
		if got != unknown.Error() {
			t.Errorf("%s tells a foreign agent apart: %q, of an unknown one %q", op, got, unknown)
		}
	}
	if list := r.List(globex, Filter{}); len(list) != 1 || !same(list[0], own.Entry) {
		t.Errorf("List = %v, want only the tenant's own", list)
	}
	if _, err := r.Resolve(acme, "secret"); err != nil {
		t.Errorf("the agent did not survive the attempts of another tenant: %v", err)
	}
}

func TestASharedAgentIsSeenByAllAndHidesATenantsOfThatName(t *testing.T) {
	r := open(t, newNetwork(), nil)
	mine := register(t, r, principal(acme), "mail", "h:1")
	shared, err := r.Register(t.Context(), operator, Request{Card: card("Mail"), Endpoint: "h:2", Shared: true})
	if err != nil || shared.Entry.Tenant != "" {
		t.Fatalf("Register = %+v, %v", shared, err)
	}
	for _, tenant := range []mesh.TenantID{acme, globex} {
		if e, err := r.Resolve(tenant, "mail"); err != nil || !same(e, shared.Entry) {
			t.Errorf("Resolve for %s = %+v, %v", tenant, e, err)
		}
		if list := r.List(tenant, Filter{}); len(list) != 1 || !same(list[0], shared.Entry) {
			t.Errorf("List for %s = %v", tenant, list)
		}
	}
	if _, err := r.KeepAlive(principal(acme), "mail", mine.LeaseID); err != nil {
		t.Errorf("hidden agent cannot renew: %v", err)
	}
	if err := r.Deregister(t.Context(), operator, "mail", "", true); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Resolve(acme, "mail"); err != nil || e.Endpoint != "h:1" {
		t.Errorf("after the shared agent left, Resolve = %+v, %v", e, err)
	}
}

func TestSharedAgentsAreTheOperators(t *testing.T) {
	r := open(t, newNetwork(), nil)
	register(t, r, principal(acme), "own", "h:1")
	_, err := r.Register(t.Context(), principal(acme), Request{Card: card("x"), Endpoint: "h:2", Shared: true})
	wantCode(t, err, mesh.Denied, `"operator"`)
	_, err = r.Register(t.Context(), principal(""), Request{Card: card("x"), Endpoint: "h:2"})
	wantCode(t, err, mesh.Invalid, "tenant-id")
	if err := r.Deregister(t.Context(), principal(acme), "own", "", false); err != nil {
		t.Errorf("whoever administers the tenant's agents needs no lease id: %v", err)
	}
}

func TestBuiltinAgentsEndOnlyWithTheirNode(t *testing.T) {
	r := open(t, newNetwork(), nil)
	builtin(t, r, nil)
	for _, shared := range []bool{true, false} {
		wantCode(t, r.Deregister(t.Context(), operator, "mail", "", shared), mesh.Precondition, "built in")
	}
	r.RemoveBuiltin("mail")
	_, err := r.Get(acme, "mail")
	wantCode(t, err, mesh.NotFound)

	register(t, r, operator, "mail", "h:9")
	r.RemoveBuiltin("mail")
	if _, err := r.Get("ops", "mail"); err != nil {
		t.Errorf("RemoveBuiltin removed an agent that is not built in: %v", err)
	}
	wantCode(t, r.RegisterBuiltin("mail", card("mail"), "nowhere", "secret"), mesh.Invalid, "endpoint", "host:port")
	wantCode(t, r.RegisterBuiltin("mail", nil, "h:1", "secret"), mesh.Invalid, "card")
}

func TestASharedAgentIsRemovedOnlyByAnOperator(t *testing.T) {
	r := open(t, newNetwork(), nil)
	if _, err := r.Register(t.Context(), operator, Request{Card: card("mail"), Endpoint: "h:2", Shared: true}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, r.Deregister(t.Context(), principal(acme), "mail", "", false), mesh.Denied, "operator")
	wantCode(t, r.Deregister(t.Context(), principal(acme), "mail", "", true), mesh.Denied, "operator")
	if err := r.Deregister(t.Context(), operator, "mail", "", true); err != nil {
		t.Fatal(err)
	}
}

// What is required of users is what the mesh can ask for, or the agent is not registered:
// otherwise it would be open to everybody, or to nobody.
func TestACardRequiresPermissionsThatThereAre(t *testing.T) {
	requiring := func(v *structpb.Value) *a2apb.AgentCard {
		c := card("courier")
		other := &a2apb.AgentExtension{Uri: "urn:other"}
		c.Capabilities = &a2apb.AgentCapabilities{Extensions: []*a2apb.AgentExtension{other, {Uri: mesh.ExtensionURI,
			Params: &structpb.Struct{Fields: map[string]*structpb.Value{"required_permissions": v}}}}}
		return c
	}
	list := func(all ...any) *structpb.Value {
		l, err := structpb.NewList(all)
		if err != nil {
			t.Fatal(err)
		}
		return structpb.NewListValue(l)
	}
	const at = "card.capabilities.extensions[1].params.required_permissions"
	for name, tt := range map[string]struct {
		value       *structpb.Value
		field, says string
	}{
		"a text":         {structpb.NewStringValue("skill:create"), at, "list of texts"},
		"true":           {structpb.NewBoolValue(true), at, "list of texts"},
		"null":           {structpb.NewNullValue(), at, "list of texts"},
		"a list of more": {list("skill:create", 1.0), at, "list of texts"},
		"none":           {list("skill:create", ""), at + "[1]", "skill:create"},
		"an action":      {list("skill.create"), at + "[0]", "skill:create"},
		"a role":         {list("skill-author"), at + "[0]", "skill:create"},
		"another case":   {list("Skill:Create"), at + "[0]", "skill:create"},
		"unknown":        {list("skill:create", "audit:read", "skill:drop"), at + "[2]", "\"skill:drop\""},
		"of three parts": {list("thread:read:own"), at + "[0]", "audit:read"},
		"too many":       {list(slices.Repeat([]any{"skill:create"}, 17)...), at, "17"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, newNetwork(), nil)
			req := Request{Card: requiring(tt.value), Endpoint: "h:1"}
			_, err := r.Register(t.Context(), principal(acme), req)
			wantCode(t, err, mesh.Invalid, tt.says)
			if fieldOf(err) != tt.field || len(r.List(acme, Filter{})) > 0 {
				t.Errorf("field is %q, want %q; registered %v", fieldOf(err), tt.field, r.List(acme, Filter{}))
			}
			if got := Params(req.Card).RequiredPermissions; mesh.Lacking(mesh.Roles(), got) == nil && len(got) < 17 {
				t.Errorf("read as %q, which users have", got)
			}
		})
	}
	r := open(t, newNetwork(), nil)
	got, err := r.Register(t.Context(), principal(acme), Request{Card: requiring(list("skill:create", "audit:read")), Endpoint: "h:1"})
	if err != nil || !slices.Equal(got.Entry.Requires(), []string{"skill:create", "audit:read"}) {
		t.Errorf("requires %q: %v", got.Entry.Requires(), err)
	}
	if err := got.Entry.WorksFor("test", []mesh.Role{mesh.RoleSkillAuthor}); mesh.LackOf(err) == nil || mesh.LackOf(err).Permission != "audit:read" {
		t.Errorf("with one of the two: %v", err)
	}
	if err := got.Entry.WorksFor("test", []mesh.Role{mesh.RoleSkillAuthor, mesh.RoleAuditor}); err != nil {
		t.Errorf("with both: %v", err)
	}
}

func TestBrokenRequestsAreRefusedNamingTheField(t *testing.T) {
	with := func(in ...*a2apb.AgentInterface) *a2apb.AgentCard {
		c := card("courier")
		c.SupportedInterfaces = in
		return c
	}
	for name, tt := range map[string]struct {
		req   Request
		field string
		says  string
	}{
		"nothing given":      {Request{}, "card", "card_url"},
		"card and URL":       {Request{Card: card("x"), CardURL: "h:1"}, "card_url", "leave one"},
		"lease with URL":     {Request{CardURL: "h:1", Lease: time.Minute}, "lease", "removed"},
		"URL of a file":      {Request{CardURL: "file:///etc/passwd"}, "card_url", "http://"},
		"URL with password":  {Request{CardURL: "http://a:b@h:1"}, "card_url", "password"},
		"URL without host":   {Request{CardURL: "http://"}, "card_url", "http://host:port"},
		"no address":         {Request{Card: card("x")}, "card.supportedInterfaces", "host:port as endpoint"},
		"endpoint sans port": {Request{Card: card("x"), Endpoint: "localhost"}, "endpoint", "host:port"},
		"endpoint of port 0": {Request{Card: card("x"), Endpoint: "h:0"}, "endpoint", "host:port"},
		"endpoint with path": {Request{Card: card("x"), Endpoint: "h/x:1"}, "endpoint", "host:port"},
		"bad name":           {Request{Name: "Mail!", Card: card("x"), Endpoint: "h:1"}, "name", "lower-case"},
		"nameless card":      {Request{Card: card("日本"), Endpoint: "h:1"}, "card.name", "give the agent a name"},
		"unknown protocol":   {Request{Card: with(&a2apb.AgentInterface{Url: "http://h", ProtocolBinding: "SOAP"})}, "card.supportedInterfaces", "JSONRPC"},
		"only version 2":     {Request{Card: with(&a2apb.AgentInterface{Url: "h:1", ProtocolBinding: "GRPC", ProtocolVersion: "2.0"})}, "card.supportedInterfaces", "1.x"},
		"JSONRPC sans URL":   {Request{Card: with(&a2apb.AgentInterface{Url: "h:1", ProtocolBinding: "JSONRPC"})}, "card.supportedInterfaces[0].url", "http://"},
		"password in URL":    {Request{Card: with(&a2apb.AgentInterface{Url: "http://a:b@h", ProtocolBinding: "HTTP+JSON"})}, "card.supportedInterfaces[0].url", "password"},
		"path of gRPC":       {Request{Card: with(&a2apb.AgentInterface{Url: "https://h:1/x", ProtocolBinding: "GRPC"})}, "card.supportedInterfaces[0].url", "grpcs://host:port"},
		"endpoint of HTTP":   {Request{Card: card("x"), Endpoint: "https://h:1/x"}, "endpoint", "grpcs://host:port"},
		"name server":        {Request{Card: card("x"), Endpoint: "dns://10.0.0.7/h:1"}, "endpoint", "host:port"},
		"too long a card":    {Request{Card: &a2apb.AgentCard{Name: "x", Description: strings.Repeat("x", MaxCard)}, Endpoint: "h:1"}, "card", "shorten it"},
		"URL without port":   {Request{Card: with(&a2apb.AgentInterface{Url: "h", ProtocolBinding: "GRPC"})}, "card.supportedInterfaces[0].url", "host:port"},
		"no name":            {Request{Card: &a2apb.AgentCard{}, Endpoint: "h:1"}, "card.name", "give the agent a name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, newNetwork(), nil)
			_, err := r.Register(t.Context(), principal(acme), tt.req)
			wantCode(t, err, mesh.Invalid, tt.says)
			if fieldOf(err) != tt.field {
				t.Errorf("field is %q, want %q", fieldOf(err), tt.field)
			}
			if list := r.List(acme, Filter{}); len(list) != 0 {
				t.Errorf("refused, and yet registered: %v", list)
			}
		})
	}
}

func TestAnAgentThatDoesNotAnswerIsNotRegistered(t *testing.T) {
	n := newNetwork()
	r := open(t, n, nil)
	n.kill("h:1")
	_, err := r.Register(t.Context(), principal(acme), Request{Card: card("Courier"), Endpoint: "h:1"})
	wantCode(t, err, mesh.Unavailable, "Agent courier does not answer at h:1; start it first or correct the address")
	_, err = r.Get(acme, "courier")
	wantCode(t, err, mesh.NotFound)
}

func TestTheEndpointIsTheFirstUsableInterface(t *testing.T) {
	r := open(t, newNetwork(), nil)
	c := card("courier")
	c.SupportedInterfaces = []*a2apb.AgentInterface{
		{Url: "http://h:1/rpc", ProtocolBinding: "SOAP", ProtocolVersion: "1.0"},
		{Url: "h:2", ProtocolBinding: "GRPC", ProtocolVersion: "2.0"},
		{Url: "http://h:3", ProtocolBinding: "grpc", ProtocolVersion: "1.0", Tenant: "route-me"},
	}
	reg, err := r.Register(t.Context(), principal(acme), Request{Card: c})
	if err != nil || reg.Entry.Endpoint != "h:3" || reg.Entry.RoutingTenant() != "route-me" {
		t.Errorf("Register = %+v, %v; want h:3 with its routing tenant", reg.Entry, err)
	}
	given, err := r.Register(t.Context(), principal(acme), Request{Name: "other", Card: card("x"), Endpoint: "[::1]:4"})
	if err != nil {
		t.Fatal(err)
	}
	if in := given.Entry.Card.GetSupportedInterfaces(); len(in) != 1 || in[0].GetUrl() != "[::1]:4" || in[0].GetProtocolBinding() != BindingGRPC {
		t.Errorf("card without interfaces was registered with %v, want the endpoint as its interface", in)
	}
}

func TestATenantMayHaveOnlySoManyAgents(t *testing.T) {
	r := open(t, newNetwork(), nil)
	for i := range MaxAgents {
		register(t, r, principal(acme), fmt.Sprintf("a%d", i), "h:1")
	}
	_, err := r.Register(t.Context(), principal(acme), Request{Name: "more", Card: card("x"), Endpoint: "h:1"})
	wantCode(t, err, mesh.Exhausted, "limit")
	register(t, r, principal(acme), "a0", "h:1")
	register(t, r, principal(globex), "more", "h:2")
}

func owner(tenant mesh.TenantID, user string, roles ...mesh.Role) mesh.Principal {
	p := principal(tenant, append(roles, mesh.RoleAgentPublisher)...)
	p.User = user
	return p
}

// finding T11: a name is its registrant's, also while the agent is away; others get it
// with the lease id or by a role alone.
func TestANameIsItsRegistrants(t *testing.T) {
	ann, eve, admin := owner(acme, "ann"), owner(acme, "eve"), owner(acme, "adam", mesh.RoleTenantAdmin)
	for name, away := range map[string]bool{"while it is live": false, "while it is away": true} {
		t.Run(name, func(t *testing.T) {
			r := open(t, newNetwork(), nil)
			mine := register(t, r, ann, "helper", "h:1")
			if away {
				r.ReportDown(mine.Entry, errors.New("gone"))
			}
			_, err := r.Register(t.Context(), eve, Request{Name: "helper", Card: card("x"), Endpoint: "h:1"})
			wantCode(t, err, mesh.Precondition, "belongs to another user")
			_, err = r.Register(t.Context(), eve, Request{Name: "helper", Card: card("x"), Endpoint: "h:2"})
			wantCode(t, err, mesh.Precondition, "belongs to another user")
			wantCode(t, r.Deregister(t.Context(), eve, "helper", "", false), mesh.Denied, "belongs to another user")
			if e, err := r.Get(acme, "helper"); err != nil || e.Owner != "ann" {
				t.Errorf("the agent is %+v, %v", e, err)
			}
			if again := register(t, r, ann, "helper", "h:1"); again.Entry.Owner != "ann" {
				t.Errorf("its owner comes back: %+v", again)
			}
			if err := r.Deregister(t.Context(), admin, "helper", "", false); err != nil {
				t.Errorf("who administers the tenant removes it: %v", err)
			}
			if e := register(t, r, eve, "helper", "h:2").Entry; e.Owner != "eve" {
				t.Errorf("a free name: %+v", e)
			}
			byLease := register(t, r, ann, "other", "h:3")
			if _, err := r.Register(t.Context(), eve, Request{Name: "other", Card: card("x"), Endpoint: "h:4", LeaseID: byLease.LeaseID}); err != nil {
				t.Errorf("with the lease id: %v", err)
			}
		})
	}
}

// finding T4: nobody registers another tenant's agent, under whatever name, by whichever
// of its interfaces.
func TestAnEndpointIsItsTenants(t *testing.T) {
	r := open(t, newNetwork(), nil)
	builtin(t, r, nil)
	register(t, r, owner(acme, "ann"), "private", "h:8")
	mail, err := r.Get(acme, "mail")
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]string{"another tenant's": "h:8", "the node's own": mail.Endpoint} {
		_, err := r.Register(t.Context(), owner(globex, "bob"), Request{Name: "mine", Card: card("x"), Endpoint: at})
		if !mesh.IsCode(err, mesh.Denied) || mesh.FieldOf(err) != "endpoint" {
			t.Errorf("%s: %v", what, err)
		}
	}
	register(t, r, owner(acme, "eve"), "twin", "h:8") // of the same tenant
	register(t, r, owner(globex, "root", mesh.RoleOperator), "mine", "h:8")
}

// The agents that a user registered go with the user, also those that a store keeps; those of
// others, and of a user of that name in another tenant, stay.
func TestAUsersAgentsAreErased(t *testing.T) {
	ann, eve, other := owner(acme, "ann"), owner(acme, "eve"), owner(globex, "ann")
	store := newShelf()
	r := open(t, newNetwork(), store)
	register(t, r, ann, "one", "h:1")
	register(t, r, ann, "two", "h:2")
	register(t, r, eve, "three", "h:3")
	register(t, r, other, "one", "h:4")
	for _, tt := range []struct {
		user  string
		count bool
		want  int
	}{{"ann", true, 2}, {"bob", false, 0}, {"", false, 0}, {"ann", false, 2}, {"ann", false, 0}, {"eve", true, 1}} {
		held, err := r.Erase(t.Context(), mesh.Owner{Tenant: acme, User: tt.user}, tt.count)
		if err != nil || len(held) != 1 || held[0] != (mesh.Held{What: "agents", Count: tt.want}) {
			t.Errorf("%+v: %v, %v", tt, held, err)
		}
	}
	for name, there := range map[string]bool{"one": false, "two": false, "three": true} {
		if _, err := r.Get(acme, name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Get(globex, "one"); err != nil {
		t.Errorf("of another tenant: %v", err)
	}
}
