package rpc_test

import (
	"context"
	"fmt"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The table of A2A §5.4, written down a second time: gRPC and HTTP of v1.0.1,
// and of v1.0.0.
func TestAnA2AErrorHasTheStatusOfItsTable(t *testing.T) {
	rows := map[string]string{
		"TASK_NOT_FOUND":                     "NotFound 404, NotFound 404",
		"TASK_NOT_CANCELABLE":                "FailedPrecondition 400, FailedPrecondition 409",
		"PUSH_NOTIFICATION_NOT_SUPPORTED":    "FailedPrecondition 400, Unimplemented 400",
		"UNSUPPORTED_OPERATION":              "FailedPrecondition 400, Unimplemented 400",
		"CONTENT_TYPE_NOT_SUPPORTED":         "InvalidArgument 400, InvalidArgument 415",
		"INVALID_AGENT_RESPONSE":             "Internal 500, Internal 502",
		"EXTENDED_AGENT_CARD_NOT_CONFIGURED": "FailedPrecondition 400, FailedPrecondition 400",
		"EXTENSION_SUPPORT_REQUIRED":         "FailedPrecondition 400, FailedPrecondition 400",
		"VERSION_NOT_SUPPORTED":              "FailedPrecondition 400, Unimplemented 400",
	}
	for reason, want := range rows {
		code := map[string]mesh.Code{"TASK_NOT_FOUND": mesh.NotFound, "CONTENT_TYPE_NOT_SUPPORTED": mesh.Invalid, "INVALID_AGENT_RESPONSE": mesh.Unknown}[reason]
		if code == mesh.Unknown && reason != "INVALID_AGENT_RESPONSE" {
			code = mesh.Precondition
		}
		err := &mesh.Error{Code: code, Reason: reason, Detail: "no"}
		got := ""
		for i, table := range []rpc.ErrorTable{rpc.ErrorsV101, rpc.ErrorsV100} {
			st := status.Convert(table.ToStatus(err))
			http, ok := table.HTTPStatus(st)
			if !ok || st.Message() != "no" {
				t.Errorf("%s: %v, known: %v", reason, st, ok)
			}
			got += []string{"", ", "}[i] + fmt.Sprintf("%v %d", st.Code(), http)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", reason, got, want)
		}
	}
}

func TestWhatIsNoA2AErrorIsTheSameInAllTables(t *testing.T) {
	for _, err := range []error{
		mesh.InvalidField("x", "f", "is wrong"), mesh.Errorf(mesh.Unsupported, "x", "no"), &mesh.Error{Code: mesh.Denied, Reason: "SOMETHING_ELSE"},
	} {
		st := status.Convert(rpc.ErrorsV100.ToStatus(err))
		if want := rpc.GRPCCode(mesh.CodeOf(err)); st.Code() != want {
			t.Errorf("%v is %v, want %v", err, st.Code(), want)
		}
		if http, ok := rpc.ErrorsV100.HTTPStatus(st); ok {
			t.Errorf("%v has the status %d of a table", err, http)
		}
	}
	if st := status.Convert(rpc.ErrorTable(9).ToStatus(mesh.TaskNotFound("x"))); st.Code() != codes.NotFound {
		t.Errorf("by a table that does not exist: %v", st)
	}
}

func TestAServerSpeaksByItsTable(t *testing.T) {
	refuse := func() error {
		return &mesh.Error{Code: mesh.Precondition, Reason: "VERSION_NOT_SUPPORTED", Detail: "use 1.0"}
	}
	a := &agent{get: func(context.Context) error { return refuse() }, sub: func(grpc.ServerStream) error { return refuse() }}
	for version, want := range map[string]codes.Code{"1.0.1": codes.FailedPrecondition, "1.0.0": codes.Unimplemented} {
		table, err := rpc.ParseErrorTable(version)
		if err != nil {
			t.Fatal(err)
		}
		c := plain(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Errors: table}))
		for kind, err := range both(t.Context(), c) {
			if status.Code(err) != want {
				t.Errorf("%s by %s: %v, want %v", kind, version, err, want)
			}
		}
	}
	if _, err := rpc.ParseErrorTable("2"); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("table 2: %v", err)
	}
}
