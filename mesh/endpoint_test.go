package mesh_test

import (
	"testing"

	"agentmesh/mesh"
)

// finding N12: gRPC's own spelling of an address is one, unless it names who is to look the
// name up.
func TestAnEndpointHasManySpellings(t *testing.T) {
	for address, want := range map[string]struct {
		at     string
		secure bool
	}{
		"h:1": {"h:1", false}, "dns:///h:1": {"h:1", false}, "DNS:///h:1/": {"h:1", false}, "dns:///[::1]:1": {"[::1]:1", false},
		"dns:///h": {"h:443", false}, "grpc://h:1": {"h:1", false}, "http://h:1/": {"h:1", false}, "http://h": {"h:80", false},
		"grpcs://h:1": {"h:1", true}, "HTTPS://h": {"h:443", true}, "https://[::1]": {"[::1]:443", true},
		"dns://10.0.0.7/h:1": {"dns://10.0.0.7/h:1", false}, "dns:////h:1": {"dns:////h:1", false}, "dns:///u@h:1": {"dns:///u@h:1", false},
		"dns://h:1": {"dns://h:1", false}, "unix:/run/x": {"unix:/run/x", false}, "https://h/x": {"https://h/x", false}, "ftp://h": {"ftp://h", false},
	} {
		if at, secure := mesh.Endpoint(address); at != want.at || secure != want.secure {
			t.Errorf("Endpoint(%q) = %q, %t; want %q, %t", address, at, secure, want.at, want.secure)
		}
	}
}
