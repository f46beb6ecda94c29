package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/skill/mcp"
)

// who is the key of the caller in a request's context, as a gateway has one.
type who struct{}

// A backend has some skills, and shows each caller its own.
type backend struct {
	skills map[string][]*skill.Skill // by caller
	// hanging and canceled are told of calls of "tasks.hang".
	hanging, canceled chan struct{}

	mu            sync.Mutex
	runs, replies []string
	// completed are the skills whose schemas were asked for.
	completed []string
}

func (b *backend) List(ctx context.Context) ([]*skill.Skill, error) {
	if ctx.Value(who{}) == "broken" {
		return nil, errors.New("secret trouble")
	}
	return slices.Clone(b.skills[ctx.Value(who{}).(string)]), nil
}

// Complete gives the skills that were asked for a schema.
func (b *backend) Complete(ctx context.Context, names []string) ([]*skill.Skill, error) {
	var out []*skill.Skill
	for _, s := range b.skills[ctx.Value(who{}).(string)] {
		if slices.Contains(names, s.Name) {
			whole := *s
			whole.Schema = json.RawMessage(`{"type":"object","title":"` + s.Name + `"}`)
			out = append(out, &whole)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.completed = append(b.completed, names...)
	return out, nil
}

func (b *backend) Run(ctx context.Context, call *mcp.Call) (*mcp.Outcome, error) {
	caller := ctx.Value(who{}).(string)
	b.mu.Lock()
	b.runs = append(b.runs, fmt.Sprintf("%s %s %s %s", caller, call.Skill, compact(call.Args), call.RequestID))
	if call.Reply != "" {
		b.replies = append(b.replies, fmt.Sprintf("%s %s %v", caller, call.Reply, call.ReplyTo == mcp.QuestionID("May I send it?")))
	}
	b.mu.Unlock()
	switch call.Skill {
	case "tasks.create":
		return &mcp.Outcome{Text: "Created.", Files: []string{"a.txt"}, Metadata: map[string]any{"n": 1.0}, Task: "t-1"}, nil
	case "tasks.fail":
		return &mcp.Outcome{Text: "The disk is full.", Failed: true}, nil
	case "mail.send":
		switch call.Reply {
		case "Yes":
			return &mcp.Outcome{Text: "Sent.", Task: "t-2"}, nil
		case "No":
			return &mcp.Outcome{Text: "Refused.", Failed: true, Task: "t-2"}, nil
		}
		return &mcp.Outcome{Asks: "May I send it?", Approval: true, Task: "t-2"}, nil
	case "tasks.deny":
		return nil, mesh.Errorf(mesh.Denied, "x", "You may not do that")
	case "tasks.wrong":
		return nil, mesh.InvalidField("x", "title", "is missing")
	case "tasks.bug":
		return nil, errors.New("secret trouble")
	case "tasks.panic":
		panic("secret trouble")
	case "tasks.step":
		for _, p := range []skill.Progress{{Text: "on", Done: 2, Total: 5}, {Text: "on"}, {Text: "on", Done: 7, Total: 9}} {
			call.Progress(p)
		}
		return &mcp.Outcome{Text: "Done."}, nil
	case "tasks.hang":
		close(b.hanging)
		<-ctx.Done()
		b.canceled <- struct{}{}
		return nil, ctx.Err()
	}
	return nil, mesh.Errorf(mesh.NotFound, "x", "There is none")
}

// compact returns v as JSON.
func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func sample(name, access string, approval bool) *skill.Skill {
	domain, act, _ := strings.Cut(name, ".")
	return &skill.Skill{Name: name, Domain: domain, Action: act, Description: "Does " + name, Access: access, RequiresApproval: approval,
		Parameters: []skill.Parameter{{Name: "title", Type: "string", Required: true}}, Body: "b"}
}

// offer serves the backend as a gateway would, which takes the caller from a
// header, and returns its URL.
func offer(t *testing.T, b *backend, o mcp.HandlerOptions) string {
	t.Helper()
	h := mcp.NewHandler(b, func(ctx context.Context) (string, error) { return ctx.Value(who{}).(string), nil }, o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), who{}, r.Header.Get("Caller"))))
	}))
	t.Cleanup(func() {
		h.Close()
		s.Close()
		h.Wait()
	})
	return s.URL
}

