package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill/mcp"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A witness hears of the effects of the tools of the server words. Who has told it to
// "finish X" has it say that X is enough; it is asked how often it heard X by "? X".
type witness struct {
	*httptest.Server
	mu    sync.Mutex
	heard map[string]int
	news  chan struct{}
}

func startWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{heard: map[string]int{}, news: make(chan struct{}, 1)}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		what, _ := io.ReadAll(r.Body)
		if asked, is := strings.CutPrefix(string(what), "? "); is {
			_, _ = fmt.Fprint(rw, w.times(asked))
			return
		}
		w.mu.Lock()
		w.heard[string(what)]++
		if w.heard["finish "+string(what)] > 0 {
			_, _ = fmt.Fprint(rw, "enough")
		}
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *witness) hear(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard[what]++
}

func (w *witness) times(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard[what]
}

// await waits until the witness has heard it.
func (w *witness) await(ctx context.Context, t *testing.T, what string) {
	t.Helper()
	for w.times(what) == 0 {
		select {
		case <-w.news:
		case <-ctx.Done():
			t.Fatalf("nobody was told %q", what)
		}
	}
}

// upMCP starts a mesh that has the server words, and is an MCP server itself.
func upMCP(t *testing.T) (*realMesh, *witness) {
	t.Helper()
	w, dir := startWitness(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), strings.Replace(mcpYAML(t, map[string]string{"MCP_TELL": w.URL, "MCP_TELL_ALL": "yes"}), "mcp:\n", "mcp:\n  offer: true\n", 1))
	m := up(t, dir)
	m.awaitSkill("words.erase")
	return m, w
}

// A mcpUser is a client of the official SDK, and what its user says and hears.
type mcpUser struct {
	*mcpsdk.ClientSession
	mesh    *realMesh
	says    *mcpsdk.ElicitResult // to whatever is asked
	asked   []string
	steps   chan float64
	version string
}

// over connects a client that speaks a version of MCP, over HTTP or to 'mesh mcp'.
func (m *realMesh) over(ctx context.Context, t *testing.T, way, version string, asks bool) *mcpUser {
	t.Helper()
	u := &mcpUser{mesh: m, steps: make(chan float64, 100), version: version}
	o := &mcpsdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcpsdk.ProgressNotificationClientRequest) { u.steps <- r.Params.Progress }}
	if asks {
		o.ElicitationHandler = func(_ context.Context, r *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
			u.asked = append(u.asked, r.Params.Message)
			return u.says, nil
		}
	}
	var link mcpsdk.Transport = &mcpsdk.StreamableClientTransport{Endpoint: "http://" + m.http + "/mcp", HTTPClient: &http.Client{Transport: bearer{}}, MaxRetries: -1}
	if way == "stdio" {
		link = &mcpsdk.CommandTransport{Command: m.bridge(t)}
	}
	var err error
	u.ClientSession, err = mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, o).Connect(ctx, link, &mcpsdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%s %s: %v", way, version, err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil && way == "stdio" {
			t.Errorf("mesh mcp ended with %v", err)
		}
	})
	return u
}

// bridge is 'mesh mcp' as a client would start it.
func (m *realMesh) bridge(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(m.cmd.Path, "mcp", "--addr", m.grpc)
	cmd.Env = append(slices.Clone(m.cmd.Env), asCommand+"=mesh")
	return cmd
}

// result is what a call was answered.
func (u *mcpUser) call(ctx context.Context, t *testing.T, tool string, args map[string]any, meta mcpsdk.Meta) *mcpsdk.CallToolResult {
	t.Helper()
	res, err := u.CallTool(ctx, &mcpsdk.CallToolParams{Name: tool, Arguments: args, Meta: meta})
	if err != nil {
		t.Fatalf("%s in %s: %v", tool, u.version, err)
	}
	return res
}

// log is the thread in which a call was logged.
func (u *mcpUser) log(t *testing.T, res *mcpsdk.CallToolResult) []*meshv1.Event {
	t.Helper()
	about, _ := res.Meta[mcp.MetaResult].(map[string]any)
	task, _ := about["task"].(string)
	id, ok := mesh.ExecutionID(task).ThreadID()
	if !ok {
		t.Fatalf("no task in %v", res.Meta)
	}
	return u.mesh.log(id)
}

func textOf(res *mcpsdk.CallToolResult) string {
	text := ""
	for _, c := range res.Content {
		if c, ok := c.(*mcpsdk.TextContent); ok {
			text += c.Text
		}
	}
	return text
}

