package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// Whatever comes as a body is a request or has a fault of the envelope, and is
// answered with one line of JSON whose id is one that JSON-RPC allows.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":"é\u0000\n"}]}}}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"GetTask","params":[]}`, `{"jsonrpc":"2.0","method":"GetTask","params":null}`,
		``, ` `, `null`, `[]`, `[{}]`, `{}`, `5`, `"x"`, "\xff", "\xef\xbb\xbf{}", `{"id":`, `{"id":1e999,"id":2}`, `{"id": {} ,"method":5}`,
		"{\"id\":\r\n-0.5\t,\"jsonrpc\":\"2\\u002e0\",\"method\":\"GetTask\",\"params\": 7}", strings.Repeat("[", 20_000),
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + strings.Repeat(`{"message":`, 2_000) + strings.Repeat("}", 2_000) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		req, fault := parse(raw)
		switch {
		case fault != nil && fault.code != CodeParse && fault.code != CodeInvalidRequest:
			t.Errorf("%q: code %d", raw, fault.code)
		case (fault != nil && fault.code == CodeParse) == (json.Valid(raw) && utf8.Valid(raw)):
			t.Errorf("%q: fault %+v, want -32700 for what is not JSON and only for that", raw, fault)
		case fault == nil && req.method == "":
			t.Errorf("%q: no method and no fault", raw)
		case fault == nil:
			if st := req.decode(&a2apb.SendMessageRequest{}); st != nil {
				if st.Code() != codes.InvalidArgument || !strings.HasPrefix(st.Message(), "params: ") {
					t.Errorf("%q: %v", raw, st)
				}
				fault = faultOf(st)
			}
		}
		answer := []byte(req.id.before() + "{}" + after)
		if fault != nil {
			answer = req.id.failed(fault)
		}
		var got struct {
			ID    json.RawMessage
			Error *struct{ Code int }
		}
		if err := json.Unmarshal(answer, &got); err != nil || bytes.ContainsAny(answer, "\r\n") {
			t.Fatalf("%q is answered with %q: %v", raw, answer, err)
		}
		if string(got.ID) != string(req.id) || !strings.ContainsRune(`"-0123456789n`, rune(got.ID[0])) {
			t.Errorf("%q: id %s", raw, got.ID)
		}
		if (got.Error == nil) != (fault == nil) {
			t.Errorf("%q: error %+v, want that of %+v", raw, got.Error, fault)
		}
	})
}

// S4-054: A2A v1.0.1 §5.4 for errors with a reason; the node's own codes for
// the others.
func TestEveryErrorHasACode(t *testing.T) {
	for reason, want := range map[string]int{
		"TASK_NOT_FOUND": -32001, "TASK_NOT_CANCELABLE": -32002, "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
		"UNSUPPORTED_OPERATION": -32004, "CONTENT_TYPE_NOT_SUPPORTED": -32005, "INVALID_AGENT_RESPONSE": -32006,
		"EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007, "EXTENSION_SUPPORT_REQUIRED": -32008, "VERSION_NOT_SUPPORTED": -32009,
	} {
		st := status.Convert(rpc.ToStatus(&mesh.Error{Code: mesh.Precondition, Reason: reason, Detail: "no"}))
		if got := faultOf(st); got.code != want {
			t.Errorf("%s: code %d, want %d", reason, got.code, want)
		}
	}
	if len(statusCodes) != int(mesh.DataLoss)+1 {
		t.Errorf("%d rows for %d codes", len(statusCodes), int(mesh.DataLoss)+1)
	}
	without := map[mesh.Code]int{mesh.Invalid: -32602, mesh.NotFound: -32602, mesh.Denied: -31403,
		mesh.Unauthenticated: -31401, mesh.Precondition: -32004, mesh.Unsupported: -32601}
	for c := range mesh.DataLoss + 1 {
		want, ok := without[c]
		if !ok {
			want = -32603
		}
		got := faultOf(status.New(rpc.GRPCCode(c), "no"))
		if got.code != want {
			t.Errorf("%v without a reason: code %d, want %d", c, got.code, want)
		}
		if info, ok := got.status.Details()[0].(*errdetails.ErrorInfo); !ok || info.GetReason() == "" {
			t.Errorf("%v has the details %v, want an ErrorInfo", c, got.status.Details())
		}
	}
}

// A reason counts only from who defined it.
func TestTheReasonOfAnotherDomainIsNotA2As(t *testing.T) {
	st := withDetail(status.New(codes.InvalidArgument, "no"), &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "example.com"})
	if got := faultOf(st); got.code != CodeInvalidParams || len(got.status.Details()) != 1 {
		t.Errorf("fault %+v, want -32602 with the ErrorInfo as it came", got)
	}
}
