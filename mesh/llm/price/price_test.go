package price_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/price"
)

var table = price.Table{
	"gpt-5":                     {Input: 2, Output: 8, Cached: 0.5},
	"gpt-5-mini":                {Input: 1, Output: 4},
	"claude-sonnet":             {Input: 4, Output: 16, Cached: 0.4, CacheWrite: 5},
	"openrouter/claude-sonnet":  {Input: 100},
	"free":                      {},
	"openrouter/free-of-charge": {},
}

func TestCost(t *testing.T) {
	const m = 1_000_000
	tests := map[string]struct {
		model string
		in    mesh.Usage
		want  mesh.Usage
	}{
		"input and output":               {"gpt-5", mesh.Usage{Prompt: m, Completion: m}, mesh.Usage{Prompt: m, Completion: m, Cost: 10}},
		"a longer name":                  {"gpt-5-2025-08-07", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 2}},
		"the longest beginning":          {"gpt-5-mini-2025", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 1}},
		"upper case":                     {"GPT-5-Mini", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 1}},
		"a vendor":                       {"openai/gpt-5", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 2}},
		"a gateway and a vendor":         {"x/openai/gpt-5", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 2}},
		"the whole name first":           {"openrouter/claude-sonnet-4", mesh.Usage{Prompt: m}, mesh.Usage{Prompt: m, Cost: 100}},
		"cached input":                   {"gpt-5", mesh.Usage{Prompt: m, Cached: m / 2}, mesh.Usage{Prompt: m, Cached: m / 2, Cost: 1.25}},
		"cached and written":             {"claude-sonnet-4", mesh.Usage{Prompt: m, Cached: m / 2, CacheWrite: m / 4}, mesh.Usage{Prompt: m, Cached: m / 2, CacheWrite: m / 4, Cost: 0.2 + 1.25 + 1}},
		"no price of its own for cached": {"gpt-5-mini", mesh.Usage{Prompt: m, Cached: m}, mesh.Usage{Prompt: m, Cached: m, Cost: 1}},
		"more cached than there is":      {"gpt-5", mesh.Usage{Prompt: m, Cached: 2 * m}, mesh.Usage{Prompt: m, Cached: 2 * m, Cost: 0.5}},
		"a free model":                   {"free", mesh.Usage{Prompt: m, Completion: m}, mesh.Usage{Prompt: m, Completion: m}},
		"an unknown model":               {"llama-9", mesh.Usage{Prompt: 3, Completion: 4}, mesh.Usage{Prompt: 3, Completion: 4, Unpriced: 7}},
		"no model":                       {"", mesh.Usage{Prompt: 3}, mesh.Usage{Prompt: 3, Unpriced: 3}},
		"the provider's own cost":        {"gpt-5", mesh.Usage{Prompt: m, Cost: 0.01}, mesh.Usage{Prompt: m, Cost: 0.01}},
		"its cost of an unknown model":   {"llama-9", mesh.Usage{Prompt: m, Cost: 0.01, Unpriced: 4}, mesh.Usage{Prompt: m, Cost: 0.01}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, table.Cost(tt.model, tt.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Tokens of different prices add up: the model of costs of a conversation of 25
// calls, 137,500 tokens that cost as much as 48,950 would without a cache (S3-070).
// The usages are those of ten turns, five of one call and five of four; where they
// come from, and why a loop pays 51,450, is with the test of the loop.
func TestCost_ofAConversationWithACache(t *testing.T) {
	effective := price.Table{"m": {Input: 1e6, Cached: 0.1e6, CacheWrite: 1.25e6}} // dollars are tokens
	var sum mesh.Usage
	for turn := range 10 {
		for call := range 1 + turn%2*3 {
			u := mesh.Usage{Prompt: 3_000 + 2_000 + 500, Cached: 3_000}
			if turn == 0 {
				u.Cached, u.CacheWrite = 0, 3_000 // the system prompt, for all calls after it
			}
			switch {
			case call > 0:
				u.Cached += 2_000
			case turn%2 == 1:
				u.CacheWrite += 2_000 // the context, for the later calls of the turn
			}
			sum = sum.Add(effective.Cost("m", u))
		}
	}
	if sum.Prompt != 137_500 || math.Abs(sum.Cost-48_950) > 1e-6 {
		t.Errorf("the conversation of %d tokens costs %v", sum.Prompt, sum.Cost)
	}
	if saved := 1 - sum.Cost/137_500; saved < 0.64 || saved > 0.65 {
		t.Errorf("%.3f is saved", saved)
	}
}

func TestValidate(t *testing.T) {
	if err := table.Validate(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]price.Table{
		"a negative price": {"m": {Output: -1}},
		"no number":        {"m": {Cached: math.NaN()}},
		"no end":           {"m": {Input: math.Inf(1)}},
		"no name":          {"": {}},
		"upper case":       {"GPT": {}},
	} {
		if err := bad.Validate(); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
