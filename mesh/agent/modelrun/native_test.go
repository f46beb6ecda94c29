package modelrun_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/openai"

	"github.com/google/go-cmp/cmp"
)

// What the provider's own tools did is shown as progress and is in the log, where nothing
// waits for it: the run ends with the answer, and goes on after it like any other.
func TestWhatNativeToolsDidIsShownAndLogged(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(`data: {"type":"response.output_item.done","item":{"type":"web_search_call","id":"ws1","status":"completed","action":{"type":"search","query":"rain in\nOslo"}}}

data: {"type":"response.output_item.done","item":{"type":"code_interpreter_call","id":"ci1","status":"failed","code":"1/0"}}

data: {"type":"response.output_text.delta","delta":"Rain."}

data: {"type":"response.completed","response":{}}

`))
	}))
	defer srv.Close()
	model, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Model: "big", NativeTools: []string{"web_search", "code_interpreter"}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill)
	d.Begin("rain?")
	outs, err := agenttest.Outputs(t, d.Invocation(false), modelrun.Options{Model: model, NativeTools: []string{"google_search", "code_execution"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.Output{
		agent.Progress{Text: "Used web search: rain in Oslo"}, agent.Progress{Text: "Used code interpreter: 1/0"}, agent.Text{Text: "Rain."},
	}
	if diff := cmp.Diff(want, outs); diff != "" {
		t.Error(diff)
	}
	logged := []mesh.ToolReturned{
		{Call: "ws1", Name: "web_search", Content: "rain in\nOslo"}, {Call: "ci1", Name: "code_interpreter", Content: "1/0", Failed: true},
	}
	if diff := cmp.Diff(logged, agenttest.Logged[mesh.ToolReturned](d)); diff != "" {
		t.Error(diff)
	}
	if replies := agenttest.Logged[mesh.ModelReplied](d); len(replies) != 1 || len(replies[0].Tools) != 0 {
		t.Errorf("replies %+v", replies)
	}
}
