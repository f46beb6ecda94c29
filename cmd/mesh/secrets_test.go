package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
)

// A vault has secrets by what they are for, and what was put out anywhere.
type vault struct {
	t       *testing.T
	mu      sync.Mutex
	secrets map[string]string
	out     map[string]string // by where
	may     map[string]string // by where, the one secret that has to be there
}

func newVault(t *testing.T) *vault {
	return &vault{t: t, secrets: map[string]string{}, out: map[string]string{}, may: map[string]string{}}
}

// plant makes the secret of that name; the first characters alone tell it from all others.
func (v *vault) plant(name string) string { return v.keep(name, rand.Text()) }

// keep takes a secret that the mesh made.
func (v *vault) keep(name, secret string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(secret) < 16 {
		v.t.Fatalf("the secret %s is %q", name, secret)
	}
	v.secrets[name] = secret
	return secret
}

// saw keeps what was put out.
func (v *vault) saw(where, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out[where] += text
}

// heard keeps what a command put out.
func (v *vault) heard(where string, f finished) finished {
	v.saw(where, f.stdout+f.stderr)
	return f
}

// forms are those in which a secret may be found: as it is, its beginning, for a URL, and
// in base64 at each of the three places that it may have there.
func forms(secret string) []string {
	all := []string{secret, url.QueryEscape(secret)}
	if len(secret) == len(rand.Text()) {
		all = append(all, secret[:7])
	}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		middle := encoded[4 : len(encoded)-4] // what is beside the secret has no part in it
		all = append(all, middle, strings.NewReplacer("+", "-", "/", "_").Replace(middle))
	}
	return all
}

// check fails for each secret that is in what was put out.
func (v *vault) check() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, secret := range v.secrets {
		for where, text := range v.out {
			if v.may[where] == name {
				continue
			}
			for _, form := range forms(secret) {
				if at := strings.Index(text, form); at >= 0 {
					v.t.Errorf("%s is in %s: ...%q...", name, where, text[max(0, at-120):min(len(text), at+120)])
					break
				}
			}
		}
	}
}

// checkFiles looks at the files of a folder. Those that have to hold a secret are in holders,
// by name, each with that secret; they are their owner's alone.
func (v *vault) checkFiles(dir string, holders map[string]string) {
	v.t.Helper()
	met := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		v.saw("the file "+path, readFile(v.t, path))
		if holders[name] == "" {
			return nil
		}
		met[name], v.may["the file "+path] = true, holders[name]
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			v.t.Errorf("%s, which holds %s, has the mode %v", name, holders[name], info.Mode())
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	for name := range holders {
		if !met[name] {
			v.t.Errorf("there is no file %s", name)
		}
	}
}

// A confidant is an agent that is called with a ticket, redeems it, and fails with words that
// cite all that it was told.
type confidant struct {
	a2apb.UnimplementedA2AServiceServer
	v      *vault
	node   *grpc.ClientConn
	secret string
}

func (a *confidant) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	ticket := strings.Join(md.Get("mesh-ticket"), "")
	a.v.keep("the ticket", ticket)
	ctx := metadata.NewOutgoingContext(stream.Context(), metadata.Pairs("mesh-ticket", ticket, "mesh-holder", a.secret))
	res, err := meshv1.NewGrantServiceClient(a.node).RedeemTicket(ctx, &meshv1.RedeemTicketRequest{})
	if err != nil {
		return err
	}
	a.v.keep("the grant", res.GetGrant())
	return status.Errorf(codes.Internal, "not good enough: %s, %s", ticket, res.GetGrant())
}

