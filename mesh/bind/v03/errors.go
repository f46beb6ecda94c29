package v03

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh/bind/jsonrpc"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// reasonCodes says which code an error of A2A has. The last two are not in
// v0.3: what they refuse is an operation that is not supported.
var reasonCodes = map[string]int{
	"TASK_NOT_FOUND":                     jsonrpc.CodeTaskNotFound,
	"TASK_NOT_CANCELABLE":                jsonrpc.CodeTaskNotCancelable,
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    jsonrpc.CodePushNotSupported,
	"UNSUPPORTED_OPERATION":              jsonrpc.CodeUnsupportedOperation,
	"CONTENT_TYPE_NOT_SUPPORTED":         jsonrpc.CodeContentType,
	"INVALID_AGENT_RESPONSE":             jsonrpc.CodeInvalidAgentResponse,
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": jsonrpc.CodeNoExtendedCard,
	"EXTENSION_SUPPORT_REQUIRED":         jsonrpc.CodeUnsupportedOperation,
	"VERSION_NOT_SUPPORTED":              jsonrpc.CodeUnsupportedOperation,
}

// errorTypes says which name an error has in the official SDK for Python, whose
// clients of v0.3 over REST tell errors apart by it.
var errorTypes = map[int]string{
	jsonrpc.CodeParse:                "JSONParseError",
	jsonrpc.CodeInvalidRequest:       "InvalidRequestError",
	jsonrpc.CodeUnknownMethod:        "MethodNotFoundError",
	jsonrpc.CodeInvalidParams:        "InvalidParamsError",
	jsonrpc.CodeInternal:             "InternalError",
	jsonrpc.CodeTaskNotFound:         "TaskNotFoundError",
	jsonrpc.CodeTaskNotCancelable:    "TaskNotCancelableError",
	jsonrpc.CodePushNotSupported:     "PushNotificationNotSupportedError",
	jsonrpc.CodeUnsupportedOperation: "UnsupportedOperationError",
	jsonrpc.CodeContentType:          "ContentTypeNotSupportedError",
	jsonrpc.CodeInvalidAgentResponse: "InvalidAgentResponseError",
}

// statusCodes says which code an error has that has no reason of A2A's; the
// others are internal.
var statusCodes = map[codes.Code]int{
	codes.InvalidArgument:    jsonrpc.CodeInvalidParams,
	codes.NotFound:           jsonrpc.CodeTaskNotFound,
	codes.FailedPrecondition: jsonrpc.CodeUnsupportedOperation,
	codes.Unimplemented:      jsonrpc.CodeUnknownMethod,
	codes.Unauthenticated:    jsonrpc.CodeUnauthenticated,
	codes.PermissionDenied:   jsonrpc.CodeDenied,
}

// httpCodes says which HTTP code an error has in REST; the others are 500.
var httpCodes = map[codes.Code]int{
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.NotFound:           http.StatusNotFound,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.Aborted:            http.StatusConflict,
	codes.AlreadyExists:      http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Canceled:           499,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
}

func httpCodeOf(st *status.Status) int {
	if c, ok := httpCodes[st.Code()]; ok {
		return c
	}
	return http.StatusInternalServerError
}

// A fault is why a request failed, in the form that v0.3 gives to errors: data
// is an object.
type fault struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    faultData `json:"data"`

	status *status.Status
}

// faultData says more for programs.
type faultData struct {
	Status string `json:"status"` // of gRPC, as "NOT_FOUND"
	Reason string `json:"reason,omitempty"`
	// Fields says what is wrong with which part of the request.
	Fields map[string]string `json:"fields,omitempty"`
	// RetryAfter is how many seconds to wait before trying again.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// faultOf returns the fault that the status is.
func faultOf(st *status.Status) *fault {
	f := &fault{Code: jsonrpc.CodeInternal, Message: st.Message(), Data: faultData{Status: code.Code(st.Code()).String()}, status: st}
	if c, ok := statusCodes[st.Code()]; ok {
		f.Code = c
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != rpc.ErrorDomain {
				continue
			}
			f.Data.Reason = d.GetReason()
			if c, ok := reasonCodes[d.GetReason()]; ok {
				f.Code = c
			}
		case *errdetails.BadRequest:
			f.Data.Fields = make(map[string]string, len(d.GetFieldViolations()))
			for _, v := range d.GetFieldViolations() {
				f.Data.Fields[v.GetField()] = v.GetDescription()
			}
		case *errdetails.RetryInfo:
			f.Data.RetryAfter = max(1, int(math.Ceil(d.GetRetryDelay().AsDuration().Seconds())))
		}
	}
	return f
}

// as gives the fault another code.
func (f *fault) as(code int) *fault {
	f.Code = code
	return f
}

// unread is the fault of a body that was not read.
func unread(st *status.Status) *fault {
	f := faultOf(st)
	if f.Code == jsonrpc.CodeInvalidParams {
		f.Code = jsonrpc.CodeInvalidRequest
	}
	return f
}

// invalid returns INVALID_ARGUMENT that names the field and what is wrong.
func invalid(field, format string, args ...any) *status.Status {
	what := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD") // details hold nothing else
	field = strings.ToValidUTF8(field, "\uFFFD")
	st := status.New(codes.InvalidArgument, field+": "+what)
	full, err := st.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: what}}})
	if err != nil {
		return st
	}
	return full
}

// json returns the fault on one line.
func (f *fault) json() []byte {
	b, err := json.Marshal(f)
	if err != nil { // strings and numbers only
		return fmt.Appendf(nil, `{"code":%d,"message":"internal error","data":{}}`, jsonrpc.CodeInternal)
	}
	return b
}

// restJSON returns the fault as the body of an HTTP error. v0.3 does not say
// what that is: its clients look for "message", for "type", or for the object
// that v1.0 has too, so all are there.
func (f *fault) restJSON(httpCode int) []byte {
	var body struct {
		*fault
		Type  string `json:"type,omitempty"`
		Error struct {
			Code    int               `json:"code"`
			Status  string            `json:"status"`
			Message string            `json:"message"`
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	body.fault, body.Type = f, errorTypes[f.Code]
	body.Error.Code, body.Error.Status, body.Error.Message = httpCode, f.Data.Status, f.Message
	body.Error.Details = rest.Details(f.status)
	b, err := json.Marshal(body)
	if err != nil { // protojson made what encoding/json does not accept
		return f.json()
	}
	return b
}

// head sets the headers of an HTTP error.
func (f *fault) head(h http.Header, httpCode int) {
	h.Set("Content-Type", mimeJSON)
	h.Set("Cache-Control", "no-store")
	if httpCode == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if f.Data.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.Data.RetryAfter))
	}
}

const (
	mimeJSON   = "application/json"
	mimeEvents = "text/event-stream"
)

// wantsEvents reports whether the client names the type of event streams among
// those that it accepts.
func wantsEvents(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), mimeEvents) {
				return true
			}
		}
	}
	return false
}
