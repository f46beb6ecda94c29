package mesh_test

import (
	"bytes"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// finding R4: all sizes follow from one number, so that what one face takes every other gives back.
func TestSizesLeaveRoomForEachOther(t *testing.T) {
	const base64 = 4.0 / 3
	for what, ok := range map[string]bool{
		"a page and one event more fit into an answer over gRPC":      mesh.MaxPage+mesh.MaxEvent < mesh.MaxWire,
		"a message with files fits into a request over gRPC":          mesh.MaxMessage < mesh.MaxWire,
		"its JSON form fits into a body":                              mesh.MaxMessage*base64 < mesh.MaxBody,
		"a piece of a file, with its frame, fits into a message":      4*mesh.MaxPiece <= mesh.MaxEvent,
		"a file may be larger than a message":                         mesh.DefaultMaxBlob > mesh.MaxMessage,
		"a request with the largest body counts below what one holds": mesh.MaxBody < 16<<20,
	} {
		if !ok {
			t.Errorf("it does not hold that %s", what)
		}
	}
}

func raw(n int) *a2apb.Part { return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: make([]byte, n)}} }

// What is larger than an event has room for goes, the largest first, and only as much as must.
func TestOnlyBytesWithoutRoomAreSpilled(t *testing.T) {
	text := &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.Repeat("x", 500<<10)}}
	for name, tt := range map[string]struct {
		parts []*a2apb.Part
		kept  []int
	}{
		"what has room":             {[]*a2apb.Part{text, raw(400 << 10)}, nil},
		"the largest":               {[]*a2apb.Part{raw(300 << 10), text, raw(400 << 10)}, []int{400 << 10}},
		"several":                   {[]*a2apb.Part{raw(600 << 10), text, raw(700 << 10)}, []int{700 << 10, 600 << 10}},
		"text never":                {[]*a2apb.Part{text, text, text}, nil},
		"small ones never":          {[]*a2apb.Part{text, text, raw(60 << 10)}, nil},
		"a file that is all":        {[]*a2apb.Part{raw(2 << 20)}, []int{2 << 20}},
		"a file that just has room": {[]*a2apb.Part{raw(mesh.MaxEvent - 17<<10)}, nil},
	} {
		for _, b := range []mesh.Body{mesh.MessagePosted{Message: &a2apb.Message{MessageId: "m", Parts: tt.parts}},
			mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: tt.parts}}, mesh.TaskMoved{Message: &a2apb.Message{Parts: tt.parts}}} {
			_, want := mesh.BodySize(b)
			var kept []int
			got, err := mesh.Spill(b, func(data []byte) (mesh.Blob, error) {
				kept = append(kept, len(data))
				return mesh.Blob{Hash: strings.Repeat("a", 64), Size: int64(len(data))}, nil
			})
			if err != nil || len(kept) != len(tt.kept) {
				t.Errorf("%s of %T: %v were kept, %v", name, b, kept, err)
				continue
			}
			for i, n := range kept {
				if n != tt.kept[i] {
					t.Errorf("%s of %T: %v were kept, want %v", name, b, kept, tt.kept)
				}
			}
			if all, logged := mesh.BodySize(got); all != logged || all > want {
				t.Errorf("%s of %T: %d bytes are left, and %d were foreseen", name, b, all, want)
			}
			if len(kept) > 0 && len(mesh.PartsOf(b)[len(tt.parts)-1].GetRaw()) == 0 {
				t.Errorf("%s of %T: what was given is changed", name, b)
			}
		}
	}
}

func TestAReferenceIsReadAsItIsWritten(t *testing.T) {
	b := mesh.Blob{Hash: strings.Repeat("0f", 32), Size: 42}
	if got, ok := mesh.ParseBlob(b.URL()); !ok || got != b {
		t.Errorf("%v, %v", got, ok)
	}
	for _, url := range []string{"", "https://x.example", "urn:agentmesh:blob:", b.URL() + "0x", strings.ToUpper(b.URL()), "urn:agentmesh:blob:" + b.Hash, "urn:agentmesh:blob:" + b.Hash + ":-1", "urn:agentmesh:blob:" + b.Hash + ":042", "urn:agentmesh:blob:../x:1"} {
		if got, ok := mesh.ParseBlob(url); ok {
			t.Errorf("%q is %v", url, got)
		}
	}
	p := &a2apb.Part{Content: &a2apb.Part_Url{Url: b.URL()}, Filename: "f", MediaType: "image/png"}
	parts := []*a2apb.Part{raw(1), p}
	linked, changed := mesh.Linked(parts, func(is mesh.Blob, name string) string { return "https://x/" + is.Hash + name })
	if !changed || linked[1].GetUrl() != "https://x/"+b.Hash+"f" || linked[1].GetMediaType() != "image/png" || parts[1] != p || !bytes.Equal(linked[0].GetRaw(), parts[0].GetRaw()) {
		t.Errorf("%v", linked)
	}
	if same, changed := mesh.Linked(parts[:1], nil); changed || !proto.Equal(same[0], parts[0]) {
		t.Errorf("%v", same)
	}
}