// confide registers a confidant.
func confide(t *testing.T, v *vault, m *realMesh) {
	t.Helper()
	l := rpctest.Listen(t)
	plain, err := grpcPlain(m.grpc)
	if err != nil {
		t.Fatal(err)
	}
	a, server := &confidant{v: v, node: plain}, grpc.NewServer()
	a2apb.RegisterA2AServiceServer(server, a)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait(); _ = plain.Close() })
	yes := true
	data, err := protojson.Marshal(&a2apb.AgentCard{
		Name: "Confidant", Description: "Hears all.", Version: "1.0.0",
		Capabilities:      &a2apb.AgentCapabilities{Streaming: &yes, Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}},
		Skills:            []*a2apb.AgentSkill{{Id: "hear", Name: "hear", Description: "hears", Tags: []string{"hear"}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: l.Addr().String(), ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cards := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(cards.Close)
	res, err := meshv1.NewRegistryServiceClient(m.dial()).RegisterAgent(timely(t), &meshv1.RegisterAgentRequest{
		Name: "confidant", CardUrl: with(cards.URL, "", "", v.plant("the query of a card's URL"))})
	if err != nil {
		t.Fatal(err)
	}
	a.secret = v.keep("the secret of a registration", res.GetSecret())
}

// grpcPlain is a connection that adds nothing to calls.
func grpcPlain(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// indiscreet is a server that refuses all requests and cites them; it counts them.
func indiscreet(t *testing.T, v *vault, code int) (s *httptest.Server, asked <-chan string) {
	t.Helper()
	all := make(chan string, 1000)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := fmt.Sprintf("not good: %s %s %v", r.URL, r.Header.Get("Authorization"), r.Header)
		all <- said
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, said)
	}))
	t.Cleanup(s.Close)
	return s, all
}

// with puts user, password and a query into a URL.
func with(raw, user, password, query string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // a server's
	}
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	if query != "" {
		u.RawQuery = "key=" + query
	}
	return u.String()
}

// hookGone is a webhook that is gone, so that it is given up at once.
const hookGone = http.StatusGone

// No secret that users, agents and operators give, or that the mesh makes, is in what any
// command or the node puts out, in errors of any binding, in cards, logs, exports or files.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	dir := t.TempDir()
	token := v.plant("a bearer token")
	writeFile(t, filepath.Join(dir, "tokens.yaml"), fmt.Sprintf("- {name: ann, hash: '%s', tenant: default, user: ann, roles: [operator]}\n", auth.Hash(token)))
	echo, heardOf := indiscreet(t, v, http.StatusUnauthorized)
	failing, _ := indiscreet(t, v, http.StatusInternalServerError)
	hook, hooked := indiscreet(t, v, hookGone)
	office := startPostOffice(t)
	writeFile(t, filepath.Join(dir, "skills", "press", "print.md"), "---\nname: press.print\ndescription: Print a word on paper\n"+
		"handler: http.request\naccess: read\nparameters:\n  - {name: word, required: true}\n---\n# Print\n\n    press.print --word <word>\n\n"+
		"```http\nGET "+failing.URL+"/?w={word}\nX-Key: {secret:press}\n```\n")
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`log_level: debug
tool_mode: single_loop
egress: {allow: [127.0.0.1], allow_http: true}
model:
  url: %q
  key: %q
  name: first
  retries: -1
  fallbacks: [{url: %q, key: %q, name: second}]
smtp: {address: %q, user: mesh, password: %q, from: Mesh <mesh@example.com>}
http_skills:
  allow: [%q]
  secrets: {press: {value: "%s+/%%", origins: [%q]}}
notify: [{webhook: %q, on: always}]
`, with(echo.URL+"/v1", "u"+v.plant("the user in the model's URL"), v.plant("the password in the model's URL"), ""), v.plant("the model's key"),
		failing.URL+"/v1", v.plant("a fallback's key"), office.addr, v.plant("the SMTP password"), failing.URL, v.plant("an HTTP skill's secret"), failing.URL,
		with(hook.URL, "u"+v.plant("the user in a webhook's URL"), v.plant("the password in a webhook's URL"), v.plant("the query of a webhook's URL")))+
		mcpYAML(t, map[string]string{"MCP_TOKEN": v.plant("an MCP server's variable")})+
		fmt.Sprintf("    far:\n      url: %q\n      headers: {Authorization: \"Bearer %s\"}\n    gone:\n      url: %q\n",
			with(echo.URL, "", "", v.plant("the query of an MCP server's URL")), v.plant("an MCP server's header"),
			with("http://127.0.0.1:1/", "", "", v.plant("the query of an MCP server that is gone"))))
	m := up(t, dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	m.dialAs(token)
	m.awaitSkill("words.break")
	confide(t, v, m)
	ann := person{m, token}

	v.entrust(ann, echo.URL)

	id := mesh.NewThreadID()
	v.converse(ann, id)
	v.push(m, id, hook.URL)
	v.refused(m)
	worker := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc, "MESH_TOKEN=" + token}, "agent", "run", "worker", "--name", "helper", "--log-level", "debug", "--config", "mesh.yaml", "--data", "other")
	worker.shows(`agent helper is registered`)
	v.read(ann, id)
	worker.signal(os.Interrupt)
	worker.wait()
	for range 2 { // the notification and the push; both wait for their turn in the background
		v.secret(<-hooked)
	}
	v.secret(<-heardOf)
	m.stop()
	v.saw("the node's output", m.stdout.String()+m.stderr.String())
	v.saw("an agent's output", worker.stdout.String()+worker.stderr.String())
	if out := m.stderr.String(); !strings.Contains(out, "is refused") || !strings.Contains(out, "level=DEBUG") {
		t.Errorf("the log lacks what was to be there:\n%s", out)
	}
	v.checkFiles(m.data, map[string]string{ // the card is read there again, after a restart also
		"mesh.db": "the query of a card's URL", filepath.Join("mesh.log", "0000000000000000001.seg"): "the query of a card's URL"})
	v.check()
}

