package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/llm/window"
)

// letters counts a token for each letter and no overhead.
type letters struct{}

func (letters) Text(s string) int { return len(s) }

func (letters) Message(m llm.Message) int {
	n := len(m.Text)
	for _, u := range m.Tools {
		n += len(u.Arguments)
	}
	return n
}

func (letters) Tools(ts []llm.Tool) int {
	n := 0
	for _, t := range ts {
		n += len(t.Description)
	}
	return n
}

func size(req *llm.Request) int {
	n := letters{}.Text(req.System+req.Context+req.Fresh) + letters{}.Tools(req.Tools)
	for _, m := range req.Messages {
		n += letters{}.Message(m)
	}
	return n
}

func TestFor(t *testing.T) {
	sizes := map[string]int{"gpt-5-nano": 10_000, "local": 4_096}
	tests := map[string]struct {
		model string
		want  window.Budget
	}{
		"a known model":         {"gpt-4o-mini", window.Budget{Context: 128_000, System: 1_000, Response: 4_096, Utilisation: 0.85}},
		"with a vendor":         {"anthropic/Claude-Sonnet-4", window.Budget{Context: 200_000, System: 1_000, Response: 4_096, Utilisation: 0.85}},
		"the longest name":      {"gpt-4.1-mini", window.Budget{Context: 1_047_576, System: 1_000, Response: 4_096, Utilisation: 0.85}},
		"the operator's size":   {"gpt-5-nano-2025", window.Budget{Context: 10_000, System: 1_000, Response: 2_500, Utilisation: 0.85}},
		"a small window":        {"local", window.Budget{Context: 4_096, System: 512, Response: 1_024, Utilisation: 0.85}},
		"S3-056: nobody's":      {"my-model", window.Budget{Context: 8_000, System: 1_000, Response: 2_000, Utilisation: 1}},
		"S3-056: no model name": {"", window.Budget{Context: 8_000, System: 1_000, Response: 2_000, Utilisation: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, window.For(tt.model, sizes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of 8,000 tokens 1,000 are the system prompt's and 2,000 the response's; the
// history gets the rest without memories and the summary of tasks (S3-056). Of
// a window that is known 85 % are used.
func TestBudget_leavesTheRestToTheHistory(t *testing.T) {
	b := window.For("", nil)
	for _, tt := range []struct{ system, context, want int }{
		{300, 0, 5_000}, {300, 600, 4_400}, {1_000, 600, 4_400}, {1_500, 600, 3_900}, {9_000, 0, -3_000},
	} {
		if got := b.History(tt.system, tt.context); got != tt.want {
			t.Errorf("beside %d and %d there are %d, want %d", tt.system, tt.context, got, tt.want)
		}
	}
	if got := window.For("gpt-4o", nil).Request(); got != 108_800-4_096 {
		t.Errorf("a known model is sent at most %d", got)
	}
	if got := (window.Budget{}).Request(); got != 6_800-2_000 {
		t.Errorf("the zero budget is %d", got)
	}
}

// A long conversation with an agent of the usual size comes to between 3,000
// and 7,000 tokens, of which 2,000 to 6,000 are history (S3-055).
func TestTrim_usualRequestsHaveTheirUsualSize(t *testing.T) {
	count := new(tokens.Counter)
	words := func(n int) string { return strings.Repeat("word ", n) }
	req := &llm.Request{
		System: words(350), Context: words(500), Fresh: words(20),
		Tools: []llm.Tool{{Name: "get_skill", Description: words(200)}, {Name: "use_skill", Description: words(200)}},
	}
	for range 60 {
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: words(30)}, llm.Message{Role: llm.RoleAssistant, Text: words(150)})
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: "and now?"})
	if dropped := window.Trim(window.For("", nil), count, req, mesh.Usage{}); dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	total, history := count.Request(req), count.Messages(req.Messages)
	if total < 3_000 || total > 7_000 || history < 2_000 || history > 6_000 {
		t.Errorf("%d tokens, of them %d history", total, history)
	}
}

// asked is a conversation of turns; the user's messages, replies and results
// are numbered and have a size of their own.
func asked(t *rapid.T) *llm.Request {
	req := &llm.Request{
		System: strings.Repeat("s", rapid.IntRange(0, 300).Draw(t, "system")), Context: strings.Repeat("c", rapid.IntRange(0, 300).Draw(t, "context")),
		Tools: []llm.Tool{{Name: "a", Description: strings.Repeat("d", rapid.IntRange(0, 100).Draw(t, "tool"))}},
	}
	n := 0
	text := func() string {
		n++
		return fmt.Sprint(n, strings.Repeat(".", rapid.IntRange(0, 400).Draw(t, "text")))
	}
	if rapid.Bool().Draw(t, "greeting") {
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Text: text()})
	}
	turns := rapid.IntRange(1, 12).Draw(t, "turns")
	for turn := range turns {
		req.Settled = len(req.Messages)
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: text()})
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			id := fmt.Sprint("call-", n)
			if rapid.Bool().Draw(t, "command") {
				req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Text: text()}, llm.Message{Role: llm.RoleUser, ToolID: id, Text: text()})
				continue
			}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: id, Name: "a", Arguments: text()}}},
				llm.Message{Role: llm.RoleTool, ToolID: id, Name: "a", Text: text()})
		}
		if turn < turns-1 {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Text: text()})
		}
	}
	return req
}

