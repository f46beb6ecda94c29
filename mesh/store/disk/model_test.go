package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// A backend is what both stores are.
type backend interface {
	threadlog.Backend
	state.Store
}

// Whatever is asked of it, and whenever it is closed and opened again, the store
// answers as the one in memory does, but for its positions, which only grow.
func TestItAnswersAsTheStoreInMemory(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	path := filepath.Join(t.TempDir(), "mesh.db")
	opts := Options{disk: &testDisk{unsynced: true}, size: 10_000}
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	model := mem.Open()
	for range 500 {
		do := step(t, r)
		if diff := cmp.Diff(do(model), do(s)); diff != "" {
			t.Fatal(diff)
		}
		switch r.IntN(40) {
		case 0:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(path, opts); err != nil {
				t.Fatal(err)
			}
		case 1:
			s.checkpoint()
		case 2:
			if diff := cmp.Diff(everything(t, model), everything(t, s), butPositions); diff != "" {
				t.Fatal(diff)
			}
		}
	}
	if diff := cmp.Diff(everything(t, model), everything(t, s), butPositions); diff != "" {
		t.Fatal(diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// butPositions compares what stores have. Bytes are compared as such, since one by one they
// take most of the test's time.
var butPositions = cmp.Options{
	cmpopts.IgnoreTypes(mesh.Pos(0)), cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal)),
}

// step returns something that is asked of a store, and what it answers.
func step(t *testing.T, r *rand.Rand) func(backend) string {
	key := logtest.Key(r.IntN(5))
	name := state.Key{Tenant: []mesh.TenantID{"", "acme"}[r.IntN(2)], Kind: "k", Name: fmt.Sprint("n", r.IntN(6))}
	version := int64(r.IntN(5) - 1)
	answer := func(v any, err error) string {
		code := ""
		for _, c := range []mesh.Code{mesh.Conflict, mesh.NotFound, mesh.Unavailable, mesh.Unknown} {
			if mesh.IsCode(err, c) {
				code = fmt.Sprint(c)
			}
		}
		return fmt.Sprint(v, " ", code)
	}
	data := make([]byte, r.IntN(600))
	for i := range data {
		data[i] = byte('a' + r.IntN(3))
	}
	switch r.IntN(12) {
	case 0:
		return func(s backend) string { return answer("delete", s.Delete(t.Context(), key, threadlog.AnyPos)) }
	case 1, 2, 3:
		return func(s backend) string { return answer(s.PutState(t.Context(), name, data, version)) }
	case 4:
		return func(s backend) string { return answer("remove", s.DeleteState(t.Context(), name, version)) }
	case 5:
		return func(s backend) string {
			v, err := s.GetState(t.Context(), name)
			return answer(fmt.Sprintf("%d %s", v.Version, v.Data), err)
		}
	case 6:
		page := state.Page{Tenant: name.Tenant, Kind: "k", Prefix: []string{"", "n", "n3"}[r.IntN(3)], After: []string{"", "n1", "n4"}[r.IntN(3)], Limit: 1 + r.IntN(4)}
		return func(s backend) string {
			items, more, err := s.ListState(t.Context(), page)
			return answer(fmt.Sprint(items, more), err)
		}
	}
	b := &threadlog.Batch{Epoch: mesh.Epoch(r.IntN(9) / 7 * r.IntN(3)), Settled: mesh.Seq(r.IntN(4) / 3 * r.IntN(20))}
	for range 1 + r.IntN(4) {
		e := threadlog.Entry{Data: data, Opens: r.IntN(4) == 0}
		if r.IntN(3) == 0 {
			e.ID = fmt.Sprint("id", r.IntN(30))
		}
		if r.IntN(4) == 0 {
			e.Decision, e.Scope = true, mesh.Scope(fmt.Sprint("s", r.IntN(2)))
		}
		if r.IntN(20) == 0 {
			e.Claim = mesh.Epoch(1 + r.IntN(4))
		}
		b.Entries = append(b.Entries, e)
	}
	if r.IntN(5) == 0 {
		b.Expect = []threadlog.Expect{{Scope: "s1", Seq: mesh.Seq(r.IntN(6))}}
	}
	return func(s backend) string {
		at, err := s.Append(t.Context(), key, b)
		return answer(at.Seqs, err)
	}
}

// all is what there is in a store.
type all struct {
	Threads    map[mesh.ThreadKey][]threadlog.Record
	Scan       []threadlog.Record
	Infos      []threadlog.Info
	Unfinished []threadlog.Unfinished
	Items      [2][]state.Item
}

func everything(t *testing.T, s backend) (a all) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	a.Threads = map[mesh.ThreadKey][]threadlog.Record{}
	for i := range 5 {
		a.Threads[logtest.Key(i)], err = s.Read(t.Context(), logtest.Key(i), 0, 1<<40)
		must(err)
	}
	for after := mesh.Pos(0); ; {
		page, err := s.Scan(t.Context(), after, 37)
		must(err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.Pos <= after {
				t.Fatalf("position %d comes after %d", r.Pos, after)
			}
			after = r.Pos
		}
		a.Scan = append(a.Scan, page...)
	}
	a.Infos, err = s.Threads(t.Context(), logtest.Key(0).Tenant, 0, 10)
	must(err)
	a.Unfinished, err = s.Unfinished(t.Context(), 0, 10)
	must(err)
	for i, tenant := range []mesh.TenantID{"", "acme"} {
		a.Items[i], _, err = s.ListState(t.Context(), state.Page{Tenant: tenant, Kind: "k", Limit: 100})
		must(err)
	}
	return a
}
