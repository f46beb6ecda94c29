package credentials

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http/httpguts"

	"agentmesh/mesh"
)

// The kinds of credentials.
const (
	Bearer = "bearer" // also an access token of OAuth 2.0 or OpenID Connect that somebody got
	Basic  = "basic"
	APIKey = "apiKey"
	OAuth2 = "oauth2" // client credentials
	MTLS   = "mtls"
)

// Where API keys go.
const (
	inHeader = "header"
	inQuery  = "query"
	inCookie = "cookie"
)

// A placed credential is one with what the card says of it.
type placed struct {
	Given
	name     string // of the scheme on the card; "" if it is on none
	kind     string
	in, key  string // of an API key
	tokenURL string // of OAuth2
	scopes   []string
}

// place finds what the credential is for. Without a card that is known only of kinds that
// need none.
func place(g Given, card *a2apb.AgentCard) (placed, error) {
	if s, ok := card.GetSecuritySchemes()[g.Scheme]; ok {
		p, err := described(g.Scheme, s)
		p.Given = g
		return p, err
	}
	if in, key, ok := strings.Cut(g.Scheme, ":"); ok && slices.Contains([]string{inHeader, inQuery, inCookie}, strings.ToLower(in)) {
		p := placed{Given: g, kind: APIKey, in: strings.ToLower(in), key: key}
		for name, o := range known(card) {
			if o.kind == APIKey && o.in == p.in && strings.EqualFold(o.key, key) {
				p.name, p.key = name, o.key
			}
		}
		return p, nil
	}
	return ofKind(g, card)
}

// ofKind finds the one scheme of the kind that the credential names.
func ofKind(g Given, card *a2apb.AgentCard) (placed, error) {
	const op = "credentials.place"
	kind, ok := kinds[letters(g.Scheme)]
	if !ok {
		return placed{Given: g}, mesh.InvalidField(op, Field, "has %s, which is no security scheme of the agent's card: it has %s; "+
			"name one, or a kind: bearer, basic, apiKey, oauth2, mtls, header:NAME, query:NAME, cookie:NAME", g.Scheme, schemes(card))
	}
	var names []string
	all := known(card)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].kind == kind {
			names = append(names, name)
		}
	}
	if kind == Bearer && len(names) == 0 { // the token of others is sent the same way
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name].kind == OAuth2 {
				names = append(names, name)
			}
		}
	}
	switch {
	case len(names) > 1:
		return placed{Given: g}, mesh.InvalidField(op, Field, "has %s, and the agent's card has several of that kind; name one of %s", g.Scheme, strings.Join(names, ", "))
	case len(names) == 1:
		p := all[names[0]]
		if p.Given = g; kind == Bearer {
			p.kind, p.tokenURL = Bearer, ""
		}
		return p, nil
	case kind == APIKey || kind == OAuth2:
		return placed{Given: g}, mesh.InvalidField(op, Field, "has %s, of which the agent's card says nothing: it has %s; "+
			"give an API key as header:NAME, query:NAME or cookie:NAME, and a token as bearer", g.Scheme, schemes(card))
	}
	return placed{Given: g, kind: kind}, nil
}

var kinds = map[string]string{"bearer": Bearer, "basic": Basic, "apikey": APIKey, "oauth": OAuth2, "oauth2": OAuth2, "mtls": MTLS, "mutualtls": MTLS}

