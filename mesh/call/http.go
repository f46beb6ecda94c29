package call

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// maxAnswer bounds an answer that is not a stream, in bytes: a task may have
// gathered much more than one event can hold. It is not changed but by tests, to which
// so much is expensive.
var maxAnswer = 16 << 20

// errUnconnected is in the chain of errors of calls that never reached the
// agent, so that they can be made elsewhere.
var errUnconnected = errors.New("no connection to the agent")

func unconnected(err error) error {
	return mesh.Errorf(mesh.Unavailable, "call", "the agent cannot be reached at the moment; try again: %w", errors.Join(errUnconnected, err))
}

// httpClient returns a client that follows no redirects: what is sent is for
// the agent on the card alone.
func httpClient(base http.RoundTripper, plaintextGrants bool) *http.Client {
	return &http.Client{
		Transport:     tripper{base: base, plaintextGrants: plaintextGrants},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A tripper sends nothing in clear that is secret, and tells calls that did not arrive
// from those that may have.
type tripper struct {
	base            http.RoundTripper
	plaintextGrants bool // also to other machines
}

func (t tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == "http" && req.Header.Get(rpc.KeyGrant)+req.Header.Get(rpc.KeyTicket) != "" && !t.plaintextGrants {
		if err := rpc.MayShowGrant(req.URL.Host); err != nil {
			return nil, err
		}
	}
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := t.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	switch {
	case err == nil || req.Context().Err() != nil:
		return resp, err
	case !connected.Load():
		return nil, unconnected(err)
	case errors.Is(err, io.EOF): // which would be the end of a stream
		err = io.ErrUnexpectedEOF
	}
	return nil, mesh.Errorf(mesh.Unavailable, "call", "the connection to the agent broke: %w", err)
}
