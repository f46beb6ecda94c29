package probe_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/llm/probe"
	"agentmesh/mesh/rpc/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// An endpoint speaks the chat completions protocol as far as its fields do not say otherwise.
// Where one has a status in it, that is the answer.
type endpoint struct {
	list, chat, tools int
	models            string // the list; default has "big" and "small"
	only              string // the model that there is; "" is any
	key               string // that is taken; "" is any
	whole             bool   // it sends replies in one piece, whatever it is asked for
	streamless        bool   // it refuses to stream
	wordy             bool   // it calls no tools
	page              string // what it answers to all requests
	asked             atomic.Int32
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"refused, with %s"}}`, key)
	}
	switch {
	case e.page != "":
		_, _ = io.WriteString(w, e.page)
		return
	case e.key != "" && r.Header.Get("Authorization") != "Bearer "+e.key && (r.Method == http.MethodPost || e.list != http.StatusOK):
		refuse(http.StatusUnauthorized)
		return
	case r.URL.Path == "/v1/models" && e.list <= http.StatusOK:
		models := `{"object":"list","data":[{"id":"small"},{"id":"big"}]}`
		if e.models != "" {
			models = e.models
		}
		_, _ = io.WriteString(w, models)
		return
	case r.URL.Path == "/v1/models":
		refuse(e.list)
		return
	case r.URL.Path != "/v1/chat/completions":
		refuse(http.StatusNotFound)
		return
	}
	e.asked.Add(1)
	var req struct {
		Model  string
		Stream bool
		Tools  []any
	}
	if json.NewDecoder(r.Body).Decode(&req) != nil {
		refuse(http.StatusBadRequest)
		return
	}
	switch {
	case e.chat != 0:
		refuse(e.chat)
	case e.only != "" && req.Model != e.only:
		refuse(http.StatusNotFound)
	case e.tools != 0 && len(req.Tools) > 0:
		refuse(e.tools)
	case req.Stream && e.streamless:
		refuse(http.StatusBadRequest)
	case !req.Stream || e.whole:
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"OK"}}]}`)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		delta, finish := `{"content":"OK"}`, "stop"
		if len(req.Tools) > 0 && !e.wordy {
			delta, finish = `{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"report_ok","arguments":"{}"}}]}`, "tool_calls"
		}
		_, _ = fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", req.Model, delta, finish)
	}
}

// settings are how an operator calls the fields.
var settings = openai.Settings{URL: "model.url", Key: "model.key", Model: "model.name"}

// states are the results of a report as one line: the first letters of the states in the
// order of the steps.
func states(r *probe.Report) string {
	out := ""
	for _, x := range r.Results {
		out += fmt.Sprintf("%c", x.Status[0])
	}
	return out
}

