package outfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// killedIn is the setting of a child of the test: the folder in which it does not finish a file.
const killedIn = "OUTFILE_KILLED_IN"

// What a process left that was killed between writing a file and giving it its name is
// removed, and nothing else.
func TestWhatAKilledProcessLeftIsSwept(t *testing.T) {
	if dir := os.Getenv(killedIn); dir != "" {
		_, err := writeTemp(dir, "00.json", whole([]byte("text")))
		self, noSelf := os.FindProcess(os.Getpid())
		if noSelf == nil {
			noSelf = self.Kill()
		}
		t.Fatal(err, noSelf)
	}
	dir := t.TempDir()
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatAKilledProcessLeftIsSwept$") // #nosec G204,G702 -- itself
	child.Env = append(os.Environ(), killedIn+"="+dir)
	if err := child.Run(); err == nil {
		t.Fatal("the child ended by itself")
	}
	if left := names(); len(left) != 1 {
		t.Fatalf("it left %q", left)
	}
	others := []string{".00.json.staged", ".lock-12", "00.json", "a.12"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir); err != nil || !slices.Equal(names(), others) {
		t.Errorf("left is %q, %v, want %q", names(), err, others)
	}
}
