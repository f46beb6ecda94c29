package node_test

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill/mcp"
)

// alternating sends each request to another node.
type alternating struct {
	m    *testMesh
	next atomic.Int64
	base http.Transport
}

func (a *alternating) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = a.m.All[int(a.next.Add(1))%len(a.m.All)].HTTP
	r.Host = r.URL.Host
	return a.base.RoundTrip(r)
}

// A client of MCP whose every request another node gets is asked, heard, answered and
// obeyed as by one node, in the version that needs no sessions; in an older one it can
// call: findings N2 and N10.
func TestInteropMCPMeetsTwoNodes(t *testing.T) {
	var runs atomic.Int64
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	worker := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		runs.Add(1)
		switch {
		case inv.Resumed:
			return words("Noted for " + inv.Text())
		case inv.SkillCall != nil && inv.SkillCall.Arguments["do"] == "ask":
			return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "For whom?"}, nil) }
		case inv.SkillCall != nil && inv.SkillCall.Arguments["do"] == "hang":
			return func(func(agent.Output, error) bool) {
				began <- struct{}{}
				<-ctx.Done()
				ended <- struct{}{}
			}
		}
		return words("Noted.")
	}
	cfg := config(t.TempDir())
	cfg.MCP.Offer = true
	m := startPair(t, nil, cfg, map[string]run{"main": echo, "worker": worker}, func(o *node.Options) {
		o.Skills = append(o.Skills, fstest.MapFS{"notes/add.md": {Data: []byte("---\nname: notes.add\ndescription: Adds a note.\n---\nAdd it.\n")}})
	})
	for _, version := range mcpsdk.SupportedProtocolVersions() {
		link := &alternating{m: m}
		t.Cleanup(link.base.CloseIdleConnections)
		var asked []string
		client := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, &mcpsdk.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
				asked = append(asked, r.Params.Message)
				return &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "Ann"}}, nil
			},
		})
		s, err := client.Connect(t.Context(), &mcpsdk.StreamableClientTransport{Endpoint: "http://any/mcp", HTTPClient: &http.Client{Transport: link}, MaxRetries: -1, DisableStandaloneSSE: true},
			&mcpsdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		call := func(ctx context.Context, do, key string) (*mcpsdk.CallToolResult, string, error) {
			res, err := s.CallTool(ctx, &mcpsdk.CallToolParams{Name: "notes-add", Arguments: map[string]any{"do": do}, Meta: mcpsdk.Meta{mcp.MetaKey: version + key}})
			if err != nil {
				return nil, "", err
			}
			return res, res.Content[0].(*mcpsdk.TextContent).Text, nil
		}
		// An answer that got lost is asked for again: one run.
		runs.Store(0)
		for range 4 {
			if _, text, err := call(t.Context(), "note", "once"); err != nil || text != "Noted." {
				t.Errorf("protocol %s: %q, %v", version, text, err)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("protocol %s: it ran %d times", version, runs.Load())
		}
		if version != mcpsdk.SupportedProtocolVersions()[0] {
			continue // a session is at one node
		}
		res, text, err := call(t.Context(), "ask", "asks")
		if err != nil || res.IsError || text != "Noted for Ann" || !slices.Equal(asked, []string{"For whom?"}) {
			t.Errorf("protocol %s: asked %q, told %q, %v", version, asked, text, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := call(ctx, "hang", "hangs")
			done <- err
		}()
		<-began
		cancel()
		<-ended
		if err := <-done; err == nil {
			t.Errorf("protocol %s: a call that was cancelled has a result", version)
		}
		res, _, err = call(t.Context(), "hang", "hangs")
		if err != nil || !res.IsError {
			t.Fatalf("protocol %s: again it is %+v, %v", version, res, err)
		}
		about, _ := res.Meta[mcp.MetaResult].(map[string]any)
		task, _ := about["task"].(string)
		thread, _ := mesh.ExecutionID(task).ThreadID()
		m.ended(t, thread, task)
	}
}
