package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"

	"agentmesh/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sesame = "Sesame-4711/+"

func bearer() *a2apb.SecurityScheme {
	return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Scheme: "Bearer"}}}
}

func key(in, name string) *a2apb.SecurityScheme {
	return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_ApiKeySecurityScheme{ApiKeySecurityScheme: &a2apb.APIKeySecurityScheme{Location: in, Name: name}}}
}

func client(tokenURL string) *a2apb.SecurityScheme {
	return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_Oauth2SecurityScheme{Oauth2SecurityScheme: &a2apb.OAuth2SecurityScheme{
		Flows: &a2apb.OAuthFlows{Flow: &a2apb.OAuthFlows_ClientCredentials{ClientCredentials: &a2apb.ClientCredentialsOAuthFlow{TokenUrl: tokenURL}}}}}}
}

// card requires one of the alternatives, each names of schemes in one word.
func card(schemes map[string]*a2apb.SecurityScheme, alternatives ...string) *a2apb.AgentCard {
	c := &a2apb.AgentCard{SecuritySchemes: schemes}
	for _, a := range alternatives {
		r := &a2apb.SecurityRequirement{Schemes: map[string]*a2apb.StringList{}}
		for _, name := range strings.Fields(a) {
			r.Schemes[name] = &a2apb.StringList{List: []string{"use"}}
		}
		c.SecurityRequirements = append(c.SecurityRequirements, r)
	}
	return c
}

func bound(t *testing.T, c *a2apb.AgentCard, at string, given ...Given) *Set {
	t.Helper()
	s, err := New(given)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Bind(c, at); err != nil {
		t.Fatal(err)
	}
	return s
}