// secret fails unless there is a secret in what a server was sent, without which the test
// would show nothing.
func (v *vault) secret(said string) {
	v.t.Helper()
	for _, s := range v.secrets {
		for _, form := range forms(s) {
			if strings.Contains(said, form) {
				return
			}
		}
	}
	v.t.Errorf("there is no secret in %q", said)
}

// dialAs connects with the token.
func (m *realMesh) dialAs(token string) {
	m.t.Helper()
	conn, err := rpc.Dial(m.grpc, rpc.DialOptions{Bearer: token})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = conn.Close() })
	m.conn = conn
}

// converse has turns and calls that fail at the model, an agent, a mail server, a tool and a
// service, each of which cites what it was sent, and one that does not fail.
func (v *vault) converse(ann person, id string) {
	v.t.Helper()
	v.heard("a turn whose model fails", ann.mesh("send", "--thread", id, "hello")).want(v.t, exitFailure, "")
	for _, run := range [][]string{
		{"press.print", "--word", "pier"}, {"words.break"},
		{"mail.send", "--to", "bob@example.com", "--subject", "Hi", "--body", "Hi"}} {
		v.heard(run[0], ann.mesh(append([]string{"skills", "run", "--yes", "--thread", id}, run...)...)).want(v.t, exitFailure, "")
	}
	v.heard("words.lookup", ann.mesh("skills", "run", "--yes", "words.lookup", "--word", "pier")).want(v.t, exitOK, "harbour")

	ctx := mesh.WithCall(timely(v.t), mesh.Call{Agent: "confidant"})
	stream, err := ann.edge().SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: &a2apb.Message{
		MessageId: "m1", Role: a2apb.Role_ROLE_USER, Parts: textParts("hello")}})
	for err == nil {
		var u *a2apb.StreamResponse
		if u, err = stream.Recv(); err == nil {
			v.saw("a turn of an agent that fails", u.String())
		}
	}
	if err != io.EOF {
		v.saw("a turn of an agent that fails", err.Error())
	}
	if v.secrets["the grant"] == "" {
		v.t.Errorf("the agent was not called: %v", err)
	}
}

