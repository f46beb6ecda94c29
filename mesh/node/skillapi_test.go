package node_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
)

// skilled starts a mesh with one skill, which the agent runs.
func skilled(t *testing.T, worker run) (*testMesh, meshv1.SkillServiceClient) {
	t.Helper()
	m := start(t, config(t.TempDir()), map[string]run{"main": echo, "worker": worker}, func(o *node.Options) {
		o.Skills = append(o.Skills, fstest.MapFS{"notes/add.md": {Data: []byte("---\nname: notes.add\ndescription: Adds a note.\n---\nAdd it.\n")}})
	})
	return m, meshv1.NewSkillServiceClient(m.conn)
}

// request makes a request over HTTP and returns the status and the text.
func (m *testMesh) request(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.web()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return resp.StatusCode, string(text)
}

// Whatever is sent to the skills' API is answered in its form, with the code for
// it and without a word about the inside.
func TestHostileRequestsToTheSkillsAPIAreRefused(t *testing.T) {
	texttest.Fixed(t)
	m, _ := skilled(t, echo)
	long := strings.Repeat("x", mesh.MaxBody)
	for name, tt := range map[string]struct {
		method, path, body string
		code               int
		words              string
	}{
		"an unknown skill":           {"POST", "/mesh/v1/skills/notes.absent:run", "{}", 404, "notes.absent"},
		"a name that is no name":     {"POST", "/mesh/v1/skills/%20:run", "{}", 404, "Skill not found"},
		"no JSON":                    {"POST", "/mesh/v1/skills/notes.add:run", "{", 400, ""},
		"arguments that are a list":  {"POST", "/mesh/v1/skills/notes.add:run", `{"arguments":[1]}`, 400, ""},
		"a body that is too long":    {"POST", "/mesh/v1/skills/notes.add:run", `{"arguments":{"a":"` + long + `"}}`, 413, "send less"},
		"a thread that is none":      {"POST", "/mesh/v1/skills/notes.add:run", `{"thread_id":"../x"}`, 400, "UUID"},
		"a source of its own":        {"POST", "/mesh/v1/skills/notes.add:run", `{"source":"schedule"}`, 400, "source"},
		"a forged token of skills":   {"GET", "/mesh/v1/skills?page_token=%25", "", 400, "page_token"},
		"a forged token of runs":     {"GET", "/mesh/v1/skills:runs?page_token=Li4vLi4", "", 400, "page_token"},
		"a forged token of breakers": {"GET", "/mesh/v1/skills:breakers?page_token=%25", "", 400, "page_token"},
		"a page below none":          {"GET", "/mesh/v1/skills:runs?page_size=-1", "", 400, "page_size"},
		"a page that is too large":   {"GET", "/mesh/v1/skills:breakers?page_size=2147483647", "", 400, "page_size"},
		"a size that is no number":   {"GET", "/mesh/v1/skills?page_size=many", "", 400, ""},
		"a breaker that is none":     {"POST", "/mesh/v1/skills/notes.absent:resetBreaker", "{}", 404, "notes.absent"},
		"no breakers":                {"GET", "/mesh/v1/skills:breakers", "", 200, "breakers"},
		"a breaker to reset":         {"POST", "/mesh/v1/skills/notes.add:resetBreaker", "{}", 200, ""},
		"an empty skill":             {"POST", "/mesh/v1/skills", "{}", 400, ""},
		"a folder outside":           {"GET", "/mesh/v1/skills/notes.add?file=..%2F..%2Fmesh.db", "", 404, ""},
	} {
		code, text := m.request(t, tt.method, tt.path, tt.body)
		if code != tt.code || !strings.Contains(text, tt.words) || strings.Contains(text, "internal error") || strings.Contains(text, m.data) {
			t.Errorf("%s: %d, %.300s; want %d with %q", name, code, text, tt.code, tt.words)
		}
	}
}

// A caller that leaves takes nothing with it: the run goes on, and the same
// request later finds it.
func TestACallerThatLeavesItsRunFindsItAgain(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	m, client := skilled(t, func(ctx context.Context, _ *agent.Invocation) iter.Seq2[agent.Output, error] {
		close(began) // a second run would panic
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return words("Noted.")
	})
	args, err := structpb.NewStruct(map[string]any{"text": strings.Repeat("x", 100<<10)})
	if err != nil {
		t.Fatal(err)
	}
	req := &meshv1.RunSkillRequest{Name: "notes.add", Arguments: args, RequestId: "once", ThreadId: mesh.NewThreadID()}
	ctx, leave := context.WithCancel(in(t, req.ThreadId))
	left := make(chan error, 1)
	go func() { // waited for below
		_, err := client.RunSkill(ctx, req)
		left <- rpc.FromStatus(err)
	}()
	<-began
	leave()
	if err := <-left; !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("who left was told %v", err)
	}
	// Nobody else's call with the same id finds it.
	other := mesh.WithCall(plain(t), mesh.Call{Thread: req.ThreadId, Principal: mesh.Principal{Tenant: "other"}})
	if res, err := meshv1.NewThreadServiceClient(m.conn).GetThread(other, &meshv1.GetThreadRequest{ThreadId: req.ThreadId}); err == nil {
		t.Errorf("another tenant reads the run: %v", res)
	}
	close(finish)
	res, err := client.RunSkill(in(t, req.ThreadId), req)
	if err != nil || res.GetThreadId() != req.ThreadId || !strings.Contains(res.GetContent(), "Noted.") {
		t.Errorf("the same request: %v, %v", res, err)
	}
}

// Somebody who watches and does not read holds nobody up, and sees the latest in
// the end.
func TestAWatcherThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	_, client := skilled(t, echo)
	watch, err := client.WatchSkills(plain(t), &meshv1.WatchSkillsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 60
	text := strings.Repeat("word ", 40)
	for i := range n {
		source := fmt.Sprintf("---\nname: workflows.job%02d\ndescription: %s\n---\nDo it.\n", i, text)
		if _, err := client.CreateSkill(plain(t), &meshv1.CreateSkillRequest{Source: source}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if _, err := client.DeleteSkill(plain(t), &meshv1.DeleteSkillRequest{Name: fmt.Sprintf("workflows.job%02d", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := map[string]bool{}
	// A node reads what another created a moment later than what it creates itself.
	for !seen[fmt.Sprintf("workflows.job%02d", n-1)] || shared.Pair() && len(seen) != n/2+1 {
		res, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch res.GetKind() {
		case meshv1.WatchSkillsResponse_KIND_PUT:
			seen[res.GetSkill().GetName()] = true
		case meshv1.WatchSkillsResponse_KIND_REMOVED:
			delete(seen, res.GetSkill().GetName())
		}
	}
	if len(seen) != n/2+1 || !seen["notes.add"] {
		t.Errorf("it knows %d skills: %v", len(seen), seen)
	}
}
