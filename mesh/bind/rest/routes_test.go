package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	_ "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/bind/rest"
)

const thread = "/mesh/v1/threads/" + threadID

// routes has one request for every binding of every RPC.
var routes = []struct {
	method, path, body string
	rpc                string
	at                 string // path into the answer
	want               any
}{
	{"POST", "/message:send", say("hi"), "SendMessage", "task.artifacts.0.parts.0.text", "hi"},
	{"POST", "/acme/message:send", say("hi"), "SendMessage", "task.artifacts.0.parts.0.text", "acmehi"},
	{"POST", "/message:stream", say("hi"), "SendStreamingMessage", "task.id", "task-1"},
	{"POST", "/acme/message:stream", say("hi"), "SendStreamingMessage", "task.id", "task-1"},
	{"GET", "/tasks/task-1", "", "GetTask", "id", "task-1"},
	{"GET", "/acme/tasks/task-1", "", "GetTask", "id", "task-1"},
	{"GET", "/tasks?contextId=c&pageSize=7", "", "ListTasks", "pageSize", 7.0},
	{"GET", "/acme/tasks?context_id=c", "", "ListTasks", "totalSize", 1.0},
	{"POST", "/tasks/t:cancel", "", "CancelTask", "status.state", "TASK_STATE_CANCELED"},
	{"POST", "/acme/tasks/t:cancel", `{"metadata":{}}`, "CancelTask", "id", "t"},
	{"GET", "/tasks/task-1:subscribe", "", "SubscribeToTask", "task.id", "task-1"},
	{"GET", "/acme/tasks/task-1:subscribe", "", "SubscribeToTask", "task.id", "task-1"},
	{"POST", "/tasks/task-1:subscribe", "", "SubscribeToTask", "task.id", "task-1"},
	{"POST", "/acme/tasks/task-1:subscribe", "{}", "SubscribeToTask", "task.id", "task-1"},
	{"POST", "/tasks/t/pushNotificationConfigs", `{"url":"https://x.example"}`, "CreateTaskPushNotificationConfig", "url", "https://x.example"},
	{"POST", "/acme/tasks/t/pushNotificationConfigs", `{"url":"https://x.example"}`, "CreateTaskPushNotificationConfig", "taskId", "t"},
	{"GET", "/tasks/t/pushNotificationConfigs/c", "", "GetTaskPushNotificationConfig", "id", "c"},
	{"GET", "/acme/tasks/t/pushNotificationConfigs/c", "", "GetTaskPushNotificationConfig", "taskId", "t"},
	{"GET", "/tasks/t/pushNotificationConfigs", "", "ListTaskPushNotificationConfigs", "nextPageToken", ""},
	{"GET", "/acme/tasks/t/pushNotificationConfigs", "", "ListTaskPushNotificationConfigs", "nextPageToken", ""},
	{"DELETE", "/tasks/t/pushNotificationConfigs/c", "", "DeleteTaskPushNotificationConfig", "x", nil},
	{"DELETE", "/acme/tasks/t/pushNotificationConfigs/c", "", "DeleteTaskPushNotificationConfig", "x", nil},
	{"GET", "/extendedAgentCard", "", "GetExtendedAgentCard", "name", "extended"},
	{"GET", "/acme/extendedAgentCard", "", "GetExtendedAgentCard", "name", "extended"},

	{"POST", "/mesh/v1/agents", `{"card":{"name":"a"}}`, "RegisterAgent", "leaseId", "lease-1"},
	{"GET", "/mesh/v1/agents", "", "ListAgents", "agents.0.name", "main"},
	{"GET", "/mesh/v1/agents/main", "", "GetAgent", "agent.name", "main"},
	{"DELETE", "/mesh/v1/agents/main?lease_id=x", "", "DeregisterAgent", "x", nil},
	{"POST", "/mesh/v1/agents/main:credentials", `{"credentials":[{"scheme":"bearer","value":"x"}]}`, "SetAgentCredentials", "agent.credentials.0.scheme", "bearer"},
	{"POST", "/mesh/v1/agents/a:invite", `{"hosts":["h"]}`, "InviteAgent", "token", "a/h"},
	{"GET", "/mesh/v1/agents:watch", "", "WatchAgents", "agent.name", "main"},
	{"GET", thread, "", "GetThread", "thread.seq", "3"},
	{"GET", "/mesh/v1/threads", "", "ListThreads", "threads.0.threadId", threadID},
	{"GET", "/mesh/v1/usage?by=day&user_id=ann&since=2026-01-01T00:00:00Z", "", "ListUsage", "sums.0.key", "day of ann"},
	{"GET", thread + "/events?after_seq=2", "", "ReadThread", "events.0.seq", "3"},
	{"GET", thread + "/events:follow?afterSeq=2", "", "FollowThread", "event.seq", "3"},
	{"POST", thread + ":share", `{"add":["bob"]}`, "ShareThread", "thread.participants.0", "bob"},
	{"DELETE", thread, "", "DeleteThread", "x", nil},
	{"POST", "/mesh/v1/threads:deleteBefore", `{"before":"2026-01-01T00:00:00Z","pageSize":7}`, "DeleteThreads", "deleted", float64(7)},
	{"GET", thread + "/executions?statuses=running&page_size=7", "", "ListExecutions", "executions.0.status", "running"},
	{"GET", thread + "/executions/x-1?below=true", "", "GetExecution", "execution.result", "x-1"},
	{"POST", thread + "/executions/x-1:cancel", `{"reason":"late"}`, "CancelExecution", "outcome", "late"},
	{"POST", thread + "/executions/x-1:tell", `{"text":"go "}`, "TellExecution", "instructionId", "go x-1"},
	{"POST", thread + "/handoff", `{"targetAgent":"b"}`, "StartHandoff", "x", nil},
	{"POST", thread + "/handoff:end", "", "EndHandoff", "x", nil},
	{"GET", thread + "/blobs/abc:status", "", "GetBlob", "received", "3"},
	{"GET", thread + "/handoff", "", "GetHandoff", "x", nil},
	{"GET", "/mesh/v1/skills", "", "ListSkills", "skills.0.name", "mail.send"},
	{"GET", "/mesh/v1/skills/mail.send", "", "GetSkill", "skill.name", "mail.send"},
	{"POST", "/mesh/v1/skills", `{"source":"text"}`, "CreateSkill", "skill.source", "text"},
	{"POST", "/mesh/v1/skills:validate", `{"source":"text"}`, "ValidateSkill", "problems.0.detail", "4"},
	{"DELETE", "/mesh/v1/skills/mail.send", "", "DeleteSkill", "x", nil},
	{"GET", "/mesh/v1/skills:domains?patterns=mail.*", "", "ListSkillDomains", "domains.0.name", "mail.*"},
	{"POST", "/mesh/v1/skills:reload", `{}`, "ReloadSkills", "skills", float64(7)},
	{"POST", "/mesh/v1/skills/mail.send:run", `{"arguments":{"to":"bob"}}`, "RunSkill", "content", "mail.send to bob"},
	{"GET", "/mesh/v1/skills:runs?name=mail.send", "", "ListSkillRuns", "runs.0.skill", "mail.send"},
	{"GET", "/mesh/v1/skills:breakers?page_size=3&page_token=x", "", "ListBreakers", "breakers.0.skill", "x"},
	{"POST", "/mesh/v1/skills/mail.send:resetBreaker", `{}`, "ResetBreaker", "before.skill", "mail.send"},
	{"GET", "/mesh/v1/skills:watch", "", "WatchSkills", "kind", "KIND_SYNCED"},
	{"PUT", "/mesh/v1/state/tasks/a%2Fb", `{"data":"aGk="}`, "PutState", "version", "1"},
	{"GET", "/mesh/v1/state/tasks/a%2Fb", "", "GetState", "value.key", "a/b"},
	{"GET", "/mesh/v1/state/tasks?prefix=a", "", "ListState", "more", false},
	{"DELETE", "/mesh/v1/state/tasks/a%2Fb", "", "DeleteState", "x", nil},
	{"GET", "/mesh/v1/access", "", "GetAccess", "roles.0", "user"},
	{"GET", "/mesh/v1/audit?filter.user_id=bob", "", "ListAuditRecords", "records.0.userId", "bob"},
	{"GET", "/mesh/v1/alarms", "", "ListAlarms", "alarms.0.setting", "tokens"},
	{"GET", "/mesh/v1/tenants", "", "ListTenants", "tenants.0.tenant", "acme"},
	{"GET", "/mesh/v1/audit:follow?after_seq=4", "", "FollowAuditRecords", "record.seq", "5"},
	{"GET", "/mesh/v1/audit:trail?thread_id=" + threadID + "&kinds=KIND_CALL&since=2026-01-02T03:04:05Z", "", "ListAuditTrail", "entries.0.time", "2026-01-02T03:04:05Z"},
	{"POST", "/mesh/v1/users:erase", `{"userId":"bob","countOnly":true}`, "EraseUser", "erased.0.kind", "bob"},
	{"POST", "/mesh/v1/users:revoke", `{"userId":"bob"}`, "RevokeUser", "revokedAt", "1970-01-01T00:00:03Z"},
}

