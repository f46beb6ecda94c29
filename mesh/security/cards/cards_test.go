package cards_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/security/cards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full is a card with something in every field that a change could hide in.
func full(t testing.TB) *a2apb.AgentCard {
	t.Helper()
	params, err := structpb.NewStruct(map[string]any{"z": 1e21, "a": []any{nil, true, 0.1}, "ü": "<&>\u2028"})
	if err != nil {
		t.Fatal(err)
	}
	need := []*a2apb.SecurityRequirement{{Schemes: map[string]*a2apb.StringList{"sso": {List: []string{"chat"}}, "key": {}}}}
	return &a2apb.AgentCard{
		Name: "Crème brûlée", Description: "a <b> & \"c\"", Version: "1.2.3",
		Provider: &a2apb.AgentProvider{Url: "https://p.example", Organization: "P"},
		SupportedInterfaces: []*a2apb.AgentInterface{
			{Url: "agent.example:443", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
			{Url: "https://agent.example/a2a", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"},
			{Url: "agent.example:443", ProtocolBinding: "GRPC", ProtocolVersion: "0.3"},
		},
		Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(false), ExtendedAgentCard: proto.Bool(true),
			Extensions: []*a2apb.AgentExtension{{Uri: "urn:x", Params: params}}},
		SecuritySchemes: map[string]*a2apb.SecurityScheme{
			"key": {Scheme: &a2apb.SecurityScheme_ApiKeySecurityScheme{ApiKeySecurityScheme: &a2apb.APIKeySecurityScheme{Location: "header", Name: "X-Key"}}},
			"sso": {Scheme: &a2apb.SecurityScheme_OpenIdConnectSecurityScheme{OpenIdConnectSecurityScheme: &a2apb.OpenIdConnectSecurityScheme{OpenIdConnectUrl: "https://sso.example"}}},
			"tls": {Scheme: &a2apb.SecurityScheme_MtlsSecurityScheme{MtlsSecurityScheme: &a2apb.MutualTlsSecurityScheme{}}},
			"web": {Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Scheme: "bearer", BearerFormat: "JWT"}}},
			"oa": {Scheme: &a2apb.SecurityScheme_Oauth2SecurityScheme{Oauth2SecurityScheme: &a2apb.OAuth2SecurityScheme{Flows: &a2apb.OAuthFlows{
				Flow: &a2apb.OAuthFlows_ClientCredentials{ClientCredentials: &a2apb.ClientCredentialsOAuthFlow{TokenUrl: "https://t.example"}}}}}},
		},
		SecurityRequirements: need,
		DefaultInputModes:    []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "s", Name: "S", Description: "d", Tags: []string{"t"}, SecurityRequirements: need}},
	}
}

// keysIn returns the keys in a new file.
func keysIn(t testing.TB, jku string) *cards.Keys {
	t.Helper()
	k, err := cards.LoadOrCreate(filepath.Join(t.TempDir(), "card.key"), jku)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// protectedOf is a protected header as others read it.
type protectedOf struct{ Alg, Kid, Typ, Jku string }

// stands verifies a signature with nothing but the standard library and the
// published keys, and returns its header.
func stands(t testing.TB, jwks []byte, payload []byte, protected, signature string) (protectedOf, bool) {
	t.Helper()
	var h protectedOf
	if err := json.Unmarshal(unbase64(t, protected), &h); err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []struct{ Kid, Kty, Crv, X, Y, Use, Alg, D string }
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(protected + "." + base64.RawURLEncoding.EncodeToString(payload)))
	sig := unbase64(t, signature)
	for _, k := range set.Keys {
		if k.D != "" {
			t.Fatal("the private key is published")
		}
		// RFC 7638 §3.2: the required members in order, without blanks.
		thumb := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + k.X + `","y":"` + k.Y + `"}`))
		if k.Kid != base64.RawURLEncoding.EncodeToString(thumb[:]) || k.Use != "sig" || k.Alg != "ES256" {
			t.Errorf("published key %+v is not named by its thumbprint", k)
		}
		point := append(append([]byte{4}, unbase64(t, k.X)...), unbase64(t, k.Y)...) // SEC 1 §2.3.3, uncompressed
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			t.Fatal(err)
		}
		if k.Kid == h.Kid {
			return h, len(sig) == 64 && ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
		}
	}
	return h, false
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return b
}

