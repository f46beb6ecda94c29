package conformance_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh/conformance"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/cards"
)

// Agents that do not answer as they should fail with the cause, and what hangs on that is
// skipped.
func TestBrokenAgentsFailWithTheCause(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tt := range map[string]struct {
		serves http.HandlerFunc
		told   string
	}{
		"silent": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "said nothing in"},
		"hangs up":             {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unexpected EOF"},
		"wants credentials":    {status(http.StatusUnauthorized), "401"},
		"forbids":              {status(http.StatusForbidden), "403"},
		"is not there":         {status(http.StatusNotFound), ""},
		"is ill":               {status(http.StatusInternalServerError), "500"},
		"a web page":           {write("text/html", "<html>hello</html>"), "<html>"},
		"another content type": {write("text/plain", "data: {}\n\n"), "data:"},
		"half of it":           {write("text/event-stream", `data: {"jsonrpc":"2.0","result":{"task":`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := conformance.Options{Timeout: 30 * time.Second}
			if name == "silent" {
				o.Timeout = 500 * time.Millisecond
			}
			all := run(t, web(t, tt.serves), o)
			for check, want := range map[string]conformance.Verdict{
				conformance.CheckConnect: ok, conformance.CheckSend: failed, conformance.CheckStream: failed,
				conformance.CheckMemory: skipped, conformance.CheckGetTask: skipped, conformance.CheckCancel: skipped,
			} {
				if got := of(all, check); !slices.Equal(got, []conformance.Verdict{want}) {
					t.Errorf("%s: %v, want %v: %v", check, got, want, all)
				}
			}
			for _, f := range all {
				if f.Check == conformance.CheckStream && (!strings.Contains(f.Cause, tt.told) || f.Remedy == "") {
					t.Errorf("not told %q: %+v", tt.told, f)
				}
			}
		})
	}
}

// Answers whose envelope is odd are understood, and told.
func TestOddEnvelopesAreTold(t *testing.T) {
	t.Parallel()
	const task = `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	for name, tt := range map[string]struct{ kind, body, told string }{
		"another id":           {"application/json", `{"jsonrpc":"2.0","id":"other","result":` + task + `}`, "id of its request"},
		"no version":           {"application/json", `{"result":` + task + `}`, "jsonrpc"},
		"no envelope":          {"application/json", task, "jsonrpc"},
		"another content type": {"text/html", `{"jsonrpc":"2.0","id":"other","result":` + task + `}`, "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := run(t, web(t, write(tt.kind, tt.body)), conformance.Options{})
			if got := of(all, conformance.CheckSend); len(got) < 2 || got[0] != ok || got[1] != warning {
				t.Errorf("send: %v: %v", got, all)
			}
			if !slices.ContainsFunc(all, func(f conformance.Finding) bool { return f.Verdict == warning && strings.Contains(f.Cause, tt.told) }) {
				t.Errorf("nobody says %q: %v", tt.told, all)
			}
		})
	}
}

// An endless is an agent that ends its tasks and not its streams.
type endless struct {
	a2apb.UnimplementedA2AServiceServer
}

func (endless) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: "t", ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}}}})
	<-stream.Context().Done()
	return err
}

// A stream that stays open is borne, and told once; what is not implemented fails.
func TestAStreamThatStaysOpenIsTold(t *testing.T) {
	t.Parallel()
	srv := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(srv, endless{})
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	defer func() { srv.Stop(); <-done }()
	card := httptest.NewServer(write("application/json", cardJSON(interfaceJSON("GRPC", "1.0", l.Addr().String()))))
	defer card.Close()
	all := run(t, card.URL, conformance.Options{})
	for check, want := range map[string][]conformance.Verdict{
		conformance.CheckSend: {failed}, conformance.CheckStream: {ok, warning}, conformance.CheckMemory: {warning},
		conformance.CheckGetTask: {warning}, conformance.CheckUnknownTask: {warning}, conformance.CheckMalformed: {warning},
	} {
		if got := of(all, check); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v: %v", check, got, want, all)
		}
	}
	if !slices.ContainsFunc(all, func(f conformance.Finding) bool { return strings.Contains(f.Cause, "stays open") }) {
		t.Errorf("nobody says that it stays open: %v", all)
	}
}

// An agent whose card does not say that it streams is not asked for streams.
func TestAnAgentThatDoesNotStreamIsAskedForNone(t *testing.T) {
	t.Parallel()
	agent := serve(t, &person{}, "HTTP+JSON 1.0")
	card := strings.Replace(cardJSON(interfaceJSON("HTTP+JSON", "1.0", agent+"/1.0")), `"streaming":true`, "", 1)
	srv := httptest.NewServer(write("application/json", card))
	defer srv.Close()
	all := run(t, srv.URL, conformance.Options{Question: "ask", Long: "work"})
	for check, want := range map[string]conformance.Verdict{conformance.CheckStream: skipped, conformance.CheckSend: ok,
		conformance.CheckMemory: ok, conformance.CheckQuestion: ok, conformance.CheckCancel: ok} {
		if got := of(all, check); !slices.Equal(got, []conformance.Verdict{want}) {
			t.Errorf("%s: %v, want %v: %v", check, got, want, all)
		}
	}
}

// A card that cannot be read is all there is to tell.
func TestCardsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dead := "http://" + rpctest.Free(t)
	page := httptest.NewServer(write("text/html", "<!doctype html><title>Hello</title>"))
	defer page.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	for url, told := range map[string]string{dead: "refused", page.URL: "is not the JSON of an A2A agent card", gone.URL: "404", hangs.URL: "nothing came"} {
		o := conformance.Options{Timeout: 30 * time.Second}
		if url == hangs.URL {
			o.Timeout = 200 * time.Millisecond
		}
		all := run(t, url, o)
		if len(all) != 1 || all[0].Check != conformance.CheckCard || all[0].Verdict != failed || all[0].Remedy == "" || !strings.Contains(all[0].Cause, told) {
			t.Errorf("%s, want %q: %+v", url, told, all)
		}
	}
}

// A card without an interface that the mesh speaks fails, and one with more says which are
// passed over.
func TestInterfacesThatTheMeshDoesNotSpeak(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(write("application/json", cardJSON(interfaceJSON("PIGEON", "1.0", "http://h/"))))
	defer srv.Close()
	all := run(t, srv.URL, conformance.Options{})
	if last := all[len(all)-1]; last.Verdict != failed || !strings.Contains(last.Check, "supportedInterfaces") {
		t.Errorf("%+v", all)
	}
	if got := of(all, "card.supportedInterfaces[0].protocolBinding"); !slices.Equal(got, []conformance.Verdict{warning}) {
		t.Errorf("the binding: %+v", all)
	}
}

// An interface where nobody is fails, and the others are tested.
func TestAnInterfaceThatIsDeadFailsAlone(t *testing.T) {
	t.Parallel()
	at := rpctest.Free(t)
	agent := serve(t, &person{}, "JSONRPC 1.0")
	srv := httptest.NewServer(write("application/json", cardJSON(interfaceJSON("GRPC", "1.0", at), interfaceJSON("JSONRPC", "1.0", agent+"/1.0/rpc"))))
	defer srv.Close()
	all := run(t, srv.URL, conformance.Options{})
	for check, want := range map[string][]conformance.Verdict{conformance.CheckConnect: {failed, ok}, conformance.CheckSend: {skipped, ok}, conformance.CheckUnknownTask: {skipped, ok}} {
		if got := of(all, check); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", check, got, want)
		}
	}
}

// An agent that takes no message under the context that it made is borne, and told.
func TestAnAgentThatRefusesItsContextIsWarnedOf(t *testing.T) {
	t.Parallel()
	n := 0
	all := run(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_ = r.Write(body)
		if strings.Contains(body.String(), "contextId") {
			write("application/json", `{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no such context"}}`)(w, r)
			return
		}
		n++
		write("application/json", `{"jsonrpc":"2.0","id":"1","result":{"message":{"messageId":"m","role":"ROLE_AGENT","contextId":"c","parts":[{"text":"hi"}]}}}`)(w, r)
	}), conformance.Options{})
	if got := of(all, conformance.CheckMemory); !slices.Equal(got, []conformance.Verdict{warning}) || n == 0 {
		t.Errorf("memory: %v: %v", got, all)
	}
}

