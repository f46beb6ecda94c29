package knowledge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
)

// maxLimit bounds how many passages one call returns.
const maxLimit = 20

// Handlers returns the handlers of the domain, by what skill files name, over
// an index that stays open as long as they are used.
func Handlers(ix *Index) map[string]skill.Handler {
	return map[string]skill.Handler{"knowledge.search": skill.HandlerFunc(ix.handle)}
}

func (ix *Index) handle(ctx context.Context, call *skill.Call, _ *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "query"); err != nil {
		return nil, err
	}
	query := flags.Text(call, "query")
	limit, err := flags.Int(call, "limit", 5, 1, maxLimit)
	if err != nil {
		return nil, err
	}
	found, err := ix.Search(ctx, query, limit)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	documents, sections, err := ix.Size(ctx)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	sources := []string{}
	for _, p := range found {
		if !slices.Contains(sources, p.Path) {
			sources = append(sources, p.Path)
		}
	}
	return &skill.Result{
		Content:  report(quote.Line(query), found, sources, documents, sections),
		Metadata: map[string]any{"count": len(found), "sources": sources},
	}, nil
}

// report is one block per passage: "### n. Document > Section", "Source:
// path:line", the text, quoted; and the sources in the last line.
func report(query string, found []Passage, sources []string, documents, sections int) string {
	query = mesh.Clip(query, 200)
	if len(found) == 0 {
		return fmt.Sprintf("No passages found for %q in %d documents with %d sections. Try other words.", query, documents, sections)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Passages found for %q: %d\n", query, len(found))
	for i, p := range found {
		title := p.Document
		if p.Section != "" {
			title += " > " + p.Section
		}
		fmt.Fprintf(&b, "\n### %d. %s\nSource: %s:%d\n\n%s\n", i+1, quote.Line(title), quote.Line(p.Path), p.Line, quote.Text(p.Text))
	}
	fmt.Fprintf(&b, "\nSources: %s", quote.Line(strings.Join(sources, ", ")))
	return b.String()
}
