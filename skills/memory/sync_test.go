package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills/internal/textindex"
	"agentmesh/skills/memory"
)

func decode(data []byte, to any) error { return json.Unmarshal(data, to) }

// S3-137: a search finds what other processes saved and changed, at once.
func TestSearch_seesWhatOtherProcessesSave(t *testing.T) {
	state := new(skilltest.State)
	a, b := start(t, state, t.TempDir()), start(t, state, t.TempDir())
	if got := b.find(t, args{"query": "tea"}); len(got) != 0 {
		t.Fatal(got)
	}
	id := a.save(t, "1", args{"content": "The user likes green tea", "category": "fact"})
	if got := b.find(t, args{"query": "tea"}); !slices.Equal(got, []string{id}) {
		t.Errorf("a new memory: %v", got)
	}
	if again := b.save(t, "2", args{"content": "The user likes green tea", "category": "fact", "tags": "drinks"}); again != id {
		t.Error("the memory of another process is not known")
	}
	if got := a.find(t, args{"query": "drinks"}); !slices.Equal(got, []string{id}) {
		t.Errorf("a changed memory: %v", got)
	}
	// More changes than the journal holds.
	for i := range 70 {
		a.save(t, fmt.Sprintf("n%d", i), args{"content": fmt.Sprintf("Invoice number %d is paid", i)})
	}
	if got := b.find(t, args{"query": "invoice", "limit": 20}); len(got) != 20 {
		t.Errorf("found %d of many", len(got))
	}
	if got := b.find(t, args{"query": "invoice 0"}); len(got) != 5 {
		t.Errorf("the first of many: %v", got)
	}
}

// S3-140: of processes that save the same at the same time, one inserts.
func TestSave_isDecidedOnceByManyProcesses(t *testing.T) {
	state := new(skilltest.State)
	var wg sync.WaitGroup
	ids := make([]string, 12)
	processes := []*process{start(t, state, t.TempDir()), start(t, state, t.TempDir()), start(t, state, t.TempDir())}
	for i := range ids {
		wg.Go(func() {
			r := processes[i%3].Call("memory.save", fmt.Sprintf("key%d", i), args{"content": "The user lives in Bergen", "tags": fmt.Sprintf("t%d", i)})
			ids[i] = fmt.Sprint(r.Metadata["memory_id"], r.Failed())
		})
	}
	wg.Wait()
	if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
		t.Fatalf("inserted %v", ids)
	}
	m := stored(t, state, "ann/"+strings.TrimSuffix(ids[0], "false"))
	if len(m.Tags) != 12 || m.Rev != 12 {
		t.Errorf("%d tags after %d changes: %v", len(m.Tags), m.Rev, m.Tags)
	}
}

// dying is a State whose process dies before it writes a memory.
type dying struct {
	skill.State
	dead bool
}

func (d *dying) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	if d.dead && !strings.HasSuffix(key, "/journal") {
		return 0, mesh.Errorf(mesh.Unavailable, "dying", "gone")
	}
	return d.State.Put(ctx, kind, key, data, version)
}

// S3-137: a save that died between its two writes is completed by its
// repetition, once, and is then found by those who waited for it.
func TestSave_isCompletedAfterADeath(t *testing.T) {
	state := new(skilltest.State)
	d := &dying{State: state, dead: true}
	a, b := start(t, d, t.TempDir()), start(t, state, t.TempDir())
	if r := a.Call("memory.save", "k", args{"content": "The key is under the mat"}); !r.Failed() {
		t.Fatal(r.Content)
	}
	if got := b.find(t, args{"query": "key"}); len(got) != 0 {
		t.Fatal(got)
	}
	id := b.save(t, "k", args{"content": "The key is under the mat"})
	for _, p := range []*process{a, b} {
		if got := p.find(t, args{"query": "key"}); !slices.Equal(got, []string{id}) {
			t.Errorf("found %v", got)
		}
	}
	if m := stored(t, state, "ann/"+id); m.Rev != 1 || len(m.Keys) != 1 {
		t.Errorf("%+v", m)
	}
}

