package mesh

import (
	"net/url"
	"strings"
)

// SecureScheme begins the address of a gRPC server that is called over TLS, as
// "grpcs://mesh.example.com:7420".
const SecureScheme = "grpcs://"

// Endpoint takes the scheme off the address of a gRPC server, host:port or one that begins with grpc://,
// http://, dns:///, grpcs:// or https://, and reports whether it is called over TLS. What
// has another scheme, as "unix:", a name server of its own, as "dns://10.0.0.7/", or a path
// is left as it is.
func Endpoint(address string) (hostport string, secure bool) {
	scheme, rest, found := strings.Cut(address, "://")
	scheme, rest = strings.ToLower(scheme), strings.TrimSuffix(rest, "/")
	if scheme == "dns" { // gRPC's way to say what is done with every name
		rest, found = strings.CutPrefix(rest, "/")
	}
	if !found || strings.ContainsAny(rest, "/@?#") {
		return address, false
	}
	var port string
	switch scheme {
	case "grpcs", "https":
		secure, port = true, ":443"
	case "dns":
		port = ":443" // so gRPC has it
	case "grpc", "http":
		port = ":80"
	default:
		return address, false
	}
	if u := (&url.URL{Host: rest}); u.Hostname() != "" && u.Port() == "" && !strings.HasSuffix(rest, ":") {
		rest += port
	}
	return rest, secure
}

// PublicURL is what of a URL may be shown and kept in logs: its scheme, host and path, not
// its user, password and query, which may be secrets. It need not be well-formed.
func PublicURL(s string) string {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = "", s
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	if !found {
		return rest
	}
	return scheme + "://" + rest
}
