package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"agentmesh/mesh/conformance"
	"agentmesh/mesh/security/credentials"
)

// guarded serves an agent, and its card too, to who has the token alone.
func guarded(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/{$}", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(&person{})))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open-sesame" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	card := strings.TrimSuffix(cardJSON(interfaceJSON("JSONRPC", "1.0", srv.URL+"/")), "}") +
		`,"securitySchemes":{"token":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"token":{}}}]}`
	mux.HandleFunc("/.well-known/agent-card.json", write("application/json", card))
	return srv.URL
}

// finding N5: an agent that wants credentials is tested with them, by each of its methods,
// and without them fails at its card.
func TestAnAgentThatWantsCredentialsIsTestedWithThem(t *testing.T) {
	t.Parallel()
	at := guarded(t)
	all := run(t, at, conformance.Options{Credentials: []credentials.Given{{Scheme: "bearer", Secret: "open-sesame"}}})
	if slices.ContainsFunc(all, func(f conformance.Finding) bool { return f.Verdict == failed || f.Verdict == warning }) {
		t.Errorf("with its token: %v", all)
	}
	for _, check := range []string{conformance.CheckSend, conformance.CheckMemory, conformance.CheckUnknownTask, conformance.CheckUnknownMethod} {
		if got := of(all, check); !slices.Equal(got, []conformance.Verdict{ok}) {
			t.Errorf("%s: %v", check, got)
		}
	}
	for name, given := range map[string][]credentials.Given{"none": nil, "a wrong one": {{Scheme: "bearer", Secret: "open-barley"}}} {
		all := run(t, at, conformance.Options{Credentials: given})
		if got := of(all, conformance.CheckCard); !slices.Equal(got, []conformance.Verdict{failed}) || len(all) != 1 || strings.Contains(all[0].Cause, "barley") {
			t.Errorf("with %s: %v", name, all)
		}
	}
}

// finding N5: so is one that wants a certificate, for its card and for its calls.
func TestAnAgentThatWantsACertificateIsTestedWithIt(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))

	mux := http.NewServeMux()
	mux.Handle("/{$}", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(&person{})))
	srv := httptest.NewUnstartedServer(mux)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	mux.HandleFunc("/.well-known/agent-card.json", write("application/json", strings.TrimSuffix(cardJSON(interfaceJSON("JSONRPC", "1.0", srv.URL+"/")), "}")+
		`,"securitySchemes":{"cert":{"mtlsSecurityScheme":{}}},"securityRequirements":[{"schemes":{"cert":{}}}]}`))
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	o := conformance.Options{TLS: func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} }}
	if all := run(t, srv.URL, o); len(all) != 1 || all[0].Verdict != failed {
		t.Errorf("without its certificate: %v", all)
	}
	o.Credentials = []credentials.Given{{Scheme: "mtls", Secret: secret}}
	all := run(t, srv.URL, o)
	if slices.ContainsFunc(all, func(f conformance.Finding) bool { return f.Verdict == failed || f.Verdict == warning }) || len(of(all, conformance.CheckSend)) != 1 {
		t.Errorf("with its certificate: %v", all)
	}
}
