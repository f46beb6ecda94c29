package blob_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/store/tinydisk"
)

// An upload for which the disk has no room is refused as such, keeps what has come, and goes on when
// there is room again; an event whose bytes have none is as one that the log cannot write.
func TestAnUploadGoesOnWhenAFullDiskHasRoomAgain(t *testing.T) {
	h := newHouse(t)
	tinydisk.Mount(t, h.dir, "2m")
	h.open()
	fill := filepath.Join(h.dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1_700_000), 0o600); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), 1<<20)
	b := blobOf(data)
	u, err := h.Upload(t.Context(), one, "ann", b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = u.Write(data); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("on a full disk: %v", err)
	}
	u.Close()
	if _, err := h.post(one, false, rawPart(data)); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("an event: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	n, whole := h.Received(one, "ann", b.Hash)
	if n == 0 || n == b.Size || whole {
		t.Fatalf("%d bytes are there, %v", n, whole)
	}
	if u, err = h.Upload(t.Context(), one, "ann", b, n); err == nil {
		_, err = u.Write(data[n:])
	}
	if err == nil {
		err = u.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(one, b.Hash); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
