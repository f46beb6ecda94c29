package limit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill/skilltest"
)

// A clock stands still until it is advanced.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return start.Add(time.Duration(c.ns.Load())) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// A store is a State whose visits are counted, and that can be out of reach.
type store struct {
	skilltest.State
	reads, writes atomic.Int64
	down          atomic.Bool
}

func (s *store) Get(ctx context.Context, kind, key string) ([]byte, int64, error) {
	s.reads.Add(1)
	if s.down.Load() {
		return nil, 0, errors.New("no route to host")
	}
	return s.State.Get(ctx, kind, key)
}

func (s *store) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	s.writes.Add(1)
	if s.down.Load() {
		return 0, errors.New("no route to host")
	}
	return s.State.Put(ctx, kind, key, data, version)
}

func breaker(s limit.BreakerStore, c *clock) *limit.Breaker {
	return limit.NewBreaker(s, limit.BreakerOptions{Now: c.now})
}

// try makes a call that comes to o, and reports whether it was allowed.
func try(t testing.TB, b *limit.Breaker, name string, o limit.Outcome) bool {
	t.Helper()
	done, err := b.Allow(context.Background(), name)
	if err != nil {
		if want := "'" + name + "' is temporarily unavailable. Please try again later."; !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) != want {
			t.Errorf("refused with %v", err)
		}
		return false
	}
	done(context.Background(), o)
	return true
}

func fail(t testing.TB, b *limit.Breaker, name string, n int) {
	t.Helper()
	for i := range n {
		if !try(t, b, name, limit.Failure) {
			t.Fatalf("call %d was refused", i+1)
		}
	}
}

// S3-047 to S3-049, S3-116, S3-117: the story of a circuit.
func TestACircuitOpensAndIsProbedAndCloses(t *testing.T) {
	c, s := new(clock), new(store)
	b := breaker(s, c)
	fail(t, b, "mail.send", 4)
	try(t, b, "mail.send", limit.Unused) // says nothing
	fail(t, b, "mail.send", 1)
	for _, after := range []time.Duration{0, 30 * time.Second, 30*time.Second - 1} {
		if c.advance(after); try(t, b, "mail.send", limit.Success) {
			t.Fatalf("a call was allowed at %v", c.now())
		}
	}
	c.advance(1)
	done, err := b.Allow(context.Background(), "mail.send")
	if err != nil {
		t.Fatal(err)
	}
	if try(t, b, "mail.send", limit.Success) {
		t.Error("a second call was allowed beside the probe")
	}
	done(context.Background(), limit.Failure)
	if c.advance(time.Minute - 1); try(t, b, "mail.send", limit.Success) {
		t.Error("a failed probe did not open the circuit for another minute")
	}
	c.advance(1)
	if !try(t, b, "mail.send", limit.Success) {
		t.Fatal("there was no second probe")
	}
	fail(t, b, "mail.send", 4) // it counts from nothing again
	if !try(t, b, "mail.send", limit.Success) {
		t.Error("four failures opened the circuit")
	}
	fail(t, b, "mail.send", 4)
	if !try(t, b, "mail.send", limit.Success) {
		t.Error("failures are counted that were not in a row")
	}
}

// S3-051, S3-159: each skill has its own circuit, and so has each tenant, whose
// store is another one.
func TestACircuitIsOfOneSkillAndStore(t *testing.T) {
	c := new(clock)
	acme, other := breaker(new(store), c), breaker(new(store), c)
	fail(t, acme, "mail.send", 5)
	if try(t, acme, "mail.send", limit.Success) {
		t.Error("the circuit is closed")
	}
	if !try(t, acme, "mail.search", limit.Success) || !try(t, other, "mail.send", limit.Success) {
		t.Error("the circuit of another skill or tenant is open")
	}
}

// S3-050: a new Breaker over the same store goes on where the old one was.
func TestACircuitOutlivesItsProcess(t *testing.T) {
	c, s := new(clock), new(store)
	fail(t, breaker(s, c), "mail.send", 3)
	fail(t, breaker(s, c), "mail.send", 2)
	c.advance(59 * time.Second)
	if try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Fatal("the circuit was forgotten")
	}
	c.advance(time.Second)
	if _, err := breaker(s, c).Allow(context.Background(), "mail.send"); err != nil {
		t.Fatal("there was no probe:", err)
	}
	// That process died with its probe, whose place is free after a while.
	if c.advance(limit.DefaultProbe - 1); try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Error("a second probe was let through")
	}
	c.advance(1)
	if !try(t, breaker(s, c), "mail.send", limit.Success) || !try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Error("a lost probe keeps the circuit open")
	}
}

