package rpc

import (
	"agentmesh/mesh"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An ErrorTable is a version of A2A's table of errors (A2A §5.4). Versions
// differ in the status of an error, never in its reason; clients that go by the
// reason alone need not care.
type ErrorTable uint8

// The tables.
const (
	// ErrorsV101 is the table of A2A v1.0.1, the default.
	ErrorsV101 ErrorTable = iota
	// ErrorsV100 is the table of A2A v1.0.0, which some test kits still want.
	ErrorsV100
)

// ParseErrorTable returns the table of the version: "1.0.1" or "1.0.0".
func ParseErrorTable(version string) (ErrorTable, error) {
	switch version {
	case "1.0.1":
		return ErrorsV101, nil
	case "1.0.0":
		return ErrorsV100, nil
	}
	return ErrorsV101, mesh.InvalidField("rpc.ParseErrorTable", "error_table", "must be 1.0.1 or 1.0.0, and is %q", mesh.Clip(version, 48))
}

// outcome is how an error looks over gRPC and over HTTP.
type outcome struct {
	grpc codes.Code
	http int
}

// a2aErrors has the errors of A2A by their reasons, as each table wants them.
var a2aErrors = map[string][2]outcome{
	"TASK_NOT_FOUND":                     {{codes.NotFound, 404}, {codes.NotFound, 404}},
	"TASK_NOT_CANCELABLE":                {{codes.FailedPrecondition, 400}, {codes.FailedPrecondition, 409}},
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    {{codes.FailedPrecondition, 400}, {codes.Unimplemented, 400}},
	"UNSUPPORTED_OPERATION":              {{codes.FailedPrecondition, 400}, {codes.Unimplemented, 400}},
	"CONTENT_TYPE_NOT_SUPPORTED":         {{codes.InvalidArgument, 400}, {codes.InvalidArgument, 415}},
	"INVALID_AGENT_RESPONSE":             {{codes.Internal, 500}, {codes.Internal, 502}},
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": {{codes.FailedPrecondition, 400}, {codes.FailedPrecondition, 400}},
	"EXTENSION_SUPPORT_REQUIRED":         {{codes.FailedPrecondition, 400}, {codes.FailedPrecondition, 400}},
	"VERSION_NOT_SUPPORTED":              {{codes.FailedPrecondition, 400}, {codes.Unimplemented, 400}},
}

func (t ErrorTable) lookup(reason string) (outcome, bool) {
	row, ok := a2aErrors[reason]
	if !ok || int(t) >= len(row) {
		return outcome{}, false
	}
	return row[t], true
}

// grpcCode returns the gRPC code of the error. One whose code is not that of
// its reason keeps it.
func (t ErrorTable) grpcCode(e *mesh.Error) codes.Code {
	code := GRPCCode(e.Code)
	if o, ok := t.lookup(e.Reason); ok && code == a2aErrors[e.Reason][ErrorsV101].grpc {
		return o.grpc
	}
	return code
}

// HTTPStatus returns the HTTP status code of an A2A error; false for a status
// that is none, which goes by its gRPC code alone.
func (t ErrorTable) HTTPStatus(st *status.Status) (int, bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			o, known := t.lookup(info.GetReason())
			return o.http, known
		}
	}
	return 0, false
}
