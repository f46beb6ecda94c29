package llm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// continued is the history with what a run added to it, as a log keeps it.
func continued(history []llm.Message, events []llm.Event, said string) []llm.Message {
	results := map[string]llm.Message{}
	for _, e := range events {
		if r := e.Result; r != nil {
			results[r.Use.ID] = llm.Message{Role: llm.RoleTool, ToolID: r.Use.ID, Name: r.Use.Name, Text: r.Text, Failed: r.Failed}
		}
	}
	out := slices.Clone(history)
	for _, e := range events {
		if e.Reply == nil {
			continue
		}
		out = append(out, llm.Message{Role: llm.RoleAssistant, Text: e.Reply.Text, Tools: e.Reply.Tools})
		for _, u := range e.Reply.Tools {
			if m, ok := results[u.ID]; ok {
				out = append(out, m)
			}
		}
	}
	return append(out, llm.Message{Role: llm.RoleUser, Text: said})
}

// A model that asks the user ends the run with its question, which is no text of
// the answer, and reads it as what it asked (finding C11).
func TestLoop_aModelThatAsksEndsTheRun(t *testing.T) {
	m := scripted.New(scripted.Call("a", `{}`), scripted.Ask("Which one?"), scripted.Say("Done."))
	l := &llm.Loop{Model: m, Tools: tools{"a": echo("A")}}
	events := run(t, l, []llm.Message{{Role: llm.RoleUser, Text: "delete it"}})
	var asked []llm.Ask
	for _, e := range events {
		if e.Text != "" {
			t.Errorf("said %q", e.Text)
		}
		if e.Ask != nil {
			asked = append(asked, *e.Ask)
		}
		if e.Reply != nil && len(e.Reply.Tools) == 0 && (e.Reply.Text != "Which one?" || e.Reply.Finish != llm.FinishAsk) {
			t.Errorf("replied %+v", e.Reply)
		}
	}
	l.Model = scripted.New(scripted.Say("Hello.").Finish(llm.FinishAsk)) // as a provider may call it
	for _, e := range run(t, l, []llm.Message{{Role: llm.RoleUser, Text: "hi"}}) {
		if e.Ask != nil {
			t.Errorf("without a question it asks %+v", e.Ask)
		}
	}
	if len(m.Requests()) != 2 || len(asked) != 1 || asked[0].Text != "Which one?" || asked[0].Use.ID != "" {
		t.Errorf("after %d requests it asks %+v", len(m.Requests()), asked)
	}
}

// A call that has to wait for the user stays unsettled while the others of its
// reply end; when the user has spoken, the run goes on with that call.
func TestLoop_aCallThatAsksPausesTheRun(t *testing.T) {
	approved := false
	ran := map[string]int{}
	ts := tools{
		"a": func(_ context.Context, args string) llm.ToolResult {
			ran["a"]++
			if !approved {
				return llm.ToolResult{Ask: "Send it?"}
			}
			return llm.ToolResult{Text: "sent" + args}
		},
		"b": func(context.Context, string) llm.ToolResult { return llm.ToolResult{Text: "found"} },
	}
	m := scripted.New(scripted.Call("a", `{"to":"bob"}`).Call("b", `{}`), scripted.Say("It is sent."))
	l := &llm.Loop{Model: m, Tools: ts}
	history := []llm.Message{{Role: llm.RoleUser, Text: "send it"}}
	first := run(t, l, history)
	last := first[len(first)-1]
	if last.Ask == nil || last.Ask.Text != "Send it?" || last.Ask.Use.ID != "scripted-1" || len(m.Requests()) != 1 {
		t.Fatalf("the run ended with %+v after %d requests", last, len(m.Requests()))
	}
	for _, e := range first {
		if e.Result != nil && e.Result.Use.Name != "b" {
			t.Errorf("%+v is settled", e.Result)
		}
	}

	approved = true
	second := run(t, l, continued(history, first, "yes"))
	if second[0].Call == nil || second[0].Call.ID != "scripted-1" || second[1].Result.Text != `sent{"to":"bob"}` {
		t.Errorf("the run went on with %+v, %+v", second[0], second[1])
	}
	var read []string
	for _, msg := range m.Requests()[1].Messages {
		read = append(read, fmt.Sprintf("%s %s", msg.Role, msg.Text))
	}
	if diff := cmp.Diff([]string{"user send it", "assistant ", `tool sent{"to":"bob"}`, "tool found", "user yes"}, read); diff != "" {
		t.Error(diff)
	}
	if m.Requests()[1].Settled != 4 {
		t.Errorf("%d messages are settled, want those before the user's answer", m.Requests()[1].Settled)
	}
}

