package markdown

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/tenantdir"
	"agentmesh/skills/internal/textindex"
)

const (
	batch    = 4 << 20 // bytes of notes that are indexed together, about
	overhead = 1 << 10 // what an empty note counts
	maxLimit = 50
	// settled is how old a change must be for time and size to tell it from
	// the next one: file systems count time in steps.
	settled = 3 * time.Second
)

// An entry is what the index knows of a note besides its text.
type entry struct {
	Path    string         `json:"path"`
	Name    string         `json:"name"`
	Folder  string         `json:"folder"`
	Title   string         `json:"title"`
	Front   map[string]any `json:"front_matter,omitempty"`
	Tags    []string       `json:"tags,omitempty"`
	Words   int            `json:"words"`
	Version string         `json:"version"`
}

// A stamp is by what a file is known to be the one that was indexed.
type stamp struct {
	time    int64 // in nanoseconds
	size    int64
	version string
	fresh   bool // the file was just being changed
}

const stampForm = "%d %d %s %t"

func (s stamp) String() string { return fmt.Sprintf(stampForm, s.time, s.size, s.version, s.fresh) }

func parseStamp(text string) (s stamp, ok bool) {
	_, err := fmt.Sscanf(text, stampForm, &s.time, &s.size, &s.version, &s.fresh)
	return s, err == nil
}

// A scan brings the index of a vault up to its files.
type scan struct {
	root    *tenantdir.Root
	ix      *textindex.Index
	known   map[string]string // stamps of notes that were not seen yet
	changes textindex.Changes
	size    int // of the notes in changes, in bytes
	notes   int
	skipped int // notes that cannot be indexed
}

// refresh indexes the notes that changed, whoever changed them, and forgets
// those that are gone.
func refresh(ctx context.Context, root *tenantdir.Root, ix *textindex.Index) (*scan, error) {
	known, err := ix.Stamps(ctx)
	if err != nil {
		return nil, err
	}
	s := &scan{root: root, ix: ix, known: known}
	if err := root.Walk(ctx, ".", func(name string, d fs.DirEntry) error {
		switch {
		case !d.Type().IsRegular() || !isNote(name):
			return nil
		case s.notes >= tenantdir.MaxFiles:
			s.skipped++
			return nil
		}
		if info, err := d.Info(); err == nil { // else it went away
			if err := s.look(name, info); err != nil {
				return err
			}
		}
		if s.size < batch {
			return nil
		}
		err := ix.Apply(ctx, s.changes)
		s.changes, s.size = textindex.Changes{}, 0
		return err
	}); err != nil {
		return nil, err
	}
	for gone := range s.known {
		s.changes.Delete = append(s.changes.Delete, gone)
	}
	if len(s.changes.Delete)+len(s.changes.Put) == 0 {
		return s, nil
	}
	return s, ix.Apply(ctx, s.changes)
}

// look adds the note to the changes if it is another one than was indexed.
func (s *scan) look(name string, info fs.FileInfo) error {
	was, there := parseStamp(s.known[name])
	now := stamp{time: info.ModTime().UnixNano(), size: info.Size(), version: was.version}
	if there && now == was {
		delete(s.known, name)
		s.notes++
		return nil
	}
	data, err := s.root.Read(name, tenantdir.MaxFile)
	if err != nil || !edit.IsText(data) {
		s.skipped++
		return nil //nolint:nilerr // what was indexed of it is forgotten
	}
	delete(s.known, name)
	s.notes++
	now.version, now.size = tenantdir.Version(data), int64(len(data))
	now.fresh = time.Since(info.ModTime()) < settled
	if now == was { // still young, and the same
		return nil
	}
	doc, err := document(parse(name, string(data)), now)
	s.changes.Put = append(s.changes.Put, doc)
	s.size += overhead + len(data)
	return err
}

// document is the note as it is indexed.
func document(n *note, at stamp) (textindex.Doc, error) {
	folder := path.Dir(n.path)
	e := entry{
		Path: n.path, Name: strings.TrimSuffix(path.Base(n.path), path.Ext(n.path)), Folder: folder, Title: n.title,
		Front: n.front, Tags: n.tags, Words: n.words(), Version: at.version,
	}
	data, err := json.Marshal(e)
	if err != nil {
		return textindex.Doc{}, mesh.Wrap("markdown.document", err)
	}
	labels := []string{"note"}
	for _, tag := range n.tags {
		labels = append(labels, "tag:"+tag)
	}
	for ; folder != "."; folder = path.Dir(folder) {
		labels = append(labels, "in:"+folder)
	}
	return textindex.Doc{
		ID: n.path, Texts: []string{n.title + "\n" + e.Name, n.body, strings.Join(n.tags, " ")},
		Labels: labels, Factor: 1, Stamp: at.String(), Data: data,
	}, nil
}