// as adds the caller to requests.
type as string

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Caller", string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects a client of the official SDK, of the newest version of the
// protocol if none is given.
func connect(t *testing.T, url, caller, version string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as(caller)}},
		&sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s
}

// versions are all that the SDK speaks.
var versions = sdk.SupportedProtocolVersions()

func TestEachCallerSeesItsSkillsAsTools(t *testing.T) {
	tool := sample("box.tool", skill.AccessWrite, false)
	tool.Schema = json.RawMessage(`{"type": "object", "properties": {"repoName": {"type": "string"}}}`)
	url := offer(t, &backend{skills: map[string][]*skill.Skill{
		"ann": {sample("tasks.create", skill.AccessWrite, false), sample("mail.send", skill.AccessWrite, true), sample("tasks.get", skill.AccessRead, false)},
		"bob": {tool},
	}}, mcp.HandlerOptions{})
	const schema = `{"additionalProperties":false,"properties":{"title":{"type":"string"}},"required":["title"],"type":"object"}`
	for _, version := range versions {
		for caller, want := range map[string][]string{
			"ann": {
				`mail-send Does mail.send read=false destructive=true ` + schema,
				`tasks-create Does tasks.create read=false destructive=? ` + schema,
				`tasks-get Does tasks.get read=true destructive=false ` + schema,
			},
			"bob": {`box-tool Does box.tool read=false destructive=? {"properties":{"repoName":{"type":"string"}},"type":"object"}`},
			"eve": nil,
		} {
			var got []string
			for tool, err := range connect(t, url, caller, version).Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				destructive := "?"
				if d := tool.Annotations.DestructiveHint; d != nil {
					destructive = fmt.Sprint(*d)
				}
				got = append(got, fmt.Sprintf("%s %s read=%v destructive=%s %s", tool.Name, tool.Description, tool.Annotations.ReadOnlyHint, destructive, compact(tool.InputSchema)))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, protocol %s: %s", caller, version, diff)
			}
		}
	}
}