// Commands after one that asks wait with it, because they run in order
// (S3-156).
func TestLoop_commandsWaitBehindOneThatAsks(t *testing.T) {
	approved := false
	var ran []string
	l := &llm.Loop{Commands: fences{}, Tools: lines{nil, &ran, func(line string) llm.ToolResult {
		if line == "mail.send" && !approved {
			return llm.ToolResult{Ask: "Send it?"}
		}
		return llm.ToolResult{Text: "did " + line}
	}}}
	m := scripted.New(scripted.Say("```cmd\nx.a\nmail.send\ntasks.done\n```"), scripted.Say("ok"))
	l.Model = m
	history := []llm.Message{{Role: llm.RoleUser, Text: "go"}}
	first := run(t, l, history)
	if diff := cmp.Diff([]string{"x.a", "mail.send"}, ran); diff != "" {
		t.Fatal(diff)
	}
	approved, ran = true, nil
	run(t, l, continued(history, first, "yes"))
	if diff := cmp.Diff([]string{"mail.send", "tasks.done"}, ran); diff != "" {
		t.Error(diff)
	}
	msgs := m.Requests()[1].Messages
	if got, want := msgs[2].Text, "[Command Result: x.a]\ndid x.a\n\n[Command Result: mail.send]\ndid mail.send\n\n[Command Result: tasks.done]\ndid tasks.done"; got != want {
		t.Errorf("the model read %q, want %q", got, want)
	}
	if len(msgs) != 4 || msgs[3].Text != "yes" {
		t.Errorf("messages %+v", msgs)
	}
}

// A run that was cut between a call and its result begins with that call, and
// makes no other one again.
func TestLoop_aCutRunIsResumed(t *testing.T) {
	var ran []string
	note := func(name string) func(context.Context, string) llm.ToolResult {
		return func(context.Context, string) llm.ToolResult {
			ran = append(ran, name)
			return llm.ToolResult{Text: name}
		}
	}
	uses := []mesh.ToolUse{{ID: "1", Name: "a", Arguments: "{}"}, {ID: "2", Name: "b", Arguments: "{}"}}
	m := scripted.New(scripted.Say("Done."))
	run(t, &llm.Loop{Model: m, Tools: tools{"a": note("a"), "b": note("b")}}, []llm.Message{
		{Role: llm.RoleUser, Text: "go"}, {Role: llm.RoleAssistant, Tools: uses}, {Role: llm.RoleTool, ToolID: "1", Name: "a", Text: "before"},
	})
	if diff := cmp.Diff([]string{"b"}, ran); diff != "" {
		t.Error(diff)
	}
	msgs := m.Requests()[0].Messages
	if len(msgs) != 4 || msgs[2].Text != "before" || msgs[3].Text != "b" {
		t.Errorf("the model read %+v", msgs)
	}
}

