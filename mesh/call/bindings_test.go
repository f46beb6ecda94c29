package call_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/egress"
)

// shout says it in capitals, in two pieces; "ask" makes it ask back, and
// "hang" work until it is canceled.
func shout(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
	said := ec.Message.Parts[0].Text()
	if said == "hi" {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello")), nil)
		return
	}
	if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
		return
	}
	switch said {
	case "ask":
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("How loud?"))), nil)
		return
	case "hang":
		<-ctx.Done()
		return
	}
	first := a2a.NewArtifactEvent(ec, a2a.NewTextPart(strings.ToUpper(said)))
	first.Artifact.ID = "a"
	if yield(first, nil) && yield(a2a.NewArtifactUpdateEvent(ec, "a", a2a.NewTextPart("!")), nil) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

// saying is a request with these words to an agent with ids of its own.
func saying(words string) call.Request {
	r := request()
	r.Message.Parts = text(words)
	return r
}

// heard is what came back, without the agent's ids, and the task's id.
func heard(bodies []mesh.Body) (got []string, task string) {
	for _, b := range bodies {
		if m, ok := b.(mesh.TaskMoved); ok && m.RemoteTask != "" {
			task = m.RemoteTask
		}
	}
	for _, line := range lines(bodies) {
		if state, _, own := strings.Cut(line, " "+task); own && task != "" {
			line = state
		}
		got = append(got, line)
	}
	return got, task
}

// An agent is called in every binding and version, and none is told from
// another by what reaches the log (A2A v1.0 §5.1, S4-002, S4-077).
func TestAgentsOfEveryBindingAndVersionAreCalledAlike(t *testing.T) {
	f := foreign(t, shout)
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			c := f.client(t, f.at(binding))
			want := func(req call.Request, want ...string) string {
				t.Helper()
				bodies := collect(t.Context(), c, req)
				got, task := heard(bodies)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", req.Message.Parts[0].GetText(), diff)
				}
				return task
			}
			want(saying("go"), "working", `new a "GO"`, `append a "!"`, "completed")
			if got := lines(collect(t.Context(), c, saying("hi"))); len(got) != 2 || !strings.HasSuffix(got[0], `"hello"`) || got[1] != "completed" {
				t.Errorf("a message alone came as %q", got)
			}
			task := want(saying("ask"), "working", "input_required How loud?")
			again := saying("very")
			again.RemoteTask, again.Message.TaskId = task, task
			want(again, `new a "VERY"`, `append a "!"`, "completed")
			once := saying("go")
			once.Unary = true
			if got, _ := heard(collect(t.Context(), c, once)); got[len(got)-1] != "completed" || !strings.Contains(strings.Join(got, "\n"), `new a "GO`) {
				t.Errorf("an agent that does not stream: %q", got)
			}
			if err := call.Cancel(t.Context(), c, "no-such-task"); !mesh.IsCode(err, mesh.NotFound) {
				t.Errorf("to cancel nothing: %v", err)
			}
			lost := saying("go")
			lost.RemoteTask, lost.Message.TaskId = "no-such-task", "no-such-task"
			bodies := collect(t.Context(), c, lost)
			if last, ok := bodies[len(bodies)-1].(mesh.TaskMoved); !ok || len(bodies) != 1 || last.Reason != call.ReasonTaskNotFound {
				t.Errorf("a task that is not there: %q", lines(bodies))
			}
		})
	}
}

func TestATaskIsCanceledInEveryBinding(t *testing.T) {
	f := foreign(t, shout)
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			c := f.client(t, f.at(binding))
			var got []mesh.Body
			for b := range call.Stream(t.Context(), c, saying("hang")) {
				if got = append(got, b); len(got) > 1 {
					continue
				}
				_, task := heard(got)
				if err := call.Cancel(t.Context(), c, task); err != nil {
					t.Fatal(err)
				}
			}
			if l, _ := heard(got); l[len(l)-1] != "canceled" {
				t.Errorf("heard %q", l)
			}
		})
	}
}

