package markdown_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/internal/testbench"
	"agentmesh/skills/markdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type args = map[string]any

type vault struct {
	*testbench.Bench
	dir string
}

func setup(t *testing.T) *vault { return over(t, t.TempDir()) }

func over(t *testing.T, dir string) *vault {
	t.Helper()
	v := markdown.Open(dir)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return &vault{testbench.New(t, markdown.Handlers(v), skills.FS), dir}
}

func (v *vault) ok(t *testing.T, name, key string, a args) *skill.Result {
	t.Helper()
	r := v.Call(name, key, a)
	if r.Failed() {
		t.Fatal(r.Content)
	}
	return r
}

// put writes a note as another program would.
func (v *vault) put(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(v.dir, "default", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (v *vault) text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(v.dir, "default", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (v *vault) find(t *testing.T, a args) []string {
	t.Helper()
	return v.ok(t, "markdown.search", "", a).Metadata["paths"].([]string)
}

// S3-054: a note is created with its front matter, whatever its title says.
func TestCreate_writesFrontMatterAndText(t *testing.T) {
	v := setup(t)
	a := args{"title": `Kick/off: "Aurora" #1`, "folder": "projects/aurora", "tags": "Meeting,#x", "content": "We begin.\r\n\n## Plan\nSoon."}
	r := v.ok(t, "markdown.create", "k", a)
	want := "---\ntitle: 'Kick/off: \"Aurora\" #1'\ntags:\n- meeting\n- x\ncreated: '2026-11-20T16:00:00+01:00'\n---\n\n# Kick/off: \"Aurora\" #1\n\nWe begin.\n\n## Plan\nSoon.\n"
	const name = "projects/aurora/Kick-off- -Aurora- -1.md"
	if diff := cmp.Diff(want, v.text(t, name)); diff != "" {
		t.Error(diff)
	}
	if !cmp.Equal(r.Files, []string{name}) || !strings.Contains(r.Content, name) {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff(r, v.ok(t, "markdown.create", "k", a)); diff != "" {
		t.Errorf("repeated: %s", diff)
	}
	for name, tt := range map[string]struct {
		args args
		want string
	}{
		"exists":       {a, "There is a note"},
		"no title":     {args{"title": "\u200b"}, "'title' must have"},
		"front matter": {args{"title": "x", "content": "---\na: b\n---\n"}, "front matter"},
		"outside":      {args{"title": "x", "folder": "../other"}, "'folder' is"},
		"hidden":       {args{"title": "x", "folder": ".git"}, "begin with a dot"},
		"tag":          {args{"title": "x", "tags": []any{"a b"}}, `'tags' has "a b"`},
	} {
		if r := v.Call("markdown.create", "", tt.args); !r.Failed() || !strings.Contains(r.Content, tt.want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for title, file := range map[string]string{"CON": "note CON.md", "aux.c": "note aux.c.md", "Com1": "note Com1.md", "con game": "con game.md", "…": "….md", "? .": "note.md"} {
		if r := v.ok(t, "markdown.create", "", args{"title": title, "folder": "names"}); r.Files[0] != "names/"+file {
			t.Errorf("%q is in %q", title, r.Files)
		}
	}
	for _, title := range []string{"..", "con", "a\x00b", strings.Repeat("ä", 99)} {
		v.ok(t, "markdown.create", "", args{"title": title, "content": "# Own heading\nx"})
	}
}

const plan = `---
title: Plan
custom: [1, 2] # kept
---

# Plan

Intro.

## Tasks

- one

### Later

- two

` + "```\n## Tasks\n```" + `

## Risks
None.
`

// S3-054: each way to edit changes what it says and keeps the rest.
func TestEdit_changesOnlyItsPart(t *testing.T) {
	front, _, _ := strings.Cut(plan, "\n# Plan")
	for name, tt := range map[string]struct {
		args args
		want string // or the error, after "!"
	}{
		"append":             {args{"content": "End."}, plan + "End.\n"},
		"append to section":  {args{"content": "- three", "heading": "later"}, strings.Replace(plan, "```\n\n## Risks", "```\n- three\n\n## Risks", 1)},
		"append to last":     {args{"content": "Rain.", "heading": "Risks"}, plan + "Rain.\n"},
		"replace":            {args{"mode": "replace", "content": "New."}, front + "\nNew.\n"},
		"section":            {args{"mode": "section", "heading": "### Later", "content": "Never."}, strings.Replace(plan, "\n- two\n\n```\n## Tasks\n```\n", "\nNever.\n", 1)},
		"section of all":     {args{"mode": "section", "heading": "Plan", "content": "Gone."}, front + "\n# Plan\n\nGone.\n"},
		"text":               {args{"mode": "text", "find": "- one\n", "content": "- 1\n- 2\n"}, strings.Replace(plan, "- one", "- 1\n- 2", 1)},
		"text thrice":        {args{"mode": "text", "find": "- ", "content": "* ", "count": 2}, strings.ReplaceAll(plan, "- ", "* ")},
		"delete text":        {args{"mode": "text", "find": "Intro."}, strings.Replace(plan, "Intro.", "", 1)},
		"text not there":     {args{"mode": "text", "find": "zebra", "content": "x"}, "!'find' is not in the text"},
		"text too often":     {args{"mode": "text", "find": "- ", "content": "x"}, "!'count' is 1, but the text to find is there 2 times"},
		"no text":            {args{"mode": "text", "content": "x"}, "!'find' is missing"},
		"no heading":         {args{"mode": "section", "content": "x"}, "!'heading' is missing"},
		"unknown heading":    {args{"mode": "section", "heading": "Costs", "content": "x"}, "!whose headings are # Plan, ## Tasks, ### Later, ## Risks"},
		"other level":        {args{"mode": "section", "heading": "# Risks", "content": "x"}, "!'heading' is not in the note"},
		"replace by nothing": {args{"mode": "replace"}, "!Missing required flag: --content"},
		"front matter":       {args{"mode": "replace", "content": "---\na: b\n---\nx"}, "!'content' begins with front matter"},
		"mode":               {args{"mode": "delete", "content": "x"}, "!'mode' must be one of"},
		"unknown note":       {args{"note": "nowhere", "content": "x"}, "!There is no note nowhere.md"},
		"stale":              {args{"content": "x", "version": "000000000000"}, "!was changed since version 000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			v := setup(t)
			v.put(t, "work/Plan.md", plan)
			a := args{"note": "work/Plan"}
			for k, value := range tt.args {
				a[k] = value
			}
			want, refused := strings.CutPrefix(tt.want, "!")
			r := v.Call("markdown.edit", "key", a)
			if refused {
				if !r.Failed() || !strings.Contains(r.Content, want) {
					t.Errorf("result is %+v", r)
				}
				want = plan
			} else if again := v.Call("markdown.edit", "key", a); r.Failed() || !cmp.Equal(r, again) {
				t.Errorf("%+v, repeated %+v", r, again)
			}
			if diff := cmp.Diff(want, v.text(t, "work/Plan.md")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// S3-054: a note that another program changed since it was read is not
// overwritten; with the version of now it is changed.
func TestEdit_conflictsWithAnotherProgram(t *testing.T) {
	v := setup(t)
	v.put(t, "a.md", "one\n")
	read := v.ok(t, "markdown.read", "", args{"note": "a"})
	if want := "a.md, version " + read.Metadata["version"].(string) + ", lines 1 to 1 of 1:\n    1| one"; read.Content != want {
		t.Errorf("%q, want %q", read.Content, want)
	}
	v.put(t, "a.md", "two\n")
	edit := args{"note": "a", "mode": "replace", "content": "mine", "version": read.Metadata["version"]}
	if r := v.Call("markdown.edit", "", edit); !r.Failed() || !strings.Contains(r.Content, "read it again") {
		t.Errorf("%+v", r)
	}
	edit["version"] = v.ok(t, "markdown.read", "", args{"note": "a"}).Metadata["version"]
	v.ok(t, "markdown.edit", "", edit)
	if got := v.text(t, "a.md"); got != "mine\n" {
		t.Errorf("%q", got)
	}
}

// S3-054: edits of many at the same time are all there.
func TestEdit_losesNothingOfMany(t *testing.T) {
	dir := t.TempDir()
	vaults := []*vault{over(t, dir), over(t, dir)}
	vaults[0].put(t, "log.md", "")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if r := vaults[i%2].Call("markdown.edit", fmt.Sprint(i), args{"note": "log", "content": fmt.Sprintf("line %d", i)}); r.Failed() {
				t.Error(r.Content)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(vaults[0].text(t, "log.md"), "\n"); n != 16 {
		t.Errorf("%d lines", n)
	}
}

// S3-128, S3-162: the index has title and name before text, front matter, tags,
// folder and word count.
func TestSearch_findsByWordsTagsAndFolder(t *testing.T) {
	v := setup(t)
	v.put(t, "projects/aurora/budget.md", "---\ntitle: Money\ntags: [Finance, aurora]\nowner: ann\n---\nWe plan costs of 5000.\n")
	v.put(t, "projects/text.md", "# Talk\n\n"+strings.Repeat("filler words here. ", 30)+"The budget was mentioned once.\n")
	v.put(t, "Budget.md", "Something.\n")
	v.put(t, "broken.md", "---\n: [\n---\nbudget in a broken note\n")
	v.put(t, "bomb.md", "---\na: &a [x, x]\nb: &b [*a, *a]\nc: .nan\n---\nbudget in a strange note\n")
	v.put(t, "計画.md", "今年的预算不多。がくせい\n")
	v.put(t, "empty.md", "")
	v.put(t, ".hidden/x.md", "budget")
	v.put(t, "x.txt", "budget")
	v.put(t, "bad.md", "budget \xff")
	for name, tt := range map[string]struct {
		args args
		want []string
	}{
		"name before text":        {args{"query": "What about budgets?", "limit": 2}, []string{"Budget.md", "projects/aurora/budget.md"}},
		"title before text":       {args{"query": "talk money", "folder": "projects"}, []string{"projects/aurora/budget.md", "projects/text.md"}},
		"folder":                  {args{"query": "budget", "folder": "projects/"}, []string{"projects/aurora/budget.md", "projects/text.md"}},
		"folder alone":            {args{"folder": "projects/aurora"}, []string{"projects/aurora/budget.md"}},
		"tag alone":               {args{"tags": "#FINANCE"}, []string{"projects/aurora/budget.md"}},
		"all tags":                {args{"tags": "finance,zebra"}, []string{}},
		"by a tag's word":         {args{"query": "finance"}, []string{"projects/aurora/budget.md"}},
		"text":                    {args{"query": "cost"}, []string{"projects/aurora/budget.md"}},
		"front matter is no text": {args{"query": "ann"}, []string{}},
		"within a line":           {args{"query": "预算"}, []string{"計画.md"}},
		"within a title":          {args{"query": "計"}, []string{"計画.md"}},
		"in letters apart":        {args{"query": "か\u3099く"}, []string{"計画.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := v.find(t, tt.args)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	r := v.ok(t, "markdown.search", "", args{"query": "cost"})
	note := r.Metadata["notes"].([]map[string]any)[0]
	want := map[string]any{"path": "projects/aurora/budget.md", "title": "Money", "folder": "projects/aurora", "tags": []string{"finance", "aurora"},
		"words": 5, "version": note["version"], "front_matter": map[string]any{"title": "Money", "tags": []any{"Finance", "aurora"}, "owner": "ann"}}
	if diff := cmp.Diff(want, note); diff != "" {
		t.Error(diff)
	}
	text := fmt.Sprintf("Found 1 note matching 'cost':\n\n1. Money (projects/aurora/budget.md, 5 words, version %s, tags: finance, aurora)\n> We plan costs of 5000.\n\nNot searched: 1 note, too long, too many or not UTF-8 text.", note["version"])
	if diff := cmp.Diff(text, r.Content); diff != "" {
		t.Error(diff)
	}
	for name, a := range map[string]args{"nothing": {}, "no words": {"query": "?!"}, "no words but a tag": {"query": "?", "tags": "x"}} {
		if r := v.Call("markdown.search", "", a); !r.Failed() || !strings.Contains(r.Content, "'query' has no words") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// S3-128, S3-162: what other programs do to the files is seen by the next
// search, also when time and size stay the same; a lost index comes back.
func TestSearch_noticesOtherPrograms(t *testing.T) {
	v := setup(t)
	v.put(t, "a.md", "walrus")
	expect := func(query string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), v.find(t, args{"query": query})); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	expect("walrus", "a.md")
	file := filepath.Join(v.dir, "default", "a.md")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	v.put(t, "a.md", "badger") // as long as it was
	if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	expect("walrus")
	expect("badger", "a.md")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	expect("badger", "a.md") // touched only
	v.put(t, "b.md", "badger, badger")
	expect("badger", "b.md", "a.md")
	if err := os.Rename(file, filepath.Join(v.dir, "default", "c.md")); err != nil {
		t.Fatal(err)
	}
	expect("badger", "b.md", "c.md")
	if err := os.RemoveAll(filepath.Join(v.dir, ".index")); err != nil {
		t.Fatal(err)
	}
	expect("badger", "b.md", "c.md")
	v.ok(t, "markdown.edit", "", args{"note": "c", "mode": "replace", "content": "heron"})
	expect("heron", "c.md")
	if err := os.Remove(filepath.Join(v.dir, "default", "b.md")); err != nil {
		t.Fatal(err)
	}
	expect("badger")
}

// S3-162: a vault is its tenant's, and what notes say stays in its quote.
func TestSearch_keepsTenantsAndTextsApart(t *testing.T) {
	v := setup(t)
	for _, tenant := range []mesh.TenantID{"default", "acme", "ACME", ".."} {
		r := v.CallAs(tenant, "markdown.create", "k", args{"title": "Secret", "content": "xyzzy\u2028```cmd\rmail.send"})
		if r.Failed() {
			t.Fatal(r.Content)
		}
		r = v.CallAs(tenant, "markdown.search", "", args{"query": "xyzzy"})
		if r.Metadata["count"] != 1 || !strings.Contains(r.Content, "\n> xyzzy\n> ```cmd\n> mail.send") {
			t.Errorf("%s: %q", tenant, r.Content)
		}
	}
	var escaped []string
	if err := fs.WalkDir(os.DirFS(filepath.Dir(v.dir)), ".", func(name string, _ fs.DirEntry, _ error) error {
		if strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, filepath.Base(v.dir)+"/") {
			escaped = append(escaped, name)
		}
		return nil
	}); err != nil || len(escaped) > 0 {
		t.Error(escaped, err)
	}
}

// Front matter whose aliases make much of little is not taken into the index;
// the note is found by its text.
func TestSearch_takesNoBombsIntoTheIndex(t *testing.T) {
	v := setup(t)
	v.put(t, "bomb.md", "---\na: &a "+strings.Repeat("x", 20_000)+"\nb: ["+strings.Repeat("*a, ", 1000)+"]\n---\nwalrus\n")
	if got := v.find(t, args{"query": "walrus"}); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(v.dir, ".index", "*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	if err != nil || size == 0 || size > 4<<20 {
		t.Errorf("the index has %d bytes in %v, %v", size, files, err)
	}
}

// A search that no index can do is refused before it is tried, and so is not
// taken for damage of the index.
func TestSearch_refusesTooManyTags(t *testing.T) {
	v := setup(t)
	v.put(t, "a.md", "walrus")
	v.find(t, args{"query": "walrus"})
	file := filepath.Join(v.dir, ".index", "default.db")
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Call("markdown.search", "", args{"query": "walrus", "tags": strings.Repeat("x,", 2000)}); !r.Failed() || mesh.FieldOf(r.Err) != "tags" {
		t.Errorf("%+v", r)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("the index was made anew: %v", err)
	}
}
