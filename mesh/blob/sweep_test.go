package blob_test

import (
	"encoding/hex"
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
	u, err := h.Upload(other, "ann", cut, 0)
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

// While the folder is copied nothing goes that the copy's events refer to.
func TestWhatIsDeletedWhileTheFolderIsCopiedGoesAfterwards(t *testing.T) {
	h := newHouse(t)
	b := h.upload(one, "ann", []byte("bytes"))
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	done := h.Copying()
	delete(h.log, one)
	if err := h.Forget(t.Context(), []mesh.ThreadKey{one}); err != nil || len(h.files()) != 1 {
		t.Errorf("meanwhile there is %v, %v", h.files(), err)
	}
	if err := done(t.Context()); err != nil || len(h.files()) != 0 {
		t.Errorf("then there is %v, %v", h.files(), err)
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
