package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/blob"
)

var (
	one   = mesh.ThreadKey{Tenant: "acme", ID: "11111111-1111-4111-8111-111111111111"}
	other = mesh.ThreadKey{Tenant: "acme", ID: "22222222-2222-4222-8222-222222222222"}
	rival = mesh.ThreadKey{Tenant: "rival", ID: one.ID}
)

// A house is a store, with a log of which only the references are there.
type house struct {
	*blob.Store
	t   *testing.T
	dir string
	now time.Time
	log map[mesh.ThreadKey]map[string]bool

	unread error // why the log cannot be read
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir(), now: time.Now(), log: map[mesh.ThreadKey]map[string]bool{}}
	h.open()
	return h
}

// open opens the folder, as the next process does after one that was killed.
func (h *house) open() {
	h.t.Helper()
	s, err := blob.Open(h.dir, blob.Options{Most: 1 << 20, Pending: 3 << 20, Uploads: 3, Now: func() time.Time { return h.now }})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Store = s.WithReferences(func(_ context.Context, key mesh.ThreadKey) (map[string]bool, error) { return h.log[key], h.unread }, 0)
}

func blobOf(data []byte) mesh.Blob {
	sum := sha256.Sum256(data)
	return mesh.Blob{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// upload uploads the bytes.
func (h *house) upload(key mesh.ThreadKey, user string, data []byte) mesh.Blob {
	h.t.Helper()
	b := blobOf(data)
	u, err := h.Upload(h.t.Context(), key, user, b, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer u.Close()
	for piece := range slices.Chunk(data, 1000) {
		if _, err := u.Write(piece); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := u.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return b
}

// post adds an event with the parts, or not if it is lost.
func (h *house) post(key mesh.ThreadKey, lost bool, parts ...*a2apb.Part) (*mesh.Event, error) {
	h.t.Helper()
	e := posted(parts...)
	added, err := h.Keep(h.t.Context(), key, []*mesh.Event{e})
	if err != nil {
		return nil, err
	}
	if !lost {
		h.refer(key, e)
	}
	if added != nil {
		added(!lost)
	}
	return e, nil
}

func posted(parts ...*a2apb.Part) *mesh.Event {
	return &mesh.Event{Body: mesh.MessagePosted{Message: &a2apb.Message{MessageId: "m", Parts: parts}}}
}

// refer has the log refer to what the event does.
func (h *house) refer(key mesh.ThreadKey, e *mesh.Event) {
	for b := range mesh.Blobs(mesh.PartsOf(e.Body)) {
		if h.log[key] == nil {
			h.log[key] = map[string]bool{}
		}
		h.log[key][b.Hash] = true
	}
}

func refTo(b mesh.Blob) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Url{Url: b.URL()}, Filename: "x.bin"}
}

func rawPart(data []byte) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: data}, Filename: "x.bin"}
}

// read returns what the thread has by that hash.
func (h *house) read(key mesh.ThreadKey, hash string) ([]byte, error) {
	r, size, err := h.Open(h.t.Context(), key, hash)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if int64(len(data)) != size {
		h.t.Errorf("%d bytes are read of %d", len(data), size)
	}
	return data, errorsOf(err, r.Close())
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *house) files() (all []string) {
	_ = filepath.WalkDir(h.dir, func(at string, d os.DirEntry, _ error) error {
		if !d.IsDir() && d.Name() != "deleted" {
			all = append(all, filepath.Base(at))
		}
		return nil
	})
	return all
}

