package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The A2A names of the protocols by which the mesh calls agents.
const (
	BindingGRPC    = "GRPC"
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
)

// ParseCard reads a card from A2A's JSON and checks it as ValidateCard does.
// Members that this version does not know are ignored. It returns an Invalid
// error that names the file and, where known, line or field.
func ParseCard(file string, data []byte) (*a2apb.AgentCard, error) {
	card, err := decodeCard(file, data)
	if err != nil {
		return nil, err
	}
	if err := ValidateCard(card); err != nil {
		e := mesh.Errorf(mesh.Invalid, "registry.ParseCard", "%s: %s: %w", file, mesh.DetailOf(err), err)
		if field := fieldOf(err); field != "" {
			e.Field, e.Detail = field, fmt.Sprintf("%s: %s %s", file, field, mesh.DetailOf(err))
		}
		return nil, e
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
	if len(card.GetSupportedInterfaces()) == 0 {
		card.SupportedInterfaces = oldInterfaces(data)
	}
	return card, nil
}

// oldInterfaces reads what cards of A2A v0.3 have in place of
// supportedInterfaces. The preferred one comes first.
func oldInterfaces(data []byte) []*a2apb.AgentInterface {
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
	if err := json.Unmarshal(data, &old); err != nil || old.URL == "" {
		return nil
	}
	first := where{old.URL, cmp.Or(old.Preferred, BindingJSONRPC)} // its default (A2A v0.3 §5.6.1)
	var all []*a2apb.AgentInterface
	for i, w := range append([]where{first}, old.Additional...) {
		if i > 0 && w == first {
			continue // it should be listed again
		}
		all = append(all, &a2apb.AgentInterface{Url: w.URL, ProtocolBinding: w.Transport, ProtocolVersion: cmp.Or(old.Version, "0.3")})
	}
	return all
}

// ValidateCard checks what A2A v1.0 §4.4 requires of a card and the mesh relies
// on. A card without any interface is accepted, since the address of an agent
// may be given beside it. It returns an Invalid error that names the field, as
// "card.skills[0].id", and the remedy.
func ValidateCard(card *a2apb.AgentCard) error {
	v := &verdict{}
	if n := proto.Size(card); n > MaxCard {
		v.refuse("card", "has %d bytes and may have %d; shorten it", n, MaxCard)
	}
	v.text("card.name", card.GetName())
	v.text("card.description", card.GetDescription())
	v.text("card.version", card.GetVersion())
	if card.GetCapabilities() == nil {
		v.refuse("card.capabilities", "is missing; give at least an empty object")
	}
	v.list("card.defaultInputModes", len(card.GetDefaultInputModes()), `media type, such as "text/plain"`)
	v.list("card.defaultOutputModes", len(card.GetDefaultOutputModes()), `media type, such as "text/plain"`)
	for i, in := range card.GetSupportedInterfaces() {
		at := fmt.Sprintf("card.supportedInterfaces[%d]", i)
		v.text(at+".url", in.GetUrl())
		v.text(at+".protocolBinding", in.GetProtocolBinding())
	}
	v.list("card.skills", len(card.GetSkills()), "skill")
	ids := map[string]bool{}
	for i, s := range card.GetSkills() {
		at := fmt.Sprintf("card.skills[%d]", i)
		v.text(at+".id", s.GetId())
		v.text(at+".name", s.GetName())
		v.text(at+".description", s.GetDescription())
		v.list(at+".tags", len(s.GetTags()), "tag")
		if ids[s.GetId()] {
			v.refuse(at+".id", "is %q, as that of another skill; make them differ", clip(s.GetId()))
		}
		ids[s.GetId()] = true
	}
	v.extension(card)
	return v.err()
}

// A verdict keeps the first complaint.
type verdict struct{ first *mesh.Error }

func (v *verdict) refuse(field, format string, args ...any) {
	if v.first == nil {
		v.first = mesh.InvalidField("registry.ValidateCard", field, format, args...)
	}
}

func (v *verdict) text(field, s string) {
	if strings.TrimSpace(s) == "" {
		v.refuse(field, "is missing; give it as text")
	}
}

func (v *verdict) list(field string, n int, what string) {
	if n == 0 {
		v.refuse(field, "is missing; give at least one %s", what)
	}
}

func (v *verdict) err() error {
	if v.first == nil {
		return nil
	}
	return v.first
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

// address returns where to call the agent: the given address of a gRPC server, or the address
// of the card's first interface which the mesh can use.
func address(card *a2apb.AgentCard, given string) (string, error) {
	const op = "registry.address"
	if given != "" {
		if !validAddress(given) {
			return "", mesh.InvalidField(op, "endpoint", "must be host:port, or grpcs://host:port for TLS, and is %q", clip(given))
		}
		return given, nil
	}
	why := error(mesh.InvalidField(op, "card.supportedInterfaces",
		"has no interface with protocolBinding GRPC, JSONRPC or HTTP+JSON and version 1.x or 0.3; add one, or give the agent's host:port as endpoint"))
	for i, in := range card.GetSupportedInterfaces() {
		if !usable(in) {
			continue
		}
		addr, err := interfaceAddress(in)
		if err == nil {
			return addr, nil
		}
		why = mesh.InvalidField(op, fmt.Sprintf("card.supportedInterfaces[%d].url", i), "%s", mesh.DetailOf(err))
	}
	return "", why
}

// usable reports whether the interface speaks what the mesh does.
func usable(in *a2apb.AgentInterface) bool {
	switch strings.ToUpper(in.GetProtocolBinding()) {
	case BindingGRPC, BindingJSONRPC, BindingREST:
	default:
		return false
	}
	v := in.GetProtocolVersion()
	return v == "" || v == "1" || strings.HasPrefix(v, "1.") || v == "0.3" || strings.HasPrefix(v, "0.3.")
}

// interfaceAddress returns where a usable interface is: what grpcAddress makes of one of
// gRPC, the URL of others.
func interfaceAddress(in *a2apb.AgentInterface) (string, error) {
	const op = "registry.interfaceAddress"
	if !usable(in) {
		return "", mesh.Errorf(mesh.Invalid, op, "is of a protocol or version that the mesh does not speak")
	}
	if !strings.EqualFold(in.GetProtocolBinding(), BindingGRPC) {
		return webAddress(in.GetUrl())
	}
	addr := grpcAddress(in.GetUrl())
	if !validAddress(addr) {
		return "", mesh.Errorf(mesh.Invalid, op, "must be host:port, or grpcs://host:port for TLS, and is %q", clip(mesh.PublicURL(in.GetUrl())))
	}
	return addr, nil
}

// grpcAddress is the one form of a gRPC server's address: host:port, behind
// mesh.SecureScheme if it is called over TLS.
func grpcAddress(s string) string {
	at, secure := mesh.Endpoint(s)
	if secure {
		return mesh.SecureScheme + at
	}
	return at
}

// webAddress checks the URL of an interface.
func webAddress(s string) (string, error) {
	const op = "registry.webAddress"
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Hostname() == "", u.Scheme != "http" && u.Scheme != "https", len(s) > maxURL:
		return "", mesh.Errorf(mesh.Invalid, op, "must be a URL that begins with http:// or https://, and is %q", clip(mesh.PublicURL(s)))
	case u.User != nil:
		return "", mesh.Errorf(mesh.Invalid, op, "must not hold a user name or password; the URL is shown to others")
	}
	return s, nil
}

// hostPort is where the address is connected to.
func hostPort(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" { // a host:port itself
		return at
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "grpcs": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func validAddress(s string) bool {
	s = strings.TrimPrefix(s, mesh.SecureScheme)
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || len(s) > 300 || strings.ContainsAny(s, "/@ \t\r\n") {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1<<16
}

// withInterface returns the card, with the address as its interface if it
// names none that the mesh can use.
func withInterface(card *a2apb.AgentCard, addr string) *a2apb.AgentCard {
	for _, in := range card.GetSupportedInterfaces() {
		if usable(in) {
			return card
		}
	}
	card = proto.CloneOf(card)
	card.SupportedInterfaces = append([]*a2apb.AgentInterface{
		{Url: addr, ProtocolBinding: BindingGRPC, ProtocolVersion: "1.0"},
	}, card.SupportedInterfaces...)
	return card
}
