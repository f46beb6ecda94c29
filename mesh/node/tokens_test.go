package node_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
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
