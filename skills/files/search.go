package files

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/tenantdir"
)

// Bounds of a search.
const (
	maxSearched = 1 << 20  // bytes of a file whose text is searched
	maxTotal    = 64 << 20 // bytes of all of them
	maxHits     = 3        // lines shown of a file
	maxHit      = 200      // bytes shown of a line
)

// A match is a file that has all of the words, in its name or its text.
type match struct {
	name  string
	rank  int // words in the name count much, lines of the text little
	lines []string
}

// A hunt is a search at work.
type hunt struct {
	root    *tenantdir.Root
	words   []string
	inName  bool
	inText  bool
	left    int64 // bytes that may still be read
	found   []match
	skipped int // texts that were too long, or came too late
}

func search(ctx context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	if err := flags.Require(call, "query"); err != nil {
		return nil, err
	}
	under, err := tenantdir.Clean(call.Skill, "path", flags.Text(call, "path"))
	if err != nil {
		return nil, err
	}
	where := flags.Text(call, "in")
	if where == "" {
		where = "both"
	}
	if err := flags.Enum(call, "in", []string{where}, "both", "name", "text"); err != nil {
		return nil, err
	}
	page, err := flags.PageOf(call, 10, 50)
	if err != nil {
		return nil, err
	}
	if info, err := root.Stat(under); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, mesh.InvalidField(call.Skill, "path", "is a file; name the folder to search, or read the file with files.read")
	}
	query := flags.Text(call, "query")
	h := &hunt{root: root, words: flags.Words(call, "query"), inName: where != "text", inText: where != "name", left: maxTotal}
	seen := 0
	if err := root.Walk(ctx, under, func(name string, d fs.DirEntry) error {
		if seen++; seen > tenantdir.MaxFiles {
			return fs.SkipAll
		}
		h.look(name, d)
		return nil
	}); err != nil {
		return nil, err
	}
	return h.report(query, page), nil
}

// look adds the file if it matches.
func (h *hunt) look(name string, d fs.DirEntry) {
	low := ""
	if h.inName {
		low = strings.ToLower(name)
	}
	m := match{name: name}
	if d.IsDir() {
		m.name += "/"
	}
	text := ""
	if h.inText && d.Type().IsRegular() {
		text = h.text(name, d)
	}
	lowText := strings.ToLower(text)
	for _, w := range h.words {
		switch {
		case strings.Contains(low, w):
			m.rank += 10
			if strings.Contains(path.Base(low), w) {
				m.rank += 20
			}
		case !strings.Contains(lowText, w):
			return
		}
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		lowLine := strings.ToLower(line)
		for _, w := range h.words {
			if strings.Contains(lowLine, w) {
				m.rank++
				if len(m.lines) < maxHits {
					m.lines = append(m.lines, fmt.Sprintf("%d: %s", number, mesh.Clip(quote.Line(line), maxHit)))
				}
				break
			}
		}
	}
	h.found = append(h.found, m)
}

// text returns the file's text, or "" if it is none that is searched.
func (h *hunt) text(name string, d fs.DirEntry) string {
	info, err := d.Info()
	if err != nil {
		return ""
	}
	if info.Size() > maxSearched || info.Size() > h.left {
		h.skipped++
		return ""
	}
	data, err := h.root.Read(name, maxSearched)
	if err != nil || !edit.IsText(data) {
		return ""
	}
	h.left -= int64(len(data))
	return string(data)
}

func (h *hunt) report(query string, page flags.Page) *skill.Result {
	slices.SortFunc(h.found, byRank)
	shown := mesh.Clip(quote.Line(query), maxShown)
	head, note := fmt.Sprintf("Files matching '%s': %d", shown, len(h.found)), ""
	if len(h.found) == 0 {
		head = fmt.Sprintf("No files found matching '%s'.", shown)
	}
	if h.skipped > 0 {
		note = fmt.Sprintf("%d files were searched by name only, because there is too much text; name a folder with --path.", h.skipped)
	}
	part := page.Of(len(h.found), func(i int) string {
		text := fmt.Sprintf("%d. %s", i+1, quote.Line(h.found[i].name))
		for _, line := range h.found[i].lines {
			text += "\n   > " + line
		}
		return text
	})
	names := make([]string, 0, part.To-part.From)
	for _, m := range h.found[part.From:part.To] {
		names = append(names, m.name)
	}
	return &skill.Result{Content: part.Under(head, note), Metadata: map[string]any{"count": len(h.found), "paths": names}}
}

// byRank puts the best matches first.
func byRank(a, b match) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), strings.Compare(a.name, b.name))
}
