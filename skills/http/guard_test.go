package httpskill_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	httpskill "agentmesh/skills/http"
)

// insideOut lets the client reach public addresses only.
func insideOut(o *httpskill.Options) {
	g, err := egress.New(egress.Options{AllowHTTP: true})
	if err != nil {
		panic(err)
	}
	o.Client = &http.Client{Transport: g.Transport()}
}

// Nothing goes where the operator does not allow it, neither at first nor by
// redirects.
func TestRequest_goesOnlyWhereItMay(t *testing.T) {
	other := serve(t, ok)
	var to string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			ok(w, r)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	both := func(o *httpskill.Options) { o.Allow = append(o.Allow, other.URL) }
	plain, secret := page("read", "GET HOST/?k=v"), page("read", "GET HOST/?k={secret:crm}")
	tests := map[string]struct {
		page, to string
		change   func(*httpskill.Options)
		want     string
		others   int // requests to the other service
	}{
		"a host that is not allowed": {plain, "", func(o *httpskill.Options) { o.Allow = []string{"api.example.com"} }, "is not among those that requests may go to", 0},
		"another port":               {plain, "", func(o *httpskill.Options) { o.Allow = []string{"http://127.0.0.1"} }, "is not among those", 0},
		"another scheme":             {plain, "", func(o *httpskill.Options) { o.Allow = []string{strings.Replace(s.URL, "http", "https", 1)} }, "is not among those", 0},
		"an address of the guard":    {plain, "", insideOut, "leads to this machine, which is not allowed", 0},
		"redirected within":          {plain, "/here", func(*httpskill.Options) {}, "answered 200", 0},
		"redirected out":             {plain, other.URL, func(*httpskill.Options) {}, "which is not among the hosts that requests may go to", 0},
		"redirected by a user":       {plain, strings.Replace(other.URL, "://", "://ann:pw@", 1), both, "which is not among the hosts", 0},
		"redirected to an allowed":   {plain, other.URL, both, "answered 200", 1},
		"redirected with a secret":   {secret, other.URL, both, "to which its secret may not be sent", 0},
		"redirected for ever":        {plain, "/", func(*httpskill.Options) {}, "redirects too often", 0},
		"redirected to a file":       {plain, "file:///etc/passwd", func(*httpskill.Options) {}, "which is not among the hosts", 0},
		"redirected by a secret": {secret, "http://s3cret-value.example/", func(o *httpskill.Options) {
			o.Secrets = map[string]httpskill.Secret{"crm": {Value: "s3cret-value", Origins: []string{s.URL}}}
		}, "redirects to [secret].example, which", 0},
		"a secret for others": {secret, "", func(o *httpskill.Options) {
			o.Secrets = map[string]httpskill.Secret{"crm": {Value: "s3cret-value", Origins: []string{"api.example.com"}}}
		}, `The secret "crm" may not be sent to`, 0},
		"a secret that is not there": {secret, "", func(o *httpskill.Options) { o.Secrets = nil }, `The secret "crm" is not configured`, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(other.requests())
			to = tt.to
			r := run(t, s, tt.page, nil, tt.change)
			if !strings.Contains(r.Content, tt.want) || strings.Contains(r.Content+fmt.Sprint(r.Err), "s3cret") {
				t.Errorf("result is %q, want %q", r.Content, tt.want)
			}
			if got := len(other.requests()) - before; got != tt.others {
				t.Errorf("the other service got %d requests, want %d", got, tt.others)
			}
		})
	}
	for _, q := range other.requests() {
		if q.Header.Get("Referer") != "" {
			t.Errorf("the other service was told %v", q.Header)
		}
	}
}

// What a tenant made for itself sends no secrets of the operator.
func TestRequest_ofATenantsOwnSkillHasNoSecrets(t *testing.T) {
	s := serve(t, ok)
	page := parsed(t, s, page("read", "GET HOST/?k={secret:crm}"))
	page.Tenant = "acme"
	_, err := skilltest.Do(t.Context(), handler(t, s), &skill.Call{Skill: "crm.do", Of: page}, &skill.Env{Tenant: "acme"})
	if !strings.Contains(mesh.DetailOf(err), "secrets are for skills of the operator") || len(s.requests()) > 0 {
		t.Errorf("error is %v after %d requests", err, len(s.requests()))
	}
}