// Over TLS the server's certificate is believed as the options say; a signature on the card
// is verified, by a key at its host.
func TestTLSAndSignatures(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	srv := httptest.NewTLSServer(mux)
	defer srv.Close()
	mux.HandleFunc("/", write("application/json", `{"jsonrpc":"2.0","id":"1","result":{"message":{"messageId":"m","role":"ROLE_AGENT","contextId":"c","parts":[{"text":"hi"}]}}}`))
	keys, err := cards.LoadOrCreate(filepath.Join(t.TempDir(), "key"), srv.URL+"/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("/jwks.json", write("application/json", string(keys.JWKS())))
	card := &a2apb.AgentCard{}
	if err := protojson.Unmarshal([]byte(cardJSON(interfaceJSON("JSONRPC", "1.0", srv.URL+"/"))), card); err != nil {
		t.Fatal(err)
	}
	signed, err := keys.Sign(card)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(at string, card *a2apb.AgentCard) {
		data, err := protojson.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc(at, write("application/json", string(data)))
	}
	publish("/signed", signed)
	signed.Description += " for others"
	publish("/changed", signed)

	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	believes := conformance.Options{TLS: func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} }}
	for path, want := range map[string]conformance.Verdict{"/signed": ok, "/changed": warning} {
		all := run(t, srv.URL+path, believes)
		if got := of(all, conformance.CheckSignature); !slices.Equal(got, []conformance.Verdict{want}) {
			t.Errorf("%s: signature %v: %v", path, got, all)
		}
		if got := of(all, conformance.CheckConnect); !slices.Equal(got, []conformance.Verdict{ok}) {
			t.Errorf("%s: connect %v", path, got)
		}
	}
	plain := httptest.NewServer(write("application/json", cardJSON(interfaceJSON("JSONRPC", "1.0", srv.URL+"/"), interfaceJSON("GRPC", "1.0", "grpcs://"+srv.Listener.Addr().String()))))
	defer plain.Close()
	all := run(t, plain.URL, conformance.Options{})
	if got := of(all, conformance.CheckConnect); !slices.Equal(got, []conformance.Verdict{failed, failed}) || !strings.Contains(all[2].Cause, "certificate") {
		t.Errorf("a certificate of nobody: %v", all)
	}
	if all := run(t, srv.URL, conformance.Options{}); len(all) != 1 || all[0].Verdict != failed || !strings.Contains(all[0].Cause, "certificate") {
		t.Errorf("the card, so: %v", all)
	}
}
