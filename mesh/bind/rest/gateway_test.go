package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// S4-051: ids travel under the same names over HTTP and gRPC.
func TestHeadersBecomeMetadataAndNothingElseDoes(t *testing.T) {
	s := start(t, rest.Options{})
	sent := []string{
		"Tenant-Id", "acme", "Thread-Id", threadID, "Parent-Task-Id", "p", "Execution-Id", execution, "User-Id", "ann",
		"Mesh-Grant", "g.s", "Authorization", "Bearer t", "Traceparent", "00-1-2-01", "A2A-Version", "1.0",
		"A2A-Extensions", "urn:a, urn:b", "A2A-Extensions", "urn:c", "Last-Event-ID", "42",
		"Grpc-Metadata-Evil", "x", "Want-Seq", "1", "Grpc-Timeout", "1n", "X-Forwarded-For", "10.0.0.1", "Cookie", "a=b", "Evil-Bin", "AAA=",
	}
	want := map[string][]string{
		"tenant-id": {"acme"}, "thread-id": {threadID}, "parent-task-id": {"p"}, "execution-id": {execution}, "user-id": {"ann"},
		"mesh-grant": {"g.s"}, "authorization": {"Bearer t"}, "traceparent": {"00-1-2-01"}, "a2a-version": {"1.0"},
		"a2a-extensions": {"urn:a, urn:b", "urn:c"}, "after-seq": {"42"},
	}
	s.read(s.do("GET", "/tasks/task-1", "", sent...))
	md, _ := s.node.call("GetTask")
	if diff := cmp.Diff(want, map[string][]string(md)); diff != "" {
		t.Errorf("metadata of a unary call (-want +got):\n%s", diff)
	}
	s.stream(s.do("POST", "/message:stream", say("hi"), sent...)).rest()
	md, _ = s.node.call("SendStreamingMessage")
	if diff := cmp.Diff(want, map[string][]string(md)); diff != "" {
		t.Errorf("metadata of a stream (-want +got):\n%s", diff)
	}
}

func TestTheVersionMayBeAParameter(t *testing.T) {
	s := start(t, rest.Options{})
	s.read(s.do("GET", "/tasks/task-1?A2A-Version=1.0", ""))
	if md, _ := s.node.call("GetTask"); !slices.Equal(md.Get("a2a-version"), []string{"1.0"}) {
		t.Errorf("a2a-version %q, want 1.0", md.Get("a2a-version"))
	}
}

