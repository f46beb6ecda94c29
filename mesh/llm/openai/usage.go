package openai

import (
	"encoding/json"

	"agentmesh/mesh"
)

// usageOf reads what a reply used. Providers name and count it differently: as
// OpenAI in either protocol, as OpenRouter, with cost, and as Anthropic's
// models behind a gateway, whose prompt may not include what is cached. A reply
// is not lost because its figures cannot be read: they are zero then.
func usageOf(raw json.RawMessage) mesh.Usage {
	type details struct {
		Cached     float64 `json:"cached_tokens"`
		CacheWrite float64 `json:"cache_write_tokens"`
	}
	var u struct {
		Prompt        float64 `json:"prompt_tokens"`
		Input         float64 `json:"input_tokens"`
		Completion    float64 `json:"completion_tokens"`
		Output        float64 `json:"output_tokens"`
		PromptDetails details `json:"prompt_tokens_details"`
		InputDetails  details `json:"input_tokens_details"`
		CacheRead     float64 `json:"cache_read_input_tokens"`
		CacheCreation float64 `json:"cache_creation_input_tokens"`
		Cost          float64 `json:"cost"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return mesh.Usage{}
	}
	out := mesh.Usage{
		Prompt:     tokens(u.Prompt, u.Input),
		Completion: tokens(u.Completion, u.Output),
		Cached:     tokens(u.PromptDetails.Cached, u.InputDetails.Cached, u.CacheRead),
		CacheWrite: tokens(u.PromptDetails.CacheWrite, u.InputDetails.CacheWrite, u.CacheCreation),
		Cost:       max(u.Cost, 0),
	}
	// Anthropic's own input_tokens are only those that the cache had no part in.
	alone := u.Prompt == 0 && u.CacheRead+u.CacheCreation > 0
	if cache := out.Cached + out.CacheWrite; alone || cache > out.Prompt {
		out.Prompt += cache
	}
	return out
}

// tokens returns the largest of the counts, within reason.
func tokens(counts ...float64) int64 {
	most := 0.0
	for _, n := range counts {
		most = max(most, n)
	}
	return int64(min(most, 1e12))
}
