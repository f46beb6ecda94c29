package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/memstore"
)

func TestKVRefusesWhatIsOutOfBoundsAndNamesTheField(t *testing.T) {
	good := state.Key{Tenant: "acme", Kind: "tasks", Name: "x"}
	with := func(change func(*state.Key)) state.Key {
		k := good
		change(&k)
		return k
	}
	kv := state.New(memstore.Open())
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
		"long kind":         {put(with(func(k *state.Key) { k.Kind = strings.Repeat("k", 65) }), 0, 0), "kind"},
		"kind with NUL":     {put(with(func(k *state.Key) { k.Kind = "a\x00b" }), 0, 0), "kind"},
		"no name":           {put(with(func(k *state.Key) { k.Name = "" }), 0, 0), "key"},
		"long name":         {put(with(func(k *state.Key) { k.Name = strings.Repeat("n", 257) }), 0, 0), "key"},
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
	kv := state.New(memstore.Open())
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
