package v03

import (
	"encoding/json"
	"errors"

	legacy "github.com/a2aproject/a2a-go/a2a"
	legacypb "github.com/a2aproject/a2a-go/a2apb"
	"github.com/a2aproject/a2a-go/a2apb/pbconv"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// fullVersion is what cards of v0.3 say.
const fullVersion = "0.3.0"

// toCard translates an agent card. Its interfaces are those that speak v0.3; a
// card that lists none is of a mesh that speaks it at the same addresses.
// Signatures are left out: they are over the card of v1.0.
func toCard(card *a2apb.AgentCard) (*legacypb.AgentCard, error) {
	raw, err := protojson.Marshal(card)
	if err != nil {
		return nil, err
	}
	// The two protos name and number most things alike; the rest is renamed in
	// their JSON, so that nothing is lost that both have.
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	rename := func(in map[string]any) {
		if s, ok := in["securityRequirements"]; ok {
			in["security"] = s
		}
	}
	rename(fields)
	skills, _ := fields["skills"].([]any)
	for _, s := range skills {
		if skill, ok := s.(map[string]any); ok {
			rename(skill)
		}
	}
	delete(fields, "signatures")
	if raw, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	out := &legacypb.AgentCard{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return nil, err
	}
	out.ProtocolVersion = fullVersion
	out.SupportsAuthenticatedExtendedCard = card.GetCapabilities().GetExtendedAgentCard()
	for i, in := range interfaces(card) {
		if i == 0 {
			out.Url, out.PreferredTransport = in.GetUrl(), in.GetProtocolBinding()
		}
		out.AdditionalInterfaces = append(out.AdditionalInterfaces, &legacypb.AgentInterface{Url: in.GetUrl(), Transport: in.GetProtocolBinding()})
	}
	return out, nil
}

// interfaces returns the card's interfaces of v0.3, or all if none is.
func interfaces(card *a2apb.AgentCard) []*a2apb.AgentInterface {
	var old []*a2apb.AgentInterface
	for _, in := range card.GetSupportedInterfaces() {
		if v := in.GetProtocolVersion(); v != "" && spoken(v) {
			old = append(old, in)
		}
	}
	if len(old) == 0 {
		return card.GetSupportedInterfaces()
	}
	return old
}

// cardOf returns the card for JSON-RPC.
func cardOf(card *a2apb.AgentCard) (*legacy.AgentCard, error) {
	pb, err := toCard(card)
	if err != nil {
		return nil, err
	}
	if pb.Capabilities == nil {
		return nil, errors.New("the card has no capabilities")
	}
	out, err := pbconv.FromProtoAgentCard(pb)
	if err != nil {
		return nil, err
	}
	withScopes(out.Security)
	for i := range out.Skills {
		withScopes(out.Skills[i].Security)
	}
	return out, nil
}

// withScopes makes lists of scopes that are not there empty ones: a scheme
// without scopes has a list of none.
func withScopes(all []legacy.SecurityRequirements) {
	for _, requirements := range all {
		for name, scopes := range requirements {
			if scopes == nil {
				requirements[name] = legacy.SecuritySchemeScopes{}
			}
		}
	}
}