// entrust gives agents credentials of each kind, rotates them, and calls these agents, whose
// servers refuse and cite what they are sent (finding N5).
func (v *vault) entrust(ann person, server string) {
	v.t.Helper()
	schemes := map[string]any{"o": map[string]any{"oauth2SecurityScheme": map[string]any{"flows": map[string]any{"clientCredentials": map[string]any{"tokenUrl": server, "scopes": map[string]any{}}}}}}
	for _, scheme := range []string{"bearer", "basic", "header:X-Key", "query:key", "cookie:key", "o"} {
		name := "keeper-" + strings.NewReplacer(":", "-", "X-Key", "key").Replace(scheme)
		card, err := json.Marshal(map[string]any{"name": name, "securitySchemes": schemes,
			"supportedInterfaces": []any{map[string]any{"url": server, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}}})
		if err != nil {
			v.t.Fatal(err)
		}
		cards := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(card) }))
		v.t.Cleanup(cards.Close)
		value := func(kind string) map[string]string {
			secret := v.plant("an agent's " + kind + " " + scheme)
			if scheme == "basic" || scheme == "o" {
				secret = "user:" + secret
			}
			return map[string]string{"MESH_ADDR": ann.grpc, "MESH_TOKEN": ann.token, "GIVEN": secret}
		}
		given := scheme + "=env:GIVEN"
		v.heard(name+" with nothing that is meant", runHere(v.t, value("credential on the command line"), "agents", "add", cards.URL, "--credential", scheme+"="+v.plant("a value by flag for "+scheme))).want(v.t, exitUsage, "")
		v.heard(name, runHere(v.t, value("credential"), "agents", "add", cards.URL, "--credential", given)).want(v.t, exitOK, "added")
		v.heard(name+" again", runHere(v.t, value("next credential"), "agents", "credentials", "set", name, "--credential", given)).want(v.t, exitOK, "set")
		v.heard(name+" shown", ann.mesh("agents", "show", name)).want(v.t, exitOK, "set")
		ctx := mesh.WithCall(timely(v.t), mesh.Call{Agent: name})
		stream, err := ann.edge().SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: &a2apb.Message{
			MessageId: rand.Text(), Role: a2apb.Role_ROLE_USER, Parts: textParts("hello")}})
		for err == nil {
			var u *a2apb.StreamResponse
			if u, err = stream.Recv(); err == nil {
				v.saw("a turn of "+name, u.String())
			}
		}
		if err != io.EOF {
			v.saw("a turn of "+name, err.Error())
		}
		if said := v.out["a turn of "+name]; !strings.Contains(said, "TASK_STATE_FAILED") {
			v.t.Errorf("%s did not fail: %s", name, said)
		}
	}
}

// push sets webhooks for a turn, one that is refused and one that is called and gone.
func (v *vault) push(m *realMesh, id, hook string) {
	v.t.Helper()
	set := func(at string) {
		resp, err := m.edge().SendMessage(inThread(v.t, id), &a2apb.SendMessageRequest{
			Message: &a2apb.Message{MessageId: rand.Text(), Role: a2apb.Role_ROLE_USER, Parts: textParts("again")},
			Configuration: &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{
				Url: at, Token: v.plant("a webhook's token"),
				Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: v.plant("a webhook's credentials")}}}})
		v.saw("a turn with a webhook", fmt.Sprint(resp, err))
	}
	set(with(hook, "u"+v.plant("the user in a push URL that is refused"), v.plant("the password in it"), ""))
	set(with(hook, "", "", v.plant("the query of a push URL")))
}

