package memindex_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

var one, two = mesh.ThreadKey{Tenant: "acme", ID: "1"}, mesh.ThreadKey{Tenant: "acme", ID: "2"}

func batch(ids ...string) *threadlog.Batch {
	b := &threadlog.Batch{}
	for _, id := range ids {
		b.Entries = append(b.Entries, threadlog.Entry{ID: id, Scope: "s", Decision: true})
	}
	return b
}

func draft(t *testing.T, d *memindex.Draft, k mesh.ThreadKey, b *threadlog.Batch) threadlog.Appended {
	t.Helper()
	at, err := d.Add(k, b)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func infos(b *memindex.Book) []threadlog.Info { return b.Threads("acme", 0, 10) }

func TestBatchesOfADraftAreJudgedOneAfterTheOther(t *testing.T) {
	var b memindex.Book
	d := b.Draft()
	draft(t, d, one, batch("a", "b"))
	draft(t, d, two, batch("a"))
	stale := batch("c")
	stale.Expect = []threadlog.Expect{{Scope: "s", Seq: 1}}
	if _, err := d.Add(one, stale); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("a stale batch: %v", err)
	}
	stale.Expect[0].Seq = 2
	want := threadlog.Appended{Seqs: []mesh.Seq{3, 1}, Pos: []mesh.Pos{4, 0}}
	stale.Entries = append(stale.Entries, batch("a").Entries...)
	if diff := cmp.Diff(want, draft(t, d, one, stale)); diff != "" {
		t.Error(diff)
	}
	if d.Last() != 4 || d.Records() != 4 || b.Last() != 0 || infos(&b) != nil {
		t.Errorf("before the commit: draft %d/%d, book %d %v", d.Last(), d.Records(), b.Last(), infos(&b))
	}
	d.Commit()
	wantInfos := []threadlog.Info{{Key: one, Last: 3, LastPos: 4, FirstPos: 1}, {Key: two, Last: 1, LastPos: 3, FirstPos: 3}}
	if diff := cmp.Diff(wantInfos, infos(&b)); diff != "" || b.Last() != 4 || b.Records() != 4 {
		t.Errorf("after the commit: %d/%d %s", b.Last(), b.Records(), diff)
	}
	if diff := cmp.Diff([]mesh.Pos{2, 4}, b.Positions(one, 1, 10)); diff != "" {
		t.Error(diff)
	}
}

func TestADraftThatIsDroppedLeavesNoTrace(t *testing.T) {
	var b memindex.Book
	d := b.Draft()
	draft(t, d, one, batch("a"))
	d.Commit()
	for range 2 {
		d = b.Draft()
		again := batch("b")
		again.Expect = []threadlog.Expect{{Scope: "s", Seq: 1}}
		again.Entries[0].Claim = 1
		want := threadlog.Appended{Seqs: []mesh.Seq{2}, Pos: []mesh.Pos{2}}
		if diff := cmp.Diff(want, draft(t, d, one, again)); diff != "" {
			t.Error(diff)
		}
		draft(t, d, two, batch("x"))
	}
	if diff := cmp.Diff([]threadlog.Info{{Key: one, Last: 1, LastPos: 1, FirstPos: 1}}, infos(&b)); diff != "" {
		t.Error(diff)
	}
}

func TestRestoreRefusesWhatDoesNotFollow(t *testing.T) {
	var b memindex.Book
	e := &threadlog.Entry{}
	for i, step := range []struct {
		key mesh.ThreadKey
		seq mesh.Seq
		pos mesh.Pos
		ok  bool
	}{
		{one, 1, 3, true}, {two, 1, 4, true}, {one, 2, 7, true},
		{one, 4, 8, false}, {one, 2, 8, false}, {two, 2, 7, false}, {two, 2, 6, false}, {one, 3, 8, true},
	} {
		if err := b.Restore(step.key, step.seq, step.pos, e, 0); (err == nil) != step.ok {
			t.Errorf("step %d: %v", i, err)
		}
	}
	b.Reserve(20)
	b.Reserve(10)
	if d := b.Draft(); draft(t, d, one, batch("")).Pos[0] != 21 {
		t.Errorf("the next position is %d", d.Last())
	}
	whole, err := b.Whole("test", one, 8)
	if diff := cmp.Diff([]mesh.Pos{3, 7, 8}, whole); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	b.Delete(one)
	if _, err := b.Whole("test", one, 8); b.Records() != 1 || !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("%d records are left, %v", b.Records(), err)
	}
}