// finding N5: the first alternative of which all was given is sent, and nothing else that the
// card describes; what is missing is of the alternative that lacks least.
func TestTheCardsRequirementsChoose(t *testing.T) {
	schemes := map[string]*a2apb.SecurityScheme{"b": bearer(), "k": key("header", "X-K"), "q": key("query", "q")}
	for _, tt := range []struct {
		requires []string
		given    string
		sent     string
		missing  string
	}{
		{[]string{"b"}, "b", "Authorization", ""},
		{[]string{"b"}, "bearer", "Authorization", ""},
		{[]string{"b", "k"}, "k b", "Authorization", ""},
		{[]string{"b k"}, "k b", "Authorization X-K", ""},
		{[]string{"b q", "k"}, "k", "X-K", ""},
		{[]string{"b q", "k"}, "header:x-k", "X-K", ""},
		{[]string{"b q", "k b"}, "k", "X-K", "b"},
		{[]string{"b"}, "", "", "b"},
		{[]string{"q", ""}, "b", "", ""},
		{[]string{"q", ""}, "b header:X-More", "X-More", ""},
		{nil, "b k header:X-More", "Authorization X-K X-More", ""},
		{[]string{"b"}, "k", "X-K", "b"},
		{[]string{"gone"}, "", "", "gone"},
	} {
		c := card(schemes, tt.requires...)
		var given []Given
		for _, name := range strings.Fields(tt.given) {
			given = append(given, Given{name, sesame})
		}
		var s *Set
		var sent []string
		if len(given) > 0 {
			s = bound(t, c, "https://h/", given...)
		}
		if sender := s.Sender(c, "https://h/", Via{}); sender != nil {
			a, err := sender.Attach(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for name := range a.Header {
				sent = append(sent, name)
			}
		}
		slices.Sort(sent)
		var missing []string
		for _, m := range s.Missing(c) {
			missing = append(missing, m.Scheme)
		}
		if strings.Join(sent, " ") != tt.sent || strings.Join(missing, " ") != tt.missing {
			t.Errorf("%q with %q: sent %q, missing %q", tt.requires, tt.given, sent, missing)
		}
	}
}

// finding N5: credentials go to the origins alone for which they were given, and in clear
// only within this machine.
func TestCredentialsStayAtTheirOrigin(t *testing.T) {
	for _, tt := range []struct {
		given, to string
		plaintext bool
		goes      bool
		refused   bool
	}{
		{"https://h/a", "https://h:443/b?c", false, true, false},
		{"https://H./a", "https://h/b", false, true, false},
		{"https://h", "grpcs://h:443", false, true, false},
		{"https://h/", "http://h/", false, false, false},
		{"https://h/", "https://h:8443/", false, false, false},
		{"https://h/", "https://h.evil/", false, false, false},
		{"https://h/", "https://h@evil/", false, false, false},
		{"https://h/", "https://evil/?https://h/", false, false, false},
		{"h:7000", "dns:///h:7000", false, true, true},
		{"h:7000", "http://h:7000/x", true, true, false},
		{"127.0.0.1:7000", "http://127.0.0.1:7000", false, true, false},
		{"localhost:7000", "localhost:7000", false, true, false},
		{"[::1]:7000", "[::1]:7000", false, true, false},
		{"localhost.evil:7000", "localhost.evil:7000", false, true, true},
		{"10.0.0.1:80", "http://10.0.0.1/", false, true, true},
		{"ftp://h/", "ftp://h/", false, false, false},
	} {
		s := bound(t, &a2apb.AgentCard{}, tt.given, Given{"bearer", sesame})
		sender := s.Sender(nil, tt.to, Via{Plaintext: tt.plaintext})
		if s.GoesTo(tt.to) != tt.goes || (sender != nil) != tt.goes || (sender.Refused() != nil) != tt.refused {
			t.Errorf("given for %s, to %s: %v, %v", tt.given, tt.to, s.GoesTo(tt.to), sender.Refused())
		}
		if tt.refused {
			if _, err := sender.Attach(t.Context()); !mesh.IsCode(err, mesh.Precondition) || mesh.FieldOf(err) != Field {
				t.Errorf("to %s: %v", tt.to, err)
			}
		}
	}
}

// finding N5: however a set and its parts are printed, there is no secret; what is encoded is
// the same set.
func TestSecretsAreNotPrinted(t *testing.T) {
	g := Given{"basic", "user:" + sesame}
	s := bound(t, &a2apb.AgentCard{}, "https://h/", g)
	for _, said := range []string{fmt.Sprint(g), fmt.Sprintf("%+v %#v %s %q", g, g, g, g), fmt.Sprint([]Given{g}), fmt.Sprint(s.States(nil)), fmt.Sprint(g.LogValue())} {
		if strings.Contains(said, "Sesame") {
			t.Errorf("printed: %s", said)
		}
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(data)
	if err != nil || !again.GoesTo("https://h/") || !slices.Equal(again.given, s.given) {
		t.Errorf("decoded as %+v, %v", again, err)
	}
	if _, err := Decode([]byte(`{"given":["` + sesame + `"]}`)); err == nil || strings.Contains(err.Error(), "Sesame") {
		t.Errorf("damaged: %v", err)
	}
	a, err := s.Sender(nil, "https://h/", Via{}).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cited := fmt.Sprintf("%s %s user:%s Sesame-4711%%2F%%2B", a.Header.Get("Authorization"), sesame, sesame)
	err = a.Conceal(&mesh.Error{Code: mesh.Denied, Reason: "R", Detail: cited, Err: errors.New(cited)})
	if said := fmt.Sprintf("%s %s", err, mesh.DetailOf(err)); strings.Contains(said, "Sesame") || strings.Contains(said, a.Header.Get("Authorization")[6:]) || !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("concealed: %s", said)
	}
	other := mesh.Errorf(mesh.Denied, "x", "no")
	if a.Conceal(other) != error(other) {
		t.Error("an error without a secret is another one")
	}
}

// finding N5: calls share a token, also when they come at once; one that is refused is dropped;
// who waits for one can give up; and a redirect gets no client's secret.
func TestTokensAreSharedAndDropped(t *testing.T) {
	var mu sync.Mutex
	issued, redirected := 0, false
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/stolen", http.StatusTemporaryRedirect)
			return
		case "/stolen":
			redirected = true
		case "/held":
			<-hold
		}
		mu.Lock()
		defer mu.Unlock()
		issued++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"t%d","token_type":"bearer","expires_in":3600,"scope":%q}`, issued, r.FormValue("scope"))
	}))
	carrier := &http.Transport{}
	t.Cleanup(func() { carrier.CloseIdleConnections(); s.Close() })
	sender := func(path string) *Sender {
		c := card(map[string]*a2apb.SecurityScheme{"o": client(s.URL + path)}, "o")
		return bound(t, c, "https://h/", Given{"oauth2", "id:secret"}).Sender(c, "https://h/", Via{Tokens: carrier})
	}
	one := sender("/token")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if a, err := one.Attach(t.Context()); err != nil || a.Header.Get("Authorization") != "Bearer t1" {
				t.Errorf("attached %v, %v", a, err)
			}
		})
	}
	calls.Wait()
	a, err := one.Attach(t.Context())
	if err != nil || !one.Renew(a) {
		t.Fatalf("not renewed: %v", err)
	}
	b, err := one.Attach(t.Context())
	if err != nil || b.Header.Get("Authorization") != "Bearer t2" {
		t.Errorf("attached %v, %v", b, err)
	}
	one.Renew(a) // late: that is gone already
	if c, err := one.Attach(t.Context()); err != nil || c.Header.Get("Authorization") != "Bearer t2" {
		t.Errorf("attached %v, %v", c, err)
	}
	if _, err := sender("/away").Attach(t.Context()); !mesh.IsCode(err, mesh.Unauthenticated) || redirected {
		t.Errorf("a redirect: %v, followed %v", err, redirected)
	}
	held, ctx := sender("/held"), t.Context()
	given, cancel := context.WithCancel(ctx)
	calls.Go(func() {
		if _, err := held.Attach(ctx); err != nil {
			t.Error(err)
		}
	})
	cancel()
	if _, err := held.Attach(given); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(hold)
	calls.Wait()
}