// finding U3: each thing that can be wrong with an endpoint, with a server that really is so.
func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		serve  *endpoint
		path   string // below the server; default /v1
		key    string // default is the secret
		model  string // default is big
		states string // of url, name, connection, http, key, model, reply, stream, tools
		step   probe.Step
		code   probe.Code
		words  []string
		asked  int32 // requests for a reply
	}{
		"nothing":                                {serve: &endpoint{key: key, only: "big"}, states: "ooooooooo", asked: 2},
		"no list of models":                      {serve: &endpoint{list: 404}, states: "ooooooooo", asked: 2},
		"a key that may not list models":         {serve: &endpoint{list: 403}, states: "ooooooooo", asked: 2},
		"a key that is refused":                  {serve: &endpoint{key: "another"}, states: "oooofuuuu", step: probe.StepKey, code: probe.KeyRefused, words: []string{"refuses the key (401)", "model.key"}},
		"a key that is refused after the list":   {serve: &endpoint{key: "another", list: 200}, states: "oooofuuuu", step: probe.StepKey, code: probe.KeyRefused},
		"no key where one is wanted":             {serve: &endpoint{key: "another"}, key: "-", states: "oooofuuuu", step: probe.StepKey, code: probe.KeyMissing, words: []string{"wants a key"}},
		"a key with a line break":                {serve: &endpoint{}, key: "secret\n", states: "ouuufuuuu", step: probe.StepKey, code: probe.KeyMalformed},
		"a key that may not use the model":       {serve: &endpoint{chat: 403}, states: "oooofuuuu", step: probe.StepKey, code: probe.KeyNotAllowed, words: []string{"403", "big"}, asked: 1},
		"a model that there is not":              {serve: &endpoint{only: "big"}, model: "bigg", states: "ooooufuuu", step: probe.StepModel, code: probe.NoSuchModel, words: []string{"no model bigg; it has big, small", "model.name"}, asked: 1},
		"a model that is refused and not listed": {serve: &endpoint{chat: 400}, model: "bigg", states: "ooooufuuu", step: probe.StepModel, code: probe.NoSuchModel, asked: 2},
		"no model":                               {serve: &endpoint{}, model: "-", states: "ooooufuuu", step: probe.StepModel, code: probe.ModelMissing, words: []string{"big, small"}},
		"an endpoint without chats":              {serve: &endpoint{chat: 404}, states: "oooouofuu", step: probe.StepReply, code: probe.NoAPI, asked: 1},
		"another path":                           {serve: &endpoint{list: 404}, path: "/", states: "ooooufuuu", step: probe.StepModel, code: probe.WrongPath, words: []string{"/v1"}},
		"no credit":                              {serve: &endpoint{chat: 429}, states: "oooooufuu", step: probe.StepReply, code: probe.Exhausted, asked: 1},
		"an endpoint that fails":                 {serve: &endpoint{chat: 503}, states: "oooouufuu", step: probe.StepReply, code: probe.Broken, words: []string{"503"}, asked: 2},
		"a request that is refused":              {serve: &endpoint{chat: 422}, states: "oooouufuu", step: probe.StepReply, code: probe.Refused, words: []string{"[key]"}, asked: 2},
		"a server of pages":                      {serve: &endpoint{list: 404, chat: 405}, states: "oooouufuu", step: probe.StepReply, code: probe.NotProtocol, asked: 2},
		"a page for people":                      {serve: &endpoint{page: "<!doctype html><title>Chat</title>"}, states: "oooouufuu", step: probe.StepReply, code: probe.NotProtocol, words: []string{"/v1"}},
		"replies in one piece":                   {serve: &endpoint{whole: true}, states: "ooooooofu", step: probe.StepStream, code: probe.NoStream, asked: 2},
		"streams that are refused":               {serve: &endpoint{streamless: true}, states: "ooooooofu", step: probe.StepStream, code: probe.NoStream, asked: 2},
		"tools that are refused":                 {serve: &endpoint{tools: 400}, states: "oooooooof", step: probe.StepTools, code: probe.NoToolCalls, asked: 2},
		"tools that are not called":              {serve: &endpoint{wordy: true}, states: "oooooooou", step: probe.StepTools, code: probe.NoToolCalls, asked: 2},
		"a list that is none":                    {serve: &endpoint{models: `[1]`}, states: "ooooooooo", asked: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.serve)
			defer srv.Close()
			or := func(set, otherwise string) string {
				if set == "" {
					return otherwise
				}
				return strings.TrimSuffix(set, "-")
			}
			c := openai.Config{BaseURL: srv.URL + or(tt.path, "/v1"), Key: or(tt.key, key), Model: or(tt.model, "big"), Settings: settings}
			r := probe.Endpoint(t.Context(), c, 0)
			want(t, r, tt.states, tt.step, tt.code, tt.words...)
			if n := tt.serve.asked.Load(); n != tt.asked {
				t.Errorf("it was asked for %d replies, want %d", n, tt.asked)
			}
		})
	}
}

// want checks a report: the states of its steps, and what it finds wrong first, or doubtful.
func want(t *testing.T, r *probe.Report, wantStates string, step probe.Step, code probe.Code, words ...string) {
	t.Helper()
	if got := states(r); got != wantStates {
		t.Errorf("the steps are %s, want %s:\n%+v", got, wantStates, r.Results)
	}
	for _, x := range r.Results {
		if text := x.String(); strings.Contains(text, key) || strings.ContainsAny(text, "\n\x1b") || x.Status == probe.Failed && (x.Detail == "" || x.Remedy == "") {
			t.Errorf("%s says %q", x.Step, text)
		}
	}
	found := r.Failed()
	if doubts := r.Doubts(); found == nil && len(doubts) > 0 {
		found = &doubts[0]
	}
	if found == nil {
		found = &probe.Result{}
	}
	if found.Step != step || found.Code != code || r.Works() != (found.Status != probe.Failed && (step == "" || step == probe.StepTools)) {
		t.Errorf("it finds %s %s, and works: %v; want %s %s", found.Step, found.Code, r.Works(), step, code)
	}
	for _, w := range words {
		if !strings.Contains(found.String(), w) {
			t.Errorf("%q does not say %q", found, w)
		}
	}
}