func isUsers(m llm.Message) bool { return m.Role == llm.RoleUser && m.ToolID == "" }

// Whatever the conversation: the newest turns are kept whole, unchanged and in
// order, the last message of the user among them; what is kept fits, unless it
// is the last turn alone; one turn more would not have fitted; and trimming
// again drops nothing (S3-057).
func TestTrim_keepsTheNewestWholeTurns(t *testing.T) {
	b := window.Budget{Context: 2_000, System: 200, Response: 400, Utilisation: 1}
	rapid.Check(t, func(t *rapid.T) {
		req := asked(t)
		before := *req
		before.Messages = slices.Clone(req.Messages)
		dropped := window.Trim(b, letters{}, req, mesh.Usage{})

		if diff := cmp.Diff(before.Messages[dropped:], req.Messages); diff != "" {
			t.Fatalf("what was kept is not the newest part:\n%s", diff)
		}
		if req.Settled != before.Settled-dropped || !isUsers(req.Messages[req.Settled]) {
			t.Errorf("%d of %d messages are settled after dropping %d", req.Settled, before.Settled, dropped)
		}
		if dropped > 0 && !isUsers(req.Messages[0]) {
			t.Errorf("the conversation begins with %+v", req.Messages[0])
		}
		users := 0
		calls := map[string]bool{}
		for _, m := range req.Messages {
			if isUsers(m) {
				users++
			}
			for _, u := range m.Tools {
				calls[u.ID] = true
			}
			if m.Role == llm.RoleTool && !calls[m.ToolID] {
				t.Errorf("the result %+v is parted from its call", m)
			}
		}
		if users == 0 {
			t.Error("the user's last message is gone")
		}
		fits := func(r *llm.Request) bool {
			return max(0, 200-len(r.System)-len(r.Tools[0].Description))+size(r) <= 1_600
		}
		if users > 1 && !fits(req) {
			t.Errorf("%d tokens were kept", size(req))
		}
		if dropped > 0 {
			from := dropped - 1
			for from > 0 && !isUsers(before.Messages[from]) {
				from--
			}
			more := before
			more.Messages = before.Messages[from:]
			if fits(&more) {
				t.Errorf("a turn was dropped that would have fitted: %d tokens", size(&more))
			}
		}
		if again := window.Trim(b, letters{}, req, mesh.Usage{}); again != 0 {
			t.Errorf("trimming again dropped %d messages", again)
		}
	})
}

// What the model thought is sent, and so it is counted, at four bytes a token: a
// conversation with thoughts is trimmed like one whose texts are so much longer.
func TestTrim_countsThoughts(t *testing.T) {
	b := window.Budget{Context: 2_000, System: 200, Response: 400, Utilisation: 1}
	rapid.Check(t, func(t *rapid.T) {
		thinks := asked(t)
		writes := *thinks
		writes.Messages = slices.Clone(thinks.Messages)
		for i, m := range thinks.Messages {
			if m.Role != llm.RoleAssistant {
				continue
			}
			n := rapid.IntRange(0, 400).Draw(t, "thought")
			thinks.Messages[i].Thoughts = []llm.Thought{{By: "p", Data: []byte(strings.Repeat("x", 4*n))}}
			writes.Messages[i].Text += strings.Repeat(".", n)
		}
		got, want := window.Trim(b, letters{}, thinks, mesh.Usage{}), window.Trim(b, letters{}, &writes, mesh.Usage{})
		if got != want {
			t.Errorf("%d messages were dropped because of thoughts, and %d because of as much text", got, want)
		}
	})
}

