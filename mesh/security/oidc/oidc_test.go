package oidc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/oidc"
	"agentmesh/mesh/security/oidc/oidctest"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is one that tests set.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

func corp(p *oidctest.Provider) oidc.Issuer {
	return oidc.Issuer{Issuer: p.URL, Audience: oidctest.Audience, Tenant: "acme", DefaultRoles: []string{"user"}}
}

// open returns the issuers at work, and what they log.
func open(t *testing.T, c *clock, all ...oidc.Issuer) (*oidc.Issuers, *logbuffer.Buffer) {
	t.Helper()
	log := new(logbuffer.Buffer)
	s, err := oidc.Open(t.Context(), all, oidc.Options{Now: c.now, Alarms: alarm.New(slog.New(slog.NewTextHandler(log, nil)), nil)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, log
}

func TestATokenOfAnIssuerSaysWhoCalls(t *testing.T) {
	p := oidctest.Start(t)
	i := corp(p)
	i.Tenant, i.TenantClaim, i.Tenants = "", "org", []string{"acme", "umbrella"}
	i.UserPrefix, i.RolesClaim = "corp:", "realm_access.roles"
	i.Roles = map[string][]string{"admins": {"tenant-admin"}, "devs": {"skill-author", "agents"}}
	s, _ := open(t, &clock{}, i)
	for name, tt := range map[string]struct {
		alg   jose.SignatureAlgorithm
		typ   string
		more  map[string]any
		want  mesh.TenantID
		roles []mesh.Role
	}{
		"ES256":               {jose.ES256, "at+jwt", nil, "acme", []mesh.Role{"user"}},
		"RS256":               {jose.RS256, "JWT", map[string]any{"org": "umbrella"}, "umbrella", []mesh.Role{"user"}},
		"PS256":               {jose.PS256, "application/at+jwt", nil, "acme", []mesh.Role{"user"}},
		"EdDSA, without type": {jose.EdDSA, "", nil, "acme", []mesh.Role{"user"}},
		"several audiences":   {jose.ES256, "at+jwt", map[string]any{"aud": []string{"x", oidctest.Audience}}, "acme", []mesh.Role{"user"}},
		"mapped roles": {jose.ES256, "at+jwt", map[string]any{"realm_access": map[string]any{"roles": []any{"devs", "operator", 7}}},
			"acme", []mesh.Role{"agent-publisher", "skill-author", "user"}},
		"roles in a text": {jose.ES256, "at+jwt", map[string]any{"realm_access.roles": "x admins"}, "acme", []mesh.Role{"tenant-admin", "user"}},
	} {
		t.Run(name, func(t *testing.T) {
			claims := p.Claims("alice", map[string]any{"org": "acme"})
			for k, v := range tt.more {
				claims[k] = v
			}
			got, known, err := s.Prove(p.Sign(tt.alg, tt.typ, claims))
			if err != nil || !known || got.Tenant != tt.want || got.User != "corp:alice" || !slices.Equal(got.Roles, tt.roles) ||
				got.Credential != "oidc:"+p.URL+"#alice" || got.Expires.Before(time.Now().Add(time.Hour)) {
				t.Errorf("%v, %v, %+v", err, known, got)
			}
		})
	}
	if _, known, err := s.Prove("0123456789abcdef"); known || err != nil {
		t.Errorf("a token of another kind: %v, %v", known, err)
	}
}

func encoded(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func TestATokenThatDoesNotCountIsRefusedWithARemedy(t *testing.T) {
	p, other := oidctest.Start(t), oidctest.Start(t)
	i := corp(p)
	i.Tenant, i.TenantClaim, i.Tenants = "", "org", []string{"acme"}
	s, _ := open(t, &clock{}, i)
	good := func(more map[string]any) map[string]any {
		claims := p.Claims("alice", map[string]any{"org": "acme"})
		for k, v := range more {
			claims[k] = v
		}
		return claims
	}
	hour := func(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }
	payload := strings.Split(p.Token("alice", map[string]any{"org": "acme"}), ".")[1]
	es := p.Key(jose.ES256)
	stranger := other.Key(jose.ES256)
	unknown := stranger
	stranger.KeyID = es.KeyID
	changed := p.Sign(jose.ES256, "JWT", good(nil))
	changed = changed[:strings.LastIndex(changed, ".")-4] + "AAAA" + changed[strings.LastIndex(changed, "."):]
	for name, tt := range map[string]struct{ token, says string }{
		"expired":                     {p.Sign(jose.ES256, "JWT", good(map[string]any{"exp": hour(-1)})), "set the clocks"},
		"not yet":                     {p.Sign(jose.ES256, "JWT", good(map[string]any{"nbf": hour(1)})), "set the clocks"},
		"issued tomorrow":             {p.Sign(jose.ES256, "JWT", good(map[string]any{"iat": hour(24), "nbf": nil, "exp": hour(25)})), "set the clocks"},
		"for ever":                    {p.Sign(jose.ES256, "JWT", p.Claims("alice", map[string]any{"exp": nil, "org": "acme"})), "have the issuer set exp"},
		"another audience":            {p.Sign(jose.ES256, "JWT", good(map[string]any{"aud": "https://shop.example.com"})), "ask the issuer for one that is"},
		"no audience":                 {p.Sign(jose.ES256, "JWT", p.Claims("alice", map[string]any{"aud": nil, "org": "acme"})), "ask the issuer for one that is"},
		"another issuer":              {other.Token("alice", map[string]any{"org": "acme"}), "use one of " + p.URL},
		"an issuer that it is not":    {other.Sign(jose.ES256, "JWT", good(nil)), "log in again"},
		"another's key":               {oidctest.Sign(t, jose.ES256, stranger, "JWT", good(nil)), "log in again"},
		"an unknown key":              {oidctest.Sign(t, jose.ES256, unknown, "JWT", good(nil)), "log in again"},
		"a changed token":             {changed, "log in again"},
		"no algorithm":                {encoded(`{"alg":"none","typ":"JWT"}`) + "." + payload + ".", "have the issuer sign it so"},
		"a shared secret":             {oidctest.Sign(t, jose.HS256, []byte(strings.Repeat("k", 32)), "JWT", good(nil)), "have the issuer sign it so"},
		"RS512":                       {oidctest.Sign(t, jose.RS512, p.Key(jose.RS256).Key, "JWT", good(nil)), "have the issuer sign it so"},
		"a key for another algorithm": {oidctest.Sign(t, jose.PS256, p.Key(jose.RS256), "JWT", good(nil)), "log in again"},
		"bound to a key":              {p.Sign(jose.ES256, "JWT", good(map[string]any{"cnf": map[string]any{"jkt": "x"}})), "a bearer token"},
		"another type":                {p.Sign(jose.ES256, "logout+jwt", good(nil)), "send an access token"},
		"claims that are none":        {oidctest.Sign(t, jose.ES256, es, "JWT", map[string]any{"iss": p.URL, "exp": "soon"}), "log in again"},
		"a tenant of others":          {p.Sign(jose.ES256, "JWT", good(map[string]any{"org": "umbrella"})), "oidc.tenants"},
		"no tenant":                   {p.Sign(jose.ES256, "JWT", good(map[string]any{"org": []string{"acme"}})), "oidc.tenants"},
		"no user":                     {p.Sign(jose.ES256, "JWT", good(map[string]any{"sub": ""})), "oidc.user_claim"},
		"a user with spaces":          {p.Sign(jose.ES256, "JWT", good(map[string]any{"sub": "alice the great"})), "oidc.user_claim"},
		"what is no token":            {"a.b.c", "have the issuer sign it so"},
		"dots":                        {"..", "have the issuer sign it so"},
	} {
		t.Run(name, func(t *testing.T) {
			_, known, err := s.Prove(tt.token)
			if !known || !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), tt.says) || !strings.Contains(mesh.DetailOf(err), "scheme Bearer") {
				t.Errorf("%v, %v; want it to say %q", known, err, tt.says)
			}
		})
	}
	if _, _, err := s.Prove(p.Sign(jose.ES256, "JWT", good(nil))); err != nil {
		t.Errorf("one that counts: %v", err)
	}
}

func TestClocksMayBeAMinuteApart(t *testing.T) {
	p := oidctest.Start(t)
	for name, tt := range map[string]struct {
		off  time.Duration // of the issuer's clock
		ends time.Duration // from its now
		ok   bool
	}{
		"ahead by less than a minute":       {50 * time.Second, time.Hour, true},
		"behind by less than a minute":      {-50 * time.Second, 5 * time.Second, true},
		"ahead by an hour":                  {time.Hour, 2 * time.Hour, false},
		"behind by an hour":                 {-time.Hour, 10 * time.Minute, false},
		"behind by an hour, for a long one": {-time.Hour, 2 * time.Hour, true},
	} {
		s, _ := open(t, &clock{}, corp(p))
		now := time.Now().Add(tt.off)
		_, _, err := s.Prove(p.Token("alice", map[string]any{"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(tt.ends).Unix()}))
		if (err == nil) != tt.ok || err != nil && !strings.Contains(mesh.DetailOf(err), "set the clocks of issuer and mesh right") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// until calls try again and again until it is nil.
func until(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func proves(s *oidc.Issuers, token string) func() error {
	return func() error { _, _, err := s.Prove(token); return err }
}

// Keys of before count until the new ones are fetched, which the first token does that is
// signed with one of those; nobody waits for it, and strangers cause no storm of requests.
func TestKeysRotate(t *testing.T) {
	p := oidctest.Start(t)
	c := &clock{}
	s, _ := open(t, c, corp(p))
	old := p.Token("alice", nil)
	if err := proves(s, old)(); err != nil {
		t.Fatal(err)
	}
	p.Rotate()
	fresh := p.Token("alice", nil)
	if _, _, err := s.Prove(fresh); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("just after keys were fetched: %v", err)
	}
	c.add(6 * time.Second)
	_, _, err := s.Prove(fresh)
	if after, ok := rpc.RetryAfter(err); !mesh.IsCode(err, mesh.Unavailable) || !ok || after <= 0 {
		t.Errorf("while keys are fetched: %v", err)
	}
	until(t, proves(s, fresh))
	if err := proves(s, old)(); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("with the key of before: %v", err)
	}
	before := p.Fetched()
	for range 1000 {
		_ = proves(s, old)()
	}
	if n := p.Fetched() - before; n > 1 {
		t.Errorf("1000 tokens with an unknown key made %d requests", n)
	}
}

func TestWhatIsWrongWithTheKeysHarmsNobody(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, answer := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		},
		"gone":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"garbage":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\x00\xff{[")) },
		"no keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA"},7]}`))
		},
		"too many": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[0` + strings.Repeat(",0", 200) + `]}`))
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := oidctest.Start(t)
			c := &clock{}
			known, knownLog := open(t, c, corp(p))
			p.AnswerKeys(answer)
			never, log := open(t, c, corp(p))
			token := p.Token("alice", nil)
			if err := proves(never, token)(); !mesh.IsCode(err, mesh.Unavailable) || !strings.Contains(mesh.DetailOf(err), "try again") {
				t.Errorf("without keys: %v", err)
			}
			if n := strings.Count(log.String(), "an alarm was raised"); n != 1 || len(log.String()) > 2000 {
				t.Errorf("%d lines are logged, in %d bytes", n, len(log.String()))
			}
			c.add(11 * time.Minute)
			if name != "slow" { // which takes ten seconds to find out
				until(t, func() error {
					if !strings.Contains(knownLog.String(), "an alarm was raised") {
						return errors.New("nothing is logged")
					}
					return nil
				})
			}
			if err := proves(known, p.Token("alice", nil))(); err != nil {
				t.Errorf("with the keys of before: %v", err)
			}
			p.AnswerKeys(nil)
			if name != "slow" {
				c.add(6 * time.Second)
				until(t, proves(never, p.Token("alice", nil)))
			}
		})
	}
}

