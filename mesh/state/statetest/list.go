package statetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/state"
)

func testList(t *testing.T, kv *state.KV) {
	for _, name := range []string{"b", "a/2", "a/1", "a", "c", "a/10", "aa"} {
		put(t, kv, state.Key{Tenant: "acme", Kind: "tasks", Name: name}, name, 0)
	}
	for _, c := range []struct {
		name string
		page state.Page
		want []string
		more bool
	}{
		{"all", state.Page{Limit: 10}, []string{"a", "a/1", "a/10", "a/2", "aa", "b", "c"}, false},
		{"exactly all", state.Page{Limit: 7}, []string{"a", "a/1", "a/10", "a/2", "aa", "b", "c"}, false},
		{"first", state.Page{Limit: 2}, []string{"a", "a/1"}, true},
		{"prefix", state.Page{Prefix: "a/", Limit: 10}, []string{"a/1", "a/10", "a/2"}, false},
		{"prefix, first", state.Page{Prefix: "a/", Limit: 2}, []string{"a/1", "a/10"}, true},
		{"prefix after", state.Page{Prefix: "a/", After: "a/1", Limit: 10}, []string{"a/10", "a/2"}, false},
		{"prefix after what is before it", state.Page{Prefix: "a/", After: "A", Limit: 10}, []string{"a/1", "a/10", "a/2"}, false},
		{"prefix after what is beyond it", state.Page{Prefix: "a/", After: "b", Limit: 10}, nil, false},
		{"after what is not there", state.Page{After: "ab", Limit: 10}, []string{"b", "c"}, false},
		{"after the last", state.Page{After: "c", Limit: 10}, nil, false},
	} {
		c.page.Tenant, c.page.Kind = "acme", "tasks"
		items, more, err := kv.List(t.Context(), c.page)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, it := range items {
			names = append(names, it.Name)
			if string(it.Data) != it.Name || it.Version != 1 {
				t.Errorf("%s: item %q has %q at %d", c.name, it.Name, it.Data, it.Version)
			}
		}
		if diff := cmp.Diff(c.want, names); diff != "" || more != c.more {
			t.Errorf("%s: more %v, names %s", c.name, more, diff)
		}
	}
}

// testPages has values large enough that a driver may cut pages short.
func testPages(t *testing.T, kv *state.KV) {
	big := strings.Repeat("x", state.MaxData)
	var want, got []string
	for i := range 40 {
		name := fmt.Sprintf("%03d", i)
		want = append(want, name)
		put(t, kv, state.Key{Tenant: "acme", Kind: "big", Name: name}, big, 0)
	}
	p := state.Page{Tenant: "acme", Kind: "big", Limit: 30}
	for {
		items, more, err := kv.List(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			got = append(got, it.Name)
			p.After = it.Name
		}
		if !more {
			break
		}
		if len(items) == 0 {
			t.Fatal("an empty page says that there is more")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
