// Package statetest is the conformance suite of state.Store: what every driver
// must do, tested through state.KV as callers see it.
//
// It does not test what survives a restart; drivers that promise that have
// tests of their own.
package statetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Run tests the stores that open returns. Each call must yield an empty one;
// open registers its own cleanup with t.
func Run(t *testing.T, open func(t *testing.T) state.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *state.KV)
	}{
		{"a value is read as it was written", testRoundTrip},
		{"versions begin at one and grow by one", testVersions},
		{"a writer who knows another version loses", testConflict},
		{"what does not exist is not found", testNotFound},
		{"a value that was made anew has version one", testAnew},
		{"one of a hundred writers of the same version wins", testOneWins},
		{"counters that many increase lose nothing", testCounter},
		{"a list has what its page asks for, in order", testList},
		{"pages of a list add up to it", testPages},
		{"tenants and kinds do not see each other", testApart},
		{"a user is erased in all kinds, and nobody else", testErase},
		{"bytes are copied", testCopied},
		{"a context that ended does nothing", testEnded},
		{"random changes leave what a map would hold", testModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, state.New(open(t)))
		})
	}
}

func put(t *testing.T, kv *state.KV, k state.Key, data string, version int64) int64 {
	t.Helper()
	v, err := kv.Put(t.Context(), k, []byte(data), version)
	if err != nil {
		t.Fatalf("put %v: %v", k, err)
	}
	return v
}

func wantCode(t *testing.T, err error, want mesh.Code) {
	t.Helper()
	if !mesh.IsCode(err, want) {
		t.Errorf("got %v, want code %v", err, want)
	} else if mesh.DetailOf(err) == "" && want != mesh.Canceled {
		t.Errorf("%v has no detail for the user", err)
	}
}

var key = state.Key{Tenant: "acme", Kind: "tasks", Name: "one"}

func testRoundTrip(t *testing.T, kv *state.KV) {
	for name, data := range map[string]string{
		"text": "hello", "nothing": "", "binary": "\x00\xff\x00", "most": strings.Repeat("x", state.MaxData),
		"Ünïcode/with slash": "y", strings.Repeat("n", state.MaxName): "z",
	} {
		k := state.Key{Tenant: "acme", Kind: "tasks", Name: name}
		put(t, kv, k, data, 0)
		v, err := kv.Get(t.Context(), k)
		if err != nil || string(v.Data) != data || v.Version != 1 {
			t.Errorf("%.20q: got %d bytes at version %d, %v", name, len(v.Data), v.Version, err)
		}
	}
}

func testVersions(t *testing.T, kv *state.KV) {
	var got []int64
	for _, expect := range []int64{0, 1, state.AnyVersion, 3} {
		got = append(got, put(t, kv, key, "x", expect))
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, got); diff != "" {
		t.Error(diff)
	}
	if v := put(t, kv, state.Key{Tenant: "acme", Kind: "tasks", Name: "any"}, "x", state.AnyVersion); v != 1 {
		t.Errorf("a new value for any version has version %d", v)
	}
}

func testConflict(t *testing.T, kv *state.KV) {
	_, err := kv.Put(t.Context(), key, nil, 7)
	wantCode(t, err, mesh.Conflict)
	put(t, kv, key, "first", 0)
	put(t, kv, key, "second", 1)
	for _, stale := range []int64{0, 1, 3} {
		_, err := kv.Put(t.Context(), key, []byte("stale"), stale)
		wantCode(t, err, mesh.Conflict)
	}
	for _, stale := range []int64{1, 3} {
		wantCode(t, kv.Delete(t.Context(), key, stale), mesh.Conflict)
	}
	if v, err := kv.Get(t.Context(), key); err != nil || string(v.Data) != "second" || v.Version != 2 {
		t.Errorf("after conflicts: %q at %d, %v", v.Data, v.Version, err)
	}
}

func testNotFound(t *testing.T, kv *state.KV) {
	_, err := kv.Get(t.Context(), key)
	wantCode(t, err, mesh.NotFound)
	wantCode(t, kv.Delete(t.Context(), key, state.AnyVersion), mesh.NotFound)
	wantCode(t, kv.Delete(t.Context(), key, 1), mesh.NotFound)
	items, more, err := kv.List(t.Context(), state.Page{Tenant: "acme", Kind: "tasks", Limit: 10})
	if len(items) != 0 || more || err != nil {
		t.Errorf("list of nothing: %v %v %v", items, more, err)
	}
}