// S3-137: the index is a projection: without it, or with rubbish in its place,
// everything is found again, also in a process that has it open.
func TestIndex_comesBack(t *testing.T) {
	state := new(skilltest.State)
	dir := t.TempDir()
	running := start(t, state, dir)
	id := running.save(t, "1", args{"content": "The user sails a small boat"})
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for name, harm := range map[string]func() error{
		"deleted":   func() error { return os.Remove(files[0]) },
		"rubbish":   func() error { return os.WriteFile(files[0], []byte(strings.Repeat("rubbish ", 5000)), 0o600) },
		"truncated": func() error { return os.Truncate(files[0], 5000) },
		"replaced": func() error {
			_ = os.Remove(files[0])
			return os.WriteFile(files[0], []byte("SQLite format 3\x00 and rubbish"), 0o600)
		},
		"all gone": func() error { return os.RemoveAll(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, fresh := range []bool{false, true} {
				if err := harm(); err != nil {
					t.Fatal(err)
				}
				p := running
				if fresh {
					p = start(t, state, dir)
				}
				if got := p.find(t, args{"query": "boat"}); !slices.Equal(got, []string{id}) {
					t.Errorf("fresh process %v: found %v", fresh, got)
				}
			}
		})
	}
}

// S3-137: what the journal does not tell is found by comparing, in time.
func TestIndex_isComparedWithTheState(t *testing.T) {
	state := new(skilltest.State)
	p := start(t, state, t.TempDir())
	id := p.save(t, "1", args{"content": "The user sails a small boat"})
	if err := state.Delete(t.Context(), memory.Kind, "ann/"+id, skill.AnyVersion); err != nil {
		t.Fatal(err)
	}
	data := `{"id": "m-1", "content": "The boat is sold", "category": "fact", "importance": 1, "rev": 1}`
	for key, data := range map[string]string{"ann/m-1": data, "ann/m-2": "rubbish", "ann/m-3": data} {
		if _, err := state.Put(t.Context(), memory.Kind, key, []byte(data), 0); err != nil {
			t.Fatal(err)
		}
	}
	p.Advance(6 * time.Minute)
	if got := p.find(t, args{"query": "boat"}); !slices.Equal(got, []string{"m-1"}) {
		t.Errorf("found %v", got)
	}
}

// slow is a State that lets nobody note what was found, until it is let go.
type slow struct {
	skill.State
	asked, goOn chan struct{}
}

func (s *slow) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	if s.goOn != nil && !strings.HasSuffix(key, "/journal") {
		s.asked <- struct{}{}
		<-s.goOn
	}
	return s.State.Put(ctx, kind, key, data, version)
}

// S3-144, S3-160: when a memory was found is noted, and no search waits for it.
// Close does.
func TestSearch_notesTheFindWithoutWaiting(t *testing.T) {
	inner := new(skilltest.State)
	s := &slow{State: inner}
	dir := t.TempDir()
	p := start(t, s, dir)
	id := p.save(t, "1", args{"content": "The user plays chess"})
	s.asked, s.goOn = make(chan struct{}, 100), make(chan struct{})
	p.Advance(24 * time.Hour)
	for range 10 {
		if got := p.find(t, args{"query": "chess"}); len(got) != 1 { // returns although nothing is noted
			t.Fatal(got)
		}
	}
	<-s.asked
	if m := stored(t, inner, "ann/"+id); !m.Accessed.IsZero() {
		t.Fatalf("noted %v", m.Accessed)
	}
	close(s.goOn)
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	m := stored(t, inner, "ann/"+id)
	if want := p.Now().UTC().Truncate(time.Second); !m.Accessed.Equal(want) || !m.Updated.Equal(m.Created) {
		t.Errorf("accessed %v, want %v; updated %v", m.Accessed, want, m.Updated)
	}
}

