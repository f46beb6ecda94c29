package outfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

func TestLedger_keepsWhatWasNoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l, name := outfile.NewLedger(dir), outfile.Name("acme", "k")
	expect := func(want string) {
		t.Helper()
		if data, err := outfile.NewLedger(dir).Get(name); err != nil || string(data) != want || (data == nil) != (want == "") {
			t.Errorf("%q, %v, want %q", data, err, want)
		}
	}
	expect("")
	for _, text := range []string{"one", "two"} {
		if err := l.Put(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		expect(text)
	}
	if data, fresh, err := l.Claim(name, []byte("three")); string(data) != "two" || fresh || err != nil {
		t.Errorf("%q, %v, %v", data, fresh, err)
	}
	if err := l.Drop(name); err != nil {
		t.Error(err)
	}
	expect("")
	var firsts atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if _, fresh, err := outfile.NewLedger(dir).Claim(name, []byte(fmt.Sprint(i))); err != nil {
				t.Error(err)
			} else if fresh {
				firsts.Add(1)
			}
		})
	}
	wg.Wait()
	if firsts.Load() != 1 {
		t.Errorf("%d were the first", firsts.Load())
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := outfile.NewLedger(blocked).Put(name, []byte("x")); !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
		t.Errorf("error is %v", err)
	}
}

// What is staged is not there until it is published, and is published once.
func TestPublish_showsWhatWasStaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if was, err := outfile.Publish(dir, "a.eml"); was || err != nil {
		t.Errorf("nothing: %v, %v", was, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := outfile.Stage(dir, "a.eml", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if list, err := filepath.Glob(filepath.Join(dir, "*.eml")); err != nil || len(list) != 0 {
			t.Error(list, err)
		}
	}
	for _, want := range []bool{true, false} {
		if was, err := outfile.Publish(dir, "a.eml"); was != want || err != nil {
			t.Errorf("%v, %v", was, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a.eml")); err != nil || string(data) != "two" {
		t.Errorf("%q, %v", data, err)
	}
}

// Only files of the folder are opened, by whatever their names say.
func TestOpen_opensRegularFilesOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o750), os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := outfile.Open(dir, "file")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := outfile.Open(dir, "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"folder", "link", "../" + filepath.Base(dir) + "/file"} {
		if f, err := outfile.Open(dir, name); err == nil {
			t.Errorf("%s was opened", name)
			_ = f.Close()
		}
	}
}