func (v *Vaults) search(ctx context.Context, call *skill.Call, env *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	q, err := queryOf(call)
	if err != nil {
		return nil, err
	}
	var hits []textindex.Hit
	var s *scan
	if err := v.pool.With(ctx, tenantdir.Folder(env.Owner()), func(ix *textindex.Index) error {
		if s, err = refresh(ctx, root, ix); err != nil {
			return err
		}
		hits, err = ix.Search(ctx, q)
		return err
	}); err != nil {
		return nil, err
	}
	return s.report(call, q, hits)
}

func queryOf(call *skill.Call) (textindex.Query, error) {
	limit, err := flags.Int(call, "limit", 10, 1, maxLimit)
	if err != nil {
		return textindex.Query{}, err
	}
	q := textindex.Query{Words: textindex.Words(flags.Text(call, "query")), Limit: limit}
	tags := flags.List(call, "tags")
	if len(tags) > maxTags { // each makes the search slower, and too many of them impossible
		return q, mesh.InvalidField(call.Skill, "tags", "has %d elements; at most %d are allowed", len(tags), maxTags)
	}
	for _, tag := range tags {
		q.Labels = append(q.Labels, []string{"tag:" + tagOf(tag)})
	}
	folder, err := tenantdir.Clean(call.Skill, "folder", flags.Text(call, "folder"))
	if err != nil {
		return q, err
	}
	if folder != "." {
		q.Labels = append(q.Labels, []string{"in:" + folder})
	}
	if len(q.Words) == 0 && (len(q.Labels) == 0 || flags.Has(call, "query")) {
		return q, mesh.InvalidField(call.Skill, "query", "has no words; give some, or tags or a folder instead")
	}
	return q, nil
}

// report is the list of notes that a model reads.
func (s *scan) report(call *skill.Call, q textindex.Query, hits []textindex.Hit) (*skill.Result, error) {
	paths := make([]string, len(hits))
	notes := make([]map[string]any, len(hits))
	var b strings.Builder
	for i, h := range hits {
		var e entry
		if err := json.Unmarshal(h.Data, &e); err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		if paths[i] = e.Path; len(h.Data) > maxShownFront {
			e.Front = nil
		}
		notes[i] = map[string]any{"path": e.Path, "title": e.Title, "folder": e.Folder, "tags": e.Tags, "words": e.Words, "version": e.Version, "front_matter": e.Front}
		fmt.Fprintf(&b, "\n%d. %s (%s, %d words, version %s", i+1, mesh.Clip(e.Title, maxTitle), quote.Line(e.Path), e.Words, e.Version)
		if len(e.Tags) > 0 {
			b.WriteString(", tags: " + strings.Join(e.Tags, ", "))
		}
		b.WriteString(")\n")
		if text := strings.TrimSpace(textindex.Excerpt(lineEnds.Replace(h.Texts[1]), q.Words)); text != "" {
			b.WriteString(quote.Text(mesh.Clip(text, maxExcerpt)) + "\n")
		}
	}
	res := &skill.Result{Metadata: map[string]any{"count": len(hits), "paths": paths, "notes": notes}}
	what := "of that kind"
	if flags.Has(call, "query") {
		what = fmt.Sprintf("matching '%s'", mesh.Clip(quote.Line(flags.Text(call, "query")), maxShown))
	}
	res.Content = fmt.Sprintf("Found %s %s:\n%s", counted(len(hits)), what, strings.TrimSuffix(b.String(), "\n"))
	if len(hits) == 0 {
		res.Content = fmt.Sprintf("No notes found %s, in %s.", what, counted(s.notes))
	}
	if s.skipped > 0 {
		res.Content += fmt.Sprintf("\n\nNot searched: %s, too long, too many or not UTF-8 text.", counted(s.skipped))
	}
	return res, nil
}

func counted(notes int) string {
	if notes == 1 {
		return "1 note"
	}
	return fmt.Sprintf("%d notes", notes)
}

// Bounds of what is shown of a note, in bytes.
const (
	maxExcerpt    = 600
	maxShownFront = 4 << 10
)
