// Package credentials has what the mesh proves itself by to agents that want that: bearer
// tokens, basic credentials, API keys, OAuth 2.0 client credentials and certificates.
//
// A [Set] is what somebody gave for one agent. It guarantees that its secrets go to the
// addresses alone for which they were given ([Set.Bind]), whatever the agent's card says
// later, and not in clear beyond this machine unless that is allowed; that of what it has
// the card's security requirements choose what is sent; and that no text which it or its
// parts are printed as has a secret. A [Sender] is what goes to one address.
//
// Sets may be used concurrently and start nothing. Only the tokens that a Set got for client
// credentials change in it. Where sets are kept, and who may give them, is the caller's;
// they are to be encrypted, see package seal.
package credentials

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Field is that of errors about credentials.
const Field = "credentials"

// Bounds of what is given.
const (
	MaxGiven  = 8        // credentials of an agent
	maxScheme = 128      // bytes of a scheme's name
	maxSecret = 16 << 10 // bytes of a secret
)

// A Given is one credential as somebody gives it.
type Given struct {
	// Scheme is the name of a security scheme on the agent's card; or its kind, if the
	// card has one of that, as "bearer"; or where an API key goes, as "header:X-API-Key".
	Scheme string
	// Secret is a token or an API key; "user:password" for basic, "client_id:client_secret"
	// for OAuth 2.0; a certificate with its key, in PEM, for mTLS.
	Secret string
}

// String returns the scheme alone.
func (g Given) String() string { return g.Scheme }

// GoString returns the scheme alone.
func (g Given) GoString() string { return g.Scheme }

// LogValue returns the scheme alone.
func (g Given) LogValue() slog.Value { return slog.StringValue(g.Scheme) }

// A Set is the credentials of one agent. Use [New] or [Decode]; nil has none.
type Set struct {
	given       []Given
	origins     []string // to which they go
	tokenPlaces []string // the origins of endpoints to which client secrets go
	tokens      *tokens
}

// New returns a set that goes nowhere yet; nil for none. Errors are Invalid, name the field
// and hold no secret.
func New(given []Given) (*Set, error) {
	const op = "credentials.New"
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > MaxGiven {
		return nil, mesh.InvalidField(op, Field, "may be %d, and are %d", MaxGiven, len(given))
	}
	s := &Set{tokens: newTokens()}
	for _, g := range given {
		g.Secret = strings.TrimSpace(g.Secret)
		switch {
		case g.Scheme == "" || len(g.Scheme) > maxScheme || strings.ContainsFunc(g.Scheme, unprintable):
			return nil, mesh.InvalidField(op, Field, "must each name a security scheme of the agent's card, or a kind such as bearer, in 1 to %d printable characters", maxScheme)
		case slices.ContainsFunc(s.given, func(o Given) bool { return o.Scheme == g.Scheme }):
			return nil, mesh.InvalidField(op, Field, "has %s twice", g.Scheme)
		case g.Secret == "":
			return nil, mesh.InvalidField(op, Field, "has nothing for %s; give its value", g.Scheme)
		case len(g.Secret) > maxSecret:
			return nil, mesh.InvalidField(op, Field, "has %d bytes for %s; the limit is %d", len(g.Secret), g.Scheme, maxSecret)
		}
		s.given = append(s.given, g)
	}
	return s, nil
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// Bind returns the set as what may go to the addresses, gRPC servers and URLs of the agent
// with the card, and to the token endpoints on it. It is an Invalid error if the card has no
// place for one of the credentials, or that is not what it has to be. A nil card is one that
// is not known yet: nothing is refused then.
func (s *Set) Bind(card *a2apb.AgentCard, addresses ...string) (*Set, error) {
	bound := &Set{given: s.given, tokens: s.tokens}
	for _, a := range addresses {
		if at := Origin(a); at != "" && !slices.Contains(bound.origins, at) {
			bound.origins = append(bound.origins, at)
		}
	}
	for _, g := range s.given {
		p, err := place(g, card)
		if err == nil {
			err = p.check(time.Now())
		}
		if err != nil && card != nil {
			return nil, mesh.Wrap("credentials.Bind", err)
		}
		if p.tokenURL != "" {
			bound.tokenPlaces = append(bound.tokenPlaces, Origin(p.tokenURL))
		}
	}
	return bound, nil
}

// Origin is where an address leads, that of a gRPC server or a URL: the host and port, and
// whether over TLS. It is "" for what is none.
func Origin(address string) string {
	at, secure := mesh.Endpoint(address)
	if !secure && strings.Contains(at, "://") {
		u, err := url.Parse(at)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return ""
		}
		port := u.Port()
		if secure = u.Scheme == "https"; port == "" {
			port = map[bool]string{true: "443", false: "80"}[secure]
		}
		at = strings.TrimSuffix(u.Hostname(), ".") + ":" + port
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return scheme + strings.ToLower(at)
}

// GoesTo reports whether the set may go to the address.
func (s *Set) GoesTo(address string) bool {
	return s != nil && slices.Contains(s.origins, Origin(address))
}

// A State says of a credential that it was given, and for what.
type State struct {
	// Scheme is as it was given, Kind one of the kinds; "" if the card has no such scheme
	// any more.
	Scheme, Kind string
}

// States says what was given, without the secrets.
func (s *Set) States(card *a2apb.AgentCard) []State {
	if s == nil {
		return nil
	}
	var all []State
	for _, g := range s.given {
		p, err := place(g, card)
		if err != nil {
			p.kind = ""
		}
		all = append(all, State{g.Scheme, p.kind})
	}
	return all
}

// kept is the form in which a set is kept, which has its secrets.
type kept struct {
	Given       [][2]string `json:"given"`
	Origins     []string    `json:"origins"`
	TokenPlaces []string    `json:"token_places,omitempty"`
}

// Encode returns the set with its secrets, to be encrypted.
func (s *Set) Encode() ([]byte, error) {
	k := kept{Origins: s.origins, TokenPlaces: s.tokenPlaces}
	for _, g := range s.given {
		k.Given = append(k.Given, [2]string{g.Scheme, g.Secret})
	}
	return json.Marshal(k)
}

// Decode returns what was encoded.
func Decode(data []byte) (*Set, error) {
	var k kept
	if json.Unmarshal(data, &k) != nil { // whose error may cite it
		return nil, mesh.Errorf(mesh.Unknown, "credentials.Decode", "The credentials that are kept are damaged; give them again")
	}
	s := &Set{origins: k.Origins, tokenPlaces: k.TokenPlaces, tokens: newTokens()}
	for _, g := range k.Given {
		s.given = append(s.given, Given{g[0], g[1]})
	}
	return s, nil
}

// certificate reads a certificate with its key.
func certificate(pem string) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair([]byte(pem), []byte(pem))
	return &c, err
}