// Interfaces are tried in the card's order, until one can be connected to.
func TestCallsFallBackInTheOrderOfTheCard(t *testing.T) {
	f := foreign(t, shout)
	gone := rpctest.Free(t)
	dead := []*a2apb.AgentInterface{
		{Url: "http://" + gone + "/rpc", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"},
		{Url: gone, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
		{Url: "http://" + gone, ProtocolBinding: "HTTP+JSON", ProtocolVersion: "0.3"},
		{Url: "http://" + gone, ProtocolBinding: "CARRIER-PIGEON", ProtocolVersion: "1.0"},
	}
	for _, binding := range bindings {
		c := f.client(t, append(dead[:len(dead):len(dead)], f.at(binding))...)
		if got, _ := heard(collect(t.Context(), c, saying("go"))); got[len(got)-1] != "completed" {
			t.Errorf("%s after dead ones: %q", binding, got)
		}
		if err := call.Cancel(t.Context(), c, "no-such-task"); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("%s after dead ones: cancel says %v", binding, err)
		}
	}
	got := lines(collect(t.Context(), f.client(t, dead...), saying("go")))
	if diff := cmp.Diff([]string{"failed AGENT_UNAVAILABLE The agent could not be reached."}, got); diff != "" {
		t.Error(diff)
	}
}

// An agent that was reached may have heard the message: it is not told again
// over another interface, whatever its server answers.
func TestAMessageThatArrivedIsNotSentAgainElsewhere(t *testing.T) {
	f := foreign(t, shout)
	for status, want := range map[int]string{
		http.StatusServiceUnavailable: "failed AGENT_UNAVAILABLE The agent could not be reached.",
		http.StatusTemporaryRedirect:  "failed AGENT_REFUSED The agent refused the request: the agent's server answered with HTTP status 307",
		http.StatusUnauthorized:       "failed AGENT_NEEDS_CREDENTIALS The agent wants credentials that the mesh does not have, or that do not count: the agent's server answered with HTTP status 401",
	} {
		f.mu.Lock()
		f.swap = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		f.mu.Unlock()
		for _, first := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
			got := lines(collect(t.Context(), f.client(t, f.at(first), f.at("GRPC 1.0")), saying("go")))
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Errorf("%s, %d:\n%s", first, status, diff)
			}
		}
	}
}

// Ids travel in headers of the names that gRPC metadata has, and the version of
// the protocol as that version has it.
func TestHTTPCallsCarryIdentityAndVersion(t *testing.T) {
	f := foreign(t, shout)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ada"}, Thread: "th", Ticket: func(context.Context) (string, error) { return "t", nil }, Extensions: []string{mesh.ExtensionURI}})
	for binding, version := range map[string]string{"JSONRPC 1.0": "1.0", "HTTP+JSON 1.0": "1.0", "JSONRPC 0.3": "", "HTTP+JSON 0.3": ""} {
		collect(ctx, f.client(t, f.at(binding)), saying("go"))
		f.mu.Lock()
		h := f.headers
		f.mu.Unlock()
		extensions := "A2A-Extensions"
		if version == "" {
			extensions = "X-A2A-Extensions"
		}
		got := []string{h.Get("Tenant-Id"), h.Get("User-Id"), h.Get("Thread-Id"), h.Get("Mesh-Ticket"), h.Get("A2A-Version"), h.Get(extensions)}
		if diff := cmp.Diff([]string{"acme", "ada", "th", "t", version, mesh.ExtensionURI}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", binding, diff)
		}
	}
}

