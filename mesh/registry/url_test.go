package registry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

const wellKnown = "http://far:80/.well-known/agent-card.json"

func published(name, addr string) *a2apb.AgentCard {
	c := card(name)
	c.SupportedInterfaces = []*a2apb.AgentInterface{{Url: addr, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}
	return c
}

// A probe that may not go where a tenant's agent is refuses the registration and
// says why; the operator's agents are asked everywhere.
func TestAnAddressThatTheProbeMayNotReachIsRefused(t *testing.T) {
	l := rpctest.Listen(t)
	defer func() { _ = l.Close() }()
	at := l.Addr().String()
	refused := mesh.Errorf(mesh.Denied, "guard", "The host leads to this machine, which is not allowed")
	r, err := New(t.Context(), Options{Probe: GuardedDial(func(_ context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" || address != at {
			t.Errorf("it went to %s %s", network, address)
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: refused}
	})})
	if err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string]Request{
		"beside the card": {Card: card("spy"), Endpoint: at},
		"on the card":     {Card: published("spy", at)},
		"as a URL": {Card: func() *a2apb.AgentCard {
			c := card("spy")
			c.SupportedInterfaces = []*a2apb.AgentInterface{{Url: "http://" + at + "/rpc", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}}
			return c
		}()},
	} {
		_, err := r.Register(t.Context(), principal(acme), req)
		if wantCode(t, err, mesh.Invalid, "endpoint", at, "leads to this machine", "ask the operator"); len(r.List(acme, Filter{})) > 0 {
			t.Errorf("%s: it is registered", name)
		}
	}
	if _, err := r.Register(t.Context(), operator, Request{Card: card("own"), Endpoint: at, Shared: true}); err != nil {
		t.Errorf("the operator's: %v", err)
	}
}

func TestAnAgentAddedByURLOutlivesTheNodeAndIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNetwork(), newShelf()
		n.serve(wellKnown, published("Far Away", "far:90"))
		reg, err := open(t, n, s).Register(t.Context(), principal(acme), Request{CardURL: "far:80"})
		if err != nil || reg.LeaseID != "" || !reg.Entry.Live || reg.Entry.CardURL != wellKnown {
			t.Fatalf("Register = %+v, %v", reg, err)
		}
		time.Sleep(time.Hour)

		n.kill("far:90")
		r := open(t, n, s)
		_, err = r.Resolve(acme, "far-away")
		wantCode(t, err, mesh.Unavailable, "far-away", "since the node started")
		began := time.Now()
		if e, err := r.Get(acme, "far-away"); err != nil || !e.Gone.Equal(began) { // a turn waits for it from then on
			t.Errorf("before the first probe = %+v, %v", e, err)
		}
		start(t, r)
		synctest.Wait()
		_, err = r.Resolve(acme, "far-away")
		wantCode(t, err, mesh.Unavailable, "does not answer at far:90")

		n.revive("far:90")
		time.Sleep(maxBackoff)
		e, err := r.Resolve(acme, "far-away")
		if err != nil || e.Endpoint != "far:90" || !e.Registered.Equal(reg.Entry.Registered) || e.Card.GetName() != "Far Away" {
			t.Fatalf("Resolve = %+v, %v", e, err)
		}

		n.kill("far:90")
		time.Sleep(recheck)
		_, err = r.Resolve(acme, "far-away")
		wantCode(t, err, mesh.Unavailable)

		if err := r.Deregister(t.Context(), principal(acme), "far-away", "", false); err != nil {
			t.Fatal(err)
		}
		if len(s.all) != 0 {
			t.Errorf("removed agent is still kept: %v", s.all)
		}
	})
}

func TestANewCardAtTheURLIsTakenOverAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNetwork(), newShelf()
		n.serve(wellKnown, published("far", "far:90"))
		r := open(t, n, s)
		start(t, r)
		if _, err := r.Register(t.Context(), principal(acme), Request{CardURL: "http://far:80/"}); err != nil {
			t.Fatal(err)
		}
		n.serve(wellKnown, published("renamed", "far:91"))
		time.Sleep(recheck)
		synctest.Wait()
		if e, err := r.Resolve(acme, "far"); err != nil || e.Endpoint != "far:91" || e.Card.GetName() != "renamed" {
			t.Errorf("Resolve = %+v, %v; want the new card under the old name", e, err)
		}
		n.serve(wellKnown, &a2apb.AgentCard{Name: "broken"})
		time.Sleep(recheck)
		synctest.Wait()
		if e, err := open(t, n, s).Get(acme, "far"); err != nil || e.Endpoint != "far:91" {
			t.Errorf("kept registration = %+v, %v; want the last card that was valid", e, err)
		}
	})
}

// A card that nobody vouches for is not registered, however it comes, and does
// not take the place of one that was.
func TestACardIsTakenOnlyIfItIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.serve(wellKnown, published("far", "far:90"))
		verified := 0
		r, err := New(t.Context(), Options{Probe: n.probe, Fetch: n.fetch, Verify: func(_ context.Context, c *a2apb.AgentCard) error {
			verified++
			if c.GetName() == "forged" {
				return mesh.InvalidField("test", "card.signatures", "does not fit")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		start(t, r)
		_, err = r.Register(t.Context(), principal(acme), Request{Card: card("forged"), Endpoint: "far:90"})
		wantCode(t, err, mesh.Invalid, "does not fit")
		if _, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * recheck)
		if verified != 2 {
			t.Errorf("cards were verified %d times, want each of the two once", verified)
		}
		n.serve(wellKnown, published("forged", "evil:90"))
		time.Sleep(recheck)
		synctest.Wait()
		if e, err := r.Resolve(acme, "far"); err != nil || e.Endpoint != "far:90" || e.Card.GetName() != "far" {
			t.Errorf("Resolve = %+v, %v; want the card that was verified", e, err)
		}
	})
}

