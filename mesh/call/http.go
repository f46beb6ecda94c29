package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// maxAnswer bounds an answer that is not a stream, in bytes: a task may have
// gathered much more than one event can hold.
const maxAnswer = 16 << 20

// errUnconnected is in the chain of errors of calls that never reached the
// agent, so that they can be made elsewhere.
var errUnconnected = errors.New("no connection to the agent")

func unconnected(err error) error {
	return mesh.Errorf(mesh.Unavailable, "call", "the agent cannot be reached at the moment; try again: %w", errors.Join(errUnconnected, err))
}

// httpClient returns a client that follows no redirects: what is sent is for
// the agent on the card alone.
func httpClient(base http.RoundTripper, jsonRPC, plaintextGrants bool) *http.Client {
	return &http.Client{
		Transport:     tripper{base: base, jsonRPC: jsonRPC, plaintextGrants: plaintextGrants},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A tripper makes the answers of servers fit for the SDK: what is not A2A
// becomes a *mesh.Error, no answer is endless, and a JSON answer in place of a
// stream becomes a stream.
type tripper struct {
	base            http.RoundTripper
	jsonRPC         bool
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
	case err != nil && req.Context().Err() != nil:
		return nil, err
	case err != nil && !connected.Load():
		return nil, unconnected(err)
	case err != nil:
		return nil, mesh.Errorf(mesh.Unavailable, "call", "the connection to the agent broke: %w", err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	spoken := kind == "application/json" || strings.HasSuffix(kind, "+json") && !t.jsonRPC
	if resp.StatusCode != http.StatusOK && (t.jsonRPC || !spoken) {
		_ = resp.Body.Close()
		return nil, t.refused(resp.StatusCode)
	}
	if kind == "text/event-stream" {
		return resp, nil
	}
	if plainly(resp.StatusCode) && !inA2A(resp) {
		return nil, t.refused(resp.StatusCode)
	}
	resp.Header.Set("Content-Type", "application/json") // as which the SDK reads application/problem+json too
	resp.Body = &bounded{resp.Body, maxAnswer}
	if resp.StatusCode == http.StatusOK && req.Header.Get("Accept") == "text/event-stream" {
		return asStream(resp)
	}
	return resp, nil
}

// bounded is a body that fails when it is too long.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, mesh.Errorf(mesh.Exhausted, "call", "the agent's answer is longer than %d bytes", maxAnswer)
	}
	return n, err
}

// asStream makes a stream of one event of a JSON answer.
func asStream(resp *http.Response) (*http.Response, error) {
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if mesh.IsCode(err, mesh.Exhausted) {
		return nil, err
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "call", "the connection to the agent broke: %w", err)
	}
	line := bytes.NewBufferString("data: ")
	if err := json.Compact(line, data); err != nil {
		return nil, mesh.Errorf(mesh.Unknown, "call", "the agent's answer is not JSON: %w", err)
	}
	line.WriteString("\n\n")
	resp.Body = io.NopCloser(line)
	return resp, nil
}

// refused is what an HTTP status says that comes without words of A2A.
func (t tripper) refused(code int) error {
	c := mesh.Invalid
	switch code {
	case http.StatusNotFound:
		if !t.jsonRPC {
			c = mesh.NotFound
		}
	case http.StatusUnauthorized:
		c = mesh.Unauthenticated
	case http.StatusForbidden:
		c = mesh.Denied
	case http.StatusTooManyRequests:
		c = mesh.Exhausted
	case http.StatusInternalServerError:
		c = mesh.Unknown
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		c = mesh.Unavailable
	}
	refused := mesh.Errorf(c, "call", "the agent's server answered with HTTP status %d", code)
	if plainly(code) {
		refused.Err = errRefusedPlainly
	}
	return refused
}

// plainly reports whether a server says so that it does not take a request.
func plainly(code int) bool { return code == http.StatusBadRequest || code == http.StatusNotFound }

// inA2A reports whether a refusal in JSON is one of A2A, by the domain of its ErrorInfo:
// the SDK makes nothing of others.
func inA2A(resp *http.Response) bool {
	const most = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // what cannot be read is not
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte(rpc.ErrorDomain))
}
