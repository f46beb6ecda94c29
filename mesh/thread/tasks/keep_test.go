package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// pages keep rows in memory, as a file of a store does.
type pages struct {
	rows    map[string][]byte
	upTo    mesh.Pos
	damaged string  // the page that cannot be read
	stones  []stone // of all threads that were deleted
	why     []error // they were discarded
	fails   error   // of writes
}

// A stone is where a thread was deleted.
type stone struct {
	key mesh.ThreadKey
	pos mesh.Pos
}

func (p *pages) Begin() (mesh.Pos, []mesh.ThreadKey) {
	var gone []mesh.ThreadKey
	for _, s := range p.stones {
		if s.pos > p.upTo {
			gone = append(gone, s.key)
		}
	}
	return p.upTo, gone
}

func (p *pages) Get(key string) ([]byte, error) {
	if key == p.damaged {
		return nil, errors.New("the page is damaged")
	}
	return p.rows[key], nil
}

func (p *pages) Write(upTo mesh.Pos, changes map[string][]byte) error {
	if p.fails != nil {
		return p.fails
	}
	p.upTo = upTo
	for key, b := range changes {
		if p.rows[key] = b; b == nil {
			delete(p.rows, key)
		}
	}
	return nil
}

func (p *pages) Discard(why error) error {
	p.rows, p.upTo, p.damaged, p.why = map[string][]byte{}, 0, "", append(p.why, why)
	return nil
}

// A backend is a store as one process has it: it was opened when so many threads had been
// deleted.
type backend struct {
	threadlog.Backend
	pages *pages
	from  int64
	last  mesh.Pos // of what was appended
	reads int      // records that were scanned
}

func (b *backend) Append(ctx context.Context, key mesh.ThreadKey, batch *threadlog.Batch) (threadlog.Appended, error) {
	at, err := b.Backend.Append(ctx, key, batch)
	for _, pos := range at.Pos {
		b.last = max(b.last, pos)
	}
	return at, err
}

func (b *backend) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	err := b.Backend.Delete(ctx, key, last)
	if err == nil {
		b.pages.stones = append(b.pages.stones, stone{key, b.last + 1})
	}
	return err
}

func (b *backend) Deleted(ctx context.Context, since int64) ([]mesh.ThreadKey, int64, bool, error) {
	keys, now, all, err := b.Backend.Deleted(ctx, since+b.from)
	return keys, now - b.from, all, err
}

func (b *backend) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	recs, err := b.Backend.Scan(ctx, after, limit)
	b.reads += len(recs)
	return recs, err
}

// A folder is a world whose rows are kept.
type folder struct {
	*world
	backend *backend
}

func newFolder(t rapid.TB) *folder {
	f := &folder{world: &world{t: t}, backend: &backend{Backend: mem.Open(), pages: &pages{rows: map[string][]byte{}}}}
	f.open()
	return f
}

// open begins with what is there, as a process does that follows one which was killed.
func (f *folder) open() {
	f.t.Helper()
	_, n, _, err := f.backend.Backend.Deleted(context.Background(), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.backend = &backend{Backend: f.backend.Backend, pages: f.backend.pages, from: n, last: f.backend.last}
	f.store, f.log = f.backend, threadlog.New(f.backend, threadlog.WithClock(func() time.Time { return begin }))
	if f.index, err = tasks.New(f.log, key, nil, tasks.WithPages(f.backend.pages)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) keep() error {
	return errors.Join(f.index.Catch(context.Background(), "a"), f.index.Keep(context.Background()))
}

// sameAsOfTheLog compares what lists and quotas say with an index that is made of the log.
func (f *folder) sameAsOfTheLog(t *rapid.T, keys []mesh.ThreadKey) {
	t.Helper()
	f.compare(t, keys)
	fresh := f.newIndex(key)
	say := func(x *tasks.Index) (all []any) {
		for _, tenant := range []mesh.TenantID{"a", "b"} {
			if err := x.Catch(context.Background(), tenant); err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"", "ann", "bob"} {
				ofUser, ofTenant, _ := x.Used(tenant, user, begin)
				// What was used within a day is remembered of threads that were deleted, by who kept it.
				all = append(all, ofUser.Threads, ofUser.Agents, ofTenant.Threads, ofTenant.Agents)
			}
			sums, err := x.Sums(context.Background(), tasks.Sums{Tenant: tenant, All: true, First: begin, Last: begin, By: tasks.ByThread})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sums)
			for _, who := range []mesh.Principal{reader("any"), {User: "ann"}, {User: "eve"}} {
				page, err := x.List(context.Background(), tasks.Query{Tenant: tenant, Caller: who, Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, page)
			}
		}
		for _, k := range keys {
			a, err := x.Access(context.Background(), k)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a.Owner, a.Readable, len(a.Participants))
		}
		return all
	}
	if diff := cmp.Diff(say(fresh), say(f.index)); diff != "" {
		t.Fatalf("(-of the log +kept)\n%s", diff)
	}
}

