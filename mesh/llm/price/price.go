// Package price says what the tokens of a model cost.
//
// A [Table] is plain data, as it stands in the configuration. It invents
// nothing: tokens of a model that it does not know are counted as unpriced,
// and a cost that the provider itself told is kept. A table that is not
// written to may be used concurrently.
package price

import (
	"math"
	"strings"

	"agentmesh/mesh"
)

// A Price is in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"  yaml:"input"`
	Output float64 `json:"output" yaml:"output"`
	// Cached is for input that was read from the provider's cache, and
	// CacheWrite for input that was written to it; 0 is the price of Input.
	Cached     float64 `json:"cached,omitempty"      yaml:"cached,omitempty"`
	CacheWrite float64 `json:"cache_write,omitempty" yaml:"cache_write,omitempty"`
}

// A Table has prices by the beginning of the model's name, as "gpt-5" for
// gpt-5 and gpt-5-mini, in lower case. The longest beginning counts. A name
// with a vendor, as "anthropic/claude-sonnet-4", is looked up whole first, and
// then without the vendor.
type Table map[string]Price

// Cost returns u with its cost. A cost that is there stays. If the model has
// no price, all tokens are counted as unpriced.
func (t Table) Cost(model string, u mesh.Usage) mesh.Usage {
	if u.Cost > 0 {
		u.Unpriced = 0
		return u
	}
	p, ok := t.Find(model)
	if !ok {
		u.Unpriced = u.Prompt + u.Completion
		return u
	}
	cached := min(u.Cached, u.Prompt)
	written := min(u.CacheWrite, u.Prompt-cached)
	fresh := u.Prompt - cached - written
	u.Cost = (float64(fresh)*p.Input + float64(cached)*or(p.Cached, p.Input) +
		float64(written)*or(p.CacheWrite, p.Input) + float64(u.Completion)*p.Output) / 1e6
	u.Unpriced = 0
	return u
}

func or(price, otherwise float64) float64 {
	if price == 0 {
		return otherwise
	}
	return price
}

// Find returns the price of the model, and whether there is one.
func (t Table) Find(model string) (Price, bool) {
	name := strings.ToLower(model)
	for {
		for n := len(name); n > 0; n-- {
			if p, ok := t[name[:n]]; ok {
				return p, true
			}
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok {
			return Price{}, false
		}
		name = rest
	}
}

// Validate returns an Invalid error for prices that are none, and for names
// that would never be found.
func (t Table) Validate() error {
	for name, p := range t {
		if name == "" || name != strings.ToLower(name) {
			return mesh.InvalidField("price.Validate", "model.prices."+name, "%q must be the beginning of a model's name, in lower case", name)
		}
		for _, v := range []float64{p.Input, p.Output, p.Cached, p.CacheWrite} {
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				return mesh.InvalidField("price.Validate", "model.prices."+name, "prices are US dollars per million tokens, 0 or more")
			}
		}
	}
	return nil
}