func TestCheck_saysWhatIsWrongWithThePage(t *testing.T) {
	for request, want := range map[string]string{
		"GET https://x.y/":                                     "",
		"POST https://x.y/\n\n{\"a\":{text}}":                  "",
		"TRACE https://x.y/":                                   "must be a method and a URL",
		"https://x.y/":                                         "must be a method and a URL",
		"GET x.y/":                                             "its URL must be one as",
		"GET https://x.y/a b":                                  "without spaces",
		"GET https://{id}/":                                    "its host must be written out",
		"GET https://x.y{id}/":                                 "its host must be written out",
		"GET https://user:pw@x.y/":                             "without user, password",
		"GET ftp://x.y/":                                       "must begin with https://",
		"GET https://x.y/{nobody}":                             "{nobody}, which is no parameter",
		"GET https://x.y/{secret:crm}":                         "secrets may be in headers and in the query",
		"GET https://x.y/?{id}=1":                              "a placeholder as a name",
		"GET https://x.y/%zz":                                  "not valid in a URL",
		"GET https://x.y/\nHost: z":                            "the header Host cannot be chosen",
		"GET https://x.y/\nidempotency-key: z":                 "the header Idempotency-Key cannot be chosen",
		"GET https://x.y/\nno header":                          "is no header",
		"GET https://x.y/\n{id}: x":                            "is no header",
		"GET https://x.y/\n\n{}":                               "GET has no body",
		"POST https://x.y/\n\n{\"a\": [{text}}":                "its body is not JSON",
		"POST https://x.y/\n\n{\"a\": {secret:crm}}":           "secrets may be in headers and in the query",
		"POST https://x.y/\nContent-Type: {text}\n\nx":         "Content-Type must be written out",
		"POST https://x.y/\nContent-Type: image/png\n\n{text}": "cannot be filled in",
		"GET https://x.y/\n```\n\n```http\nGET https://x.y/":   "and there are 2",
	} {
		s, err := skill.Parse("crm/do.md", []byte(page("write", request)))
		if err != nil {
			t.Fatal(err)
		}
		err = httpskill.Check(s)
		if want == "" && err != nil || want != "" && (!mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "body" || !strings.Contains(mesh.DetailOf(err), want)) {
			t.Errorf("%q: %v, want %q", request, err, want)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(page("write", "GET https://x.y/"), "http\n", "text\n", 1): "there are 0",
		strings.Replace(page("write", "GET https://x.y/"), "\n```\n", "\n", 1):    "is not closed",
		page("read", "POST https://x.y/"):                                         "the skill's access is read",
	} {
		s, err := skill.Parse("crm/do.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := httpskill.Check(s); !strings.Contains(mesh.DetailOf(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHandlers_refusesOptionsThatCannotWork(t *testing.T) {
	good := httpskill.Options{
		Client: http.DefaultClient, Allow: []string{"api.example.com", "http://crm.internal:8080/"},
	}
	if _, err := httpskill.Handlers(good); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*httpskill.Options){
		"client":                    func(o *httpskill.Options) { o.Client = nil },
		"http_skills.allow":         func(o *httpskill.Options) { o.Allow = []string{"https://x.y/path"} },
		"http_skills.secrets.A b":   func(o *httpskill.Options) { o.Secrets = map[string]httpskill.Secret{"A b": {}} },
		"http_skills.secrets.short": func(o *httpskill.Options) { o.Secrets = map[string]httpskill.Secret{"short": {Value: "x"}} },
		"http_skills.secrets.lines": func(o *httpskill.Options) { o.Secrets = map[string]httpskill.Secret{"lines": {Value: "secret\r\n"}} },
		"http_skills.secrets.free":  func(o *httpskill.Options) { o.Secrets = map[string]httpskill.Secret{"free": {Value: "secret-1"}} },
		"http_skills.secrets.bound": func(o *httpskill.Options) {
			o.Secrets = map[string]httpskill.Secret{"bound": {Value: "secret-1", Origins: []string{"ftp://x"}}}
		},
	} {
		o := good
		change(&o)
		if _, err := httpskill.Handlers(o); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field || strings.Contains(fmt.Sprint(err), "secret-1") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
