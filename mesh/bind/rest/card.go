package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"agentmesh/mesh"
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

// serveHealth answers 200 {"status":"ok"}, with what is wrong otherwise, or 503 with what
// the check, if it is not nil, says.
func (g *gateway) serveHealth(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := struct {
			Status   string   `json:"status"`
			Reason   string   `json:"reason,omitempty"`
			Warnings []string `json:"warnings,omitempty"`
		}{Status: "ok"}
		if g.opts.Warnings != nil {
			answer.Warnings = g.opts.Warnings()
		}
		code := http.StatusOK
		if check != nil {
			if err := check(r.Context()); err != nil {
				code, answer.Status, answer.Reason = http.StatusServiceUnavailable, "unavailable", mesh.DetailOf(err)
				if answer.Reason == "" {
					answer.Reason = "the node cannot serve; its log says why"
				}
				g.opts.Logger.Warn("not healthy", "path", r.URL.Path, "err", err)
			}
		}
		w.Header().Set("Content-Type", mimeJSON)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			g.opts.Logger.Debug("health not delivered", "err", err)
		}
	}
}
