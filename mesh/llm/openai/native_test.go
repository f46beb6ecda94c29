package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/fallback"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/llm/scripted"
)

// clientAt is a client of an endpoint that is not called.
func clientAt(t *testing.T, url string, c openai.Config) *openai.Client {
	t.Helper()
	c.BaseURL, c.Model = url, "big"
	client, err := openai.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// What an endpoint has is known of its host or said by the operator; chat completions, and
// models without a network, have no tools of their own.
func TestAnEndpointOffersTheToolsThatItHas(t *testing.T) {
	google := []string{"google_search", "url_context", "code_execution"}
	for name, tt := range map[string]struct {
		model llm.Model
		lacks []string
	}{
		"OpenAI":               {clientAt(t, "https://api.openai.com/v1", openai.Config{}), nil},
		"OpenAI, chat":         {clientAt(t, "https://api.openai.com/v1", openai.Config{API: openai.APIChat}), google},
		"OpenAI, said none":    {clientAt(t, "https://api.openai.com/v1", openai.Config{NativeTools: []string{}}), google},
		"OpenRouter":           {clientAt(t, "https://openrouter.ai/api/v1", openai.Config{}), []string{"code_execution"}},
		"xAI":                  {clientAt(t, "https://api.x.ai/v1", openai.Config{}), nil},
		"Google":               {clientAt(t, "https://generativelanguage.googleapis.com/v1beta/openai", openai.Config{}), google},
		"a name that ends so":  {clientAt(t, "https://api.openai.com.example.org/v1", openai.Config{}), google},
		"a gateway, unsaid":    {clientAt(t, "http://127.0.0.1:4000/v1", openai.Config{}), google},
		"a gateway, said":      {clientAt(t, "http://127.0.0.1:4000/v1", openai.Config{NativeTools: []string{"google_search", "url_context"}}), []string{"code_execution"}},
		"a gateway, OpenAI's":  {clientAt(t, "http://127.0.0.1:4000/v1", openai.Config{NativeTools: []string{"web_search"}}), []string{"url_context", "code_execution"}},
		"the offline planner":  {offline.New(nil), google},
		"what a test wrote":    {scripted.New(), google},
		"an invented tool":     {clientAt(t, "https://api.openai.com/v1", openai.Config{NativeTools: []string{"teleport"}}), google},
		"the second of two":    {twoModels(t, openai.Config{}, openai.Config{NativeTools: google}), nil},
		"neither of two":       {twoModels(t, openai.Config{}, openai.Config{}), google},
		"two that share tools": {twoModels(t, openai.Config{NativeTools: google[:1]}, openai.Config{NativeTools: google[1:]}), nil},
	} {
		if diff := cmp.Diff(tt.lacks, llm.Lacking(tt.model, google)); diff != "" && len(tt.lacks)+len(llm.Lacking(tt.model, google)) > 0 {
			t.Errorf("%s lacks (-want +got)\n%s", name, diff)
		}
	}
}

func twoModels(t *testing.T, a, b openai.Config) llm.Model {
	t.Helper()
	m, err := fallback.New([]fallback.Named{
		{Name: "a", Model: clientAt(t, "http://127.0.0.1:4000/v1", a)}, {Name: "b", Model: clientAt(t, "http://127.0.0.1:4001/v1", b)},
	}, fallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Native tools go to the provider by its names, each once, after the functions, and over the
// Responses API although the model could be asked otherwise; what it lacks is left out.
func TestGenerate_sendsNativeToolsByTheProvidersNames(t *testing.T) {
	for name, tt := range map[string]struct {
		has  []string
		want string
	}{
		"the names of the protocol": {[]string{"web_search", "code_interpreter"},
			`[{"type":"code_interpreter","container":{"type":"auto"}},{"type":"web_search"}]`},
		"the provider's own": {[]string{"google_search", "url_context", "code_execution"},
			`[{"type":"code_execution"},{"type":"google_search"},{"type":"url_context"}]`},
		"none": {[]string{}, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			req := turn(1)
			req.NativeTools = []string{"web_search", "google_search", "url_context", "code_execution"}
			path := ""
			var got struct {
				Tools []map[string]any
			}
			c := serveConfig(t, openai.Config{Model: "big", NativeTools: tt.has}, func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				body, _ := io.ReadAll(r.Body)
				if err := json.Unmarshal(body, &got); err != nil {
					t.Error(err)
				}
				if strings.HasSuffix(path, "/responses") {
					stream{w, r}.raw(`data: {"type":"response.completed","response":{}}` + "\n\n")
				} else {
					answer(stream{w, r})
				}
			})
			if _, _, _, err := generate(t.Context(), c, req); err != nil {
				t.Fatal(err)
			}
			want := []map[string]any{}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Tools[2:]); diff != "" {
				t.Error(diff)
			}
			if wantPath := "/v1/responses"; (path == wantPath) != (len(want) > 0) {
				t.Errorf("asked at %s", path)
			}
		})
	}
}