// Providers refuse calls without results, results without calls and replies
// that say nothing: histories are put in order.
func TestLoop_historiesArePutInOrder(t *testing.T) {
	ran := 0
	m := scripted.New(scripted.Say("ok"))
	run(t, &llm.Loop{Model: m, Tools: tools{"a": func(context.Context, string) llm.ToolResult {
		ran++
		return llm.ToolResult{}
	}}}, []llm.Message{
		{Role: llm.RoleTool, ToolID: "0", Text: "no call"},
		{Role: llm.RoleUser, Text: "one"},
		{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: "1", Name: "a"}, {ID: "2", Name: "a"}, {ID: "3", Name: "a"}}},
		{Role: llm.RoleTool, ToolID: "3", Text: "third"},
		{Role: llm.RoleUser, Text: "meanwhile"},
		{Role: llm.RoleTool, ToolID: "1", Text: "first"},
		{Role: llm.RoleAssistant},
		{Role: llm.RoleAssistant, Text: "done"},
		{Role: llm.RoleUser, Text: "two"},
	})
	var got []string
	for _, msg := range m.Requests()[0].Messages {
		got = append(got, string(msg.Role)+" "+msg.Text)
	}
	want := []string{
		"user one", "assistant ", "tool first", "tool The call was interrupted; it is not known whether it had an effect.",
		"tool third", "user meanwhile", "assistant done", "user two",
	}
	if diff := cmp.Diff(want, got); diff != "" || ran > 0 {
		t.Errorf("%d calls\n%s", ran, diff)
	}
}

// The limits are checked before every call of the model; one that stands ends
// the run in a pause, or in a last answer without tools (S3-029).
func TestLoop_limitsAreCheckedBeforeEveryModelCall(t *testing.T) {
	for _, pause := range []bool{true, false} {
		var steps []int
		m := scripted.New(scripted.Call("a", `{}`).For(scripted.HasTool("a")).Repeat(), scripted.Say("So far."))
		events := run(t, &llm.Loop{
			Model: m, Tools: tools{"a": echo("A")}, Pause: pause,
			Check: func(_ context.Context, step int) *llm.Trip {
				if len(m.Requests()) != step-1 {
					t.Errorf("step %d is checked after %d model calls", step, len(m.Requests()))
				}
				if steps = append(steps, step); step == 3 {
					return &llm.Trip{Limit: "turn.skill_calls", Used: 10, Most: 10, Detail: "Enough"}
				}
				return nil
			},
		}, []llm.Message{{Role: llm.RoleUser, Text: "go"}})
		if diff := cmp.Diff([]int{1, 2, 3}, steps); diff != "" {
			t.Error(diff)
		}
		last := events[len(events)-1]
		switch {
		case pause && (last.Limit == nil || last.Limit.Limit != "turn.skill_calls" || len(m.Requests()) != 2):
			t.Errorf("paused with %+v after %d requests", last, len(m.Requests()))
		case !pause && (last.Reply == nil || last.Reply.Text != "So far." || len(m.Requests()[2].Tools) != 0):
			t.Errorf("ended with %+v", last)
		}
	}
}

// The limit of a turn: what was done and what was not is known when the run
// pauses, and after the user's "continue" it goes on from its messages
// (S3-042, S3-044, S3-114).
func TestLoop_aLimitPausesTheTurnAndContinueResumesIt(t *testing.T) {
	var mu sync.Mutex
	left := 2
	use := func(_ context.Context, args string) llm.ToolResult {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return llm.ToolResult{Failed: true, Text: "The limit of 2 calls is reached", Trip: &llm.Trip{Limit: "turn.skill_calls", Used: 2, Most: 2, Detail: "2 of 2 calls are used"}}
		}
		left--
		return llm.ToolResult{Text: "ok" + args}
	}
	m := scripted.New(
		scripted.Call("a", `{"n":1}`).Call("a", `{"n":2}`).Call("a", `{"n":3}`),
		scripted.Call("a", `{"n":3}`).For(scripted.Last("continue")),
		scripted.Say("All three are done."),
	)
	l := &llm.Loop{Model: m, Tools: tools{"a": use}, Pause: true, MaxSteps: 5}
	history := []llm.Message{{Role: llm.RoleUser, Text: "do three things"}}
	var done, open []string
	first := run(t, l, history)
	for _, e := range first {
		if r := e.Result; r != nil && r.Trip == nil {
			done = append(done, r.Text)
		} else if r != nil {
			open = append(open, r.Use.Arguments)
		}
	}
	last := first[len(first)-1]
	if len(done) != 2 || len(open) != 1 || last.Limit == nil || last.Limit.Used != 2 || len(m.Requests()) != 1 {
		t.Fatalf("done %q, open %q, the run ended with %+v", done, open, last)
	}
	left = 2
	second := run(t, l, continued(history, first, "continue"))
	if end := second[len(second)-1]; end.Reply == nil || end.Reply.Text != "All three are done." {
		t.Errorf("the turn ended with %+v", end)
	}
	if n := len(m.Requests()[1].Messages); n != 6 {
		t.Errorf("the model went on from %d messages", n)
	}
}

