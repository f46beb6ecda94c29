package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

// Finding C16: a server that is stopped before it began to serve has not failed.
func TestAFakeNodeMayEndBeforeItServed(t *testing.T) {
	l := rpctest.Listen(t)
	s := rpc.NewServer(rpc.Options{})
	s.Stop()
	serveNode(t, s, l)
}

func TestMCPIsServedForWhomTheNodeKnows(t *testing.T) {
	served := 0
	s := start(t, rest.Options{MCP: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.WriteHeader(http.StatusNoContent)
	})})
	if resp := s.do("POST", "/mcp", `{}`); resp.StatusCode != http.StatusNoContent || served != 1 {
		t.Errorf("code %d, served %d times", resp.StatusCode, served)
	}
	without := start(t, rest.Options{})
	body := without.errorOf(without.do("POST", "/mcp", `{}`), http.StatusNotFound, "NOT_FOUND")
	if words := fmt.Sprint(body); !strings.Contains(words, "mcp.offer") {
		t.Errorf("without MCP: %s", words)
	}
}
