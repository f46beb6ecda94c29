package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A knock is an attempt at a face of HTTP: by GET if it has no body. Which version of A2A it
// names, "" is that of who names none, and how the face tells errors.
type knock struct {
	path, body, version string
	errorOf             func([]byte) answered
}

// knocks are the malicious agent's attempts, at all faces of HTTP.
func (m *malice) knocks() map[string]knock {
	task, own, theirs := string(m.inv.Grant.Turn), m.inv.Thread.ID, string(mesh.NewExecutionID(m.thread))
	about := fmt.Sprintf(`"messageId": %q, "taskId": %q, "contextId": %q`, mesh.NewEventID(), task, own)
	yes := `{"message": {` + about + `, "role": "ROLE_USER", "parts": [{"text": "yes"}]}}`
	yes03 := `{"message": {` + about + `, "kind": "message", "role": "user", "parts": [{"kind": "text", "text": "yes"}]}}`
	return map[string]knock{
		"read another thread over REST":  {"/mesh/v1/threads/" + m.thread, "", "1.0", restError},
		"read tasks over REST":           {"/tasks", "", "1.0", restError},
		"read its task over REST":        {"/tasks/" + task, "", "1.0", restError},
		"answer for the user over REST":  {"/message:send", yes, "1.0", restError},
		"stream for the user over REST":  {"/message:stream", yes, "1.0", restError},
		"revoke a user over REST":        {"/mesh/v1/users:revoke", `{"userId": "ann"}`, "1.0", restError},
		"share the thread over REST":     {"/mesh/v1/threads/" + own + ":share", `{"add": ["mallory"]}`, "1.0", restError},
		"read the record over REST":      {"/mesh/v1/audit", "", "1.0", restError},
		"answer for the user over RPC":   {"/", rpcBody("SendMessage", yes), "1.0", rpcCode},
		"read tasks over RPC":            {"/", rpcBody("ListTasks", "{}"), "1.0", rpcCode},
		"read another's task over RPC":   {"/", rpcBody("GetTask", `{"id": "`+theirs+`"}`), "1.0", rpcCode},
		"cancel its turn over RPC":       {"/", rpcBody("CancelTask", `{"id": "`+task+`"}`), "1.0", rpcCode},
		"answer for the user over 0.3":   {"/", rpcBody("message/send", yes03), "", rpc03Error},
		"read another's task over 0.3":   {"/", rpcBody("tasks/get", `{"id": "`+theirs+`"}`), "", rpc03Error},
		"read its task over REST 0.3":    {"/v1/tasks/" + task, "", "", restError},
		"answer for the user, REST 0.3":  {"/v1/message:send", `{"request": {` + about + `, "role": "ROLE_USER", "content": [{"text": "yes"}]}}`, "", restError},
		"run a skill over MCP":           {"/mcp", rpcBody("tools/call", `{"name": "mail-wipe", "arguments": {}}`), "", mcpError},
		"have an agent of all over REST": {"/mesh/v1/agents", `{"name": "helper2", "endpoint": "127.0.0.1:1", "shared": true}`, "1.0", restError},
	}
}

// web tries the faces of HTTP with what the agent has, and with its grant in the place of a
// credential of a user, and of a ticket, with the secret that it has.
func (m *malice) web(ctx context.Context) {
	grant, holder := m.own[1], m.own[3]
	refused := 0
	for what, k := range m.knocks() {
		m.report(what, k.at(ctx, m.own...))
		for _, as := range [][]string{
			{"authorization", "Bearer " + grant}, {"authorization", "Bearer " + grant, rpc.KeyHolder, holder},
			{rpc.KeyTicket, grant, rpc.KeyHolder, holder}, {"authorization", "Bearer " + holder}, {rpc.KeyGrant, grant},
			{rpc.KeyUser, m.inv.User, rpc.KeyTenant, "a", rpc.KeyHolder, holder},
		} {
			err := k.at(ctx, as...)
			refused++ // they are told together; in another thread a grant is none, whoever shows it
			if elsewhere := as[0] == rpc.KeyGrant && strings.Contains(k.path, m.thread) && mesh.IsCode(err, mesh.NotFound); !elsewhere && !mesh.IsCode(err, mesh.Unauthenticated) {
				m.report(fmt.Sprintf("%s with %d of %s", what, len(as), as[0]), err)
			}
		}
	}
	m.report("replays over HTTP", mesh.Errorf(mesh.Unauthenticated, "web", "%d were refused", refused))
}

// at knocks at any node with the headers, and returns what it was told.
func (k knock) at(ctx context.Context, headers ...string) error {
	verb := http.MethodPost
	if k.body == "" {
		verb = http.MethodGet
	}
	doors := strings.Fields(os.Getenv(maliceWeb))
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+doors[rand.IntN(len(doors))]+k.path, strings.NewReader(k.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if k.version != "" {
		req.Header.Set("A2A-Version", k.version)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := event(res)
	if err != nil {
		return err
	}
	switch code := k.errorOf(answer).code; {
	case code == "" && res.StatusCode == http.StatusOK:
		return nil
	case code == "NOT_FOUND":
		return mesh.ThreadNotFound("web")
	case code == "PERMISSION_DENIED":
		return mesh.Errorf(mesh.Denied, "web", "denied")
	case code == "UNAUTHENTICATED":
		return mesh.Errorf(mesh.Unauthenticated, "web", "unknown")
	default:
		return mesh.Errorf(mesh.Unknown, "web", "%s: %s %s", k.path, code, res.Status)
	}
}
