package call_test

import (
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"

	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

// bindings are all that an agent may speak.
var bindings = []string{"GRPC 1.0", "JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 0.3", "JSONRPC 0.3", "HTTP+JSON 0.3"}

// An act is an agent on the official SDK's server that does what a function
// says.
type act func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool)

func (f act) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { f(ctx, ec, yield) }
}

func (act) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// A foreigner is an agent behind a network that can be cut.
type foreigner struct {
	net  *network
	web  *network
	dial *call.Dialer
	// swap, if it is set, serves HTTP in the agent's place.
	mu      sync.Mutex
	swap    http.Handler
	headers http.Header // of the last HTTP request
}

// foreign serves the agent in every binding until the test ends.
func foreign(t testing.TB, does act) *foreigner {
	t.Helper()
	handler := a2asrv.NewHandler(does)
	srv := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(srv)
	a2agrpc0.NewHandler(handler).RegisterWith(srv)
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	f := &foreigner{}
	web := httptest.NewServer(f.swapped(bindingsOf(handler)))
	pool := rpc.NewPool(rpc.DialOptions{})
	carrier := http.DefaultTransport.(*http.Transport).Clone()
	f.dial = call.NewDialer(pool, call.Options{HTTP: carrier})
	f.net, f.web = between(t, l.Addr().String()), between(t, web.Listener.Addr().String())
	t.Cleanup(func() {
		_ = pool.Close()
		carrier.CloseIdleConnections()
		f.net.close()
		f.web.close()
		web.CloseClientConnections()
		web.Close()
		srv.Stop()
		<-done
	})
	return f
}

// bindingsOf serves the handler in all bindings of HTTP.
func bindingsOf(handler a2asrv.RequestHandler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/1.0/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/1.0/", http.StripPrefix("/1.0", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/0.3/rpc", a2av0.NewJSONRPCHandler(handler))
	mux.Handle("/0.3/", http.StripPrefix("/0.3", a2av0.NewRESTHandler(handler)))
	return mux
}

// swapped serves what stands in for the handler, if anything does.
func (f *foreigner) swapped(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.headers = r.Header.Clone()
		h := h
		if f.swap != nil {
			h = f.swap
		}
		f.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// at is the interface of a binding.
func (f *foreigner) at(binding string) *a2apb.AgentInterface {
	protocol, version, _ := strings.Cut(binding, " ")
	url := map[string]string{"GRPC": f.net.addr(), "JSONRPC": "http://" + f.web.addr() + "/" + version + "/rpc",
		"HTTP+JSON": "http://" + f.web.addr() + "/" + version}[protocol]
	return &a2apb.AgentInterface{Url: url, ProtocolBinding: protocol, ProtocolVersion: version}
}

// client dials the agent by a card with these interfaces.
func (f *foreigner) client(t testing.TB, in ...*a2apb.AgentInterface) call.Client {
	t.Helper()
	c, err := f.dial.Dial(call.Target{Card: &a2apb.AgentCard{SupportedInterfaces: in}, Endpoint: in[0].GetUrl()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A network forwards connections to a server, and can be cut.
type network struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	again chan struct{} // closed by the first connection after a cut
}

func between(t testing.TB, to string) *network {
	t.Helper()
	l := rpctest.Listen(t)
	n := &network{l: l, to: to, conns: map[net.Conn]struct{}{}}
	n.wg.Go(func() { // ends with close
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() { n.forward(c) })
		}
	})
	return n
}

func (n *network) addr() string { return n.l.Addr().String() }

func (n *network) forward(c net.Conn) {
	s, err := net.Dial("tcp", n.to)
	if err != nil {
		_ = c.Close()
		return
	}
	n.mu.Lock()
	n.conns[c] = struct{}{}
	if n.again != nil {
		close(n.again)
		n.again = nil
	}
	n.mu.Unlock()
	n.wg.Go(func() { _, _ = io.Copy(s, c); _ = s.Close() })
	_, _ = io.Copy(c, s)
	_ = c.Close()
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

// cut breaks all connections, and returns what is closed when there is one
// again.
func (n *network) cut() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.again == nil {
		n.again = make(chan struct{})
	}
	for c := range n.conns {
		_ = c.Close()
	}
	clear(n.conns)
	return n.again
}

func (n *network) close() {
	_ = n.l.Close()
	n.cut()
	n.wg.Wait()
}
