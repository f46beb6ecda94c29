package state_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
)

func TestKVRefusesWhatIsOutOfBoundsAndNamesTheField(t *testing.T) {
	good := state.Key{Tenant: "acme", Kind: "tasks", Name: "x"}
	with := func(change func(*state.Key)) state.Key {
		k := good
		change(&k)
		return k
	}
	kv := state.New(mem.Open())
	put := func(k state.Key, size int, version int64) error {
		_, err := kv.Put(context.Background(), k, make([]byte, size), version)
		return err
	}
	list := func(p state.Page) error {
		_, _, err := kv.List(context.Background(), p)
		return err
	}
	for name, c := range map[string]struct {
		err   error
		field string
	}{
		"bad tenant":        {put(with(func(k *state.Key) { k.Tenant = "a b" }), 0, 0), "tenant-id"},
		"no kind":           {put(with(func(k *state.Key) { k.Kind = "" }), 0, 0), "kind"},
		"long kind":         {put(with(func(k *state.Key) { k.Kind = strings.Repeat("k", state.MaxKind+1) }), 0, 0), "kind"},
		"kind with NUL":     {put(with(func(k *state.Key) { k.Kind = "a\x00b" }), 0, 0), "kind"},
		"no name":           {put(with(func(k *state.Key) { k.Name = "" }), 0, 0), "key"},
		"long name":         {put(with(func(k *state.Key) { k.Name = strings.Repeat("n", state.MaxName+1) }), 0, 0), "key"},
		"name with NUL":     {put(with(func(k *state.Key) { k.Name = "a\x00" }), 0, 0), "key"},
		"name not UTF-8":    {put(with(func(k *state.Key) { k.Name = "\xff" }), 0, 0), "key"},
		"large value":       {put(good, state.MaxData+1, 0), "data"},
		"negative version":  {put(good, 0, -2), "version"},
		"delete at 0":       {kv.Delete(context.Background(), good, 0), "version"},
		"get without name":  {func() error { _, err := kv.Get(context.Background(), state.Key{Kind: "k"}); return err }(), "key"},
		"no limit":          {list(state.Page{Kind: "k"}), "limit"},
		"large limit":       {list(state.Page{Kind: "k", Limit: state.MaxPage + 1}), "limit"},
		"list without kind": {list(state.Page{Limit: 1}), "kind"},
	} {
		e, ok := c.err.(*mesh.Error)
		if !ok || e.Code != mesh.Invalid || e.Field != c.field || e.Detail == "" {
			t.Errorf("%s: got %v, want Invalid for field %s", name, c.err, c.field)
		}
	}
	if err := put(good, state.MaxData, 0); err != nil {
		t.Errorf("a value of the largest size: %v", err)
	}
}

// A writer who may meet others reads, changes and writes under the version it
// read, and does it again after a conflict.
func ExampleKV() {
	ctx := context.Background()
	kv := state.New(mem.Open())
	key := state.Key{Tenant: "acme", Kind: "tasks", Name: "next-number"}

	version, _ := kv.Put(ctx, key, []byte("1"), 0)
	_, err := kv.Put(ctx, key, []byte("1"), 0)
	fmt.Println(version, mesh.CodeOf(err))

	v, _ := kv.Get(ctx, key)
	version, _ = kv.Put(ctx, key, append(v.Data, '0'), v.Version)
	fmt.Println(version)
	// Output:
	// 1 conflict
	// 2
}

// A tenant has so many values of a kind: a further one is refused, by name, and
// what there is can be changed and removed. Others have room.
func TestATenantHasABoundedNumberOfValues(t *testing.T) {
	const most = 5
	ctx, store := context.Background(), mem.Open()
	kv := state.New(store, state.WithMaxKeys(most))
	put := func(kv *state.KV, tenant mesh.TenantID, name string, version int64) error {
		_, err := kv.Put(ctx, state.Key{Tenant: tenant, Kind: "tasks", Name: name}, []byte("v"), version)
		return err
	}
	for i := range most {
		if err := put(kv, "acme", fmt.Sprint(i), int64(-(i % 2))); err != nil {
			t.Fatalf("value %d: %v", i, err)
		}
	}
	full := func(kv *state.KV) {
		t.Helper()
		for _, version := range []int64{0, state.AnyVersion} {
			if err := put(kv, "acme", "more", version); !mesh.IsCode(err, mesh.Exhausted) || !strings.Contains(mesh.DetailOf(err), "state.keys") {
				t.Fatalf("one more under version %d: %v", version, err)
			}
		}
	}
	full(kv)
	for name, err := range map[string]error{
		"another version":    put(kv, "acme", "0", 1),
		"any version":        put(kv, "acme", "1", state.AnyVersion),
		"another tenant":     put(kv, "acme2", "0", 0),
		"the operator's own": put(kv, "", "0", 0),
		"another kind": func() error {
			_, err := kv.Put(ctx, state.Key{Tenant: "acme", Kind: "mail", Name: "0"}, nil, 0)
			return err
		}(),
		"a stale one removed": func() error { return kv.Delete(ctx, state.Key{Tenant: "acme", Kind: "tasks", Name: "1"}, 1) }(),
	} {
		if stale := name == "a stale one removed"; stale != mesh.IsCode(err, mesh.Conflict) || !stale && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := put(kv, "acme", "0", 0); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("what is there already: %v", err)
	}
	full(kv)
	// What is removed makes room, and a KV over the same store finds as many.
	if err := kv.Delete(ctx, state.Key{Tenant: "acme", Kind: "tasks", Name: "2"}, state.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0", "nothing"} { // conflicts, and what is not there
		_ = kv.Delete(ctx, state.Key{Tenant: "acme", Kind: "tasks", Name: name}, 99)
	}
	again := state.New(store, state.WithMaxKeys(most))
	if err := put(again, "acme", "five", 0); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
	full(again)
}

// Writers at once do not exceed the bound together, and lose no room.
func TestWritersAtOnceKeepToTheNumberOfValues(t *testing.T) {
	const most, writers = 20, 8
	ctx := context.Background()
	kv := state.New(mem.Open(), state.WithMaxKeys(most))
	var group sync.WaitGroup
	var made atomic.Int64
	for w := range writers {
		group.Go(func() {
			for i := range most {
				key := state.Key{Tenant: "acme", Kind: "tasks", Name: fmt.Sprint(w, "-", i)}
				if _, err := kv.Put(ctx, key, nil, 0); err != nil {
					continue
				}
				made.Add(1)
				if i%3 == 0 && kv.Delete(ctx, key, state.AnyVersion) == nil {
					made.Add(-1)
				}
			}
		})
	}
	group.Wait()
	items, _, err := kv.List(ctx, state.Page{Tenant: "acme", Kind: "tasks", Limit: state.MaxPage})
	if err != nil || len(items) != int(made.Load()) || len(items) > most {
		t.Fatalf("%d values of %d made, %v", len(items), made.Load(), err)
	}
	for i := len(items); i < most; i++ {
		if _, err := kv.Put(ctx, state.Key{Tenant: "acme", Kind: "tasks", Name: fmt.Sprint("last-", i)}, nil, 0); err != nil {
			t.Fatalf("there is no room for value %d: %v", i, err)
		}
	}
}
