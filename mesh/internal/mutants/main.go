//go:build unix

// Command mutants changes the product code in small ways, one at a time, and
// sees whether the tests notice. It has two kinds of changes: those of
// testdata/guarantees.yaml, each of which breaks a promise of docs/guarantees.md
// and must be noticed by the tests that prove it; and a sample of all that its
// operators make of some packages, of which the survivors are shown.
//
// It changes nothing in the tree: go test -overlay reads the changed file from
// elsewhere. Equal seeds choose equal samples of an equal tree. It knows no
// types: what does not compile is thrown away and does not count. A sampled mutant
// is tried by the tests that run what it changes, and by no others.
//
//	mutants [-named] [-n 300] [-seed 1] [-limit 60m] [-with mesh/node,mesh/api] mesh/thread mesh/turn
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "-limited" {
		fmt.Fprintln(os.Stderr, limited(os.Args[2:])) // it returns only if it fails
		os.Exit(1)
	}
	c := config{seed: uint64(time.Now().UnixNano())}
	flag.BoolVar(&c.named, "named", false, "run those of the guarantees first; one that survives fails the run")
	flag.StringVar(&c.match, "match", "", "of the named ones, only those whose guarantee and words contain this")
	flag.IntVar(&c.n, "n", 300, "how many to sample of the packages")
	flag.Uint64Var(&c.seed, "seed", c.seed, "chooses the sample")
	flag.DurationVar(&c.limit, "limit", time.Hour, "how long all may take")
	flag.IntVar(&c.workers, "workers", 2, "how many at a time")
	flag.StringVar(&c.root, "root", ".", "the module")
	more := flag.String("with", "", "packages whose tests are run too, with commas")
	flag.Parse()
	c.dirs = flag.Args()
	if *more != "" {
		c.more = strings.Split(*more, ",")
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type config struct {
	root       string
	named      bool
	match      string
	quick      bool // of the named ones, those that do not die by hanging
	only       int  // of the named ones, a sample; 0 is all
	n          int
	seed       uint64
	limit      time.Duration
	workers    int
	dirs, more []string
}

const guarantees = "mesh/internal/mutants/testdata/guarantees.yaml"

var errSurvived = errors.New("mutants of the guarantees survived")

func (c config) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	root, err := filepath.Abs(c.root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // what is left there hurts nobody
	r := &runner{root: root, temp: temp, self: self}
	fmt.Fprintf(os.Stdout, "mutants: seed %d\n", c.seed)
	chance := rand.New(rand.NewPCG(c.seed, 0)) //nolint:gosec // a sample that can be had again
	if c.named {
		if err := c.guarantees(ctx, r, chance); err != nil {
			return err
		}
	}
	if len(c.dirs) == 0 || c.n == 0 {
		return nil
	}
	return c.sample(ctx, r, chance)
}

// guarantees runs the named mutants, or some of them.
func (c config) guarantees(ctx context.Context, r *runner, chance *rand.Rand) error {
	all, err := named(r.root, filepath.Join(r.root, guarantees))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.what, c.match) })
	if c.quick {
		all = slices.DeleteFunc(all, func(m mutant) bool { return m.hangs })
	}
	if c.only > 0 {
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(c.only, len(all))]
	}
	t := c.each(ctx, r, all, len(all), func(m *mutant) []suite { return m.by })
	fmt.Fprintf(os.Stdout, "guarantees: %v\n", t)
	if t.killed.Load() < int64(len(all)) {
		return errors.Join(append(t.errs, errSurvived)...)
	}
	return nil
}

// sample runs some of all mutants of the packages.
func (c config) sample(ctx context.Context, r *runner, chance *rand.Rand) error {
	fmt.Fprintf(os.Stdout, "sample: what tests cover\n")
	if err := r.calibrate(ctx, c.dirs, append(slices.Clone(c.dirs), c.more...), c.workers); err != nil {
		return err
	}
	var all []mutant
	for _, dir := range c.dirs {
		found, err := mutantsOf(r.root, dir)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Fprintf(os.Stdout, "sample: %d of %d mutants\n", min(c.n, len(all)), len(all))
	t := c.each(ctx, r, all, c.n, r.judges)
	fmt.Fprintf(os.Stdout, "sample: %v\n", t)
	return errors.Join(t.errs...)
}

// A tally counts verdicts.
type tally struct {
	killed, survived, invalid, unknown atomic.Int64
	mu                                 sync.Mutex
	errs                               []error
}

func (t *tally) String() string {
	return fmt.Sprintf("%d killed, %d survived, %d without a verdict (%d did not compile)",
		t.killed.Load(), t.survived.Load(), t.unknown.Load(), t.invalid.Load())
}

// each tests mutants until want of them have a verdict, and shows survivors.
func (c config) each(ctx context.Context, r *runner, all []mutant, want int, suites func(*mutant) []suite) *tally {
	t := new(tally)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= len(all) || t.killed.Load()+t.survived.Load() >= int64(want) {
					return
				}
				t.judge(ctx, r, i, &all[i], suites(&all[i]))
			}
		})
	}
	wg.Wait()
	return t
}

func (t *tally) judge(ctx context.Context, r *runner, i int, m *mutant, suites []suite) {
	begun := time.Now()
	v, by, err := r.test(ctx, i, m, suites)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", m.place(), err))
	}
	took := time.Since(begun).Round(time.Second / 10)
	switch v {
	case killed:
		t.killed.Add(1)
		fmt.Fprintf(os.Stdout, "killed   %s: %s, by %s (%v)\n", m.place(), m.what, by, took)
	case survived:
		t.survived.Add(1)
		fmt.Fprintf(os.Stdout, "SURVIVED %s: %s (%v)\n%s", m.place(), m.what, took, m.diff())
	case invalid:
		t.invalid.Add(1)
		if m.by != nil {
			fmt.Fprintf(os.Stdout, "INVALID  %s: %s does not compile\n", m.place(), m.what)
		}
	default:
		t.unknown.Add(1)
	}
}
