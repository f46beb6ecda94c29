package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
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
		out, err := c.Marshal(in)
		if err != nil || !bytes.Equal(out.Materialize(), data) {
			t.Fatalf("%x is sent as %x, %v", data, out.Materialize(), err)
		}
	})
}

// A call in the process has the message itself, which readers look into; its bytes are
// for the network.
func TestBytesAreForTheNetwork(t *testing.T) {
	m := &Encoded{Message: &a2apb.StreamResponse{}, Wire: []byte{1}}
	g := &guard{open: []string{"/a/b"}, logger: slog.New(slog.DiscardHandler), streams: newStreams(StreamLimit{})}
	for name, c := range map[string]struct {
		intercept grpc.StreamServerInterceptor
		want      any
	}{"network": {g.wired, m}, "process": {g.stream, m.Message}} {
		out := &catcher{ctx: t.Context()}
		err := c.intercept(nil, out, &grpc.StreamServerInfo{FullMethod: "/a/b"}, func(_ any, ss grpc.ServerStream) error { return ss.SendMsg(m) })
		if err != nil || out.got != c.want {
			t.Errorf("%s: sent %T, %v; want %T", name, out.got, err, c.want)
		}
	}
}

// A catcher keeps what is sent on it.
type catcher struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // where gRPC wants it
	got any
}

func (c *catcher) Context() context.Context { return c.ctx }
func (c *catcher) SendMsg(m any) error      { c.got = m; return nil }
