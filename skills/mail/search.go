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
	"agentmesh/skills/mail/imapbox"
)

const allFolders = "all"

// A wish says which messages are looked for.
type wish struct {
	folders       []string // of files
	remote        []string // of the account, if there is one
	shown         []string // of the account, that were looked into
	skipped       int      // of the account, that were not
	words         []string
	from, to      string
	since, before time.Time
	page          flags.Page
}

func (p *post) search(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	box := p.accounts[env.Owner()].Box
	w, err := wishOf(call, env.Now(), box != nil)
	if err != nil {
		return nil, err
	}
	found, unseen, err := p.searchFiles(ctx, env, w)
	if err != nil {
		return nil, err
	}
	count := len(found)
	if box != nil && len(w.remote) > 0 {
		r, err := box.Search(ctx, w.query())
		if err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		for _, h := range r.Heads {
			found = append(found, headed(h, env.Now()))
		}
		count, w.shown = count+r.Count, r.Folders
		w.skipped = r.Unseen
	}
	slices.SortStableFunc(found, func(a, b *letter) int { return b.arrived.Compare(a.arrived) })
	if box != nil {
		unseen += max(0, count-maxLetters)
		count = min(count, maxLetters)
	}
	return w.report(found, count, unseen), nil
}

// searchFiles looks at the files, and returns also how many it did not look at.
func (p *post) searchFiles(ctx context.Context, env *skill.Env, w *wish) (found []*letter, unseen int, err error) {
	entries, err := p.entries(env.Owner(), w.folders)
	if err != nil {
		return nil, 0, err
	}
	unseen = max(0, len(entries)-maxLetters)
	for _, e := range entries[:min(maxLetters, len(entries))] {
		l, err := p.open(ctx, env, e, maxFile)
		if mesh.IsCode(err, mesh.NotFound) {
			continue // sent, or deleted by somebody, meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		if w.wants(l) {
			l.text, l.arrived = "", l.date // only its head is shown; files are copied, and lose their time
			found = append(found, l)
		}
	}
	return found, unseen, nil
}

// query is the wish for a server.
func (w *wish) query() imapbox.Query {
	q := imapbox.Query{Words: w.words, From: w.from, To: w.to, Since: w.since, Before: w.before, Most: min(maxLetters, w.page.Offset+w.page.Limit)}
	if !slices.Contains(w.remote, allFolders) {
		q.Folders = w.remote
	}
	return q
}

// headed is the letter of which a server told the head.
func headed(h imapbox.Head, now time.Time) *letter {
	l := &letter{id: h.ID, arrived: h.Arrived, folder: shown(h.Folder), from: shown(h.From), to: shown(h.To), cc: shown(h.Cc), subject: shown(h.Subject), date: h.Date}
	l.dated(now, now)
	return l
}

// wishOf reads the call. With an account, folders may be any that the account has.
func wishOf(call *skill.Call, now time.Time, account bool) (*wish, error) {
	w := &wish{
		folders: flags.List(call, "folder"), words: flags.Words(call, "query"),
		from: strings.ToLower(strings.TrimSpace(flags.Text(call, "from"))), to: strings.ToLower(strings.TrimSpace(flags.Text(call, "to"))),
	}
	if account {
		w.divide()
	} else if err := flags.Enum(call, "folder", w.folders, append(folders(), allFolders)...); err != nil {
		return nil, err
	}
	if len(w.folders) == 0 && !account || slices.Contains(w.folders, allFolders) {
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

// divide says which folders are looked for on the server, and which here.
func (w *wish) divide() {
	if len(w.folders) == 0 {
		w.folders = []string{allFolders}
	}
	w.remote = slices.DeleteFunc(slices.Clone(w.folders), func(name string) bool { return name == Outbox || name == Sending })
	w.folders = slices.DeleteFunc(w.folders, func(name string) bool { return name != allFolders && !slices.Contains(folders(), name) })
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
	all := strings.ToLower(strings.Join([]string{l.from, people, l.subject, l.text, l.listed()}, "\n"))
	return !slices.ContainsFunc(w.words, func(word string) bool { return !strings.Contains(all, word) })
}

// report shows the page of the count messages, of which the newest are found.
func (w *wish) report(found []*letter, count, unseen int) *skill.Result {
	names := slices.Clone(w.folders)
	for _, name := range w.shown {
		if name = shown(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	where := strings.Join(names, ", ")
	head, note := fmt.Sprintf("Mail found in %s: %d", where, count), ""
	if count == 0 {
		head = "No mail found in: " + where + "."
	}
	if unseen > 0 {
		note = fmt.Sprintf("%d older messages were not looked at; name fewer folders.", unseen)
	}
	if w.skipped > 0 {
		note += fmt.Sprintf("\n%d folders were not looked into, for there are too many; name those that matter.", w.skipped)
	}
	part := w.page.Of(count, func(i int) string {
		if i >= len(found) {
			return fmt.Sprintf("%d. (gone meanwhile)", i+1)
		}
		l := found[i]
		return fmt.Sprintf("%d. %s, from %s to %s: %q (%s) [%s]", i+1, l.date.Format("2006-01-02 15:04"),
			cmp.Or(l.from, "nobody"), cmp.Or(l.to, "nobody"), l.subject, l.folder, l.id)
	})
	ids := make([]string, 0, part.To-part.From)
	for _, l := range found[min(part.From, len(found)):min(part.To, len(found))] {
		ids = append(ids, l.id)
	}
	return &skill.Result{Content: part.Under(head, strings.TrimPrefix(note, "\n")), Metadata: map[string]any{"count": count, "ids": ids}}
}
