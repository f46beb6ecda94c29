package registry

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// address returns where to call the agent: the given address, which is that of an interface
// of the card or of a gRPC server, or the address of the card's first interface which the
// mesh can use.
func address(card *a2apb.AgentCard, given string) (string, error) {
	const op = "registry.address"
	why := error(mesh.InvalidField(op, "card.supportedInterfaces",
		"has no interface with protocolBinding GRPC, JSONRPC or HTTP+JSON and version 1.x or 0.3; add one, or give the agent's host:port as endpoint"))
	for i, in := range card.GetSupportedInterfaces() {
		if !usable(in) {
			continue
		}
		addr, err := interfaceAddress(in)
		switch {
		case err != nil:
			why = mesh.InvalidField(op, fmt.Sprintf("card.supportedInterfaces[%d].url", i), "%s", mesh.DetailOf(err))
		case given == "" || given == addr:
			return addr, nil
		}
	}
	if given == "" {
		return "", why
	}
	addr := grpcAddress(given)
	if !validAddress(addr) {
		return "", mesh.InvalidField(op, "endpoint", "must be host:port, or grpcs://host:port for TLS, and is %q", clip(mesh.PublicURL(given)))
	}
	return addr, nil
}

// spoken returns the binding and the version of A2A by which the interface is called, as the
// mesh writes them; "" for what it does not speak. Frameworks write them in many ways.
func spoken(in *a2apb.AgentInterface) (binding, version string) {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToUpper(r)
		}
		return -1
	}, in.GetProtocolBinding())
	switch letters {
	case "GRPC":
		binding = BindingGRPC
	case "JSONRPC":
		binding = BindingJSONRPC
	case "HTTPJSON", "REST":
		binding = BindingREST
	}
	version = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(in.GetProtocolVersion())), "v")
	switch {
	case version == "":
		version = "1.0"
	case version == "0.2" || strings.HasPrefix(version, "0.2."):
		version = "0.3" // which reads what it changed, over JSON-RPC
		if binding != BindingJSONRPC {
			version = ""
		}
	case version != "1" && !strings.HasPrefix(version, "1.") && version != "0.3" && !strings.HasPrefix(version, "0.3."):
		version = ""
	}
	return binding, version
}

// usable reports whether the interface speaks what the mesh does.
func usable(in *a2apb.AgentInterface) bool {
	binding, version := spoken(in)
	return binding != "" && version != ""
}

// Interfaces returns the interfaces of the card by which the mesh calls its agent, in their
// order and written as the mesh writes them. It returns an Invalid error that names the
// field if there are none.
func Interfaces(card *a2apb.AgentCard) ([]*a2apb.AgentInterface, error) {
	if _, err := address(card, ""); err != nil {
		return nil, mesh.Wrap("registry.Interfaces", err)
	}
	var all []*a2apb.AgentInterface
	for _, in := range card.GetSupportedInterfaces() {
		addr, err := interfaceAddress(in)
		if err != nil { // it is passed over
			continue
		}
		in = proto.CloneOf(in)
		in.Url = addr
		in.ProtocolBinding, in.ProtocolVersion = spoken(in)
		all = append(all, in)
	}
	return all, nil
}

// interfaceAddress returns where a usable interface is: what grpcAddress makes of one of
// gRPC, the URL of others.
func interfaceAddress(in *a2apb.AgentInterface) (string, error) {
	const op = "registry.interfaceAddress"
	if !usable(in) {
		return "", mesh.Errorf(mesh.Invalid, op, "is of a protocol or version that the mesh does not speak")
	}
	if binding, _ := spoken(in); binding != BindingGRPC {
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

// callable returns the card with the interfaces that the mesh can use written as it writes
// them, and with the address as one if there are none.
func callable(card *a2apb.AgentCard, addr string) *a2apb.AgentCard {
	card = proto.CloneOf(card)
	none := true
	for _, in := range card.GetSupportedInterfaces() {
		if usable(in) {
			in.ProtocolBinding, in.ProtocolVersion = spoken(in)
			none = false
		}
	}
	if none {
		card.SupportedInterfaces = append([]*a2apb.AgentInterface{
			{Url: addr, ProtocolBinding: BindingGRPC, ProtocolVersion: "1.0"},
		}, card.SupportedInterfaces...)
	}
	return card
}
