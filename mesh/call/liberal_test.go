package call_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// web are the bindings over HTTP.
var web = []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"}

// An answer is what a server says to any request.
type answer struct {
	status int
	kind   string // media type
	body   string
}

// RoundTrip implements [http.RoundTripper].
func (a answer) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}}, Request: req,
		Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// over returns a client of an agent over the carrier in the binding.
func over(t testing.TB, carrier http.RoundTripper, binding string) call.Client {
	t.Helper()
	protocol, version, _ := strings.Cut(binding, " ")
	at := "http://127.0.0.1:1/a"
	c, err := call.NewDialer(nil, call.Options{HTTP: carrier}).Dial(call.Target{Endpoint: at,
		Card: &a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{{Url: at, ProtocolBinding: protocol, ProtocolVersion: version}}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sse are server-sent events, in the envelope of the binding.
func sse(binding string, events ...string) string {
	out := ""
	for _, e := range events {
		if strings.HasPrefix(binding, "JSONRPC") {
			e = `{"jsonrpc":"2.0","id":"1","result":` + e + `}`
		}
		out += "data: " + e + "\n\n"
	}
	return out
}

// logged is a request whose log is kept.
func logged(log io.Writer) call.Request {
	req := saying("go")
	req.Agent, req.Logger = "weather", slog.New(slog.NewTextHandler(log, nil))
	return req
}

// finding N7, finding N8: what agents of others send is read in every binding over HTTP,
// whichever version it was meant as.
func TestWhatIsNotQuiteA2AIsReadAllTheSame(t *testing.T) {
	const done = `{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`
	for name, tt := range map[string]struct {
		says []string
		want []string
	}{
		"version 1.0": {[]string{`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
			`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}}`, done}, []string{"working", `new a "x"`, "completed"}},
		"version 0.3": {[]string{`{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}`,
			`{"kind":"artifact-update","taskId":"t","artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]}}`,
			`{"kind":"status-update","taskId":"t","contextId":"c","final":true,"status":{"state":"completed"}}`}, []string{"working", `new a "x"`, "completed"}},
		"the protobuf of version 0.3": {[]string{`{"task":{"id":"t","context_id":"c","status":{"state":"TASK_STATE_WORKING","update":{"message_id":"m","role":"ROLE_AGENT","content":[{"text":"hm"}]}}}}`,
			`{"statusUpdate":{"task_id":"t","status":{"state":"TASK_STATE_CANCELLED"}}}`}, []string{"working hm", "canceled"}},
		"without a wrapper": {[]string{`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}`,
			`{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}`,
			`{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}`}, []string{"working", `new a "x"`, "completed"}},
		"within one more": {[]string{`{"result":` + done + `}`}, []string{"completed"}},
		"a message in place of a task": {[]string{`{"role":"agent","parts":[{"text":"hi"}],"messageId":"m"}`},
			[]string{`new message-m "hi"`, "completed"}},
		"a message wrapped as of old": {[]string{`{"msg":{"role":"ROLE_AGENT","content":[{"text":"hi"}],"messageId":"m"}}`}, []string{`new message-m "hi"`, "completed"}},
		"times of all kinds": {[]string{`{"task":{"id":"t","contextId":"c","status":{"state":"working","timestamp":"2026-01-02T03:04:05.678901"}}}`,
			`{"statusUpdate":{"taskId":"t","status":{"state":"working","timestamp":"2026-01-02 03:04:05+0200"}}}`,
			`{"statusUpdate":{"taskId":"t","status":{"state":"working","timestamp":1767323045}}}`,
			`{"statusUpdate":{"taskId":"t","status":{"state":"working","timestamp":"yesterday"}}}`, done}, []string{"working", "working", "working", "working", "completed"}},
		"no ids at all": {[]string{`{"task":{"status":{"state":"working"}}}`, `{"artifactUpdate":{"artifact":{"parts":[{"text":"x"}]}}}`,
			`{"artifactUpdate":{"append":true,"artifact":{"parts":[{"text":"y"}]}}}`, `{"artifactUpdate":{"artifact":{"parts":[{"text":"z"}]}}}`,
			`{"statusUpdate":{"status":{"state":"completed"}}}`},
			[]string{"working", `new artifact-1 "x"`, `append artifact-1 "y"`, `new artifact-2 "z"`, "completed"}},
		"a task told again and again": {[]string{`{"task":{"id":"t","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"text":"x"}]}]}}`,
			`{"task":{"id":"t","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"text":"xy"}]}]}}`,
			`{"task":{"id":"t","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"text":"xy"}]}]}}`},
			[]string{`new a "x"`, "working", `append a "y"`, "completed"}},
		"late and repeated events": {[]string{`{"task":{"id":"t","status":{"state":"working"}}}`, done, done, `{"task":{"id":"t","status":{"state":"working"}}}`}, []string{"working", "completed"}},
		"fields that nobody knows": {[]string{`{"task":{"id":"t","mood":{"good":[1]},"status":{"state":"Completed","since":1},"metadata":[]},"x":null}`}, []string{"completed"}},
		"states as people write":   {[]string{`{"task":{"id":"t","status":"in progress?"}}`}, []string{`failed INVALID_AGENT_RESPONSE The agent's answer cannot be read: its "%stask.status.state" is not a state of a task.`}},
		"other spellings": {[]string{`{"task":{"id":"t","status":"working"}}`, `{"statusUpdate":{"taskId":"t","final":"true","status":{"state":"inputRequired","message":"Which?"}}}`},
			[]string{"working", "input_required Which?"}},
		"numbers and one alone": {[]string{`{"task":{"id":"t","status":{"state":3},"artifacts":{"artifactId":7,"parts":"x"}}}`}, []string{`new 7 "x"`, "completed"}},
		"members that are not meant": {[]string{`{"task":{"id":"t","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"text":"x","raw":"","url":"","data":null},{"kind":"hologram"}]}]}}`},
			[]string{`new a "x"`, "completed"}},
	} {
		for _, binding := range web {
			path := ""
			if strings.HasPrefix(binding, "JSONRPC") {
				path = "result."
			}
			want := append([]string(nil), tt.want...)
			for i, w := range want {
				want[i] = strings.ReplaceAll(w, "%s", path)
			}
			c := over(t, answer{200, "text/event-stream; charset=utf-8", sse(binding, tt.says...)}, binding)
			got, _ := heard(collect(t.Context(), c, saying("go")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, binding, diff)
			}
		}
	}
}

// finding P4: data is any JSON value; and files come in the forms of both versions.
func TestDataOfAnyTypeAndFilesOfBothVersionsAreRead(t *testing.T) {
	for part, want := range map[string]string{
		`{"data":{"a":1}}`: `{"data":{"a":1}}`, `{"data":[1,"b",null]}`: `{"data":[1,"b",null]}`, `{"data":"s"}`: `{"data":"s"}`,
		`{"data":7}`: `{"data":7}`, `{"data":false}`: `{"data":false}`, `{"data":null}`: `{"data":null}`,
		`{"kind":"data","data":[1],"metadata":{"k":"v"}}`:                           `{"data":[1],"metadata":{"k":"v"}}`,
		`{"raw":"aGk=","mediaType":"text/plain","filename":"f"}`:                    `{"raw":"aGk=","filename":"f","mediaType":"text/plain"}`,
		`{"kind":"file","file":{"bytes":"aGk","mimeType":"text/plain","name":"f"}}`: `{"raw":"aGk=","filename":"f","mediaType":"text/plain"}`,
		`{"file":{"fileWithUri":"https://x/y","mimeType":"a/b"}}`:                   `{"url":"https://x/y","mediaType":"a/b"}`,
		`{"file":{"file_with_bytes":"_-8","mime_type":"a/b","file_with_uri":""}}`:   `{"raw":"/+8=","mediaType":"a/b"}`,
	} {
		for _, binding := range web {
			body := sse(binding, `{"task":{"id":"t","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[`+part+`]}]}}`)
			var got *a2apb.Part
			for _, b := range collect(t.Context(), over(t, answer{200, "text/event-stream", body}, binding), saying("go")) {
				if a, ok := b.(mesh.ArtifactAppended); ok {
					got = a.Artifact.Parts[0]
				}
			}
			wanted := &a2apb.Part{}
			if err := protojson.Unmarshal([]byte(want), wanted); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(protojson.Format(wanted), protojson.Format(got)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", part, binding, diff)
			}
		}
	}
	body := sse("JSONRPC 1.0", `{"task":{"id":"t","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"data":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`}]}]}}`)
	if got := lines(collect(t.Context(), over(t, answer{200, "text/event-stream", body}, "JSONRPC 1.0"), saying("go"))); len(got) != 1 || !strings.Contains(got[0], "parts.0.data") {
		t.Errorf("data nested 600 deep: %q", got)
	}
}

// finding N6: each cause has a reason of its own and a sentence for the user, and the
// operator's log has what came.
func TestWhyAnAgentFailedIsToldAndLogged(t *testing.T) {
	const rpcError = `{"jsonrpc":"2.0","id":"1","error":{"code":%d,"message":"because"}}`
	for _, tt := range []struct {
		answer         answer
		reason, detail string
		log            string // beside the reason
	}{
		{answer{200, "application/json", fmt.Sprintf(rpcError, -32601)}, call.ReasonUnsupported, "because", "-32601"},
		{answer{200, "application/json", fmt.Sprintf(rpcError, -32602)}, call.ReasonRefused, "because", "-32602"},
		{answer{400, "application/json", fmt.Sprintf(rpcError, -32600)}, call.ReasonRefused, "because", "-32600"},
		{answer{200, "text/event-stream", "event: error\ndata: " + fmt.Sprintf(rpcError, -32603) + "\n\n"}, call.ReasonError, "because", "-32603"},
		{answer{200, "application/json", fmt.Sprintf(rpcError, -32001)}, call.ReasonTaskNotFound, "because", "-32001"},
		{answer{200, "application/json", fmt.Sprintf(rpcError, -32009)}, call.ReasonVersion, "because", "-32009"},
		{answer{400, "application/json", `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"because","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"VERSION_NOT_SUPPORTED"}]}}`},
			call.ReasonVersion, "because", "VERSION_NOT_SUPPORTED"},
		{answer{404, "application/problem+json", `{"type":"https://a2a-protocol.org/errors/task-not-found","title":"Gone","status":404,"detail":"because"}`}, call.ReasonTaskNotFound, "because", "task-not-found"},
		{answer{400, "application/json", `{"type":"UnsupportedOperationError","message":"because"}`}, call.ReasonUnsupported, "because", "UnsupportedOperationError"},
		{answer{422, "application/json", `{"detail":[{"loc":["body"],"msg":"because"}]}`}, call.ReasonRefused, "because", "loc"},
		{answer{403, "text/plain", "  because\n"}, call.ReasonDenied, "because", "because"},
		{answer{401, "application/json", `{"error":"because"}`}, call.ReasonCredentials, "because", "because"},
		{answer{429, "text/html", "<h1>slow down</h1>"}, call.ReasonBusy, "429", "slow down"},
		{answer{404, "text/html", "<h1>nothing here</h1>"}, call.ReasonNotFound, "", "nothing here"},
		{answer{405, "text/plain", ""}, call.ReasonUnsupported, "405", ""},
		{answer{500, "text/html", "<h1>sorry</h1>"}, call.ReasonError, "500", "sorry"},
		{answer{503, "text/html", "<h1>later</h1>"}, mesh.ReasonUnavailable, "", "later"},
		{answer{200, "text/html", "<!DOCTYPE html><p>welcome"}, mesh.ReasonIllegal, "JSON", "<!DOCTYPE html>"},
		{answer{200, "text/event-stream", "data: {\"jsonrpc\": nonsense}\n\n"}, mesh.ReasonIllegal, "JSON", "byte 13"},
		{answer{200, "text/event-stream", "data: {\"task\":{\"id\":\"t\",\"status\":{\"state\":\"resting\"}}}\n\n"}, mesh.ReasonIllegal, "task.status.state", "byte 36"},
		{answer{200, "application/json", `{"artifactUpdate":{"artifact":{"parts":[{"text":"a"},{"raw":"*"}]}}}`}, mesh.ReasonIllegal, "artifactUpdate.artifact.parts.1.raw", "byte 60"},
	} {
		for _, binding := range web {
			for _, unary := range []bool{false, true} {
				var log bytes.Buffer
				req := logged(&log)
				req.Unary = unary
				bodies := collect(t.Context(), over(t, tt.answer, binding), req)
				last, ok := bodies[len(bodies)-1].(mesh.TaskMoved)
				if !ok || last.State != failedAt || last.Reason != tt.reason || !strings.Contains(words(last.Message), tt.detail) {
					t.Errorf("%s, %v: %q", binding, tt.answer, lines(bodies))
				}
				if said := log.String(); !strings.Contains(said, tt.reason) || !strings.Contains(said, tt.log) || !strings.Contains(said, "agent=weather") {
					t.Errorf("%s, %v: the log has %s", binding, tt.answer, said)
				}
			}
		}
	}
}

