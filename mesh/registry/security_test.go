package registry

import (
	"encoding/json"
	"path/filepath"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/security/seal"
)

const everyScheme = `{
	"b":{"httpAuthSecurityScheme":{"description":"d","scheme":"bearer","bearerFormat":"JWT"}},
	"p":{"httpAuthSecurityScheme":{"scheme":"basic"}},
	"h":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}},
	"q":{"apiKeySecurityScheme":{"location":"query","name":"key"}},
	"c":{"apiKeySecurityScheme":{"location":"cookie","name":"key"}},
	"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://t/","refreshUrl":"https://r/","scopes":{"a":"b"}}},"oauth2MetadataUrl":"https://m/"}},
	"a":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://a/","tokenUrl":"https://t/","scopes":{"a":"b"}}}}},
	"i":{"oauth2SecurityScheme":{"flows":{"implicit":{"authorizationUrl":"https://a/","scopes":{"a":"b"}}}}},
	"w":{"oauth2SecurityScheme":{"flows":{"password":{"tokenUrl":"https://t/","scopes":{"a":"b"}}}}},
	"n":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://n/"}},
	"m":{"mtlsSecurityScheme":{"description":"d"}}}`

// finding N5: the security schemes and requirements of a card are the same whether it says
// them as v1.0 or as v0.3 does.
func TestSecurityOfBothVersionsIsReadAlike(t *testing.T) {
	want := &a2apb.AgentCard{}
	if err := protojson.Unmarshal([]byte(`{"name":"a","securitySchemes":`+everyScheme+`,"supportedInterfaces":[{"url":"http://h/","protocolBinding":"JSONRPC","protocolVersion":"0.3.0"}],
		"securityRequirements":[{"schemes":{"o":{"list":["a"]},"m":{}}},{"schemes":{"b":{}}}]}`), want); err != nil {
		t.Fatal(err)
	}
	keys, err := cards.LoadOrCreate(filepath.Join(t.TempDir(), "key"), "http://h/jwks")
	if err != nil {
		t.Fatal(err)
	}
	both, err := keys.Write(want, cards.Union)
	if err != nil {
		t.Fatal(err)
	}
	var old map[string]any
	if err := json.Unmarshal(both, &old); err != nil {
		t.Fatal(err)
	}
	delete(old, "supportedInterfaces")
	for _, s := range old["securitySchemes"].(map[string]any) {
		for _, kind := range []string{"httpAuth", "apiKey", "oauth2", "openIdConnect", "mtls"} {
			delete(s.(map[string]any), kind+"SecurityScheme")
		}
	}
	v03, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	for of, data := range map[string][]byte{"both": both, "v0.3": v03} {
		got, err := decodeCard("", data)
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		for name, s := range want.GetSecuritySchemes() {
			if !proto.Equal(got.GetSecuritySchemes()[name], s) {
				t.Errorf("%s: %s is %v, want %v", of, name, got.GetSecuritySchemes()[name], s)
			}
		}
		if len(got.GetSecurityRequirements()) != 2 || got.GetSecurityRequirements()[0].GetSchemes()["o"].GetList()[0] != "a" || len(got.GetSecurityRequirements()[0].GetSchemes()) != 2 {
			t.Errorf("%s: requires %v", of, got.GetSecurityRequirements())
		}
	}
	odd, err := decodeCard("", []byte(`{"name":"a","url":"http://h/","securitySchemes":{"x":{"type":"new"},"y":{"type":"http","scheme":1}},"security":[{"x":[]}]}`))
	if err != nil || len(odd.GetSecuritySchemes()) != 2 || len(odd.GetSecurityRequirements()) != 1 {
		t.Errorf("with schemes that nobody knows: %v, %v", odd, err)
	}
}

// finding N5: what is sealed under another key is left, told, and not used; it can be given
// again.
func TestCredentialsUnderAnotherKeyAreGivenAgain(t *testing.T) {
	n, s := newNetwork(), newShelf()
	n.serve(wellKnown, published("far", "far:90"))
	under := func(secrets ...string) *Registry {
		var all [][]byte
		for _, s := range secrets {
			all = append(all, []byte(s))
		}
		box, err := seal.New("test", all...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(t.Context(), Options{Probe: n.probe, Fetch: n.fetch, Store: s, Box: box})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	given := []credentials.Given{{Scheme: "bearer", Secret: "Sesame"}}
	r := under("one")
	if _, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80", Credentials: given}); err != nil || r.Credentials(acme, "far") == nil {
		t.Fatal(err)
	}
	if under("one").Credentials(acme, "far") == nil {
		t.Error("they do not outlive the registry")
	}
	if under("one", "three").Credentials(acme, "far") == nil || under("three", "one").Credentials(acme, "far") == nil || under("three").Credentials(acme, "far") == nil {
		t.Error("they do not outlive a change of keys, from one to the next")
	}
	r = under("two")
	if r.Credentials(acme, "far") != nil {
		t.Error("they were read under another key")
	}
	if _, err := r.SetCredentials(t.Context(), principal(acme), "far", false, given); err != nil || under("two").Credentials(acme, "far") == nil {
		t.Errorf("given again: %v", err)
	}
	if e, err := r.SetCredentials(t.Context(), principal(acme), "far", false, nil); err != nil || len(e.Credentials) > 0 || under("two").Credentials(acme, "far") != nil {
		t.Errorf("taken away: %v, %v", e, err)
	}
	for who, code := range map[mesh.TenantID]mesh.Code{"other": mesh.NotFound} {
		if _, err := r.SetCredentials(t.Context(), principal(who), "far", false, given); !mesh.IsCode(err, code) {
			t.Errorf("by %s: %v", who, err)
		}
	}
	without := open(t, n, newShelf())
	if _, err := without.Register(t.Context(), principal(acme), Request{CardURL: "far:80", Credentials: given}); !mesh.IsCode(err, mesh.Unsupported) {
		t.Errorf("where none are kept: %v", err)
	}
}
