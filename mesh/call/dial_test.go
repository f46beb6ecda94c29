package call

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// An interface is where its URL says, if its binding can be spoken there.
func TestAnInterfaceIsWhereItsURLSays(t *testing.T) {
	for url, want := range map[string]struct{ grpc, web string }{
		"http://a:1":    {"a:1", "http://a:1"},
		"HTTP://a:1/":   {"a:1", "HTTP://a:1/"},
		"grpc://a:1/":   {"a:1", ""},
		"a:1":           {"a:1", ""},
		"https://a/rpc": {"", "https://a/rpc"},
		"HTTPS://a/rpc": {"", "HTTPS://a/rpc"},
		"https://a":     {"grpcs://a:443", "https://a"},
		"grpcs://a:1":   {"grpcs://a:1", ""},
		"GRPCS://[::1]": {"grpcs://[::1]:443", ""},
		"unix://a":      {"", ""},
		"":              {"", ""},
	} {
		for binding, want := range map[string]string{"GRPC": want.grpc, "grpc": want.grpc, "JSONRPC": want.web, "http+json": want.web, "SOAP": ""} {
			if got := address(&a2apb.AgentInterface{Url: url, ProtocolBinding: binding}); got != want {
				t.Errorf("%s at %q is at %q, want %q", binding, url, got, want)
			}
		}
	}
}

// Interfaces of versions and bindings that are not spoken here are not used.
func TestOnlyVersionsThatAreSpokenAreCalled(t *testing.T) {
	d := NewDialer(nil, Options{HTTP: http.DefaultTransport})
	for version, spoken := range map[string]bool{"": true, "1": true, "1.0": true, "1.2.3": true, "0.3": true, "0.3.1": true,
		"0.2": false, "0.30": false, "10": false, "2.0": false} {
		for _, binding := range []string{"JSONRPC", "HTTP+JSON", "SOAP"} {
			in := &a2apb.AgentInterface{Url: "http://a:1", ProtocolBinding: binding, ProtocolVersion: version}
			_, err := d.Dial(Target{Card: &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{in}}, Endpoint: address(in)})
			if want := spoken && binding != "SOAP"; (err == nil) != want || err != nil && !mesh.IsCode(err, mesh.Unavailable) {
				t.Errorf("%s of version %q: %v", binding, version, err)
			}
		}
	}
}

// A body knows whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// A trip answers with a body.
type trip func() *http.Response

func (t trip) RoundTrip(*http.Request) (*http.Response, error) { return t(), nil }

// A connection is free again, whatever an answer was.
func TestAnAnswerIsClosed(t *testing.T) {
	for text, fails := range map[string]bool{`{"id": "t", "status": {"state": "completed"}} `: false, "no": true, "": true} {
		for _, status := range []int{http.StatusOK, http.StatusTeapot} {
			b := &body{Reader: strings.NewReader(text)}
			c := webClient{http: &http.Client{Transport: trip(func() *http.Response {
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: b}
			})}, at: &url.URL{Scheme: "http", Host: "a"}}
			_, err := c.GetTask(t.Context(), "t")
			if rest, _ := io.ReadAll(b); (err != nil) != (fails || status != http.StatusOK) || !b.closed || len(rest) > 0 {
				t.Errorf("%q with %d: %v, closed: %v, unread: %q", text, status, err, b.closed, rest)
			}
		}
	}
}