// An agent whose card has the wrong version, or first a binding in which it errs, is called
// as the operator says.
func TestTheOperatorSaysHowAnAgentIsCalled(t *testing.T) {
	f := foreign(t, shout)
	at := func(binding, version string) *a2apb.AgentInterface {
		in := f.at(binding)
		in.ProtocolVersion = version
		return in
	}
	wrong := []*a2apb.AgentInterface{at("HTTP+JSON 1.0", "0.3"), at("JSONRPC 0.3", "1.0")}
	for name, tt := range map[string]struct {
		agent string
		says  call.Interface
		heard bool
	}{
		"as the card says":                {agent: "odd"},
		"the binding alone":               {agent: "odd", says: call.Interface{Binding: "JSONRPC"}},
		"binding and version":             {agent: "odd", says: call.Interface{Binding: "JSONRPC", Version: "0.3"}, heard: true},
		"another":                         {agent: "odd", says: call.Interface{Binding: "HTTP+JSON", Version: "1.0"}, heard: true},
		"the version":                     {agent: "odd", says: call.Interface{Version: "1.0"}, heard: true},
		"of an agent of a different name": {agent: "other", says: call.Interface{Version: "1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := call.NewDialer(nil, call.Options{HTTP: http.DefaultTransport, Interfaces: map[string]call.Interface{"odd": tt.says}})
			c, err := d.Dial(call.Target{Name: tt.agent, Card: &a2apb.AgentCard{SupportedInterfaces: wrong}, Endpoint: wrong[0].GetUrl()})
			if err != nil {
				t.Fatal(err)
			}
			got := lines(collect(t.Context(), c, saying("go")))
			if heard := len(got) > 0 && got[len(got)-1] == "completed"; heard != tt.heard {
				t.Errorf("heard %q", got)
			}
		})
	}
	if wrong[0].GetProtocolVersion() != "0.3" {
		t.Error("the card was changed")
	}
	none := call.NewDialer(nil, call.Options{HTTP: http.DefaultTransport, Interfaces: map[string]call.Interface{"odd": {Binding: "GRPC"}}})
	if _, err := none.Dial(call.Target{Name: "odd", Card: &a2apb.AgentCard{SupportedInterfaces: wrong}, Endpoint: wrong[0].GetUrl()}); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("in a binding that the card has not: %v", err)
	}
}

// What a tenant registered is called over HTTP through the guard alone.
func TestAgentsOfTenantsAreCalledThroughTheGuard(t *testing.T) {
	f := foreign(t, shout)
	target := call.Target{Card: &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{f.at("JSONRPC 1.0")}}, Endpoint: f.at("JSONRPC 1.0").GetUrl(), Tenant: "acme"}
	if _, err := f.dial.Dial(target); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("without a guard: %v", err)
	}
	guarded := call.NewDialer(nil, call.Options{HTTP: http.DefaultTransport, Guarded: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, mesh.Errorf(mesh.Denied, "guard", "not there")
		}}})
	c, err := guarded.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(collect(t.Context(), c, saying("go"))); len(got) != 1 || !strings.HasPrefix(got[0], "failed AGENT_UNAVAILABLE") {
		t.Errorf("heard %q of an agent that the guard refuses", got)
	}
}

// So it is over gRPC, whether its card has the address, as a name or a number,
// or it was given beside the card; what the operator allows is reached by name.
func TestAgentsOfTenantsAreCalledOverGRPCThroughTheGuard(t *testing.T) {
	f := foreign(t, shout)
	_, port, err := net.SplitHostPort(f.at("GRPC 1.0").GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		host   string
		listed bool // on the card
		tenant mesh.TenantID
		allow  []string
		heard  bool
	}{
		"by number":                  {"127.0.0.1", true, "acme", nil, false},
		"by name":                    {"localhost", true, "acme", nil, false},
		"as an IPv6 address of IPv4": {"[::ffff:127.0.0.1]", true, "acme", nil, false},
		"beside the card":            {"127.0.0.1", false, "acme", nil, false},
		"by name, as gRPC writes it": {"dns:///localhost", false, "acme", nil, false}, // finding N12
		"by number, so":              {"dns:///127.0.0.1", true, "acme", nil, false},
		"allowed, as gRPC writes it": {"dns:///localhost", true, "acme", []string{"localhost"}, true},
		"the operator's":             {"127.0.0.1", true, "", nil, true},
		"allowed by number":          {"127.0.0.1", true, "acme", []string{"127.0.0.0/8"}, true},
		"allowed by name":            {"localhost", true, "acme", []string{"localhost"}, true},
		"allowed beside the card":    {"localhost", false, "acme", []string{"localhost"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard, err := egress.New(egress.Options{Allow: tt.allow})
			if err != nil {
				t.Fatal(err)
			}
			open, guarded := rpc.NewPool(rpc.DialOptions{}), rpc.NewPool(rpc.DialOptions{Dialer: guard.Dial})
			t.Cleanup(func() { _, _ = open.Close(), guarded.Close() })
			at := tt.host + ":" + port
			target := call.Target{Card: &a2apb.AgentCard{}, Endpoint: at, Tenant: tt.tenant}
			if tt.listed {
				target.Card.SupportedInterfaces = []*a2apb.AgentInterface{{Url: at, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}
			}
			c, err := call.NewDialer(open, call.Options{GuardedConns: guarded}).Dial(target)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := heard(collect(t.Context(), c, saying("go")))
			if last := got[len(got)-1]; tt.heard != (last == "completed") || !tt.heard && last != "failed AGENT_UNAVAILABLE The agent could not be reached." {
				t.Errorf("heard %q", got)
			}
		})
	}
}

// A server may answer a streaming call with one JSON answer.
func TestAPlainAnswerToAStreamingCallCounts(t *testing.T) {
	f := foreign(t, shout)
	f.swap = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{\n  \"jsonrpc\": \"2.0\", \"id\": \"1\",\n \"error\": {\"code\": -32602, \"message\": \"no such skill\"}}"))
	})
	got := lines(collect(t.Context(), f.client(t, f.at("JSONRPC 1.0")), saying("go")))
	if diff := cmp.Diff([]string{"failed AGENT_REFUSED The agent refused the request: no such skill"}, got); diff != "" {
		t.Error(diff)
	}
}

