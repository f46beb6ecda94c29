//go:build linux

package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// top is the folder of the module.
const top = "../../.."

var (
	rounds = flag.Int("rounds", 0, "how often everything is measured, in turns; 0 is a sample of the smallest sizes, which proves nothing about speed")
	base   = flag.String("base", "", "a revision to compare with, as 2836bd4")
	dir    = flag.String("dir", filepath.Join(top, ".build"), "where folders of data are made, on a disk")
	page   = flag.String("page", "", "a page whose table is replaced by what is measured")
)

// A scale is how much is measured.
type scale struct {
	sizes  []int         // chunks of an answer
	crowd  int           // who ask at a time
	lasts  time.Duration // about, of each case of a round
	alone  int           // calls of which none waits for another
	idle   int           // streams in which nothing happens
	tasks  int           // of a tenant that lists them
	agents int           // of a tenant that has many
	talks  int           // conversations that go on beside what is measured
	others bool          // what has to be fetched or built
}

var (
	sample = scale{sizes: []int{1, 10}, crowd: 4, alone: 3, idle: 20, tasks: 60, agents: 20, talks: 10}
	full   = scale{sizes: []int{1, 10, 100, 800}, crowd: 16, lasts: 300 * time.Millisecond, alone: 40, idle: 1000, tasks: 1000, agents: 1000, talks: 500, others: true}
)

// A round is what was measured once of everything: each figure by its name.
type round map[string]float64

// TestBench measures a mesh against what there is to compare with. Every answer
// that is timed is checked, and every figure must be there. S4-047, S4-048: how long users wait
// for the first word of main where it asks others, and at a handoff, beside what they should wait
// for at most; it fails when that is missed, but for a sample.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	b := &bench{scale: sample, plan: map[string]int{}, bins: map[string]string{}, stores: map[string]string{}, idleTasks: map[string][]string{}}
	n := 1
	if *rounds > 0 {
		b.scale, n = full, *rounds
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	if err := b.prepare(ctx, t); err != nil {
		t.Fatal(err)
	}
	var all []round
	for i := range n + 1 {
		r := round{}
		if err := b.measure(ctx, r, i); err != nil {
			t.Fatal(err)
		}
		if *rounds == 0 {
			all = append(all, r)
			break
		}
		if i > 0 { // the first one warms up
			all = append(all, r)
			turn, _ := r.of("mesh grpc 1 crowd cpu", "hop grpc 1 crowd cpu")
			fmt.Printf("bench: round %d of %d: a turn is %.1f hops, a fdatasync %.0f µs; others have %.0f %% of the processors\n", i, n, turn, r["fdatasync"], r["others"])
		}
	}
	text := b.report(all)
	fmt.Print(text)
	for _, wrong := range b.faults(all) {
		t.Error(wrong)
	}
	if *page != "" {
		if err := replaceTable(*page, text); err != nil {
			t.Error(err)
		}
	}
}

// A bench is everything that takes part.
type bench struct {
	scale
	cores cores
	dir   string
	sync  *syncer
	plan  map[string]int // calls of a case, as its first round found
	notes []string       // what is not measured, and why

	running                  []*process
	mesh, base, hop, sdk, js *server
	agent, card              string              // where the agent answers, and where its card is
	bins, stores             map[string]string   // programs, and their stores' benchmarks
	idleTasks                map[string][]string // that wait for their users
	uncounted                bool                // the kernel does not tell of fdatasyncs
	crowded                  bool                // the tenant has its many agents
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// measure measures everything once. Those that are compared take turns, and who
// is first changes from round to round.
func (b *bench) measure(ctx context.Context, r round, i int) error {
	before, err := used(b.running)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, round, int) error{
		b.answers, b.streams, b.foreigners, b.moments, b.handoffs, b.audiences, b.errands, b.orchestration, b.firstWords, b.reads, b.crowdedTenant, b.syncs, b.adoptions, b.idles, b.store,
	} {
		if err := b.syncTime(r); err != nil {
			return err
		}
		if err := part(ctx, r, i); err != nil {
			return err
		}
	}
	after, err := used(b.running)
	r["others"] = 100 * after.others(before)
	return err
}

