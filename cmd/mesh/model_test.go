package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"
)

// model.context is about model.name, and about models that nobody knows more of:
// one whose window is known has that.
func TestTheContextOfTheConfigurationIsForTheModelThatItIsMeantFor(t *testing.T) {
	t.Parallel()
	m, err := newMind(node.Model{URL: "http://127.0.0.1:1/v1", Name: "gpt-4o", Context: 50_000, Response: 3_000}, false, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"gpt-4o": 50_000, "llama3.2": 50_000, "anthropic/claude-haiku-4.5": 200_000, "gpt-4": 8_192} {
		b := m.budgetOf(name)
		if b.Context != want || (b.Response == 3_000) != (want == 50_000) {
			t.Errorf("%s has %+v, want a context of %d", name, b, want)
		}
	}
}

// With fallbacks, what the last reply used says that there is too much, and never
// that there is room: it may be of another model, which was sent less.
func TestWithFallbacksTheLastReplyMakesNoRoom(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" word", 1000)
	request := func() *llm.Request {
		req := &llm.Request{System: "You help."}
		for range 5 {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: long}, llm.Message{Role: llm.RoleAssistant, Text: "Yes."})
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: long})
		return req
	}
	dropped := func(last mesh.Usage, fallbacks ...node.Endpoint) int {
		m, err := newMind(node.Model{URL: "http://127.0.0.1:1/v1", Name: "ours", Context: 8_000, Fallbacks: fallbacks}, false, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		req := request()
		n := m.fit("ours")(req, last)
		if len(req.Messages) != 11-n {
			t.Errorf("%d dropped, and %d are left", n, len(req.Messages))
		}
		return n
	}
	other := node.Endpoint{URL: "http://127.0.0.1:2/v1", Name: "other"}
	none, little, much := mesh.Usage{}, mesh.Usage{Prompt: 100}, mesh.Usage{Prompt: 9_000}
	if plain := dropped(none, other); plain == 0 || dropped(little, other) != plain || dropped(much, other) <= plain {
		t.Errorf("dropped %d without, %d after little, %d after much", plain, dropped(little, other), dropped(much, other))
	}
	if alone := dropped(little); alone != 0 {
		t.Errorf("alone %d are dropped", alone)
	}
}
