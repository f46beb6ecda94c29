package registry

import (
	"context"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh/rpc/rpctest"
)

// Cards of A2A v0.3 name their interfaces otherwise (A2A v0.3 §5.5).
func TestCardsOfV03TellWhereTheirAgentsAre(t *testing.T) {
	const about = `"name":"Old","description":"d","version":"1","capabilities":{"streaming":true,"stateTransitionHistory":true},
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"supportsAuthenticatedExtendedCard":true,
		"security":[{"key":[]}],"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}},
		"skills":[{"id":"s","name":"s","description":"s","tags":["t"]}]`
	tests := map[string]struct {
		json string
		want []string
	}{
		"preferred first": {`{"protocolVersion":"0.3.0","url":"http://h:1/rest","preferredTransport":"HTTP+JSON","additionalInterfaces":[
			{"url":"http://h:1/rest","transport":"HTTP+JSON"},{"url":"h:2","transport":"GRPC"}],` + about + `}`,
			[]string{"HTTP+JSON 0.3.0 http://h:1/rest", "GRPC 0.3.0 h:2"}},
		"JSON-RPC unless told": {`{"url":"http://h:1/",` + about + `}`, []string{"JSONRPC 0.3 http://h:1/"}},
		"both versions in one": {`{"url":"http://h:1/old","supportedInterfaces":[{"url":"http://h:1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` + about + `}`,
			[]string{"JSONRPC 1.0 http://h:1/"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			card, err := ParseCard("card.json", []byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, in := range card.GetSupportedInterfaces() {
				got = append(got, in.GetProtocolBinding()+" "+in.GetProtocolVersion()+" "+in.GetUrl())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("interfaces (-want +got):\n%s", diff)
			}
			if _, err := address(card, ""); err != nil {
				t.Errorf("the mesh cannot call it: %v in %s", err, protojson.Format(card))
			}
		})
	}
}

// An agent answers when any of its interfaces does: calls fall back on it.
func TestAnyInterfaceOfTheCardAnswersTheProbe(t *testing.T) {
	gone, there := rpctest.Free(t), rpctest.Listen(t)
	defer func() { _ = there.Close() }()
	c := card("courier")
	c.SupportedInterfaces = []*a2apb.AgentInterface{
		{Url: "http://" + gone + "/rpc", ProtocolBinding: BindingJSONRPC, ProtocolVersion: "1.0"},
		{Url: there.Addr().String(), ProtocolBinding: BindingGRPC, ProtocolVersion: "1.0"},
	}
	at, err := address(c, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://" + gone + "/rpc"; at != want {
		t.Errorf("the address is %s, want %s, the first of the card", at, want)
	}
	if err := Dial(context.Background(), Entry{Card: c, Endpoint: at}); err != nil {
		t.Errorf("the second interface answers, and yet: %v", err)
	}
	if err := Dial(context.Background(), Entry{Card: c, Endpoint: gone}); err == nil {
		t.Error("an address that stands in for the card's does not answer, and yet the probe passed")
	}
}