func TestTenThousandSkillsComeInPages(t *testing.T) {
	b := &backend{skills: map[string][]*skill.Skill{}}
	for i := range 10_000 {
		b.skills["ann"] = append(b.skills["ann"], sample(fmt.Sprintf("domain%d.action_%d", i%100, i), skill.AccessWrite, false))
	}
	session := connect(t, offer(t, b, mcp.HandlerOptions{}), "ann", "")
	name, seen := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`), map[string]bool{}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if !name.MatchString(tool.Name) || seen[tool.Name] {
			t.Fatalf("the name %s is refused by clients, or comes twice", tool.Name)
		}
		seen[tool.Name] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("there are %d tools", len(seen))
	}
	page, err := session.ListTools(t.Context(), nil)
	if err != nil || len(page.Tools) != mcp.DefaultPageSize || page.TTLMs == 0 || page.CacheScope != "private" {
		t.Errorf("a page has %d tools, and the error is %v", len(page.Tools), err)
	}
	// What is deleted between two pages hides no other.
	b.skills["ann"] = slices.DeleteFunc(b.skills["ann"], func(s *skill.Skill) bool {
		return command.ToolName(s.Name) == page.Tools[len(page.Tools)-1].Name
	})
	next, err := session.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: page.NextCursor})
	if err != nil || next.Tools[0].Name <= page.Tools[len(page.Tools)-1].Name || len(next.Tools) != mcp.DefaultPageSize {
		t.Errorf("the next page begins with %s, and the error is %v", next.Tools[0].Name, err)
	}
	var answer *jsonrpc.Error
	if _, err = session.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: "???"}); !errors.As(err, &answer) || answer.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("a cursor of somebody else: %v", err)
	}
}

// A skill whose name is too long for clients has a short one as a tool, under
// which it is called.
func TestLongNamesAreShortAsTools(t *testing.T) {
	first, second := "tasks.create_"+strings.Repeat("x", 57), "tasks.create_"+strings.Repeat("x", 56)+"y"
	for _, version := range versions {
		b := &backend{skills: map[string][]*skill.Skill{
			"ann": {sample(first, skill.AccessWrite, false), sample(second, skill.AccessWrite, false)}, "bob": nil,
		}}
		url := offer(t, b, mcp.HandlerOptions{})
		session := connect(t, url, "ann", version)
		page, err := session.ListTools(t.Context(), nil)
		if err != nil || len(page.Tools) != 2 {
			t.Fatalf("the tools are %+v, %v", page, err)
		}
		for _, tool := range page.Tools {
			if len(tool.Name) > 64 || tool.Title != first && tool.Title != second {
				t.Errorf("there is a tool %q with the title %q", tool.Name, tool.Title)
			}
			b.runs = nil
			if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name}); err == nil || len(b.runs) != 1 || !strings.HasPrefix(b.runs[0], "ann "+tool.Title+" ") {
				t.Errorf("a call of %s runs %q, and the error is %v", tool.Title, b.runs, err)
			}
		}
		// Who may not call the skill does not find it, whatever the name says.
		b.runs = nil
		_, err = connect(t, url, "bob", version).CallTool(t.Context(), &sdk.CallToolParams{Name: page.Tools[0].Name})
		if err == nil || !strings.Contains(err.Error(), "unknown tool") || len(b.runs) != 1 || strings.Contains(b.runs[0], "tasks.create") {
			t.Errorf("somebody else's call runs %q, and the error is %v", b.runs, err)
		}
	}
}

// Lists have no schemas: those that a page needs are fetched for it.
func TestOnlyTheSchemasOfThePageAreFetched(t *testing.T) {
	b := &backend{skills: map[string][]*skill.Skill{}}
	for _, name := range []string{"crm.a", "crm.b", "crm.c", "tasks.d"} {
		s := sample(name, skill.AccessWrite, false)
		if s.Domain == "crm" {
			s.Handler = mcp.HandlerName("crm")
		}
		b.skills["ann"] = append(b.skills["ann"], s)
	}
	session := connect(t, offer(t, b, mcp.HandlerOptions{PageSize: 2}), "ann", "")
	page, err := session.ListTools(t.Context(), nil)
	if err != nil || len(page.Tools) != 2 {
		t.Fatalf("a page has %+v, and the error is %v", page, err)
	}
	for _, tool := range page.Tools {
		if got := fmt.Sprint(tool.InputSchema); !strings.Contains(got, command.SkillName(tool.Name)) {
			t.Errorf("the schema of %s is %s", tool.Name, got)
		}
	}
	if !slices.Equal(b.completed, []string{"crm.a", "crm.b"}) {
		t.Errorf("schemas were fetched of %v", b.completed)
	}
	b.completed = nil
	page, err = session.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: page.NextCursor})
	if err != nil || len(page.Tools) != 2 || !slices.Equal(b.completed, []string{"crm.c"}) {
		t.Errorf("the next page has %+v with schemas of %v, and the error is %v", page, b.completed, err)
	}
}

func TestCallsRunThroughTheBackend(t *testing.T) {
	for _, version := range versions {
		b := &backend{}
		session := connect(t, offer(t, b, mcp.HandlerOptions{}), "ann", version)
		call := func(name string, meta sdk.Meta) string {
			t.Helper()
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"title": "x"}, Meta: meta})
			var answer *jsonrpc.Error
			switch {
			case errors.As(err, &answer):
				return fmt.Sprintf("%d %s", answer.Code, answer.Message)
			case err != nil:
				return err.Error()
			}
			out := res.Content[0].(*sdk.TextContent).Text
			if res.IsError {
				out = "error: " + out
			}
			if about := res.Meta[mcp.MetaResult]; about != nil {
				out += " " + compact(about)
			}
			if res.StructuredContent != nil {
				out += " " + compact(res.StructuredContent)
			}
			return out
		}
		for name, want := range map[string]string{
			"tasks-create": `Created.` + "\n\n" + `Files: a.txt {"files":["a.txt"],"task":"t-1"} {"n":1}`,
			"tasks.create": `Created.` + "\n\n" + `Files: a.txt {"files":["a.txt"],"task":"t-1"} {"n":1}`,
			"tasks-fail":   "error: The disk is full.",
			"tasks-deny":   "error: You may not do that",
			"tasks-wrong":  "error: title: is missing",
			"tasks-bug":    "-32603 internal error",
			"tasks-panic":  "-32603 internal error",
			"tasks-none":   "-32602 unknown tool 'tasks-none'; list the tools",
			"mail-send": "error: Not done yet: the user has to approve it first. The question is:\nMay I send it?\n\n" +
				"The user's answer goes to task t-2, as by: mesh send --task t-2 \"Yes\". The skill then runs as it was called; do not call it again for that." +
				` {"task":"t-2"}`,
		} {
			if got := call(name, nil); got != want {
				t.Errorf("%s, protocol %s: %s\nwant %s", name, version, got, want)
			}
		}
		if got := call("tasks-fail", sdk.Meta{mcp.MetaKey: "two words"}); !strings.HasPrefix(got, "-32602 ") {
			t.Errorf("a bad key: %s", got)
		}
		b.runs = nil
		call("tasks-fail", sdk.Meta{mcp.MetaKey: "key-9"})
		call("tasks-fail", nil)
		call("tasks-fail", nil)
		if b.runs[0] != `ann tasks.fail {"title":"x"} key-9` || b.runs[1] == b.runs[2] || strings.HasSuffix(b.runs[1], " ") {
			t.Errorf("the runs are %q", b.runs)
		}
	}
}

// Finding N10: in every version, a call that its client cancels is cancelled.
func TestACallEndsWithItsClient(t *testing.T) {
	for _, version := range versions {
		b := &backend{hanging: make(chan struct{}), canceled: make(chan struct{}, 1)}
		session := connect(t, offer(t, b, mcp.HandlerOptions{}), "ann", version)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "tasks-hang"})
			done <- err
		}()
		<-b.hanging
		cancel()
		<-b.canceled
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("protocol %s: error is %v", version, err)
		}
	}
}

func TestWhatIsWrongInsideStaysInside(t *testing.T) {
	session := connect(t, offer(t, &backend{}, mcp.HandlerOptions{}), "broken", "")
	if _, err := session.ListTools(t.Context(), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error is %v", err)
	}
}

func TestRequestsThatAreNoneAreRefused(t *testing.T) {
	url := offer(t, &backend{}, mcp.HandlerOptions{})
	for body, want := range map[string]int{
		"{":                        http.StatusBadRequest,
		strings.Repeat(" ", 2<<20): http.StatusRequestEntityTooLarge,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tasks-create","arguments":[1]}}`: http.StatusOK,
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := as("ann").RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Error *jsonrpc.Error }
		_ = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
		if res.StatusCode != want || want == http.StatusOK && (answer.Error == nil || answer.Error.Code != jsonrpc.CodeInvalidParams) {
			t.Errorf("%.60s is answered with %d, %v", body, res.StatusCode, answer.Error)
		}
	}
	res, err := as("ann").RoundTrip(httptest.NewRequest(http.MethodGet, url, nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %d", res.StatusCode)
	}
}

