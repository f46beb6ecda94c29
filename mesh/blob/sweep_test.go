package blob_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/blob"
)

// Whatever is left of an upload is settled an hour later: the thread has it if an event refers to
// it, whenever the process was killed, and else it goes.
func TestWhatIsLeftOfUploadsIsSettledByTheSweep(t *testing.T) {
	h := newHouse(t)
	lost := h.upload(one, "ann", []byte("never sent"))
	unsure := h.upload(one, "ann", []byte("sent, and killed then"))
	if _, err := h.post(one, true, refTo(unsure)); err != nil {
		t.Fatal(err)
	}
	unread := h.upload(one, "ann", []byte("sent, and killed then, and not read"))
	h.log[one] = map[string]bool{unsure.Hash: true, unread.Hash: true}
	cut := blobOf([]byte("half of it"))
	u, err := h.Upload(t.Context(), other, "ann", cut, 0)
	if err == nil {
		_, err = u.Write([]byte("half"))
	}
	if err != nil {
		t.Fatal(err)
	}
	h.open()
	h.now = h.now.Add(blob.Age - time.Minute)
	if err := h.Sweep(t.Context()); err != nil || len(h.files()) != 4 {
		t.Errorf("before an hour there is %v, %v", h.files(), err)
	}
	if got, err := h.read(one, unsure.Hash); err != nil || len(got) == 0 {
		t.Errorf("what an event refers to is not read: %v", err)
	}
	h.now = h.now.Add(2 * time.Minute)
	if err := h.Sweep(t.Context()); err != nil || len(h.files()) != 2 || !slices.Contains(h.files(), unsure.Hash) || !slices.Contains(h.files(), unread.Hash) {
		t.Errorf("after it there is %v, %v; %s and %s were to go", h.files(), err, lost.Hash, cut.Hash)
	}
	if h.Bytes("acme") != unsure.Size+unread.Size {
		t.Errorf("the tenant has %d bytes", h.Bytes("acme"))
	}
}

// What a user uploaded goes with the user; what threads have goes with them.
func TestUploadsGoWithTheirUser(t *testing.T) {
	h := newHouse(t)
	of := h.upload(one, "bob", []byte("bob's"))
	h.upload(one, "ann", []byte("ann's"))
	h.upload(rival, "ann", []byte("another ann's"))
	sent := h.upload(one, "ann", []byte("sent"))
	if _, err := h.post(one, false, refTo(sent)); err != nil {
		t.Fatal(err)
	}
	ann := mesh.Owner{Tenant: "acme", User: "ann"}
	for _, countOnly := range []bool{true, false} {
		if held, err := h.Erase(t.Context(), ann, countOnly); err != nil || len(held) != 1 || held[0].Count != 1 {
			t.Errorf("%+v, %v", held, err)
		}
	}
	if held, err := h.Erase(t.Context(), ann, false); err != nil || len(held) > 0 {
		t.Errorf("again: %+v, %v", held, err)
	}
	if n, whole := h.Received(one, "bob", of.Hash); !whole || len(h.files()) != 3 {
		t.Errorf("of bob %d bytes are there, and %v", n, h.files())
	}
}

// deletedWhileCopied is a store of which a thread was deleted while its folder is copied; done ends
// the copy.
func deletedWhileCopied(t *testing.T) (h *house, done func(context.Context) error) {
	t.Helper()
	h = newHouse(t)
	b := h.upload(one, "ann", []byte("bytes"))
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	done = h.Copying()
	delete(h.log, one)
	if err := h.Forget(t.Context(), []mesh.ThreadKey{one}); err != nil || len(h.files()) != 1 {
		t.Errorf("meanwhile there is %v, %v", h.files(), err)
	}
	return h, done
}

// While the folder is copied nothing goes that the copy's events refer to.
func TestWhatIsDeletedWhileTheFolderIsCopiedGoesAfterwards(t *testing.T) {
	h, done := deletedWhileCopied(t)
	if err := done(t.Context()); err != nil || len(h.files()) != 0 {
		t.Errorf("then there is %v, %v", h.files(), err)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("of the thread is left %v, %v", left, err)
	}
}

// What is to go later, and cannot be removed then, goes with the next sweep.
func TestWhatWasToGoLaterIsTriedAgain(t *testing.T) {
	h, done := deletedWhileCopied(t)
	h.unread = errors.New("the log cannot be read")
	if copied, swept := done(t.Context()), h.Sweep(t.Context()); copied == nil || swept == nil || len(h.files()) != 1 {
		t.Errorf("of what cannot be removed there is %v: %v, %v", h.files(), copied, swept)
	}
	h.unread = nil
	if err := h.Sweep(t.Context()); err != nil || len(h.files()) != 0 {
		t.Errorf("then there is %v, %v", h.files(), err)
	}
}

