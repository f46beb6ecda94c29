package llm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// tools are functions by name.
type tools map[string]func(ctx context.Context, args string) llm.ToolResult

func (ts tools) List(context.Context) []llm.Tool {
	var out []llm.Tool
	for _, name := range []string{"a", "b", "boom", "end", "wait"} {
		if ts[name] != nil {
			out = append(out, llm.Tool{Name: name})
		}
	}
	return out
}

func (ts tools) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	return ts[use.Name](ctx, use.Arguments)
}

func echo(name string) func(context.Context, string) llm.ToolResult {
	return func(_ context.Context, args string) llm.ToolResult { return llm.ToolResult{Text: name + args} }
}

// told renders what a run reported, one line per event.
func told(t *testing.T, l *llm.Loop) ([]string, error) {
	t.Helper()
	var out []string
	for e, err := range l.Run(t.Context(), []llm.Message{{Role: llm.RoleUser, Text: "go"}}) {
		switch {
		case err != nil:
			return out, err
		case e.Reply != nil:
			out = append(out, fmt.Sprintf("reply %q %d calls", e.Reply.Text, len(e.Reply.Tools)))
		case e.Call != nil:
			out = append(out, "call "+e.Call.Name)
		case e.Result != nil:
			out = append(out, fmt.Sprintf("result %s %q failed=%v", e.Result.Use.Name, e.Result.Text, e.Result.Failed))
		case e.Limit != nil:
			out = append(out, "limit "+e.Limit.Limit)
		case e.Ask != nil:
			out = append(out, fmt.Sprintf("ask %s %q", e.Ask.Use.Name, e.Ask.Text))
		default:
			out = append(out, "text "+e.Text)
		}
	}
	return out, nil
}

// S1-121: without a Collector a loop ends with the first reply that calls nothing.
func TestLoop_runsToolsUntilAnAnswer(t *testing.T) {
	m := scripted.New(
		scripted.Say("Let me ", "look.").Call("a", `{"x":1}`).Usage(mesh.Usage{Prompt: 3}),
		scripted.Say("Done."),
	)
	got, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}, System: "be brief", Name: "big"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"text Let me ", "text look.", `reply "Let me look." 1 calls`, "call a", `result a "A{\"x\":1}" failed=false`, "text Done.", `reply "Done." 0 calls`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	second := m.Requests()[1]
	if second.System != "be brief" || second.Model != "big" || len(second.Tools) != 1 {
		t.Errorf("second request: %+v", second)
	}
	use := mesh.ToolUse{ID: "scripted-1", Name: "a", Arguments: `{"x":1}`}
	history := []llm.Message{
		{Role: llm.RoleUser, Text: "go"},
		{Role: llm.RoleAssistant, Text: "Let me look.", Tools: []mesh.ToolUse{use}},
		{Role: llm.RoleTool, Text: `A{"x":1}`, ToolID: "scripted-1", Name: "a"},
	}
	if diff := cmp.Diff(history, second.Messages); diff != "" {
		t.Error(diff)
	}
}

// Calls of one reply run at the same time; the model reads their results in
// the order of the calls, whichever ended first.
func TestLoop_callsRunInParallelAndKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(d time.Duration, text string) func(context.Context, string) llm.ToolResult {
			return func(context.Context, string) llm.ToolResult {
				time.Sleep(d)
				return llm.ToolResult{Text: text}
			}
		}
		m := scripted.New(scripted.Call("a", `{}`).Call("b", `{}`), scripted.Say("ok"))
		begin := time.Now()
		got, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": slow(time.Hour, "first"), "b": slow(time.Minute, "second")}})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != time.Hour {
			t.Errorf("took %v, want the time of the slowest", d)
		}
		want := []string{`reply "" 2 calls`, "call a", "call b", `result b "second" failed=false`, `result a "first" failed=false`, "text ok", `reply "ok" 0 calls`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		last := m.Requests()[1].Messages
		if last[2].Text != "first" || last[3].Text != "second" {
			t.Errorf("results out of order: %+v", last)
		}
	})
}