// One mesh uses the skills of another, and not those that the other has from
// elsewhere.
func TestAMeshIsAServerForAnother(t *testing.T) {
	foreign := sample("box.tool", skill.AccessWrite, false)
	foreign.Handler = mcp.HandlerName("box")
	b := &backend{skills: map[string][]*skill.Skill{"ann": {sample("tasks.create", skill.AccessWrite, false), sample("mail.send", skill.AccessWrite, true), foreign}}}
	m := run(t, map[string]mcp.Server{"far": {URL: offer(t, b, mcp.HandlerOptions{}), Headers: map[string]string{"Caller": "ann"}}}, mcp.Options{})
	s := m.awaitSkill(t, "far.tasks_create")
	if diff := cmp.Diff([]skill.Parameter{{Name: "title", Type: "string", Required: true}}, s.Parameters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"far.mail_send", "far.tasks_create"}, m.names()); diff != "" {
		t.Errorf("tools of others are passed on: %s", diff)
	}
	if send := m.awaitSkill(t, "far.mail_send"); !send.RequiresApproval {
		t.Error("the approval is lost on the way")
	}
	if r := m.does(t, "far.tasks_create", map[string]any{"title": "x"}); r.Failed() || r.Content != "Created.\n\nFiles: a.txt" {
		t.Errorf("it answers %+v", r)
	}
	if r := m.does(t, "far.mail_send", map[string]any{"title": "x"}); !r.Failed() || !strings.Contains(r.Content, "May I send it?") {
		t.Errorf("it answers %+v", r)
	}
	if want := `ann tasks.create {"title":"x"} key-1`; b.runs[0] != want {
		t.Errorf("the run is %s, want %s", b.runs[0], want)
	}
}
