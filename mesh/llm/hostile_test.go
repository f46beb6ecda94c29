package llm_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// batching is tools of which "a" discovers, and that see their calls together.
type batching struct {
	discovering
	seen *[]string
}

func (b batching) Batch(_ context.Context, uses []mesh.ToolUse) {
	for _, u := range uses {
		*b.seen = append(*b.seen, u.Name)
	}
}

func (batching) Follows(string) bool { return true }

// Some models put a namespace before the name of a tool. It means the tool, whose
// own name everybody reads from then on: the log, those who go on from it, and the
// model. Whatever is no tool stays unknown.
func TestLoop_namesWithAPrefixMeanTheTool(t *testing.T) {
	m := scripted.New(
		scripted.Call("functions.b", `{}`).Call("default_api:a", `{}`).Call("x:functions.b", `{}`).Call("b", `{}`).Call("b:", `{}`).Call("b.c", `{}`).Call("xb", `{}`).Call("functions.cmd", `{"line":"b"}`),
		scripted.Say("ok"))
	var batch []string
	ts := batching{discovering{tools{"a": echo("A"), "b": echo("B")}}, &batch}
	var begun []string
	results := map[string]string{}
	var logged []string
	for _, e := range run(t, &llm.Loop{Model: m, Tools: ts}, nil) {
		if e.Reply != nil {
			for _, u := range e.Reply.Tools {
				logged = append(logged, u.Name)
			}
		}
		if e.Call != nil {
			begun = append(begun, e.Call.Name)
		}
		if e.Result != nil {
			results[e.Result.Use.Name] = e.Result.Text
		}
	}
	for _, got := range [][]string{batch, logged} {
		if diff := cmp.Diff([]string{"b", "a", "b", "b", "b:", "b.c", "xb", "functions.cmd"}, got); diff != "" {
			t.Error(diff)
		}
	}
	if begun[0] != "a" {
		t.Errorf("a tool that discovers did not run first: %q", begun)
	}
	want := map[string]string{
		"a": "A{}", "b": "B{}",
		"b:": "Unknown tool: b:", "b.c": "Unknown tool: b.c", "xb": "Unknown tool: xb", "functions.cmd": "Unknown tool: functions.cmd",
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
	reply := m.Requests()[1].Messages[0]
	for i, msg := range m.Requests()[1].Messages[1:] {
		if use := reply.Tools[i]; msg.ToolID != use.ID || msg.Name != use.Name {
			t.Errorf("the call %+v is answered by %+v", use, msg)
		}
	}
}

// A limit that one call of a parallel batch meets stops none of the others: each
// has its result, and then the run pauses, or the model answers without tools.
func TestLoop_aLimitInTheMiddleOfABatch(t *testing.T) {
	for _, pause := range []bool{true, false} {
		for _, at := range []int{0, 1, 2} {
			trip := &llm.Trip{Limit: "turn.skill_calls", Used: 2, Most: 2, Detail: "No more calls"}
			begun := make(chan struct{}, 3)
			work := func(context.Context, string) llm.ToolResult {
				begun <- struct{}{}
				return llm.ToolResult{Text: "done"}
			}
			ts := tools{"a": work, "b": work, "wait": work}
			names := []string{"a", "b", "wait"}
			ts[names[at]] = func(context.Context, string) llm.ToolResult {
				<-begun // others are under way
				return llm.ToolResult{Text: "not called", Failed: true, Trip: trip}
			}
			m := scripted.New(scripted.Call("a", `{}`).Call("b", `{}`).Call("wait", `{}`), scripted.Say("That is all."))
			events := run(t, &llm.Loop{Model: m, Tools: ts, Pause: pause}, nil)
			results, limits := 0, 0
			for _, e := range events {
				if e.Result != nil {
					results++
				}
				if e.Limit != nil {
					limits++
					if results != 3 || e.Limit != trip {
						t.Errorf("the limit %+v was told after %d results", e.Limit, results)
					}
				}
			}
			if asked := len(m.Requests()); limits != 1 || pause && asked != 1 || !pause && (asked != 2 || m.Requests()[1].Tools != nil) {
				t.Errorf("pause %v: %d limits, the model was asked %d times", pause, limits, asked)
			}
		}
	}
}

// A call that ends just when its time is up has one result, whichever it is.
func TestLoop_aCallThatEndsAtTheDeadline(t *testing.T) {
	for _, names := range [][]string{{"wait"}, {"wait", "a"}, {"a", "wait", "wait"}} {
		synctest.Test(t, func(t *testing.T) {
			step := scripted.Step{}
			for _, n := range names {
				step = step.Call(n, `{}`)
			}
			m := scripted.New(step, scripted.Say("ok"))
			l := &llm.Loop{Model: m, Timeout: time.Minute, Tools: tools{"a": echo("A"), "wait": func(context.Context, string) llm.ToolResult {
				time.Sleep(time.Minute)
				return llm.ToolResult{Text: "in time"}
			}}}
			ended := map[string]int{}
			for _, e := range run(t, l, nil) {
				if e.Result != nil {
					ended[e.Result.Use.ID]++
				}
			}
			for n := range maps.Values(ended) {
				if n != 1 || len(ended) != len(names) {
					t.Errorf("%v ended %v", names, ended)
				}
			}
			for _, msg := range m.Requests()[1].Messages[1:] {
				if msg.Name == "wait" && msg.Text != "in time" && !strings.HasPrefix(msg.Text, "timeout: wait") {
					t.Errorf("the model read %+v", msg)
				}
			}
		})
	}
}

// Wherever a run is when its context ends, it ends with that, begins no further
// call and asks the model nothing more.
func TestLoop_cancelInEachPhase(t *testing.T) {
	for _, phase := range []string{"check", "fit", "the model", "the text", "observe", "discovery", "one action", "actions", "a command", "an event", "resume"} {
		t.Run(phase, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var called []string
			over := func() bool { return ctx.Err() != nil }
			here := func(p string) {
				if p == phase {
					cancel()
				}
			}
			tool := func(name string) func(context.Context, string) llm.ToolResult {
				return func(context.Context, string) llm.ToolResult {
					if over() && phase != "actions" {
						called = append(called, name)
					}
					switch name {
					case "a":
						here("discovery")
						here("resume")
					case "b":
						here("one action")
					case "end":
						here("actions")
					}
					return llm.ToolResult{Text: name}
				}
			}
			step := scripted.Say("text").Call("b", `{}`).Call("a", `{}`)
			if phase == "actions" {
				step = scripted.Call("end", `{}`).Call("b", `{}`).Call("a", `{}`)
			}
			l := &llm.Loop{
				Model: &cancelling{scripted.New(step, scripted.Say("ok")), here},
				Tools: discovering{tools{"a": tool("a"), "b": tool("b"), "end": tool("end")}},
				Check: func(context.Context, int) *llm.Trip { here("check"); return nil },
				Fit:   func(*llm.Request, mesh.Usage) int { here("fit"); return 0 },
				Observe: func(_ context.Context, c llm.Call) {
					here("observe")
				},
			}
			if phase == "a command" {
				l.Commands = fences{}
				l.Model = &cancelling{scripted.New(scripted.Say("```cmd\nb\nc\n```"), scripted.Say("ok")), here}
				first := true
				l.Tools = lines{run: func(string) llm.ToolResult {
					if !first {
						called = append(called, "cmd")
					}
					first = false
					here("a command")
					return llm.ToolResult{Text: "done"}
				}}
			}
			history := []llm.Message{{Role: llm.RoleUser, Text: "go"}}
			if phase == "resume" {
				history = append(history, llm.Message{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}}})
			}
			var last error
			for e, err := range l.Run(ctx, history) {
				last = err
				if e.Call != nil {
					here("an event")
				}
			}
			asked := len(l.Model.(*cancelling).Requests())
			if mesh.CodeOf(last) != mesh.Canceled || asked > 1 || len(called) > 0 && phase != "an event" {
				t.Errorf("ended with %v after %d requests; called afterwards: %q", last, asked, called)
			}
		})
	}
}