// Text is reported while the model is still writing.
func TestLoop_textArrivesAsItIsWritten(t *testing.T) {
	m := scripted.New(scripted.Say("early").Wait("go").Say("late"))
	l := llm.Loop{Model: m}
	var got []string
	for e, err := range l.Run(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Text == "early" {
			m.Release("go") // the model is held here: this runs before it goes on
		}
		got = append(got, e.Text)
	}
	if diff := cmp.Diff([]string{"early", "late", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// What a tool does wrong is told to the model, not to the caller (S0-040).
func TestLoop_failuresOfToolsAreResults(t *testing.T) {
	tests := map[string]struct {
		tool, args string
		want       string
	}{
		"an unknown tool":      {"nope", `{}`, "Unknown tool: nope"},
		"broken arguments":     {"a", `{"x":`, "The arguments of a are not a JSON object; call it again with one"},
		"arguments of a list":  {"a", `[1]`, "The arguments of a are not a JSON object; call it again with one"},
		"arguments of null":    {"a", `null`, "The arguments of a are not a JSON object; call it again with one"},
		"a panic":              {"boom", `{}`, "task_crashed: internal error in tool boom"},
		"a failure of its own": {"b", `{}`, "no luck"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			m := scripted.New(scripted.Call(tt.tool, tt.args), scripted.Say("ok"))
			_, err := told(t, &llm.Loop{Model: m, Logger: slog.New(slog.NewTextHandler(&logs, nil)), Tools: tools{
				"a":    echo("A"),
				"b":    func(context.Context, string) llm.ToolResult { return llm.ToolResult{Text: "no luck", Failed: true} },
				"boom": func(context.Context, string) llm.ToolResult { panic("secret") },
			}})
			if err != nil {
				t.Fatal(err)
			}
			msgs := m.Requests()[1].Messages
			if got := msgs[len(msgs)-1]; got.Text != tt.want || !got.Failed {
				t.Errorf("the model read %+v, want failed %q", got, tt.want)
			}
			if tt.tool == "boom" != strings.Contains(logs.String(), "loop_test.go") {
				t.Errorf("logs: %s", logs.String())
			}
		})
	}
}

// together is tools that want to see the calls of a reply before they run.
type together struct {
	tools
	seen *[]string
}

func (b together) Batch(_ context.Context, uses []mesh.ToolUse) {
	line := "batch"
	for _, u := range uses {
		line += " " + u.Name
	}
	*b.seen = append(*b.seen, line)
}

func (together) Follows(string) bool { return true }

func (b together) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	*b.seen = append(*b.seen, "call")
	return b.tools.Call(ctx, use)
}

// Tools that are a Batcher see all calls of a reply before the first one runs
// (S0-022).
func TestLoop_showsTheCallsOfAReplyTogether(t *testing.T) {
	var seen []string
	m := scripted.New(scripted.Call("a", `{}`).Call("nope", `{}`), scripted.Call("a", `{}`), scripted.Say("ok"))
	if _, err := told(t, &llm.Loop{Model: m, Tools: together{tools{"a": echo("A")}, &seen}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"batch a nope", "call", "batch a", "call"}, seen); diff != "" {
		t.Error(diff)
	}
}

// After MaxSteps replies with calls, one more is asked for without tools
// (S0-068).
func TestLoop_limitEndsWithAnAnswerWithoutTools(t *testing.T) {
	m := scripted.New(scripted.Call("a", `{}`).Repeat().For(scripted.HasTool("a")), scripted.Say("So far.").Call("a", `{}`))
	got, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}, MaxSteps: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`reply "" 1 calls`, "call a", `result a "A{}" failed=false`, `reply "" 1 calls`, "call a", `result a "A{}" failed=false`,
		"limit agent.steps", "text So far.", `reply "So far." 0 calls`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(m.Requests()); n != 3 {
		t.Errorf("the model was asked %d times", n)
	}

	m = scripted.New(scripted.Call("a", `{}`).Repeat().For(scripted.HasTool("a")), scripted.Say("End."))
	if _, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}}); err != nil || len(m.Requests()) != llm.DefaultMaxSteps+1 {
		t.Errorf("by default: %d requests, err %v", len(m.Requests()), err)
	}
}

