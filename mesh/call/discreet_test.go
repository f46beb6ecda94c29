package call_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/grant"
)

// parrot says every ticket back as an error.
func parrot(t *testing.T) (grpcAt, web string) {
	t.Helper()
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		return status.Error(codes.InvalidArgument, "not with "+strings.Join(md.Get(rpc.KeyTicket), ""))
	}))
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "not with "+r.Header.Get(rpc.KeyTicket))
	}))
	t.Cleanup(func() { s.Close(); srv.Stop(); <-done })
	return l.Addr().String(), s.URL
}

// A ticket that an agent says back is in no error, whatever was called, and the error says
// all else.
func TestNoErrorHasATicket(t *testing.T) {
	grpcAt, web := parrot(t)
	pool := rpc.NewPool(rpc.DialOptions{})
	t.Cleanup(func() { _ = pool.Close() })
	d := call.NewDialer(pool, call.Options{HTTP: http.DefaultTransport, PlaintextGrants: true})
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ticket := signer.Ticket(mesh.Grant{ID: "t", Tenant: "acme", User: "ann", Agent: "theirs"}, time.Now())
	ctx := mesh.WithCall(t.Context(), mesh.Call{Ticket: func(context.Context) (string, error) { return ticket, nil }})
	req := &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: text("hello")}}
	for _, binding := range append([]string{"beside the card"}, bindings...) {
		protocol, version, _ := strings.Cut(binding, " ")
		at := web
		if protocol == "GRPC" || protocol == "beside" {
			at = grpcAt
		}
		card := &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{{Url: at, ProtocolBinding: protocol, ProtocolVersion: version}}}
		if protocol == "beside" {
			card = &a2apb.AgentCard{}
		}
		c, err := d.Dial(call.Target{Card: card, Endpoint: at})
		if err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func() error{
			"send":      func() error { _, err := c.SendMessage(ctx, req); return err },
			"get":       func() error { _, err := c.GetTask(ctx, "t"); return err },
			"cancel":    func() error { return c.CancelTask(ctx, "t") },
			"stream":    func() error { return firstError(c.SendStreamingMessage(ctx, req)) },
			"subscribe": func() error { return firstError(c.SubscribeToTask(ctx, "t")) },
		} {
			err := do()
			if name == "subscribe" && version == "0.3" { // which asks for nothing
				continue
			}
			if err == nil || strings.Contains(err.Error(), ticket) || strings.Contains(mesh.DetailOf(err), ticket) {
				t.Errorf("%s, %s: %v", binding, name, err)
				continue
			}
			if !strings.Contains(err.Error(), "not with ***") || !mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%s, %s: the cause is lost: %v", binding, name, err)
			}
		}
	}
}

// firstError is that of the stream.
func firstError(all func(func(call.Response, error) bool)) (err error) {
	for _, err = range all {
		break
	}
	return err
}
