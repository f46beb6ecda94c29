//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A block is statements of a file that run together, and the tests that run them.
type block struct {
	from, to int // line<<16 + column
	by       []trial
}

// A trial is a test that passes without a mutant.
type trial struct {
	pkg, name string
	took      time.Duration
}

// calibrate runs each test of the packages as the code is, alone: it must pass,
// its time is the measure of what a mutant may take, and what it covers of dirs
// are the mutants that it can notice.
func (r *runner) calibrate(ctx context.Context, dirs, pkgs []string, workers int) error {
	r.blocks = map[string]map[string]*block{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	packages := "./" + strings.Join(dirs, ",./")
	for i, pkg := range pkgs {
		binary := filepath.Join(r.temp, fmt.Sprintf("%d.test", i))
		out, ok := r.command(ctx, ".", "go", "test", "-c", "-trimpath", "-vet=off", "-coverpkg="+packages, "-o", binary, "./"+pkg)
		if ok {
			out, ok = r.command(ctx, pkg, binary, "-test.list", ".")
		}
		if !ok {
			return errors.Join(fmt.Errorf("%s: %s", pkg, out), g.Wait())
		}
		for _, name := range testNames.FindAllString(out, -1) {
			if !strings.HasPrefix(name, "TestInterop") {
				g.Go(func() error { return r.trial(ctx, pkg, name, binary) })
			}
		}
	}
	return g.Wait()
}

// trial runs one test and notes what it covers.
func (r *runner) trial(ctx context.Context, pkg, name, binary string) error {
	profile, begun := binary+name, time.Now()
	if out, ok := r.command(ctx, pkg, binary, "-test.run", "^"+name+"$", "-test.coverprofile", profile); !ok {
		return fmt.Errorf("without a mutant %s.%s fails:\n%s", pkg, name, out)
	}
	took := time.Since(begun)
	data, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	r.covered(trial{"./" + pkg, name, took}, string(data))
	return os.Remove(profile)
}

var (
	testNames = regexp.MustCompile(`(?m)^(Test|Fuzz|Example)\w*$`)
	profiled  = regexp.MustCompile(`(?m)^[^/\n]+/(.+):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)$`)
)

// covered notes what the test covers.
func (r *runner) covered(t trial, profile string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range profiled.FindAllStringSubmatch(profile, -1) {
		at := func(i int) int {
			line, _ := strconv.Atoi(m[i]) // digits, by the expression
			column, _ := strconv.Atoi(m[i+1])
			return line<<16 + column
		}
		file, place := strings.Clone(m[1]), strings.Join(m[2:6], ".")
		if r.blocks[file] == nil {
			r.blocks[file] = map[string]*block{}
		}
		b := r.blocks[file][place]
		if b == nil {
			b = &block{from: at(2), to: at(4)}
			r.blocks[file][place] = b
		}
		if m[6] != "0" {
			b.by = append(b.by, t)
		}
	}
}

// judges returns the tests that run what the mutant changes, its own package's
// first and then the quick ones: most mutants die at the first.
func (r *runner) judges(m *mutant) []suite {
	before := string(m.source[:m.from])
	at := (1+strings.Count(before, "\n"))<<16 + len(before) - strings.LastIndexByte(before, '\n')
	var here, all []trial
	found := false
	for _, b := range r.blocks[m.file] {
		all = append(all, b.by...)
		if b.from <= at && at <= b.to {
			here, found = append(here, b.by...), true
		}
	}
	if !found {
		here = all // what cases compare with is in no block
	}
	slices.SortFunc(here, func(a, b trial) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name)) })
	var out []suite
	for _, t := range slices.Compact(here) {
		if len(out) == 0 || out[len(out)-1].pkg != t.pkg {
			out = append(out, suite{pkg: t.pkg, patience: short})
		}
		s := &out[len(out)-1]
		s.tests, s.patience = append(s.tests, t.name), s.patience+3*t.took
	}
	rank := func(s suite) time.Duration {
		if s.pkg == "./"+path.Dir(m.file) {
			return 0
		}
		return s.patience
	}
	slices.SortFunc(out, func(a, b suite) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}
