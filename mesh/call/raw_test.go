package call_test

import (
	"bytes"
	"fmt"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}
func (rawCodec) Name() string { return "proto" }

// raw is a connection to a server that answers every call with bytes.
func raw(t testing.TB, says func(send func([]byte) error)) *grpc.ClientConn {
	t.Helper()
	l := rpctest.Listen(t)
	srv := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var req []byte
		if err := stream.RecvMsg(&req); err != nil {
			return fmt.Errorf("no request: %w", err)
		}
		says(func(b []byte) error { return stream.SendMsg(b) })
		return nil
	}))
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	conn, err := rpc.Dial(l.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); srv.Stop(); <-done })
	return conn
}

// unchecked is the wire form of a response whose text "bad \xff" is no UTF-8, which no
// encoder would write.
func unchecked(r *a2apb.StreamResponse) []byte {
	p := r.GetArtifactUpdate().GetArtifact().GetParts()[0]
	bad := p.GetText()
	p.Content = &a2apb.Part_Text{Text: string(bytes.Repeat([]byte("x"), len(bad)))}
	wire, err := proto.Marshal(r)
	if err != nil {
		panic(err)
	}
	return bytes.Replace(wire, []byte(p.GetText()), []byte(bad), 1)
}