// refused makes calls that are refused, over each binding.
func (v *vault) refused(m *realMesh) {
	v.t.Helper()
	wrong := v.plant("a wrong token")
	v.heard("a wrong token", person{m, wrong}.mesh("agents", "list")).want(v.t, exitDenied, "")
	v.heard("a wrong token by flag", runHere(v.t, map[string]string{"MESH_ADDR": m.grpc}, "agents", "list", "--token", wrong)).want(v.t, exitDenied, "")
	for _, path := range []string{"/mesh/v1/agents", "/extendedAgentCard", "/", "/tasks/none"} {
		for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":1}}`} {
			resp := m.request(method, path, http.Header{"Authorization": {"Bearer " + wrong}, "Content-Type": {"application/json"}}, []byte(body))
			data, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode < 400 {
				v.t.Errorf("%s %s: %s %v", method, path, resp.Status, err)
			}
			v.saw(method+" "+path, fmt.Sprint(resp.Header)+string(data))
		}
	}
	plain, err := grpcPlain(m.grpc)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	_, err = meshv1.NewGrantServiceClient(plain).RedeemTicket(metadata.AppendToOutgoingContext(timely(v.t),
		"mesh-ticket", v.plant("a wrong ticket"), "mesh-holder", v.plant("a wrong holder")), &meshv1.RedeemTicketRequest{})
	v.saw("a wrong ticket", fmt.Sprint(err))
	user, password := "u"+v.plant("the user in an agent's URL"), v.plant("the password in an agent's URL")
	ann := person{m, v.secrets["a bearer token"]}
	for _, raw := range []string{"http://127.0.0.1:1/", "ftp://127.0.0.1:1/", "http://%zz/"} {
		at := strings.Replace(raw, "//", "//"+user+":"+password+"@", 1)
		v.heard("an agent at "+raw, ann.mesh("agents", "add", at)).want(v.t, exitUsage, "")
	}
	v.heard("an agent that is away", ann.mesh("agents", "add", with("http://127.0.0.1:1/card", "", "", v.plant("the query of another card's URL"))))
	v.heard("a mesh at a URL", runHere(v.t, map[string]string{"MESH_ADDR": "grpc://" + user + ":" + password + "@127.0.0.1:1"}, "agents", "list"))
}

// read prints all that there is to read.
func (v *vault) read(ann person, id string) {
	v.t.Helper()
	for _, line := range []string{"agents list", "agents list --json", "agents show confidant", "agents show confidant --json", "agents show keeper-basic --json", "agents show helper --json",
		"threads list", "threads show " + id, "threads export " + id, "audit export", "audit tail --json", "audit trail " + id, "skills list", "skills show press.print", "protos " + v.t.TempDir(), "token explain"} {
		v.heard(line, ann.mesh(strings.Fields(line)...)).want(v.t, exitOK, "")
	}
	bearer := http.Header{"Authorization": {"Bearer " + ann.token}}
	for _, path := range []string{"/.well-known/agent-card.json", "/extendedAgentCard", "/mesh/v1/agents", "/mesh/v1/threads/" + id + "/events", "/tasks"} {
		resp := ann.request(http.MethodGet, path, bearer, nil)
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			v.t.Errorf("%s: %s %s", path, resp.Status, data)
		}
		v.saw("GET "+path, string(data))
	}
}

