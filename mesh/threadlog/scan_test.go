package threadlog_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// FollowAll is what spans threads: pushes, indexes (S4-053 for those).
func TestFollowAllSeesEveryEventOfAllThreadsOnceInCommitOrder(t *testing.T) {
	l := threadlog.New(mem.Open())
	const writers, each = 6, 60
	all := func(after mesh.Pos) (out []threadlog.Placed) {
		for e, err := range l.FollowAll(t.Context(), after) {
			if err != nil {
				t.Error(err)
				return
			}
			if out = append(out, e); len(out)+int(after) == writers*each {
				return
			}
		}
		return
	}
	var got [4][]threadlog.Placed
	var wg, written sync.WaitGroup
	wg.Go(func() { got[0] = all(0) })
	for w := range writers {
		written.Go(func() {
			for i := range each {
				_, err := l.Append(t.Context(), logtest.Key(w), []*mesh.Event{said(fmt.Sprintf("%d/%d", w, i))}, threadlog.AppendOptions{})
				if err != nil {
					t.Error(err)
				}
				if w == 0 && i == each/2 {
					wg.Go(func() { got[1] = all(0) })
					wg.Go(func() { got[2] = all(5) })
				}
			}
		})
	}
	written.Wait()
	got[3] = all(0)
	wg.Wait()
	next := map[mesh.ThreadKey]mesh.Seq{}
	for i, e := range got[3] {
		next[e.Thread]++
		if e.Pos != mesh.Pos(i+1) || e.Seq != next[e.Thread] {
			t.Errorf("event %d is %d@%d of %s", i, e.Seq, e.Pos, e.Thread)
		}
	}
	for f, events := range [][]threadlog.Placed{got[0], got[1], append(slices.Clone(got[3][:5]), got[2]...)} {
		if !slices.EqualFunc(events, got[3], func(a, b threadlog.Placed) bool {
			return a.Thread == b.Thread && a.Pos == b.Pos && text(a.Event) == text(b.Event)
		}) {
			t.Errorf("follower %d has another sequence", f)
		}
	}
}

// Who wants decisions has each of them, in order, and knows of all that lies between,
// whether it has just happened or is read from the store, where nothing else is
// decoded.
func TestWhoWantsDecisionsHasThemAndThePlacesOfTheRest(t *testing.T) {
	backend := mem.Open()
	live, key := threadlog.New(backend), logtest.Key(1)
	var last mesh.Seq
	for i := range 100 {
		seqs, err := live.Append(t.Context(), key, []*mesh.Event{said("a"), said("b"),
			{Execution: "x", Body: mesh.TaskMoved{Reason: strconv.Itoa(i)}}}, threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{"x": last}})
		if err != nil {
			t.Fatal(err)
		}
		last = seqs[2]
	}
	for name, log := range map[string]*threadlog.Log{"live": live, "stored": threadlog.New(backend)} {
		var after mesh.Pos
		for e, err := range log.FollowDecisions(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			moved, decides := e.Body.(mesh.TaskMoved)
			if after++; e.Pos != after || e.Seq != mesh.Seq(after) || e.Thread != key || decides != (after%3 == 0) {
				t.Fatalf("%s: event %d is %d@%d, %T", name, after, e.Seq, e.Pos, e.Body)
			}
			if decides && moved.Reason != strconv.Itoa(int(after)/3-1) {
				t.Errorf("%s: decision %d is %q", name, after/3, moved.Reason)
			}
			if !decides && name == "stored" && e.Body != nil {
				t.Errorf("%s: event %d was decoded", name, after)
			}
			if after == 300 {
				break
			}
		}
	}
}