// No answer is read without end.
func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	f := foreign(t, shout)
	f.swap = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		blank := []byte(strings.Repeat(" ", 1<<20))
		for {
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	})
	want := []string{fmt.Sprintf("failed INVALID_AGENT_RESPONSE The agent sent more than %d bytes at once, which is the limit; "+
		"have it send less, in pieces or in a part with a url.", call.MaxAnswer)}
	for _, binding := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
		for _, unary := range []bool{false, true} {
			req := saying("go")
			req.Unary = unary
			if diff := cmp.Diff(want, lines(collect(t.Context(), f.client(t, f.at(binding)), req))); diff != "" {
				t.Errorf("%s, unary %v:\n%s", binding, unary, diff)
			}
		}
	}
}

// Calls carry the tenant that the card names for the interface, which is the
// agent's and not ours (A2A v1.0 §4.4.6).
func TestCallsCarryTheTenantOfTheInterface(t *testing.T) {
	var got []string
	a := &actor{says: func(req *a2apb.SendMessageRequest) []*a2apb.StreamResponse {
		got = append(got, req.GetTenant())
		return []*a2apb.StreamResponse{task("t", completed)}
	}}
	f := foreign(t, shout)
	at := &a2apb.AgentInterface{Url: listening(t, a), ProtocolBinding: "GRPC", ProtocolVersion: "1.0", Tenant: "theirs"}
	req := request()
	collect(t.Context(), f.client(t, at), req)
	req.Unary = true
	collect(t.Context(), f.client(t, at), req)
	if diff := cmp.Diff([]string{"theirs", "theirs"}, got); diff != "" {
		t.Error(diff)
	}
}

// Calls over gRPC say the version that the interface speaks: servers of v0.3 refuse others.
func TestCallsOverGRPCSayTheirVersion(t *testing.T) {
	said := make(chan []string, 1)
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		said <- md.Get(rpc.KeyVersion)
		return status.Error(codes.NotFound, "none")
	}))
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	defer func() { srv.Stop(); <-done }()
	pool := rpc.NewPool(rpc.DialOptions{})
	defer func() { _ = pool.Close() }()
	ctx := mesh.WithCall(t.Context(), mesh.Call{Version: "1.0"})
	for _, version := range []string{"1.0", "0.3"} {
		in := &a2apb.AgentInterface{Url: l.Addr().String(), ProtocolBinding: "GRPC", ProtocolVersion: version}
		c, err := call.NewDialer(pool, call.Options{}).Dial(call.Target{Card: &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{in}}, Endpoint: in.GetUrl()})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.GetTask(ctx, "t")
		if diff := cmp.Diff([]string{version}, <-said); diff != "" {
			t.Errorf("%s: GetTask %s", version, diff)
		}
		for _, err := range c.SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: request().Message}) {
			if err == nil {
				t.Error("it answered")
			}
		}
		if diff := cmp.Diff([]string{version}, <-said); diff != "" {
			t.Errorf("%s: SendStreamingMessage %s", version, diff)
		}
	}
}