// A provider that counts otherwise is believed: what is sent after its first
// word on it fits by its own count.
func TestTrim_believesTheProvider(t *testing.T) {
	b := window.Budget{Context: 20_000, System: 200, Response: 2_000, Utilisation: 0.85}
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.Float64Range(0.4, 3).Draw(t, "factor")
		really := func(r *llm.Request) int64 { return int64(factor * float64(size(r))) }
		req := &llm.Request{System: "s", Settled: 20}
		for range 10 {
			text := strings.Repeat(".", rapid.IntRange(500, 1_500).Draw(t, "text"))
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: text}, llm.Message{Role: llm.RoleAssistant, Text: text})
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: "now"})
		window.Trim(b, letters{}, req, mesh.Usage{})
		last := mesh.Usage{Prompt: really(req)}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Text: "call"}, llm.Message{Role: llm.RoleUser, ToolID: "1", Text: strings.Repeat(".", 1_000)})
		fitted := really(req) <= int64(b.Request())*9/10
		dropped := window.Trim(b, letters{}, req, last)
		if got := really(req); got > int64(b.Request()) && len(req.Messages) > 3 {
			t.Errorf("the provider counts %d tokens, at most %d were to be sent", got, b.Request())
		}
		if fitted && dropped > 0 && factor < 1 {
			t.Errorf("%d messages were dropped of a request that fits", dropped)
		}
	})
}

// A usage that cannot be that of the request is not taken at its word.
func TestTrim_correctsWithinReason(t *testing.T) {
	b := window.Budget{Context: 4_000, System: 100, Response: 500, Utilisation: 1}
	conversation := func() *llm.Request {
		req := &llm.Request{}
		for range 5 {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: strings.Repeat("u", 500)}, llm.Message{Role: llm.RoleAssistant, Text: strings.Repeat("a", 300)})
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: "now"})
		return req
	}
	for name, tt := range map[string]struct {
		prompt int64
		want   int
	}{
		"unknown":                      {0, 2},
		"as estimated":                 {3_700, 2},
		"twice as much":                {7_400, 6},
		"absurdly much":                {1 << 40, 8},
		"little, of a trimmed one":     {100, 2},
		"nothing that makes any sense": {-5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := window.Trim(b, letters{}, conversation(), mesh.Usage{Prompt: tt.prompt}); got != tt.want {
				t.Errorf("%d messages were dropped, want %d", got, tt.want)
			}
		})
	}
}

// counted is a counter that fails the test when it is used.
type counted struct {
	letters
	t *testing.T
}

func (c counted) Message(m llm.Message) int {
	c.t.Error("a request that surely fits was counted")
	return c.letters.Message(m)
}

// The usual request, far below its window, costs no counting.
func TestTrim_countsOnlyWhatMightNotFit(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "a"}, {Role: llm.RoleAssistant, Text: "b"}, {Role: llm.RoleUser, Text: "c"}}}
	if n := window.Trim(window.For("gpt-5", nil), counted{t: t}, req, mesh.Usage{Prompt: 10}); n != 0 {
		t.Errorf("%d messages were dropped", n)
	}
}

// A loop sends what Trim leaves, with the user's message last (S3-057).
func TestFit_inALoop(t *testing.T) {
	m := scripted.New(scripted.Say("one").Usage(mesh.Usage{Prompt: 900}))
	history := []llm.Message{}
	for n := range 10 {
		history = append(history, llm.Message{Role: llm.RoleUser, Text: fmt.Sprint("question ", n, strings.Repeat(".", 150))}, llm.Message{Role: llm.RoleAssistant, Text: fmt.Sprint("answer ", n)})
	}
	history = append(history, llm.Message{Role: llm.RoleUser, Text: "now"})
	b := window.Budget{Context: 1_500, System: 100, Response: 400, Utilisation: 1}
	l := &llm.Loop{Model: m, Fit: b.Fit(letters{})}
	for _, err := range l.Run(t.Context(), history) {
		if err != nil {
			t.Fatal(err)
		}
	}
	req := m.Requests()[0]
	if n := len(req.Messages); n != 11 || req.Messages[n-1].Text != "now" || !strings.HasPrefix(req.Messages[0].Text, "question 5") || req.Settled != 10 {
		t.Errorf("%d messages from %.12q, %d settled", n, req.Messages[0].Text, req.Settled)
	}
}