func TestAThreadInTheHeaderIsNotReplacedByThePath(t *testing.T) {
	s := start(t, rest.Options{})
	resp := s.do("GET", thread, "", "thread-id", "6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	s.errorOf(resp, 400, "INVALID_ARGUMENT") // the node says that they differ
}

func TestOnlyTheExtensionsComeBack(t *testing.T) {
	s := start(t, rest.Options{})
	for _, path := range []string{"/message:send", "/message:stream"} {
		resp := s.do("POST", path, say("hi"), "A2A-Extensions", "urn:x")
		if got := resp.Header.Values("A2A-Extensions"); !slices.Equal(got, []string{"urn:x"}) {
			t.Errorf("%s: A2A-Extensions %q, want urn:x", path, got)
		}
		for name := range resp.Header {
			if strings.Contains(strings.ToLower(name), "secret") {
				t.Errorf("%s: header %s came out", path, name)
			}
		}
	}
}

func TestHeadersThatCannotBeAreRefused(t *testing.T) {
	s := start(t, rest.Options{})
	for name, headers := range map[string][]string{
		"tenant-id":     {"tenant-id", "a", "tenant-id", "b"},
		"user-id":       {"user-id", "Zoë"},
		"after-seq":     {"after-seq", "soon"},
		"Last-Event-ID": {"Last-Event-ID", "-1"},
	} {
		e := s.errorOf(s.do("GET", "/tasks/task-1", "", headers...), 400, "INVALID_ARGUMENT")
		if got := get(e, "details.0.fieldViolations.0.field"); got != name {
			t.Errorf("field %v, want %s: %v", got, name, e)
		}
	}
	s.errorOf(s.do("GET", "/tasks/task-1", "", "after-seq", "4", "Last-Event-ID", "5"), 400, "INVALID_ARGUMENT")
	if len(s.node.calls) != 0 {
		t.Errorf("the node was called: %v", s.node.calls)
	}
	if resp := s.do("GET", "/tasks/task-1", "", "after-seq", "4", "Last-Event-ID", "4"); resp.StatusCode != 200 {
		t.Errorf("two headers that agree: %d, want 200", resp.StatusCode)
	}
}

// A2A v1.0.1 §5.4 and §11.6.
func TestErrorsSayWhatHappenedAndWhatToDo(t *testing.T) {
	s := start(t, rest.Options{})
	t.Run("the reason of A2A", func(t *testing.T) {
		e := s.errorOf(s.do("GET", "/tasks/none", ""), 404, "NOT_FOUND")
		if got := get(e, "details.0.reason"); got != "TASK_NOT_FOUND" {
			t.Errorf("reason %v in %v", got, e)
		}
		if got := get(e, "details.0.@type"); got != "type.googleapis.com/google.rpc.ErrorInfo" {
			t.Errorf("@type %v in %v", got, e)
		}
		s.errorOf(s.do("POST", "/tasks/done:cancel", ""), 400, "FAILED_PRECONDITION")
	})
	t.Run("the field", func(t *testing.T) {
		for _, path := range []string{"/message:send", "/message:stream"} {
			for _, body := range []string{`{"message":{}}`, ""} {
				e := s.errorOf(s.do("POST", path, body), 400, "INVALID_ARGUMENT")
				if got := get(e, "details.0.fieldViolations.0.field"); got != "message.parts" {
					t.Errorf("field %v in %v", got, e)
				}
			}
		}
	})
	t.Run("when to come back", func(t *testing.T) {
		for _, path := range []string{"/message:send", "/message:stream"} {
			resp := s.do("POST", path, say("busy"))
			s.errorOf(resp, 429, "RESOURCE_EXHAUSTED")
			if got := resp.Header.Get("Retry-After"); got != "2" {
				t.Errorf("Retry-After %q, want 2", got)
			}
			resp = s.do("POST", path, say("down"))
			s.errorOf(resp, 503, "UNAVAILABLE")
			if got := resp.Header.Get("Retry-After"); got != "7" {
				t.Errorf("Retry-After %q, want 7", got)
			}
		}
	})
	t.Run("how to identify oneself", func(t *testing.T) {
		resp := s.do("POST", "/message:send", say("who"))
		s.errorOf(resp, 401, "UNAUTHENTICATED")
		if got := resp.Header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("WWW-Authenticate %q, want Bearer", got)
		}
	})
	t.Run("which parameter", func(t *testing.T) {
		e := s.errorOf(s.do("GET", thread+"/events:follow?after_seq=x", ""), 400, "INVALID_ARGUMENT")
		if !strings.Contains(fmt.Sprint(e["message"]), "after_seq") {
			t.Errorf("message %v does not name after_seq", e["message"])
		}
		s.errorOf(s.do("GET", thread+"/events?limit=x", ""), 400, "INVALID_ARGUMENT")
	})
}

func TestBodiesThatAreNotAcceptable(t *testing.T) {
	s := start(t, rest.Options{MaxBody: 1000})
	e := s.errorOf(s.do("POST", "/message:send", say(strings.Repeat("x", 1000))), 413, "INVALID_ARGUMENT")
	if want := "body: the request body is longer than 1000 bytes; send less, or large files by URL"; e["message"] != want {
		t.Errorf("message %q, want %q", e["message"], want)
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""} {
		e := s.errorOf(s.do("POST", "/message:send", say("hi"), "Content-Type", kind), 415, "INVALID_ARGUMENT")
		if got := get(e, "details.0.reason"); got != "CONTENT_TYPE_NOT_SUPPORTED" {
			t.Errorf("%q: reason %v, want CONTENT_TYPE_NOT_SUPPORTED", kind, got)
		}
	}
	if len(s.node.calls) != 0 {
		t.Errorf("the node was called: %v", s.node.calls)
	}
	for _, body := range []string{
		`{"message":{"message_id":"m1","role":1,"parts":[{"text":"snake"}],"novelty":{"a":[1]}}}`,
		" \n" + say("camel"),
	} {
		if resp := s.do("POST", "/message:send", body); resp.StatusCode != 200 {
			t.Errorf("%s: %d, want 200", body, resp.StatusCode)
		}
	}
}