// Clients of the official SDK use the mesh's tools in every version of MCP that it
// speaks, over HTTP and by 'mesh mcp': findings N2 and N10.
func TestInteropMCPOfTheGoSDK(t *testing.T) {
	t.Parallel()
	m, w := upMCP(t)
	for _, way := range []string{"http", "stdio"} {
		for _, version := range mcpsdk.SupportedProtocolVersions() {
			t.Run(way+" "+version, func(t *testing.T) {
				ctx := timely(t)
				u := m.over(ctx, t, way, version, true)
				word := way + version
				u.hearsAllKinds(ctx, t)
				u.hearsOfProgress(ctx, t, w, word)
				u.cancels(ctx, t, w, word)
				if version >= "2025-06-18" { // before, MCP has no word for asking
					u.approves(ctx, t, w, word)
				}
				u.isWrong(ctx, t)
				plain := m.over(ctx, t, way, version, false)
				if res := plain.call(ctx, t, "words-erase", map[string]any{"word": "plain " + word}, nil); !res.IsError || !strings.Contains(textOf(res), "mesh send --task") || w.times("erased plain "+word) != 0 {
					t.Errorf("who asks nobody was told %+v", textOf(res))
				}
			})
		}
	}
}

// hearsAllKinds: finding N10, images are no words, and structured content has its field.
func (u *mcpUser) hearsAllKinds(ctx context.Context, t *testing.T) {
	t.Helper()
	var tool *mcpsdk.Tool
	for one, err := range u.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if one.Name == "words-draw" {
			tool = one
		}
	}
	if tool == nil || !strings.Contains(fmt.Sprint(tool.OutputSchema), "width") {
		t.Fatalf("the tool is %+v", tool)
	}
	res := u.call(ctx, t, "words-draw", map[string]any{}, nil)
	var kinds []string
	for _, c := range res.Content[1:] {
		switch c := c.(type) {
		case *mcpsdk.ImageContent:
			kinds = append(kinds, c.MIMEType+" "+string(c.Data))
		case *mcpsdk.AudioContent:
			kinds = append(kinds, c.MIMEType+" "+string(c.Data))
		case *mcpsdk.ResourceLink:
			kinds = append(kinds, c.MIMEType+" "+c.URI+" "+c.Name)
		case *mcpsdk.EmbeddedResource:
			kinds = append(kinds, c.Resource.MIMEType+" "+c.Resource.URI+" "+c.Resource.Text+string(c.Resource.Blob))
		}
	}
	want := []string{"image/png a picture", "audio/wav a sound", "text/html https://example.com/chart chart", "text/plain x://note a note", "application/zip x://blob a zip"}
	if res.IsError || !strings.HasPrefix(textOf(res), "A chart.") || !slices.Equal(kinds, want) || fmt.Sprint(res.StructuredContent) != "map[width:2]" {
		t.Errorf("drawn: %q, %q, %v", textOf(res), kinds, res.StructuredContent)
	}
}

// hearsOfProgress: finding N10, what a tool tells of its progress arrives, and grows.
func (u *mcpUser) hearsOfProgress(ctx context.Context, t *testing.T, w *witness, word string) {
	t.Helper()
	params := &mcpsdk.CallToolParams{Name: "words-count", Arguments: map[string]any{"word": word}}
	params.SetProgressToken("p-" + u.version)
	ended := make(chan error, 1)
	go func() {
		res, err := u.CallTool(ctx, params)
		if err == nil && (res.IsError || textOf(res) != "Enough.") {
			err = fmt.Errorf("it says %q", textOf(res))
		}
		ended <- err
	}()
	last := 0.0
	for range 2 {
		select {
		case n := <-u.steps:
			if n <= last {
				t.Errorf("%v comes after %v", n, last)
			}
			last = n
		case err := <-ended:
			t.Fatalf("it ended after %v steps: %v", last, err)
		}
	}
	w.hear("finish step " + word)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// cancels: finding N10, a call that is cancelled stops, here and at the server that it
// is made at, and the log knows its end; the same call again is not made.
func (u *mcpUser) cancels(ctx context.Context, t *testing.T, w *witness, word string) {
	t.Helper()
	key := mcpsdk.Meta{mcp.MetaKey: "cancel-" + strings.ReplaceAll(word, " ", "-")}
	args := map[string]any{"word": word}
	calling, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := u.CallTool(calling, &mcpsdk.CallToolParams{Name: "words-print", Arguments: args, Meta: key})
		ended <- err
	}()
	w.await(ctx, t, word)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a call that was cancelled has a result")
	}
	w.await(ctx, t, "no more "+word)
	res := u.call(ctx, t, "words-print", args, mcpsdk.Meta{mcp.MetaKey: key[mcp.MetaKey]})
	log := u.log(t, res)
	over := slices.ContainsFunc(log, func(e *meshv1.Event) bool {
		return e.GetTaskMoved().GetState() == a2apb.TaskState_TASK_STATE_CANCELED
	})
	settled := slices.ContainsFunc(log, func(e *meshv1.Event) bool { return e.GetSkillReturned() != nil })
	if !res.IsError || !over || !settled || len(madeCalls(log)) != 1 || w.times(word) != 1 {
		t.Errorf("again it is told %q; cancelled %v, settled %v, called %q", textOf(res), over, settled, madeCalls(log))
	}
}

