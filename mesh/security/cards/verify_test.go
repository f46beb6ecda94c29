package cards_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/security/cards"
)

// A publisher serves a key set, over TLS or not.
type publisher struct {
	*httptest.Server
	body  atomic.Pointer[[]byte]
	code  atomic.Int32
	calls atomic.Int32
}

func publish(t testing.TB, secure bool) *publisher {
	t.Helper()
	p := &publisher{}
	p.code.Store(http.StatusOK)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		if code := int(p.code.Load()); code != http.StatusOK {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			return
		}
		if b := p.body.Load(); b != nil {
			_, _ = w.Write(*b)
		}
	})
	if secure {
		p.Server = httptest.NewTLSServer(h)
	} else {
		p.Server = httptest.NewServer(h)
	}
	t.Cleanup(func() { p.Client().CloseIdleConnections(); p.Close() })
	return p
}

func (p *publisher) show(jwks []byte) { p.body.Store(&jwks) }
func (p *publisher) host() string     { return p.Listener.Addr().String() }

// at is a card whose only interface is on the host of p.
func (p *publisher) at(t testing.TB) *a2apb.AgentCard {
	card := full(t)
	card.SupportedInterfaces = []*a2apb.AgentInterface{{Url: "127.0.0.1:9", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}
	return card
}

func verifier(t testing.TB, o cards.VerifierOptions) *cards.Verifier {
	t.Helper()
	v, err := cards.NewVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sign(t testing.TB, k *cards.Keys, card *a2apb.AgentCard) *a2apb.AgentCard {
	t.Helper()
	signed, err := k.Sign(card)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// trust returns the keys as a trust store, each with the members added.
func trust(t testing.TB, jwks []byte, members string) cards.KeySet {
	t.Helper()
	text := strings.ReplaceAll(string(jwks), `"use":"sig"`, `"use":"sig"`+members)
	path := filepath.Join(t.TempDir(), "trust.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := cards.LoadTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestAnyChangeToASignedCardIsFound(t *testing.T) {
	k := keysIn(t, "")
	v := verifier(t, cards.VerifierOptions{Trust: trust(t, k.JWKS(), "")})
	good := sign(t, k, full(t))
	if kid, err := v.Verify(t.Context(), good); err != nil || kid == "" {
		t.Fatalf("the card as it is: %q, %v", kid, err)
	}
	for name, change := range map[string]func(*a2apb.AgentCard){
		"name":        func(c *a2apb.AgentCard) { c.Name += "." },
		"address":     func(c *a2apb.AgentCard) { c.SupportedInterfaces[0].Url = "evil.example:443" },
		"order":       func(c *a2apb.AgentCard) { i := c.SupportedInterfaces; i[0], i[1] = i[1], i[0] },
		"tenant":      func(c *a2apb.AgentCard) { c.SupportedInterfaces[0].Tenant = "x" },
		"capability":  func(c *a2apb.AgentCard) { c.Capabilities.Streaming = nil },
		"parameter":   func(c *a2apb.AgentCard) { delete(c.Capabilities.Extensions[0].Params.Fields, "a") },
		"scheme":      func(c *a2apb.AgentCard) { delete(c.SecuritySchemes, "tls") },
		"requirement": func(c *a2apb.AgentCard) { c.SecurityRequirements = nil },
		"tag":         func(c *a2apb.AgentCard) { c.Skills[0].Tags = append(c.Skills[0].Tags, "u") },
		"icon":        func(c *a2apb.AgentCard) { c.IconUrl = proto.String("") },
		"signature":   func(c *a2apb.AgentCard) { c.Signatures[0].Signature = "AA" + c.Signatures[0].Signature[2:] },
		"header": func(c *a2apb.AgentCard) {
			h := string(unbase64(t, c.Signatures[0].Protected))
			c.Signatures[0].Protected = base64.RawURLEncoding.EncodeToString([]byte(h[:len(h)-1] + `,"x":1}`))
		},
	} {
		bad := proto.CloneOf(good)
		change(bad)
		if _, err := v.Verify(t.Context(), bad); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "card.signatures" || !strings.Contains(mesh.DetailOf(err), "does not fit") {
			t.Errorf("%s: %v, want Invalid of card.signatures", name, err)
		}
	}
}

func TestASignatureIsBelievedOnlyByAKeyThatMayBe(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	k := keysIn(t, "")
	signed := sign(t, k, full(t))
	forged := func(header string) *a2apb.AgentCard {
		c := proto.CloneOf(signed)
		c.Signatures = []*a2apb.AgentCardSignature{{Protected: base64.RawURLEncoding.EncodeToString([]byte(header)), Signature: "AAAA"}}
		return c
	}
	for name, tt := range map[string]struct {
		card  *a2apb.AgentCard
		trust cards.KeySet
		says  string // "" for success
	}{
		"trusted":          {signed, trust(t, k.JWKS(), ""), ""},
		"trusted for now":  {signed, trust(t, k.JWKS(), `,"nbf":1893456000,"exp":1893456001`), ""},
		"expired":          {signed, trust(t, k.JWKS(), `,"exp":1893456000`), "expired at 2030-01-01T00:00:00Z"},
		"not valid yet":    {signed, trust(t, k.JWKS(), `,"nbf":1893456001`), "not valid before"},
		"revoked":          {signed, trust(t, k.JWKS(), `,"revoked":true`), "is revoked"},
		"unknown":          {signed, trust(t, keysIn(t, "").JWKS(), ""), "does not know"},
		"not signed":       {full(t), trust(t, k.JWKS(), ""), "is missing"},
		"without kid":      {forged(`{"alg":"ES256"}`), trust(t, k.JWKS(), ""), "no kid"},
		"by no algorithm":  {forged(`{"alg":"none","kid":"k"}`), trust(t, k.JWKS(), ""), "not a JWS by a public key"},
		"by shared secret": {forged(`{"alg":"HS256","kid":"k"}`), trust(t, k.JWKS(), ""), "not a JWS by a public key"},
		"no JSON":          {forged(`alg`), trust(t, k.JWKS(), ""), "not a JWS by a public key"},
		"unknown critical": {forged(`{"alg":"ES256","kid":"` + kidOf(t, signed) + `","crit":["x"],"x":1}`), trust(t, k.JWKS(), ""), "does not fit"},
	} {
		v := verifier(t, cards.VerifierOptions{Trust: tt.trust, Now: func() time.Time { return now }})
		_, err := v.Verify(t.Context(), tt.card)
		if tt.says == "" && err != nil || tt.says != "" && (!mesh.IsCode(err, mesh.Invalid) || !strings.Contains(mesh.DetailOf(err), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func kidOf(t testing.TB, card *a2apb.AgentCard) string {
	t.Helper()
	var h protectedOf
	if err := json.Unmarshal(unbase64(t, card.Signatures[0].Protected), &h); err != nil {
		t.Fatal(err)
	}
	return h.Kid
}

// A host vouches for its own cards over https, and for others where the
// operator says so; of the rest nothing is fetched.
func TestAHostVouchesForCardsThatAreItsOwn(t *testing.T) {
	secure, plain := publish(t, true), publish(t, false)
	own := func(p *publisher) *a2apb.AgentCard {
		k := keysIn(t, p.URL+"/jwks.json")
		p.show(k.JWKS())
		return sign(t, k, p.at(t))
	}
	overTLS, overHTTP := own(secure), own(plain)
	k := keysIn(t, secure.URL+"/other.json")
	foreign := secure.at(t)
	foreign.SupportedInterfaces = append(foreign.SupportedInterfaces, &a2apb.AgentInterface{Url: "https://other.example", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"})
	foreign = sign(t, k, foreign)
	odd := sign(t, keysIn(t, "file:///etc/keys"), secure.at(t))

	for name, tt := range map[string]struct {
		card    *a2apb.AgentCard
		hosts   []string
		ok      bool
		fetches int32
	}{
		"its own over https":           {overTLS, nil, true, 1},
		"its own over http":            {overHTTP, nil, false, 0},
		"http to a trusted host":       {overHTTP, []string{plain.host()}, true, 1},
		"one that is partly elsewhere": {foreign, nil, false, 0},
		"another scheme":               {odd, []string{""}, false, 0},
	} {
		before := secure.calls.Load() + plain.calls.Load()
		v := verifier(t, cards.VerifierOptions{Hosts: tt.hosts, Transport: secure.Client().Transport})
		_, err := v.Verify(t.Context(), tt.card)
		if (err == nil) != tt.ok || err != nil && !strings.Contains(mesh.DetailOf(err), "may not vouch") {
			t.Errorf("%s: %v", name, err)
		}
		if n := secure.calls.Load() + plain.calls.Load() - before; n != tt.fetches {
			t.Errorf("%s: keys were fetched %d times, want %d", name, n, tt.fetches)
		}
	}
}

func TestAKeyThatTheOperatorRevokedIsNotBelievedFromItsHost(t *testing.T) {
	p := publish(t, true)
	k := keysIn(t, p.URL)
	signed := sign(t, k, p.at(t))
	// The host publishes it under another name than it is revoked by.
	revoked := bytes.ReplaceAll(k.JWKS(), []byte(kidOf(t, signed)), []byte("renamed"))
	p.show(k.JWKS())
	v := verifier(t, cards.VerifierOptions{Trust: trust(t, revoked, `,"revoked":true`), Transport: p.Client().Transport})
	if _, err := v.Verify(t.Context(), signed); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(mesh.DetailOf(err), "is revoked") {
		t.Errorf("%v, want that the key is revoked", err)
	}
}

// Whether a card is good cannot be known when its keys cannot be had; and a
// host is not asked again and again.
func TestAHostWithoutKeysIsTriedAgainLater(t *testing.T) {
	p := publish(t, true)
	now := time.Unix(1e9, 0)
	v := verifier(t, cards.VerifierOptions{Transport: p.Client().Transport, Now: func() time.Time { return now }})
	k := keysIn(t, p.URL)
	signed := sign(t, k, p.at(t))
	check := func(code mesh.Code, calls int32) {
		t.Helper()
		_, err := v.Verify(t.Context(), signed)
		if code == mesh.Unknown && err != nil || code != mesh.Unknown && !mesh.IsCode(err, code) || p.calls.Load() != calls {
			t.Errorf("%v after %d calls, want %v after %d", err, p.calls.Load(), code, calls)
		}
	}
	p.code.Store(http.StatusFound) // a redirect leads away from the trusted host
	check(mesh.Unavailable, 1)
	check(mesh.Unavailable, 1)
	now = now.Add(time.Minute)
	p.code.Store(http.StatusOK)
	for _, body := range []string{"<html>", `{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}`, strings.Repeat(" ", 65<<10)} {
		p.show([]byte(body))
		calls := p.calls.Load() + 1
		check(mesh.Unavailable, calls)
		now = now.Add(time.Minute)
	}
	calls := p.calls.Load()
	p.show([]byte(`{"keys":[]}`))
	check(mesh.Invalid, calls+1)
	now = now.Add(time.Minute)
	p.show(k.JWKS()) // the key is published now
	check(mesh.Unknown, calls+2)
	check(mesh.Unknown, calls+2)
}

// While a key is replaced, cards carry a signature by the old and the new one,
// and whoever knows either believes them.
func TestACardIsBelievedWhileItsKeysRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.key")
	load := func() *cards.Keys {
		k, err := cards.LoadOrCreate(path, "")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	before := load()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(newBlock(t), old...), 0o600); err != nil {
		t.Fatal(err)
	}
	during := load()
	signed := sign(t, during, full(t))
	if len(signed.Signatures) != 2 {
		t.Fatalf("%d signatures, want 2", len(signed.Signatures))
	}
	newest := keysOnly(t, during.JWKS(), 0)
	for name, set := range map[string][]byte{"old": before.JWKS(), "new": newest, "both": during.JWKS()} {
		if _, err := verifier(t, cards.VerifierOptions{Trust: trust(t, set, "")}).Verify(t.Context(), signed); err != nil {
			t.Errorf("known is the %s key: %v", name, err)
		}
	}
	if _, err := verifier(t, cards.VerifierOptions{Trust: trust(t, during.JWKS(), "")}).Verify(t.Context(), sign(t, before, full(t))); err != nil {
		t.Errorf("a card from before: %v", err)
	}
}

// newBlock is a new key as openssl makes it.
func newBlock(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// keysOnly returns the set with the i-th of its keys alone.
func keysOnly(t testing.TB, jwks []byte, i int) []byte {
	t.Helper()
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		t.Fatal(err)
	}
	return []byte(`{"keys":[` + string(set.Keys[i]) + `]}`)
}

func TestThePolicySaysWhatBecomesOfAnUnsignedCard(t *testing.T) {
	for policy, want := range map[cards.Policy]struct {
		refused, logged bool
	}{"": {}, cards.Off: {}, cards.Warn: {logged: true}, cards.Require: {refused: true}} {
		var log bytes.Buffer
		v := verifier(t, cards.VerifierOptions{Policy: policy, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		err := v.Check(t.Context(), full(t))
		if (err != nil) != want.refused || strings.Contains(log.String(), "unverified") != want.logged {
			t.Errorf("policy %q: %v, log %q", policy, err, log.String())
		}
	}
	if _, err := cards.NewVerifier(cards.VerifierOptions{Policy: "maybe"}); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("an unknown policy: %v", err)
	}
}

func TestABrokenTrustStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"json": "{", "list": "[]", "none": "{}", "private": strings.Replace(string(keysIn(t, "").JWKS()), `"use":"sig"`, `"use":"enc"`, 1),
		"nameless": `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := cards.LoadTrust(path); !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cards.LoadTrust(filepath.Join(dir, "absent")); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a file that is not there: %v", err)
	}
}
