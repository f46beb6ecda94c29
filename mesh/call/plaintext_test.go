package call_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
)

// carrier is a transport of HTTP that counts what it carries, and answers nothing good.
type carrier struct{ carried int }

func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	c.carried++
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

// finding T8: over HTTP, too, a grant is not sent in clear to another machine, and the
// user reads where and what to do; without a grant the agent is called.
func TestAGrantIsNotSentInClearOverHTTP(t *testing.T) {
	for _, tt := range []struct {
		url, grant string
		allowed    bool
		goes       bool
	}{
		{"http://agent.example:7000/rpc", "granted", false, false},
		{"http://10.0.0.5/rpc", "granted", false, false},
		{"http://agent.example:7000/rpc", "granted", true, true},
		{"http://agent.example:7000/rpc", "", false, true},
		{"http://127.0.0.1:7000/rpc", "granted", false, true},
		{"http://localhost/rpc", "granted", false, true},
		{"https://agent.example/rpc", "granted", false, true},
	} {
		for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
			c := new(carrier)
			agent, err := call.NewDialer(rpc.NewPool(rpc.DialOptions{}), call.Options{HTTP: c, PlaintextGrants: tt.allowed}).Dial(call.Target{Endpoint: tt.url,
				Card: &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{{Url: tt.url, ProtocolBinding: binding, ProtocolVersion: "1.0"}}}})
			if err != nil {
				t.Fatal(err)
			}
			got := lines(collect(mesh.WithCall(t.Context(), mesh.Call{TicketToken: tt.grant}), agent, request()))
			end := got[len(got)-1]
			host := strings.Split(tt.url, "/")[2]
			if refused := strings.Contains(end, "not encrypted"); (c.carried > 0) != tt.goes || refused == tt.goes {
				t.Errorf("%s to %s with %q: %d went out, and it ended with %s", binding, host, tt.grant, c.carried, end)
			}
		}
	}
}