// searching is a reply in which the provider searched, read a page, ran code and called a
// function, and one that answers.
func searching(s stream, n int) {
	if n > 0 {
		s.say("response.output_text.delta", `"delta":"Rain, says https://a.example/x."`)
		s.say("response.output_text.annotation.added", `"annotation":{"type":"url_citation","url":"https://a.example/x","title":"A"}`)
		s.say("response.output_text.annotation.added", `"annotation":{"type":"url_citation","url":"https://b.example/y","title":"B  page"}`)
		s.say("response.output_text.annotation.added", `"annotation":"unreadable"`)
		s.say("response.output_item.done", `"item":{"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"https://b.example/y"},{"url":"javascript:alert(1)"},{"type":"file_citation","file_id":"f"}]}]}`)
		s.say("response.completed", `"response":{}`)
		return
	}
	s.say("response.output_item.done", `"item":{"type":"reasoning","id":"rs1","encrypted_content":"s","summary":[]}`)
	s.say("response.output_item.added", `"item":{"type":"web_search_call","id":"ws1","status":"in_progress"}`)
	s.say("response.web_search_call.searching", `"item_id":"ws1"`)
	s.say("response.output_item.done", `"item":{"type":"web_search_call","id":"ws1","status":"completed","action":{"type":"search","query":"rain in Oslo"}}`)
	s.say("response.output_item.done", `"item":{"type":"web_search_call","id":"ws2","status":"failed","action":{"type":"open_page","url":"https://a.example/x"}}`)
	s.say("response.output_item.done", `"item":{"type":"code_interpreter_call","id":"ci1","status":"completed","code":"print(6*7)","container_id":"c"}`)
	s.say("response.output_item.done", `"item":{"type":"function_call","call_id":"c1","name":"add","arguments":"{}"}`)
	s.say("response.completed", `"response":{}`)
}

// What the provider did is told when it did it, and goes back to it with the reply, since it
// refuses the thoughts before it otherwise. Pages that the answer does not name come behind it.
func TestLoop_tellsWhatNativeToolsDid(t *testing.T) {
	var sent []string
	c := serveConfig(t, openai.Config{Key: key, Model: "big", NativeTools: []string{"web_search"}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		w.Header().Set("Content-Type", "text/event-stream")
		searching(stream{w, r}, len(sent)-1)
	})
	loop := llm.Loop{Model: c, Tools: adder{}, NativeTools: []string{"web_search"}}
	var uses []llm.NativeUse
	said, calls := "", 0
	for e, err := range loop.Run(t.Context(), []llm.Message{{Role: llm.RoleUser, Text: "rain?"}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Native != nil:
			uses = append(uses, *e.Native)
		case e.Result != nil:
			calls++
		}
		said += e.Text
	}
	want := []llm.NativeUse{
		{ID: "ws1", Tool: "web_search", Detail: "rain in Oslo"},
		{ID: "ws2", Tool: "web_search", Detail: "https://a.example/x", Failed: true},
		{ID: "ci1", Tool: "code_interpreter", Detail: "print(6*7)"},
	}
	if diff := cmp.Diff(want, uses); diff != "" {
		t.Error(diff)
	}
	if said != "Rain, says https://a.example/x.\n\nSources:\n- B page: https://b.example/y" || calls != 1 {
		t.Errorf("said %q after %d calls", said, calls)
	}
	var again struct {
		Input []struct{ Type, ID string }
	}
	if err := json.Unmarshal([]byte(sent[1]), &again); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, it := range again.Input[1:] {
		items = append(items, strings.TrimSpace(it.Type+" "+it.ID))
	}
	if diff := cmp.Diff([]string{"reasoning rs1", "web_search_call ws1", "web_search_call ws2", "code_interpreter_call ci1", "function_call", "function_call_output"}, items); diff != "" {
		t.Error(diff)
	}
}

// A reply that uses tools without end, or names pages without end, is bounded.
func TestGenerate_boundsWhatNativeToolsTell(t *testing.T) {
	c := serveResponses(t, func(s stream) {
		for range 200 {
			s.say("response.output_item.done", `"item":{"type":"web_search_call","id":"w","action":{"query":"`+strings.Repeat("x", 10<<10)+`"}}`)
			s.say("response.output_text.annotation.added", `"annotation":{"url":"https://a.example/`+strings.Repeat("y", len("z"))+`"}`)
			s.say("response.output_text.annotation.added", `"annotation":{"url":"https://a.example/`+strings.Repeat("y", 3<<10)+`"}`)
		}
		s.say("response.completed", `"response":{}`)
	})
	n := 0
	var done *llm.Done
	for chunk, err := range c.Generate(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Native != nil {
			if n++; len(chunk.Native.Detail) > llm.MaxNativeDetail {
				t.Errorf("a use has %d bytes", len(chunk.Native.Detail))
			}
		}
		done = chunk.Done
	}
	if n == 0 || n > 64 || len(done.Sources) != 1 {
		t.Errorf("%d uses, and sources %v", n, done.Sources)
	}
}

// A model that lacks what a request needs is passed over, not asked without it.
func TestFallback_asksWhoHasTheTool(t *testing.T) {
	asked := ""
	serve := func(name string, has []string) fallback.Named {
		return fallback.Named{Name: name, Model: serveConfig(t, openai.Config{Model: name, API: openai.APIResponses, NativeTools: has}, func(w http.ResponseWriter, r *http.Request) {
			asked += name + " "
			stream{w, r}.raw(`data: {"type":"response.completed","response":{}}` + "\n\n")
		})}
	}
	m, err := fallback.New([]fallback.Named{serve("plain", nil), serve("able", []string{"web_search"})}, fallback.Options{CoolDown: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, native := range [][]string{{"google_search"}, nil, {"code_execution"}} {
		for _, err := range m.Generate(t.Context(), &llm.Request{Messages: hello().Messages, NativeTools: native}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := "able plain plain "; asked != want { //nolint:dupword // each that was asked
		t.Errorf("asked %q, want %q", asked, want)
	}
}