func TestModelsAreListedSorted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&endpoint{models: `{"data":[{"id":"llama3.2:latest"},{"id":"a"},{"id":"a"},{"id":""}]}`, only: "llama3.2"})
	defer srv.Close()
	r := probe.Endpoint(t.Context(), openai.Config{BaseURL: srv.URL + "/v1", Model: "x"}, 0)
	if diff := cmp.Diff([]string{"a", "llama3.2:latest"}, r.Models); diff != "" {
		t.Error(diff)
	}
	if f := r.Failed(); f == nil || f.Code != probe.NoSuchModel {
		t.Errorf("it finds %+v", f)
	}
}

// finding U3: what is wrong before HTTP.
func TestWhatIsWrongOnTheWayIsFound(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(&endpoint{})
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(&endpoint{})
	defer plain.Close()
	trusted := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	expired := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, Time: func() time.Time { return time.Unix(-1e9, 0) }}, DisableKeepAlives: true}
	elsewhere := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, secure.Listener.Addr().String())
	}}
	garbage := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x46\r\n\r\n") })
	closed := listen(t, func(net.Conn) {})
	nobody := rpctest.Free(t)
	unknown := &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}}
	}}
	tests := map[string]struct {
		url    string
		over   http.RoundTripper
		states string
		step   probe.Step
		code   probe.Code
		words  string
	}{
		"no URL":                       {"api.example.com/v1", nil, "fuuuuuuuuu", probe.StepURL, probe.BadURL, "model.url"},
		"another scheme":               {"ftp://api.example.com/v1", nil, "fuuuuuuuuu", probe.StepURL, probe.BadURL, "https"},
		"no host":                      {"https:///v1", nil, "fuuuuuuuuu", probe.StepURL, probe.BadURL, "host"},
		"a host that is not known":     {"https://api.exmaple.com/v1", unknown, "ofuuuuuuuu", probe.StepName, probe.UnknownHost, "the host api.exmaple.com is not known"},
		"nobody":                       {"http://" + nobody + "/v1", nil, "oofuuuuuu", probe.StepConnection, probe.Unreachable, "nothing listens"},
		"an authority that is unknown": {secure.URL + "/v1", nil, "ooofuuuuuu", probe.StepTLS, probe.Untrusted, "SSL_CERT_FILE"},
		"a certificate for another":    {"https://api.example.org/v1", elsewhere, "ooofuuuuuu", probe.StepTLS, probe.OtherName, "another host"},
		"a certificate out of time":    {secure.URL + "/v1", expired, "ooofuuuuuu", probe.StepTLS, probe.Expired, "clock"},
		"https where there is none":    {strings.Replace(plain.URL, "http", "https", 1) + "/v1", nil, "ooofuuuuuu", probe.StepTLS, probe.NoTLS, "with http"},
		"http where there is https":    {strings.Replace(secure.URL, "https", "http", 1) + "/v1", nil, "ooofuuuuuu", probe.StepTLS, probe.WantsTLS, "with https"},
		"no HTTP":                      {"http://" + garbage + "/v1", nil, "ooofuuuuu", probe.StepHTTP, probe.NotHTTP, "https"},
		"a connection that is closed":  {"http://" + closed + "/v1", nil, "ooofuuuuu", probe.StepHTTP, probe.NotHTTP, "port"},
		"nothing, encrypted":           {secure.URL + "/v1", secure.Client().Transport, "oooooooooo", "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { // one after the other: the servers end with this test
			r := probe.Endpoint(t.Context(), openai.Config{BaseURL: tt.url, Key: key, Model: "big", Transport: tt.over, Settings: settings}, 0)
			want(t, r, tt.states, tt.step, tt.code, tt.words)
		})
	}
}

