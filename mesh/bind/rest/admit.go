package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// bodyTimeout is how long a request's body may take to arrive.
const bodyTimeout = 30 * time.Second

// body is a request's body, read whole. The generated handlers turn a decoding
// error into text; fault keeps what was known about it for the error body.
type body struct {
	*bytes.Reader
	raw   []byte
	fault *status.Status
}

// Close does nothing: the bytes are in memory.
func (*body) Close() error { return nil }

// admit is the router's middleware: it checks what all routes have in common
// and leaves of the request only what they need.
func (g *gateway) admit(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
		for _, v := range pathParams {
			if v == "" { // a path such as /tasks/, at which there is nothing
				g.onRoutingError(r.Context(), nil, nil, w, r, http.StatusNotFound)
				return
			}
		}
		if p := probeOf(r.Context()); p != nil {
			p.found = true
			return
		}
		md, bad := incoming(r, pathParams)
		if bad == nil {
			bad = g.queries.unknown(r)
		}
		if bad != nil {
			g.fail(w, http.StatusBadRequest, bad)
			return
		}
		inner := r.WithContext(context.WithValue(r.Context(), metadataKey{}, md))
		at := *r.URL
		at.RawQuery = withoutEmpty(at.RawQuery)
		inner.URL = &at
		b, code, bad := g.readBody(w, inner)
		if bad != nil {
			g.fail(w, code, bad)
			return
		}
		kind := mediaType(r)
		inner.Header = http.Header{"Content-Type": {kind}, "Accept": {kind}}
		inner.Body = b
		next(w, inner, pathParams)
	}
}

// readBody reads the body of an admitted request that may have one, if it is known who
// sends it. It returns the HTTP code and the error when that is not known, and when the
// body is too long, cut off, or not JSON.
func (g *gateway) readBody(w http.ResponseWriter, r *http.Request) (*body, int, *status.Status) {
	if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return &body{Reader: bytes.NewReader(nil)}, 0, nil
	}
	who, err := g.conn.Known(r.Context())
	if err != nil {
		st := status.Convert(err)
		if code := g.httpCode(st); code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		return nil, g.httpCode(st), st
	}
	// The deadline is the connection's, and is lifted again for a call that
	// takes longer: the server reads on to notice a client that leaves.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not all writers have deadlines
	arriving := g.conn.Unfinished().Body(who, r.RemoteAddr, http.MaxBytesReader(w, r.Body, g.opts.MaxBody))
	defer func() { _ = arriving.Close() }() // it cannot fail
	raw, err := gather(arriving)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	var tooLong *http.MaxBytesError
	switch {
	case mesh.IsCode(err, mesh.Exhausted):
		st := status.Convert(rpc.ToStatus(err))
		return nil, g.httpCode(st), st
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, status.New(codes.DeadlineExceeded,
			fmt.Sprintf("the request body did not arrive within %v; send it faster, or large files by URL", bodyTimeout))
	case errors.As(err, &tooLong):
		return nil, http.StatusRequestEntityTooLarge, invalid("body",
			"the request body is longer than %d bytes; send less, or large files by URL", tooLong.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, invalid("body", "the request body was cut off; send it again")
	case len(bytes.TrimSpace(raw)) > 0 && !isJSON(r):
		st := withDetails(status.New(codes.InvalidArgument, fmt.Sprintf(
			"Content-Type: is %q; send the body as application/json or application/a2a+json",
			clip(r.Header.Get("Content-Type")))),
			&errdetails.ErrorInfo{Reason: "CONTENT_TYPE_NOT_SUPPORTED", Domain: rpc.ErrorDomain})
		return nil, http.StatusUnsupportedMediaType, st
	}
	return &body{Reader: bytes.NewReader(raw), raw: raw}, 0, nil
}

// pieceSize is what gather reads at a time, in bytes, after a first, smaller one.
const pieceSize = 16 << 10

// gather reads all of r, as io.ReadAll does. What has come until then takes no more memory
// than it has bytes, and after an error it is not put together.
func gather(r io.Reader) ([]byte, error) {
	var all [][]byte
	for b := make([]byte, 0, pieceSize/16); ; {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return slices.Concat(append(all, b)...), nil
		case err != nil:
			return nil, err
		case len(b) == cap(b):
			all = append(all, b)
			b = make([]byte, 0, pieceSize)
		}
	}
}

type probeKey struct{}

// probe asks the router whether it has a route, without calling it.
type probe struct{ found bool }

func probeOf(ctx context.Context) *probe {
	p, _ := ctx.Value(probeKey{}).(*probe)
	return p
}

// allowed returns the methods that the path of r has, for the header Allow.
func (g *gateway) allowed(w http.ResponseWriter, r *http.Request) string {
	var methods []string
	for _, m := range [...]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		p := &probe{}
		asked := r.Clone(context.WithValue(r.Context(), probeKey{}, p))
		asked.Method = m
		g.mux.ServeHTTP(w, asked)
		if p.found {
			methods = append(methods, m)
		}
	}
	return strings.Join(methods, ", ")
}
