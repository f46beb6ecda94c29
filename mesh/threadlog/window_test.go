package threadlog_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// stored reads past everything that a Log remembers.
func stored(t *testing.T, backend threadlog.Backend, key mesh.ThreadKey, after mesh.Seq, limit int) []*mesh.Event {
	t.Helper()
	events, err := threadlog.New(backend).Read(t.Context(), key, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func sameEvents(t *testing.T, what string, got, want []*mesh.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i].Seq != want[i].Seq || got[i].Pos != want[i].Pos || !proto.Equal(eventpb.EventToProto(got[i]), eventpb.EventToProto(want[i])) {
			t.Fatalf("%s: event %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

// Whatever is read just after it was written, here or at another node, in threads
// that were deleted and begun anew, is what the store has.
func TestWhatIsReadIsWhatIsStored(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		backend := mem.Open()
		nodes := []*threadlog.Log{threadlog.New(backend), threadlog.New(backend)}
		for i := range 400 {
			key := mesh.ThreadKey{Tenant: "acme", ID: strconv.Itoa(r.IntN(4))}
			log := nodes[r.IntN(2)]
			after, limit := mesh.Seq(r.IntN(40)-1), 1+r.IntN(30)
			switch r.IntN(9) {
			case 0, 1, 2, 3:
				var batch []*mesh.Event
				for range 1 + r.IntN(3) {
					size := 1
					if r.IntN(40) == 0 {
						size = 600 << 10 // some of them are more than is remembered
					}
					batch = append(batch, &mesh.Event{ID: strconv.Itoa(r.IntN(500)), Body: mesh.CancelRequested{By: strings.Repeat("x", size)}})
				}
				if _, err := log.Append(t.Context(), key, batch, threadlog.AppendOptions{}); err != nil {
					t.Fatal(err)
				}
			case 4:
				if r.IntN(8) == 0 {
					if err := remove(t.Context(), log, key); err != nil && !mesh.IsCode(err, mesh.NotFound) {
						t.Fatal(err)
					}
				}
			case 5:
				from := mesh.Pos(r.IntN(i + 1))
				got, err := log.Scan(t.Context(), from, limit)
				if err != nil {
					t.Fatal(err)
				}
				scanned(t, backend, from, limit, got)
			case 6:
				followed(t, log, backend, key, cmp.Or(max(after, 0), 0))
			default:
				got, err := log.Read(t.Context(), key, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				sameEvents(t, "read, seed "+strconv.FormatUint(seed, 10), got, stored(t, backend, key, after, limit))
			}
		}
	}
}

// scanned checks a page of all threads: it has what is there, in order, but for
// threads that another node deleted, whose events may be there still.
func scanned(t *testing.T, backend threadlog.Backend, after mesh.Pos, limit int, got []threadlog.Placed) {
	t.Helper()
	all, err := threadlog.New(backend).Scan(t.Context(), after, 10_000)
	if err != nil || len(got) > limit || len(got) == 0 && len(all) > 0 {
		t.Fatalf("%d events of %d, %v", len(got), len(all), err)
	}
	for _, e := range got {
		for len(all) > 0 && all[0].Pos < e.Pos {
			t.Fatalf("the event at %d is left out", all[0].Pos)
		}
		if len(all) > 0 && all[0].Pos == e.Pos {
			sameEvents(t, "scanned", []*mesh.Event{e.Event}, []*mesh.Event{all[0].Event})
			all = all[1:]
		}
	}
}

// followed reads as a follower does all that is there.
func followed(t *testing.T, log *threadlog.Log, backend threadlog.Backend, key mesh.ThreadKey, after mesh.Seq) {
	t.Helper()
	want := stored(t, backend, key, after, 10_000)
	if len(want) == 0 {
		return
	}
	var got []*mesh.Event
	for e, err := range log.Follow(context.WithoutCancel(t.Context()), key, 0, after) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == len(want) {
			break
		}
	}
	sameEvents(t, "followed", got, want)
}

// remove deletes the thread as it is now.
func remove(ctx context.Context, log *threadlog.Log, key mesh.ThreadKey) error {
	info, _, err := log.Info(ctx, key)
	if err != nil {
		return err
	}
	return log.Delete(ctx, key, info.LastPos)
}