// listen serves connections that are no HTTP, and closes each.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { // ends with the listener, and the cleanup waits
		defer close(done)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Read(make([]byte, 4<<10)) // the request, so that closing resets nothing
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// A redirect takes neither the key nor a word to another host, whichever request it answers.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, status := range []int{301, 302, 307, 308} {
			works := &endpoint{}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != method {
					works.ServeHTTP(w, r)
					return
				}
				http.Redirect(w, r, other.URL+"/v1?token=other-secret", status)
			}))
			r := probe.Endpoint(t.Context(), openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "big", Settings: settings}, 0)
			srv.Close()
			want(t, r, "ooofuuuuu", probe.StepHTTP, probe.Redirected, other.URL)
			if text := fmt.Sprint(r); strings.Contains(text, "other-secret") {
				t.Errorf("the report has a secret: %s", text)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

// What never ends is given up after the limit, and at once when the caller gives up.
func TestAHangingEndpointIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, states string
		step         probe.Step
	}{
		"the list":  {"/v1/models", "ooofuuuuu", probe.StepHTTP},
		"the reply": {"/v1/chat/completions", "oooouufuu", probe.StepReply},
	} {
		works, asked := &endpoint{}, make(chan struct{}, 10)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != tt.path {
				works.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the caller go
			asked <- struct{}{}
			<-r.Context().Done()
		}))
		c := openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "big", Settings: settings}
		t.Run(name, func(t *testing.T) {
			r := probe.Endpoint(t.Context(), c, time.Second)
			want(t, r, tt.states, tt.step, probe.Silent, "1s")
			<-asked
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-asked; cancel() }() // ends, for the server is asked
			want(t, probe.Endpoint(ctx, c, time.Hour), strings.Replace(tt.states, "f", "u", 1), tt.step, probe.Canceled)
		})
		srv.Close()
	}
}

// finding U3: a list that breaks off is none, and no reason to ask for no reply: HTTP was spoken.
func TestAListThatBreaksOffIsNone(t *testing.T) {
	t.Parallel()
	works := &endpoint{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"data":[{"id":"small"}]}`)
			return // the server closes the connection
		}
		works.ServeHTTP(w, r)
	}))
	defer srv.Close()
	r := probe.Endpoint(t.Context(), openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "big", Settings: settings}, 0)
	want(t, r, "ooooooooo", "", "")
	if len(r.Models) > 0 {
		t.Errorf("it lists %v", r.Models)
	}
}

// What the first request found out of the protocol is not asked for again: five requests are
// the most that are sent.
func TestAProtocolIsFoundOutOnce(t *testing.T) {
	t.Parallel()
	var asked []string // the requests come one after the other
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what there is of it will do
		thoughts := strings.Contains(string(body), "encrypted")
		asked = append(asked, strings.TrimPrefix(r.URL.Path, "/v1")+map[bool]string{true: " with thoughts"}[thoughts])
		switch {
		case r.URL.Path != "/v1/responses":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"message":"use /v1/responses"}}`)
		case thoughts:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Encrypted content is not supported"}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"1","name":"report_ok","arguments":"{}"}]}}`+"\n\n")
		}
	}))
	defer srv.Close()
	r := probe.Endpoint(t.Context(), openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "o9", Settings: settings}, 0)
	want(t, r, "ooooooooo", "", "")
	if diff := cmp.Diff([]string{"/models", "/chat/completions", "/responses with thoughts", "/responses", "/responses"}, asked); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

// The endpoints of this machine are those that list models; a web server of another kind is none.
func TestEndpointsOfThisMachineAreFound(t *testing.T) {
	t.Parallel()
	serves, web := httptest.NewServer(&endpoint{}), httptest.NewServer(&endpoint{page: "<!doctype html>"})
	defer serves.Close()
	defer web.Close()
	got := probe.Find(t.Context(), []probe.Local{{Name: "web", URL: web.URL}, {Name: "ours", URL: serves.URL + "/v1"}}, 0)
	if diff := cmp.Diff([]probe.Local{{Name: "ours", URL: serves.URL + "/v1", Models: []string{"big", "small"}}}, got); diff != "" {
		t.Error(diff)
	}
	if all := probe.Locals(); !slices.ContainsFunc(all, func(l probe.Local) bool { return l.URL == "http://127.0.0.1:11434/v1" }) {
		t.Errorf("the usual ones are %v", all)
	}
}
