package rows_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh/thread/rows"
)

// pages are in memory.
type pages map[string][]byte

func (p pages) Get(key string) ([]byte, error) { return p[key], nil }

// take brings what changed into the pages.
func (p pages) take(t *rows.Table) {
	for key, b := range t.Changes() {
		if p[key] = b; b == nil {
			delete(p, key)
		}
	}
	t.Written(true)
}

// A table has what was put into it, in order, and counts it, whatever was put and deleted,
// kept, not kept and opened again.
func TestATableIsAsASortedMapIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := pages{}
		table, want := rows.New(kept), map[string]string{}
		saved := maps.Clone(want)
		key := func(name string) string {
			return strings.Repeat("key", rapid.IntRange(0, 2).Draw(t, name)) + fmt.Sprint(rapid.IntRange(0, 300).Draw(t, name))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				from, n := rapid.IntRange(0, 300).Draw(t, "from"), rapid.IntRange(1, 200).Draw(t, "many")
				for i := from; i < from+n; i++ {
					k, v := fmt.Sprint("k", i%300), strings.Repeat("v", i%7*40)
					table.Put(k, v)
					want[k] = v
				}
			case 3:
				from, n := rapid.IntRange(0, 300).Draw(t, "from"), rapid.IntRange(1, 250).Draw(t, "many")
				for i := from; i < from+n; i++ {
					table.Delete(fmt.Sprint("k", i%300))
					delete(want, fmt.Sprint("k", i%300))
				}
			case 4:
				if rapid.Bool().Draw(t, "fails") {
					table.Changes()
					table.Written(false)
					break
				}
				kept.take(table)
				saved = maps.Clone(want)
			case 5:
				var err error
				if table, err = rows.Open(kept); err != nil {
					t.Fatal(err)
				}
				want = maps.Clone(saved)
			}
			compare(t, table, want, key("from"), key("to"))
		}
		if err := table.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// What comes before all that a page has left, when its first part was deleted, splits it as
// anything does: of each page the first key says nothing.
func TestWhatComesBeforeAllThatIsLeftIsFound(t *testing.T) {
	table := rows.New(pages{})
	put := func(form string, from, to int) {
		for i := from; i < to; i++ {
			table.Put(fmt.Sprintf(form, i), "")
		}
	}
	put("m%03d", 0, 200)
	put("m%03d+", 32, 52) // so much that what is left before it is not put to it
	for i := range 32 {
		table.Delete(fmt.Sprintf("m%03d", i))
	}
	put("a%03d", 0, 100)
	n := 0
	for k := range table.Range("", "\xff") {
		if _, ok := table.Get(k); !ok {
			t.Errorf("%q is not found", k)
		}
		n++
	}
	if n != 200+20-32+100 {
		t.Errorf("there are %d", n)
	}
}

func compare(t *rapid.T, table *rows.Table, want map[string]string, from, to string) {
	t.Helper()
	got := map[string]string{}
	last := ""
	for k, v := range table.Range("", "\xff") {
		if k <= last && last != "" {
			t.Fatalf("%q comes after %q", k, last)
		}
		got[k], last = v, k
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	n := 0
	for k := range want {
		if k >= from && k < to {
			n++
		}
		if v, ok := table.Get(k); !ok || v != want[k] {
			t.Fatalf("%q is %q, %v", k, v, ok)
		}
	}
	if c := table.Count(from, to); c != n {
		t.Fatalf("from %q to %q there are %d, and it counts %d", from, to, n, c)
	}
	if c := len(slices.Collect(maps.Keys(maps.Collect(table.Range(from, to))))); c != n {
		t.Fatalf("from %q to %q there are %d, and it yields %d", from, to, n, c)
	}
}

// A page that is missing, cut or changed is told, and nothing is made of it.
func TestAPageThatIsMissingOrNoneIsTold(t *testing.T) {
	kept := pages{}
	table := rows.New(kept)
	for i := range 1000 {
		table.Put(fmt.Sprintf("%04d", i), "v")
	}
	kept.take(table)
	whole := maps.Clone(kept)
	for key := range whole {
		for what, b := range map[string][]byte{"missing": nil, "empty": {}, "cut": whole[key][:len(whole[key])/2], "of another form": append([]byte{9}, whole[key]...)} {
			kept := maps.Clone(whole)
			if kept[key] = b; b == nil {
				delete(kept, key)
			}
			table, err := rows.Open(kept)
			if err == nil {
				n := len(maps.Collect(table.Range("", "\xff")))
				if err = table.Err(); err == nil && n == 1000 {
					t.Errorf("%q %s: all rows are there", key, what)
				}
			}
			if err == nil && !(key == "head" && what == "missing") {
				t.Errorf("%q %s is not told", key, what)
			}
		}
	}
}

// FuzzPage reads anything as a page without a panic.
func FuzzPage(f *testing.F) {
	kept := pages{}
	table := rows.New(kept)
	for i := range 100 {
		table.Put(fmt.Sprintf("%04d", i), "v")
	}
	kept.take(table)
	for _, b := range kept {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := maps.Clone(kept)
		for key := range kept {
			if key != "head" {
				kept[key] = b
				break
			}
		}
		if table, err := rows.Open(kept); err == nil {
			for range table.Range("", "\xff") {
			}
			table.Count("0", "1")
		}
	})
}

// Beyond is after all that begins with a text, and before all that does not and comes later.
func TestBeyondEndsWhatBeginsWithATextAlone(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "ab": "ac"} {
		if got := rows.Beyond(prefix); got != want {
			t.Errorf("beyond %q is %q", prefix, got)
		}
	}
}