// Bytes are there for the thread whose event refers to them, and for no other one, of another
// tenant or the same one, whoever knows their hash.
func TestBytesAreReadByTheThreadThatRefersToThemAlone(t *testing.T) {
	h := newHouse(t)
	data := bytes.Repeat([]byte("secret "), 20_000)
	b := h.upload(one, "ann", data)
	if _, err := h.read(one, b.Hash); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("before an event refers to them: %v", err)
	}
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(one, b.Hash); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, key := range []mesh.ThreadKey{other, rival} {
		unknown := blobOf([]byte("never seen"))
		_, err := h.read(key, b.Hash)
		_, none := h.read(key, unknown.Hash)
		if !mesh.IsCode(err, mesh.NotFound) || err.Error() != none.Error() {
			t.Errorf("in %s: %v, and of what there is nowhere: %v", key, err, none)
		}
		if n, whole := h.Received(key, "ann", b.Hash); n != 0 || whole {
			t.Errorf("in %s %d bytes have come, %v", key, n, whole)
		}
		if _, err := h.post(key, false, refTo(b)); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("an event of %s refers to them: %v", key, err)
		}
	}
	if n, _ := h.Received(one, "bob", b.Hash); n != 0 {
		t.Errorf("somebody else is told that %d bytes have come", n)
	}
	wrong := b
	wrong.Size++
	for of, key := range map[mesh.Blob]mesh.ThreadKey{wrong: one, b: rival} {
		if _, err := h.Peek(key, of); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("%v of %v is seen before its message: %v", of, key, err)
		}
	}
	if _, err := h.post(one, false, refTo(wrong)); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a reference with another size: %v", err)
	}
}

// Who follows the thread hears of an event before its writer does, and reads what it refers to.
func TestBytesAreReadAsSoonAsTheirEventIsThere(t *testing.T) {
	h := newHouse(t)
	b := h.upload(one, "ann", []byte("bytes"))
	e := posted(refTo(b))
	added, err := h.Keep(t.Context(), one, []*mesh.Event{e})
	if err != nil {
		t.Fatal(err)
	}
	h.refer(one, e)
	for range 2 {
		if got, err := h.Peek(one, b); err != nil || string(got) != "bytes" {
			t.Errorf("seen before their message, or after it: %q, %v", got, err)
		}
		if got, err := h.read(one, b.Hash); err != nil || string(got) != "bytes" {
			t.Errorf("%q, %v", got, err)
		}
		added(true)
		added = func(bool) {}
	}
	if n := h.Bytes("acme"); n != b.Size || len(h.files()) != 1 {
		t.Errorf("the tenant has %d bytes, and there is %v", n, h.files())
	}
}