func letters(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// described1 are the schemes of the card that the mesh can do, by name.
func known(card *a2apb.AgentCard) map[string]placed {
	all := map[string]placed{}
	for name, s := range card.GetSecuritySchemes() {
		if p, err := described(name, s); err == nil {
			all[name] = p
		}
	}
	return all
}

// described is what the card says of a scheme.
func described(name string, s *a2apb.SecurityScheme) (placed, error) {
	p := placed{name: name}
	switch s := s.GetScheme().(type) {
	case *a2apb.SecurityScheme_HttpAuthSecurityScheme:
		p.kind = strings.ToLower(s.HttpAuthSecurityScheme.GetScheme())
		if p.kind == "" {
			p.kind = Bearer
		}
		if p.kind != Bearer && p.kind != Basic {
			return p, unable(name, fmt.Sprintf("is of HTTP's scheme %s", mesh.Clip(p.kind, 32)))
		}
	case *a2apb.SecurityScheme_ApiKeySecurityScheme:
		p.kind, p.in, p.key = APIKey, strings.ToLower(s.ApiKeySecurityScheme.GetLocation()), s.ApiKeySecurityScheme.GetName()
		if !slices.Contains([]string{inHeader, inQuery, inCookie}, p.in) {
			return p, unable(name, "is a key that goes neither in a header nor a query or cookie")
		}
	case *a2apb.SecurityScheme_Oauth2SecurityScheme:
		p.kind = Bearer // a token that somebody got
		if flow := s.Oauth2SecurityScheme.GetFlows().GetClientCredentials(); flow.GetTokenUrl() != "" {
			p.kind, p.tokenURL = OAuth2, flow.GetTokenUrl()
		}
	case *a2apb.SecurityScheme_OpenIdConnectSecurityScheme:
		p.kind = Bearer
	case *a2apb.SecurityScheme_MtlsSecurityScheme:
		p.kind = MTLS
	default:
		return p, unable(name, "is not described")
	}
	return p, nil
}

func unable(name, why string) error {
	return mesh.InvalidField("credentials.place", Field, "has %s, which %s on the agent's card, and the mesh cannot send it; leave it out", mesh.Clip(name, maxScheme), why)
}

// schemes lists those of the card for people.
func schemes(card *a2apb.AgentCard) string {
	names := slices.Sorted(maps.Keys(card.GetSecuritySchemes()))
	if len(names) == 0 {
		return "none"
	}
	return mesh.Clip(strings.Join(names, ", "), 300)
}

// check refuses a secret that is not what its kind has to be, without showing it.
func (p placed) check(now time.Time) error {
	const op = "credentials.check"
	bad := func(what string) error { return mesh.InvalidField(op, Field, "has for %s %s", p.Scheme, what) }
	first, second, pair := strings.Cut(p.Secret, ":")
	switch p.kind {
	case Bearer:
		if strings.ContainsFunc(p.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return bad("what is no token: it must be one line of printable ASCII without spaces")
		}
	case Basic, OAuth2:
		if !pair || first == "" || second == "" || strings.ContainsFunc(p.Secret, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return bad("what is no pair: it must be user:password, or client_id:client_secret for OAuth 2.0, in one line")
		}
	case APIKey:
		if !httpguts.ValidHeaderFieldName(p.key) || reserved[strings.ToLower(p.key)] || strings.HasPrefix(strings.ToLower(p.key), "grpc-") {
			return bad(fmt.Sprintf("a place, %s %q, where no key can be", p.in, mesh.Clip(p.key, 64)))
		}
		if strings.ContainsFunc(p.Secret, unprintable) || p.in == inCookie && strings.ContainsAny(p.Secret, "\" ,;\\") {
			return bad("what cannot be in a " + p.in + ": it must be one line of printable ASCII")
		}
	case MTLS:
		c, err := certificate(p.Secret)
		if err != nil {
			return bad("no certificate with its key: both must be PEM, and belong together")
		}
		if now.After(c.Leaf.NotAfter) {
			return bad("a certificate that expired at " + c.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// reserved are the headers that HTTP itself needs.
var reserved = map[string]bool{"host": true, "content-length": true, "content-type": true, "content-encoding": true, "transfer-encoding": true,
	"connection": true, "upgrade": true, "te": true, "trailer": true, "accept": true}

// plan chooses what is sent by the card's requirements: the first alternative of which all
// was given, and what was given for no scheme of the card. If there is none, all that was
// given is sent, unless the card takes calls without.
func (s *Set) plan(card *a2apb.AgentCard) []placed {
	if s == nil {
		return nil
	}
	var all []placed
	for _, g := range s.given {
		if p, err := place(g, card); err == nil && p.check(time.Time{}) == nil {
			all = append(all, p)
		}
	}
	reqs := card.GetSecurityRequirements()
	of := func(name string) int { return slices.IndexFunc(all, func(p placed) bool { return p.name == name }) }
	free := len(reqs) == 0
	for _, r := range reqs {
		free = free || len(r.GetSchemes()) == 0
		covered := len(r.GetSchemes()) > 0
		for name := range r.GetSchemes() {
			covered = covered && of(name) >= 0
		}
		if !covered {
			continue
		}
		for name, scopes := range r.GetSchemes() {
			all[of(name)].scopes = scopes.GetList()
		}
		return slices.DeleteFunc(all, func(p placed) bool { _, wanted := r.GetSchemes()[p.name]; return p.name != "" && !wanted })
	}
	if free && len(reqs) > 0 {
		return slices.DeleteFunc(all, func(p placed) bool { return p.name != "" })
	}
	return all
}

// Missing is what the card requires and was not given: the schemes of the alternative that
// lacks least; none if it takes calls without, or has what it needs.
func (s *Set) Missing(card *a2apb.AgentCard) []State {
	have := map[string]bool{}
	if s != nil {
		for _, g := range s.given {
			if p, err := place(g, card); err == nil {
				have[p.name] = true
			}
		}
	}
	var least []State
	for i, r := range card.GetSecurityRequirements() {
		var lacks []State
		for _, name := range slices.Sorted(maps.Keys(r.GetSchemes())) {
			if have[name] {
				continue
			}
			p, err := described(name, card.GetSecuritySchemes()[name])
			if err != nil {
				p.kind = ""
			}
			lacks = append(lacks, State{name, p.kind})
		}
		if i == 0 || len(lacks) < len(least) {
			least = lacks
		}
	}
	return least
}

// Strays are the token endpoints on the card to which client credentials were not given.
func (s *Set) Strays(card *a2apb.AgentCard) []string {
	var all []string
	for _, p := range s.plan(card) {
		if p.tokenURL != "" && !slices.Contains(s.tokenPlaces, Origin(p.tokenURL)) {
			all = append(all, p.tokenURL)
		}
	}
	return all
}
