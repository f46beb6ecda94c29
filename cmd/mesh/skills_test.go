package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// runApp runs the command in process, with nobody at a terminal.
func runApp(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string { return env[name] },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: func() time.Time { return epoch }, after: time.After}
	code = a.execute(timely(t), args)
	return code, out.String(), errs.String()
}

// Where there are very many skills their domains are listed, and all of them
// for who asks.
func TestManySkillsAreListedByDomain(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	var many []*skill.Skill
	for i := range 1100 {
		s, err := skill.Build(skill.Draft{Domain: "bulk", Name: fmt.Sprintf("job%04d", i), Description: "Does a job"})
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, s)
	}
	f.library.Put(many...)
	env := map[string]string{"MESH_ADDR": addr}

	code, out, errs := runApp(t, env, "skills", "list")
	if code != exitOK || !strings.Contains(out, "bulk       1100    Does a job") || strings.Contains(out, "bulk.job") ||
		!strings.Contains(errs, "there are 1106 skills; list a domain's with --domain") {
		t.Errorf("%d, stdout %s, stderr %s", code, out, errs)
	}
	code, out, errs = runApp(t, env, "skills", "list", "--domain", "bulk")
	if lines := strings.Count(out, "\nbulk.job"); code != exitOK || lines != skillsShown || !strings.Contains(errs, "these are the first 100; --all lists all") {
		t.Errorf("a domain: %d, %d lines, stderr %s", code, lines, errs)
	}
	for _, flag := range []string{"--all", "--json"} { // more than one page
		code, out, errs = runApp(t, env, "skills", "list", flag)
		if lines := strings.Count(out, "bulk.job"); code != exitOK || lines != 1100 || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d, %d lines, stderr %s", flag, code, lines, errs)
		}
	}
}

// What a person writes after a skill's name means what it does in a model's
// command.
func TestFlagsOfARunAreThoseOfTheCommandLanguage(t *testing.T) {
	for line, words := range map[string][]string{
		`a.b --title "Call Ann" --tags x y z --done`: {"--title", "Call Ann", "--tags", "x", "y", "z", "--done"},
		`a.b --x=1 --x=2 --x 3`:                      {"--x=1", "--x=2", "--x", "3"},
		`a.b --task-id 4 --task_id 5`:                {"--task-id", "4", "--task_id", "5"},
		`a.b --x=--y`:                                {"--x=--y"},
		`a.b --x "" --y a "" b --z=`:                 {"--x", "", "--y", "a", "", "b", "--z="},
		`a.b --n -5 --x= --flag`:                     {"--n", "-5", "--x=", "--flag"},
		`a.b --x a --x`:                              {"--x", "a", "--x"},
		`a.b`:                                        nil,
	} {
		want, err := command.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := skillFlags(words)
		if diff := cmp.Diff(want.Flags, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	for _, words := range [][]string{{"stray"}, {"--x=1", "stray"}, {"--"}, {"--=x"}, {"-h"}} {
		if got, err := skillFlags(words); err == nil {
			t.Errorf("%q is read as %v", words, got)
		}
	}
}

// Ctrl-C leaves a run to itself, and says how to find it again; a run that takes
// longer than --timeout too.
func TestALeftRunSaysHowToFindIt(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	interrupts := make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline
	defer cancel()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" },
		interrupts: interrupts, uninstall: func() {}, now: time.Now, after: time.After}
	var user sync.WaitGroup
	user.Go(func() {
		// The mesh has told once that the run goes on, and was asked again.
		if err := f.await(timely(t), func() bool { return f.sends > 1 }); err != nil {
			cancel()
			return
		}
		interrupts <- os.Interrupt
	})
	code := a.execute(ctx, []string{"skills", "run", "--addr", addr, "tasks.slow"})
	user.Wait()
	left := regexp.MustCompile(`^the run goes on in the mesh; see it with: mesh threads show ([0-9a-f-]{36})\nwait for it with the same command and --thread ([0-9a-f-]{36}) --request-id ([0-9a-f-]{36})\n$`)
	m := left.FindStringSubmatch(errs.String())
	if code != exitInterrupted || m == nil || out.Len() > 0 {
		t.Fatalf("exit code %d, stdout %s, stderr %s", code, out.String(), errs.String())
	}
	env := map[string]string{"MESH_ADDR": addr}
	if code, out, errs := runApp(t, env, "threads", "show", m[1]); code != exitOK || !strings.Contains(out, "tasks.slow") {
		t.Errorf("the thread: %d, stdout %s, stderr %s", code, out, errs)
	}
	code, _, late := runApp(t, env, "skills", "run", "--thread", m[2], "--timeout", "50ms", "tasks.slow", "--request-id", m[3])
	if code != exitUnavailable || !strings.Contains(late, "the run goes on in the mesh") || !strings.Contains(late, "allow more with --timeout") {
		t.Errorf("--timeout: %d, stderr %s", code, late)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tasks) != 1 {
		t.Errorf("%d runs, want the one", len(f.tasks))
	}
}

// A watch tells what changes, and nothing of what there is.
func TestSkillsAreWatched(t *testing.T) {
	f, addr := startMesh(t, auth.None(nil))
	p := launch(t, t.TempDir(), "mesh", []string{"MESH_ADDR=" + addr}, "skills", "watch")
	p.await(&p.stderr, 0, "watching; Ctrl-C ends it\n")
	s, err := skill.Build(skill.Draft{Domain: "bulk", Name: "job", Description: "Does a job"})
	if err != nil {
		t.Fatal(err)
	}
	f.library.Put(s)
	p.shows("^changed  bulk.job  version " + s.Version + "\n$")
	f.library.Remove("bulk.job")
	p.shows("\nremoved  bulk.job\n$")
	p.signal(os.Interrupt)
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, stderr %s", code, p.stderr.String())
	}
}

