package mail

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

const allFolders = "all"

// A wish says which messages are looked for.
type wish struct {
	folders       []string
	words         []string
	from, to      string
	since, before time.Time
	page          flags.Page
}

func (p *post) search(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	w, err := wishOf(call, env.Now())
	if err != nil {
		return nil, err
	}
	entries, err := p.entries(env.Owner(), w.folders)
	if err != nil {
		return nil, err
	}
	unseen := max(0, len(entries)-maxLetters)
	var found []*letter
	for _, e := range entries[:min(maxLetters, len(entries))] {
		l, err := p.open(ctx, env, e)
		if mesh.IsCode(err, mesh.NotFound) {
			continue // sent, or deleted by somebody, meanwhile
		}
		if err != nil {
			return nil, err
		}
		if w.wants(l) {
			l.text = "" // only its head is shown
			found = append(found, l)
		}
	}
	slices.SortStableFunc(found, func(a, b *letter) int {
		return cmp.Or(b.date.Compare(a.date), cmp.Compare(a.id, b.id))
	})
	return w.report(found, unseen), nil
}

func wishOf(call *skill.Call, now time.Time) (*wish, error) {
	w := &wish{
		folders: flags.List(call, "folder"), words: flags.Words(call, "query"),
		from: strings.ToLower(strings.TrimSpace(flags.Text(call, "from"))), to: strings.ToLower(strings.TrimSpace(flags.Text(call, "to"))),
	}
	if err := flags.Enum(call, "folder", w.folders, append(folders(), allFolders)...); err != nil {
		return nil, err
	}
	if len(w.folders) == 0 || slices.Contains(w.folders, allFolders) {
		w.folders = folders()
	}
	for _, f := range []struct {
		name string
		to   *time.Time
	}{{"since", &w.since}, {"before", &w.before}} {
		text := strings.TrimSpace(flags.Text(call, f.name))
		if text == "" {
			continue
		}
		var ok bool
		if *f.to, _, ok = flags.When(text, now.Location()); !ok {
			return nil, mesh.InvalidField(call.Skill, f.name, "must be a day as 2026-12-01 or a moment as 2026-12-01T14:00, and is %q", mesh.Clip(text, maxShown))
		}
	}
	var err error
	w.page, err = flags.PageOf(call, 20, 100)
	return w, err
}

func (w *wish) wants(l *letter) bool {
	people := strings.ToLower(l.to + ", " + l.cc)
	switch {
	case w.from != "" && !strings.Contains(strings.ToLower(l.from), w.from),
		w.to != "" && !strings.Contains(people, w.to),
		!w.since.IsZero() && l.date.Before(w.since),
		!w.before.IsZero() && !l.date.Before(w.before):
		return false
	}
	all := strings.ToLower(strings.Join(append([]string{l.from, people, l.subject, l.text}, l.attachments...), "\n"))
	return !slices.ContainsFunc(w.words, func(word string) bool { return !strings.Contains(all, word) })
}

func (w *wish) report(found []*letter, unseen int) *skill.Result {
	where := strings.Join(w.folders, ", ")
	head, note := fmt.Sprintf("Mail found in %s: %d", where, len(found)), ""
	if len(found) == 0 {
		head = "No mail found in: " + where + "."
	}
	if unseen > 0 {
		note = fmt.Sprintf("%d older messages were not looked at; name fewer folders.", unseen)
	}
	part := w.page.Of(len(found), func(i int) string {
		l := found[i]
		return fmt.Sprintf("%d. %s, from %s to %s: %q (%s) [%s]", i+1, l.date.Format("2006-01-02 15:04"),
			cmp.Or(l.from, "nobody"), cmp.Or(l.to, "nobody"), l.subject, l.folder, l.id)
	})
	ids := make([]string, 0, part.To-part.From)
	for _, l := range found[part.From:part.To] {
		ids = append(ids, l.id)
	}
	return &skill.Result{Content: part.Under(head, note), Metadata: map[string]any{"count": len(found), "ids": ids}}
}
