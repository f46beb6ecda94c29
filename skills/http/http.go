// Package httpskill runs skills that are requests to web services.
//
// Such a skill is a page like any other, with handler http.request and one
// fenced block of the language http in its body: the request, with the skill's
// parameters as placeholders (README.md describes it). There is no skill that
// sends a model's own request: what is sent, and where, is what somebody wrote
// into a page.
//
// It guarantees that
//   - a value ends up inside its place: one segment of the path, one value of
//     the query, of a header, or of the body, whatever it contains;
//   - nothing is sent to, or followed by a redirect to, an origin that the
//     operator does not allow. Whether the address behind the name may be
//     reached is up to the client that the caller gives;
//   - secrets come from the operator, go to the origins that the operator
//     bound them to, in skills of the operator alone, and are in no result and
//     no error;
//   - an answer is text, bounded in size and time, and shown as data.
//
// A request that changes something carries the call's key as Idempotency-Key.
// If its outcome is not known, the result says so.
//
// Handlers may be called concurrently. The package keeps no cookies, opens no
// files and follows no links in answers.
package httpskill

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Handler is how a skill's page names the handler of this package.
const Handler = skill.RequestHandler

// Defaults of Options.
const (
	DefaultTimeout     = 20 * time.Second
	DefaultMaxResponse = 64 << 10 // bytes
)

// A Secret is a value that requests carry and nobody reads.
type Secret struct {
	Value string
	// Origins are those that it may be sent to, each as in Options.Allow.
	Origins []string
}

// Options are what requests need of the world (Client, Allow), and what
// they can choose.
type Options struct {
	// Client sends the requests. Its transport decides which addresses can be
	// reached; its redirect policy and cookies are not used.
	Client *http.Client
	// Allow lists the origins that requests may go to: a host, as
	// "api.example.com", which means https; a host with a port; or a whole
	// origin, as "http://crm.internal:8080".
	Allow []string
	// Secrets are the values of {secret:NAME}, by name.
	Secrets map[string]Secret
	// Timeout is for one request with its answer; 0 is DefaultTimeout.
	Timeout time.Duration
	// MaxResponse is how much of an answer is read and shown, in bytes; 0 is
	// DefaultMaxResponse.
	MaxResponse int
}

// Handlers returns the one handler of the package, by its name. The error is
// Invalid and names the field of the options.
func Handlers(o Options) (map[string]skill.Handler, error) {
	const op = "httpskill.Handlers"
	if o.Client == nil {
		return nil, mesh.InvalidField(op, "client", "is missing; give one that reaches only what it should")
	}
	s := &sender{client: *o.Client, secrets: make(map[string]secret), timeout: o.Timeout, most: o.MaxResponse}
	if s.timeout <= 0 {
		s.timeout = DefaultTimeout
	}
	if s.most <= 0 {
		s.most = DefaultMaxResponse
	}
	s.client.Jar, s.client.Timeout = nil, 0 // the context limits the time
	var err error
	if s.allow, err = origins("http_skills.allow", o.Allow); err != nil {
		return nil, err
	}
	for name, given := range o.Secrets {
		field := "http_skills.secrets." + name
		switch {
		case !secretName.MatchString(name):
			return nil, mesh.InvalidField(op, field, "must be called by lower-case letters, digits, '_' and '-'")
		case len(given.Value) < minSecret || strings.ContainsFunc(given.Value, outsideASCII):
			return nil, mesh.InvalidField(op, field, "must have at least %d visible ASCII characters and no others", minSecret)
		case len(given.Origins) == 0:
			return nil, mesh.InvalidField(op, field, "must name the origins that it may be sent to")
		}
		bound, err := origins(field, given.Origins)
		if err != nil {
			return nil, err
		}
		s.secrets[name] = secret{value: given.Value, origins: bound}
	}
	return map[string]skill.Handler{Handler: skill.HandlerFunc(s.execute).Showing(s.show)}, nil
}

// minSecret is the shortest secret that can be told from other text, so that
// it can be kept out of answers.
const minSecret = 6

func outsideASCII(r rune) bool { return r < ' ' || r > '~' }

type secret struct {
	value   string
	origins []string
}

func origins(field string, list []string) ([]string, error) {
	var out []string
	for _, text := range list {
		o, ok := parseOrigin(text)
		if !ok {
			return nil, mesh.InvalidField("httpskill.Handlers", field, "has %q, which is no origin; write it as api.example.com or http://crm.internal:8080", text)
		}
		out = append(out, o)
	}
	return out, nil
}

func parseOrigin(text string) (string, bool) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	return originOf(u)
}

// originOf returns scheme, host and port in the one form in which they are
// compared.
func originOf(u *url.URL) (string, bool) {
	port := u.Port()
	switch {
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme != "https" && u.Scheme != "http":
		return "", false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return u.Scheme + "://" + host + ":" + port, host != ""
}

func (s *sender) allowed(u *url.URL) bool {
	o, ok := originOf(u)
	// A redirect must not log in as somebody.
	return ok && u.User == nil && slices.Contains(s.allow, o)
}