// S4-051: the thread of a path is in the call's metadata (the node refuses
// calls where it is not). S4-023: streams are server-sent events.
func TestEveryRouteReachesItsMethod(t *testing.T) {
	s := start(t, rest.Options{})
	for _, tt := range routes {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			s := *s
			s.t = t
			resp := s.do(tt.method, tt.path, tt.body)
			var answer map[string]any
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				answer = s.stream(resp).must().data
			} else {
				answer = s.read(resp)
			}
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("code %d, want 200: %v", resp.StatusCode, answer)
			}
			if got := get(answer, tt.at); got != tt.want {
				t.Errorf("%s is %v, want %v; the answer is %v", tt.at, got, tt.want, answer)
			}
			if _, ok := s.node.call(tt.rpc); !ok {
				t.Errorf("%s was not called", tt.rpc)
			}
			if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options %q, want nosniff", got)
			}
			if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("Access-Control-Allow-Origin %q, want none", got)
			}
		})
	}
}

// A binding that is added to a proto must be added to the table above.
func TestTheTableOfRoutesIsComplete(t *testing.T) {
	tested := map[string]int{}
	for _, r := range routes {
		tested[r.rpc]++
	}
	complete := func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				if rule == nil {
					continue
				}
				if want := 1 + len(rule.GetAdditionalBindings()); tested[string(m.Name())] < want {
					t.Errorf("%s has %d bindings, and %d are tested", m.FullName(), want, tested[string(m.Name())])
				}
			}
		}
		return true
	}
	complete(a2apb.File_a2av1_proto)
	protoregistry.GlobalFiles.RangeFilesByPackage("mesh.v1", complete)
}

