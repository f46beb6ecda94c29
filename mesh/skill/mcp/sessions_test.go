package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh/skill/mcp"
)

// asking connects a client whose user says so to what it is asked, and returns what it
// was asked.
func asking(t *testing.T, url, caller, version string, says *sdk.ElicitResult) (*sdk.ClientSession, *[]string) {
	t.Helper()
	asked := new([]string)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			*asked = append(*asked, r.Params.Message)
			if says == nil {
				return nil, errors.New("nobody is here")
			}
			return says, nil
		},
	})
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as(caller)}, MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s, asked
}

// A client that can asks its user, in every version, and its answer is given to the
// run that asked, once: finding N2.
func TestClientsAskTheirUsers(t *testing.T) {
	for _, version := range versions {
		if version < "2025-06-18" {
			continue // nobody is asked, see below
		}
		for name, tt := range map[string]struct {
			says         *sdk.ElicitResult
			reply, text  string
			failed, runs bool
		}{
			"yes":     {&sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, "ann Yes true", "Sent.", false, true},
			"no":      {&sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": false}}, "ann No true", "Refused.", true, true},
			"decline": {&sdk.ElicitResult{Action: "decline"}, "ann No true", "Refused.", true, true},
			"dismiss": {&sdk.ElicitResult{Action: "cancel"}, "", "mesh send --task t-2", true, true},
		} {
			b := &backend{}
			session, asked := asking(t, offer(t, b, mcp.HandlerOptions{}), "ann", version, tt.says)
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "mail-send", Meta: sdk.Meta{mcp.MetaKey: "key-1"}})
			if err != nil {
				t.Errorf("%s, protocol %s: %v", name, version, err)
				continue
			}
			if got := res.Content[0].(*sdk.TextContent).Text; res.IsError != tt.failed || !strings.Contains(got, tt.text) || strings.Join(*asked, "; ") != "May I send it?" {
				t.Errorf("%s, protocol %s: asked %q, told %q", name, version, *asked, got)
			}
			if strings.Join(b.replies, "; ") != tt.reply || len(b.runs) != 2 || b.runs[0] != b.runs[1] {
				t.Errorf("%s, protocol %s: the replies are %q and the runs %q", name, version, b.replies, b.runs)
			}
		}
	}
}

// A client that fails to ask, or whose version has no word for it, is told the question.
func TestAClientThatFailsToAskIsToldTheQuestion(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		session, asked := asking(t, offer(t, &backend{}, mcp.HandlerOptions{}), "ann", version, nil)
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "mail-send"})
		if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, "mesh send --task t-2") || (len(*asked) == 0) != (version < "2025-06-18") {
			t.Errorf("protocol %s: asked %q, told %+v, %v", version, *asked, res, err)
		}
	}
}

// A session is its caller's: nobody else answers its questions or hears its events.
func TestASessionIsOfWhoBeganIt(t *testing.T) {
	b := &backend{}
	url := offer(t, b, mcp.HandlerOptions{})
	session := connect(t, url, "ann", "2025-11-25")
	if session.ID() == "" {
		t.Fatal("there is no session")
	}
	ask := func(caller, id, method, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		req.Header.Set("Mcp-Session-Id", id)
		res, err := as(caller).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tasks-fail"}}`
	for method, body := range map[string]string{http.MethodPost: call, http.MethodGet: "", http.MethodDelete: ""} {
		if code := ask("bob", session.ID(), method, body); code != http.StatusForbidden {
			t.Errorf("%s by somebody else is answered %d", method, code)
		}
	}
	if len(b.runs) != 0 {
		t.Errorf("it ran %q", b.runs)
	}
	// A session that is elsewhere, or over, is served as none.
	if code := ask("ann", "elsewhere", http.MethodPost, call); code != http.StatusOK || len(b.runs) != 1 {
		t.Errorf("a session of another process is answered %d, after %q", code, b.runs)
	}
	if code := ask("ann", session.ID(), http.MethodPost, call); code != http.StatusOK || len(b.runs) != 2 {
		t.Errorf("the session is answered %d, after %q", code, b.runs)
	}
}

// Two processes serve one client, whichever gets a request.
func TestAClientMayMeetAnotherProcess(t *testing.T) {
	for _, version := range versions {
		b := &backend{}
		one, two := offer(t, b, mcp.HandlerOptions{}), offer(t, b, mcp.HandlerOptions{})
		turn := 0
		link := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			to := []string{one, two}[turn%2]
			turn++
			r = r.Clone(r.Context())
			r.URL.Host = strings.TrimPrefix(to, "http://")
			return as("ann").RoundTrip(r)
		})}
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: one, HTTPClient: link, MaxRetries: -1, DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "tasks-create"}); err != nil || res.IsError {
				t.Errorf("protocol %s: %+v, %v", version, res, err)
			}
		}
		_ = s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a run tells of its progress comes to who wants to know, and grows.
func TestProgressIsTold(t *testing.T) {
	for _, version := range versions {
		steps := make(chan *sdk.ProgressNotificationParams, 10)
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { steps <- r.Params },
		})
		s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: offer(t, &backend{}, mcp.HandlerOptions{}), HTTPClient: &http.Client{Transport: as("ann")}, MaxRetries: -1},
			&sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		params := &sdk.CallToolParams{Name: "tasks-step"}
		params.SetProgressToken("a token")
		if res, err := s.CallTool(t.Context(), params); err != nil || res.IsError {
			t.Errorf("protocol %s: %+v, %v", version, res, err)
		}
		for n, want := range []float64{2, 3, 7} {
			if p := <-steps; p.Progress != want || p.ProgressToken != "a token" || p.Message != "on" || n == 0 && p.Total != 5 || n == 1 && p.Total != 0 {
				t.Errorf("protocol %s: step %d is %+v", version, n, p)
			}
		}
		_ = s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

// Finding N2: an answer in 2026-07-28 says that it is complete, which clients of that
// version insist on, and what needs the user that it is not.
func TestAnswersSayWhetherTheyAreComplete(t *testing.T) {
	url := offer(t, &backend{}, mcp.HandlerOptions{})
	for name, want := range map[string]string{"tasks-create": "complete", "tasks-fail": "complete", "mail-send": "input_required"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name} {
			req.Header.Set(key, value)
		}
		res, err := as("ann").RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Result struct{ ResultType string } }
		err = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
		if err != nil || answer.Result.ResultType != want {
			t.Errorf("%s is answered %d, %q, %v; want %s", name, res.StatusCode, answer.Result.ResultType, err, want)
		}
	}
}
