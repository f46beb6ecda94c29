package main

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/fallback"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/llm/price"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/llm/window"
	"agentmesh/mesh/node"
)

// A mind is the language model that agents think with.
type mind struct {
	model   llm.Model
	name    string // "" for the provider's default
	offline bool
	several bool          // others are asked when it fails
	budget  window.Budget // what the operator says of it
	prices  price.Table
	counter *tokens.Counter
}

// minds are the models of endpoints, each made once: by the endpoint's name and the API that
// it is asked by.
type minds struct {
	cfg     *node.Config
	private bool
	now     func() time.Time
	logger  *slog.Logger
	made    map[[2]string]*mind
}

// of returns the model of the endpoint; "" is that of all who do not say.
func (m *minds) of(endpoint, api string) (*mind, error) {
	key := [2]string{endpoint, api}
	if made := m.made[key]; made != nil {
		return made, nil
	}
	end := m.cfg.Model
	if endpoint != "" {
		end = m.cfg.Models[endpoint]
	}
	if api != "" {
		end.API = api
	}
	made, err := newMind(end, m.private, m.now, m.logger)
	if err != nil {
		return nil, err
	}
	m.made[key] = made
	return made, nil
}

// An equipped model is asked with native tools.
type equipped struct {
	llm.Model
	tools []string
}

// Generate implements [llm.Model].
func (e equipped) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	asked := *req
	if !req.About.Last {
		asked.NativeTools = e.tools
	}
	return e.Model.Generate(ctx, &asked)
}

// Sees reports whether the model takes pictures.
func (e equipped) Sees() bool { return llm.Sees(e.Model) }

// Hears reports whether the model takes audio.
func (e equipped) Hears() bool { return llm.Hears(e.Model) }

// newMind returns the model that the operator chose, with those that are asked
// when it fails; the offline planner if there is none. With private, what the endpoints
// say of a failure is for the log alone.
func newMind(m node.Model, private bool, now func() time.Time, logger *slog.Logger) (*mind, error) {
	var told *slog.Logger
	if private {
		told = logger
	}
	out := &mind{name: m.Name, counter: new(tokens.Counter), budget: window.Budget{Context: m.Context, Response: m.Response}, prices: m.Prices}
	ends := m.Clients()
	if len(ends) == 0 {
		out.model, out.name, out.offline = offline.New(now), "", true
		return out, nil
	}
	var all []fallback.Named
	for i, end := range ends {
		name := end.Model + " at " + mesh.PublicURL(end.BaseURL)
		end.Logger = told
		c, err := openai.New(end)
		switch {
		case err != nil && i > 0:
			return nil, mesh.InvalidField("crew.model", "model.fallbacks", "entry %d: %s", i, mesh.DetailOf(err))
		case err != nil:
			return nil, err
		case i > 0:
			all = append(all, fallback.Named{Name: name, Model: fitted{c, out.budgetOf(end.Model).Fit(out.counter)}})
		default:
			all = append(all, fallback.Named{Name: name, Model: c})
		}
	}
	out.several = len(all) > 1
	if !out.several {
		out.model = all[0].Model
		return out, nil
	}
	var err error
	out.model, err = fallback.New(all, fallback.Options{Logger: logger, Now: now})
	return out, err
}

// A fitted model is asked what fits its own window, which may be smaller than
// that of the model in whose place it answers.
type fitted struct {
	llm.Model
	fit func(req *llm.Request, last mesh.Usage) int
}

// Generate implements [llm.Model].
func (f fitted) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	asked := *req
	f.fit(&asked, mesh.Usage{})
	return f.Model.Generate(ctx, &asked)
}

// Offers reports whether the model has the native tool.
func (f fitted) Offers(tool string) bool { return llm.Offers(f.Model, tool) }

// Sees reports whether the model takes pictures.
func (f fitted) Sees() bool { return llm.Sees(f.Model) }

// Hears reports whether the model takes audio.
func (f fitted) Hears() bool { return llm.Hears(f.Model) }

// budgetOf is how the window of the model of that name is shared out. What the
// operator says of windows is about model.name, and about models that nobody
// knows more of.
func (m *mind) budgetOf(name string) window.Budget {
	b := window.For(name, nil)
	if unknown := b == window.For("", nil); name != m.name && !unknown {
		return b
	}
	if m.budget.Context > 0 {
		b.Context = m.budget.Context
	}
	if m.budget.Response > 0 {
		b.Response = m.budget.Response
	}
	return b
}

// fit returns what keeps requests to the model of that name within its window.
// The offline planner has none.
func (m *mind) fit(name string) func(req *llm.Request, last mesh.Usage) int {
	if m.offline {
		return nil
	}
	fit := m.budgetOf(name).Fit(m.counter)
	if !m.several {
		return fit
	}
	return func(req *llm.Request, last mesh.Usage) int {
		// The last reply may be of another model, which counts otherwise and was
		// asked less: what it used may show that there is too much, and no more.
		plain, corrected := *req, *req
		dropped, more := fit(&plain, mesh.Usage{}), fit(&corrected, last)
		if more > dropped {
			plain, dropped = corrected, more
		}
		*req = plain
		return dropped
	}
}

// cost returns what puts prices on replies; nil for the planner, which is free.
func (m *mind) cost() func(model string, u mesh.Usage) mesh.Usage {
	if m.offline {
		return nil
	}
	return m.prices.Cost
}