// cancelling is a model that tells where it is.
type cancelling struct {
	*scripted.Model
	here func(string)
}

func (c *cancelling) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		c.here("the model")
		for chunk, err := range c.Model.Generate(ctx, req) {
			if chunk.Text != "" {
				c.here("the text")
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// Arguments that are no object are told, and the tool is not called with them.
func TestLoop_brokenArguments(t *testing.T) {
	for _, args := range []string{`{`, `{"x":1`, `{"x":1}}`, `[]`, `null`, `7`, `"{}"`, `{"x":1}{"y":2}`, "\x00", `{'x':1}`, strings.Repeat("[", 20_000)} {
		m := scripted.New(scripted.Call("a", args), scripted.Say("ok"))
		called := false
		l := &llm.Loop{Model: m, Tools: tools{"a": func(context.Context, string) llm.ToolResult { called = true; return llm.ToolResult{} }}}
		run(t, l, nil)
		if msg := m.Requests()[1].Messages[1]; called || !msg.Failed || !strings.Contains(msg.Text, "not a JSON object") {
			t.Errorf("%.20q: called %v, and the model was told %q", args, called, msg.Text)
		}
	}
}

// What a reply of the model says twice is done twice, under two ids, and each has
// its own result; a history with an id twice is taken as it is.
func TestLoop_theSameCallTwice(t *testing.T) {
	n := 0
	ts := tools{"a": func(context.Context, string) llm.ToolResult {
		n++
		return llm.ToolResult{Text: fmt.Sprint(n)}
	}}
	m := scripted.New(scripted.Say("ok"))
	use := mesh.ToolUse{ID: "1", Name: "a", Arguments: "{}"}
	run(t, &llm.Loop{Model: m, Tools: discovering{ts}}, []llm.Message{
		{Role: llm.RoleUser, Text: "go"}, {Role: llm.RoleAssistant, Tools: []mesh.ToolUse{use}}, {Role: llm.RoleTool, ToolID: "1", Text: "first"},
		{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{use}},
	})
	var read []string
	for _, msg := range m.Requests()[0].Messages {
		if msg.Role == llm.RoleTool {
			read = append(read, msg.Text)
		}
	}
	if diff := cmp.Diff([]string{"first", "1"}, read); diff != "" || n != 1 {
		t.Errorf("%d calls\n%s", n, diff)
	}
}