// A file of settings, or of tokens, with a mistake on the line of a secret is refused
// without the secret.
func TestMistakesInFilesAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for _, text := range []string{
		"model: %s", "model: {retries: %s}", "model: {key:%s}", "model: {key: [%s]}\nfoo: %s", "model: {url: \"https://%s@\\n\"}", "model: {url: %s}",
		"model: {fallbacks: [{name: x, url: %s}]}", "model: {fallbacks: %s}", "smtp: %s", "smtp: {password: *%s}", "smtp: {password: {%s: 1}}", "smtp: !%s x",
		"smtp: {address: %s}", "smtp: {address: \"smtp://u:%s@h\", from: a@b.c}", "http_skills: {secrets: {a: %s}}", "http_skills: {secrets: %s}",
		"%s: 1\n%s: 2", "grace: %s", "mcp: {servers: {a: {env: [%s]}}}", "mcp: {servers: {a: {env: %s}}}", "mcp: {servers: {a: {url: \"ftp://u:%s@h\"}}}",
		"mcp: {servers: {a: {url: \"http://u:%s@h\"}}}", "mcp: {servers: {a: {url: \"http://h\", headers: {A: \"%s\\n\"}}}}",
		"notify: [{webhook: %s}]", "notify: [{webhook: \"ftp://u:%s@h\"}]", "notify: %s", "egress: {allow: [\"https://u:%s@h\"]}",
		"public: {http: \"ftp://u:%s@h\"}", "\"%s", "a: b: %s", "- %s",
	} {
		secret, dir := v.plant(text), t.TempDir()
		file := filepath.Join(dir, "mesh.yaml")
		writeFile(t, file, strings.ReplaceAll(text, "%s", secret)+"\n")
		f := v.heard("settings "+text, runHere(t, nil, "up", "--config", file, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", filepath.Join(dir, "data")))
		f.fails(t, exitUsage, `mesh: .`)
	}
	for _, text := range []string{"- {name: a, hash: %s, tenant: t, user: u, roles: [user]}", "- {name: a, hash: *%s}", "%s", "- %s", "a: b: %s"} {
		secret, dir := v.plant("tokens "+text), t.TempDir()
		file := filepath.Join(dir, "tokens.yaml")
		writeFile(t, file, fmt.Sprintf(text, secret)+"\n")
		v.heard("tokens "+text, runHere(t, nil, "up", "--auth", "tokens", "--tokens", file, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))).
			fails(t, exitUsage, `tokens.yaml`)
	}
	v.check()
}

// Private keys are in files of their own, which nobody else reads, and invitations nowhere.
func TestPrivateKeysAreInFilesOfTheirOwn(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	dir := t.TempDir()
	m := up(t, dir, "--tls", "auto", "--log-level", "debug")
	trusting := map[string]string{"MESH_ADDR": m.grpc, "MESH_CA": filepath.Join(m.data, "tls", "ca.pem")}
	invited := runHere(t, trusting, "agents", "invite", "helper").succeeds(t)
	token := v.keep("an invitation", strings.TrimSpace(invited))
	identity := filepath.Join(dir, "identity")
	v.heard("a wrong invitation", runHere(t, trusting, "agent", "join", token+"x", "--identity", identity)).want(t, exitDenied, "")
	v.heard("an invitation", runHere(t, trusting, "agent", "join", token, "--identity", identity)).want(t, exitOK, "")
	v.heard("a used invitation", runHere(t, trusting, "agent", "join", token, "--identity", identity)).want(t, exitDenied, "")
	v.heard("audit", runHere(t, trusting, "audit", "export")).want(t, exitOK, "InviteAgent")
	p := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "agent", "run", "worker", "--identity", identity, "--log-level", "debug")
	p.shows(`agent helper is registered`)
	p.signal(os.Interrupt)
	p.wait()
	m.stop()
	v.saw("the agent's output", p.stdout.String()+p.stderr.String())
	v.saw("the node's output", m.stdout.String()+m.stderr.String())
	data := v.keysIn(m.data)
	other := v.keysIn(identity)
	if len(data) < 2 || len(other) != 1 {
		t.Errorf("keys are in %v and %v", data, other)
	}
	v.checkFiles(m.data, data)
	v.checkFiles(identity, other)
	v.check()
}

// keysIn keeps the private keys below the folder and returns the files that have some.
func (v *vault) keysIn(dir string) map[string]string {
	v.t.Helper()
	holders := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		data, err := os.ReadFile(path)
		_, key, ok := bytes.Cut(data, []byte("PRIVATE KEY-----\n"))
		if ok {
			key, _, _ = bytes.Cut(key, []byte("\n---"))
			line, _, _ := strings.Cut(string(key), "\n")
			v.keep("the key in "+name, line[min(40, len(line)/2):]) // before are the names of algorithms
			holders[name] = "the key in " + name
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return holders
}
