package node_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/text/texttest"
)

const ownCard = "/.well-known/agent-card.json"

// get reads a path; headers are pairs.
func get(t testing.TB, m *testMesh, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.HTTP+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// readCard reads a card as a client of v1.0 that ignores what it does not know.
func readCard(t testing.TB, text string) *a2apb.AgentCard {
	t.Helper()
	var card a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), &card); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &card
}

// trusting returns a verifier that gets the keys of the mesh from the mesh.
func trusting(t testing.TB, m *testMesh) *cards.Verifier {
	t.Helper()
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	v, err := cards.NewVerifier(cards.VerifierOptions{Hosts: []string{m.HTTP}, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every card that the mesh hands out is signed with a key that it publishes,
// also those of agents, which it changed; and they can be cached.
func TestEveryCardOfTheMeshIsSignedAndCanBeCached(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": echo, "builder": echo})
	ann := a2apb.NewA2AServiceClient(m.Dial(rpc.DialOptions{Bearer: "secret-of-tenant-a"}))
	v := trusting(t, m)
	for _, path := range []string{ownCard, "/agents/builder" + ownCard, ownCard + "?A2A-Version=1.0"} {
		resp, text := get(t, m, path)
		if kid, err := v.Verify(t.Context(), readCard(t, text)); err != nil || kid == "" {
			t.Errorf("%s: %v", path, err)
		}
		etag := resp.Header.Get("ETag")
		if etag == "" || resp.Header.Get("Last-Modified") == "" || !strings.HasPrefix(resp.Header.Get("Cache-Control"), "max-age=") {
			t.Errorf("%s: headers %v", path, resp.Header)
		}
		if !strings.Contains(resp.Header.Get("Vary"), "A2A-Version") {
			t.Errorf("%s: Vary %q", path, resp.Header.Get("Vary"))
		}
		if resp, _ := get(t, m, path, "If-None-Match", etag); resp.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d, want 304", path, resp.StatusCode)
		}
	}
	for name, agentName := range map[string]string{"agentmesh": "", "The builder": "builder"} {
		ctx := mesh.WithCall(plain(t), mesh.Call{Agent: agentName})
		card, err := ann.GetExtendedAgentCard(ctx, &a2apb.GetExtendedAgentCardRequest{})
		if err != nil || card.GetName() != name {
			t.Fatalf("extended card %v, %v; want that of %s", card, err, name)
		}
		if _, err := v.Verify(t.Context(), card); err != nil {
			t.Errorf("extended card of %s: %v", name, err)
		}
	}
	if _, jwks := get(t, m, "/.well-known/jwks.json"); strings.Contains(jwks, `"d"`) || !strings.Contains(jwks, `"kid"`) {
		t.Errorf("published keys: %s", jwks)
	}
}

// Sends and subscriptions, of the mesh and of one agent, make no card, whose
// skills are all agents': finding C4.
func TestNoCallMakesACardButTheOneThatAsksForIt(t *testing.T) {
	var made atomic.Int32
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": echo}, func(o *node.Options) {
		o.Edge = func(c *edge.Config) {
			of := c.Card
			c.Card = func(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error) {
				made.Add(1)
				return of(ctx, tenant)
			}
		}
	})
	ann := a2apb.NewA2AServiceClient(m.Dial(rpc.DialOptions{Bearer: "secret-of-tenant-a"}))
	for _, agentName := range []string{"", "main"} {
		ctx := mesh.WithCall(plain(t), mesh.Call{Agent: agentName})
		for range 5 {
			sent, err := ann.SendMessage(ctx, say("hi"))
			if err != nil {
				t.Fatal(err)
			}
			again, cancel := context.WithCancel(mesh.WithCall(ctx, mesh.Call{Agent: agentName, HasCursor: true}))
			stream, err := ann.SubscribeToTask(again, &a2apb.SubscribeToTaskRequest{Id: sent.GetTask().GetId()})
			if err == nil {
				_, err = stream.Recv()
			}
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := made.Load(); n != 0 {
		t.Errorf("%d cards were made for 10 sends and 10 subscriptions", n)
	}
	if _, err := ann.GetExtendedAgentCard(plain(t), &a2apb.GetExtendedAgentCardRequest{}); err != nil || made.Load() != 1 {
		t.Errorf("asked for the card: %v, and %d were made", err, made.Load())
	}
}

// A key outlives its node, so that a card that somebody keeps stays good.
func TestACardStaysTheSameWhenTheNodeStartsAgain(t *testing.T) {
	data := t.TempDir()
	keys := map[string]bool{}
	for range 2 {
		m := start(t, config(data), map[string]run{"main": echo})
		_, jwks := get(t, m, "/.well-known/jwks.json")
		keys[jwks] = true
		m.Stop()
	}
	if len(keys) != 1 {
		t.Errorf("the keys are %v", keys)
	}
}

// X11: the card says what clients of v0.3 need, unless one of v1.0 asks, or
// the operator wants it so.
func TestTheCardSpeaksToClientsOfBothVersions(t *testing.T) {
	strict := func(text string) error { return protojson.Unmarshal([]byte(text), new(a2apb.AgentCard)) }
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	var old struct {
		ProtocolVersion, URL, PreferredTransport string
		SupportsAuthenticatedExtendedCard        bool
		AdditionalInterfaces                     []struct{ URL, Transport string }
	}
	_, union := get(t, m, ownCard)
	if err := json.Unmarshal([]byte(union), &old); err != nil {
		t.Fatal(err)
	}
	if old.ProtocolVersion != "0.3.0" || old.URL != "http://"+m.HTTP || old.PreferredTransport != "JSONRPC" ||
		len(old.AdditionalInterfaces) != 3 || old.SupportsAuthenticatedExtendedCard {
		t.Errorf("to clients of v0.3 it says %+v", old)
	}
	if _, text := get(t, m, ownCard, "A2A-Version", "0.3"); text != union {
		t.Errorf("asked for v0.3, it is %s", text)
	}
	for _, headers := range [][]string{{"A2A-Version", "1.0"}, {"A2A-Version", "1.0.1"}} {
		if _, text := get(t, m, ownCard, headers...); strict(text) != nil {
			t.Errorf("%v: %v", headers, strict(text))
		}
	}
	cfg := config(t.TempDir())
	cfg.Cards.Mode = "v1"
	m = start(t, cfg, map[string]run{"main": echo})
	if _, text := get(t, m, ownCard); strict(text) != nil {
		t.Errorf("in mode v1: %v", strict(text))
	}
}

// Under tokens a tenant's agent is called over gRPC as little as over HTTP at an
// address that is not public; an operator may allow it.
func TestTenantsCannotPointTheMeshAtItsOwnNetwork(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": echo})
	byName := strings.Replace(m.GRPC, "127.0.0.1", "localhost", 1)
	for _, endpoint := range []string{m.GRPC, byName, "dns:///" + byName, "grpc://" + m.GRPC} { // finding N12
		_, err := meshv1.NewRegistryServiceClient(raw(t, m.GRPC)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{
			Name: "inside", Card: card("inside"), Endpoint: endpoint})
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), "is "+endpoint[strings.LastIndexByte(endpoint, '/')+1:]) || !strings.Contains(s.Message(), "egress.allow") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestAnAgentsCardLeadsThroughTheMesh(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	cfg.Egress.Allow = []string{"127.0.0.1"}
	m := start(t, cfg, map[string]run{"main": echo, "builder": echo})
	_, err := meshv1.NewRegistryServiceClient(raw(t, m.GRPC)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{
		Name: "secret", Card: card("secret"), Endpoint: m.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	_, text := get(t, m, "/agents/builder"+ownCard)
	own := readCard(t, text)
	if own.GetName() != "The builder" || own.GetSkills()[0].GetId() != "builder.do" {
		t.Errorf("the card is %s", text)
	}
	for _, in := range own.GetSupportedInterfaces() {
		if in.GetUrl() != "http://"+m.HTTP+"/agents/builder" || in.GetProtocolBinding() == "GRPC" {
			t.Errorf("it leads to %v", in)
		}
	}
	// S4-052: to strangers, another tenant's agent is as one that does not exist.
	var answers []string
	for _, name := range []string{"secret", "absent"} {
		resp, text := get(t, m, "/agents/"+name+ownCard, "tenant-id", "a")
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
		answers = append(answers, strings.ReplaceAll(text, name, "X"))
	}
	if answers[0] != answers[1] {
		t.Errorf("an agent of a tenant can be told from none:\n%s\n%s", answers[0], answers[1])
	}
}

// Each agent is an A2A server of its own below its path, in every binding and
// version, and over gRPC by metadata.
func TestAnAgentIsAddressedThroughTheMesh(t *testing.T) {
	shout := func(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return words("[builder] " + inv.Text())
	}
	m := start(t, config(t.TempDir()), map[string]run{"main": echo, "builder": shout})
	const message = `{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}`
	const legacyMessage = `{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]}`
	for name, c := range map[string]struct{ path, body string }{
		"REST":            {"/message:send", `{"message":` + message + `}`},
		"REST stream":     {"/message:stream", `{"message":` + message + `}`},
		"JSON-RPC":        {"/", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":` + message + `}}`},
		"JSON-RPC, bare":  {"", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":` + message + `}}`},
		"JSON-RPC stream": {"/", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":` + message + `}}`},
		"v0.3 JSON-RPC":   {"/", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":` + legacyMessage + `}}`},
		"v0.3 REST":       {"/v1/message:send", `{"message":{"messageId":"m1","role":"ROLE_USER","content":[{"text":"hi"}]},"configuration":{"blocking":true}}`},
	} {
		if resp, text := post(t, m, "/agents/builder"+c.path, c.body); resp.StatusCode != http.StatusOK || !strings.Contains(text, "[builder] hi") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
		if _, text := post(t, m, "/agents/absent"+c.path, c.body); !strings.Contains(text, "Agent absent not found") {
			t.Errorf("%s of an agent that does not exist: %s", name, text)
		}
	}
	call := mesh.Call{Agent: "builder"}
	stream, err := m.edge().SendStreamingMessage(mesh.WithCall(plain(t), call), say("hi"))
	if heard := hear(t, stream, err); heard.text != "[builder] hi" {
		t.Errorf("gRPC: %q", heard.text)
	}
	call.Agent = "absent"
	ctx := mesh.WithCall(plain(t), call)
	if _, err := m.edge().SendMessage(ctx, say("hi")); !mesh.IsCode(rpc.FromStatus(err), mesh.NotFound) {
		t.Errorf("gRPC, an agent that does not exist: %v", err)
	}
	if resp, _ := post(t, m, "/agents/builder/message:send", `{"message":`+message+`}`, "Agent", "main"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("path and header name two agents: %d", resp.StatusCode)
	}
	for _, path := range []string{"/agents/builder/mesh/v1/agents", "/agents/Bad%20Name/tasks", "/agents/%62uilder/tasks", "/agents/absent/tasks"} {
		if resp, text := get(t, m, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

// An agent that is addressed can do what main can: it hands over, and has the
// turn back when the handoff ends.
func TestAnAddressedAgentHandsOverAndHasItBack(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo, "desk": greeter, "builder": builder})
	id := mesh.NewThreadID()
	at := func(agent string) context.Context {
		call, _ := mesh.CallFrom(in(t, id))
		call.Agent = agent
		return mesh.WithCall(plain(t), call)
	}
	stream, err := m.edge().SendStreamingMessage(at("desk"), say("make a skill"))
	first := hear(t, stream, err)
	if first.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || extension(first, "handoff")["source_agent_id"] != "desk" {
		t.Fatalf("%v, %q, %v", first.state, first.text, extension(first, "handoff"))
	}
	answer := say("alert")
	answer.Message.TaskId = first.task.GetId()
	if _, err := m.edge().SendMessage(at("builder"), answer); !mesh.IsCode(rpc.FromStatus(err), mesh.NotFound) {
		t.Errorf("the task was found with another agent: %v", err)
	}
	stream, err = m.edge().SendStreamingMessage(at("desk"), answer)
	second := hear(t, stream, err)
	if want := "[builder] made alert. [main] it is completed: alert is ready"; second.text != want { // greeter says main
		t.Errorf("heard %q, want %q", second.text, want)
	}
	// In the same conversation, the same words to another agent are new ones.
	again := say("thanks")
	for agent, want := range map[string]string{"desk": "[main] thanks", "": "You said: thanks"} {
		stream, err = m.edge().SendStreamingMessage(at(agent), again)
		if heard := hear(t, stream, err); heard.text != want {
			t.Errorf("to %q: %q, want %q", agent, heard.text, want)
		}
	}
}

// A mesh that requires signatures takes the card of another mesh whose keys it
// trusts, by its host or from a file, and no other.
func TestOnlyCardsWithASignatureAreTakenWhereTheyAreRequired(t *testing.T) {
	far := start(t, config(t.TempDir()), map[string]run{"main": echo})
	_, jwks := get(t, far, "/.well-known/jwks.json")
	trust := filepath.Join(t.TempDir(), "trust.json")
	if err := os.WriteFile(trust, []byte(jwks), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, choose := range map[string]struct {
		cards node.Cards
		code  mesh.Code
	}{
		"by its host":         {node.Cards{Verify: "require", Hosts: []string{far.HTTP}}, mesh.Unknown},
		"by a file":           {node.Cards{Verify: "require", Trust: trust}, mesh.Unknown},
		"of nobody":           {node.Cards{Verify: "require"}, mesh.Invalid},
		"whoever, warned of":  {node.Cards{Verify: "warn"}, mesh.Unknown},
		"whoever, by default": {node.Cards{}, mesh.Unknown},
	} {
		cfg := config(t.TempDir())
		cfg.Cards = choose.cards
		m := start(t, cfg, map[string]run{"main": echo})
		agents := meshv1.NewRegistryServiceClient(m.conn)
		_, err := agents.RegisterAgent(in(t, ""), &meshv1.RegisterAgentRequest{Name: "far", CardUrl: "http://" + far.HTTP})
		if err = rpc.FromStatus(err); choose.code == mesh.Unknown && err != nil || choose.code != mesh.Unknown && !mesh.IsCode(err, choose.code) {
			t.Errorf("%s: %v", name, err)
		}
		if choose.code == mesh.Unknown && choose.cards.Verify == "require" { // a signed card does not lend its name to others
			_, err = agents.RegisterAgent(in(t, ""), &meshv1.RegisterAgentRequest{Name: "lent", CardUrl: "http://" + far.HTTP, Endpoint: m.GRPC})
			if mesh.FieldOf(rpc.FromStatus(err)) != "card.signatures" {
				t.Errorf("%s: a signed card with another address: %v", name, err)
			}
		}
		_, err = agents.RegisterAgent(in(t, ""), &meshv1.RegisterAgentRequest{Name: "plain", Card: card("plain"), Endpoint: far.GRPC})
		if unsigned := rpc.FromStatus(err); (choose.cards.Verify == "require") != (mesh.FieldOf(unsigned) == "card.signatures") {
			t.Errorf("%s: a card without a signature: %v", name, err)
		}
		m.Stop()
	}
	for _, wrong := range []node.Cards{{Mode: "v2"}, {Verify: "maybe"}} {
		cfg := config(t.TempDir())
		cfg.Cards = wrong
		if err := cfg.Fill(); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
