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
	for i, p := range found {
		found[i].Document, found[i].Section, found[i].Path = quote.Line(p.Document), quote.Line(p.Section), quote.Line(p.Path)
		if found[i].Text = quote.Visible(p.Text); !slices.Contains(sources, found[i].Path) {
			sources = append(sources, found[i].Path)
		}
	}
	return &skill.Result{
		Content:  report(quote.Line(query), found, documents, sections),
		Metadata: map[string]any{"count": len(found), "sources": sources, "passages": slices.Clip(found)},
	}, nil
}

// report is one block per passage: "### [number] Document > Section", "Source:
// path:line", and the text, quoted.
func report(query string, found []Passage, documents, sections int) string {
	query = mesh.Clip(query, 200)
	if len(found) == 0 {
		return fmt.Sprintf("I do not know: nothing in the %d documents with %d sections answers %q. Other words may find something.", documents, sections, query)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Passages found for %q: %d\n", query, len(found))
	for _, p := range found {
		title := p.Document
		if p.Section != "" {
			title += " > " + p.Section
		}
		at := fmt.Sprintf("%s:%d", p.Path, p.Line)
		if p.Page > 0 {
			at = fmt.Sprintf("%s, page %d", p.Path, p.Page)
		}
		fmt.Fprintf(&b, "\n### [%d] %s\nSource: %s\n\n%s\n", p.Number, title, at, quote.Text(p.Text))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
