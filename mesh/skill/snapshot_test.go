package skill

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever is put and removed in two catalogs, one over the other, the upper
// one has what a map would have, and what is told to watchers is the difference.
func TestCatalog_isAMapOverAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lower := new(Catalog)
		upper := &Catalog{under: lower}
		models := map[*Catalog]map[string]*Skill{lower: {}, upper: {}}
		told, seen := map[string]*Skill{}, (*snapshot)(nil)
		name := rapid.StringMatching(`[ab]_?\.[abc]_?`)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c := rapid.SampledFrom([]*Catalog{lower, upper}).Draw(t, "catalog")
				var all []*Skill
				for _, n := range rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "names") {
					all = append(all, &Skill{Name: n, Domain: domainOf(n)})
					models[c][n] = all[len(all)-1]
				}
				c.Put(all...)
			},
			"remove": func(t *rapid.T) {
				c := rapid.SampledFrom([]*Catalog{lower, upper}).Draw(t, "catalog")
				names := rapid.SliceOfN(name, 1, 4).Draw(t, "names")
				for _, n := range names {
					delete(models[c], n)
				}
				c.Remove(names...)
			},
			"watch": func(t *rapid.T) {
				now := upper.snapshot()
				gone, put := now.since(seen)
				for _, s := range gone {
					if told[s.Name] != s {
						t.Fatalf("%s is told to be gone and was not told before", s.Name)
					}
					delete(told, s.Name)
				}
				for _, s := range put {
					if told[s.Name] == s {
						t.Fatalf("%s is told twice", s.Name)
					}
					told[s.Name] = s
				}
				seen = now
				if !maps.Equal(told, union(models[lower], models[upper])) {
					t.Fatalf("told %v", told)
				}
			},
			"": func(t *rapid.T) {
				want := union(models[lower], models[upper])
				names := slices.Sorted(maps.Keys(want))
				var got []string
				for _, s := range upper.List() {
					if want[s.Name] != s {
						t.Fatalf("%s is another skill", s.Name)
					}
					if found, ok := upper.Get(s.Name); !ok || found != s {
						t.Fatalf("Get(%s) = %v, %v", s.Name, found, ok)
					}
					got = append(got, s.Name)
				}
				if diff := cmp.Diff(names, got); diff != "" || upper.Len() != len(names) {
					t.Fatalf("%d skills: %s", upper.Len(), diff)
				}
				count := 0
				for _, d := range upper.Domains() {
					count += d.Skills
				}
				if count != len(names) || lower.Len() != len(models[lower]) {
					t.Fatalf("%d skills in the domains, %d in the lower catalog", count, lower.Len())
				}
			},
		})
	})
}

func union(lower, upper map[string]*Skill) map[string]*Skill {
	all := maps.Clone(lower)
	maps.Copy(all, upper)
	return all
}

func TestCatalog_GetAllocatesNothing(t *testing.T) {
	lower := new(Catalog)
	upper := &Catalog{under: lower}
	lower.Put(&Skill{Name: "a.b"}, &Skill{Name: "a.c"})
	upper.Put(&Skill{Name: "a.d"})
	upper.Get("a.b")
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range []string{"a.b", "a.d", "a.e", "x.y"} {
			upper.Get(name)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