// A model that says nothing is asked again, at most twice in a row; what it
// said before stands, and silence from the start is a failure, unless a limit ended the run.
func TestLoop_silenceIsAskedAgain(t *testing.T) {
	nothing := scripted.Step{}
	blank := scripted.Say(" \n")
	tests := map[string]struct {
		steps    []scripted.Step
		requests int
		code     mesh.Code
		detail   string
	}{
		"once":              {[]scripted.Step{nothing, scripted.Say("hi")}, 2, mesh.Unknown, ""},
		"twice":             {[]scripted.Step{nothing, blank, scripted.Say("hi")}, 3, mesh.Unknown, ""},
		"twice, twice":      {[]scripted.Step{nothing, nothing, scripted.Call("a", "{}"), nothing, nothing, scripted.Say("hi")}, 6, mesh.Unknown, ""},
		"for ever":          {[]scripted.Step{nothing.Repeat()}, 3, mesh.Unavailable, "no answer"},
		"after calls":       {[]scripted.Step{scripted.Call("a", "{}"), nothing.Repeat()}, 4, mesh.Unavailable, "calls did stands"},
		"out of length":     {[]scripted.Step{nothing.Finish("length").Repeat()}, 3, mesh.Exhausted, "tokens"},
		"filtered":          {[]scripted.Step{nothing.Finish("content_filter").Repeat()}, 1, mesh.Precondition, "content filter"},
		"after an answer":   {[]scripted.Step{scripted.Say("hi").Call("a", "{}"), nothing.Repeat()}, 4, mesh.Unknown, ""},
		"after the limit":   {[]scripted.Step{scripted.Call("a", "{}").Repeat()}, 8 + 1, mesh.Unknown, ""}, // which says why
		"with a last reply": {[]scripted.Step{scripted.Call("a", "{}").For(scripted.HasTool("a")).Repeat(), nothing, scripted.Say("hi")}, 8, mesh.Unknown, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(tt.steps...)
			_, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}})
			if tt.code == mesh.Unknown && err != nil || tt.code != mesh.Unknown && (mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), tt.detail)) {
				t.Errorf("the run ended with %v", err)
			}
			if n := len(m.Requests()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
			for _, r := range m.Requests() {
				for _, msg := range r.Messages {
					if msg.Role == llm.RoleAssistant && strings.TrimSpace(msg.Text) == "" && len(msg.Tools) == 0 {
						t.Error("an empty reply became part of the conversation")
					}
				}
			}
		})
	}
}

// An answer that lacks its end says so, once; a reply that goes on with calls, or
// that is whole, says nothing more.
func TestLoop_anAnswerThatIsCutOffSaysSo(t *testing.T) {
	tests := map[string]struct {
		steps []scripted.Step
		want  string
	}{
		"whole":           {[]scripted.Step{scripted.Say("One.").Finish("stop")}, "One."},
		"out of length":   {[]scripted.Step{scripted.Say("One, tw").Finish("length")}, "One, tw\n\n[The answer is cut off here, at the model's limit of length. Say \"go on\" for the rest.]"},
		"filtered":        {[]scripted.Step{scripted.Say("One, tw").Finish("content_filter")}, "One, tw\n\n[The answer is cut off here, by the content filter of the model's provider.]"},
		"before the call": {[]scripted.Step{scripted.Say("One").Call("a", "{}").Finish("length"), scripted.Say("two.")}, "Onetwo."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			for e, err := range (&llm.Loop{Model: scripted.New(tt.steps...), Tools: tools{"a": echo("A")}}).Run(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				said.WriteString(e.Text)
			}
			if said.String() != tt.want {
				t.Errorf("said %q, want %q", said.String(), tt.want)
			}
		})
	}
}
