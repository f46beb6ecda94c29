package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// put writes a file as skills do: whole or not at all.
func put(dir, name, text string) error {
	temp := filepath.Join(dir, "."+name+".123")
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(temp, []byte(text), 0o600), os.Rename(temp, filepath.Join(dir, name)))
}

func skipTemps(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, LockPrefix) || strings.HasSuffix(base, ".123")
}

// copyTree copies the tree into a new folder, whose files it returns by their paths. each
// hears of each piece before it is taken.
func copyTree(t *testing.T, tree Tree, each func(*meshv1.BackupDataResponse)) (map[string]string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	f, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSource(func(p *meshv1.BackupDataResponse) error {
		each(p)
		return f.Take(p)
	})
	if err := errors.Join(s.Begin(0), s.Tree(t.Context(), tree)); err != nil {
		return nil, errors.Join(err, f.Abandon())
	}
	if err := s.End(&meshv1.BackupManifest{}); err != nil {
		t.Fatal(err)
	}
	m, err := f.Done(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := Check(dir); err != nil || found != nil {
		t.Errorf("the copy is not what its manifest says: %v, %v", found, err)
	}
	all := map[string]string{}
	for _, of := range m.GetFiles() {
		at := filepath.Join(dir, Data, of.GetPath())
		text, err := os.ReadFile(at)
		if of.GetLink() != "" {
			var to string
			to, err = os.Readlink(at)
			text = []byte("-> " + to)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[of.GetPath()] = string(text)
	}
	return all, nil
}

func nothing(*meshv1.BackupDataResponse) {}

// finding U5: a change that writes a note, a file, another name for it and takes the last
// one away, under a lock, is in a copy as it was at one moment, however many are made
// meanwhile.
func TestFilesThatChangeTogetherAreCopiedTogether(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	notes, files := filepath.Join(base, "notes"), filepath.Join(base, "files")
	change := func(n int) error {
		if err := os.MkdirAll(notes, 0o700); err != nil {
			return err
		}
		l, all := flock.New(filepath.Join(notes, LockPrefix+"0a")), flock.New(filepath.Join(notes, LockAll))
		if err := errors.Join(all.RLock(), l.Lock(), all.Close()); err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		text := strconv.Itoa(n)
		return errors.Join(put(notes, "note", text), put(files, "file", text),
			put(files, "at-"+text, text), remove(filepath.Join(files, "at-"+strconv.Itoa(n-1))))
	}
	if err := change(1); err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 2; ; n++ {
			select {
			case <-end:
				return
			default:
			}
			if err := change(n); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 10 {
		// Sending takes time, in which things change.
		all, err := copyTree(t, Tree{Dir: base, Roots: []string{"files", "notes"}, Skip: skipTemps}, func(*meshv1.BackupDataResponse) { time.Sleep(time.Millisecond) })
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(all["notes/note"])
		if err != nil {
			t.Fatal(err)
		}
		is, was := fmt.Sprint(n), fmt.Sprint(n-1)
		state := [...]string{all["files/file"], all["files/at-"+was], all["files/at-"+is]}
		delete(all, "files/at-"+was)
		delete(all, "files/at-"+is)
		switch state { // after each step of the change
		case [...]string{was, was, ""}, [...]string{is, was, ""}, [...]string{is, was, is}, [...]string{is, "", is}:
		default:
			t.Errorf("copied is what never was: note %d, %v", n, state)
		}
		if len(all) != 2 {
			t.Errorf("and %v", all)
		}
	}
	close(end)
	wg.Wait()
}

// Who changes something under a lock does not while it is looked whether something changes,
// and goes on while what was read is sent.
func TestLocksAreHeldWhileItIsLookedAndNotWhileItIsSent(t *testing.T) {
	base := t.TempDir()
	one, lock := filepath.Join(base, "notes", LockPrefix+"0a"), filepath.Join(base, "notes", LockAll)
	if err := errors.Join(put(filepath.Join(base, "notes"), "note", "1"), os.WriteFile(one, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	free := func() bool {
		l := flock.New(lock)
		got, err := l.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return got
	}
	looks, held := 0, 0
	all, err := copyTree(t, Tree{Dir: base, Roots: []string{"notes"}, Skip: func(name string) bool {
		if name == "notes/note" {
			if looks++; !free() {
				held++
			}
			if looks == 2 { // it changes before the locks are taken
				if err := put(filepath.Join(base, "notes"), "note", "2"); err != nil {
					t.Fatal(err)
				}
			}
		}
		return skipTemps(name)
	}}, func(*meshv1.BackupDataResponse) {
		if !free() {
			t.Error("something is sent under a lock")
		}
	})
	if err != nil || held < 2 || all["notes/note"] != "2" {
		t.Errorf("%v, %v; %d of %d looks were under the lock", all, err, held, looks)
	}
}

// What changes without a lock is copied as it was in a pause; what never pauses is refused.
func TestWhatChangesWithoutALockIsCopiedOnceItPauses(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	n := 0
	change := func() {
		n++
		text := fmt.Sprint(strings.Repeat("x", n), n)
		if err := errors.Join(put(base, "a", text), put(base, "b", text), os.WriteFile(filepath.Join(base, "in-place"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	change()
	left := 20
	all, err := copyTree(t, Tree{Dir: base, Roots: []string{"."}, Skip: skipTemps}, func(*meshv1.BackupDataResponse) {
		if left--; left > 0 {
			change()
		}
	})
	if err != nil || all["a"] == "" || all["a"] != all["b"] || all["a"] != all["in-place"] || len(all) != 3 {
		t.Errorf("copied is %v, %v", all, err)
	}
	_, err = copyTree(t, Tree{Dir: base, Roots: []string{"."}, Skip: func(name string) bool {
		if name == "b" { // whenever somebody looks
			change()
		}
		return skipTemps(name)
	}}, nothing)
	if !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("of files that change all the time: %v", err)
	}
}

func TestFilesThatGoComeAndLeadElsewhereAreCopiedAsTheyAreInTheEnd(t *testing.T) {
	base := t.TempDir()
	large := strings.Repeat("large ", 2*atOnce/6)
	if err := errors.Join(put(base, "goes", "x"), put(base, "stays", "x"), put(filepath.Join(base, "sub"), "skipped.123", "x"), put(filepath.Join(base, "was-a-folder"), "in", "x"),
		os.Symlink("/elsewhere", filepath.Join(base, "link"))); err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(func() {
		if err := errors.Join(os.Remove(filepath.Join(base, "goes")), put(filepath.Join(base, "comes"), "large", large),
			os.RemoveAll(filepath.Join(base, "was-a-folder")), put(base, "was-a-folder", "file")); err != nil {
			t.Fatal(err)
		}
	})
	all, err := copyTree(t, Tree{Dir: base, Roots: []string{"goes", "stays", "sub", "comes", "none", "link", "was-a-folder"}, Skip: skipTemps}, func(p *meshv1.BackupDataResponse) {
		if p.GetFile().GetPath() == "stays" {
			once()
		}
	})
	if err != nil || len(all) != 4 || all["stays"] != "x" || all["comes/large"] != large || all["link"] != "-> /elsewhere" || all["was-a-folder"] != "file" {
		t.Errorf("copied are %d, %v", len(all), err)
	}
}