const (
	goodPage = "---\nname: crm.add_note\ndescription: Add a note\nhandler: http.request\nparameters:\n  - name: id\n---\n# Note\n\n```http\nPOST https://crm.example.com/{id}\n```\n"
	badPage  = "---\nname: crm.add_note\ndescription: Add a note\nhandler: http.request\n---\n# Note\n\n```http\nPOST https://crm.example.com/{id}\n```\n"
	form     = "---\nname: pdf-forms\ndescription: Fill forms\n---\nSteps.\n"
)

// Files and folders are checked where they are, as a mesh would that loads
// them, without one.
func TestSkillFilesAreCheckedWithoutAMesh(t *testing.T) {
	noMesh := map[string]string{"MESH_ADDR": "127.0.0.1:1"}
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  string // stdout, with the paths below the folder
	}{
		"a folder of skills": {
			files: map[string]string{
				"crm/SKILL.md": "---\ndomain: crm\ndescription: Customers\n---\nAll.\n", "crm/add_note.md": goodPage,
				"crm/find.md": "---\nname: crm.search\ndescription: Find\n---\nx\n", "crm/bad.md": "---\nname: crm.bad\n---\nx\n",
				"top.md": "---\nname: a.top\ndescription: x\n---\nx\n", "pdf-forms/SKILL.md": form, "pdf-forms/notes.md": "no skill",
			},
			args: []string{"."},
			want: "crm/bad.md:1: description is missing; say in one line what the skill does\n" +
				"crm/find.md:2: name is \"crm.search\", but the file's place says \"crm.find\"; rename one of them\n" +
				"top.md: is not in a domain folder; move it to a/top.md\n2 valid skills, 1 valid domain text, 3 problems\n",
		},
		"a domain's folder": {
			files: map[string]string{"crm/SKILL.md": "---\ndomain: sales\ndescription: Customers\n---\nAll.\n", "crm/add_note.md": badPage, "other/x.md": "broken"},
			args:  []string{"crm"},
			want: "crm/SKILL.md:2: domain is \"sales\", but the folder is \"crm\"; rename one of them\n" +
				"crm/add_note.md:8: body has a request that cannot be sent: the path has {id}, which is no parameter of the skill; declare it in the front matter\n" +
				"0 valid skills, 2 problems\n",
		},
		"a folder without skills": {
			files: map[string]string{"mine/README.md": "Nothing yet.", "mine/notes/a.txt": "x"}, args: []string{"mine"},
			want: "mine: has no skills; they are in DOMAIN/ACTION.md below a folder of skills\n0 valid skills, 1 problem\n",
		},
		"a domain's folder without SKILL.md": {
			files: map[string]string{"crm/add_note.md": goodPage}, args: []string{"crm"}, want: "1 valid skill\n",
		},
		"a skill's folder": {
			files: map[string]string{"pdf-forms/SKILL.md": form, "pdf-forms/references/a.md": "x", "web-forms/SKILL.md": form},
			args:  []string{"pdf-forms", "web-forms", "pdf-forms/SKILL.md"},
			want:  "web-forms/SKILL.md:2: name is \"pdf-forms\", but the folder is \"web-forms\"; rename one of them\n2 valid skills, 1 problem\n",
		},
		"files": {
			files: map[string]string{"crm/add_note.md": goodPage, "crm/note.md": goodPage, "draft.md": goodPage, "bad.md": "---\nname: crm.x\ndescription: y\naccess: maybe\n---\nx\n",
				"worse.md": "---\nname: crm.x", "request.md": badPage, "crm/SKILL.md": "---\ndomain: crm\ndescription: Customers\n---\nAll.\n"},
			args: []string{"crm/add_note.md", "crm/note.md", "draft.md", "bad.md", "worse.md", "request.md", "crm/SKILL.md", "none.md"},
			want: "crm/note.md:2: name is \"crm.add_note\", but the file's place says \"crm.note\"; rename one of them\n" +
				"bad.md:4: access must be read or write, and is \"maybe\"\n" +
				"worse.md:1: the front matter is not closed; add a line of three dashes after the last field\n" +
				"request.md:8: body has a request that cannot be sent: the path has {id}, which is no parameter of the skill; declare it in the front matter\n" +
				"none.md: is not there or cannot be read; check the path and its permissions\n" +
				"draft.md: is crm.add_note and belongs to crm/add_note.md in a skills folder\n2 valid skills, 1 valid domain text, 5 problems\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.files {
				writeFile(t, filepath.Join(dir, file), text)
			}
			args := []string{"skills", "validate"}
			for _, arg := range tt.args {
				args = append(args, filepath.Join(dir, arg))
			}
			code, out, errs := runApp(t, noMesh, args...)
			if diff := cmp.Diff(tt.want, strings.ReplaceAll(out, dir+"/", "")); diff != "" || errs != "" {
				t.Errorf("-want +got\n%s\nstderr %s", diff, errs)
			}
			want := exitOK
			if strings.Contains(tt.want, "problem") {
				want = exitFailure
			}
			if code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
	code, out, _ := runApp(t, noMesh, "skills", "validate", "--json", filepath.Join(t.TempDir(), "none.md"))
	if code != exitFailure || !strings.HasPrefix(out, `{"path":"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("--json: %d, %s", code, out)
	}
	if code, out, _ := runApp(t, noMesh, "skills", "validate", ""); code != exitFailure || !strings.HasPrefix(out, `"": is no path`) {
		t.Errorf("an empty path: %d, %s", code, out)
	}
	if code, _, errs := runApp(t, noMesh, "skills", "validate"); code != exitUsage || !strings.Contains(errs, "name files or folders") {
		t.Errorf("nothing: %d, %s", code, errs)
	}
}

// The skills of this project are as they should be.
func TestTheSkillsOfThisProjectAreValid(t *testing.T) {
	if code, out, _ := runApp(t, nil, "skills", "validate", "../../skills"); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// A new skill is a file that is valid where it is, and nothing is overwritten
// (S3-010).
func TestANewSkillIsAValidFile(t *testing.T) {
	dir := t.TempDir()
	args := []string{"skills", "new", dir + "/crm.add_note", "--user", "ann", "--description", "Add a note: to a customer", "--tag", "crm",
		"--parameter", "customer:string:required:The customer's number", "--parameter", "limit:integer:default=5", "--parameter", "text",
		"--step", "Find the customer", "--step", "Add the note", "--schedule", "0 8 * * 1-5", "--timezone", "Europe/Oslo"}
	file := filepath.Join(dir, "crm", "add_note.md")
	code, out, errs := runApp(t, nil, args...)
	if code != exitOK || out != file+" written\n" || !strings.Contains(errs, "mesh skills validate "+file) {
		t.Fatalf("%d, stdout %s, stderr %s", code, out, errs)
	}
	if code, out, _ := runApp(t, nil, "skills", "validate", dir, file); code != exitOK || out != "2 valid skills\n" {
		t.Errorf("validate: %d, %s", code, out)
	}
	s, err := skill.Parse("crm/add_note.md", []byte(readFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	want := []skill.Parameter{{Name: "customer", Type: "string", Required: true, Description: "The customer's number"},
		{Name: "limit", Type: "integer", Default: "5"}, {Name: "text", Type: "string"}}
	if diff := cmp.Diff(want, s.Parameters); diff != "" || s.Author != "ann" || s.Created != "2026-11-20" || s.Schedule != "0 8 * * 1-5" ||
		s.Timezone != "Europe/Oslo" || !strings.Contains(s.Body, "2. Add the note") {
		t.Errorf("%+v\n%s", s, diff)
	}

	writeFile(t, file, "mine")
	code, _, errs = runApp(t, nil, args...)
	if code != exitFailure || !strings.Contains(errs, "is there already; choose another name, or edit that file") || readFile(t, file) != "mine" {
		t.Errorf("again: %d, %s", code, errs)
	}
}

func TestANewSkillThatCannotBeIsRefused(t *testing.T) {
	dir := t.TempDir()
	good := []string{"--description", "Does it"}
	for want, args := range map[string][]string{
		"--description is missing; say in one line what the skill does":       {"crm.x"},
		`the name must be lower-case .*; try "add_note"`:                      append(good, "crm.Add-Note"),
		`the domain must be lower-case`:                                       append(good, "Crm.x"),
		`the action "help" is reserved`:                                       append(good, "crm.help"),
		`give the skill's name and not its file`:                              append(good, dir+"/crm/x.md"),
		`after a folder the name must be whole, as skills/crm.add_note`:       append(good, dir+"/x"),
		`--parameter "a:text": the type must be one of string, integer`:       append(good, "crm.x", "--parameter", "a:text"),
		`--parameter "a::sometimes": the rule must be required, optional or `: append(good, "crm.x", "--parameter", "a::sometimes"),
		`--parameter 2, name "a" is there twice`:                              append(good, "crm.x", "--parameter", "a", "--parameter", "a"),
		`--step 1 is empty`:                                                   append(good, "crm.x", "--step", " "),
		`--schedule is not a cron expression`:                                 append(good, "crm.x", "--schedule", "daily"),
		`--timezone must be an IANA time zone`:                                append(good, "crm.x", "--timezone", "Oslo"),
		`leave the folder away, or --mesh`:                                    append(good, "--mesh", dir+"/crm.x"),
	} {
		code, out, errs := runApp(t, map[string]string{"MESH_SKILLS": dir}, append([]string{"skills", "new"}, args...)...)
		if code != exitUsage || out != "" || !regexp.MustCompile("^mesh: "+want).MatchString(errs) && !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, stderr %s", args, code, errs)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, %v are left behind", list, err)
	}
}

// Without a folder, a new skill goes where 'mesh up' would look.
func TestANewSkillGoesWhereTheMeshLooks(t *testing.T) {
	t.Chdir(t.TempDir())
	made := func(env map[string]string, name string) string {
		code, out, errs := runApp(t, env, "skills", "new", name, "--description", "Does it")
		if code != exitOK {
			t.Fatalf("%d: %s", code, errs)
		}
		return strings.TrimSuffix(out, " written\n")
	}
	if got := made(nil, "one"); got != "skills/workflows/one.md" {
		t.Errorf("got %s", got)
	}
	if got := made(map[string]string{"MESH_SKILLS": "team"}, "two"); got != "team/workflows/two.md" {
		t.Errorf("got %s", got)
	}
	if err := os.Rename("skills", "gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("data/skills", 0o700); err != nil {
		t.Fatal(err)
	}
	if got := made(map[string]string{"MESH_DATA": "data"}, "three"); got != "data/skills/workflows/three.md" {
		t.Errorf("got %s", got)
	}
}