// An upload that was cut off goes on after what has come, in another process too.
func TestAnUploadGoesOnWhereItWasCutOff(t *testing.T) {
	h := newHouse(t)
	data := bytes.Repeat([]byte("0123456789"), 5000)
	b := blobOf(data)
	u, err := h.Upload(t.Context(), one, "ann", b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write(data[:20_000]); err != nil {
		t.Fatal(err)
	}
	if n, whole := h.Received(one, "ann", b.Hash); n != 20_000 || whole {
		t.Errorf("while it is written %d bytes have come, %v", n, whole)
	}
	if _, err := h.Upload(t.Context(), one, "ann", b, 0); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("a second writer: %v", err)
	}
	if err := u.Commit(t.Context()); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("it ends before its end: %v", err)
	}
	h.open() // the process was killed
	n, whole := h.Received(one, "ann", b.Hash)
	if n != 20_000 || whole {
		t.Fatalf("%d bytes have come, %v", n, whole)
	}
	if _, err := h.Upload(t.Context(), one, "ann", b, n+1); !mesh.IsCode(err, mesh.Precondition) || mesh.FieldOf(err) != "offset" {
		t.Errorf("it goes on after a hole: %v", err)
	}
	if u, err = h.Upload(t.Context(), one, "ann", b, n-5000); err != nil { // who is not sure sends some again
		t.Fatal(err)
	}
	if _, err := u.Write(data[n-5000:]); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write([]byte("x")); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("more bytes than there are: %v", err)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.Close()
	if n, whole := h.Received(one, "ann", b.Hash); n != b.Size || !whole {
		t.Errorf("%d bytes have come, %v", n, whole)
	}
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(one, b.Hash); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBytesThatAreNotWhatTheirHashSaysAreNotTaken(t *testing.T) {
	h := newHouse(t)
	b := blobOf([]byte("hello"))
	u, err := h.Upload(t.Context(), one, "ann", b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write([]byte("HELLO")); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(t.Context()); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "sha256" {
		t.Errorf("%v", err)
	}
	u.Close()
	if left := h.files(); len(left) > 0 || h.Bytes("acme") != 0 {
		t.Errorf("there is %v, %d bytes", left, h.Bytes("acme"))
	}
	for _, bad := range []mesh.Blob{{Hash: "../" + strings.Repeat("a", 61), Size: 1}, {Hash: strings.ToUpper(b.Hash), Size: 1}, {Hash: b.Hash, Size: -1}} {
		if _, err := h.Upload(t.Context(), one, "ann", bad, 0); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// What a tenant uploads is bounded, and what its threads have is counted, each blob once.
func TestUploadsAreBoundedAndBytesCounted(t *testing.T) {
	h := newHouse(t)
	if _, err := h.Upload(t.Context(), one, "ann", mesh.Blob{Hash: blobOf(nil).Hash, Size: 1<<20 + 1}, 0); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one that is too large: %v", err)
	}
	var open []*blob.Upload
	for i := range 3 {
		u, err := h.Upload(t.Context(), one, "ann", mesh.Blob{Hash: blobOf([]byte{byte(i)}).Hash, Size: 1 << 20}, 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, u)
	}
	if _, err := h.Upload(t.Context(), other, "bob", blobOf([]byte("x")), 0); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("a fourth at a time: %v", err)
	}
	open[0].Close()
	open[1].Close()
	if _, err := h.Upload(t.Context(), rival, "ann", blobOf([]byte("x")), 0); err != nil {
		t.Errorf("of another tenant: %v", err)
	}
	open[2].Close()
	data := make([]byte, 1<<20)
	b := h.upload(one, "ann", data)
	if _, err := h.post(one, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if h.upload(other, "bob", data) != b {
		t.Fatal("it is another blob")
	}
	if _, err := h.post(other, false, refTo(b)); err != nil {
		t.Fatal(err)
	}
	if n := h.Bytes("acme"); n != b.Size || h.ThreadBytes(one) != b.Size || h.ThreadBytes(other) != b.Size {
		t.Errorf("the tenant has %d bytes, its threads %d and %d", n, h.ThreadBytes(one), h.ThreadBytes(other))
	}
	first, second := stat(t, h, one, b), stat(t, h, other, b)
	if !os.SameFile(first, second) {
		t.Error("the bytes are there twice")
	}
}

func stat(t *testing.T, h *house, key mesh.ThreadKey, b mesh.Blob) os.FileInfo {
	t.Helper()
	st, err := os.Stat(filepath.Join(h.dir, hex.EncodeToString([]byte(key.Tenant)), key.ID, b.Hash))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The bytes of a part for which its event has no room are kept, and others stay in it.
func TestBytesThatHaveNoRoomInAnEventAreKeptBesideIt(t *testing.T) {
	h := newHouse(t)
	big, small := bytes.Repeat([]byte("b"), 900<<10), bytes.Repeat([]byte("s"), 300<<10)
	e, err := h.post(one, false, &a2apb.Part{Content: &a2apb.Part_Text{Text: "look"}},
		&a2apb.Part{Content: &a2apb.Part_Raw{Raw: small}, Filename: "small"}, &a2apb.Part{Content: &a2apb.Part_Raw{Raw: big}, Filename: "big", MediaType: "image/png"})
	if err != nil {
		t.Fatal(err)
	}
	parts := mesh.PartsOf(e.Body)
	b, ok := mesh.ParseBlob(parts[2].GetUrl())
	if !ok || b != blobOf(big) || parts[2].GetFilename() != "big" || parts[2].GetMediaType() != "image/png" || !bytes.Equal(parts[1].GetRaw(), small) {
		t.Errorf("the parts are %v", parts[2])
	}
	if got, err := h.read(one, b.Hash); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, logged := mesh.BodySize(e.Body); logged > mesh.MaxEvent {
		t.Errorf("the event has %d bytes", logged)
	}
	before := proto.CloneOf(e.Body.(mesh.MessagePosted).Message)
	if again, err := h.post(one, false, parts...); err != nil || !proto.Equal(again.Body.(mesh.MessagePosted).Message, before) {
		t.Errorf("the same once more: %v", err)
	}
}
