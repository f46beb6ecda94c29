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
	"agentmesh/mesh/gateway"
	"agentmesh/mesh/rpc"
)

// The codes of JSON-RPC 2.0 §5.1.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// reasonCodes says which code an error has by the reason in its ErrorInfo
// (A2A v1.0.1 §5.4).
var reasonCodes = map[string]int{
	"TASK_NOT_FOUND":                     -32001,
	"TASK_NOT_CANCELABLE":                -32002,
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    -32003,
	"UNSUPPORTED_OPERATION":              -32004,
	"CONTENT_TYPE_NOT_SUPPORTED":         -32005,
	"INVALID_AGENT_RESPONSE":             -32006,
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
	"EXTENSION_SUPPORT_REQUIRED":         -32008,
	"VERSION_NOT_SUPPORTED":              -32009,
}

// statusCodes says which code an error has that has no reason of A2A's. The
// two below -31000 are those that A2A's own clients know for who may not call;
// A2A leaves them to the server.
var statusCodes = [...]int{
	mesh.Unknown:         codeInternal,
	mesh.Invalid:         codeInvalidParams,
	mesh.NotFound:        -32001,
	mesh.Denied:          -31403,
	mesh.Unauthenticated: -31401,
	mesh.Precondition:    -32004,
	mesh.Conflict:        codeInternal,
	mesh.Exhausted:       codeInternal,
	mesh.Unavailable:     codeInternal,
	mesh.Canceled:        codeInternal,
	mesh.Timeout:         codeInternal,
	mesh.Unsupported:     codeUnknownMethod,
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
	if f.code == codeInvalidParams {
		f.code = codeInvalidRequest
	}
	return f
}

func parseFault(format string, args ...any) *fault {
	return &fault{codeParse, withReason(invalid("body", fmt.Sprintf(format, args...)), "PARSE_ERROR")}
}

func envelopeFault(field, format string, args ...any) *fault {
	return &fault{codeInvalidRequest, withReason(invalid(field, fmt.Sprintf(format, args...)), "INVALID_REQUEST")}
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
	return &fault{codeUnknownMethod, withReason(st, "METHOD_NOT_FOUND")}
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
	}{f.code, f.status.Message(), gateway.Details(f.status)}
	b, err := json.Marshal(e)
	if err != nil { // protojson made what encoding/json does not accept
		b = fmt.Appendf(nil, `{"code":%d,"message":"internal error","data":[]}`, codeInternal)
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
