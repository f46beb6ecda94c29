package rpc

import (
	"bytes"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Malformed bytes are refused, and others read, as they are without Encoded.
func FuzzWhatIsReceivedWithItsBytesIsTheMessage(f *testing.F) {
	whole, err := proto.Marshal(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: "t", Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, 3)
	f.Add(whole[:len(whole)-1], 5)
	f.Add(bytes.Replace(whole, []byte("hello"), []byte("he\xfflo"), 1), 0)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(0, min(cut, len(data)))
		c := newCodec()
		plain, got := new(a2apb.StreamResponse), new(a2apb.StreamResponse)
		in := &Encoded{Message: got}
		arrived := func() mem.BufferSlice { // in two pieces
			return mem.BufferSlice{mem.SliceBuffer(data[:cut]), mem.SliceBuffer(data[cut:])}
		}
		want, is := c.Unmarshal(arrived(), plain), c.Unmarshal(arrived(), in)
		if (want == nil) != (is == nil) || want == nil && !proto.Equal(plain, got) {
			t.Fatalf("%x is %v, %v; without its bytes %v, %v", data, got, is, plain, want)
		}
		if is == nil && !bytes.Equal(in.Wire, data) {
			t.Fatalf("%x has the bytes %x", data, in.Wire)
		}
		if is != nil {
			return
		}
		out, err := c.Marshal(&Encoded{Message: got, Encode: func() []byte { return data }})
		if err != nil || !bytes.Equal(out.Materialize(), data) {
			t.Fatalf("%x is sent as %x, %v", data, out.Materialize(), err)
		}
		for name, e := range map[string]*Encoded{"nobody encodes": {Message: got}, "is not at hand": {Message: got, Encode: func() []byte { return nil }}} {
			bare, err := c.Marshal(e)
			again := new(a2apb.StreamResponse)
			if err != nil || proto.Unmarshal(bare.Materialize(), again) != nil || !proto.Equal(got, again) {
				t.Fatalf("what %s is sent as %x, %v; want %v", name, bare.Materialize(), err, got)
			}
		}
	})
}