func TestWhatCannotBeFetchedOrKeptIsNotRegistered(t *testing.T) {
	n, s := newNetwork(), newShelf()
	r := open(t, n, s)
	_, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"})
	wantCode(t, err, mesh.Unavailable, wellKnown, "correct the URL")

	n.serve(wellKnown, published("far", "far:90"))
	s.fail = mesh.Errorf(mesh.Unavailable, "shelf", "The disk is full")
	_, err = r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"})
	wantCode(t, err, mesh.Unavailable, "disk is full")
	_, err = r.Get(acme, "far")
	wantCode(t, err, mesh.NotFound)

	s.fail = nil
	if _, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"}); err != nil {
		t.Fatal(err)
	}
	s.fail = errors.New("broken")
	if err := r.Deregister(t.Context(), principal(acme), "far", "", false); err == nil {
		t.Error("an agent that could not be forgotten was removed")
	}
	if _, err := r.Resolve(acme, "far"); err != nil {
		t.Errorf("failed removal took the agent away: %v", err)
	}
	if _, err := New(t.Context(), Options{Store: s}); err == nil {
		t.Error("New ignores that the store cannot be read")
	}
}

func TestADamagedRegistrationIsLeftOutAndTheOthersStay(t *testing.T) {
	n, s := newNetwork(), newShelf()
	n.serve(wellKnown, published("far", "far:90"))
	if _, err := open(t, n, s).Register(t.Context(), principal(acme), Request{CardURL: "far:80"}); err != nil {
		t.Fatal(err)
	}
	s.all["acme/x"] = []byte("{")
	s.all["acme/y"] = []byte(`{"name":"y","card":{"name":5}}`)
	s.all["acme/z"] = []byte(`{"name":"Z","card":{}}`)
	if list := open(t, n, s).List(acme, Filter{}); len(list) != 1 || list[0].Name != "far" {
		t.Errorf("List = %v, want only the one that is whole", list)
	}
}

func TestALeaseInPlaceOfAURLIsNotUndoneByARestart(t *testing.T) {
	n, s := newNetwork(), newShelf()
	n.serve(wellKnown, published("far", "far:90"))
	r := open(t, n, s)
	if _, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"}); err != nil {
		t.Fatal(err)
	}
	register(t, r, principal(acme), "far", "far:90")
	if len(s.all) != 0 {
		t.Errorf("the registration by URL is still kept: %v", s.all)
	}
}

func TestHTTPFetchReadsWhatAnyA2AServerPublishes(t *testing.T) {
	body, status := "", http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/.well-known/agent-card.json" {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	good, err := protojson.Marshal(published("far", strings.TrimPrefix(srv.URL, "http://")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		body   string
		status int
		code   mesh.Code
		says   string
	}{
		"not found": {"", http.StatusNotFound, mesh.Unavailable, "404"},
		"no JSON":   {"root:secret", http.StatusOK, mesh.Invalid, "is not the JSON of an A2A agent card"},
		"too long":  {strings.Repeat(" ", 4*MaxCard+1), http.StatusOK, mesh.Invalid, "longer"},
	} {
		body, status = tt.body, tt.status
		_, err := r.Register(t.Context(), principal(acme), Request{CardURL: srv.URL})
		if !mesh.IsCode(err, tt.code) || !strings.Contains(mesh.DetailOf(err), tt.says) {
			t.Errorf("%s: %v, want %v saying %q", name, err, tt.code, tt.says)
		}
		if strings.Contains(mesh.DetailOf(err), "root") {
			t.Errorf("%s: the caller is shown what the node read: %v", name, mesh.DetailOf(err))
		}
	}
	body, status = string(good), http.StatusOK
	// The test server takes the probe's connection, too.
	if reg, err := r.Register(t.Context(), principal(acme), Request{CardURL: srv.URL}); err != nil || !reg.Entry.Live {
		t.Errorf("Register = %+v, %v", reg, err)
	}
	srv.Close()
	_, err = r.Register(t.Context(), principal(acme), Request{CardURL: srv.URL})
	wantCode(t, err, mesh.Unavailable, "does not answer")
	http.DefaultClient.CloseIdleConnections()
}

func TestDialKnowsWhoListens(t *testing.T) {
	l := rpctest.Listen(t)
	e := Entry{Endpoint: l.Addr().String()}
	if err := Dial(t.Context(), e); err != nil {
		t.Errorf("Dial of a listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Dial(t.Context(), e); err == nil {
		t.Error("Dial of a closed port succeeds")
	}
}

func TestRunEndsItsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(t.Context(), Options{Probe: func(ctx context.Context, _ Entry) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if err := r.RegisterBuiltin(name, card(name), "h:1", "secret"); err != nil {
				t.Fatal(err)
			}
			e, _ := r.Get(acme, name)
			r.ReportDown(e, nil)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond) // into the first probes
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		// The bubble fails the test if Run left a goroutine.
	})
}
