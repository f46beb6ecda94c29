package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A document is JSON with what HTTP caches ask for.
type document struct {
	body     []byte
	etag     string // hash of body, in quotes
	modified time.Time
}

func newDocument(body []byte) document {
	sum := sha256.Sum256(body)
	return document{
		body:     body,
		etag:     `"` + hex.EncodeToString(sum[:16]) + `"`,
		modified: time.Now(),
	}
}

// serve answers GET and HEAD, with 304 for a client that has the document.
func (d document) serve(w http.ResponseWriter, r *http.Request, contentType, cacheControl string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cacheControl)
	h.Set("ETag", d.etag)
	http.ServeContent(w, r, "", d.modified, bytes.NewReader(d.body))
}

// serveOpenAPI serves the description of the REST interface.
func (g *gateway) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	g.docs.serve(w, r, mimeJSON, "max-age=60")
}

// serveHealth answers 200 {"status":"ok"}, or 503 with the reason.
func (g *gateway) serveHealth(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{Status: "ok"}
	code := http.StatusOK
	if g.opts.Health != nil {
		if err := g.opts.Health(r.Context()); err != nil {
			code, answer.Status, answer.Reason = http.StatusServiceUnavailable, "unavailable", mesh.DetailOf(err)
			if answer.Reason == "" {
				answer.Reason = "the node cannot serve; its log says why"
			}
			g.opts.Logger.Warn("not healthy", "err", err)
		}
	}
	w.Header().Set("Content-Type", mimeJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		g.opts.Logger.Debug("health not delivered", "err", err)
	}
}

// serveCard serves the agent card (A2A v1.0 §8.2) of the tenant that the
// request names.
func (g *gateway) serveCard(w http.ResponseWriter, r *http.Request) {
	tenant := mesh.DefaultTenant
	if t := r.Header.Get(rpc.KeyTenant); t != "" {
		tenant = mesh.TenantID(t)
	}
	if err := tenant.Validate(); err != nil {
		g.failMesh(w, err)
		return
	}
	if g.opts.Card == nil {
		g.failMesh(w, mesh.Errorf(mesh.NotFound, "gateway.serveCard", "this server has no agent card"))
		return
	}
	card, err := g.opts.Card(r.Context(), tenant)
	if err != nil {
		g.failMesh(w, mesh.Wrap("gateway.serveCard", err))
		return
	}
	raw, err := protojson.Marshal(card)
	if err != nil {
		g.failMesh(w, mesh.Errorf(mesh.Unknown, "gateway.serveCard", "the agent card cannot be shown: %w", err))
		return
	}
	var body bytes.Buffer // without the blanks that protojson puts in at random
	if err := json.Compact(&body, raw); err != nil {
		g.failMesh(w, mesh.Errorf(mesh.Unknown, "gateway.serveCard", "the agent card cannot be shown: %w", err))
		return
	}
	w.Header().Add("Vary", "Tenant-Id, Accept")
	g.cards.put(tenant, newDocument(body.Bytes())).serve(w, r, mediaType(r), "max-age=60")
}

// shelfSize bounds the tenants whose card's age is known.
const shelfSize = 1024

// cardShelf remembers since when each tenant's card has been what it is. The
// zero value is ready; it is safe for concurrent use.
type cardShelf struct {
	mu    sync.Mutex
	known map[mesh.TenantID]document
}

// put returns the tenant's document: the one that is known if d has the same
// content, else d.
func (s *cardShelf) put(tenant mesh.TenantID, d document) document {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.known[tenant]; ok && old.etag == d.etag {
		return old
	}
	if s.known == nil || len(s.known) >= shelfSize {
		s.known = make(map[mesh.TenantID]document)
	}
	s.known[tenant] = d
	return d
}
