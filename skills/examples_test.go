package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/files"
	"agentmesh/skills/internal/testbench"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/markdown"
	"agentmesh/skills/memory"
	"agentmesh/skills/system"
	"agentmesh/skills/tasks"
)

// A world has all handlers, over folders and a state of its own.
type world struct {
	*testbench.Bench
	dir   string
	state *skilltest.State
	built []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), state: new(skilltest.State)}
	ix, err := knowledge.Open(fstest.MapFS{"guide.md": {Data: []byte("# Guide\n\n## Rate limiting\n\nConfigure it so.\n\n## Handoff\n\nAfter the return, main goes on.\n")}}, knowledge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	memories, notes := memory.Open(filepath.Join(w.dir, "memory-index")), markdown.Open(filepath.Join(w.dir, "vault"))
	handlers := map[string]skill.Handler{}
	for _, domain := range []map[string]skill.Handler{
		files.Handlers(filepath.Join(w.dir, "files")), markdown.Handlers(notes), memory.Handlers(memories),
		calendar.Handlers(w.dir), knowledge.Handlers(ix), mail.Handlers(w.dir, mail.WithFiles(filepath.Join(w.dir, "files"), true)), tasks.Handlers(),
		system.Handlers(),
	} {
		maps.Copy(handlers, domain)
	}
	w.Bench = testbench.New(t, handlers, skills.FS)
	w.SetState(w.state)
	w.Create = func(_ context.Context, s *skill.Skill) error {
		w.built = append(w.built, s.Name)
		return nil
	}
	t.Cleanup(func() {
		if err := errors.Join(memories.Close(), notes.Close(), ix.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// ok calls a skill that must succeed.
func (w *world) ok(t *testing.T, name string, args map[string]any) *skill.Result {
	t.Helper()
	r := w.Call(name, "", args)
	if r.Failed() {
		t.Fatalf("%s: %s", name, r.Content)
	}
	return r
}

// furnish puts there what the examples of a page speak of, and returns what
// they call by made-up ids.
func (w *world) furnish(t *testing.T, name string) (ids map[string]string) {
	t.Helper()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	switch domain, action, _ := strings.Cut(name, "."); domain {
	case "tasks":
		task := tasks.Task{ID: "t-ab2cd", Title: "Look at the certificate", Status: tasks.Todo, Due: "2026-11-01", Tags: []string{"customer"}}
		other := task
		other.ID = "t-ef3gh"
		for _, one := range []tasks.Task{task, other} {
			data, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.state.Put(t.Context(), tasks.Kind, one.ID, data, 0); err != nil {
				t.Fatal(err)
			}
		}
	case "calendar":
		if action != "create" {
			made := w.ok(t, "calendar.create", map[string]any{"title": "Follow-up", "start": "2026-12-01T14:00"})
			return map[string]string{"1a2b3c4d": made.Metadata["id"].(string), "9f8e7d6c": made.Metadata["version"].(string)}
		}
	case "mail":
		write("inbox/a.eml", "From: Bob <bob@example.com>\r\nTo: me@example.com\r\nSubject: Invoice of November\r\nDate: Tue, 17 Nov 2026 09:00:00 +0000\r\n"+
			"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n"+strings.Repeat("Please pay it. ", 1000)+
			"\r\n--x\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=invoice.pdf\r\n\r\n%PDF\r\n--x--\r\n")
		write("files/default/reports/may.pdf", "%PDF")
		found := w.ok(t, "mail.search", nil)
		return map[string]string{"m-1a2b3c4d5e": found.Metadata["ids"].([]string)[0]}
	case "files":
		if action != "write" {
			write("files/default/notes/todo.txt", "Call Ann\n")
			write("files/default/logs/build.log", strings.Repeat("line\n", 500))
			write("files/default/customers/acme.txt", "The invoice is late.\n")
			write("files/default/release notes.txt", "x\n")
		}
	case "markdown":
		if action != "create" {
			write("vault/default/Log.md", "# Log\n")
			write("vault/default/projects/Aurora.md", "---\ntags: [meeting]\n---\n# Aurora\n\n## Plan\n\nThe budget.\n")
			write("vault/default/projects/Aurora kickoff.md", "# Kickoff\n")
		}
	case "memory":
		w.ok(t, "memory.save", map[string]any{"content": "Trains have window seats", "category": "fact", "importance": 0.9})
		w.ok(t, "memory.save", map[string]any{"content": "Deadlines are in May", "category": "fact", "importance": 0.9})
	}
	return nil
}

// S3-085, S3-157: every example of every page does what its page is for, in
// its own handler, and what it looks for is there to be found.
func TestFS_hasExamplesThatTheHandlersCarryOut(t *testing.T) {
	for _, s := range load(t).List() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			_, examples, _ := strings.Cut(s.Body, "\n## Examples\n")
			ran := 0
			for line := range strings.Lines(examples) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				ran++
				w := newWorld(t)
				for made, id := range w.furnish(t, s.Name) {
					line = strings.ReplaceAll(line, made, id)
				}
				cmd, err := command.Parse(line)
				if err != nil {
					t.Fatal(err)
				}
				r := w.Call(cmd.Skill, "key", command.Args(cmd.Flags, s))
				if r.Failed() || r.Content == "" {
					t.Errorf("%s\nis answered by %q", line, r.Content)
				}
				if n, counts := r.Metadata["count"]; counts && n == 0 {
					t.Errorf("%s\nfinds nothing: %q", line, r.Content)
				}
				again := w.Call(cmd.Skill, "key", command.Args(cmd.Flags, s))
				if s.Access == skill.AccessWrite && (again.Failed() || fmt.Sprint(again.Metadata) != fmt.Sprint(r.Metadata)) {
					t.Errorf("%s\nis answered by %+v, and under the same key by %+v", line, r, again)
				}
				if strings.HasSuffix(s.Handler, "build_skill") && len(w.built) == 0 {
					t.Errorf("%s\nbuilds nothing", line)
				}
			}
			if ran == 0 {
				t.Error("there are no examples")
			}
		})
	}
}

// Every handler answers a call of which one flag is nonsense, in time and in
// bounds, and takes none of it for a fault of its own.
func TestHandlers_answerNonsense(t *testing.T) {
	nonsense := []any{"\x00", strings.Repeat("x", 1<<20+1), "../../etc/passwd", -1.0, 1e300, []any{nil, map[string]any{}}, map[string]any{"a": "b"}, "\xff\xfe", " \u202e\u200b", "'; DROP TABLE docs; --\" OR NEAR(*"}
	for _, s := range load(t).List() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ids := w.furnish(t, s.Name)
			_, examples, _ := strings.Cut(s.Body, "\n## Examples\n")
			line, _, _ := strings.Cut(strings.TrimSpace(examples), "\n")
			for made, id := range ids {
				line = strings.ReplaceAll(line, made, id)
			}
			cmd, err := command.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range s.Parameters {
				for _, v := range nonsense {
					a := command.Args(cmd.Flags, s)
					a[p.Name] = v
					r := w.Call(s.Name, "", a)
					if code := mesh.CodeOf(r.Err); r.Failed() && (code == mesh.Unknown || code == mesh.Unavailable || code == mesh.Timeout) || r.Content == "" || len(r.Content) > 64<<10 {
						t.Errorf("--%s %.20q: %.500s, %.500v", p.Name, fmt.Sprint(v), r.Content, r.Err)
					}
				}
			}
		})
	}
}
