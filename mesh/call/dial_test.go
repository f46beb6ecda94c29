package call

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
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