// finding N7: a call that does not stream says that it takes JSON, in every binding.
func TestEveryCallSaysWhatItTakes(t *testing.T) {
	for _, binding := range web {
		var got []string
		c := over(t, carries(func(req *http.Request) answer {
			got = append(got, req.Header.Get("Accept"))
			return answer{500, "text/plain", ""}
		}), binding)
		req := saying("go")
		collect(t.Context(), c, req)
		req.Unary = true
		collect(t.Context(), c, req)
		_, _ = c.GetTask(t.Context(), "t")
		_ = c.CancelTask(t.Context(), "t")
		if diff := cmp.Diff([]string{"text/event-stream", "application/json", "application/json", "application/json"}, got); diff != "" {
			t.Errorf("%s:\n%s", binding, diff)
		}
	}
}

// carries answers by what is asked.
type carries func(*http.Request) answer

// RoundTrip implements [http.RoundTripper].
func (c carries) RoundTrip(req *http.Request) (*http.Response, error) { return c(req).RoundTrip(req) }

// finding N6: a call that fails with nothing to say of A2A is told as that.
func TestACallThatBreaksInTheMiddleOfAnEventIsUnreachable(t *testing.T) {
	for _, binding := range web {
		for _, body := range []string{`data: {"jsonrpc":"2.0","resu`, "data: {\"task\":{\"status\":{\"state\":\"working\"}}}\n\ndata: {\"stat"} {
			got := lines(collect(t.Context(), over(t, answer{200, "text/event-stream", body}, binding), saying("go")))
			if last := got[len(got)-1]; !strings.HasPrefix(last, "failed AGENT_UNAVAILABLE") {
				t.Errorf("%s, %q: %q", binding, body, got)
			}
		}
	}
}

// finding N6: what cannot be read over gRPC is told with its place.
func TestWhatCannotBeReadOverGRPCIsNamed(t *testing.T) {
	bad := piece("t", "a", "bad \xff", false)
	var log bytes.Buffer
	c := call.GRPC(raw(t, func(send func([]byte) error) { _ = send(unchecked(bad)) }))
	got := lines(collect(context.Background(), c, logged(&log)))
	want := `failed INVALID_AGENT_RESPONSE The agent's answer cannot be read: its "artifactUpdate.artifact.parts.text" is not UTF-8.`
	if diff := cmp.Diff([]string{want}, got); diff != "" {
		t.Error(diff)
	}
	if said := log.String(); !strings.Contains(said, "artifactUpdate.artifact.parts.text") || !strings.Contains(said, "byte ") {
		t.Errorf("the log has %s", said)
	}
}
