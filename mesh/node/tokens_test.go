package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// finding T10: whoever's token is taken away hears no more, whichever way it listens,
// and everybody else does.
func TestStreamsOfEveryFaceEndWithTheToken(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", userTokens(t)
	var working sync.WaitGroup
	working.Add(6)
	release := make(chan struct{})
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			working.Done()
			select {
			case <-release:
			case <-ctx.Done():
			}
			yield(agent.Text{Text: "the end"}, nil)
		}
	}})
	all, err := os.ReadFile(cfg.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	stays := userOf("REST, SSE")
	var kept []string
	for _, entry := range strings.SplitAfter(string(all), "]\n") {
		if strings.Contains(entry, strconv.Quote(stays)) {
			kept = append(kept, entry)
		}
	}
	ends := make(chan string, 6)
	for name, send := range map[string]func(user string) string{
		"gRPC, stream": func(user string) string {
			s, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(metadata.AppendToOutgoingContext(plain(t), bearer(user)...), say("wait"))
			return lastOf(s, err, func() any { return new(a2apb.StreamResponse) })
		},
		"gRPC 0.3, stream": func(user string) string {
			s, err := legacypb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(metadata.AppendToOutgoingContext(plain(t), bearer(user)...), legacySay("wait"))
			return lastOf(s, err, func() any { return new(legacypb.StreamResponse) })
		},
		"REST, SSE":         func(user string) string { return streamed(t, m, "/message:stream", v1Body, user) },
		"JSON-RPC, SSE":     func(user string) string { return streamed(t, m, "/", rpcBody("SendStreamingMessage", v1Body), user) },
		"REST 0.3, SSE":     func(user string) string { return streamed(t, m, "/v1/message:stream", v03RESTBody, user) },
		"JSON-RPC 0.3, SSE": func(user string) string { return streamed(t, m, "/", rpcBody("message/stream", v03Body), user) },
	} {
		go func() { ends <- name + ": " + send(userOf(name)) }()
	}
	working.Wait()
	if err := os.WriteFile(cfg.Tokens+".new", []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cfg.Tokens+".new", cfg.Tokens); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if end := <-ends; !strings.Contains(end, "the credential of this call was revoked") || strings.Contains(end, "the end") || strings.HasPrefix(end, "REST, SSE") {
			t.Errorf("a stream ended with %s", end)
		}
	}
	close(release)
	if end := <-ends; !strings.HasPrefix(end, "REST, SSE") || !strings.Contains(end, "the end") || strings.Contains(end, "revoked") {
		t.Errorf("the stream that stays ended with %s", end)
	}
}

// lastOf reads a stream to its end, which it returns.
func lastOf(s grpc.ClientStream, err error, into func() any) string {
	for err == nil {
		err = s.RecvMsg(into())
	}
	return err.Error()
}

// streamed posts a message and returns all that is answered.
func streamed(t *testing.T, m *testMesh, path, body, user string) string {
	_, answer := post(t, m, path, fmt.Sprintf(body, mesh.NewEventID(), "wait"), bearer(user)...)
	return answer
}

// finding T10: also whoever waits for an answer hears no more when its token is taken away,
// whichever way it asked, and everybody else does.
func TestCallsOfEveryFaceThatWaitEndWithTheToken(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", userTokens(t)
	release := make(chan struct{})
	var working sync.WaitGroup
	waiting := []string{"gRPC", "gRPC 0.3", "REST", "REST 0.3", "JSON-RPC", "JSON-RPC 0.3", "REST of an agent"}
	stays := waiting[0]
	working.Add(len(waiting))
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			working.Done()
			select {
			case <-release:
			case <-ctx.Done():
			}
			yield(agent.Text{Text: "the end"}, nil)
		}
	}})
	all, err := os.ReadFile(cfg.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, entry := range strings.SplitAfter(string(all), "]\n") {
		if strings.Contains(entry, strconv.Quote(userOf(stays))) {
			kept = append(kept, entry)
		}
	}
	ends := make(chan string, len(waiting))
	for _, name := range waiting {
		go func() { ends <- name + ": " + faces()[name](t, m, "wait", bearer(userOf(name))) }()
	}
	working.Wait()
	if err := os.WriteFile(cfg.Tokens+".new", []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cfg.Tokens+".new", cfg.Tokens); err != nil {
		t.Fatal(err)
	}
	for range len(waiting) - 1 {
		if end := <-ends; !strings.HasSuffix(end, ": UNAUTHENTICATED") || strings.HasPrefix(end, stays+":") {
			t.Errorf("a call ended with %s", end)
		}
	}
	close(release)
	if end := <-ends; end != stays+": OK" {
		t.Errorf("the call that stays ended with %s", end)
	}
}

