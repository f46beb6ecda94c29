package llm_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// discovering is tools of which "a" discovers.
type discovering struct{ tools }

func (discovering) Discovers(name string) bool { return name == "a" }

// Calls that discover run first and one after the other, the others at the
// same time after them; the model reads the results in the order of its calls
// (S3-034, S3-038).
func TestLoop_discoveryRunsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var log []string
		slow := func(name string) func(context.Context, string) llm.ToolResult {
			return func(_ context.Context, args string) llm.ToolResult {
				time.Sleep(time.Minute)
				return llm.ToolResult{Text: fmt.Sprintf("%s%s at %v", name, args, time.Since(begin))}
			}
		}
		m := scripted.New(scripted.Call("b", `{}`).Call("a", `{"n":1}`).Call("wait", `{}`).Call("a", `{"n":2}`), scripted.Say("ok"))
		for e, err := range (&llm.Loop{Model: m, Tools: discovering{tools{"a": slow("a"), "b": slow("b"), "wait": slow("wait")}}}).Run(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Call != nil {
				log = append(log, e.Call.Name)
			}
		}
		if diff := cmp.Diff([]string{"a", "a", "b", "wait"}, log); diff != "" {
			t.Error(diff)
		}
		var read []string
		for _, msg := range m.Requests()[1].Messages[1:] {
			read = append(read, msg.Text)
		}
		want := []string{"b{} at 3m0s", `a{"n":1} at 1m0s`, "wait{} at 3m0s", `a{"n":2} at 2m0s`}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Error(diff)
		}
	})
}

// phased is tools that note the order in which they are called: "a" discovers, "end" follows
// the batch, and "wait" waits.
type phased struct {
	tools
	seen *[]string
}

func (phased) Discovers(name string) bool { return name == "a" }
func (phased) Follows(name string) bool   { return name == "end" }
func (phased) Waits(name string) bool     { return name == "wait" }
func (p phased) Batch(_ context.Context, uses []mesh.ToolUse) {
	*p.seen = append(*p.seen, fmt.Sprint(len(uses), " together"))
}
func (p phased) Call(ctx context.Context, u mesh.ToolUse) llm.ToolResult {
	if u.Name == llm.CommandTool {
		*p.seen = append(*p.seen, line(u))
		return llm.ToolResult{Text: "ok"}
	}
	*p.seen = append(*p.seen, u.Name)
	return p.tools.Call(ctx, u)
}

// C6.5: of the calls of one reply, those that find out run first, then what needs nobody
// else, commands as well, then agents are set to work, and those that wait come last,
// whatever their order in the reply; none is dropped.
func TestLoop_mixedCallsRunInTheirPhases(t *testing.T) {
	var seen []string
	m := scripted.New(scripted.Say("```cmd\nlook\nsee again\n```").Call("wait", `{}`).Call("end", `{}`).Call("b", `{}`).Call("a", `{}`), scripted.Say("ok"))
	ts := phased{tools{"a": echo("A"), "b": echo("B"), "end": echo("C"), "wait": echo("D")}, &seen}
	results := 0
	for _, e := range run(t, &llm.Loop{Model: m, Tools: ts, Commands: fences{}}, nil) {
		if e.Result != nil {
			results++
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "look", "see again", "6 together", "end", "wait"}, seen); diff != "" || results != 6 {
		t.Errorf("%d results\n%s", results, diff)
	}
}

// slowly is tools whose batch takes longer than a call may.
type slowly struct{ phased }

func (s slowly) Batch(ctx context.Context, uses []mesh.ToolUse) {
	select {
	case <-time.After(time.Minute):
		s.phased.Batch(ctx, uses)
	case <-ctx.Done():
		*s.seen = append(*s.seen, "given up")
	}
}

