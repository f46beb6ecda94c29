package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// The A2A names of the protocols by which the mesh calls agents.
const (
	BindingGRPC    = "GRPC"
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
)

// ParseCard reads the card of an agent of one's own from A2A's JSON. It refuses what
// A2A wants otherwise, of which [Inspect] warns. Members that this version does not know are ignored. It returns an
// Invalid error that names the file and, where known, line or field.
func ParseCard(file string, data []byte) (*a2apb.AgentCard, error) {
	const op = "registry.ParseCard"
	card, err := decodeCard(file, data)
	if err != nil {
		return nil, err
	}
	found, err := inspect(card)
	if err != nil {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Field: "card", Err: err, Detail: fmt.Sprintf("%s: card %s", file, mesh.DetailOf(err))}
	}
	for _, w := range found.warnings {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Field: w.Field, Detail: fmt.Sprintf("%s: %s %s", file, w.Field, w.Text)}
	}
	return card, nil
}

// decodeCard reads a card without judging it. Its error quotes the data.
func decodeCard(file string, data []byte) (*a2apb.AgentCard, error) {
	card := &a2apb.AgentCard{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, card); err != nil {
		// The library varies the space after its prefix on purpose.
		why := strings.TrimLeftFunc(strings.TrimPrefix(err.Error(), "proto:"), unicode.IsSpace)
		return nil, &mesh.Error{Code: mesh.Invalid, Op: "registry.decodeCard", Field: "card", Err: err,
			Detail: fmt.Sprintf("%s: is not the JSON of an A2A agent card: %s", file, why)}
	}
	interfacesV03(card, data)
	securityV03(card, data)
	return card, nil
}

// interfacesV03 gives a card without supportedInterfaces what cards of A2A v0.3 have in
// their place, the preferred one first.
func interfacesV03(card *a2apb.AgentCard, data []byte) {
	type where struct {
		URL       string `json:"url"`
		Transport string `json:"transport"`
	}
	var old struct {
		Version    string  `json:"protocolVersion"`
		URL        string  `json:"url"`
		Preferred  string  `json:"preferredTransport"`
		Additional []where `json:"additionalInterfaces"`
	}
	if len(card.GetSupportedInterfaces()) > 0 || json.Unmarshal(data, &old) != nil {
		return
	}
	var all []where
	if old.URL != "" {
		all = append(all, where{old.URL, cmp.Or(old.Preferred, BindingJSONRPC)}) // its default (A2A v0.3 §5.6.1)
	}
	for _, w := range old.Additional {
		if !slices.Contains(all, w) { // the first should be listed again
			all = append(all, w)
		}
	}
	for _, w := range all {
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2apb.AgentInterface{Url: w.URL, ProtocolBinding: w.Transport, ProtocolVersion: cmp.Or(old.Version, "0.3")})
	}
}

// Slug makes an agent's name from the name on its card: in lower case, with '-'
// for what a name cannot hold. It returns "" when nothing is left.
func Slug(name string) string {
	var b strings.Builder
	gap := false
	for _, c := range strings.ToLower(name) {
		letter := c >= 'a' && c <= 'z'
		switch {
		case letter || b.Len() > 0 && (c >= '0' && c <= '9' || c == '_'):
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(c)
			gap = false
		default:
			gap = true
		}
	}
	return strings.TrimRight(b.String()[:min(b.Len(), 64)], "-")
}
