package statetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// testApart proves S4-068 for state.
func testApart(t *testing.T, kv *state.KV) {
	keys := []state.Key{
		{Tenant: "acme", Kind: "tasks", Name: "x"}, {Tenant: "acme", Kind: "task", Name: "sx"},
		{Tenant: "acme2", Kind: "tasks", Name: "x"}, {Tenant: "", Kind: "tasks", Name: "x"},
		{Tenant: "acme", Kind: "mail", Name: "x"},
	}
	for i, k := range keys {
		put(t, kv, k, fmt.Sprint(i), 0)
	}
	for i, k := range keys {
		v, err := kv.Get(t.Context(), k)
		if err != nil || string(v.Data) != fmt.Sprint(i) {
			t.Errorf("%v is %q, %v", k, v.Data, err)
		}
		items, _, err := kv.List(t.Context(), state.Page{Tenant: k.Tenant, Kind: k.Kind, Limit: 10})
		if err != nil || len(items) != 1 || string(items[0].Data) != fmt.Sprint(i) {
			t.Errorf("list beside %v has %v, %v", k, items, err)
		}
	}
	if err := kv.Delete(t.Context(), keys[0], state.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys[1:] {
		if _, err := kv.Get(t.Context(), k); err != nil {
			t.Errorf("%v went with another: %v", k, err)
		}
	}
}

func testErase(t *testing.T, kv *state.KV) {
	has := func(o mesh.Owner) string {
		t.Helper()
		held, err := kv.Erase(t.Context(), o, true)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(held)
	}
	alice := mesh.Owner{Tenant: "acme", User: "alice"}
	if got := has(alice); got != "[]" {
		t.Errorf("in an empty store there is %s", got)
	}
	others := []mesh.Owner{{Tenant: "acme", User: "alic"}, {Tenant: "acme", User: "alice/"}, {Tenant: "acme", User: "bob"}, {Tenant: "acm", User: "alice"}, {Tenant: "acmee", User: "alice"}}
	for _, o := range append(others, alice) {
		for i, kind := range []string{"crm", "memory", "tasks", "tasks2"} {
			for j := range i + 1 {
				put(t, kv, state.UserSpace(o.Tenant, o.User, kind).Key(fmt.Sprintf("n%d", j)), "x", 0)
			}
		}
	}
	put(t, kv, state.TenantSpace("acme", "tasks").Key("alice/n0"), "x", 0)
	put(t, kv, state.AgentSpace("acme", "alice").Key("n0"), "x", 0)
	const writers, each = 128, 8 // more than a page
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := kv.Put(t.Context(), state.UserSpace("acme", "alice", "many").Key(fmt.Sprintf("n%d-%d", w, i)), nil, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	const all = "[{crm 1} {many 1024} {tasks 3} {tasks2 4} {memory 2}]"
	sorted := func(s string) []string {
		return slices.Sorted(strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune("[]{}", r) }))
	}
	if got := has(alice); !slices.Equal(sorted(got), sorted(all)) {
		t.Errorf("there is %s, want %s", got, all)
	}
	if held, err := kv.Erase(t.Context(), alice, false); err != nil || !slices.Equal(sorted(fmt.Sprint(held)), sorted(all)) {
		t.Errorf("erased are %v, %v, want %s", held, err, all)
	}
	if got := has(alice); got != "[]" {
		t.Errorf("then there is %s", got)
	}
	for _, o := range others {
		if got := has(o); !slices.Equal(sorted(got), sorted("[{crm 1} {tasks 3} {tasks2 4} {memory 2}]")) {
			t.Errorf("%v has %s", o, got)
		}
	}
	for _, k := range []state.Key{state.TenantSpace("acme", "tasks").Key("alice/n0"), state.AgentSpace("acme", "alice").Key("n0")} {
		if _, err := kv.Get(t.Context(), k); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
	_, err := kv.Erase(t.Context(), mesh.Owner{Tenant: "acme"}, false)
	wantCode(t, err, mesh.Invalid)
}
