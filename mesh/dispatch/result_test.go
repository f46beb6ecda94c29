package dispatch

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
)

// S0-030, S0-083: the result is what the agent said, and why it did not complete.
func TestAResultIsWhatWasSaidAndWhyItEnded(t *testing.T) {
	canceled := a2apb.TaskState_TASK_STATE_CANCELED
	for name, tt := range map[string]struct {
		status, said, why string
		state             mesh.TaskState
		want              []string
	}{
		"completed":                 {StatusCompleted, "out", "", 0, []string{"out"}},
		"completed, and says so":    {StatusCompleted, "out", "all done", 0, []string{"out"}},
		"completed with words only": {StatusCompleted, "", "all done", 0, []string{"all done"}},
		"asks":                      {StatusWaiting, "out", "Which?", 0, []string{"Which?"}},
		"failed":                    {StatusFailed, "out", "no disk", 0, []string{"out", "no disk"}},
		"failed without a word":     {StatusFailed, "out", "", 0, []string{"out"}},
		"failed at once":            {StatusFailed, "", "no disk", 0, []string{"no disk"}},
		"took too long":             {StatusTimeout, "out", "working on it", 0, []string{"out", text.AgentTookTooLong()}},
		"was canceled":              {StatusCanceled, "", "working on it", 0, []string{text.AgentCanceled()}},
		"canceled, and says why":    {StatusCanceled, "", "as you wish", canceled, []string{"as you wish"}},
		"canceled, without a word":  {StatusCanceled, "", "", canceled, []string{text.AgentCanceled()}},
	} {
		last := mesh.TaskMoved{State: tt.state}
		if tt.why != "" {
			last.Message = call.Say(tt.why)
		}
		if got, want := result(tt.status, tt.said, last), strings.Join(tt.want, "\n\n"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
