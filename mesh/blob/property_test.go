package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/blob"
)

// contents are the bytes that threads have in common.
var contents = [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 4000), {}, []byte("four")}

// Whatever is uploaded, sent, lost, deleted and erased, wherever the process is killed: an event's
// bytes are there as long as it is, and in the end nothing else is; they are counted once for each
// tenant.
func TestBytesAreThereAsLongAsAnEventRefersToThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t)
		threads := []mesh.ThreadKey{one, other, rival}
		key := rapid.SampledFrom(threads)
		data := rapid.SampledFrom(contents)
		user := rapid.SampledFrom([]string{"ann", "bob"})
		copied := func() {}
		rt.Repeat(map[string]func(*rapid.T){
			"upload": func(rt *rapid.T) { h.upload(key.Draw(rt, "thread"), user.Draw(rt, "user"), data.Draw(rt, "data")) },
			"half": func(rt *rapid.T) {
				if u, err := h.Upload(t.Context(), key.Draw(rt, "thread"), user.Draw(rt, "user"), blobOf(contents[1]), 0); err == nil {
					_, _ = u.Write(contents[1][:100])
					u.Close()
				}
			},
			"send": func(rt *rapid.T) { _, _ = h.post(key.Draw(rt, "thread"), false, refTo(blobOf(data.Draw(rt, "data")))) },
			"send and lose": func(rt *rapid.T) {
				_, _ = h.post(key.Draw(rt, "thread"), true, refTo(blobOf(data.Draw(rt, "data"))))
			},
			"be killed when it was sent": func(rt *rapid.T) {
				k, e := key.Draw(rt, "thread"), posted(refTo(blobOf(data.Draw(rt, "data"))))
				if _, err := h.Keep(t.Context(), k, []*mesh.Event{e}); err == nil {
					h.refer(k, e)
				}
				h.open()
				copied = func() {}
			},
			"delete": func(rt *rapid.T) {
				k := key.Draw(rt, "thread")
				delete(h.log, k)
				if err := h.Forget(t.Context(), []mesh.ThreadKey{k}); err != nil {
					rt.Fatal(err)
				}
			},
			"be killed when it was deleted": func(rt *rapid.T) {
				delete(h.log, key.Draw(rt, "thread"))
				h.open()
				copied = func() {}
				h.reconcile(rt)
			},
			"erase": func(rt *rapid.T) {
				if _, err := h.Erase(t.Context(), mesh.Owner{Tenant: "acme", User: user.Draw(rt, "user")}, false); err != nil {
					rt.Fatal(err)
				}
			},
			"copy": func(*rapid.T) {
				done := h.Copying()
				before := copied
				copied = func() { before(); _ = done(t.Context()) }
			},
			"end copies": func(*rapid.T) { copied(); copied = func() {} },
			"sweep":      func(rt *rapid.T) { h.sweep(rt) },
			"":           func(rt *rapid.T) { h.holds(rt) },
		})
		copied()
		h.sweep(rt)
		h.reconcile(rt)
		h.holds(rt)
		var want []string
		for k, refs := range h.log {
			for hash := range refs {
				want = append(want, string(k.Tenant)+hash)
			}
		}
		if files := h.files(); len(files) != len(want) {
			rt.Fatalf("there is %v, and events refer to %v", files, want)
		}
		slices.Sort(want)
		sizes := map[string]int64{}
		for _, c := range contents {
			for _, tenant := range []string{"acme", "rival"} {
				if slices.Contains(want, tenant+blobOf(c).Hash) {
					sizes[tenant] += int64(len(c))
				}
			}
		}
		for _, tenant := range []mesh.TenantID{"acme", "rival"} {
			if got := h.Bytes(tenant); got != sizes[string(tenant)] {
				rt.Fatalf("%s has %d bytes, and %d are counted", tenant, sizes[string(tenant)], got)
			}
		}
	})
}

func (h *house) sweep(rt *rapid.T) {
	h.now = h.now.Add(2 * blob.Age)
	if err := h.Sweep(h.t.Context()); err != nil {
		rt.Fatal(err)
	}
}

// reconcile is what the keeper does after a start.
func (h *house) reconcile(rt *rapid.T) {
	var dead []mesh.ThreadKey
	for k, err := range h.Kept(h.t.Context()) {
		if err != nil {
			rt.Fatal(err)
		}
		if h.log[k] == nil {
			dead = append(dead, k)
		}
	}
	if err := h.Forget(h.t.Context(), dead); err != nil {
		rt.Fatal(err)
	}
}

// holds fails unless all is there to which events refer.
func (h *house) holds(rt *rapid.T) {
	for _, k := range slices.SortedFunc(maps.Keys(h.log), func(a, b mesh.ThreadKey) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) }) {
		for _, c := range contents {
			if !h.log[k][blobOf(c).Hash] {
				continue
			}
			if got, err := h.read(k, blobOf(c).Hash); err != nil || !bytes.Equal(got, c) {
				rt.Fatal(fmt.Sprintf("%s: %d bytes of %d, %v", k, len(got), len(c), err))
			}
		}
	}
}

// An upload of any size, and a read of it, take as much memory as a piece.
func TestAnUploadTakesTheMemoryOfAPiece(t *testing.T) {
	const size = 256 << 20
	s, err := blob.Open(t.TempDir(), blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, mesh.MaxPiece)
	sum := sha256.New()
	for range size / len(piece) {
		sum.Write(piece)
	}
	b := mesh.Blob{Hash: hex.EncodeToString(sum.Sum(nil)), Size: size}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := s.Upload(t.Context(), one, "ann", b, 0)
	for range size / len(piece) {
		if err == nil {
			_, err = u.Write(piece)
		}
	}
	if err == nil {
		err = u.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > mesh.MaxEvent {
		t.Errorf("%d bytes are allocated for %d", n, int64(size))
	}
}