func testAnew(t *testing.T, kv *state.KV) {
	put(t, kv, key, "x", 0)
	put(t, kv, key, "x", 1)
	if err := kv.Delete(t.Context(), key, 2); err != nil {
		t.Fatal(err)
	}
	_, err := kv.Get(t.Context(), key)
	wantCode(t, err, mesh.NotFound)
	if v := put(t, kv, key, "y", 0); v != 1 {
		t.Errorf("made anew with version %d", v)
	}
	if err := kv.Delete(t.Context(), key, state.AnyVersion); err != nil {
		t.Error(err)
	}
}

func testOneWins(t *testing.T, kv *state.KV) {
	put(t, kv, key, "start", 0)
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = kv.Put(t.Context(), key, fmt.Append(nil, i), 1) })
	}
	wg.Wait()
	var won []int
	for i, err := range errs {
		if err == nil {
			won = append(won, i)
		} else {
			wantCode(t, err, mesh.Conflict)
		}
	}
	v, err := kv.Get(t.Context(), key)
	if len(won) != 1 || err != nil || string(v.Data) != fmt.Sprint(won[0]) || v.Version != 2 {
		t.Errorf("%v won; the value is %q at %d, %v", won, v.Data, v.Version, err)
	}
}

func testCounter(t *testing.T, kv *state.KV) {
	const writers, each = 8, 20
	increase := func() error {
		for {
			v, err := kv.Get(t.Context(), key)
			if err != nil && !mesh.IsCode(err, mesh.NotFound) {
				return err
			}
			_, err = kv.Put(t.Context(), key, make([]byte, len(v.Data)+1), v.Version)
			if !mesh.IsCode(err, mesh.Conflict) {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := increase(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v, err := kv.Get(t.Context(), key)
	if err != nil || len(v.Data) != writers*each || v.Version != writers*each {
		t.Errorf("counted %d at version %d, %v", len(v.Data), v.Version, err)
	}
}

func testCopied(t *testing.T, kv *state.KV) {
	data := []byte("before")
	if _, err := kv.Put(t.Context(), key, data, 0); err != nil {
		t.Fatal(err)
	}
	copy(data, "XXXXXX")
	v, err := kv.Get(t.Context(), key)
	if err != nil || string(v.Data) != "before" {
		t.Fatalf("the store kept the caller's slice: %q, %v", v.Data, err)
	}
	copy(v.Data, "YYYYYY")
	items, _, err := kv.List(t.Context(), state.Page{Tenant: "acme", Kind: "tasks", Limit: 1})
	if err != nil || string(items[0].Data) != "before" {
		t.Fatalf("the store gave its own slice: %v, %v", items, err)
	}
}

func testEnded(t *testing.T, kv *state.KV) {
	put(t, kv, key, "x", 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := kv.Get(ctx, key)
	_, putErr := kv.Put(ctx, key, []byte("y"), state.AnyVersion)
	delErr := kv.Delete(ctx, key, state.AnyVersion)
	_, _, listErr := kv.List(ctx, state.Page{Tenant: "acme", Kind: "tasks", Limit: 1})
	for _, err := range []error{getErr, putErr, delErr, listErr} {
		wantCode(t, err, mesh.Canceled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v hides its cause", err)
		}
	}
	if v, err := kv.Get(t.Context(), key); err != nil || string(v.Data) != "x" {
		t.Errorf("it did something: %q, %v", v.Data, err)
	}
}

func testModel(t *testing.T, kv *state.KV) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	model := map[string]state.Value{}
	for step := range 300 {
		name := fmt.Sprint(r.IntN(12))
		k := state.Key{Tenant: "acme", Kind: "m", Name: name}
		is, expect := model[name].Version, int64(r.IntN(4)-1)
		ok := expect == is || expect == state.AnyVersion
		var err error
		if r.IntN(4) > 0 {
			data := fmt.Append(nil, step)
			if _, err = kv.Put(t.Context(), k, data, expect); err == nil {
				model[name] = state.Value{Data: data, Version: is + 1}
			}
		} else if expect != 0 {
			ok = ok && is > 0
			if err = kv.Delete(t.Context(), k, expect); err == nil {
				delete(model, name)
			}
		} else {
			continue
		}
		if ok != (err == nil) {
			t.Fatalf("seed %d step %d: version %d expecting %d gives %v", seed, step, is, expect, err)
		}
	}
	items, _, err := kv.List(t.Context(), state.Page{Tenant: "acme", Kind: "m", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]state.Value{}
	for _, it := range items {
		got[it.Name] = it.Value
	}
	if diff := cmp.Diff(model, got); diff != "" || !slices.IsSortedFunc(items, func(a, b state.Item) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("seed %d: %s", seed, diff)
	}
}
