package v03_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/bind/jsonrpc"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/bind/v03"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withExtended has an extended card if the desk has one.
type withExtended struct {
	a2apb.A2AServiceServer
	desk *desk
}

func (s withExtended) GetExtendedAgentCard(ctx context.Context, req *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	if s.desk.extended == nil {
		return s.A2AServiceServer.GetExtendedAgentCard(ctx, req)
	}
	return s.desk.extended, nil
}

// bearers believes "Bearer T" to be ann of tenant T.
type bearers struct{}

func (bearers) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	tenant, ok := strings.CutPrefix(c.Authorization, "Bearer ")
	if !ok {
		return mesh.Principal{}, mesh.Errorf(mesh.Unauthenticated, "test", "Say who you are")
	}
	if c.Tenant != "" && string(c.Tenant) != tenant {
		return mesh.Principal{}, mesh.Errorf(mesh.Denied, "test", "That is not your tenant")
	}
	return mesh.Principal{Tenant: mesh.TenantID(tenant), User: "ann"}, nil
}

// world is a server as a node puts it together, on real sockets.
type world struct {
	t     testing.TB
	desk  *desk
	grpc  string
	http  string
	web   *http.Client
	close context.CancelFunc // ends the streams over HTTP
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, desk: newDesk(), web: &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Minute}}
	l := rpctest.Listen(t)
	server := rpc.NewServer(rpc.Options{Auth: bearers{}})
	v10 := withExtended{a2a.NewServer(w.desk, a2a.WithPusher(newPushes(w.desk))), w.desk}
	a2apb.RegisterA2AServiceServer(server, v10)
	legacypb.RegisterA2AServiceServer(server, v03.NewServer(v10, func(context.Context, mesh.TenantID) (*a2apb.AgentCard, error) { return w.desk.card, nil }, false))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	ctx, cancel := context.WithCancel(context.Background())
	site := httptest.NewServer(handler(ctx, t, server))
	w.grpc, w.http, w.close = l.Addr().String(), site.URL, cancel
	t.Cleanup(func() {
		w.web.CloseIdleConnections()
		cancel()
		site.Close()
		server.Stop()
		serving.Wait()
	})
	return w
}

func handler(ctx context.Context, t testing.TB, conn rpc.Conn) http.Handler {
	t.Helper()
	rpcs, err := v03.NewJSONRPC(ctx, conn, v03.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v03rest, err := v03.NewREST(ctx, conn, v03.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v10, err := jsonrpc.New(ctx, conn, jsonrpc.Options{V03: rpcs})
	if err != nil {
		t.Fatal(err)
	}
	h, err := rest.New(ctx, conn, rest.Options{JSONRPC: v10, V03: v03rest})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// dial connects without the interceptors of package rpc, as a foreign client.
func (w *world) dial() *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// do sends a request as tenant a unless the headers, which are pairs, say else.
func (w *world) do(method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.http+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer a")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := w.web.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() }) // closing twice is harmless
	return resp
}

// read returns the JSON body.
func (w *world) read(resp *http.Response) map[string]any {
	w.t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatalf("body %q is not a JSON object: %v", raw, err)
	}
	return out
}

// rpc makes a JSON-RPC call and returns the whole response.
func (w *world) rpc(method, params string, headers ...string) map[string]any {
	w.t.Helper()
	return w.read(w.do(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params), headers...))
}

// event is a server-sent event.
type event struct {
	id   string
	data map[string]any
}

// events yields those of a stream.
func (w *world) events(resp *http.Response) iter.Seq[event] {
	w.t.Helper()
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		w.t.Fatalf("answer %d %q, want a stream: %v", resp.StatusCode, ct, w.read(resp))
	}
	return func(yield func(event) bool) {
		defer func() { _ = resp.Body.Close() }()
		var e event
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			name, value, _ := strings.Cut(in.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "data":
				if err := json.Unmarshal([]byte(value), &e.data); err != nil {
					w.t.Fatalf("data %q: %v", value, err)
				}
			case "":
				if e.data != nil && !yield(e) {
					return
				}
				e = event{}
			}
		}
	}
}

// get returns what is in v at the path, as "a.0.b"; numbers are indexes.
func get(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
