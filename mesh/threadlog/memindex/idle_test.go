package memindex_test

import (
	"fmt"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// idlers is a book with so many threads of a tenant, the first touched first.
func idlers(tb testing.TB, n int) *memindex.Book {
	tb.Helper()
	b := &memindex.Book{}
	for i := range n {
		touched(tb, b, i)
	}
	return b
}

func keyed(i int) mesh.ThreadKey { return mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprint(i)} }

func touched(tb testing.TB, b *memindex.Book, i int) {
	tb.Helper()
	d := b.Draft()
	if _, err := d.Add(keyed(i), &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte("x")}}}); err != nil {
		tb.Fatal(err)
	}
	d.Commit()
}

// finding R9: whoever goes through the idle threads page by page sees each that stays, whatever is
// deleted or touched between the pages, also the one at which the last page ended.
func TestPagesOfIdleThreadsGoOnWhereTheLastOneEnded(t *testing.T) {
	const n = 60
	for name, change := range map[string]func(*memindex.Book, int){
		"nothing": func(*memindex.Book, int) {},
		"deleted": func(b *memindex.Book, last int) { b.Delete(keyed(last)) },
		"touched": func(b *memindex.Book, last int) {
			if last%2 == 0 {
				touched(t, b, last)
			}
		},
		"one before it deleted, too": func(b *memindex.Book, last int) {
			b.Delete(keyed(last))
			b.Delete(keyed(last - 1))
		},
		"another reader is elsewhere": func(b *memindex.Book, last int) { b.Idle("acme", 0, last%7) },
		"another reader is further":   func(b *memindex.Book, last int) { b.Idle("acme", mesh.Pos(last)+20, 3) },
	} {
		b, seen := idlers(t, n), map[string]bool{}
		for after := mesh.Pos(0); len(seen) < n; {
			page := b.Idle("acme", after, 5)
			for _, info := range page {
				if info.LastPos <= after {
					t.Fatalf("%s: %v comes again", name, info)
				}
				after, seen[info.Key.ID] = info.LastPos, true
			}
			if len(page) == 0 {
				break
			}
			var last int
			if _, err := fmt.Sscan(page[len(page)-1].Key.ID, &last); err != nil {
				t.Fatal(err)
			}
			change(b, last)
		}
		if len(seen) != n {
			t.Errorf("%s: %d of %d threads were seen", name, len(seen), n)
		}
	}
}

func BenchmarkIdlePages(b *testing.B) {
	const n = 20_000
	book := idlers(b, n)
	b.ReportAllocs()
	for b.Loop() {
		for after := mesh.Pos(0); ; {
			page := book.Idle("acme", after, 64)
			if len(page) == 0 {
				break
			}
			after = page[len(page)-1].LastPos
		}
	}
}
