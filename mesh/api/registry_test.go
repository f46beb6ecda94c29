package api

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestAnAgentJoinsRenewsAndLeavesOverGRPC(t *testing.T) {
	n := serve(t)
	ctx := as(t, "alice")
	reg, err := n.registry.RegisterAgent(ctx, &meshv1.RegisterAgentRequest{Card: card("Courier"), Lease: durationpb.New(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	a := reg.GetAgent()
	if a.GetName() != "courier" || a.GetTenant() != "acme" || a.GetEndpoint() != "h:1" || !a.GetLive() || a.GetBuiltin() ||
		reg.GetLeaseId() == "" || reg.GetLease().AsDuration() != time.Minute || string(reg.GetGrantKeys()[0]) != "public key" || !n.agents.Holds("acme", "courier", reg.GetSecret()) ||
		a.GetExpires().AsTime().Sub(a.GetRegistered().AsTime()).Round(time.Second) != time.Minute {
		t.Errorf("registration is %v", reg)
	}
	got, err := n.registry.GetAgent(ctx, &meshv1.GetAgentRequest{Name: "courier"})
	if err != nil || !proto.Equal(got.GetAgent(), a) {
		t.Errorf("GetAgent = %v, %v; want %v", got, err, a)
	}
	for query, want := range map[string]int{"courier THINGS": 1, "nothing": 0} {
		list, err := n.registry.ListAgents(ctx, &meshv1.ListAgentsRequest{Skill: "do", Tag: "doing", Query: query, Live: true})
		if err != nil || len(list.GetAgents()) != want {
			t.Errorf("ListAgents(%q) = %v, %v; want %d", query, list, err, want)
		}
	}

	stream, err := n.registry.KeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stream.Send(&meshv1.KeepAliveRequest{Name: "courier", LeaseId: reg.GetLeaseId()}); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil || !res.GetExpires().AsTime().After(a.GetExpires().AsTime()) {
			t.Fatalf("KeepAlive = %v, %v; want a later end than %v", res, err, a.GetExpires().AsTime())
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	// A stream that ends leaves the lease alone.
	if got, err := n.registry.GetAgent(ctx, &meshv1.GetAgentRequest{Name: "courier"}); err != nil || !got.GetAgent().GetLive() {
		t.Errorf("after the stream, GetAgent = %v, %v", got, err)
	}

	leave := &meshv1.DeregisterAgentRequest{Name: "courier", LeaseId: reg.GetLeaseId()}
	if _, err := n.registry.DeregisterAgent(ctx, leave); err != nil {
		t.Fatal(err)
	}
	_, err = n.registry.DeregisterAgent(ctx, leave)
	wantCode(t, err, mesh.NotFound)
}

func TestKeepAliveEndsWithALeaseThatCannotBeRenewed(t *testing.T) {
	n := serve(t)
	stream, err := n.registry.KeepAlive(as(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&meshv1.KeepAliveRequest{Name: "courier", LeaseId: "x"}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, mesh.NotFound, "courier", "register it again")
}

func TestRefusedRegistrationsSayWhatToDo(t *testing.T) {
	n := serve(t)
	for name, tt := range map[string]struct {
		user string
		req  *meshv1.RegisterAgentRequest
		code mesh.Code
		says string
	}{
		"nothing":        {"alice", &meshv1.RegisterAgentRequest{}, mesh.Invalid, "card_url"},
		"lease of zero":  {"alice", &meshv1.RegisterAgentRequest{Card: card("x"), Lease: &durationpb.Duration{}}, mesh.Invalid, "leave it out"},
		"short lease":    {"alice", &meshv1.RegisterAgentRequest{Card: card("x"), Lease: durationpb.New(time.Second)}, mesh.Invalid, "5s"},
		"no permission":  {"reader", &meshv1.RegisterAgentRequest{Card: card("x")}, mesh.Denied, "agent.register"},
		"shared":         {"alice", &meshv1.RegisterAgentRequest{Card: card("x"), Shared: true}, mesh.Denied, "operator"},
		"not answering":  {"alice", &meshv1.RegisterAgentRequest{Card: card("x"), Endpoint: "dead:1"}, mesh.Unavailable, "start it first"},
		"nobody in fact": {"nobody", &meshv1.RegisterAgentRequest{Card: card("x")}, mesh.Unauthenticated, "who you are"},
	} {
		_, err := n.registry.RegisterAgent(as(t, tt.user), tt.req)
		t.Run(name, func(t *testing.T) { wantCode(t, err, tt.code, tt.says) })
	}
}

func TestAnAgentAddedByURLIsThereAfterARestart(t *testing.T) {
	n := serve(t)
	reg, err := n.registry.RegisterAgent(as(t, "root"), &meshv1.RegisterAgentRequest{CardUrl: "http://far", Shared: true})
	if err != nil || reg.GetAgent().GetTenant() != "" || reg.GetLease() != nil || reg.GetAgent().GetExpires() != nil {
		t.Fatalf("RegisterAgent = %v, %v", reg, err)
	}
	again, err := registry.New(t.Context(), registry.Options{Store: NewRegistrations(n.kv)})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := again.Get("acme", "far-away"); err != nil || e.Endpoint != "h:1" || e.Live {
		t.Errorf("after a restart, Get = %+v, %v; want it kept and not yet live", e, err)
	}
	if _, err := n.registry.DeregisterAgent(as(t, "root"), &meshv1.DeregisterAgentRequest{Name: "far-away", Shared: true}); err != nil {
		t.Fatal(err)
	}
	if kept, err := NewRegistrations(n.kv).All(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("kept after removal: %v, %v", kept, err)
	}
}

func TestAllRegistrationsAreReadHoweverMany(t *testing.T) {
	n := serve(t)
	s := NewRegistrations(n.kv)
	const many = 2500
	for i := range many {
		if _, err := s.Save(t.Context(), fmt.Sprintf("acme/a%d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.All(t.Context()); err != nil || len(all) != many || string(all["acme/a7"]) != "x" {
		t.Errorf("All = %d registrations, %v; want %d", len(all), err, many)
	}
	if _, err := s.Remove(t.Context(), "acme/none"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestAStoreOfRegistrationsTellsOfChangesAndSwapsWhatItHas(t *testing.T) {
	s := NewRegistrations(serve(t).kv)
	before, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	saved, err := s.Save(t.Context(), "acme/a", []byte("1"))
	if now, _ := s.Revision(t.Context()); err != nil || saved != before+1 || now != saved {
		t.Errorf("revision %d and then %d, %d: %v", before, saved, now, err)
	}
	for _, swap := range []struct{ key, old, data, is string }{
		{"acme/a", "1", "2", "2"}, {"acme/a", "1", "3", "2"}, {"acme/none", "", "3", ""},
	} {
		err := s.Swap(t.Context(), swap.key, []byte(swap.old), []byte(swap.data))
		if got, failed := s.Get(t.Context(), swap.key); err != nil || failed != nil || string(got) != swap.is {
			t.Errorf("%v: %q, %v, %v", swap, got, err, failed)
		}
	}
	if now, _ := s.Revision(t.Context()); now != saved {
		t.Errorf("revision %d after swaps, want %d still", now, saved)
	}
	if removed, err := s.Remove(t.Context(), "acme/a"); err != nil || removed != saved+1 {
		t.Errorf("revision %d after a removal, %v", removed, err)
	}
}

func TestWatchAgentsStreamsWhatIsAndWhatChanges(t *testing.T) {
	n := serve(t)
	if err := n.agents.RegisterBuiltin("mail", card("Mail"), "h:9", "secret"); err != nil {
		t.Fatal(err)
	}
	stream, err := n.registry.WatchAgents(as(t, "alice"), &meshv1.WatchAgentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(kind meshv1.WatchAgentsResponse_Kind, name string) {
		t.Helper()
		res, err := stream.Recv()
		if err != nil || res.GetKind() != kind || res.GetAgent().GetName() != name {
			t.Fatalf("next is %v, %v; want %v of %q", res, err, kind, name)
		}
	}
	expect(meshv1.WatchAgentsResponse_KIND_PUT, "mail")
	expect(meshv1.WatchAgentsResponse_KIND_SYNCED, "")
	if _, err := n.registry.RegisterAgent(as(t, "bob"), &meshv1.RegisterAgentRequest{Card: card("foreign"), Endpoint: "h:10"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.registry.RegisterAgent(as(t, "alice"), &meshv1.RegisterAgentRequest{Card: card("own")}); err != nil {
		t.Fatal(err)
	}
	expect(meshv1.WatchAgentsResponse_KIND_PUT, "own")
	n.agents.RemoveBuiltin("mail")
	expect(meshv1.WatchAgentsResponse_KIND_REMOVED, "mail")
}

func TestStreamsSendTheirHeadersAtOnce(t *testing.T) {
	n := serve(t)
	keep, err := n.registry.KeepAlive(as(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	// Nothing was sent in either direction yet.
	if md, err := keep.Header(); err != nil || md == nil {
		t.Errorf("KeepAlive: headers %v, %v", md, err)
	}
	agents, err := n.registry.WatchAgents(as(t, "alice"), &meshv1.WatchAgentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if md, err := agents.Header(); err != nil || md == nil {
		t.Errorf("WatchAgents: headers %v, %v", md, err)
	}
	skills, err := n.skills.WatchSkills(as(t, "alice"), &meshv1.WatchSkillsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if md, err := skills.Header(); err != nil || md == nil {
		t.Errorf("WatchSkills: headers %v, %v", md, err)
	}
}

// An agent at work has the roles of its user, and yet does not add or remove agents.
func TestTheRegistryIsNotChangedUnderAGrant(t *testing.T) {
	n := serve(t)
	_, err := n.registry.RegisterAgent(as(t, "worker"), &meshv1.RegisterAgentRequest{Card: card("x"), Shared: true})
	wantCode(t, err, mesh.Denied, "a credential of their own")
	if _, err := n.registry.RegisterAgent(as(t, "alice"), &meshv1.RegisterAgentRequest{Card: card("x")}); err != nil {
		t.Fatal(err)
	}
	_, err = n.registry.DeregisterAgent(as(t, "worker"), &meshv1.DeregisterAgentRequest{Name: "x"})
	wantCode(t, err, mesh.Denied)
	if _, err := n.registry.GetAgent(as(t, "worker"), &meshv1.GetAgentRequest{Name: "x"}); err != nil {
		t.Errorf("the agent cannot be read under a grant: %v", err)
	}
}

// part of T12: where an agent is, its owner knows, and who calls it; finding N4: so it is
// with what its card is warned of.
func TestWhereAgentsAreIsNotForEverybody(t *testing.T) {
	n := serve(t)
	odd := card("x")
	odd.Version = ""
	added, err := n.registry.RegisterAgent(as(t, "alice"), &meshv1.RegisterAgentRequest{Card: odd, Endpoint: "h:5"})
	if err != nil || len(added.GetAgent().GetWarnings()) == 0 {
		t.Fatalf("RegisterAgent = %v, %v; want a warning", added, err)
	}
	for who, sees := range map[string]bool{"alice": true, "worker": true, "root": false, "reader": false} {
		res, err := n.registry.GetAgent(as(t, who), &meshv1.GetAgentRequest{Name: "x"})
		list, err2 := n.registry.ListAgents(as(t, who), &meshv1.ListAgentsRequest{Query: "x"})
		if who == "root" { // of another tenant
			wantCode(t, err, mesh.NotFound)
			continue
		}
		if err != nil || err2 != nil || len(list.GetAgents()) == 0 {
			t.Fatal(err, err2, list)
		}
		for _, a := range []*meshv1.Agent{res.GetAgent(), list.GetAgents()[0]} {
			told := a.GetEndpoint() != "" && len(a.GetCard().GetSupportedInterfaces()) > 0 && slices.ContainsFunc(a.GetWarnings(),
				func(w *meshv1.CardWarning) bool { return w.GetField() == "card.version" && w.GetText() != "" })
			if told != sees || a.GetName() != "x" || a.GetOwner() != "alice" || !sees && (a.GetEndpoint() != "" || len(a.GetCard().GetSupportedInterfaces())+len(a.GetWarnings()) > 0) {
				t.Errorf("%s sees %v", who, a)
			}
		}
	}
}
