package rest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

const (
	agentsPath = "/agents/"
	cardPath   = "/.well-known/agent-card.json"
)

// serveCard serves the agent card of the mesh (A2A v1.0 §8.2) as the tenant
// sees it that the request names.
func (g *gateway) serveCard(w http.ResponseWriter, r *http.Request) {
	if g.opts.Card == nil {
		g.failMesh(w, mesh.Errorf(mesh.NotFound, "rest.serveCard", "this server has no agent card"))
		return
	}
	g.writeCard(w, r, "")
}

// serveAgent serves what is below "/agents/{agent}/": the agent's card, and A2A
// as at "/" with calls that address the agent.
func (g *gateway) serveAgent(w http.ResponseWriter, r *http.Request) {
	agent, path, _ := strings.Cut(r.URL.Path[len(agentsPath):], "/")
	path = "/" + path
	rawPath, plain := r.URL.RawPath, true
	if rawPath != "" { // something of it is escaped, and the agent's name has nothing to escape
		rawPath, plain = strings.CutPrefix(rawPath, agentsPath+agent)
	}
	if !plain || !mesh.ValidAgentName(agent) || strings.HasPrefix(path, "/mesh/") {
		g.fail(w, http.StatusNotFound, status.New(codes.NotFound,
			fmt.Sprintf("there is nothing at %s; agents are at /agents/{agent}/, by their names in lower-case letters", clip(r.URL.Path))))
		return
	}
	if path == cardPath {
		g.readOnly(w, r, func(w http.ResponseWriter, r *http.Request) {
			g.writeCard(w, r, agent)
		})
		return
	}
	if said := r.Header.Get(rpc.KeyAgent); said != "" && said != agent {
		g.fail(w, http.StatusBadRequest, invalid(rpc.KeyAgent, "is not the agent in the path; leave the header out"))
		return
	}
	inner := r.WithContext(r.Context()) // a copy
	address := *r.URL
	address.Path, address.RawPath = path, rawPath
	inner.URL, inner.Header = &address, r.Header.Clone()
	inner.Header.Set(rpc.KeyAgent, agent)
	g.serveA2A(w, inner)
}

// writeCard serves a card with what HTTP caches ask for.
func (g *gateway) writeCard(w http.ResponseWriter, r *http.Request, agent string) {
	tenant := mesh.DefaultTenant
	if t := r.Header.Get(rpc.KeyTenant); t != "" {
		tenant = mesh.TenantID(t)
	}
	if err := tenant.Validate(); err != nil {
		g.failMesh(w, err)
		return
	}
	v1 := wantsV1(r)
	body, err := g.opts.Card(r.Context(), tenant, agent, v1)
	if err != nil {
		g.failMesh(w, mesh.Wrap("rest.writeCard", err))
		return
	}
	w.Header().Add("Vary", "Tenant-Id, Accept, A2A-Version")
	g.cards.put(shelfKey{tenant, agent, v1}, newDocument(body)).serve(w, r, mediaType(r), "max-age=60")
}

// wantsV1 reports whether the client names version 1.x of A2A, in the header or
// the parameter A2A-Version (A2A v1.0 §3.6).
func wantsV1(r *http.Request) bool {
	v := r.Header.Get("A2A-Version")
	if v == "" {
		v = r.URL.Query().Get("A2A-Version")
	}
	return v == "1" || strings.HasPrefix(v, "1.")
}

// serveKeys serves the keys by which cards are verified (RFC 7517).
func (g *gateway) serveKeys(w http.ResponseWriter, r *http.Request) {
	if len(g.opts.Keys) == 0 {
		g.failMesh(w, mesh.Errorf(mesh.NotFound, "rest.serveKeys", "this server signs no cards"))
		return
	}
	g.keys.serve(w, r, "application/jwk-set+json", "max-age=300")
}

// shelfSize bounds the cards whose age is known.
const shelfSize = 1024

// shelfKey names a card and its form.
type shelfKey struct {
	tenant mesh.TenantID
	agent  string // "" for the mesh
	v1     bool
}

// cardShelf remembers since when each card has been what it is, of those that were
// asked for last. Use newCardShelf; it is safe for concurrent use.
type cardShelf struct {
	mu    sync.Mutex
	known *simplelru.LRU[shelfKey, document]
}

func newCardShelf() cardShelf {
	known, err := simplelru.NewLRU[shelfKey, document](shelfSize, nil)
	if err != nil {
		panic(err) // shelfSize is positive
	}
	return cardShelf{known: known}
}

// put returns the document under the key: the one that is known if d has the
// same content, else d.
func (s *cardShelf) put(key shelfKey, d document) document {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.known.Get(key); ok && old.etag == d.etag {
		return old
	}
	s.known.Add(key, d)
	return d
}
