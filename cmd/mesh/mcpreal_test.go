package main

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
)

// The tools of an MCP server, which is a process of its own, are listed as
// skills, and agents call them through either interface.
func TestToolsOfAnMCPServerAreSkillsOfTheMesh(t *testing.T) {
	for _, way := range []struct{ face, source string }{{"cli", mesh.SourceCommand}, {"json", mesh.SourceUseSkill}} {
		t.Run(way.face, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "mesh.yaml"), mcpYAML(t, nil))
			m := up(t, dir, "--skill-interface", way.face)
			m.awaitSkill("words.lookup")
			list := m.mesh("skills", "list", "--domain", "words").succeeds(t)
			for _, name := range []string{"words.lookup", "words.break", "words.print"} {
				if !strings.Contains(list, name) {
					t.Errorf("%s is not in the list:\n%s", name, list)
				}
			}
			id := mesh.NewThreadID()
			h := speaker(speakGRPC).complete(t, m, id, `Ask worker to look up the word "pier" in the glossary`)
			if !strings.Contains(h.text, "The word pier means harbour.") {
				t.Errorf("heard %q", h.text)
			}
			log := m.log(id)
			for _, e := range log {
				if c := e.GetSkillCalled(); c != nil && (c.GetSource() != way.source || c.GetVersion() == "" || e.GetActor() != "agent:worker") {
					t.Errorf("%s called it by %q in version %q", e.GetActor(), c.GetSource(), c.GetVersion())
				}
			}
			if calls := madeCalls(log); !slices.Equal(calls, []string{`words.lookup {"word":"pier"}`}) {
				t.Errorf("called %q", calls)
			}
		})
	}
}

// S3-047, S3-048, S3-116: a tool that fails five times is stopped, and only
// that one, also after a restart (S3-050, S3-051).
func TestTheBreakerStopsAToolThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), mcpYAML(t, nil))
	m := up(t, dir)
	m.awaitSkill("words.break")
	for n := range 6 {
		f := m.mesh("skills", "run", "words.break")
		want := "the glossary is broken"
		if n == 5 {
			want = "'words.break' is temporarily unavailable. Please try again later."
		}
		if f.code != exitFailure || !strings.Contains(f.stderr, want) {
			t.Errorf("call %d: %+v, want %q", n+1, f, want)
		}
	}
	m.mesh("skills", "run", "words.lookup", "--word", "pier").succeeds(t)
	m.kill9()
	again := up(t, dir)
	again.awaitSkill("words.break")
	if f := again.mesh("skills", "run", "words.break"); !strings.Contains(f.stderr, "temporarily unavailable") {
		t.Errorf("after the restart: %+v", f)
	}
}

// An agent calls no tool that its grant does not name, whatever its model wants.
func TestAnAgentCallsOnlyToolsOfItsGrant(t *testing.T) {
	t.Parallel()
	model := startScripted(t, func(req *modelRequest) modelReply {
		_, after := req.since()
		switch consults := len(req.Tools) > 0; {
		case len(after) > 0:
			return modelReply{text: "I was told: " + string(after[len(after)-1].Content)}
		case consults:
			return modelReply{calls: []modelCall{{"consult_agent", map[string]any{"agent": "tasks", "task": "look up pier"}}}}
		}
		return modelReply{text: "```cmd\nwords.lookup --word pier\n```\n"}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), mcpYAML(t, nil))
	m := upWith(t, dir, model.env())
	m.awaitSkill("words.lookup")
	id := mesh.NewThreadID()
	h := speaker(speakGRPC).complete(t, m, id, "Look up pier")
	if calls := madeCalls(m.log(id)); len(calls) > 0 || strings.Contains(h.text, "harbour") {
		t.Errorf("called %q and said %q", calls, h.text)
	}
	refused := slices.ContainsFunc(model.asked(), func(r *modelRequest) bool {
		return strings.Contains(r.text(), "[Command Result: words.lookup]\nError:")
	})
	if !refused {
		t.Errorf("the agent was not told; it said %q", h.text)
	}
}

// bearer adds the token to each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

// connect makes the official client a client of the mesh's own server.
func (p person) connect(ctx context.Context) (*mcpsdk.ClientSession, error) {
	client := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(ctx, &mcpsdk.StreamableClientTransport{
		Endpoint: "http://" + p.http + "/mcp", HTTPClient: &http.Client{Transport: bearer{p.token}}, MaxRetries: -1,
	}, nil)
	if err == nil {
		p.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// tools are the names of the tools that the person is offered.
func (p person) tools(ctx context.Context, s *mcpsdk.ClientSession) []string {
	p.t.Helper()
	var names []string
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// callTool calls a tool and returns what it says.
func (p person) callTool(ctx context.Context, s *mcpsdk.ClientSession, name string, args map[string]any) (text string, failed bool) {
	p.t.Helper()
	res, err := s.CallTool(ctx, &mcpsdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range res.Content {
		if c, ok := c.(*mcpsdk.TextContent); ok {
			text += c.Text
		}
	}
	return text, res.IsError
}

// The mesh is an MCP server for who has a token: each sees and changes what is
// of the own tenant, and who has a wrong one sees nothing.
func TestTheMeshIsAnMCPServerForEachTenant(t *testing.T) {
	t.Parallel()
	ann, bob, _ := upWithTokens(t, "mcp: {offer: true}")
	ctx := timely(t)
	ann.mesh("skills", "new", "acme.plan", "--description", "Plan the week", "--mesh").succeeds(t)

	for _, token := range []string{"", tokenOf("eve")} {
		// It is told by HTTP, where MCP clients look for it.
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+ann.http+"/mcp", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: bearer{token}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("the token %q is answered %d", token, resp.StatusCode)
		}
		if _, err := (person{ann.realMesh, token}).connect(ctx); err == nil {
			t.Errorf("the token %q is let in", token)
		}
	}
	anns, err := ann.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	bobs, err := bob.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := ann.tools(ctx, anns), bob.tools(ctx, bobs)
	if !slices.Contains(mine, "mail-send") || !slices.Contains(mine, "acme-plan") || !slices.Contains(theirs, "mail-send") || slices.Contains(theirs, "acme-plan") {
		t.Errorf("ann is offered %v, bob %v", mine, theirs)
	}
	if text, failed := ann.callTool(ctx, anns, "tasks-create", map[string]any{"title": "Buy the rival"}); failed || !strings.Contains(text, "Buy the rival") {
		t.Errorf("created: %s", text)
	}
	if text, _ := ann.callTool(ctx, anns, "tasks-search", map[string]any{}); !strings.Contains(text, "Buy the rival") {
		t.Errorf("ann found %s", text)
	}
	if text, failed := bob.callTool(ctx, bobs, "tasks-search", map[string]any{}); failed || strings.Contains(text, "Buy the rival") {
		t.Errorf("bob found %s", text)
	}
	if _, err := bobs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "acme-plan", Arguments: map[string]any{}}); err == nil {
		t.Error("bob may call ann's skill")
	}
	if text, failed := ann.callTool(ctx, anns, "tasks-create", map[string]any{"titel": "x"}); !failed || !strings.Contains(text, "Unknown parameter: 'titel'") {
		t.Errorf("wrong arguments: %s", text)
	}
}
