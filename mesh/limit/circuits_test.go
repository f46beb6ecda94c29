package limit_test

import (
	"context"
	"testing"
	"time"

	"agentmesh/mesh/limit"
)

// What an operator is told of a circuit is what calls meet: from NextProbe on one
// is let through.
func TestACircuitIsShownAsCallsMeetIt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		data    string
		state   string
		in      time.Duration // until the next probe
		healthy bool
	}{
		"nothing":           {"", "closed", 0, true},
		"failures":          {`{"state":"closed","failures":2}`, "closed", 0, false},
		"fewer than none":   {`{"failures":-2}`, "closed", 0, true},
		"a later kind":      {`{"state":"ajar","failures":1}`, "closed", 0, false},
		"open":              {`{"state":"open","failures":5,"opened_at":"2026-03-01T11:59:30Z"}`, "open", 30 * time.Second, false},
		"open for long":     {`{"state":"open","failures":5,"opened_at":"2026-03-01T10:00:00Z"}`, "open", -119 * time.Minute, false},
		"from the future":   {`{"state":"open","failures":5,"opened_at":"2036-01-01T00:00:00Z"}`, "open", 0, false},
		"with a probe":      {`{"state":"half_open","failures":5,"opened_at":"2026-03-01T11:58:30Z","probe_until":"2026-03-01T12:00:15Z"}`, "half_open", 15 * time.Second, false},
		"with no such time": {`{"state":"half_open","probe_until":"2036-01-01T00:00:00Z"}`, "half_open", 0, false},
	} {
		got := limit.ReadCircuit("x.y", []byte(tt.data), now)
		if got.Name != "x.y" || got.State != tt.state || got.Failures < 0 || got.Healthy() != tt.healthy {
			t.Errorf("%s: %+v", name, got)
		}
		if closed := tt.state == "closed"; closed != got.NextProbe.IsZero() || !closed && got.NextProbe.Sub(now) != tt.in {
			t.Errorf("%s: the next probe is %v from now, want %v", name, got.NextProbe.Sub(now), tt.in)
		}
	}
}

// A circuit that is reset lets calls through at once, in every process, and the
// probe that was under way closes or opens nothing any more.
func TestAProbeFromBeforeAResetSaysNothing(t *testing.T) {
	ctx, c, s := context.Background(), new(clock), new(store)
	b := breaker(s, c)
	fail(t, b, "mail.send", 5)
	c.advance(time.Minute)
	probe, err := b.Allow(ctx, "mail.send")
	if err != nil {
		t.Fatal(err)
	}
	before, err := limit.ResetCircuit(ctx, s, "mail.send", c.now())
	if err != nil || before.State != "half_open" || before.Failures != 5 {
		t.Fatalf("ResetCircuit = %+v, %v", before, err)
	}
	probe(ctx, limit.Failure)
	other := breaker(s, c)
	for range limit.DefaultFailures - 1 {
		if !try(t, other, "mail.send", limit.Failure) {
			t.Fatal("the circuit is open again")
		}
	}
	if again, err := limit.ResetCircuit(ctx, s, "mail.send", c.now()); err != nil || again.Failures != limit.DefaultFailures-1 {
		t.Errorf("ResetCircuit = %+v, %v", again, err)
	}
	if healthy, err := limit.ResetCircuit(ctx, s, "mail.send", c.now()); err != nil || !healthy.Healthy() {
		t.Errorf("a healthy circuit was %+v, %v", healthy, err)
	}
	s.down.Store(true)
	if _, err := limit.ResetCircuit(ctx, s, "mail.send", c.now()); err == nil {
		t.Error("it was reset without its store")
	}
}

// Calls from before a restart fill the window as those after it.
func TestCallsFromBeforeARestartCount(t *testing.T) {
	now := time.Now()
	w := limit.NewWindows(limit.Budgets{UserCalls: 3}, 10)
	if !w.Limits() || w.Period() != limit.DefaultWindow {
		t.Errorf("Limits %v, Period %v", w.Limits(), w.Period())
	}
	w.Recall("ann", now.Add(-4*time.Minute))
	w.Recall("ann", now.Add(-time.Hour)) // has left the window
	w.Recall("ann", now.Add(-time.Minute))
	if trip := w.Take("ann", now); trip != nil {
		t.Fatalf("the third call: %v", trip.Detail())
	}
	trip := w.Take("ann", now)
	if trip == nil || trip.Used != 3 || trip.Free.Sub(now) != time.Minute+time.Millisecond {
		t.Errorf("the fourth call: %+v", trip)
	}
	if w.Take("bob", now) != nil {
		t.Error("another caller's calls count")
	}
	none := limit.NewWindows(limit.Budgets{}, 10)
	none.Recall("ann", now)
	if none.Limits() || none.Take("ann", now) != nil {
		t.Error("there is a limit where none was set")
	}
}
