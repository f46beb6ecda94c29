package login_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/login"
	"agentmesh/mesh/security/oidc/oidctest"
)

// logIn logs in at the provider, to the end.
func logIn(ctx context.Context, p *oidctest.Provider) (login.Credential, error) {
	flow, err := login.Begin(ctx, p.URL, oidctest.Client, nil)
	if err != nil {
		return login.Credential{}, err
	}
	return flow.Wait(ctx)
}

func TestALogInWaitsUntilTheCodeIsEntered(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Device("alice", "authorization_pending", "")
	flow, err := login.Begin(t.Context(), p.URL, oidctest.Client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if flow.URL != p.URL+"/activate" || flow.Code != "WDJB-MJHT" || !strings.HasPrefix(flow.Complete, flow.URL+"?") || !flow.Expires.After(time.Now()) {
		t.Errorf("shown: %+v", flow)
	}
	c, err := flow.Wait(t.Context())
	if err != nil || c.Access == "" || c.Refresh == "" || c.Issuer != p.URL || c.ClientID != oidctest.Client || !c.Expiry.After(time.Now()) {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, scopes := p.Renewed(); strings.Join(scopes, " ") != "openid offline_access" {
		t.Errorf("asked for %q", scopes)
	}
}

func TestWhyALogInEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers []string
		code    time.Duration
		want    mesh.Code
		says    string
	}{
		"denied":         {[]string{"access_denied"}, 0, mesh.Denied, "refused at the provider"},
		"expired":        {[]string{"expired_token"}, 0, mesh.Unauthenticated, "in time"},
		"never entered":  {[]string{"authorization_pending"}, 2 * time.Second, mesh.Unauthenticated, "in time"},
		"slower, denied": {[]string{"slow_down", "access_denied"}, 0, mesh.Denied, "refused at the provider"},
		"something else": {[]string{"invalid_scope"}, 0, mesh.Precondition, "invalid_scope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := oidctest.Start(t)
			p.Device("alice", tt.answers...)
			p.Lasting(0, tt.code)
			_, err := logIn(t.Context(), p)
			if mesh.CodeOf(err) != tt.want || !strings.Contains(mesh.DetailOf(err), tt.says) {
				t.Errorf("%v: %v", mesh.CodeOf(err), err)
			}
		})
	}
}

