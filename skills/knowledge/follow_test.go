package knowledge_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/skills/knowledge"
)

// gate is a folder in which reading slow.md takes until it is let.
type gate struct {
	fs.FS
	waits, let chan struct{}
}

func (g gate) Open(name string) (fs.File, error) {
	if name == "slow.md" {
		select {
		case g.waits <- struct{}{}:
			<-g.let
		default:
		}
	}
	return g.FS.Open(name)
}

// finding U2: what is added, edited and removed counts without a restart, a folder of its own, too;
// searches go on meanwhile over what there was; and a file that cannot be read is told by its name
// until it can.
func TestIndex_followsItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	save := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil { // at once, as editors do
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	save("a.md", "# A\n\nzebra one")
	var log strings.Builder
	g := gate{os.DirFS(dir), make(chan struct{}), make(chan struct{})}
	ix, err := knowledge.Open(g, knowledge.Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	looked, problems := make(chan struct{}, 1), ""
	await := func(what string, want ...string) {
		t.Helper()
		for {
			<-looked
			got := search(t, ix, "zebra")
			if cmp.Diff(want, got) == "" {
				return
			}
			t.Logf("%s: %q so far", what, got)
		}
	}
	if got := search(t, ix, "zebra"); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	ix.Tell(func(all []skill.Problem) {
		problems = ""
		for _, p := range all {
			problems += p.Path + " " + p.Detail + "\n"
		}
		select {
		case looked <- struct{}{}:
		default:
		}
	})
	save("deep/er/b.md", "# B\n\nzebra two")
	await("added", "a.md:1 A|", "deep/er/b.md:1 B|")
	save("deep/er/b.md", "# B\n\ngiraffe two")
	await("edited", "a.md:1 A|")

	save("slow.md", "# S\n\nzebra three")
	<-g.waits
	if got := search(t, ix, "zebra"); len(got) != 1 {
		t.Errorf("while a file is read, found is %q", got)
	}
	close(g.let)
	await("slow", "a.md:1 A|", "slow.md:1 S|")
	if err := os.Remove(filepath.Join(dir, "a.md")); err != nil {
		t.Fatal(err)
	}
	await("removed", "slow.md:1 S|")
	save("slow.md", "caf\xe9 zebra")
	await("not readable")
	if err := ix.Close(); err != nil {
		t.Error(err)
	}
	if want := "slow.md is not UTF-8 text; convert it\n"; problems != want || strings.Count(log.String(), "path=slow.md") != 1 {
		t.Errorf("told is %q, logged %s", problems, &log)
	}
}

// A folder that is gone raises a problem; what was read of it goes on to be searched.
func TestIndex_keepsWhatItReadOfAFolderThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("# A\n\nzebra"), 0o644); err != nil {
		t.Fatal(err)
	}
	ix, err := knowledge.Open(os.DirFS(dir), knowledge.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ix.Close() }()
	if got := search(t, ix, "zebra"); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	told := make(chan string, 100)
	ix.Tell(func(all []skill.Problem) {
		if len(all) > 0 {
			told <- all[0].Path
		}
	})
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if path := <-told; path != "." {
		t.Errorf("the problem is %s", path)
	}
	if got := search(t, ix, "zebra"); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}
