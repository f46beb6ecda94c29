package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/oidc/oidctest"
)

// eventually calls try until it is nil.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// revoke has the credentials of alice not count, as who has the token.
func revoke(ctx context.Context, m *testMesh, token string) error {
	_, err := meshv1.NewAccessServiceClient(m.raw(m.t)).RevokeUser(metadata.AppendToOutgoingContext(ctx, header(token)...), &meshv1.RevokeUserRequest{UserId: "corp:alice"})
	return rpc.FromStatus(err)
}

// later is a token of the user that was issued in a few seconds, as clocks may have it.
func later(p *oidctest.Provider, user string, more map[string]any) string {
	now := time.Now().Add(10 * time.Second).Unix()
	claims := map[string]any{"iat": now, "nbf": now}
	for k, v := range more {
		claims[k] = v
	}
	return p.Token(user, claims)
}

// part of T10: what a tenant's admin revokes of a user ends, on all nodes, also after a
// restart: the user's streams over every face, and all that agents would begin for what
// the user said before; what they had begun they settle. Others go on, and so does the
// user with a new log-in.
func TestRevokingAUserEndsWhatIsDoneForThatOne(t *testing.T) {
	p := oidctest.Start(t)
	cfg := providers(t, p)
	cfg.Quotas.User.Turns = -1 // all of a user's work at once
	revoked, release, tried := make(chan struct{}), make(chan struct{}), make(chan map[string]error, 6)
	var working sync.WaitGroup
	working.Add(7)
	agents := map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			record := func(b mesh.Body) error { _, err := inv.Mesh.Record(ctx, &mesh.Event{Body: b}); return err }
			if inv.Text() == "wait" {
				if err := record(mesh.SkillCalled{Call: "1", Skill: "main.do", Args: "{}"}); err != nil {
					t.Error(err)
				}
				working.Done()
				select {
				case <-release:
				case <-revoked:
				case <-ctx.Done():
				}
			}
			if inv.Grant.User == "corp:alice" && inv.Text() == "wait" {
				results := map[string]error{"return": record(mesh.SkillReturned{Call: "1"})}
				_, results["read"] = inv.Mesh.History(ctx, 10)
				results["call"] = record(mesh.SkillCalled{Call: "2", Skill: "main.do", Args: "{}"})
				results["dispatch"] = record(mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(inv.Grant.Thread),
					Parent: inv.Grant.Execution, Kind: mesh.KindAgent, Agent: "other", User: inv.Grant.User, Text: "work"}})
				tried <- results
			}
			<-release
			yield(agent.Text{Text: "the end"}, nil)
		}
	}, "other": echo}
	m := start(t, cfg, agents)
	admin := p.Token("adam", map[string]any{"groups": []string{"admins"}})
	old := p.Token("alice", nil)
	ends := make(chan string, 7)
	streams := map[string]func(token string) string{
		"gRPC": func(token string) string {
			s, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(metadata.AppendToOutgoingContext(plain(t), header(token)...), say("wait"))
			return lastOf(s, err, func() any { return new(a2apb.StreamResponse) })
		},
		"gRPC 0.3": func(token string) string {
			s, err := legacypb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(metadata.AppendToOutgoingContext(plain(t), header(token)...), legacySay("wait"))
			return lastOf(s, err, func() any { return new(legacypb.StreamResponse) })
		},
	}
	for name, at := range map[string][2]string{"REST": {"/message:stream", v1Body}, "JSON-RPC": {"/", rpcBody("SendStreamingMessage", v1Body)},
		"REST 0.3": {"/v1/message:stream", v03RESTBody}, "JSON-RPC 0.3": {"/", rpcBody("message/stream", v03Body)}} {
		streams[name] = func(token string) string {
			_, answer := post(t, m, at[0], fmt.Sprintf(at[1], mesh.NewEventID(), "wait"), header(token)...)
			return answer
		}
	}
	for name, send := range streams {
		go func() { ends <- name + ": " + send(old) }()
	}
	bob := make(chan string, 1)
	go func() { bob <- streams["REST"](p.Token("bob", nil)) }()
	working.Wait()

	if err := revoke(plain(t), m, p.Token("mallory", nil)); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("somebody else revokes: %v", err)
	}
	if err := revoke(plain(t), m, admin); err != nil {
		t.Fatal(err)
	}
	for range streams {
		if end := <-ends; !strings.Contains(end, "the credential of this call was revoked") || strings.Contains(end, "the end") {
			t.Errorf("a stream ended with %s", end)
		}
	}
	hello := func(token string) string { return faces()["REST of an agent"](t, m, "hello", header(token)) }
	eventually(t, func() error { // until all nodes know
		for range 20 {
			if got := hello(old); got != "UNAUTHENTICATED" {
				return errors.New(got)
			}
		}
		return nil
	})
	close(revoked)
	for range streams {
		results := <-tried
		if results["return"] != nil {
			t.Errorf("a call that had begun returns: %v", results["return"])
		}
		for _, what := range []string{"read", "call", "dispatch"} {
			if !mesh.IsCode(results[what], mesh.Unauthenticated) {
				t.Errorf("%s: %v", what, results[what])
			}
		}
	}
	close(release)
	if end := <-bob; !strings.Contains(end, "the end") || strings.Contains(end, "revoked") {
		t.Errorf("another's stream ended with %s", end)
	}
	if got := hello(later(p, "alice", nil)); got != "OK" {
		t.Errorf("with a new log-in: %s", got)
	}
	m.Stop()

	m = start(t, cfg, agents)
	if got := faces()["gRPC"](t, m, "hello", header(old)); got != "UNAUTHENTICATED" {
		t.Errorf("after a restart: %s", got)
	}
	if got := faces()["gRPC"](t, m, "hello", header(p.Token("bob", nil))); got != "OK" {
		t.Errorf("another after a restart: %s", got)
	}
}