func TestKeysThatCannotBeFetchedForADayDoNotCount(t *testing.T) {
	p := oidctest.Start(t)
	c := &clock{}
	s, _ := open(t, c, corp(p))
	p.AnswerKeys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	now := time.Now().Add(25 * time.Hour)
	token := p.Token("alice", map[string]any{"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	c.add(25 * time.Hour)
	if err := proves(s, token)(); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("%v", err)
	}
}

// Two issuers' equal subjects are two users, and one that may not name a tenant does not.
func TestIssuersDoNotNameEachOthersUsers(t *testing.T) {
	a, b := oidctest.Start(t), oidctest.Start(t)
	one, two := corp(a), corp(b)
	one.UserPrefix, two.UserPrefix = "corp:", "partner:"
	s, _ := open(t, &clock{}, one, two)
	first, _, err := s.Prove(a.Token("alice", nil))
	second, _, err2 := s.Prove(b.Token("alice", nil))
	if err != nil || err2 != nil || first.User != "corp:alice" || second.User != "partner:alice" || first.Credential == second.Credential {
		t.Errorf("%v, %v: %+v, %+v", err, err2, first, second)
	}
	if err := proves(s, a.Sign(jose.ES256, "JWT", a.Claims("alice", map[string]any{"iss": b.URL})))(); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("a token of one in the name of the other: %v", err)
	}
}