// finding C5, finding C6: rows that were kept say what those say that are made of the log,
// whatever is appended, shared, deleted and begun anew, kept, killed and damaged, in any order.
func TestRowsThatWereKeptAreThoseThatAreMadeOfTheLog(t *testing.T) {
	keys := []mesh.ThreadKey{
		{Tenant: "a", ID: mesh.NewThreadID()}, {Tenant: "a", ID: mesh.NewThreadID()}, {Tenant: "a", ID: mesh.NewThreadID()},
		{Tenant: "b", ID: mesh.NewThreadID()},
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := newFolder(rt)
		p := f.backend.pages
		for range rapid.IntRange(5, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 13).Draw(rt, "step") {
			case 0, 1:
				if err := f.keep(); err != nil {
					rt.Fatal(err)
				}
			case 2:
				p.fails = errors.New("the disk is full")
				if err := f.index.Keep(context.Background()); err == nil && p.upTo > 0 {
					rt.Fatal("it does not say that rows were not kept")
				}
				p.fails = nil
			case 3, 4:
				if rapid.IntRange(0, 2).Draw(rt, "damage") == 0 && len(p.rows) > 0 {
					p.damaged = rapid.SampledFrom(slices.Sorted(maps.Keys(p.rows))).Draw(rt, "page")
				}
				f.open()
			case 5:
				f.sameAsOfTheLog(rt, keys)
			case 6:
				k := rapid.SampledFrom(keys).Draw(rt, "forgotten")
				err := f.log.Delete(context.Background(), k, threadlog.AnyPos)
				if err == nil {
					err = f.index.Forget(context.Background(), []mesh.ThreadKey{k})
				}
				if err != nil && !mesh.IsCode(err, mesh.NotFound) {
					rt.Fatal(err)
				}
			default:
				f.happen(rt, rapid.SampledFrom(keys).Draw(rt, "thread"), rapid.IntRange(0, 20).Draw(rt, "second"))
			}
		}
		f.sameAsOfTheLog(rt, keys)
		f.open()
		f.sameAsOfTheLog(rt, keys)
	})
}

// finding C6: of what was kept nothing is read from the log again; what cannot be used is
// discarded, and all is read.
func TestAStartReadsWhatCameAfterItsRows(t *testing.T) {
	f := newFolder(t)
	for i := range 50 {
		k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
		f.add(k, i, f.world.open(k, i), mesh.TaskMoved{State: completed})
	}
	if err := f.keep(); err != nil {
		t.Fatal(err)
	}
	f.open()
	f.world.open(mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}, 60)
	q := tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 1}
	if page := f.list(q); page.Total != 51 || f.backend.reads > 1 {
		t.Errorf("of %d tasks %d events were read again", page.Total, f.backend.reads)
	}
	f.backend.pages.rows["head"] = []byte{99}
	f.open()
	if page := f.list(q); page.Total != 51 || f.backend.reads != 101 || len(f.backend.pages.why) != 1 {
		t.Errorf("of %d tasks %d events were read again, discarded because of %v", page.Total, f.backend.reads, f.backend.pages.why)
	}
}

// What a list says of a thread is kept with its rows, and goes with it.
func TestASummaryIsKeptUntilItsThreadIsDeleted(t *testing.T) {
	f := newFolder(t)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	f.world.open(k, 1)
	f.list(tasks.Query{Tenant: "a", Limit: 1})
	f.index.KeepSummary(k, []byte("a summary"))
	for range 2 {
		if got := f.index.Summary(k); string(got) != "a summary" {
			t.Errorf("it is %q", got)
		}
		if err := f.keep(); err != nil {
			t.Fatal(err)
		}
		f.open()
	}
	if err := f.log.Delete(t.Context(), k, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	f.index.KeepSummary(k, []byte("too late"))
	if err := errors.Join(f.keep(), f.index.Forget(t.Context(), []mesh.ThreadKey{k})); err != nil {
		t.Fatal(err)
	}
	if got := f.index.Summary(k); got != nil {
		t.Errorf("of the deleted thread there is %q", got)
	}
	for name, page := range f.backend.pages.rows {
		if bytes.Contains(page, []byte("summary")) || bytes.Contains(page, []byte("too late")) || bytes.Contains(page, []byte(k.ID)) {
			t.Errorf("page %q has something of it", name)
		}
	}
}