// What is to go later goes also where the process dies before and the thread has begun anew: its
// events refer to other bytes.
func TestWhatWasToGoLaterGoesThoughTheThreadBeganAnew(t *testing.T) {
	for _, why := range []string{"a copy", "an event"} {
		for _, killed := range []bool{false, true} {
			h := newHouse(t)
			old, fresh := h.upload(one, "ann", []byte("old")), h.upload(one, "ann", []byte("fresh"))
			if _, err := h.post(one, false, refTo(old)); err != nil {
				t.Fatal(err)
			}
			done := func() {}
			if why == "a copy" {
				end := h.Copying()
				done = func() { _ = end(t.Context()) }
			} else if added, err := h.Keep(t.Context(), one, []*mesh.Event{posted(refTo(old))}); err == nil && added != nil {
				done = func() { added(false) }
			}
			delete(h.log, one)
			err := h.Forget(t.Context(), []mesh.ThreadKey{one})
			if _, refused := h.post(one, false, refTo(fresh)); err != nil || refused != nil || len(h.files()) != 2 {
				t.Errorf("%s: meanwhile there is %v, %v, %v", why, h.files(), err, refused)
			}
			if killed {
				h.open()
			} else {
				done()
			}
			if err := h.Sweep(t.Context()); err != nil || !slices.Equal(h.files(), []string{fresh.Hash}) {
				t.Errorf("%s, killed %v: then there is %v, %v", why, killed, h.files(), err)
			}
		}
	}
}

// Who uploads once more what threads have by now, and is cut off, changes nothing of it: the bytes
// of an upload, and of threads, can be one file with several names.
func TestAnUploadThatBeginsAnewLeavesTheBytesOfThreads(t *testing.T) {
	for _, how := range []string{"the same user", "for another thread", "from the middle", "cut off at the end", "with other bytes"} {
		h := newHouse(t)
		data := []byte(strings.Repeat("bytes", 100))
		b := h.upload(one, "ann", data)
		e := posted(refTo(b))
		if _, err := h.Keep(t.Context(), one, []*mesh.Event{e}); err != nil {
			t.Fatal(err)
		}
		h.refer(one, e)
		h.open() // who was killed before the upload was the thread's alone
		user, at, from, write := "bob", other, int64(0), []byte("byt")
		switch how {
		case "the same user":
			user, at = "ann", one
		case "from the middle":
			from = 100
		case "cut off at the end":
			from, write = b.Size, nil
		case "with other bytes":
			write = []byte(strings.Repeat("BYTES", 100))
		}
		if at == other { // for which the bytes come once more, and are those of the first thread
			if got, err := h.read(one, b.Hash); err != nil || len(got) == 0 {
				t.Fatal(err)
			}
			h.upload(other, user, data)
		}
		for range 2 { // the second one begins with what the first one left
			u, err := h.Upload(t.Context(), at, user, b, from)
			if err != nil {
				t.Fatal(how, err)
			}
			if _, err = u.Write(write); err == nil && how == "with other bytes" {
				err = u.Commit(t.Context())
			}
			if mesh.IsCode(err, mesh.Invalid) != (how == "with other bytes") {
				t.Errorf("%s: %v", how, err)
			}
			u.Close()
			if got, err := h.read(one, b.Hash); err != nil || string(got) != string(data) {
				t.Errorf("%s: the thread has %d bytes of %d, %v", how, len(got), len(data), err)
			}
			from = 0
		}
	}
}

func TestACheckFindsWhatIsDamagedAndWhatIsMissing(t *testing.T) {
	h := newHouse(t)
	b := h.upload(one, "ann", []byte("bytes"))
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if found, err := blob.Check(h.dir, h.log); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	gone := blobOf([]byte("gone"))
	h.log[other] = map[string]bool{gone.Hash: true}
	at := filepath.Join(h.dir, hex.EncodeToString([]byte(one.Tenant)), one.ID, b.Hash)
	if err := os.WriteFile(at, []byte("Bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := blob.Check(h.dir, h.log)
	if err != nil || len(found) != 2 || !strings.Contains(found[0].What, "another") || !strings.Contains(found[1].What, "missing") {
		t.Errorf("%v, %v", found, err)
	}
}
