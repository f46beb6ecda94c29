package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"agentmesh/mesh/rpc"
)

// errorBody renders {"error":{"code":404,"status":"NOT_FOUND",...}}
// (A2A v1.0.1 §11.6) on one line. The details' types are in "@type".
func errorBody(httpCode int, st *status.Status) []byte {
	var e struct {
		Error struct {
			Code    int               `json:"code"`
			Status  string            `json:"status"`
			Message string            `json:"message"`
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	e.Error.Code = httpCode
	e.Error.Status = code.Code(st.Code()).String()
	e.Error.Message = st.Message()
	e.Error.Details = Details(st)
	b, err := json.Marshal(e)
	if err != nil { // protojson made what encoding/json does not accept
		return []byte(`{"error":{"code":500,"status":"INTERNAL","message":"internal error","details":[]}}`)
	}
	return b
}

// fail answers with an error. The body is application/json whatever the client
// speaks: clients look for that before they read an error.
func (g *gateway) fail(w http.ResponseWriter, httpCode int, st *status.Status) {
	h := w.Header()
	h.Set("Content-Type", mimeJSON)
	h.Set("Cache-Control", "no-store")
	switch httpCode {
	case http.StatusUnauthorized:
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", "Bearer")
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := retryAfter(st); ok {
			h.Set("Retry-After", strconv.Itoa(after))
		}
	}
	w.WriteHeader(httpCode)
	if _, err := w.Write(append(errorBody(httpCode, st), '\n')); err != nil {
		g.opts.Logger.Debug("error not delivered", "code", httpCode, "err", err)
	}
}

// httpCode returns the HTTP status code of an error.
func (g *gateway) httpCode(st *status.Status) int {
	if code, ok := g.opts.Errors.HTTPStatus(st); ok {
		return code
	}
	return runtime.HTTPStatusFromCode(st.Code())
}

// retryAfter returns the status's RetryInfo in whole seconds, at least 1.
func retryAfter(st *status.Status) (int, bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			wait := info.GetRetryDelay().AsDuration()
			return max(1, int(math.Ceil(wait.Seconds()))), true
		}
	}
	return 0, false
}

// onError answers for the generated handlers.
func (g *gateway) onError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if probeOf(ctx) != nil {
		return
	}
	var coded *runtime.HTTPStatusError
	if errors.As(err, &coded) { // the router's own: a malformed escape in the path
		g.fail(w, coded.HTTPStatus, invalid("path", "%v; escape it as in %%20", coded.Err))
		return
	}
	st := status.Convert(err)
	if b, ok := r.Body.(*body); ok && b.fault != nil && st.Code() == codes.InvalidArgument {
		st = b.fault
	} else if st.Code() == codes.InvalidArgument && len(st.Proto().GetDetails()) == 0 { // grpc-gateway's own
		st = queryFault(st.Message())
	}
	g.fail(w, g.httpCode(st), st)
}

// onRoutingError answers when no route fits.
func (g *gateway) onRoutingError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpCode int) {
	if probeOf(ctx) != nil {
		return
	}
	path := clip(r.URL.Path)
	switch httpCode {
	case http.StatusMethodNotAllowed:
		allow := g.allowed(w, r)
		w.Header().Set("Allow", allow)
		g.fail(w, httpCode, status.New(codes.Unimplemented,
			fmt.Sprintf("%s is not possible on %s; use %s", clip(r.Method), path, allow)))
	case http.StatusNotFound:
		g.fail(w, httpCode, status.New(codes.NotFound,
			fmt.Sprintf("there is nothing at %s; /openapi.json lists all paths", path)))
	default:
		g.fail(w, httpCode, invalid("path", "%q is not a path; begin it with /", path))
	}
}

// failMesh answers with an error of the node's own.
func (g *gateway) failMesh(w http.ResponseWriter, err error) {
	st := status.Convert(rpc.ToStatus(err))
	if st.Code() == codes.Internal {
		g.opts.Logger.Error("request failed", "err", err)
	}
	g.fail(w, g.httpCode(st), st)
}

// invalid returns INVALID_ARGUMENT that names the field and what is wrong.
func invalid(field, format string, args ...any) *status.Status {
	field = strings.ToValidUTF8(field, "\uFFFD") // details hold nothing else
	what := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	return withDetails(status.New(codes.InvalidArgument, field+": "+what),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: what}}})
}

// withDetails returns st with the details, or as it is if they cannot be added.
func withDetails(st *status.Status, details ...protoadapt.MessageV1) *status.Status {
	if full, err := st.WithDetails(details...); err == nil {
		return full
	}
	return st
}

// closing is the error of streams that end because the gateway does.
func closing() *status.Status {
	return withDetails(status.New(codes.Unavailable, "the server is shutting down; connect again and go on after the last event's id"),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
}
