package jsonrpc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// Codes of errors: those of JSON-RPC 2.0 §5.1, those of A2A (v1.0.1 §5.4, and
// v0.3 §8.2 up to CodeNoExtendedCard), and two that A2A leaves to servers, under
// which its own clients know who may not call.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeUnknownMethod  = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	CodeTaskNotFound         = -32001
	CodeTaskNotCancelable    = -32002
	CodePushNotSupported     = -32003
	CodeUnsupportedOperation = -32004
	CodeContentType          = -32005
	CodeInvalidAgentResponse = -32006
	CodeNoExtendedCard       = -32007
	CodeExtensionRequired    = -32008
	CodeVersionNotSupported  = -32009

	CodeUnauthenticated = -31401
	CodeDenied          = -31403
)

// reasonCodes says which code an error has by the reason in its ErrorInfo
// (A2A v1.0.1 §5.4).
var reasonCodes = map[string]int{
	"TASK_NOT_FOUND":                     CodeTaskNotFound,
	"TASK_NOT_CANCELABLE":                CodeTaskNotCancelable,
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    CodePushNotSupported,
	"UNSUPPORTED_OPERATION":              CodeUnsupportedOperation,
	"CONTENT_TYPE_NOT_SUPPORTED":         CodeContentType,
	"INVALID_AGENT_RESPONSE":             CodeInvalidAgentResponse,
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": CodeNoExtendedCard,
	"EXTENSION_SUPPORT_REQUIRED":         CodeExtensionRequired,
	"VERSION_NOT_SUPPORTED":              CodeVersionNotSupported,
}

// statusCodes says which code an error has that has no reason of A2A's. What is not found
// and is no task is something that the params name: a tenant, an agent, a conversation.
var statusCodes = [...]int{
	mesh.Unknown:         CodeInternal,
	mesh.Invalid:         CodeInvalidParams,
	mesh.NotFound:        CodeInvalidParams,
	mesh.Denied:          CodeDenied,
	mesh.Unauthenticated: CodeUnauthenticated,
	mesh.Precondition:    CodeUnsupportedOperation,
	mesh.Conflict:        CodeInternal,
	mesh.Exhausted:       CodeInternal,
	mesh.Unavailable:     CodeInternal,
	mesh.Canceled:        CodeInternal,
	mesh.Timeout:         CodeInternal,
	mesh.Unsupported:     CodeUnknownMethod,
	mesh.DataLoss:        CodeInternal,
}

// maxShown bounds what of a client's text an error repeats, in bytes.
const maxShown = 120

// fault is why a request failed: a status, which always has an ErrorInfo, and
// its code in JSON-RPC.
type fault struct {
	code   int
	status *status.Status
}

// faultOf returns the fault that the status is.
func faultOf(st *status.Status) *fault {
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok {
			continue
		}
		if code, ok := reasonCodes[info.GetReason()]; ok && info.GetDomain() == rpc.ErrorDomain {
			return &fault{code, st}
		}
		return &fault{statusCodes[rpc.MeshCode(st.Code())], st}
	}
	return &fault{statusCodes[rpc.MeshCode(st.Code())], withReason(st, code.Code(st.Code()).String())}
}

// unread is the fault of a body that was not read.
func unread(st *status.Status) *fault {
	f := faultOf(st)
	if f.code == CodeInvalidParams {
		f.code = CodeInvalidRequest
	}
	return f
}

func parseFault(format string, args ...any) *fault {
	return &fault{CodeParse, withReason(invalid("body", fmt.Sprintf(format, args...)), "PARSE_ERROR")}
}

func envelopeFault(field, format string, args ...any) *fault {
	return &fault{CodeInvalidRequest, withReason(invalid(field, fmt.Sprintf(format, args...)), "INVALID_REQUEST")}
}

func invalidParams(format string, args ...any) *status.Status {
	return invalid("params", fmt.Sprintf(format, args...))
}

func unknownMethod(name string) *fault {
	remedy := "A2A v1.0 has methods such as SendMessage and GetTask"
	if strings.Contains(name, "/") {
		remedy = "methods of A2A v0.3 are not served here; use those of v1.0, such as SendMessage"
	}
	st := invalid("method", fmt.Sprintf("%q is not known; %s", mesh.Clip(name, maxShown), remedy))
	return &fault{CodeUnknownMethod, withReason(st, "METHOD_NOT_FOUND")}
}

// invalid returns INVALID_ARGUMENT that names the field and what is wrong.
func invalid(field, what string) *status.Status {
	what = strings.ToValidUTF8(what, "\uFFFD") // details hold nothing else
	return withDetail(status.New(codes.InvalidArgument, field+": "+what),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: what}}})
}

func withReason(st *status.Status, reason string) *status.Status {
	return withDetail(st, &errdetails.ErrorInfo{Reason: reason, Domain: rpc.ErrorDomain})
}

// withDetail returns st with the detail, or as it is if that cannot be added.
func withDetail(st *status.Status, detail protoadapt.MessageV1) *status.Status {
	if full, err := st.WithDetails(detail); err == nil {
		return full
	}
	return st
}

// failed returns the response with the fault, on one line.
func (i id) failed(f *fault) []byte {
	e := struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Data    []json.RawMessage `json:"data"`
	}{f.code, f.status.Message(), rest.Details(f.status)}
	b, err := json.Marshal(e)
	if err != nil { // protojson made what encoding/json does not accept
		b = fmt.Appendf(nil, `{"code":%d,"message":"internal error","data":[]}`, CodeInternal)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"%s","id":%s,"error":%s}`, version, i, b)
}

// httpCode is 200 but for who may not call: browsers and proxies look for those.
func httpCode(st *status.Status) int {
	switch st.Code() {
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	}
	return http.StatusOK
}
