package cards

import (
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// A Mode says for which versions of A2A a card is written.
type Mode string

// The modes.
const (
	// Union is for clients of v1.0 and v0.3: the members of both.
	Union Mode = "union"
	// V1 is for those of v1.0 alone, and for validators that refuse members
	// which v1.0 does not have.
	V1 Mode = "v1"
)

// Valid returns an Invalid error for what is no mode.
func (m Mode) Valid() error {
	if m != Union && m != V1 {
		return mesh.InvalidField("cards.Mode", "card_mode", "must be union or v1, and is %q", mesh.Clip(string(m), 64))
	}
	return nil
}

// legacyVersion is the protocolVersion of cards of A2A v0.3.
const legacyVersion = "0.3.0"

func isLegacy(in *a2apb.AgentInterface) bool {
	v := in.GetProtocolVersion()
	return v == "0.3" || strings.HasPrefix(v, "0.3.")
}

// hasLegacy reports whether the card has an interface of v0.3. One without promises
// nothing to such clients, and stays as it is.
func hasLegacy(card *a2apb.AgentCard) bool {
	return slices.ContainsFunc(card.GetSupportedInterfaces(), isLegacy)
}

// dropRequirements takes the requirements of v1.0 out of the card's object: the official
// SDK for Go (2.4.0) reads no card that has them as v1.0 writes them. That for Python
// takes those of v0.3 for them, where these are missing.
func dropRequirements(t members) {
	delete(t, "securityRequirements")
	skills, _ := t["skills"].([]any)
	for _, s := range skills {
		delete(s.(members), "securityRequirements")
	}
}

// addLegacy gives t, the card's object, the members of A2A v0.3 that say where
// and how the agent is called by it.
func addLegacy(t members, card *a2apb.AgentCard) {
	var interfaces []any
	for _, in := range card.GetSupportedInterfaces() {
		if isLegacy(in) {
			interfaces = append(interfaces, members{"url": legacyURL(in), "transport": in.GetProtocolBinding()})
		}
	}
	first := interfaces[0].(members)
	t["protocolVersion"] = legacyVersion
	t["url"], t["preferredTransport"] = first["url"], first["transport"]
	t["additionalInterfaces"] = interfaces
	if card.GetCapabilities().GetExtendedAgentCard() {
		t["supportsAuthenticatedExtendedCard"] = true
	}
	if len(card.GetSecurityRequirements()) > 0 {
		t["security"] = legacySecurity(card.GetSecurityRequirements())
	}
	for i, s := range card.GetSkills() {
		if len(s.GetSecurityRequirements()) > 0 {
			t["skills"].([]any)[i].(members)["security"] = legacySecurity(s.GetSecurityRequirements())
		}
	}
	for name, s := range card.GetSecuritySchemes() {
		addLegacyScheme(t["securitySchemes"].(members)[name].(members), s)
	}
}

// legacyURL is the interface's address as v0.3 writes it: also that of gRPC is
// a URL.
func legacyURL(in *a2apb.AgentInterface) string {
	if strings.Contains(in.GetUrl(), "://") {
		return in.GetUrl()
	}
	return "http://" + in.GetUrl()
}

// legacySecurity returns the alternatives, each a scheme's scopes by its name.
func legacySecurity(reqs []*a2apb.SecurityRequirement) []any {
	out := make([]any, len(reqs))
	for i, r := range reqs {
		schemes := members{}
		for name, scopes := range r.GetSchemes() {
			schemes[name] = append([]string{}, scopes.GetList()...)
		}
		out[i] = schemes
	}
	return out
}

// addLegacyScheme adds the members with which v0.3, as OpenAPI does, describes
// a scheme: beside the one that v1.0 names after its kind.
func addLegacyScheme(t members, s *a2apb.SecurityScheme) {
	var v1 any
	renamed := map[string]string{}
	switch s.GetScheme().(type) {
	case *a2apb.SecurityScheme_ApiKeySecurityScheme:
		t["type"], v1, renamed["location"] = "apiKey", t["apiKeySecurityScheme"], "in"
	case *a2apb.SecurityScheme_HttpAuthSecurityScheme:
		t["type"], v1 = "http", t["httpAuthSecurityScheme"]
	case *a2apb.SecurityScheme_Oauth2SecurityScheme:
		t["type"], v1 = "oauth2", t["oauth2SecurityScheme"]
	case *a2apb.SecurityScheme_OpenIdConnectSecurityScheme:
		t["type"], v1 = "openIdConnect", t["openIdConnectSecurityScheme"]
	case *a2apb.SecurityScheme_MtlsSecurityScheme:
		t["type"], v1 = "mutualTLS", t["mtlsSecurityScheme"]
	}
	fields, _ := v1.(members)
	for name, v := range fields {
		if old, ok := renamed[name]; ok {
			name = old
		}
		t[name] = v
	}
}