func TestLoop_stopEndsTheRun(t *testing.T) {
	m := scripted.New(scripted.Call("end", `{}`).Call("a", `{}`))
	got, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A"), "end": func(context.Context, string) llm.ToolResult {
		return llm.ToolResult{Text: "handed over", Stop: true}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || m.Left() != 0 || len(m.Requests()) != 1 {
		t.Errorf("events %q, %d requests", got, len(m.Requests()))
	}
}

// Errors of the model end the run with their code and detail.
func TestLoop_errorsOfTheModelEndTheRun(t *testing.T) {
	silent := modelFunc(func(func(llm.Chunk, error) bool) {})
	tests := map[string]struct {
		model llm.Model
		code  mesh.Code
	}{
		"typed":        {scripted.New(scripted.Say("x").Fail(mesh.Errorf(mesh.Exhausted, "m", "wait"))), mesh.Exhausted},
		"foreign":      {scripted.New(scripted.Fail(errors.New("odd"))), mesh.Unknown},
		"without Done": {silent, mesh.Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := told(t, &llm.Loop{Model: tt.model})
			var e *mesh.Error
			if !errors.As(err, &e) || e.Code != tt.code {
				t.Errorf("error %v, want a mesh.Error with code %v", err, tt.code)
			}
		})
	}
}