func TestASignatureStandsForWhoeverVerifiesJWS(t *testing.T) {
	k := keysIn(t, "https://mesh.example/.well-known/jwks.json")
	card := full(t)
	card.Signatures = []*a2apb.AgentCardSignature{{Protected: "old", Signature: "old"}}
	signed, err := k.Sign(card)
	if err != nil || len(signed.Signatures) != 1 {
		t.Fatalf("%v, %v", signed.GetSignatures(), err)
	}
	payload, err := cards.Canonical(signed)
	if err != nil {
		t.Fatal(err)
	}
	s := signed.Signatures[0]
	h, ok := stands(t, k.JWKS(), payload, s.Protected, s.Signature)
	if want := (protectedOf{"ES256", h.Kid, "JOSE", "https://mesh.example/.well-known/jwks.json"}); !ok || h != want {
		t.Errorf("the signature stands: %v, with header %+v", ok, h)
	}
	if _, ok := stands(t, k.JWKS(), append(payload, ' '), s.Protected, s.Signature); ok {
		t.Error("the signature stands for something else")
	}
	if card.Signatures[0].Protected != "old" {
		t.Error("the card that was given has changed")
	}
}

// document is a written card as those see it who take the JSON as it is.
type document map[string]any

func read(t testing.TB, raw []byte) (document, [][2]string) {
	t.Helper()
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	var signatures [][2]string
	for _, s := range d["signatures"].([]any) {
		s := s.(map[string]any)
		signatures = append(signatures, [2]string{s["protected"].(string), s["signature"].(string)})
	}
	delete(d, "signatures")
	return d, signatures
}

func TestAWrittenCardIsSignedForAllKindsOfVerifiers(t *testing.T) {
	k := keysIn(t, "")
	card := full(t)
	// ASCII, so that encoding/json writes what RFC 8785 does.
	card.Name, card.Description, card.Capabilities.Extensions = "plain", "plain", nil
	typed, err := cards.Canonical(card)
	if err != nil {
		t.Fatal(err)
	}
	bare := proto.CloneOf(card) // as a client of v1.0 has it that ignores what is of v0.3
	bare.SecurityRequirements, bare.Skills[0].SecurityRequirements = nil, nil
	ignored, err := cards.Canonical(bare)
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[cards.Mode]int{cards.V1: 1, cards.Union: 3} {
		raw, err := k.Write(card, mode)
		if err != nil {
			t.Fatal(err)
		}
		doc, signatures := read(t, raw)
		whole, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if len(signatures) != want {
			t.Fatalf("%s has %d signatures, want %d", mode, len(signatures), want)
		}
		for i, payload := range [][]byte{typed, ignored, whole}[:want] {
			if _, ok := stands(t, k.JWKS(), payload, signatures[i][0], signatures[i][1]); !ok {
				t.Errorf("%s: signature %d does not stand", mode, i)
			}
		}
		again, err := k.Write(card, mode)
		if err != nil || string(again) != string(raw) {
			t.Errorf("%s: written again it is another document (%v)", mode, err)
		}
	}
}

// X11: a validator that refuses unknown members takes the card of mode v1.
func TestACardOfModeV1HasTheMembersOfV1Alone(t *testing.T) {
	card := full(t)
	raw, err := keysIn(t, "").Write(card, cards.V1)
	if err != nil {
		t.Fatal(err)
	}
	var back a2apb.AgentCard
	if err := protojson.Unmarshal(raw, &back); err != nil { // strict
		t.Fatal(err)
	}
	back.Signatures = nil
	if !proto.Equal(&back, card) {
		t.Errorf("it came back as %v", &back)
	}
}