// A misspelled filter leaves nothing out: parameters that a route of the mesh does not have are
// refused by their name, at every route whose request is its query. A2A ignores them.
func TestAParameterThatIsNotThereIsNamed(t *testing.T) {
	s := start(t, rest.Options{})
	tried := 0
	for _, tt := range routes {
		ours := strings.HasPrefix(tt.path, "/mesh/v1/")
		if ours && tt.method != "GET" && tt.method != "DELETE" || !ours && tt.method != "GET" {
			continue
		}
		tried++
		sep := "?"
		if strings.Contains(tt.path, "?") {
			sep = "&"
		}
		for _, name := range []string{"nope", "nope.user_id", "thread_id.nope", "filter.nope", "nope[a]"} {
			if !ours {
				if resp := s.do(tt.method, tt.path+sep+name+"=1", ""); resp.StatusCode != 200 {
					t.Errorf("%s with %s: %d, want 200", tt.path, name, resp.StatusCode)
				}
				continue
			}
			e := s.errorOf(s.do(tt.method, tt.path+sep+name+"=1", ""), 400, "INVALID_ARGUMENT")
			if said := fmt.Sprint(e["message"]); !strings.HasPrefix(said, name+": there is no such parameter; the request may have ") {
				t.Errorf("%s with %s: %s", tt.path, name, said)
			}
		}
		if ours {
			if resp := s.do(tt.method, tt.path+sep+"A2A-Version=1.0", ""); resp.StatusCode == 400 {
				t.Errorf("%s with A2A-Version: %d", tt.path, resp.StatusCode)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d routes", tried)
	}
}

// finding U10: a parameter without a value is as if it were not there, whatever its type.
func TestAParameterWithoutAValueIsAsIfItWereNotThere(t *testing.T) {
	s := start(t, rest.Options{})
	tried := 0
	for _, tt := range routes {
		if tt.method != "GET" || strings.Contains(tt.path, "?") {
			continue
		}
		for _, name := range []string{"page_size", "pageSize", "historyLength", "includeArtifacts", "status", "pageToken"} {
			want := s.do("GET", tt.path+"?"+name+"=1", "").StatusCode != 400
			if got := s.do("GET", tt.path+"?"+name+"=", ""); want && got.StatusCode != 200 {
				t.Errorf("%s with an empty %s: %d, want 200", tt.path, name, got.StatusCode)
			}
			tried++
		}
	}
	if tried < 60 {
		t.Errorf("only %d were tried", tried)
	}
	for _, query := range []string{"pageSize=%zz", "pageSize=&pageSize=x", "pageToken=;"} {
		s.errorOf(s.do("GET", "/tasks?"+query, ""), 400, "INVALID_ARGUMENT")
	}
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	s := start(t, rest.Options{})
	e := s.errorOf(s.do("GET", "/no/such", ""), 404, "NOT_FOUND")
	if want := "there is nothing at /no/such; /openapi.json lists all paths"; e["message"] != want {
		t.Errorf("message %q, want %q", e["message"], want)
	}
	for path, want := range map[string]string{
		"/message:send":           "POST",
		"/tasks/task-1:subscribe": "GET, POST",
		"/mesh/v1/state/tasks/a":  "GET, PUT, DELETE",
		"/mesh/v1/agents":         "GET, POST",
		"/healthz":                "GET, HEAD",
	} {
		resp := s.do("PATCH", path, "")
		e := s.errorOf(resp, 405, "UNIMPLEMENTED")
		if got := resp.Header.Get("Allow"); got != want {
			t.Errorf("PATCH %s: Allow is %q, want %q; %v", path, got, want, e["message"])
		}
	}
	for _, path := range []string{"/:subscribe", "/tasks/%zz", "/mesh/v1/unknown", "/message:forget"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != 404 && resp.StatusCode != 400 {
			t.Errorf("GET %s: %d %s, want 404 or 400", path, resp.StatusCode, body)
		}
	}
	if n := len(s.node.calls); n != 0 {
		t.Errorf("the node was called %d times: %v", n, s.node.calls)
	}
}

// A2A v1.0 §3.1.4: the four fields of ListTasks are there also when empty;
// within a task, no list means that it was not asked for.
func TestListsAreNeverMissing(t *testing.T) {
	s := start(t, rest.Options{})
	for path, want := range map[string]string{
		"/tasks":                           "map[nextPageToken: pageSize:0 tasks:[] totalSize:0]",
		"/tasks?contextId=c":               "map[nextPageToken: pageSize:0 tasks:[map[id:task-1]] totalSize:1]",
		"/tasks/t/pushNotificationConfigs": "map[configs:[] nextPageToken:]",
		"/mesh/v1/agents?tag=none":         "map[agents:[]]",
		"/tasks/task-1":                    "map[id:task-1 status:map[state:TASK_STATE_WORKING]]",
	} {
		if got := fmt.Sprint(s.read(s.do("GET", path, ""))); got != want {
			t.Errorf("GET %s: %s, want %s", path, got, want)
		}
	}
}

// A2A v1.0.1 §11.1: the media type of A2A is used with those who name it.
func TestTheMediaTypeIsTheClients(t *testing.T) {
	s := start(t, rest.Options{})
	for _, tt := range []struct{ contentType, accept, want string }{
		{"application/json", "", "application/json"},
		{"application/json; charset=utf-8", "*/*", "application/json"},
		{"application/a2a+json", "", "application/a2a+json"},
		{"application/a2a+json; charset=utf-8", "", "application/a2a+json"},
		{"application/json", "text/html, application/a2a+json;q=0.9", "application/a2a+json"},
	} {
		resp := s.do("POST", "/message:send", say("hi"), "Content-Type", tt.contentType, "Accept", tt.accept)
		if got := resp.Header.Get("Content-Type"); got != tt.want || resp.StatusCode != 200 {
			t.Errorf("%+v: %d with %q", tt, resp.StatusCode, got)
		}
	}
	// Errors are application/json for everyone.
	s.errorOf(s.do("GET", "/tasks/none", "", "Accept", "application/a2a+json"), 404, "NOT_FOUND")
}