func TestAConfigurationWithAMistakeNamesTheField(t *testing.T) {
	good := oidc.Issuer{Issuer: "https://id.example.com", Audience: "mesh", Tenant: "acme", DefaultRoles: []string{"user"}}
	with := func(change func(*oidc.Issuer)) []oidc.Issuer { i := good; change(&i); return []oidc.Issuer{i} }
	second := good
	second.Issuer = "https://login.example.org"
	begins := second
	begins.UserPrefix = "b:"
	for name, tt := range map[string]struct {
		all   []oidc.Issuer
		field string
	}{
		"no issuer":            {with(func(i *oidc.Issuer) { i.Issuer = "" }), "issuer"},
		"http":                 {with(func(i *oidc.Issuer) { i.Issuer = "http://id.example.com" }), "issuer"},
		"with a query":         {with(func(i *oidc.Issuer) { i.Issuer += "?x=1" }), "issuer"},
		"twice":                {[]oidc.Issuer{good, good}, "issuer"},
		"no audience":          {with(func(i *oidc.Issuer) { i.Audience = "" }), "audience"},
		"no tenant":            {with(func(i *oidc.Issuer) { i.Tenant = "" }), "tenant"},
		"two tenants":          {with(func(i *oidc.Issuer) { i.TenantClaim = "org" }), "tenant"},
		"tenants for none":     {with(func(i *oidc.Issuer) { i.Tenants = []string{"a"} }), "tenants"},
		"any tenant":           {with(func(i *oidc.Issuer) { i.Tenant, i.TenantClaim = "", "org" }), "tenants"},
		"a bad tenant":         {with(func(i *oidc.Issuer) { i.Tenant = "a/b" }), "tenants"},
		"no roles":             {with(func(i *oidc.Issuer) { i.DefaultRoles = nil }), "default_roles"},
		"an unknown role":      {with(func(i *oidc.Issuer) { i.DefaultRoles = []string{"king"} }), "default_roles"},
		"roles without claim":  {with(func(i *oidc.Issuer) { i.Roles = map[string][]string{"a": {"user"}} }), "roles_claim"},
		"an unknown mapping":   {with(func(i *oidc.Issuer) { i.RolesClaim, i.Roles = "g", map[string][]string{"a": {"king"}} }), "roles"},
		"the same users":       {[]oidc.Issuer{good, second}, "user_prefix"},
		"users that may match": {[]oidc.Issuer{good, begins}, "user_prefix"},
	} {
		field, why := oidc.Check(tt.all)
		if field != tt.field || why == "" {
			t.Errorf("%s: %q %q", name, field, why)
		}
		if _, err := oidc.Open(t.Context(), tt.all, oidc.Options{}); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s is opened: %v", name, err)
		}
	}
	second.Tenant = "umbrella"
	if field, why := oidc.Check([]oidc.Issuer{good, second}); why != "" {
		t.Errorf("issuers of tenants of their own: %s %s", field, why)
	}
}

// Tokens of a file and of issuers count side by side.
func TestTokensAndIssuersTogether(t *testing.T) {
	p := oidctest.Start(t)
	s, _ := open(t, &clock{}, corp(p))
	mode := auth.Bearer(nil, fixed{}, s)
	for token, want := range map[string]string{"secret": "bob", p.Token("alice", nil): "alice"} {
		got, err := mode.Authenticate(t.Context(), rpc.Credentials{Authorization: "Bearer " + token})
		if err != nil || got.User != want {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
	for _, token := range []string{"other", "a.b.c", ""} {
		if _, err := mode.Authenticate(t.Context(), rpc.Credentials{Authorization: "Bearer " + token}); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := mode.Authenticate(t.Context(), rpc.Credentials{Authorization: "Bearer " + p.Token("alice", nil), Tenant: "umbrella"}); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("another tenant: %v", err)
	}
}

// fixed knows one token.
type fixed struct{}

func (fixed) Prove(token string) (mesh.Principal, bool, error) {
	return mesh.Principal{Tenant: "acme", User: "bob"}, token == "secret", nil
}