// servers are those that are there, in this round's order.
func (b *bench) servers(i int, all ...*server) []*server {
	all = slices.DeleteFunc(all, func(s *server) bool { return s == nil })
	if i%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// answers measures whole answers over gRPC.
func (b *bench) answers(ctx context.Context, r round, i int) error {
	for _, chunks := range b.sizes {
		for _, s := range b.servers(i, b.mesh, b.hop, b.base, b.sdk, b.js) {
			foreign := s == b.sdk || s == b.js
			for _, who := range []struct {
				name    string
				workers int
			}{{"crowd", b.crowd}, {"alone", 1}} {
				name := fmt.Sprintf("%s grpc %d %s", s.name, chunks, who.name)
				workers := who.workers
				if foreign && chunks > 100 {
					if workers == 1 {
						continue
					}
					workers = 1 // an answer takes seconds, and costs no more among others
				}
				if err := b.timed(r, name, s, workers, func(int) error { return s.doors["grpc"].whole(ctx, chunks) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// streams measures whole answers as server-sent events.
func (b *bench) streams(ctx context.Context, r round, i int) error {
	for _, chunks := range b.sizes {
		for _, s := range b.servers(i, b.mesh, b.base) {
			for _, kind := range []string{"rest", "jsonrpc"} {
				for who, workers := range map[string]int{"crowd": b.crowd, "alone": 1} {
					name := fmt.Sprintf("%s %s %d %s", s.name, kind, chunks, who)
					if err := b.timed(r, name, s, workers, func(int) error { return s.doors[kind].whole(ctx, chunks) }); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// foreigners measures answers of agents of others, in each binding, and of one of ours in a
// process of its own.
func (b *bench) foreigners(ctx context.Context, r round, i int) error {
	chunks := b.sizes[len(b.sizes)-1]
	agents := []string{"own", "bench", "bench-rest", "bench-jsonrpc"}
	if i%2 == 1 {
		slices.Reverse(agents)
	}
	for _, agent := range agents {
		if err := b.timed(r, "mesh of "+agent, b.mesh, b.crowd, func(int) error {
			return b.mesh.doors["grpc"].wholeOf(as(ctx, "default", agent), question{chunks: chunks, size: piece})
		}); err != nil {
			return err
		}
	}
	return nil
}

// moments measures a turn, a handoff and a chunk when nothing else happens, each
// beside the same through a hop and beside one fdatasync: they take turns call by
// call, because a disk that others use too is not the same a second later.
func (b *bench) moments(ctx context.Context, r round, i int) error {
	type moment struct {
		name string
		do   func() (float64, error)
	}
	turn := func(d door) func() (float64, error) {
		return func() (float64, error) {
			begin := time.Now()
			err := d.whole(ctx, 1)
			return us(time.Since(begin)), err
		}
	}
	hop := b.hop.doors["grpc"]
	all := []moment{{"fdatasync beside", b.fewSyncs}, {"hop turn", turn(hop)}, {"hop open", func() (float64, error) { return hop.open(ctx) }}}
	for _, s := range b.servers(i, b.mesh, b.base) {
		d := s.doors["grpc"]
		all = append(all, moment{s.name + " turn", turn(d)}, moment{s.name + " gap", func() (float64, error) { return d.gap(ctx) }},
			moment{s.name + " open", func() (float64, error) { return d.open(ctx) }})
	}
	took := map[string][]float64{}
	for range b.alone {
		for _, one := range all {
			v, err := one.do()
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			took[one.name] = append(took[one.name], v)
		}
	}
	for range 4 {
		for _, s := range b.servers(i, b.mesh, b.hop, b.base) {
			v, err := s.doors["grpc"].latencies(ctx, b.alone/2)
			if err != nil {
				return err
			}
			took[s.name+" event"] = append(took[s.name+" event"], v...)
		}
		if err := b.syncTime(r); err != nil {
			return err
		}
	}
	for name, values := range took {
		r[name] = median(values)
	}
	return nil
}

// fewSyncs is what one fdatasync takes among some that follow each other, as those
// of a turn do: the first after a pause takes longer, and would be a unit that
// makes all else look small.
func (b *bench) fewSyncs() (float64, error) {
	took := make([]float64, 7)
	for i := range took {
		var err error
		if took[i], err = b.sync.once(); err != nil {
			return 0, err
		}
	}
	return median(took), nil
}

// errands measures errands of agents that are built in. Each round has a tenant of
// its own, so that no errand finds what another one left.
func (b *bench) errands(ctx context.Context, r round, i int) error {
	for _, s := range b.servers(i, b.mesh, b.base) {
		for who, workers := range map[string]int{"alone": 1, "crowd": b.crowd} {
			tenant := fmt.Sprintf("errands-%d-%s", i, who)
			if err := overdue(ctx, s.conn, tenant); err != nil {
				return err
			}
			if err := b.timed(r, s.name+" errand "+who, s, workers, func(int) error { return errand(ctx, s.conn, tenant) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncs counts what a mesh asks of its disk.
func (b *bench) syncs(ctx context.Context, r round, i int) error {
	for _, s := range b.servers(i, b.mesh, b.base) {
		tenant := fmt.Sprintf("errands-%d-syncs", i)
		if err := overdue(ctx, s.conn, tenant); err != nil {
			return err
		}
		turn := func(int) error { return s.doors["grpc"].whole(ctx, 1) }
		for _, c := range []counted{
			{"turn alone", 1, b.alone, turn},
			{"turn crowd", b.crowd, 20 * b.crowd, turn},
			{"errand alone", 1, max(1, b.alone/10), func(int) error { return errand(ctx, s.conn, tenant) }},
		} {
			if err := b.count(r, s, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// counted is work whose calls for the disk are counted.
type counted struct {
	name       string
	workers, n int
	do         func(int) error
}

func (b *bench) count(r round, s *server, c counted) error {
	counter, err := s.countSyncs()
	if err != nil {
		if !b.uncounted {
			b.uncounted = true
			b.note("fdatasyncs are not counted: %v", err)
		}
		return nil
	}
	_, err = load(c.workers, c.n, c.do)
	got := counter.stop()
	if err == nil && got["fdatasync"] == 0 && c.workers == 1 {
		err = errors.New("no fdatasync was seen: what the mesh promises is kept in another way, which this does not count")
	}
	for call, n := range got {
		r[fmt.Sprintf("%s %ss %s", s.name, call, c.name)] = n / float64(c.n)
	}
	return err
}

func (b *bench) syncTime(r round) error {
	var took []float64
	for range b.alone {
		one, err := b.sync.once()
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	// The mean of the medians between the parts of a round.
	n := r["fdatasync n"]
	r["fdatasync"] = (r["fdatasync"]*n + median(took)) / (n + 1)
	r["fdatasync n"] = n + 1
	return nil
}

// timed measures calls of a server: the processor time that the server's process
// spent on each, how many it did in a second, and how long the one in the middle
// took. As many are made as take a while, by what they took in the first round,
// when they are made twice: what is compiled or allocated at first is not measured.
func (b *bench) timed(r round, name string, s *server, workers int, do func(int) error) error {
	n, known := b.plan[name]
	if !known {
		first, err := b.calls(r, name, s, workers, workers, do)
		if err != nil {
			return err
		}
		b.plan[name] = b.fit(workers, workers, first)
		if first > b.lasts {
			return nil
		}
		n = b.plan[name]
	}
	wall, err := b.calls(r, name, s, workers, n, do)
	if !known {
		b.plan[name] = b.fit(n, workers, wall)
	}
	return err
}

// fit is how many calls last as they should, when n took so long.
func (b *bench) fit(n, workers int, took time.Duration) int {
	return max(workers, min(1000*workers, int(float64(b.lasts)/float64(took)*float64(n))))
}

func (b *bench) calls(r round, name string, s *server, workers, n int, do func(int) error) (time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	took, err := load(workers, n, do)
	wall := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	after, err := s.cpu()
	r[name+" cpu"], r[name+" rate"], r[name+" p50"] = us(after-before)/float64(n), float64(n)/wall.Seconds(), median(took)
	return wall, err
}

// replaceTable puts the text between the marks of the page.
func replaceTable(name, text string) error {
	const begin, end = "<!-- measured -->\n", "<!-- end of measured -->\n"
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks of a table", name)
	}
	return os.WriteFile(name, []byte(head+begin+"\n"+text+"\n"+end+tail), 0o644)
}