func TestJSONErrorsNameTheField(t *testing.T) {
	s := start(t, rest.Options{})
	for body, field := range map[string]string{
		`{"message":{"parts":[{"text":"é"},{"text":5}]}}`: "message.parts[1].text",
		"{\n \"message\":\n {\"messageId\": true}}":       "message.messageId",
		`{"message":[]}`: "message",
		`{"message":{"parts":[{"text":"a","data":1}]}}`:        "message.parts[0].data",
		`{"message":{"parts":{}}}`:                             "message.parts",
		`{"configuration":{"historyLength":"many"}}`:           "configuration.historyLength",
		`{"message":{"parts":[{"text":"a"}`:                    "message.parts[1]",
		`[]`:                                                   "body",
		`hello`:                                                "body",
		`{"message":{"messageId":"m"}} {}`:                     "body",
		`{"metadata":{"x":[1,{"y":nope}]},"message":{}}`:       "metadata.x[1].y",
		`{"message":{"messageId":"a","messageId":"b"}}`:        "message.messageId",
		`{"message":{"extensions":["a", {"b":1}]},"tenant":1}`: "message.extensions[1]",
	} {
		for _, path := range []string{"/message:send", "/message:stream"} {
			e := s.errorOf(s.do("POST", path, body), 400, "INVALID_ARGUMENT")
			if got := get(e, "details.0.fieldViolations.0.field"); got != field {
				t.Errorf("%s: field %v, want %s: %v", body, got, field, e["message"])
			}
			if msg := fmt.Sprint(e["message"]); !strings.HasPrefix(msg, field+": ") || strings.Contains(msg, "proto") {
				t.Errorf("%s: message %q, want it to begin with the field", body, msg)
			}
		}
	}
}

func TestOtherWebSitesAreRefused(t *testing.T) {
	s := start(t, rest.Options{})
	s.errorOf(s.do("POST", "/message:send", say("hi"), "Sec-Fetch-Site", "cross-site"), 403, "PERMISSION_DENIED")
	s.errorOf(s.do("POST", "/tasks/t:cancel", "", "Origin", "https://evil.example"), 403, "PERMISSION_DENIED")
	if resp := s.do("POST", "/message:send", say("hi"), "Origin", s.url); resp.StatusCode != 200 {
		t.Errorf("a page of this origin: %d, want 200", resp.StatusCode)
	}
}

func TestTheCardCanBeCached(t *testing.T) {
	version := "1"
	s := start(t, rest.Options{Card: func(_ context.Context, tenant mesh.TenantID, _ string, _ bool) ([]byte, error) {
		if tenant == "nobody" {
			return nil, mesh.Errorf(mesh.NotFound, "test", "no such tenant")
		}
		if tenant == "broken" {
			return nil, errors.New("disk on fire")
		}
		return json.Marshal(map[string]string{"name": "mesh", "description": string(tenant), "version": version})
	}})
	const path = "/.well-known/agent-card.json"
	resp := s.do("GET", path, "")
	if got := s.read(resp); resp.StatusCode != 200 || got["name"] != "mesh" || got["description"] != "default" {
		t.Errorf("%d %v, want the card of the default tenant", resp.StatusCode, got)
	}
	etag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	if etag == "" || modified == "" || resp.Header.Get("Cache-Control") == "" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v, want ETag, Last-Modified, Cache-Control and JSON", resp.Header)
	}
	for _, h := range [][]string{{"If-None-Match", etag}, {"If-Modified-Since", modified}} {
		if resp := s.do("GET", path, "", h...); resp.StatusCode != 304 {
			t.Errorf("%v: %d, want 304", h, resp.StatusCode)
		}
	}
	if resp := s.do("HEAD", path, ""); resp.StatusCode != 200 || resp.Header.Get("ETag") != etag {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	if got := s.read(s.do("GET", path, "", "tenant-id", "acme", "If-None-Match", etag)); got["description"] != "acme" {
		t.Errorf("the card of acme is %v", got)
	}
	version = "2"
	if got := s.read(s.do("GET", path, "", "If-None-Match", etag)); got["version"] != "2" {
		t.Errorf("after a change: %v, want version 2", got)
	}
	s.errorOf(s.do("GET", path, "", "tenant-id", "nobody"), 404, "NOT_FOUND")
	s.errorOf(s.do("GET", path, "", "tenant-id", "no/body"), 400, "INVALID_ARGUMENT")
	if e := s.errorOf(s.do("GET", path, "", "tenant-id", "broken"), 500, "INTERNAL"); e["message"] != "internal error" {
		t.Errorf("message %v tells what is inside", e["message"])
	}
}

