package call

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A response is read as proto.Unmarshal reads it, or refused as by that, whatever
// its bytes are and whatever came before it.
func FuzzAResponseIsReadAsByProto(f *testing.F) {
	last := &a2apb.TaskArtifactUpdateEvent{TaskId: "task", ContextId: "thread", Artifact: &a2apb.Artifact{ArtifactId: "out"}}
	piece := func(change func(*a2apb.TaskArtifactUpdateEvent)) []byte {
		u := proto.CloneOf(last)
		u.Artifact.Parts = []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}}
		change(u)
		b, err := proto.Marshal(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}})
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	whole := piece(func(*a2apb.TaskArtifactUpdateEvent) {})
	if pieceOfText(whole, last) == nil {
		f.Error("a piece of text is not read as one")
	}
	seeds := [][]byte{
		whole, whole[:len(whole)-1], append(whole, whole...), append(whole, protowire.AppendTag(nil, 999, protowire.BytesType)...),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Append, u.LastChunk, u.TaskId = true, true, "another" }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact.Name = "name" }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact.Parts[0].MediaType = "text/plain" }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact.Parts[0].Content = nil }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) {
			u.Artifact.Parts = append(u.Artifact.Parts, u.Artifact.Parts...)
		}),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact.Parts = nil }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact.Parts[0].Content = &a2apb.Part_Text{} }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact = &a2apb.Artifact{} }),
		piece(func(u *a2apb.TaskArtifactUpdateEvent) { u.Artifact = nil }), {},
	}
	for _, b := range seeds {
		f.Add(b)
		for i := range b { // a changed byte anywhere
			changed := append([]byte(nil), b...)
			changed[i] ^= 0x80
			f.Add(changed)
			changed = append([]byte(nil), b...)
			changed[i]++
			f.Add(changed)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		want, got := new(a2apb.StreamResponse), new(a2apb.StreamResponse)
		refused := proto.Unmarshal(wire, want)
		for _, before := range []*a2apb.TaskArtifactUpdateEvent{nil, last} {
			if err := decode(wire, got, before); (err == nil) != (refused == nil) || err == nil && !proto.Equal(got, want) {
				t.Fatalf("%x is read as %v, %v; want %v, %v", wire, got, err, want, refused)
			}
		}
	})
}
