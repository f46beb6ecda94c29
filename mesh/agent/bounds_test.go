package agent

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
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
		return failedTool("", "given up")
	case <-time.After(time.Hour):
		return llm.ToolResult{Text: "at last"}
	}
}

// S3-036: of the calls of one reply, a tool that is no skill ends after 30
// seconds; one that waits for agents waits as long as it takes.
func TestToolsThatAreNoSkillsEndInTime(t *testing.T) {
	texttest.Fixed(t)
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Call("other", `{}`).Call("patient", `{}`), scripted.Say("ok"))
		run := &modelRun{ModelRun: ModelRun{Model: m, Tools: Combine(hanging{}), Logger: slog.New(slog.DiscardHandler)}, inv: &Invocation{Mesh: &Mesh{}}}
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
			"patient: at last": time.Hour,
		}, ended); diff != "" {
			t.Error(diff)
		}
	})
}

// S3-049: while the one call that the breaker lets through runs, no other does,
// however long a call may take.
func TestTheProbeTimeFollowsTheTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: limit.DefaultProbe, 30 * time.Second: 45 * time.Second, time.Minute: 90 * time.Second, time.Hour: 90 * time.Minute,
	} {
		if got := probeTime(timeout); got != want {
			t.Errorf("with a timeout of %v it is %v, want %v", timeout, got, want)
		}
	}
	if limit.DefaultProbe < 45*time.Second {
		t.Errorf("by default it is %v", limit.DefaultProbe)
	}
}

// docs/skills.md and the bounds of providers have these numbers.
func TestHowManySkillsAreShown(t *testing.T) {
	if maxListed != 24 || maxDirect != 127 {
		t.Errorf("%d skills are described in full, %d have a tool each; want 24 and 127", maxListed, maxDirect)
	}
}