func TestHealthSaysWhy(t *testing.T) {
	var sick error
	wrong := []string{"policies"}
	s := start(t, rest.Options{Health: func(context.Context) error { return sick }, Warnings: func() []string { return wrong }})
	if resp := s.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("with a warning: %d", resp.StatusCode)
	} else if got := s.read(resp); got["status"] != "ok" || fmt.Sprint(got["warnings"]) != "[policies]" {
		t.Errorf("with a warning: %v", got)
	}
	wrong = nil
	if resp := s.do("GET", "/healthz", ""); resp.StatusCode != 200 || s.read(resp)["status"] != "ok" {
		t.Errorf("healthy: %d, want 200 and status ok", resp.StatusCode)
	}
	sick = mesh.Errorf(mesh.Unavailable, "test", "the disk is full; make room: %w", errors.New("/dev/sda1"))
	resp := s.do("GET", "/healthz", "")
	if got := s.read(resp); resp.StatusCode != 503 || got["reason"] != "the disk is full; make room" {
		t.Errorf("full disk: %d %v, want 503 and the reason", resp.StatusCode, got)
	}
	sick = errors.New("/dev/sda1")
	if got := s.read(s.do("GET", "/healthz", "")); strings.Contains(fmt.Sprint(got), "/dev") || got["reason"] == "" {
		t.Errorf("unknown error: %v, want a reason without the inside", got)
	}
}

func TestWithoutOptionsThereIsHealthAndNoCard(t *testing.T) {
	s := start(t, rest.Options{})
	if resp := s.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("health: %d, want 200", resp.StatusCode)
	}
	s.errorOf(s.do("GET", "/.well-known/agent-card.json", ""), 404, "NOT_FOUND")
	resp := s.do("GET", "/openapi.json", "")
	if doc := s.read(resp); get(doc, "openapi") != "3.1.0" || get(doc, "paths") == nil {
		t.Errorf("/openapi.json is not an OpenAPI document")
	}
	if again := s.do("GET", "/openapi.json", "", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("/openapi.json again: %d, want 304", again.StatusCode)
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	_, conn := startNode(t)
	for _, opts := range []rest.Options{{MaxBody: -1}, {Heartbeat: -time.Second}} {
		if _, err := rest.New(t.Context(), conn, opts); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("New(%+v) returned %v, want an Invalid error", opts, err)
		}
	}
}

func TestANodeThatIsAwayIsUnavailable(t *testing.T) {
	n, conn := startNode(t)
	h, err := rest.New(t.Context(), conn, rest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, n, h)
	if resp := s.do("GET", "/tasks/task-1", ""); resp.StatusCode != 200 {
		t.Fatalf("before: %d, want 200", resp.StatusCode)
	}
	n.stop()
	for _, path := range []string{"/tasks/task-1", "/tasks/task-1:subscribe"} {
		e := s.errorOf(s.do("GET", path, ""), http.StatusServiceUnavailable, "UNAVAILABLE")
		if want := "the node is shutting down; try again soon"; e["message"] != want {
			t.Errorf("GET %s: message %q, want %q", path, e["message"], want)
		}
	}
}

func TestANodeThatGoesAwayEndsItsStreams(t *testing.T) {
	s := start(t, rest.Options{})
	in := s.stream(s.do("GET", thread+"/events:follow", ""))
	for range 3 {
		in.must()
	}
	s.node.stop()
	got := in.rest()
	if len(got) != 1 || get(got[0].data, "error.status") != "UNAVAILABLE" {
		t.Errorf("last events %v, want one error UNAVAILABLE", got)
	}
}

func ExampleNew() {
	services := rpc.NewServer(rpc.Options{}) // where services are registered
	defer services.Stop()
	handler, err := rest.New(context.Background(), services, rest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
	fmt.Print(answer.Body)
	// Output: {"status":"ok"}
}
