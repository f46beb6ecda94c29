package registry

import (
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
)

const acme, globex = mesh.TenantID("acme"), mesh.TenantID("globex")

func TestAnAgentIsRoutedToAsLongAsItsLeaseStands(t *testing.T) {
	for name, running := range map[string]bool{"with Run": true, "without Run": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t, newNetwork(), nil)
				if running {
					start(t, r)
				}
				reg := register(t, r, principal(acme), "courier", "h:1")
				time.Sleep(9 * time.Second)
				if _, err := r.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10*time.Second - 1)
				if e, err := r.Resolve(acme, "courier"); err != nil || e.Endpoint != "h:1" {
					t.Fatalf("Resolve before the lease ended = %v, %v", e, err)
				}
				time.Sleep(1)
				_, err := r.Resolve(acme, "courier")
				wantCode(t, err, mesh.Unavailable, "courier", "has not renewed")
				if e, err := r.Get(acme, "courier"); err != nil || e.Live || e.Problem == "" || !e.Gone.Equal(time.Now().Add(-10*time.Second)) {
					t.Errorf("Get of a lapsed agent = %+v, %v; want it listed as not live since it was last heard of, with a problem", e, err)
				}
				if live := r.List(acme, Filter{Live: true}); len(live) != 0 {
					t.Errorf("lapsed agent is listed as live: %v", live)
				}
				time.Sleep(lapsedKept)
				_, err = r.Resolve(acme, "courier")
				wantCode(t, err, mesh.NotFound, "courier")
			})
		})
	}
}

func TestALapsedLeaseCanBeRenewedUntilTheNameIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newNetwork(), nil)
		first := register(t, r, principal(acme), "courier", "h:1")
		time.Sleep(11 * time.Second)
		expires, err := r.KeepAlive(principal(acme), "courier", first.LeaseID)
		if err != nil || !expires.Equal(time.Now().Add(10*time.Second)) {
			t.Fatalf("KeepAlive = %v, %v", expires, err)
		}
		if _, err := r.Resolve(acme, "courier"); err != nil {
			t.Fatalf("renewed agent is not live: %v", err)
		}
		time.Sleep(11 * time.Second)
		register(t, r, principal(acme), "courier", "h:2")
		_, err = r.KeepAlive(principal(acme), "courier", first.LeaseID)
		wantCode(t, err, mesh.NotFound, "register it again")
		err = r.Deregister(t.Context(), principal(acme), "courier", first.LeaseID, false)
		wantCode(t, err, mesh.NotFound)
		if e, err := r.Resolve(acme, "courier"); err != nil || e.Endpoint != "h:2" {
			t.Errorf("Resolve = %+v, %v; want the new agent, untouched by the old lease", e, err)
		}
	})
}

func TestLeaseBoundsAndDefaultHold(t *testing.T) {
	r := open(t, newNetwork(), nil)
	for lease, want := range map[time.Duration]time.Duration{0: DefaultLease, MinLease: MinLease, MaxLease: MaxLease} {
		reg, err := r.Register(t.Context(), principal(acme), Request{Card: card("courier"), Endpoint: "h:1", Lease: lease})
		if err != nil || reg.Lease != want || reg.Entry.Expires.Sub(reg.Entry.Registered).Round(time.Second) != want {
			t.Errorf("lease %v: granted %v until %v, %v", lease, reg.Lease, reg.Entry.Expires, err)
		}
	}
	for _, lease := range []time.Duration{MinLease - 1, MaxLease + 1, -time.Second} {
		_, err := r.Register(t.Context(), principal(acme), Request{Card: card("courier"), Endpoint: "h:1", Lease: lease})
		wantCode(t, err, mesh.Invalid, "lease", "5s to 10m0s")
	}
}

func TestAnAgentThatRefusesConnectionsIsNotRoutedToUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		r := open(t, n, nil)
		start(t, r)
		if err := r.RegisterBuiltin("mail", card("mail"), "h:1", "secret"); err != nil {
			t.Fatal(err)
		}
		e, err := r.Resolve(acme, "mail")
		if err != nil {
			t.Fatal(err)
		}
		n.kill("h:1")
		r.ReportDown(e, nil)
		_, err = r.Resolve(acme, "mail")
		wantCode(t, err, mesh.Unavailable, "mail", "does not answer at h:1")

		time.Sleep(time.Minute)
		// 1, 2, 4, 8 and 16 s apart.
		if got := n.probed("h:1"); got != 5 {
			t.Errorf("%d probes in the first minute, want 5 with growing distances", got)
		}
		n.revive("h:1")
		time.Sleep(maxBackoff)
		if _, err := r.Resolve(acme, "mail"); err != nil {
			t.Errorf("agent answers again and is not routed to: %v", err)
		}
		before := n.probed("h:1")
		time.Sleep(time.Hour)
		if n.probed("h:1") != before {
			t.Error("a live agent without a card URL is still being probed")
		}
	})
}

func TestAReportAboutAnAddressThatTheAgentHasLeftIsIgnored(t *testing.T) {
	r := open(t, newNetwork(), nil)
	reg := register(t, r, principal(acme), "courier", "h:1")
	if err := r.Deregister(t.Context(), principal(acme), "courier", reg.LeaseID, false); err != nil {
		t.Fatal(err)
	}
	register(t, r, principal(acme), "courier", "h:2")
	r.ReportDown(reg.Entry, nil)
	if _, err := r.Resolve(acme, "courier"); err != nil {
		t.Errorf("a stale report took the agent down: %v", err)
	}
}

func TestRenewingDoesNotMakeAnAgentLiveThatDoesNotAnswer(t *testing.T) {
	n := newNetwork()
	r := open(t, n, nil)
	reg := register(t, r, principal(acme), "courier", "h:1")
	r.ReportDown(reg.Entry, nil)
	if _, err := r.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resolve(acme, "courier")
	wantCode(t, err, mesh.Unavailable)
}

// Since when an agent does not answer is known until it does.
func TestAnAgentIsGoneSinceItWasFoundNotToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		r := open(t, n, nil)
		start(t, r)
		reg := register(t, r, principal(acme), "courier", "h:1")
		n.kill("h:1")
		since := time.Now()
		r.ReportDown(reg.Entry, nil)
		for range 2 {
			time.Sleep(3 * time.Second)
			e, err := r.Resolve(acme, "courier")
			if wantCode(t, err, mesh.Unavailable); !e.Gone.Equal(since) {
				t.Errorf("gone since %v, want %v", e.Gone, since)
			}
		}
		n.revive("h:1")
		time.Sleep(9 * time.Second)
		if _, err := r.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
			t.Fatal(err)
		}
		if e, err := r.Resolve(acme, "courier"); err != nil || !e.Gone.IsZero() {
			t.Errorf("back, and gone since %v: %v", e.Gone, err)
		}
	})
}
