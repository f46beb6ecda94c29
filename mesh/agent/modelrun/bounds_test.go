package modelrun

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
)

// hanging are tools that answer when their context ends, or after an hour.
type hanging struct{}

func (hanging) List(context.Context) []llm.Tool {
	return []llm.Tool{{Name: "other"}, {Name: "patient"}}
}
func (hanging) Waits(tool string) bool { return tool == "patient" }
func (hanging) Call(ctx context.Context, _ mesh.ToolUse) llm.ToolResult {
	select {
	case <-ctx.Done():
		return llm.ToolResult{Text: "given up", Failed: true}
	case <-time.After(time.Hour):
		return llm.ToolResult{Text: "at last"}
	}
}

// S3-036: of the calls of one reply, a tool that is no skill ends after 30
// seconds; one that waits for agents, after the others, waits as long as it takes.
func TestToolsThatAreNoSkillsEndInTime(t *testing.T) {
	texttest.Fixed(t)
	synctest.Test(t, func(t *testing.T) {
		client, err := meshclient.New(nil, mesh.Call{Principal: mesh.Principal{Grant: new(mesh.Grant)}})
		if err != nil {
			t.Fatal(err)
		}
		m := scripted.New(scripted.Call("other", `{}`).Call("patient", `{}`), scripted.Say("ok"))
		run := &modelRun{Options: Options{Model: m, Tools: Combine(hanging{}), Logger: slog.New(slog.DiscardHandler)}, inv: &agent.Invocation{Mesh: client}}
		ended := map[string]time.Duration{}
		begun := time.Now()
		for e, err := range run.events(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Result != nil {
				ended[e.Result.Use.Name+": "+e.Result.Text] = time.Since(begun)
			}
		}
		if diff := cmp.Diff(map[string]time.Duration{
			"other: timeout: other did not answer within 30s; it is not known whether it had an effect": 30 * time.Second,
			"patient: at last": time.Hour + 30*time.Second,
		}, ended); diff != "" {
			t.Error(diff)
		}
	})
}
