package knowledge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// maxLimit bounds how many passages one call returns.
const maxLimit = 20

// Handlers returns the handlers of the domain, by what skill files name, over
// an index that stays open as long as they are used.
func Handlers(ix *Index) map[string]skill.Handler {
	return map[string]skill.Handler{"knowledge.search": skill.HandlerFunc(ix.handle)}
}

func (ix *Index) handle(ctx context.Context, call *skill.Call, _ *skill.Env) (*skill.Result, error) {
	limit, query := int(call.Int("limit")), call.String("query")
	if limit < 1 || limit > maxLimit {
		return nil, mesh.InvalidField(call.Skill, "limit", "must be from 1 to %d", maxLimit)
	}
	found, err := ix.Search(ctx, query, limit)
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
		Content:  ix.report(strings.Join(strings.Fields(query), " "), found, sources),
		Metadata: map[string]any{"count": len(found), "sources": sources},
	}, nil
}

// report is one block per passage: "### n. Document > Section", "Source:
// path:line", the text; and the sources in the last line.
func (ix *Index) report(query string, found []Passage, sources []string) string {
	query = mesh.Clip(query, 200)
	if len(found) == 0 {
		documents, sections := ix.Size()
		return fmt.Sprintf("No passages found for %q in %d documents with %d sections. Try other words.", query, documents, sections)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Passages found for %q: %d\n", query, len(found))
	for i, p := range found {
		title := p.Document
		if p.Section != "" {
			title += " > " + p.Section
		}
		fmt.Fprintf(&b, "\n### %d. %s\nSource: %s:%d\n\n%s\n", i+1, title, p.Path, p.Line, p.Text)
	}
	fmt.Fprintf(&b, "\nSources: %s", strings.Join(sources, ", "))
	return b.String()
}
