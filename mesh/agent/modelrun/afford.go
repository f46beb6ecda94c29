package modelrun

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// perToken is how many bytes of a request are a token, about; and least, in tokens, is what
// a reply may need at the least. They are for a run's first request: of the others the
// provider has said what the one before used.
const (
	perToken = 4
	least    = 256
)

// afford returns the limit if what is left, as the node said last, does not pay for the
// next call of the model, as far as can be told before.
func (m *modelRun) afford(ctx context.Context, next func() *llm.Request, last mesh.Usage) *llm.Trip {
	left := m.inv.Mesh.Left()
	if left.Tokens == limit.Unlimited && left.Cost == limit.Unlimited {
		return nil
	}
	left = m.inv.Mesh.Refresh(ctx)
	need := mesh.Usage{Prompt: last.Prompt + last.Completion, Completion: least}
	if need.Prompt == 0 {
		need.Prompt = int64(size(next()) / perToken)
	}
	if m.Cost != nil {
		need = m.Cost(m.Name, need)
	}
	spent := need.Spent()
	switch {
	case left.Tokens != limit.Unlimited && spent.Tokens > left.Tokens:
		return tooDear(limit.ModelTokens, spent.Tokens, left.Tokens)
	case left.Cost != limit.Unlimited && spent.Cost > left.Cost || left.Cost == 0:
		return tooDear(limit.ModelCost, spent.Cost, left.Cost)
	}
	return nil
}

func tooDear(name string, need, left int64) *llm.Trip {
	return &llm.Trip{Limit: name, Used: need, Most: left, Detail: text.NotEnough(name, left)}
}

// size is that of all that a model is asked, in bytes.
func size(r *llm.Request) int {
	n := len(r.System) + len(r.Context) + len(r.Fresh)
	for _, m := range r.Messages {
		n += len(m.Text)
		for _, f := range m.Files {
			if n += len(f.Text); len(f.Data) > 0 {
				n += llm.PictureTokens * perToken
			}
		}
		for _, u := range m.Tools {
			n += len(u.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Description) + len(t.Parameters)
	}
	return n
}