// What a probe says that was given up for lost counts no more.
func TestALostProbeHasNoSay(t *testing.T) {
	c, s := new(clock), new(store)
	b := breaker(s, c)
	fail(t, b, "mail.send", 5)
	c.advance(time.Minute)
	lost, err := b.Allow(context.Background(), "mail.send")
	if err != nil {
		t.Fatal(err)
	}
	c.advance(limit.DefaultProbe)
	second, err := breaker(s, c).Allow(context.Background(), "mail.send")
	if err != nil {
		t.Fatal(err)
	}
	lost(context.Background(), limit.Success)
	if try(t, b, "mail.send", limit.Success) {
		t.Error("a lost probe closed the circuit")
	}
	second(context.Background(), limit.Unused) // gives its place back
	if !try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Error("a probe that was not used keeps its place")
	}
}

// S3-049: of many processes that come at once, one has the probe.
func TestOneProbeIsLetThroughAmongAllProcesses(t *testing.T) {
	for round := range 20 {
		c, s := new(clock), new(store)
		fail(t, breaker(s, c), "mail.send", 5)
		c.advance(time.Minute)
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			b := breaker(s, c)
			for range 3 {
				all.Go(func() {
					if _, err := b.Allow(context.Background(), "mail.send"); err == nil {
						allowed.Add(1)
					}
				})
			}
		}
		all.Wait()
		if allowed.Load() != 1 {
			t.Fatalf("round %d: %d calls were allowed, want 1", round, allowed.Load())
		}
	}
}

// Failures that several processes report at once are all counted.
func TestNoFailureIsLostAmongProcesses(t *testing.T) {
	c, s := new(clock), new(store)
	var all sync.WaitGroup
	for range 5 {
		b := breaker(s, c)
		done, err := b.Allow(context.Background(), "mail.send")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { done(context.Background(), limit.Failure) })
	}
	all.Wait()
	if try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Error("five failures did not open the circuit")
	}
}

// A healthy skill costs a read per 2 s and no write; what other processes do
// is noticed that late.
func TestAHealthyCircuitHardlyAsksTheStore(t *testing.T) {
	c, s := new(clock), new(store)
	b := breaker(s, c)
	for range 1000 {
		try(t, b, "mail.send", limit.Success)
		c.advance(10 * time.Millisecond)
	}
	if reads, writes := s.reads.Load(), s.writes.Load(); reads > 6 || writes != 0 {
		t.Errorf("1000 calls in 10 s cost %d reads and %d writes", reads, writes)
	}
	try(t, b, "mail.send", limit.Success)
	fail(t, breaker(s, c), "mail.send", 5)
	if c.advance(limit.DefaultFresh); try(t, b, "mail.send", limit.Success) {
		t.Error("an open circuit is not noticed after 2 s")
	}
}