// approves: who can be asked is, and the answer is the user's own message in the log.
func (u *mcpUser) approves(ctx context.Context, t *testing.T, w *witness, word string) {
	t.Helper()
	for name, tt := range map[string]struct {
		says    *mcpsdk.ElicitResult
		message string
		effects int
	}{
		"yes":     {&mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, "Yes", 1},
		"no":      {&mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": false}}, "No", 0},
		"decline": {&mcpsdk.ElicitResult{Action: "decline"}, "No", 0},
		"dismiss": {&mcpsdk.ElicitResult{Action: "cancel"}, "", 0},
	} {
		u.says, u.asked = tt.says, nil
		it := name + " " + word
		// An effect is had once, however often the call comes.
		meta := func() mcpsdk.Meta { return mcpsdk.Meta{mcp.MetaKey: strings.ReplaceAll(it, " ", "-")} }
		res := u.call(ctx, t, "words-erase", map[string]any{"word": it}, meta())
		if len(u.asked) != 1 || !strings.Contains(u.asked[0], it) || res.IsError == (tt.effects == 1) {
			t.Errorf("%s: asked %q, told %q", name, u.asked, textOf(res))
		}
		if name != "dismiss" {
			u.call(ctx, t, "words-erase", map[string]any{"word": it}, meta())
		}
		var posted []string
		for _, e := range u.log(t, res) {
			if p := e.GetMessagePosted(); p != nil && e.GetActor() == "user" || p != nil && strings.HasPrefix(e.GetActor(), "user:") {
				posted = append(posted, p.GetMessage().GetParts()[0].GetText())
			}
		}
		if n := w.times("erased " + it); n != tt.effects || len(posted) == 0 || tt.message == "" && len(posted) != 1 || tt.message != "" && posted[len(posted)-1] != tt.message {
			t.Errorf("%s: erased %d times after the messages %q", name, n, posted)
		}
	}
}

// isWrong: bad input, and a server that breaks its promise, are told as what they are.
func (u *mcpUser) isWrong(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := u.CallTool(ctx, &mcpsdk.CallToolParams{Name: "words-absent"}); err == nil {
		t.Error("an unknown tool is called")
	}
	if res := u.call(ctx, t, "words-lookup", map[string]any{"wort": "x"}, nil); !res.IsError || !strings.Contains(textOf(res), "wort") {
		t.Errorf("wrong arguments: %q", textOf(res))
	}
	all := mcpsdk.SupportedProtocolVersions()
	if u.version != all[0] && u.version != all[len(all)-1] {
		return // what fails five times is not called for a while
	}
	if res := u.call(ctx, t, "words-lie", map[string]any{}, nil); !res.IsError || res.StructuredContent != nil || !strings.Contains(textOf(res), "Done.") {
		t.Errorf("a broken promise: %q, %v", textOf(res), res.StructuredContent)
	}
	if res := u.call(ctx, t, "words-huge", map[string]any{}, nil); res.IsError || len(res.Content) != 1 || !strings.Contains(textOf(res), "3145728") {
		t.Errorf("too much: %d pieces, %q", len(res.Content), textOf(res))
	}
	if res, err := u.CallTool(ctx, &mcpsdk.CallToolParams{Name: "words-lookup", Arguments: map[string]any{"word": strings.Repeat("x", 2<<20)}}); err == nil && !res.IsError {
		t.Error("a request of 2 MiB is taken")
	}
}

// pythonSaw is what the script on the Python SDK prints.
type pythonSaw struct {
	Version                            string
	Promises                           bool
	Pieces                             []string
	Structured                         map[string]any
	Counted, Yes, No, Decline, Dismiss pythonTold
	Wrong, Lie, Plain                  pythonTold
	Steps                              [][]any
	Asked, Unknown                     string
}

type pythonTold struct {
	Failed bool
	Text   string
}

// The Python SDK uses the mesh's tools in the newest version of MCP that it speaks, in
// the last with a handshake and in the oldest, over HTTP and by 'mesh mcp': it reads
// every answer, so that nothing is done twice. Findings N2 and N10.
func TestInteropMCPOfThePythonSDK(t *testing.T) {
	t.Parallel()
	s := sdkNamed(t, "mcp")
	m, w := upMCP(t)
	for version, want := range map[string]string{"newest": "2026-07-28", "handshake": "2025-11-25", "oldest": "2024-11-05"} {
		for _, way := range []string{"http", "stdio"} {
			t.Run(way+" "+version, func(t *testing.T) {
				word := way + version
				args := []string{version, word, w.URL, "http://" + m.http + "/mcp"}
				bridge := m.bridge(t)
				if way == "stdio" {
					args = append(args[:3], append([]string{"--"}, bridge.Args...)...)
				}
				cmd := s.command(t, "mcptools", args...)
				cmd.Env = bridge.Env
				var problems bytes.Buffer
				cmd.Stderr = &problems
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s%s", err, out, problems.Bytes())
				}
				var saw pythonSaw
				if err := json.Unmarshal(out, &saw); err != nil {
					t.Fatalf("%v in %s", err, out)
				}
				if saw.Version != want {
					t.Errorf("it speaks %s, want %s", saw.Version, want)
				}
				asks := version != "oldest" // which has no word for it
				saw.check(t, word, asks)
				erased := map[bool]int{true: 1}[asks]
				w.await(timely(t), t, "no more "+word)
				for it, times := range map[string]int{word: 1, "erased yes " + word: erased, "erased no " + word: 0, "erased decline " + word: 0, "erased dismiss " + word: 0, "erased plain " + word: 0} {
					if n := w.times(it); n != times {
						t.Errorf("%q came %d times, want %d", it, n, times)
					}
				}
			})
		}
	}
}