func TestWhoCannotLogIn(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	// A provider that has tokens fetched where everybody on the way reads them, and one
	// that knows nothing of devices.
	describe := func(more map[string]string) string {
		mux := http.NewServeMux()
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		more["issuer"] = s.URL
		mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(more)
		})
		return s.URL
	}
	for name, tt := range map[string]struct {
		issuer, client string
		want           mesh.Code
		says           string
	}{
		"another client":     {p.URL, "nobody", mesh.Precondition, "--client-id"},
		"in the clear":       {"http://id.example.com", oidctest.Client, mesh.Invalid, "https"},
		"elsewhere in clear": {describe(map[string]string{"token_endpoint": "http://id.example.com/token"}), oidctest.Client, mesh.Precondition, "not https"},
		"no devices":         {describe(map[string]string{"token_endpoint": "https://id.example.com/token"}), oidctest.Client, mesh.Precondition, "device authorization grant"},
		"nobody there":       {p.URL + "/nowhere", oidctest.Client, mesh.Unavailable, "cannot be asked"},
	} {
		_, err := login.Begin(t.Context(), tt.issuer, tt.client, nil)
		if mesh.CodeOf(err) != tt.want || !strings.Contains(mesh.DetailOf(err), tt.says) {
			t.Errorf("%s: %v: %v", name, mesh.CodeOf(err), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.Device("alice", "authorization_pending")
	flow, err := login.Begin(ctx, p.URL, oidctest.Client, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := flow.Wait(ctx); mesh.CodeOf(err) != mesh.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// at is the address of the mesh that the tests log in to.
const at = "grpcs://mesh.example.com:7420"

// kept is a store with what the provider gives alice for at, whose clock is ahead.
func kept(t *testing.T, p *oidctest.Provider, ahead time.Duration) (*login.Store, login.Credential) {
	t.Helper()
	p.Device("alice")
	c, err := logIn(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	s := &login.Store{Path: filepath.Join(t.TempDir(), "agentmesh", "credentials.json"), Now: func() time.Time { return time.Now().Add(ahead) }}
	if err := s.Put(t.Context(), at, c); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestACredentialIsForOneMeshAndOneReader(t *testing.T) {
	t.Parallel()
	s, c := kept(t, oidctest.Start(t), 0)
	if got, err := s.Token(t.Context(), at); got != c.Access || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, other := range []string{"mesh.example.com:7420", "grpcs://mesh.example.com:7421", "grpcs://evil.example.com:7420", ""} {
		got, err := s.Token(t.Context(), other)
		has, herr := s.Has(other)
		if got != "" || has || err != nil || herr != nil {
			t.Errorf("%s gets %q, %v, %v %v", other, got, has, err, herr)
		}
	}
	for path, want := range map[string]os.FileMode{s.Path: 0o600, filepath.Dir(s.Path): os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if got, ok, err := s.Remove(t.Context(), at); got.Access != c.Access || !ok || err != nil {
		t.Errorf("removed %v, %v", ok, err)
	}
	if got, err := s.Token(t.Context(), at); got != "" || err != nil {
		t.Errorf("after it was removed: %q, %v", got, err)
	}
	if _, ok, err := s.Remove(t.Context(), at); ok || err != nil {
		t.Errorf("removed again: %v, %v", ok, err)
	}
}

func TestAFileThatOthersReadOrThatIsDamagedIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode os.FileMode
		text string
		says string
	}{
		"group":   {0o640, "{}", "chmod 600"},
		"all":     {0o604, "{}", "chmod 600"},
		"damaged": {0o600, `{"` + at + `": {"access_token": "se`, "is damaged; remove it"},
		"null":    {0o600, `null`, "is damaged; remove it"},
		"a list":  {0o600, `["secret"]`, "is damaged; remove it"},
	} {
		s := &login.Store{Path: filepath.Join(t.TempDir(), "c.json"), Now: time.Now}
		if err := os.WriteFile(s.Path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(s.Path, tt.mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		_, tokenErr := s.Token(t.Context(), at)
		putErr := s.Put(t.Context(), at, login.Credential{})
		for _, err := range []error{tokenErr, putErr} {
			if !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), tt.says) || strings.Contains(err.Error(), `"se`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if data, err := os.ReadFile(s.Path); string(data) != tt.text || err != nil {
			t.Errorf("%s: the file is %q now, %v", name, data, err)
		}
	}
}

// The provider takes each refresh token once: of many who need a token at the same time one
// renews it, and all have the new one.
func TestOfManyOneRenews(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s, old := kept(t, p, 59*time.Minute+30*time.Second) // it ends within a minute
	s.Now = time.Now
	if got, err := s.Token(t.Context(), at); got != old.Access || err != nil {
		t.Fatalf("one that counts is not renewed: %v", err)
	}
	p.Lasting(3*time.Hour, 0)
	tokens := make([]string, 8)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			other := &login.Store{Path: s.Path, Now: func() time.Time { return time.Now().Add(59*time.Minute + 30*time.Second) }}
			var err error
			if tokens[i], err = other.Token(t.Context(), at); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, got := range tokens {
		if got == old.Access || got == "" || got != tokens[0] {
			t.Errorf("some have another token: %v", tokens)
		}
	}
	if n, _ := p.Renewed(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
}

// Who waits no more does not lose what the provider gave for a token that is good once.
func TestARenewalIsNotLostByWhoStopsWaiting(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s, old := kept(t, p, 2*time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	p.OnRenewal(cancel)
	p.Lasting(5*time.Hour, 0)
	first, err := s.Token(ctx, at)
	if first == old.Access || err != nil {
		t.Errorf("renewed: %v", err)
	}
	if again, err := s.Token(t.Context(), at); again != first || err != nil {
		t.Errorf("what was renewed is not there: %v", err)
	}
}

func TestALogInThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s, old := kept(t, p, 2*time.Hour)
	p.EndRefresh()
	if got, err := s.Token(t.Context(), at); got == old.Access && err == nil || !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("over: %v", err)
	}
	soon := &login.Store{Path: s.Path, Now: func() time.Time { return old.Expiry.Add(-30 * time.Second) }}
	if got, err := soon.Token(t.Context(), at); got != old.Access || err != nil {
		t.Errorf("what counts for half a minute is not used: %v", err)
	}
	without := old
	without.Refresh = ""
	if err := s.Put(t.Context(), at, without); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context(), at); !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), "has expired") {
		t.Errorf("without a refresh token: %v", err)
	}
}

func TestRevoking(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	_, c := kept(t, p, 0)
	if err := c.Revoke(t.Context()); err != nil || p.Counting() != 0 {
		t.Errorf("%d tokens count still, %v", p.Counting(), err)
	}
	c.ClientID = "nobody"
	if err := c.Revoke(t.Context()); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("refused: %v", err)
	}
}
