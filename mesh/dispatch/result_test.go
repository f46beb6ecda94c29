package dispatch

import (
	"reflect"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
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
		"its model failed":          {StatusFailed, "", "no credit", 0, []string{text.ModelFailed("no credit")}},
		"took too long":             {StatusTimeout, "out", "working on it", 0, []string{"out", text.AgentTookTooLong()}},
		"was canceled":              {StatusCanceled, "", "working on it", 0, []string{text.AgentCanceled()}},
		"canceled, and says why":    {StatusCanceled, "", "as you wish", canceled, []string{"as you wish"}},
		"canceled, without a word":  {StatusCanceled, "", "", canceled, []string{text.AgentCanceled()}},
	} {
		last := mesh.TaskMoved{State: tt.state}
		if name == "its model failed" { // S0-063
			last.Reason = mesh.ReasonModel
		}
		if tt.why != "" {
			last.Message = mesh.Say(tt.why)
		}
		if got, want := result(tt.status, tt.said, last), strings.Join(tt.want, "\n\n"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What waits for the user's word goes on, and what was at work; all else is as it ended.
func TestWhatIsNotOverGoesOn(t *testing.T) {
	asks, failed := a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_FAILED
	for name, tt := range map[string]struct {
		state  mesh.TaskState
		reason string
		status string // or "" if it goes on
	}{
		"it asks for a yes":           {asks, mesh.ReasonApproval, ""},
		"it asks whether to go on":    {asks, mesh.ReasonLimit, ""},
		"it failed at a limit":        {failed, mesh.ReasonLimit, StatusFailed},
		"it asked who called it":      {asks, "", ""},
		"it took too long":            {failed, mesh.ReasonTimeout, StatusTimeout},
		"nobody knows how it went on": {a2apb.TaskState_TASK_STATE_WORKING, "", ""},
	} {
		j := new(job)
		restored(j, &thread.Execution{State: tt.state, Reason: tt.reason}, thread.NewActions("main", "t"))
		if j.Status != tt.status || (j.resume != nil) != (tt.status == "") {
			t.Errorf("%s: %q, goes on %v", name, j.Status, j.resume)
		}
	}
}

func TestOptionsThatAreGivenAreKept(t *testing.T) {
	for _, c := range []struct{ o, want Options }{
		{Options{MaxConcurrent: -1, MaxAgents: -1, Timeout: -1, Budget: -1}, Options{MaxConcurrent: 5, MaxAgents: -1, Timeout: 300 * time.Second, Budget: -1, Orchestrating: 11 * time.Minute, AdoptTime: 30 * time.Second, ReturnTime: 30 * time.Second, Worker: "worker", Profile: ProfileFull}},
		// S0-060.
		{Options{Profile: ProfileCollect}, Options{MaxConcurrent: 5, MaxAgents: 8, Timeout: 30 * time.Second, Budget: 600 * time.Second, Orchestrating: 11 * time.Minute, AdoptTime: 30 * time.Second, ReturnTime: 30 * time.Second, Worker: "worker", Profile: ProfileCollect}},
		// S1-036, S1-037, S1-038.
		{Options{}, Options{MaxConcurrent: 5, MaxAgents: 8, Timeout: 300 * time.Second, Budget: 600 * time.Second, Orchestrating: 11 * time.Minute, AdoptTime: 30 * time.Second, ReturnTime: 30 * time.Second, Worker: "worker", Profile: ProfileFull}},
		{Options{MaxConcurrent: 1, MaxAgents: 1, Timeout: 1, Budget: 2, Orchestrating: 3, Worker: "w", Profile: ProfilePush}, Options{MaxConcurrent: 1, MaxAgents: 1, Timeout: 1, Budget: 2, Orchestrating: 3, AdoptTime: 30 * time.Second, ReturnTime: 30 * time.Second, Worker: "w", Profile: ProfilePush}},
	} {
		o := c.o
		if o.fill(); o.Logger == nil {
			t.Error("there is no logger")
		}
		if o.Logger = nil; !reflect.DeepEqual(o, c.want) {
			t.Errorf("got %+v, want %+v", o, c.want)
		}
	}
}

// The short time of the profile collect is for agents that a model dispatches: who is
// consulted has the usual one.
func TestWhoIsConsultedHasTheUsualTime(t *testing.T) {
	o := Options{Profile: ProfileCollect}
	c := o.ForConsulting()
	if c.fill(); c.Timeout != 300*time.Second {
		t.Errorf("it has %v", c.Timeout)
	}
}

// Who collects results waits as long as it takes, and nobody else does.
func TestOnlyResultsAreWaitedFor(t *testing.T) {
	for _, tool := range []string{ToolDispatch, ToolResults, ToolConsult, "x"} {
		if got := new(Orchestration).Waits(tool); got != (tool == ToolResults) {
			t.Errorf("%s waits: %v", tool, got)
		}
	}
}

// What another process of the agent says in place of the one that was lost is the result,
// and not what was half said before it.
func TestAnArtifactThatBeginsAnewReplacesWhatItWas(t *testing.T) {
	type say struct {
		id, s string
		more  bool
	}
	for name, tt := range map[string]struct {
		says []say
		want string
	}{
		"the only one":     {[]say{{"a", "ha", false}, {"a", "lf", true}, {"a", "whole", false}}, "whole"},
		"the first of two": {[]say{{"a", "half", false}, {"b", "more", false}, {"a", "whole", false}}, "whole\n\nmore"},
		"in turns":         {[]say{{"a", "1", false}, {"b", "2", false}, {"a", "3", true}, {"b", "4", true}, {"b", "5", false}, {"b", "6", true}}, "13\n\n56"},
		"all of them":      {[]say{{"a", "1", false}, {"b", "2", false}, {"a", "3", false}, {"b", "4", false}}, "3\n\n4"},
		"by nothing":       {[]say{{"a", "1", false}, {"b", "2", false}, {"a", "", false}}, "2"},
	} {
		for _, before := range []string{"", "said before"} {
			var got transcript
			got.hear([]mesh.Body{mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "before", Parts: mesh.Say(before).Parts}}})
			for _, s := range tt.says {
				got.take(&a2apb.Artifact{ArtifactId: s.id, Parts: mesh.Say(s.s).Parts}, s.more)
			}
			want := before + tt.want
			if before != "" {
				want = before + "\n\n" + tt.want
			}
			if got.result() != want {
				t.Errorf("%s: %q, want %q", name, got.result(), want)
			}
		}
	}
}

// C6.2: another agent's words are no longer than they may be when they are quoted, whatever
// quoting adds to them, and as much of them as there is room for is told.
func TestWhatIsQuotedIsNoLongerThanItMayBe(t *testing.T) {
	const most = 4 << 10
	for name, s := range map[string]string{
		"short": "x", "a line": strings.Repeat("abcdefg ", most), "hardly too long": strings.Repeat("x", most), "short lines": strings.Repeat("7\n\n\n", most) + "end",
		"tags": strings.Repeat("<user", most), "wide": strings.Repeat("ü\n", most), "text, then lines": strings.Repeat("x", most/2) + strings.Repeat("\n", most),
	} {
		if q := quoted(s, most, text.AskForLess); len(q) > most || len(s) > most && len(q) < most/2 {
			t.Errorf("%s: %d bytes of %d", name, len(q), len(s))
		}
	}
}