// A store that cannot be reached stops nobody. It is asked now and then, the
// operator is told, and circuits go on when it is back.
func TestAStoreOutOfReachAllowsCalls(t *testing.T) {
	var log bytes.Buffer
	c, s := new(clock), new(store)
	b := limit.NewBreaker(s, limit.BreakerOptions{Now: c.now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	fail(t, b, "mail.send", 5)
	s.down.Store(true)
	if c.advance(time.Second); try(t, b, "mail.send", limit.Success) {
		t.Error("what is known for sure was forgotten")
	}
	c.advance(time.Second)
	visits := s.reads.Load() + s.writes.Load()
	fail(t, b, "mail.send", 50)
	if n := s.reads.Load() + s.writes.Load() - visits; n > 1 {
		t.Errorf("the store was asked %d times", n)
	}
	if n := strings.Count(log.String(), "no route to host"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
	s.down.Store(false)
	if c.advance(limit.DefaultFresh); try(t, b, "mail.send", limit.Success) {
		t.Error("the circuit did not outlive its store's absence")
	}
	c.advance(time.Minute)
	s.down.Store(true)
	if !try(t, breaker(s, c), "mail.send", limit.Success) {
		t.Error("a probe that cannot be claimed was refused")
	}
}

// A caller that gave up says nothing about the store.
func TestACallerThatGaveUpDoesNotHideTheStore(t *testing.T) {
	c, s := new(clock), new(store)
	fail(t, breaker(s, c), "mail.send", 5)
	b := breaker(s, c)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Allow(gone, "mail.send"); err != nil {
		t.Errorf("its call, which comes to nothing, was refused: %v", err)
	}
	if try(t, b, "mail.send", limit.Success) {
		t.Error("the next caller was not refused")
	}
}

// A state that cannot be read is as none, and so is one of a clock that was
// wrong by more than a circuit is ever open.
func TestNonsenseInTheStoreDoesNotStopASkillForGood(t *testing.T) {
	for name, data := range map[string]string{
		"no JSON":         "open",
		"from the future": `{"state":"open","failures":5,"opened_at":"2036-01-01T00:00:00Z"}`,
		"a later kind":    `{"state":"ajar","failures":1}`,
	} {
		c, s := new(clock), new(store)
		if _, err := s.State.Put(context.Background(), "breaker", "mail.send", []byte(data), 0); err != nil {
			t.Fatal(err)
		}
		if b := breaker(s, c); !try(t, b, "mail.send", limit.Success) || !try(t, b, "mail.send", limit.Success) {
			t.Errorf("%s: the circuit is open", name)
		}
	}
}

// Whatever three processes do: calls pass while fewer than five failures in a
// row are known, none passes for a minute after the fifth, and then one at a
// time until one of them succeeds.
func TestACircuitGoesAsTheModelGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := new(clock), new(store)
		processes := make([]*limit.Breaker, 3)
		boot := func(i int) {
			processes[i] = limit.NewBreaker(s, limit.BreakerOptions{Now: c.now, Fresh: -1})
		}
		for i := range processes {
			boot(i)
		}
		m := model{}
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				b := processes[rapid.IntRange(0, 2).Draw(t, "process")]
				done, err := b.Allow(context.Background(), "x.y")
				if want := m.admit(c.now()); (err == nil) != want {
					t.Fatalf("allowed: %v, want %v; model %+v", err == nil, want, m)
				}
				if err == nil && rapid.IntRange(0, 4).Draw(t, "dies") > 0 {
					o := rapid.SampledFrom([]limit.Outcome{limit.Unused, limit.Success, limit.Failure, limit.Failure, limit.Failure}).Draw(t, "outcome")
					done(context.Background(), o)
					m.settle(o, c.now())
				}
			},
			"wait": func(t *rapid.T) {
				c.advance(time.Duration(rapid.SampledFrom([]int{1, 44, 45, 46, 59, 60, 61, 200}).Draw(t, "seconds")) * time.Second)
			},
			"restart": func(t *rapid.T) { boot(rapid.IntRange(0, 2).Draw(t, "process")) },
		})
	})
}

// A model is a circuit told by its history instead of by states.
type model struct {
	failures int
	refuses  time.Time // until when everything is refused, once five have failed
}

func (m *model) admit(now time.Time) bool {
	if m.failures < limit.DefaultFailures {
		return true
	}
	if now.Before(m.refuses) {
		return false
	}
	m.refuses = now.Add(limit.DefaultProbe) // unless the probe is settled before
	return true
}

func (m *model) settle(o limit.Outcome, now time.Time) {
	probing := m.failures >= limit.DefaultFailures
	switch {
	case o == limit.Success:
		m.failures = 0
	case o == limit.Failure && (probing || m.failures == limit.DefaultFailures-1):
		m.failures, m.refuses = limit.DefaultFailures, now.Add(limit.DefaultOpen)
	case o == limit.Failure:
		m.failures++
	case probing:
		m.refuses = now
	}
}

func BenchmarkBreaker(b *testing.B) {
	br := limit.NewBreaker(new(skilltest.State), limit.BreakerOptions{})
	ctx := context.Background()
	for b.Loop() {
		done, err := br.Allow(ctx, "mail.send")
		if err != nil {
			b.Fatal(err)
		}
		done(ctx, limit.Success)
	}
}

func ExampleBreaker() {
	ctx := context.Background()
	b := limit.NewBreaker(new(skilltest.State), limit.BreakerOptions{Failures: 2})
	for range 3 {
		done, err := b.Allow(ctx, "mail.send")
		if err != nil {
			fmt.Println(mesh.DetailOf(err))
			continue
		}
		done(ctx, limit.Failure)
		fmt.Println("failed")
	}
	// Output:
	// failed
	// failed
	// 'mail.send' is temporarily unavailable. Please try again later.
}