func TestAUnionCardTellsClientsOfV03WhereToCall(t *testing.T) {
	raw, err := keysIn(t, "").Write(full(t), cards.Union)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := read(t, raw)
	if doc["securityRequirements"] != nil || doc["skills"].([]any)[0].(map[string]any)["securityRequirements"] != nil {
		t.Error("the card has requirements that the SDK for Go cannot read")
	}
	got := document{}
	for _, name := range []string{"protocolVersion", "url", "preferredTransport", "additionalInterfaces", "supportsAuthenticatedExtendedCard", "security", "securitySchemes"} {
		got[name] = doc[name]
	}
	scopes := []any{map[string]any{"sso": []any{"chat"}, "key": []any{}}}
	want := document{
		"protocolVersion": "0.3.0", "url": "https://agent.example/a2a", "preferredTransport": "JSONRPC",
		"additionalInterfaces": []any{
			map[string]any{"url": "https://agent.example/a2a", "transport": "JSONRPC"},
			map[string]any{"url": "http://agent.example:443", "transport": "GRPC"},
		},
		"supportsAuthenticatedExtendedCard": true, "security": scopes,
		"securitySchemes": map[string]any{
			"key": map[string]any{"type": "apiKey", "in": "header", "name": "X-Key", "apiKeySecurityScheme": map[string]any{"location": "header", "name": "X-Key"}},
			"sso": map[string]any{"type": "openIdConnect", "openIdConnectUrl": "https://sso.example", "openIdConnectSecurityScheme": map[string]any{"openIdConnectUrl": "https://sso.example"}},
			"tls": map[string]any{"type": "mutualTLS", "mtlsSecurityScheme": map[string]any{}},
			"web": map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "httpAuthSecurityScheme": map[string]any{"scheme": "bearer", "bearerFormat": "JWT"}},
			"oa": map[string]any{"type": "oauth2", "flows": map[string]any{"clientCredentials": map[string]any{"tokenUrl": "https://t.example", "scopes": map[string]any{}}},
				"oauth2SecurityScheme": map[string]any{"flows": map[string]any{"clientCredentials": map[string]any{"tokenUrl": "https://t.example", "scopes": map[string]any{}}}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(scopes, doc["skills"].([]any)[0].(map[string]any)["security"]); diff != "" {
		t.Errorf("security of the skill (-want +got)\n%s", diff)
	}
}

// A client of v0.3 made by others finds its way, and so does one of v1.0 that
// ignores what it does not know.
func TestOtherPeoplesClientsReadAUnionCard(t *testing.T) {
	card := full(t)
	card.SecuritySchemes, card.SecurityRequirements, card.Skills[0].SecurityRequirements = nil, nil, nil
	raw, err := keysIn(t, "").Write(card, cards.Union)
	if err != nil {
		t.Fatal(err)
	}
	old, err := a2av0.NewAgentCardParser()(raw)
	if err != nil || old.Name != card.Name || len(old.SupportedInterfaces) != 3 || !old.Capabilities.ExtendedAgentCard {
		t.Errorf("v0.3: %+v, %v", old, err)
	}
	var now a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &now); err != nil {
		t.Fatal(err)
	}
	if now.Signatures = nil; !proto.Equal(&now, card) {
		t.Errorf("v1.0: %v", &now)
	}
}

func TestACardWithoutInterfacesOfV03PromisesNothingToItsClients(t *testing.T) {
	k, card := keysIn(t, ""), full(t)
	card.SupportedInterfaces = card.SupportedInterfaces[:1]
	union, err := k.Write(card, cards.Union)
	if err != nil {
		t.Fatal(err)
	}
	if v1, err := k.Write(card, cards.V1); err != nil || string(v1) != string(union) {
		t.Errorf("the union card is %s", union)
	}
}

func TestKeysAreMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.key")
	published := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range published {
		all.Go(func() { // Wait below
			k, err := cards.LoadOrCreate(path, "")
			if err != nil {
				t.Error(err)
				return
			}
			published[i] = k.JWKS()
		})
	}
	all.Wait()
	for _, jwks := range published {
		if string(jwks) != string(published[0]) {
			t.Fatal("two processes that start at once have different keys")
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("beside the key there is something else: %v, %v", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %v (%v)", info.Mode(), err)
	}
}

func TestADamagedKeyFileIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.key")
	for name, f := range map[string]struct {
		data string
		mode os.FileMode
		says string
	}{
		"empty":            {"", 0o600, "P-256"},
		"another key":      {"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n", 0o600, "P-256"},
		"open to everyone": {"", 0o644, "chmod 600"},
	} {
		if err := os.WriteFile(path, []byte(f.data), f.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := cards.LoadOrCreate(path, ""); !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), f.says) {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != f.data {
			t.Errorf("%s: the file was changed", name)
		}
	}
}
