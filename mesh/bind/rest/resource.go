package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Resource is what clients are told that look for how to log in (RFC 9728).
type Resource struct {
	// URL is where clients reach the gateway, without a slash at its end.
	URL string
	// Issuers are the authorization servers whose tokens are taken; none where tokens
	// come another way.
	Issuers []string
}

// resourcePath is where the metadata of a resource is, followed by the resource's path.
const resourcePath = "/.well-known/oauth-protected-resource"

// serveResource serves the metadata of the resource that the path names.
func (g *gateway) serveResource(w http.ResponseWriter, r *http.Request) {
	of := strings.TrimPrefix(r.URL.Path, resourcePath)
	if g.opts.Resource == nil {
		g.fail(w, http.StatusNotFound, status.New(codes.NotFound, "nobody has to log in here; see auth in mesh.yaml"))
		return
	}
	w.Header().Set("Content-Type", mimeJSON)
	w.Header().Set("Cache-Control", "max-age=60")
	if err := json.NewEncoder(w).Encode(struct {
		Resource string   `json:"resource"`
		Name     string   `json:"resource_name"`
		Servers  []string `json:"authorization_servers,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
	}{g.opts.Resource.URL + of, "agentmesh", g.opts.Resource.Issuers, []string{"header"}}); err != nil {
		g.opts.Logger.Debug("metadata not delivered", "err", err)
	}
}

// challenge says at which address it is said how to log in, in an answer about
// credentials that are missing.
func (g *gateway) challenge(h http.Header, of string) {
	if g.opts.Resource != nil {
		h.Set("WWW-Authenticate", `Bearer resource_metadata="`+g.opts.Resource.URL+resourcePath+of+`"`)
	}
}