// What sets agents to work is not given up while it does: the node may have taken the orders
// of which the model would be told that they failed, and have them begin.
func TestLoop_aBatchIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		m := scripted.New(scripted.Call("end", `{}`), scripted.Say("ok"))
		run(t, &llm.Loop{Model: m, Tools: slowly{phased{tools{"end": echo("C")}, &seen}}, Timeout: 30 * time.Second}, nil)
		if diff := cmp.Diff([]string{"1 together", "end"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

// goroutine is the id of the goroutine that calls it.
func goroutine() string {
	buf := make([]byte, 64)
	return strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1]
}

// Exactly one action runs where the loop runs; several do not (S3-035).
func TestLoop_oneCallNeedsNoGoroutine(t *testing.T) {
	where := make(chan string, 8)
	ts := tools{"a": func(context.Context, string) llm.ToolResult {
		where <- goroutine()
		return llm.ToolResult{Text: "ok"}
	}}
	for _, n := range []int{1, 3} {
		step := scripted.Step{}
		for range n {
			step = step.Call("a", `{}`)
		}
		if _, err := told(t, &llm.Loop{Model: scripted.New(step, scripted.Say("ok")), Tools: ts}); err != nil {
			t.Fatal(err)
		}
		for range n {
			if here := <-where == goroutine(); here != (n == 1) {
				t.Errorf("%d calls, in the loop's goroutine: %v", n, here)
			}
		}
	}
}

// A call that crashes, ends its goroutine or never answers is a failed result
// of its own; the others are not affected, and nothing is left when the run
// ends (S3-036, S3-037).
func TestLoop_crashedAndLateCallsAreIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stubborn := false
		ts := tools{
			"a":    echo("A"),
			"b":    func(context.Context, string) llm.ToolResult { runtime.Goexit(); return llm.ToolResult{} },
			"boom": func(context.Context, string) llm.ToolResult { panic("secret") },
			"wait": func(ctx context.Context, _ string) llm.ToolResult {
				<-ctx.Done()
				time.Sleep(time.Hour)
				stubborn = true
				return llm.ToolResult{Text: "too late"}
			},
		}
		m := scripted.New(scripted.Call("boom", `{}`).Call("wait", `{}`).Call("a", `{}`).Call("b", `{}`), scripted.Say("ok"))
		l := &llm.Loop{Model: m, Tools: ts, Timeout: 30 * time.Second}
		var answered time.Duration
		for e, err := range l.Run(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Text == "ok" {
				answered = time.Since(begin)
			}
		}
		var read []string
		for _, msg := range m.Requests()[1].Messages[1:] {
			read = append(read, fmt.Sprintf("%v %s", msg.Failed, msg.Text))
		}
		want := []string{
			"true task_crashed: internal error in tool boom",
			"true timeout: wait did not answer within 30s; it is not known whether it had an effect",
			"false A{}", "true task_crashed: internal error in tool b",
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Error(diff)
		}
		if answered != 30*time.Second || !stubborn {
			t.Errorf("answered after %v, the late call has ended: %v", answered, stubborn)
		}
	})
}

// A call that is alone gets the same deadline, by its context.
func TestLoop_aLateCallThatIsAloneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Call("wait", `{}`), scripted.Say("ok"))
		_, err := told(t, &llm.Loop{Model: m, Timeout: time.Minute, Tools: tools{"wait": func(ctx context.Context, _ string) llm.ToolResult {
			<-ctx.Done()
			return llm.ToolResult{Text: "gave up", Failed: true}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Requests()[1].Messages[2].Text; !strings.HasPrefix(got, "timeout: wait did not answer within 1m0s") {
			t.Errorf("the model was told %q", got)
		}
	})
}

func TestLoop_noArgumentsAreAnEmptyObject(t *testing.T) {
	m := scripted.New(scripted.Call("a", ""), scripted.Say("ok"))
	if _, err := told(t, &llm.Loop{Model: m, Tools: tools{"a": echo("A")}}); err != nil {
		t.Fatal(err)
	}
	if got := m.Requests()[1].Messages[2].Text; got != "A{}" {
		t.Errorf("the tool was given %q", got)
	}
}

// A result that is too long is cut at a line, and the model is told how to get
// the rest (S3-154).
func TestLoop_largeResultsAreCutWithANote(t *testing.T) {
	long := strings.Repeat("a line of a long list with ümläüts\n", 9000)
	wide := strings.Repeat("ü", 100_000)
	for name, tt := range map[string]struct {
		text string
		most int
	}{"lines": {long, 0}, "one line": {wide, 0}, "a smaller bound": {long, 1000}, "hardly any": {long, 10}} {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(scripted.Call("a", `{}`), scripted.Say("ok"))
			events := run(t, &llm.Loop{Model: m, MaxResult: tt.most, Tools: tools{"a": func(context.Context, string) llm.ToolResult {
				return llm.ToolResult{Text: tt.text}
			}}}, nil)
			got := m.Requests()[1].Messages[1].Text
			most := tt.most
			if most == 0 {
				most = mesh.MaxResult
			}
			head, note, found := strings.Cut(got, "\n[")
			if !found || !strings.Contains(note, fmt.Sprintf("%d of %d bytes are left out", len(tt.text)-len(head), len(tt.text))) ||
				!strings.Contains(note, "--limit") || !strings.HasPrefix(tt.text, head) || !utf8.ValidString(got) {
				t.Errorf("the model was told ...%q", got[max(0, len(got)-200):])
			}
			if most > 200 && len(got) > most {
				t.Errorf("the model was told %d bytes, want at most %d", len(got), most)
			}
			for _, e := range events {
				if e.Result != nil && e.Result.Text != got {
					t.Error("the log has another result than the model")
				}
			}
		})
	}
	m := scripted.New(scripted.Call("a", `{}`), scripted.Say("ok"))
	run(t, &llm.Loop{Model: m, Tools: tools{"a": func(context.Context, string) llm.ToolResult {
		return llm.ToolResult{Text: long[:mesh.MaxResult]}
	}}}, nil)
	if m.Requests()[1].Messages[1].Text != long[:mesh.MaxResult] {
		t.Error("a result that fits was changed")
	}
}
