package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/price"
	"agentmesh/mesh/llm/scripted"
)

// Within a run each request begins with the bytes of the one before, and new
// content is never among what is settled (S3-058, S3-063, S3-064, S3-065).
func TestLoop_requestsOfARunShareTheirPrefix(t *testing.T) {
	use := command("x.y")
	use.ID = "old"
	history := []llm.Message{
		{Role: llm.RoleUser, Text: "before"},
		{Role: llm.RoleAssistant, Text: "```cmd\nx.y\n```", Tools: []mesh.ToolUse{use}},
		{Role: llm.RoleTool, ToolID: "old", Name: llm.CommandTool, Text: "result"},
		{Role: llm.RoleAssistant, Text: "answer"},
		{Role: llm.RoleUser, Text: "now"},
	}
	for name, tt := range map[string]struct {
		commands llm.Commands
		steps    []scripted.Step
	}{
		"JSON tools": {nil, []scripted.Step{scripted.Call("a", `{}`), scripted.Call("a", `{}`).Call("a", `{"n":2}`), {}, scripted.Say("ok")}},
		"commands": {fences{}, []scripted.Step{
			scripted.Say("```cmd\na.b\nc.d\n```"), scripted.Say("```cmd\nnot closed"), scripted.Say("```cmd\ne.f\n```").Call("a", "{}"), scripted.Say("ok"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(tt.steps...)
			l := &llm.Loop{
				Model: m, Name: "big", System: "You are an agent.", Context: "Open tasks: 3", Fresh: "It is noon.", MaxTokens: 99,
				Commands: tt.commands, Tools: lines{tools{"a": echo("A")}, nil, nil},
			}
			run(t, l, history)
			requests := m.Requests()
			if len(requests) != 4 {
				t.Fatalf("%d requests", len(requests))
			}
			for i, r := range requests {
				if r.System != l.System || r.Context != l.Context || r.Fresh != l.Fresh || r.Model != "big" || r.MaxTokens != 99 || r.Settled != 4 {
					t.Errorf("request %d: %+v", i, r)
				}
				if r.Messages[r.Settled].Text != "now" {
					t.Errorf("request %d counts the new message among the settled ones", i)
				}
				if i == 0 {
					continue
				}
				before := requests[i-1]
				if diff := cmp.Diff(before.Tools, r.Tools); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(before.Messages, r.Messages[:len(before.Messages)]); diff != "" {
					t.Errorf("request %d begins otherwise than the one before:\n%s", i, diff)
				}
			}
		})
	}
}

// The system prompt and the tools are the same bytes in every turn and in
// every conversation (S3-058).
func TestLoop_thePrefixIsTheSameInEveryConversation(t *testing.T) {
	m := scripted.New(scripted.Say("ok").Repeat())
	var prefixes []string
	for n := range 3 {
		run(t, &llm.Loop{Model: m, System: "You are an agent.", Context: fmt.Sprint("context ", n), Tools: tools{"a": echo("A"), "b": echo("B")}},
			[]llm.Message{{Role: llm.RoleUser, Text: fmt.Sprint("message ", n)}})
		r := m.Requests()[n]
		prefixes = append(prefixes, encoded(t, r.Tools)+r.System)
	}
	if prefixes[0] != prefixes[1] || prefixes[1] != prefixes[2] || prefixes[0] == "" {
		t.Errorf("prefixes differ: %q", prefixes)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// cache is a model behind a provider that caches up to two breakpoints: the
// end of the system prompt and the end of what is settled. A byte is a token.
type cache struct {
	t      *testing.T
	script *scripted.Model
	kept   map[string]bool
	system int // calls that found the system prompt
	middle int // calls that found the context too
}

func (c *cache) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		usage := c.usage(req)
		for chunk, err := range c.script.Generate(ctx, req) {
			if chunk.Done != nil {
				chunk.Done.Usage = usage
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

func (c *cache) usage(req *llm.Request) mesh.Usage {
	size := func(ms []llm.Message) (n int64) {
		for _, m := range ms {
			n += int64(len(m.Text))
		}
		return n
	}
	system, context := int64(len(req.System)), int64(len(req.Context))+size(req.Messages[:req.Settled])
	u := mesh.Usage{Prompt: system + context + size(req.Messages[req.Settled:])}
	first := encoded(c.t, req.Tools) + req.System
	second := first + req.Context + encoded(c.t, req.Messages[:req.Settled])
	for _, at := range []struct {
		key  string
		size int64
		hits *int
	}{{first, system, &c.system}, {second, context, &c.middle}} {
		if c.kept[at.key] {
			*at.hits++
			u.Cached += at.size
		} else {
			u.CacheWrite += at.size
		}
		c.kept[at.key] = true
	}
	return u
}

func sized(prefix string, n int) string { return prefix + strings.Repeat(".", n-len(prefix)) }

// In a turn of three calls two find the context, and all but the very first
// the system prompt (S3-066, S3-068).
func TestLoop_aTurnOfThreeCallsHitsTheCache(t *testing.T) {
	c := &cache{t: t, kept: map[string]bool{}, script: scripted.New(
		scripted.Say("Good morning."), scripted.Call("a", `{}`), scripted.Call("a", `{}`), scripted.Say("ok"))}
	l := &llm.Loop{Model: c, System: sized("s", 3000), Context: "tasks", Tools: tools{"a": echo("A")}}
	run(t, l, []llm.Message{{Role: llm.RoleUser, Text: "hello"}})
	c.system, c.middle = 0, 0
	run(t, l, []llm.Message{{Role: llm.RoleUser, Text: "hello"}, {Role: llm.RoleAssistant, Text: "Good morning."}, {Role: llm.RoleUser, Text: "go"}})
	if c.system != 3 || c.middle != 2 {
		t.Errorf("of 3 calls %d found the system prompt and %d the context", c.system, c.middle)
	}
}

// Ten turns of 25 calls, five of one call and five of four, with 3,000 tokens of
// system prompt, 2,000 of context and 500 of new content each, are 137,500
// tokens. What they cost is computed from the usages of a run (S3-070, and the
// savings of S3-068), where a token that is read from the cache counts 0.1 and
// one that is written to it 1.25.
//
// The model of costs comes to 48,950: it assumes that the context is only written
// to the cache in turns whose later calls read it again. The loop cannot know
// beforehand that a turn is to have one call, and has the context of each turn
// written: that is 500 more for each of the five turns of one call, 51,450 in all.
func TestLoop_aConversationCostsLittleWithACache(t *testing.T) {
	const system, known, fresh = 3000, 2000, 500
	var steps []scripted.Step
	for turn := range 10 {
		for range turn % 2 * 3 {
			steps = append(steps, scripted.Call("a", `{}`))
		}
		steps = append(steps, scripted.Say("ok"))
	}
	c := &cache{t: t, kept: map[string]bool{}, script: scripted.New(steps...)}
	effective := price.Table{"scripted": {Input: 1e6, Cached: 0.1e6, CacheWrite: 1.25e6}} // dollars are tokens
	calls, sum, foreseen := 0, mesh.Usage{}, 0.0
	for turn := range 10 {
		var replies []mesh.Usage
		l := &llm.Loop{
			Model: c, System: sized("s", system), Context: sized(fmt.Sprint("turn ", turn), known), Cost: effective.Cost,
			Tools: tools{"a": func(context.Context, string) llm.ToolResult { return llm.ToolResult{} }},
		}
		for _, e := range run(t, l, []llm.Message{{Role: llm.RoleUser, Text: sized("u", fresh)}}) {
			if e.Reply != nil {
				calls++
				sum = sum.Add(e.Reply.Usage)
				replies = append(replies, e.Reply.Usage)
			}
		}
		if len(replies) == 1 {
			replies[0].CacheWrite -= known
		}
		for _, u := range replies {
			u.Cost = 0
			foreseen += effective.Cost("scripted", u).Cost
		}
	}
	if calls != 25 || sum.Prompt != 137_500 || sum.Unpriced != 0 {
		t.Fatalf("%d calls with %+v", calls, sum)
	}
	if math.Abs(sum.Cost-51_450) > 1e-6 || math.Abs(foreseen-48_950) > 1e-6 {
		t.Errorf("the conversation costs %v, and %v with turns of one call that are known beforehand", sum.Cost, foreseen)
	}
	if saved := 1 - sum.Cost/float64(sum.Prompt); saved < 0.62 {
		t.Errorf("%.2f of the input is saved", saved)
	}
	if saved := 1 - foreseen/float64(sum.Prompt); math.Abs(saved-0.64) > 0.005 {
		t.Errorf("%.3f of the input would be saved", saved)
	}
	if c.system != 24 || c.middle != 15 {
		t.Errorf("%d calls found the system prompt, %d the context", c.system, c.middle)
	}
}

// Every call of the model is reported with its tokens, its time and its error
// (S3-067).
func TestLoop_modelCallsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(
			scripted.Call("a", `{}`).Usage(mesh.Usage{Prompt: 1000, Completion: 20, Cached: 600, CacheWrite: 300}),
			scripted.Step{},
			scripted.Say("x").Wait("go").Fail(mesh.Errorf(mesh.Unavailable, "m", "gone")),
		)
		var calls []llm.Call
		l := &llm.Loop{Model: m, Name: "big", Tools: tools{"a": echo("A")}, Observe: func(_ context.Context, c llm.Call) { calls = append(calls, c) }}
		for e, err := range l.Run(t.Context(), nil) {
			if err != nil {
				break
			}
			if e.Text == "x" {
				time.Sleep(time.Second)
				m.Release("go")
			}
		}
		if len(calls) != 3 || !mesh.IsCode(calls[2].Err, mesh.Unavailable) {
			t.Fatalf("observed %+v", calls)
		}
		calls[2].Err = nil
		want := []llm.Call{
			{Model: "scripted", Iteration: 1, Input: 1000, Cached: 600, CacheWrite: 300, Output: 20, HitRatio: 0.6},
			{Model: "scripted", Iteration: 2},
			{Model: "big", Iteration: 3, Duration: time.Second},
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Error(diff)
		}
	})
}

// A call that was broken off is reported as such.
func TestLoop_brokenCallsAreObserved(t *testing.T) {
	var calls []llm.Call
	l := &llm.Loop{Model: scripted.New(scripted.Say("x", "y")), Observe: func(_ context.Context, c llm.Call) { calls = append(calls, c) }}
	for _, err := range l.Run(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if len(calls) != 1 || mesh.CodeOf(calls[0].Err) != mesh.Canceled {
		t.Errorf("observed %+v", calls)
	}
}

// What Fit dropped stays dropped, and Fit is told what the request before came
// to, so that the requests after a trim share their prefix again (S3-057).
func TestLoop_whatWasTrimmedStaysTrimmed(t *testing.T) {
	m := scripted.New(scripted.Call("a", `{}`).Usage(mesh.Usage{Prompt: 7}), scripted.Call("a", `{}`), scripted.Say("ok"))
	var lasts []int64
	l := &llm.Loop{Model: m, Tools: tools{"a": echo("A")}, Fit: func(req *llm.Request, last mesh.Usage) int {
		lasts = append(lasts, last.Prompt)
		if len(lasts) != 2 {
			return 0
		}
		req.Messages = req.Messages[2:]
		return 2
	}}
	history := []llm.Message{{Role: llm.RoleUser, Text: "old"}, {Role: llm.RoleAssistant, Text: "o"}, {Role: llm.RoleUser, Text: "new"}}
	run(t, l, history)
	var firsts []string
	for _, r := range m.Requests() {
		firsts = append(firsts, fmt.Sprint(r.Messages[0].Text, " ", len(r.Messages), " ", r.Settled))
	}
	if diff := cmp.Diff([]string{"old 3 2", "new 3 0", "new 5 0"}, firsts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{0, 7, 0}, lasts); diff != "" {
		t.Error(diff)
	}
}