// finding T10: a credential ends for itself: agents at work on what was said with a token that
// is taken away begin nothing more and hear nothing more, and settle what they had begun; what
// the same user said with another token goes on.
func TestATokenThatIsTakenAwayEndsItsOwnWorkAlone(t *testing.T) {
	entry := func(name string) string {
		return fmt.Sprintf("- {name: %s, hash: %q, tenant: acme, user: alice, roles: [user]}\n", name, auth.Hash("the-secret-of-"+name))
	}
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress = "tokens", filepath.Join(t.TempDir(), "tokens.yaml"), node.Egress{AllowHTTP: true, Allow: []string{"127.0.0.0/8"}}
	log := new(logbuffer.Buffer)
	if err := os.WriteFile(cfg.Tokens, []byte(entry("phone")+entry("laptop")), 0o600); err != nil {
		t.Fatal(err)
	}
	type result struct{ begun, returned, heard error }
	results := map[string]chan result{"phone": make(chan result, 1), "laptop": make(chan result, 1)}
	removed, ended := make(chan struct{}), make(chan struct{})
	var working sync.WaitGroup
	working.Add(2)
	var m *testMesh
	m = start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			record := func(b mesh.Body) error { _, err := inv.Mesh.Record(ctx, &mesh.Event{Body: b}); return err }
			if err := record(mesh.SkillCalled{Call: "1", Skill: "main.do", Args: "{}"}); err != nil {
				t.Error(err)
			}
			follow, err := meshv1.NewThreadServiceClient(m.conn).FollowThread(inv.Mesh.Context(ctx), &meshv1.FollowThreadRequest{ThreadId: inv.Grant.Thread})
			if err == nil {
				_, err = follow.Header()
			}
			if err != nil {
				t.Error(err)
			}
			working.Done()
			<-removed
			var r result
			if inv.Text() == "phone" {
				for r.heard == nil {
					_, r.heard = follow.Recv()
				}
				for err := error(nil); err == nil && ctx.Err() == nil; { // the agent's own node may be the last to know
					_, err = inv.Mesh.History(ctx, 1)
				}
				close(ended)
			}
			<-ended
			r.begun, r.returned = record(mesh.SkillCalled{Call: "2", Skill: "main.do", Args: "{}"}), record(mesh.SkillReturned{Call: "1"})
			results[inv.Text()] <- r
			yield(agent.Text{Text: "the end"}, nil)
		}
	}}, func(o *node.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	says := make(chan string, 1)
	hooks := map[string]*hook{"phone": newHook(t), "laptop": newHook(t)}
	go func() { says <- sentWith(t, m, "laptop", hooks["laptop"].URL) }()
	go sentWith(t, m, "phone", hooks["phone"].URL)
	working.Wait()
	if err := errors.Join(os.WriteFile(cfg.Tokens+".new", []byte(entry("laptop")), 0o600), os.Rename(cfg.Tokens+".new", cfg.Tokens)); err != nil {
		t.Fatal(err)
	}
	close(removed)
	if r := <-results["phone"]; !mesh.IsCode(r.begun, mesh.Unauthenticated) || r.returned != nil || !mesh.IsCode(rpc.FromStatus(r.heard), mesh.Unauthenticated) {
		t.Errorf("under the token that was taken away: begins: %v; returns: %v; hears: %v", r.begun, r.returned, r.heard)
	}
	if r := <-results["laptop"]; r.begun != nil || r.returned != nil {
		t.Errorf("under the other: begins: %v; returns: %v", r.begun, r.returned)
	}
	if end := <-says; !strings.Contains(end, "the end") {
		t.Errorf("the other stream ended with %s", end)
	}
	hooks["laptop"].until(t, "TASK_STATE_COMPLETED")
	eventually(t, func() error {
		if !strings.Contains(log.String(), "push notifications end with their credential") {
			return errors.New("the webhook goes on")
		}
		return nil
	})
	hooks["phone"].mu.Lock()
	defer hooks["phone"].mu.Unlock()
	if told := fmt.Sprint(hooks["phone"].got); strings.Contains(told, "the end") || strings.Contains(told, "TASK_STATE_COMPLETED") {
		t.Errorf("after its token was taken away, the webhook was told %s", told)
	}
}

// sentWith sends the name of the token with it, with a webhook, and returns all that is
// answered.
func sentWith(t *testing.T, m *testMesh, token, url string) string {
	body := strings.TrimSuffix(strings.TrimSpace(fmt.Sprintf(v1Body, mesh.NewEventID(), token)), "}") + fmt.Sprintf(`,"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, url)
	_, answer := post(t, m, "/message:stream", body, bearer(token)...)
	return answer
}
