package call

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/text"
)

// Reasons for which an agent does not do what it is asked, of [mesh.TaskMoved]: each
// has its own cause, and its own remedy.
const (
	ReasonRefused      = "AGENT_REFUSED"           // it does not take the message
	ReasonUnsupported  = "UNSUPPORTED_OPERATION"   // it does not know the method
	ReasonVersion      = "VERSION_NOT_SUPPORTED"   // it speaks another version of A2A
	ReasonCredentials  = "AGENT_NEEDS_CREDENTIALS" // it does not know who asks
	ReasonDenied       = "AGENT_DENIED"            // it knows, and does not want to
	ReasonNotFound     = "AGENT_NOT_FOUND"         // nobody serves A2A at its address
	ReasonTaskNotFound = "TASK_NOT_FOUND"          // it does not know the task or the context
	ReasonBusy         = "AGENT_BUSY"              // it has too much to do
	ReasonError        = "AGENT_ERROR"             // something broke there
)

// reasonParams is that of an error of JSON-RPC: something in the request is not right.
const reasonParams = "INVALID_PARAMS"

// maxWords is how much of what an agent says with a refusal is shown, in bytes.
const maxWords = 500

// faults are the errors of A2A by their codes in JSON-RPC and their reasons elsewhere.
var faults = []struct {
	rpc    int
	reason string
	code   mesh.Code
}{
	{-32001, ReasonTaskNotFound, mesh.NotFound},
	{-32002, "TASK_NOT_CANCELABLE", mesh.Precondition},
	{-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", mesh.Unsupported},
	{-32004, ReasonUnsupported, mesh.Unsupported},
	{-32005, "CONTENT_TYPE_NOT_SUPPORTED", mesh.Invalid},
	{-32006, mesh.ReasonIllegal, mesh.Unknown},
	{-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", mesh.Unsupported},
	{-32008, "EXTENSION_SUPPORT_REQUIRED", mesh.Invalid},
	{-32009, ReasonVersion, mesh.Unsupported},
	{-32601, "METHOD_NOT_FOUND", mesh.Unsupported},
	{-32600, "INVALID_REQUEST", mesh.Invalid},
	{-32602, reasonParams, mesh.Invalid},
	{-32700, "PARSE_ERROR", mesh.Invalid},
	{-32603, "INTERNAL_ERROR", mesh.Unknown},
	{-31401, "UNAUTHENTICATED", mesh.Unauthenticated},
	{-31403, "PERMISSION_DENIED", mesh.Denied},
}

// refusal is the error of an answer whose HTTP status says no, in whatever form: an
// error of JSON-RPC, google.rpc.Status, RFC 9457, what frameworks write, or text.
func refusal(body []byte, httpStatus int, contentType string, jsonRPC bool) error {
	var tree any
	if json.Unmarshal(body, &tree) == nil {
		if obj, ok := tree.(map[string]any); ok {
			return fault(obj, body, httpStatus, jsonRPC)
		}
	}
	e := &mesh.Error{Op: "call", Err: errors.New(clipTo(body, maxWords))}
	e.Code, e.Reason = ofHTTP(httpStatus, jsonRPC)
	if e.Detail = mesh.Clip(text.HTTPStatus(httpStatus), maxWords); kindOf(contentType) == "text/plain" {
		if said := line(string(body)); said != "" {
			e.Detail = said
		}
	}
	return e
}

// fault is the error that an object says, which was read of the bytes.
func fault(obj map[string]any, raw []byte, httpStatus int, jsonRPC bool) error {
	e := &mesh.Error{Op: "call", Err: errors.New(clipTo(raw, maxWords))}
	if inner, ok := obj["error"].(map[string]any); ok {
		obj = inner
	}
	e.Detail = said(obj)
	e.Code, e.Reason = ofHTTP(httpStatus, jsonRPC)
	number, hasCode := obj["code"].(float64)
	reason := reasonOf(obj)
	for _, f := range faults {
		if hasCode && int(number) == f.rpc || reason != "" && letters(reason) == letters(f.reason) {
			e.Code, e.Reason = f.code, f.reason
			return e
		}
	}
	switch name, _ := obj["status"].(string); {
	case codeNamed(name) != mesh.Unknown:
		e.Code, e.Reason = codeNamed(name), ""
	case httpStatus == 0 && hasCode && number >= 400 && number < 600:
		e.Code, e.Reason = ofHTTP(int(number), jsonRPC)
	}
	if e.Detail == "" && httpStatus != 0 {
		e.Detail = text.HTTPStatus(httpStatus)
	}
	return e
}

// codeNamed is the code of a gRPC status by its name.
func codeNamed(name string) mesh.Code {
	for c := mesh.Unknown; c <= mesh.DataLoss; c++ {
		if name != "" && letters(rpc.GRPCCode(c).String()) == letters(name) {
			return c
		}
	}
	return mesh.Unknown
}

// said are an error's words for people.
func said(obj map[string]any) string {
	for _, key := range []string{"message", "detail", "title", "error", "error_description", "msg"} {
		switch v := obj[key].(type) {
		case string:
			if s := line(v); s != "" {
				return s
			}
		case []any: // what is wrong with the request, one after the other
			if len(v) > 0 {
				if one, ok := v[0].(map[string]any); ok {
					return said(one)
				}
			}
		}
	}
	return ""
}

// line is what an agent said as one line of bounded length.
func line(s string) string { return mesh.Clip(strings.Join(strings.Fields(s), " "), maxWords) }

// reasonOf is the machine-readable reason of an error: in its details (AIP-193), in
// the data of JSON-RPC, or in the type of v0.3 and of RFC 9457.
func reasonOf(obj map[string]any) string {
	for _, key := range []string{"details", "data"} {
		list, ok := obj[key].([]any)
		if !ok {
			list = []any{obj[key]}
		}
		for _, d := range list {
			if info, ok := d.(map[string]any); ok {
				if reason, ok := info["reason"].(string); ok {
					return reason
				}
			}
		}
	}
	kind, _ := obj["type"].(string)
	if u, err := url.Parse(kind); err == nil {
		kind = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	return strings.TrimSuffix(strings.TrimSuffix(kind, "Error"), "-error")
}

// ofHTTP is what an HTTP status says by itself.
func ofHTTP(status int, jsonRPC bool) (mesh.Code, string) {
	switch status {
	case 0, http.StatusInternalServerError:
		return mesh.Unknown, ""
	case http.StatusNotFound, http.StatusGone:
		if jsonRPC { // whose errors have 200
			return mesh.Invalid, ReasonNotFound
		}
		return mesh.NotFound, ReasonNotFound
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return mesh.Unauthenticated, ""
	case http.StatusForbidden:
		return mesh.Denied, ""
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return mesh.Unsupported, ""
	case http.StatusTooManyRequests:
		return mesh.Exhausted, ""
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return mesh.Unavailable, ""
	case http.StatusBadRequest, http.StatusUnprocessableEntity: // whatever is wrong with the request
		return mesh.Invalid, ""
	}
	if status > 500 {
		return mesh.Unknown, ""
	}
	return mesh.Invalid, ReasonRefused
}

// fromWeb returns an error of a call over HTTP as a *mesh.Error.
func fromWeb(err error) error {
	if e := (*mesh.Error)(nil); errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &mesh.Error{Code: mesh.CodeOf(err), Op: "call", Err: err}
	}
	return mesh.Errorf(mesh.Unavailable, "call", "the connection to the agent broke: %w", err)
}

// broken is how a call ended that failed: with the cause as its reason, and in a
// sentence.
func broken(err error) mesh.TaskMoved {
	err = rpc.FromStatus(err)
	detail, reason := mesh.DetailOf(err), ""
	if e := (*mesh.Error)(nil); errors.As(err, &e) {
		reason = e.Reason
	}
	code := mesh.CodeOf(err)
	if strings.HasPrefix(detail, "grpc: ") { // the library's own words
		detail = ""
	}
	if o := (*oversize)(nil); errors.As(err, &o) {
		return failed(mesh.ReasonIllegal, text.AgentSentTooMuch(o.bytes, o.limit))
	}
	if u := (*unreadable)(nil); errors.As(err, &u) {
		return failed(mesh.ReasonIllegal, text.AgentUnreadable(u.where(), u.want))
	}
	switch {
	case errors.Is(err, errForgotten):
		return failed(mesh.ReasonNoAnswer, text.AgentForgot())
	case reason == ReasonNotFound:
		return failed(ReasonNotFound, text.AgentNotThere())
	case reason == ReasonVersion:
		return failed(ReasonVersion, text.AgentOtherVersion(detail))
	case reason == ReasonUnsupported:
		return failed(ReasonUnsupported, text.AgentCannot(detail))
	case code == mesh.Precondition && mesh.FieldOf(err) == credentials.Field:
		return failed(ReasonCredentials, text.AgentNotCalled(detail))
	case code == mesh.Precondition && mesh.FieldOf(err) == rpc.KeyGrant:
		return failed(mesh.ReasonUnavailable, text.AgentNotCalled(detail))
	}
	switch code {
	case mesh.Unavailable:
		return failed(mesh.ReasonUnavailable, text.AgentUnreachable())
	case mesh.Timeout:
		return failed(mesh.ReasonTimeout, text.AgentTookTooLong())
	case mesh.NotFound:
		return failed(ReasonTaskNotFound, text.AgentDoesNotKnow(detail))
	case mesh.Unsupported:
		return failed(ReasonUnsupported, text.AgentCannot(detail))
	case mesh.Unauthenticated:
		return failed(ReasonCredentials, text.AgentWantsCredentials(detail))
	case mesh.Denied:
		return failed(ReasonDenied, text.AgentDenied(detail))
	case mesh.Exhausted:
		return failed(ReasonBusy, text.AgentBusy(detail))
	case mesh.Unknown, mesh.Canceled, mesh.DataLoss:
		return failed(ReasonError, text.AgentBroke(detail))
	}
	return failed(ReasonRefused, text.AgentRefused(detail))
}

// readable returns the error of a gRPC call whose answer could not be decoded as what it
// is: the library makes a status of it.
func readable(err error) error {
	if st, ok := status.FromError(err); ok && strings.HasPrefix(st.Message(), "grpc: failed to unmarshal") {
		return misreadError(&unreadable{offset: -1, want: "protobuf", cause: err})
	}
	return rpc.FromStatus(sized(err))
}
