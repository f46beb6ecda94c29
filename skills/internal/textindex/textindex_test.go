package textindex_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/skills/internal/textindex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var columns = []textindex.Column{{Name: "title", Weight: 3}, {Name: "body", Weight: 1}}

func doc(id, title, body string, labels ...string) textindex.Doc {
	return textindex.Doc{ID: id, Texts: []string{title, body}, Labels: labels, Factor: 1, Stamp: "of " + id, Data: []byte("data of " + id)}
}

func apply(t *testing.T, ix *textindex.Index, c textindex.Changes) {
	t.Helper()
	if err := ix.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func ids(t *testing.T, ix *textindex.Index, q textindex.Query) []string {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	hits, err := ix.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

func memory(t *testing.T) *textindex.Index {
	t.Helper()
	ix, err := textindex.New(t.Context(), columns...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
	})
	return ix
}

func TestIndex_findsWhatIsThere(t *testing.T) {
	ix := memory(t)
	light := doc("light", "Harbour", "nothing else")
	light.Factor = 0.1
	apply(t, ix, textindex.Changes{Mark: "1", Put: []textindex.Doc{
		doc("title", "Harbour", "nothing else", "a", "b", "a"), doc("body", "Other", "the harbours", "b"), light,
		doc("x", "Zebra", "stripes"), doc("y", "Lion", "mane"), doc("z", "Crow", "wings"),
	}})
	for name, tt := range map[string]struct {
		q    textindex.Query
		want []string
	}{
		"ranked":      {textindex.Query{Words: textindex.Words("The harbour?")}, []string{"title", "body", "light"}},
		"limited":     {textindex.Query{Words: []string{"harbour"}, Limit: 1}, []string{"title"}},
		"factor":      {textindex.Query{Words: []string{"harbour"}, MinFactor: 0.5}, []string{"title", "body"}},
		"label":       {textindex.Query{Words: []string{"harbour"}, Labels: [][]string{{"b"}}}, []string{"title", "body"}},
		"one of":      {textindex.Query{Words: []string{"harbour"}, Labels: [][]string{{"a", "c"}}}, []string{"title"}},
		"each of":     {textindex.Query{Labels: [][]string{{"a"}, {"b"}}}, []string{"title"}},
		"none of":     {textindex.Query{Labels: [][]string{{}}}, []string{}},
		"without":     {textindex.Query{Limit: 2}, []string{"body", "light"}},
		"quoted word": {textindex.Query{Words: []string{`har"bour`, "crow"}}, []string{"z"}},
	} {
		if diff := cmp.Diff(tt.want, ids(t, ix, tt.q)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	apply(t, ix, textindex.Changes{Put: []textindex.Doc{doc("title", "Mountain", "snow")}, Delete: []string{"body", "unknown"}})
	if got := ids(t, ix, textindex.Query{Words: []string{"harbour"}}); !slices.Equal(got, []string{"light"}) {
		t.Errorf("after the change: %v", got)
	}
	hits, err := ix.Search(t.Context(), textindex.Query{Words: []string{"snow"}, Limit: 1})
	want := []textindex.Hit{{Doc: textindex.Doc{ID: "title", Texts: []string{"Mountain", "snow"}, Factor: 1, Stamp: "of title", Data: []byte("data of title")}, Score: hits[0].Score}}
	if diff := cmp.Diff(want, hits); diff != "" || err != nil || hits[0].Score <= 0 {
		t.Error(diff, err)
	}
	if n, err := ix.Size(t.Context()); n != 5 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
	stamps, err := ix.Stamps(t.Context())
	if mark, err2 := ix.Mark(t.Context()); err != nil || err2 != nil || mark != "1" || len(stamps) != 5 || stamps["x"] != "of x" {
		t.Error(stamps, mark, err, err2)
	}
}

// A pool's index is there again after a restart, and empty after damage.
func TestPool_keepsOpensAndReplacesFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new dir?#%")
	pool := textindex.NewPool(dir, columns...)
	fill := func(ix *textindex.Index) error {
		return ix.Apply(t.Context(), textindex.Changes{Put: []textindex.Doc{doc("1", "walrus", "")}, Mark: "full"})
	}
	state := func(ix *textindex.Index) (text string) {
		mark, err := ix.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(mark, ids(t, ix, textindex.Query{Words: []string{"walrus"}}))
	}
	with := func(p *textindex.Pool, do func(*textindex.Index) error) {
		t.Helper()
		if err := p.With(t.Context(), "ann", do); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(p *textindex.Pool, want string) {
		t.Helper()
		with(p, func(ix *textindex.Index) error {
			if got := state(ix); got != want {
				t.Errorf("index has %s, want %s", got, want)
			}
			return nil
		})
	}
	with(pool, fill)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	pool = textindex.NewPool(dir, columns...)
	expect(pool, "full[1]")
	other := textindex.NewPool(dir, columns...) // as another process
	expect(other, "full[1]")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pool.File("ann")); err != nil {
		t.Fatal(err)
	}
	expect(pool, "[]")
	with(pool, fill)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	changed := textindex.NewPool(dir, textindex.Column{Name: "body", Weight: 1})
	with(changed, func(ix *textindex.Index) error {
		if mark, err := ix.Mark(t.Context()); mark != "" || err != nil {
			t.Errorf("an index of other columns has %q, %v", mark, err)
		}
		return nil
	})
	if err := changed.Close(); err != nil {
		t.Fatal(err)
	}
}

// An index that turns out to be damaged at work is emptied, and the work is
// done again; errors of the work itself are not damage.
func TestPool_doesTheWorkAgain(t *testing.T) {
	pool := textindex.NewPool(t.TempDir(), columns...)
	defer func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	runs := 0
	err := pool.With(t.Context(), "ann", func(ix *textindex.Index) error {
		if runs++; runs == 1 {
			db, err := sql.Open("sqlite", pool.File("ann"))
			if err == nil {
				_, err = db.ExecContext(t.Context(), `DROP TABLE docs`)
			}
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return ix.Apply(t.Context(), textindex.Changes{Put: []textindex.Doc{doc("1", "walrus", "")}})
	})
	if err != nil || runs != 2 {
		t.Errorf("ran %d times: %v", runs, err)
	}
	runs = 0
	sick := errors.New("sick")
	if err := pool.With(t.Context(), "ann", func(*textindex.Index) error { runs++; return sick }); !errors.Is(err, sick) || runs != 1 {
		t.Errorf("ran %d times: %v", runs, err)
	}
}

func TestPool_isForMany(t *testing.T) {
	dir := t.TempDir()
	pools := []*textindex.Pool{textindex.NewPool(dir, columns...), textindex.NewPool(dir, columns...)}
	var wg sync.WaitGroup
	const names, rounds = 40, 3 // more than are left open
	for i := range names * rounds * 2 {
		wg.Go(func() {
			err := pools[i%2].With(t.Context(), fmt.Sprint(i%names), func(ix *textindex.Index) error {
				return ix.Apply(t.Context(), textindex.Changes{Put: []textindex.Doc{doc(fmt.Sprint(i), "walrus", "")}})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range names {
		if err := pools[0].With(t.Context(), fmt.Sprint(i), func(ix *textindex.Index) error {
			if got := ids(t, ix, textindex.Query{Words: []string{"walrus"}}); len(got) != 2*rounds {
				t.Errorf("%d has %v", i, got)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	for _, p := range pools {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPool_waitsNoLongerThanItsContext(t *testing.T) {
	pool := textindex.NewPool(t.TempDir(), columns...)
	defer func() { _ = pool.Close() }()
	err := pool.With(t.Context(), "ann", func(*textindex.Index) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := pool.With(ctx, "ann", func(*textindex.Index) error { return nil }); !mesh.IsCode(err, mesh.Canceled) {
			t.Errorf("error is %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := textindex.NewPool(blocked, columns...).With(t.Context(), "ann", func(*textindex.Index) error { return nil }); !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
		t.Errorf("error is %v", err)
	}
}

func TestWords_areThoseThatTell(t *testing.T) {
	for query, want := range map[string][]string{
		"How do I set the RATE limit, rate?": {"set", "rate", "limit"}, "how is it": {"how", "is", "it"}, "?! \x00": nil, `a"b*c-d:e`: {"b", "c", "d", "e"},
	} {
		if diff := cmp.Diff(want, textindex.Words(query)); diff != "" && len(want)+len(textindex.Words(query)) > 0 {
			t.Errorf("%q: %s", query, diff)
		}
	}
	if got := len(textindex.Words(strings.Repeat("a1 b2 c3 ", 100) + manyWords())); got != 64 {
		t.Errorf("%d words", got)
	}
	for w, want := range map[string]string{"liked": "lik", "like": "lik", "teas": "tea", "seeing": "see", "does": "doe", "ring": "ring", "kaffee": "kaffe"} {
		if got := textindex.Stem(w); got != want {
			t.Errorf("%s is cut to %s, want %s", w, got, want)
		}
	}
}

func manyWords() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}