// watched is a State that says when its journal is read for the nth time.
type watched struct {
	skill.State
	reads atomic.Int32
	nth   int32
	say   func()
}

func (w *watched) Get(ctx context.Context, kind, key string) ([]byte, int64, error) {
	if strings.HasSuffix(key, "/journal") && w.reads.Add(1) == w.nth {
		w.say()
	}
	return w.State.Get(ctx, kind, key)
}

// S3-140: who saves what another process is about to save waits until it is
// there, and brings it up to date.
func TestSave_waitsForWhatWasAnnounced(t *testing.T) {
	inner := new(skilltest.State)
	s := &slow{State: inner, asked: make(chan struct{}, 1), goOn: make(chan struct{})}
	a := start(t, s, t.TempDir())
	var first string
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := a.Call("memory.save", "1", args{"content": "The user lives in Bergen"})
		first = fmt.Sprint(r.Metadata["memory_id"])
	}()
	<-s.asked // it is announced and not stored
	release := sync.OnceFunc(func() {
		close(s.goOn)
		<-done
	})
	defer release()
	b := start(t, &watched{State: inner, nth: 2, say: release}, t.TempDir())
	second := b.save(t, "2", args{"content": "The user lives in Bergen"})
	if release(); second != first {
		t.Errorf("saved %s and %s", first, second)
	}
}

// byAge is another way to find memories: the oldest first, whatever they say.
type byAge struct{}

func (byAge) Rank(ctx context.Context, ix *textindex.Index, q memory.Query) ([]textindex.Hit, error) {
	return ix.Search(ctx, textindex.Query{Limit: q.Limit})
}

// S3-160: other rankers are added without changing what there is.
func TestSearch_takesAnotherRanker(t *testing.T) {
	p := start(t, new(skilltest.State), t.TempDir(), memory.WithRanker(byAge{}))
	first := p.save(t, "1", args{"content": "Whales sing"})
	p.Advance(time.Minute)
	second := p.save(t, "2", args{"content": "Birds fly"})
	if got := p.find(t, args{"query": "fly"}); !slices.Equal(got, []string{first, second}) {
		t.Errorf("found %v", got)
	}
}

// S3-146: a query is words, whatever it looks like.
func TestSearch_takesAnyText(t *testing.T) {
	p := setup(t)
	id := p.save(t, "1", args{"content": "The user rates films near the sea"})
	for _, query := range []string{
		`"`, `rate" OR "x`, "NOT rate", "NEAR(rate film, 2)", "rate*", "^rate", "content:rate", "tags : rate", "{content tags}:rate",
		"-rate", "+rate", "rate) OR (x", "rate AND zebra", "'; DROP TABLE docs; --", "key:1 rate", "\x00rate", "rate\xff", strings.Repeat("rate films ", 5000),
	} {
		r := p.Call("memory.search", "", args{"query": query})
		found := r.Metadata["count"] == 1 && r.Metadata["memory_ids"].([]string)[0] == id
		if r.Failed() || found != strings.Contains(query, "rate") {
			t.Errorf("%.40q: %+v", query, r)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, seed := range []string{`"`, "NEAR(a b)", "a*", "content:a", "-a", "a AND (", "é́", "\x00", "日本"} {
		f.Add(seed)
	}
	ix, err := textindex.New(f.Context(), textindex.Column{Name: "content", Weight: 1}, textindex.Column{Name: "tags", Weight: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = ix.Close() })
	if err := ix.Apply(f.Context(), textindex.Changes{Put: []textindex.Doc{{ID: "1", Texts: []string{"a b", "c"}, Factor: 1}}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := (memory.Words{}).Rank(t.Context(), ix, memory.Query{Text: query, Tags: []string{query}, Category: query, Limit: 5}); err != nil {
			t.Fatalf("%q: %v", query, err)
		}
	})
}
