package mesh_test

import (
	"bytes"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// Whatever message an artifact was decoded from: the bytes that are found for it
// decode to it.
func FuzzBytesThatAreFoundAreTheArtifacts(f *testing.F) {
	field := func(n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), v)
	}
	artifact, err := proto.Marshal(&a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}}})
	if err != nil {
		f.Fatal(err)
	}
	other := field(1, []byte("b"))
	f.Add(field(4, field(3, artifact)))
	f.Add(append(field(4, field(3, artifact)), field(4, field(3, other))...))                               // twice, which merges
	f.Add(field(4, append(field(3, artifact), field(3, other)...)))                                         // twice below
	f.Add(append(field(3, nil), field(4, field(3, append(artifact, field(999, other)...)))...))             // newer, and after another payload
	f.Add(append(protowire.AppendTag(nil, 4, protowire.Fixed32Type), append(other, field(4, other)...)...)) // of another type
	f.Add(field(4, nil))
	f.Fuzz(func(t *testing.T, message []byte) {
		r := new(a2apb.StreamResponse)
		if proto.Unmarshal(message, r) != nil || r.GetArtifactUpdate() == nil {
			return
		}
		body := mesh.ArtifactAppended{Artifact: r.GetArtifactUpdate().GetArtifact()}
		body.Wire = mesh.WireIn(message, body.Artifact, 4, 3)
		found, ok := body.Bytes()
		if ok != (body.Artifact != nil) {
			t.Fatalf("%x: bytes of an artifact that is there (%v): %v", message, body.Artifact != nil, ok)
		}
		got := new(a2apb.Artifact)
		if err := proto.Unmarshal(found, got); ok && (err != nil || !proto.Equal(got, body.Artifact)) {
			t.Fatalf("%x: found %v (%v), want %v", message, got, err, body.Artifact)
		}
	})
}

// Bytes of an artifact that was replaced are nobody's.
func TestAnArtifactThatIsReplacedHasNoBytes(t *testing.T) {
	body := mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a"}}
	body.Wire = mesh.WireOf(body.Artifact)
	if b, ok := body.Bytes(); !ok || !bytes.Equal(b, []byte("\n\x01a")) {
		t.Errorf("bytes %x, %v", b, ok)
	}
	body.Artifact = &a2apb.Artifact{ArtifactId: "b"}
	if b, ok := body.Bytes(); ok {
		t.Errorf("another artifact has the bytes %x", b)
	}
	if w := mesh.WireOf(&a2apb.Artifact{Name: "\xff"}); w != nil {
		t.Error("what cannot be encoded has bytes")
	}
	if w := mesh.WireOf(nil); w != nil {
		t.Error("nothing has bytes")
	}
}

// The first one makes the bytes of a form, and all who ask for it share them.
func TestAFormIsMadeOnce(t *testing.T) {
	body := mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a"}}
	body.Wire = mesh.WireOf(body.Artifact)
	made := 0
	for range 3 {
		for form := range mesh.Forms {
			b := body.Memo(form, func() []byte { made++; return []byte{byte(form)} })
			if len(b) != 1 || b[0] != byte(form) {
				t.Errorf("form %d is %x", form, b)
			}
		}
	}
	if made != mesh.Forms {
		t.Errorf("made %d times", made)
	}
}