// A model that never ends must not fill the memory, and its reply must fit in
// an event.
func TestLoop_endlessRepliesAreCutOff(t *testing.T) {
	for name, chunk := range map[string]llm.Chunk{
		"text":  {Text: strings.Repeat("again ", 100)},
		"calls": {Tool: &mesh.ToolUse{Name: "a", Arguments: `{"x":"` + strings.Repeat("y", 600) + `"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			m := modelFunc(func(yield func(llm.Chunk, error) bool) {
				for yield(chunk, nil) {
					if sent += 600; sent > 8<<20 {
						return
					}
				}
			})
			_, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}})
			if !mesh.IsCode(err, mesh.Exhausted) || sent > mesh.MaxEvent {
				t.Errorf("%d bytes were read, and the error is %v", sent, err)
			}
		})
	}
}

type modelFunc func(yield func(llm.Chunk, error) bool)

func (f modelFunc) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return iter.Seq2[llm.Chunk, error](f)
}

// Calls without ids, or with ids that were used before, get ids of their own.
func TestLoop_callsHaveIDsOfTheirOwn(t *testing.T) {
	asked := 0
	m := modelFunc(func(yield func(llm.Chunk, error) bool) {
		if asked++; asked <= 2 {
			for _, id := range []string{"", "", "same", "same"} {
				if !yield(llm.Chunk{Tool: &mesh.ToolUse{ID: id, Name: "a"}}, nil) {
					return
				}
			}
		} else if !yield(llm.Chunk{Text: "ok"}, nil) {
			return
		}
		yield(llm.Chunk{Done: &llm.Done{Finish: "stop"}}, nil)
	})
	seen := map[string]bool{}
	l := llm.Loop{Model: m, Tools: tools{"a": echo("A")}}
	for e, err := range l.Run(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Call == nil {
			continue
		}
		if e.Call.ID == "" || seen[e.Call.ID] {
			t.Errorf("id %q is not unique", e.Call.ID)
		}
		seen[e.Call.ID] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d calls", len(seen))
	}
}

// Whoever breaks the sequence leaves nothing behind: the calls are canceled
// and waited for (goleak watches).
func TestLoop_breakingCancelsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		l := llm.Loop{Model: scripted.New(scripted.Call("wait", `{}`).Call("a", `{}`)), Tools: tools{
			"a": echo("A"),
			"wait": func(ctx context.Context, _ string) llm.ToolResult {
				<-ctx.Done()
				time.Sleep(time.Second) // cleaning up takes a while
				ended = true
				return llm.ToolResult{}
			},
		}}
		for e, err := range l.Run(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Result != nil {
				break
			}
		}
		if !ended {
			t.Error("a call was still running when Run returned")
		}
	})
}

// The end of the caller's context ends the run with its code, also while tools
// run.
func TestLoop_cancelEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := llm.Loop{Model: scripted.New(scripted.Call("wait", `{}`)), Tools: tools{"wait": func(ctx context.Context, _ string) llm.ToolResult {
		cancel()
		<-ctx.Done()
		return llm.ToolResult{Text: "gave up", Failed: true}
	}}}
	var last error
	for _, err := range l.Run(ctx, nil) {
		last = err
	}
	if mesh.CodeOf(last) != mesh.Canceled {
		t.Errorf("run ended with %v", last)
	}
}

func TestLoop_leavesTheHistoryAlone(t *testing.T) {
	history := make([]llm.Message, 1, 10)
	history[0] = llm.Message{Role: llm.RoleUser, Text: "go"}
	l := llm.Loop{Model: scripted.New(scripted.Call("a", `{}`), scripted.Say("ok")), Tools: tools{"a": echo("A")}}
	for _, err := range l.Run(t.Context(), history) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if extra := history[:2][1]; extra.Role != "" {
		t.Errorf("the caller's slice was written to: %+v", extra)
	}
}

// collecting is a Collector that has nothing, and notes when it is asked.
type collecting struct {
	model *scripted.Model
	asked []string
}

func (c *collecting) Drain(context.Context, bool) []llm.Delivery {
	c.asked = append(c.asked, fmt.Sprint("drain before call ", len(c.model.Requests())+1))
	return nil
}

func (c *collecting) Wait(context.Context) ([]llm.Delivery, *llm.Ask) {
	c.asked = append(c.asked, fmt.Sprint("wait after call ", len(c.model.Requests())))
	return nil, nil
}

func (c *collecting) Suspend() { c.asked = append(c.asked, "suspend") }

// S1-007, S1-016, S1-100: who has others work goes through the same loop as everybody, with two
// things more: before each call of the model it drains, and after a reply that calls nothing it waits.
// Where nothing comes, requests and events are the same, with and without.
func TestLoop_aCollectorAddsADrainAndAWait(t *testing.T) {
	script := []scripted.Step{scripted.Say("Let me look.").Call("a", `{}`).Call("b", `{}`), scripted.Call("boom", `{}`), scripted.Say("Done.")}
	ts := tools{"a": echo("A"), "b": echo("B"), "boom": func(context.Context, string) llm.ToolResult { panic("boom") }}
	plain, with := scripted.New(script...), scripted.New(script...)
	c := &collecting{model: with}
	before, err := told(t, &llm.Loop{Model: plain, Tools: ts, System: "be brief"})
	if err != nil {
		t.Fatal(err)
	}
	after, err := told(t, &llm.Loop{Model: with, Tools: ts, System: "be brief", Collector: c})
	if err != nil {
		t.Fatal(err)
	}
	sorted := func(lines []string) []string { // calls of a reply end in any order
		slices.Sort(lines)
		return lines
	}
	if diff := cmp.Diff(sorted(before), sorted(after)); diff != "" {
		t.Errorf("events (-without +with):\n%s", diff)
	}
	if diff := cmp.Diff(plain.Requests(), with.Requests()); diff != "" {
		t.Errorf("requests (-without +with):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"drain before call 1", "drain before call 2", "drain before call 3", "wait after call 3"}, c.asked); diff != "" {
		t.Errorf("the collector was asked (-want +got):\n%s", diff)
	}
}
