package registry

import (
	"encoding/json"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A schemeV03 is a security scheme as A2A v0.3 has it, after OpenAPI.
type schemeV03 struct {
	Type         string `json:"type"`
	Description  string `json:"description"`
	In           string `json:"in"`
	Name         string `json:"name"`
	Scheme       string `json:"scheme"`
	BearerFormat string `json:"bearerFormat"`
	OpenIDURL    string `json:"openIdConnectUrl"`
	MetadataURL  string `json:"oauth2MetadataUrl"`
	Flows        struct {
		ClientCredentials *flowV03 `json:"clientCredentials"`
		AuthorizationCode *flowV03 `json:"authorizationCode"`
		Password          *flowV03 `json:"password"`
		Implicit          *flowV03 `json:"implicit"`
	} `json:"flows"`
}

type flowV03 struct {
	AuthorizationURL string            `json:"authorizationUrl"`
	TokenURL         string            `json:"tokenUrl"`
	RefreshURL       string            `json:"refreshUrl"`
	Scopes           map[string]string `json:"scopes"`
}

// securityV03 gives the card what of its security schemes and requirements is said as cards
// of A2A v0.3 do. What cannot be read is as if it were not there.
func securityV03(card *a2apb.AgentCard, data []byte) {
	var old struct {
		Schemes  map[string]json.RawMessage `json:"securitySchemes"`
		Security []map[string][]string      `json:"security"`
	}
	if json.Unmarshal(data, &old) != nil {
		return
	}
	for name, raw := range old.Schemes {
		var s schemeV03
		if card.GetSecuritySchemes()[name].GetScheme() == nil && json.Unmarshal(raw, &s) == nil {
			card.SecuritySchemes[name] = s.scheme()
		}
	}
	if len(card.GetSecurityRequirements()) > 0 {
		return
	}
	for _, alternative := range old.Security {
		schemes := map[string]*a2apb.StringList{}
		for name, scopes := range alternative {
			schemes[name] = &a2apb.StringList{List: scopes}
		}
		card.SecurityRequirements = append(card.SecurityRequirements, &a2apb.SecurityRequirement{Schemes: schemes})
	}
}

// scheme is the scheme in the form of v1.0; an empty one if its type is not known.
func (s schemeV03) scheme() *a2apb.SecurityScheme {
	switch s.Type {
	case "apiKey":
		return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_ApiKeySecurityScheme{
			ApiKeySecurityScheme: &a2apb.APIKeySecurityScheme{Description: s.Description, Location: s.In, Name: s.Name}}}
	case "http":
		return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{
			HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Description: s.Description, Scheme: s.Scheme, BearerFormat: s.BearerFormat}}}
	case "oauth2":
		return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_Oauth2SecurityScheme{
			Oauth2SecurityScheme: &a2apb.OAuth2SecurityScheme{Description: s.Description, Oauth2MetadataUrl: s.MetadataURL, Flows: s.flows()}}}
	case "openIdConnect":
		return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_OpenIdConnectSecurityScheme{
			OpenIdConnectSecurityScheme: &a2apb.OpenIdConnectSecurityScheme{Description: s.Description, OpenIdConnectUrl: s.OpenIDURL}}}
	case "mutualTLS":
		return &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_MtlsSecurityScheme{
			MtlsSecurityScheme: &a2apb.MutualTlsSecurityScheme{Description: s.Description}}}
	}
	return &a2apb.SecurityScheme{}
}

// flows is one of the flows, as v1.0 has room for: that which needs no person, if there is
// one.
func (s schemeV03) flows() *a2apb.OAuthFlows {
	f := s.Flows
	switch {
	case f.ClientCredentials != nil:
		return &a2apb.OAuthFlows{Flow: &a2apb.OAuthFlows_ClientCredentials{ClientCredentials: &a2apb.ClientCredentialsOAuthFlow{
			TokenUrl: f.ClientCredentials.TokenURL, RefreshUrl: f.ClientCredentials.RefreshURL, Scopes: f.ClientCredentials.Scopes}}}
	case f.AuthorizationCode != nil:
		return &a2apb.OAuthFlows{Flow: &a2apb.OAuthFlows_AuthorizationCode{AuthorizationCode: &a2apb.AuthorizationCodeOAuthFlow{
			AuthorizationUrl: f.AuthorizationCode.AuthorizationURL, TokenUrl: f.AuthorizationCode.TokenURL,
			RefreshUrl: f.AuthorizationCode.RefreshURL, Scopes: f.AuthorizationCode.Scopes}}}
	case f.Password != nil:
		return &a2apb.OAuthFlows{Flow: &a2apb.OAuthFlows_Password{Password: &a2apb.PasswordOAuthFlow{ //nolint:staticcheck // cards of v0.3 have it
			TokenUrl: f.Password.TokenURL, RefreshUrl: f.Password.RefreshURL, Scopes: f.Password.Scopes}}}
	case f.Implicit != nil:
		return &a2apb.OAuthFlows{Flow: &a2apb.OAuthFlows_Implicit{Implicit: &a2apb.ImplicitOAuthFlow{ //nolint:staticcheck // cards of v0.3 have it
			AuthorizationUrl: f.Implicit.AuthorizationURL, RefreshUrl: f.Implicit.RefreshURL, Scopes: f.Implicit.Scopes}}}
	}
	return nil
}
