package retention_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
)

// A lossy store has threads that are damaged, with the owners that are still known.
type lossy struct {
	*mem.Store
	of map[mesh.ThreadKey]string
}

func (l lossy) err(key mesh.ThreadKey) error {
	if _, damaged := l.of[key]; damaged {
		return mesh.Errorf(mesh.DataLoss, "lossy", "it is damaged")
	}
	return nil
}

func (l lossy) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	recs, err := l.Store.Read(ctx, key, after, limit)
	return recs, errors.Join(l.err(key), err)
}

func (l lossy) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	if err := l.err(key); err != nil {
		return err
	}
	return l.Store.Delete(ctx, key, last)
}

func (l lossy) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if err := l.err(key); err != nil {
		return threadlog.Appended{}, err
	}
	return l.Store.Append(ctx, key, b)
}

// lose has the threads be damaged, of which the next process finds out.
func (h *house) lose(owners map[mesh.ThreadKey]string) {
	maps.Copy(h.lost.of, owners)
	h.open()
	h.begin()
}

// What is damaged is closed: it stays, and keeps nothing else from going, whosever it is. The
// user of one stays marked, and whoever may have had one.
func TestWhatIsDamagedStaysAndKeepsNothingElse(t *testing.T) {
	h := newHouse(t)
	h.has[alice] = 2
	h.of("acme", "alice", completed)
	with := h.of("acme", "bob", completed, "alice")
	damaged, bobs := h.of("acme", "alice", working), h.of("acme", "bob", working)
	h.lose(map[mesh.ThreadKey]string{damaged: "alice", bobs: "bob"})
	count, err := h.Erase(by(t), alice, true)
	if want := "shares in threads of others 1, threads 1, damaged threads, which stay 1, things 2"; err != nil || held(count) != want {
		t.Errorf("counted are %s, %v, want %s", held(count), err, want)
	}
	for range 2 {
		if _, err := h.Erase(by(t), alice, false); !mesh.IsCode(err, mesh.DataLoss) || !strings.Contains(mesh.DetailOf(err), "1 conversations") || !h.marked[alice] || h.has[alice] > 0 {
			t.Errorf("%v; marked are %v, there is %v", err, h.marked, h.has)
		}
	}
	h.want("with a damaged one", with, damaged, bobs)
	eve := mesh.Owner{Tenant: "acme", User: "eve"}
	if _, err := h.Erase(by(t), eve, false); err != nil || h.marked[eve] {
		t.Errorf("who has no damaged one: %v", err)
	}
	h.lose(map[mesh.ThreadKey]string{bobs: ""}) // of which what was lost said whose it is
	if _, err := h.Erase(by(t), eve, false); !mesh.IsCode(err, mesh.DataLoss) || !h.marked[eve] {
		t.Errorf("who may have had the damaged one: %v", err)
	}
	old := retention.Query{Tenant: "acme", Before: time.Now().Add(time.Hour), Limit: 9, May: anybody}
	if page, err := h.DeleteIdle(t.Context(), old); err != nil || page.Deleted != 1 {
		t.Errorf("of those that are old went %+v, %v", page, err)
	}
	h.want("at the end", damaged, bobs)
}

// A thread into which something comes between the look at it and its end goes with the next look.
func TestAThreadIntoWhichSomethingComesGoesToo(t *testing.T) {
	h := newHouse(t)
	key, late := h.of("acme", "alice", completed), true
	h.record.begins = func() {
		if late {
			late = false
			h.add(key, 0, "", mesh.ThreadShared{Participants: []string{"bob"}})
		}
	}
	if all, err := h.Erase(by(t), alice, false); err != nil || held(all) != "threads 1" || len(h.marked) > 0 {
		t.Errorf("%s, %v; marked are %v", held(all), err, h.marked)
	}
	h.want("at the end")
}

// A slow holder takes a while, and counts who is at it.
type slow struct{ at, most atomic.Int32 }

func (s *slow) Erase(context.Context, mesh.Owner, bool) ([]mesh.Held, error) {
	s.most.Store(max(s.most.Load(), s.at.Add(1)))
	time.Sleep(time.Second)
	s.at.Add(-1)
	return nil, nil
}

// Of several who erase one user at once each waits for the one before, and of several users not.
func TestAUserIsErasedByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(slow)
		e := retention.NewEraser(retention.EraserConfig{
			Deleter: newWorld(t).Deleter, Holders: []retention.Holder{s},
			Mark:   func(context.Context, mesh.TenantID, string, time.Time) error { return nil },
			Revoke: func(context.Context, mesh.Owner) error { return nil },
		})
		for want, users := range map[int32][]mesh.Owner{1: {alice, alice, alice}, 2: {alice, bob}} {
			s.most.Store(0)
			var wg sync.WaitGroup
			for _, o := range users {
				wg.Go(func() {
					if _, err := e.Erase(by(t), o, false); err != nil {
						t.Errorf("%s: %v", o.User, err)
					}
				})
			}
			wg.Wait()
			if got := s.most.Load(); got != want {
				t.Errorf("of %v %d are erased at once, want %d", users, got, want)
			}
		}
	})
}
