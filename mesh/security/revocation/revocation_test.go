package revocation_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/security/revocation"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, kv *state.KV, shared bool) *revocation.List {
	t.Helper()
	l, err := revocation.Open(t.Context(), kv, shared, alarm.New(slog.New(slog.DiscardHandler), nil))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWhatWasIssuedBeforeDoesNotCount(t *testing.T) {
	kv := state.New(mem.Open())
	l := open(t, kv, false)
	now := time.Now()
	for _, r := range []struct {
		user     string
		operator bool
	}{{"ann", false}, {"a/b", true}, {"root", true}, {"root", false}} {
		if err := l.Revoke(t.Context(), "acme", r.user, r.operator, now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	start := now.Add(-4 * time.Minute)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes)*time.Minute + time.Second) }
	for name, l := range map[string]*revocation.List{"at once": l, "after a restart": open(t, kv, false)} {
		for what, tt := range map[string]struct {
			tenant   mesh.TenantID
			user     string
			operator bool
			issued   time.Time
			revoked  bool
		}{
			"issued before":              {"acme", "ann", false, at(-1), true},
			"issued then":                {"acme", "ann", false, start, true},
			"nobody knows when":          {"acme", "ann", false, time.Time{}, true},
			"issued later":               {"acme", "ann", false, at(0), false},
			"an operator's, by others":   {"acme", "ann", true, at(-1), false},
			"an operator's, by one":      {"acme", "root", true, at(1), true},
			"and later by others":        {"acme", "root", true, at(2), false},
			"that one's, as a user":      {"acme", "root", false, at(2), true},
			"a name with a slash":        {"acme", "a/b", false, at(0), true},
			"another user's":             {"acme", "bob", false, at(-1), false},
			"of a user elsewhere":        {"umbrella", "ann", false, at(-1), false},
			"of a part of a user's name": {"acme", "a", false, at(-1), false},
		} {
			if _, revoked := l.Of(tt.tenant, tt.user, tt.operator, tt.issued); revoked != tt.revoked {
				t.Errorf("%s, %s: %v", what, name, revoked)
			}
		}
		if !l.Any("acme", "ann") || l.Any("acme", "bob") {
			t.Errorf("%s: any", name)
		}
	}
}

// On a store of several nodes, what one revokes the others know soon.
func TestOtherNodesKnow(t *testing.T) {
	kv := state.New(mem.Open())
	one, other := open(t, kv, true), open(t, kv, true)
	ctx, stop := context.WithCancel(t.Context())
	known := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- other.Run(ctx, func() {
			if other.Any("acme", "ann") {
				select {
				case known <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}()
	if err := one.Revoke(t.Context(), "acme", "ann", false, time.Now()); err != nil {
		t.Fatal(err)
	}
	<-known
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A tenant's admins do not fill the store, or the memory, of others.
func TestATenantRevokesSoMany(t *testing.T) {
	l := open(t, state.New(mem.Open()), false)
	for i := range 10_000 {
		if err := l.Revoke(t.Context(), "acme", fmt.Sprint("user-", i), false, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Revoke(t.Context(), "acme", "one-more", false, time.Now()); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	for _, again := range []error{l.Revoke(t.Context(), "acme", "user-7", false, time.Now()), l.Revoke(t.Context(), "umbrella", "one", false, time.Now())} {
		if again != nil {
			t.Error(again)
		}
	}
}

// Who is being erased is that until somebody says otherwise, also after a restart, and whatever
// is revoked meanwhile; nothing is kept of who is not any more and was never revoked.
func TestWhoIsBeingErasedIsThatUntilItIsOver(t *testing.T) {
	kv := state.New(mem.Open())
	l := open(t, kv, false)
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := func(user string, since time.Time) {
		t.Helper()
		if err := l.SetErasing(t.Context(), "acme", user, since); err != nil {
			t.Fatal(err)
		}
	}
	set("ann", begun)
	set("bob", begun)
	set("ann", begun.Add(time.Hour)) // again
	if err := l.Revoke(t.Context(), "acme", "ann", false, begun.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for user, want := range map[string]bool{"ann": true, "bob": true, "eve": false} {
			if at, is := l.Erasing("acme", user); is != want || is && !at.Equal(begun) {
				t.Errorf("%s is being erased since %v, %v, want %v", user, at, is, want)
			}
		}
		if _, is := l.Erasing("rival", "ann"); is {
			t.Error("in another tenant too")
		}
		l = open(t, kv, false) // the next process
	}
	set("ann", time.Time{})
	set("bob", time.Time{})
	set("eve", time.Time{})
	for range 2 {
		_, revoked := l.Of("acme", "ann", false, begun)
		if _, is := l.Erasing("acme", "ann"); is || !revoked || !l.Any("acme", "ann") || l.Any("acme", "bob") || l.Any("acme", "eve") {
			t.Errorf("ann is erased %v, revoked %v; of bob there is %v", is, revoked, l.Any("acme", "bob"))
		}
		l = open(t, kv, false)
	}
}