// check compares what the client saw with what the tools do.
func (s *pythonSaw) check(t *testing.T, word string, asks bool) {
	t.Helper()
	pieces := []string{"text", "image/png YSBwaWN0dXJl", "audio/wav YSBzb3VuZA==", "text/html https://example.com/chart chart", "text/plain x://note a note", "application/zip x://blob YSB6aXA="}
	if !s.Promises || !slices.Equal(s.Pieces, pieces) || fmt.Sprint(s.Structured) != "map[width:2]" {
		t.Errorf("drawn: %v, %q, %v", s.Promises, s.Pieces, s.Structured)
	}
	if s.Counted.Failed || len(s.Steps) == 0 {
		t.Errorf("counted: %+v with %v", s.Counted, s.Steps)
	}
	if s.Yes.Failed == asks || !s.No.Failed || !s.Decline.Failed || !s.Dismiss.Failed || strings.Contains(s.Asked, word) != asks {
		t.Errorf("asked %q: %+v, %+v, %+v, %+v", s.Asked, s.Yes, s.No, s.Decline, s.Dismiss)
	}
	if !s.Wrong.Failed || !s.Lie.Failed || !s.Plain.Failed || s.Unknown == "" || !strings.Contains(s.Plain.Text, "mesh send --task") {
		t.Errorf("wrong: %+v, %+v, %+v, %q", s.Wrong, s.Lie, s.Plain, s.Unknown)
	}
}

// 'mesh mcp' has the credentials of its environment, and needs no mcp.offer; without a
// mesh it says so.
func TestMCPOnStandardStreamsIsForWhoseTokenItHas(t *testing.T) {
	t.Parallel()
	ann, bob, _ := upWithTokens(t)
	ctx := timely(t)
	ann.mesh("skills", "new", "acme.plan", "--description", "Plan the week", "--mesh").succeeds(t)
	for _, tt := range []struct {
		p    person
		sees bool
	}{{ann, true}, {bob, false}} {
		cmd := tt.p.bridge(t)
		cmd.Env = append(cmd.Env, "MESH_TOKEN="+tt.p.token)
		s, err := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcpsdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tools := tt.p.tools(ctx, s); slices.Contains(tools, "acme-plan") != tt.sees || !slices.Contains(tools, "mail-send") {
			t.Errorf("there are the tools %v", tools)
		}
		if text, failed := tt.p.callTool(ctx, s, "tasks-search", map[string]any{}); failed {
			t.Errorf("a call says %q", text)
		}
		if err := s.Close(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	if f := ann.realMesh.mesh("mcp", "--token", tokenOf("eve")); f.code == exitOK || f.stdout != "" || f.stderr == "" {
		t.Errorf("with a wrong token: %+v", f)
	}
	if f := ann.mesh("mcp", "--addr", "127.0.0.1:1"); f.code == exitOK || f.stdout != "" || !strings.Contains(f.stderr, "127.0.0.1:1") {
		t.Errorf("without a mesh: %+v", f)
	}
	if f := ann.mesh("mcp", "words"); f.code != exitUsage {
		t.Errorf("with an argument: %+v", f)
	}
}
