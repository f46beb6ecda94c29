package keyfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// killedAt is the setting of a child of the test: the file that it makes and does not finish.
const killedAt = "KEYFILE_KILLED_AT"

// killed ends this process as kill -9 does.
func killed() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Kill()
}

// What a process left that was killed between writing a file and giving it its name goes
// when another starts; what somebody may be writing now stays, and whatever has another name.
func TestWhatAKilledProcessLeftIsSwept(t *testing.T) {
	if path := os.Getenv(killedAt); path != "" {
		err := writeText(path, []byte("a secret"), 0o600, func(string, string) error { return killed() })
		t.Fatalf("it was not killed: %v", err)
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
	child.Env = append(os.Environ(), killedAt+"="+filepath.Join(dir, "a.key"))
	if err := child.Run(); err == nil {
		t.Fatal("the child ended by itself")
	}
	left := names()
	if len(left) != 1 {
		t.Fatalf("it left %q", left)
	}
	if err := Sweep(dir); err != nil || !slices.Equal(names(), left) {
		t.Fatalf("of what may be under way is left %q, %v", names(), err)
	}
	others := []string{".key-", ".key-note", ".key-1.txt", "a.key", "key-1"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".key-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names() {
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, started.Add(-2*grace)); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.Sorted(slices.Values(append(others, ".key-2")))
	if err := Sweep(dir); err != nil || !slices.Equal(names(), want) {
		t.Errorf("left is %q, %v, want %q", names(), err, want)
	}
	if err := Sweep(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}
