package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// small makes a copy of a folder with a few files.
func small(t *testing.T) (dir string) {
	t.Helper()
	base := t.TempDir()
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	err := errors.Join(put(base, "a", "text of a"), put(filepath.Join(base, "sub", "deep"), "b", strings.Repeat("b", 2*chunk+7)), put(base, "empty", ""),
		os.Chmod(filepath.Join(base, "a"), 0o640), os.Chtimes(filepath.Join(base, "a"), old, old), os.Symlink("a", filepath.Join(base, "link")))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "copy")
	f, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSource(f.Take)
	if err := errors.Join(s.Begin(9), s.Tree(t.Context(), Tree{Dir: base, Roots: []string{"."}}), s.End(&meshv1.BackupManifest{Program: "x"})); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Done(nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func restore(dir, to string) error {
	f, err := Restore(to)
	if err != nil {
		return err
	}
	if err := Read(dir, f.Take); err != nil {
		return errors.Join(err, f.Abandon())
	}
	_, err = f.Done(nil)
	return errors.Join(err, f.Abandon())
}

// names are all that is in the folder, with what may be done with it.
func names(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && at != dir {
			var st fs.FileInfo
			st, err = d.Info()
			rel, _ := filepath.Rel(dir, at)
			all[rel] = st.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestACopyIsItsOwnersAloneAndComesBackAsItWas(t *testing.T) {
	dir := small(t)
	for name, mode := range names(t, dir) {
		if mode&fs.ModeSymlink == 0 && mode.Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others: %v", name, mode)
		}
	}
	to := filepath.Join(t.TempDir(), "new", "folder")
	if err := restore(dir, to); err != nil {
		t.Fatal(err)
	}
	all := names(t, to)
	if len(all) != 6 || all["a"].Perm() != 0o640 || all["sub/deep/b"] == 0 || all["link"]&fs.ModeSymlink == 0 || all["empty"] == 0 {
		t.Errorf("restored is %v", all)
	}
	if st, err := os.Stat(filepath.Join(to, "a")); err != nil || st.ModTime().Year() != 2020 {
		t.Errorf("its time is %v, %v", st, err)
	}
	if left := names(t, filepath.Dir(to)); left["folder.partial"] != 0 {
		t.Errorf("left is %v", left)
	}
	if err := restore(dir, to); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("into a folder that is not empty: %v", err)
	}
	if _, err := Create(dir); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("over another copy: %v", err)
	}
	if empty := t.TempDir(); restore(dir, empty) != nil || len(names(t, empty)) != 6 {
		t.Errorf("into an empty folder: %v", names(t, empty))
	}
}

// finding U5: whatever is done to a copy is found, by the name of the file.
func TestWhateverIsDoneToACopyIsFound(t *testing.T) {
	at := func(dir, name string) string { return filepath.Join(dir, Data, name) }
	flip := func(name string, i int) func(string) error {
		return func(dir string) error {
			text, err := os.ReadFile(at(dir, name))
			if err != nil {
				return err
			}
			text[(len(text)+i)%len(text)] ^= 1
			return os.WriteFile(at(dir, name), text, 0o600)
		}
	}
	for what, tt := range map[string]struct {
		do   func(dir string) error
		want string // the path of what is found
	}{
		"nothing":           {func(string) error { return nil }, ""},
		"the first byte":    {flip("a", 0), "a"},
		"the last byte":     {flip("sub/deep/b", -1), "sub/deep/b"},
		"a file goes":       {func(dir string) error { return os.Remove(at(dir, "empty")) }, "empty"},
		"a file is cut off": {func(dir string) error { return os.Truncate(at(dir, "a"), 3) }, "a"},
		"a file grows":      {func(dir string) error { return os.WriteFile(at(dir, "empty"), []byte("x"), 0o600) }, "empty"},
		"a file comes":      {func(dir string) error { return os.WriteFile(at(dir, "sub/c"), nil, 0o600) }, "sub/c"},
		"a link leads elsewhere": {func(dir string) error {
			return errors.Join(os.Remove(at(dir, "link")), os.Symlink("empty", at(dir, "link")))
		}, "link"},
		"a file becomes a folder": {func(dir string) error { return errors.Join(os.Remove(at(dir, "a")), os.Mkdir(at(dir, "a"), 0o700)) }, "a"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := small(t)
			if err := tt.do(dir); err != nil {
				t.Fatal(err)
			}
			_, found, err := Check(dir)
			if err != nil || len(found) != min(len(tt.want), 1) || len(found) == 1 && found[0].Path != tt.want {
				t.Errorf("found is %v, %v; want %q", found, err, tt.want)
			}
		})
	}
	for what, tt := range map[string]struct {
		manifest string
		code     mesh.Code
	}{
		"no manifest":            {"", mesh.NotFound},
		"no JSON":                {"{", mesh.Precondition},
		"a form to come":         {`{"format": 2}`, mesh.Precondition},
		"a path that leads out":  {`{"format": 1, "files": [{"path": "../x"}]}`, mesh.Precondition},
		"a path from the top":    {`{"format": 1, "files": [{"path": "/etc/x"}]}`, mesh.Precondition},
		"the folder as its file": {`{"format": 1, "files": [{"path": "."}]}`, mesh.Precondition},
	} {
		dir := small(t)
		err := os.Remove(filepath.Join(dir, manifestName))
		if tt.manifest != "" {
			err = os.WriteFile(filepath.Join(dir, manifestName), []byte(tt.manifest), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Check(dir); !mesh.IsCode(err, tt.code) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// pieces are those of a small copy.
func pieces(t *testing.T) (all []*meshv1.BackupDataResponse) {
	t.Helper()
	if err := Read(small(t), func(p *meshv1.BackupDataResponse) error { all = append(all, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// finding U5: a copy of which a piece is missing, wherever, or is another, gets no name, and
// what there is of it is removed, or by the next one if a process could not.
func TestACopyThatIsNotWholeIsNone(t *testing.T) {
	t.Parallel()
	count := len(pieces(t))
	for name, begin := range map[string]func(string) (*Folder, error){"a copy": Create, "a restored folder": Restore} {
		for cut := range count {
			all := pieces(t)
			dir := filepath.Join(t.TempDir(), "x")
			f, err := begin(dir)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range all {
				if i != cut && err == nil {
					err = f.Take(p)
				}
			}
			if err == nil {
				_, err = f.Done(nil)
			}
			if wanted := all[cut].GetBegun() != nil; (err == nil) != wanted { // that is for people alone
				t.Errorf("%s without piece %d: %v", name, cut, err)
			}
			if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) == (err == nil) {
				t.Errorf("%s without piece %d is there: %v", name, cut, gone)
			}
			if err := f.Abandon(); err != nil {
				t.Error(err)
			}
			if left := names(t, filepath.Dir(dir)); err != nil && len(left) > 0 {
				t.Errorf("%s without piece %d: left is %v", name, cut, left)
			}
		}
	}
}

func TestWhatAnotherProcessWritesOrLeftIsToldApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	f, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("two write one copy: %v", err)
	}
	for _, p := range pieces(t)[:4] {
		if err := f.Take(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.lock.Close(); err != nil { // as a kill does
		t.Fatal(err)
	}
	if f, err = Create(dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces(t) {
		if err := f.Take(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Done(nil); err != nil {
		t.Fatal(err)
	}
	if _, found, err := Check(dir); err != nil || found != nil {
		t.Errorf("after what another one left: %v, %v", found, err)
	}
	other := filepath.Join(t.TempDir(), "y")
	if err := put(other+partialSuffix, "somebody's", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(other); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("where something else is: %v", err)
	}
	if len(names(t, filepath.Dir(other))) != 2 {
		t.Errorf("it was touched: %v", names(t, filepath.Dir(other)))
	}
}

// What a node sends is not believed: no name leads out of the copy, also through a link that
// came before.
func TestNothingThatComesIsWrittenOutside(t *testing.T) {
	elsewhere := t.TempDir()
	file := func(f *meshv1.BackupFile) *meshv1.BackupDataResponse {
		return &meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_File{File: f}}
	}
	for what, sent := range map[string][]*meshv1.BackupDataResponse{
		"up":             {file(&meshv1.BackupFile{Path: "../../x"})},
		"from the top":   {file(&meshv1.BackupFile{Path: elsewhere + "/x"})},
		"the folder":     {file(&meshv1.BackupFile{Path: "."})},
		"through a link": {file(&meshv1.BackupFile{Path: "l", Link: elsewhere}), file(&meshv1.BackupFile{Path: "l/x"})},
		"a removal":      {{Piece: &meshv1.BackupDataResponse_Removed{Removed: "../../x"}}},
		"data of none":   {{Piece: &meshv1.BackupDataResponse_Data{Data: []byte("x")}}},
	} {
		f, err := Create(filepath.Join(t.TempDir(), "x"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range sent {
			err = errors.Join(err, f.Take(p))
		}
		err = errors.Join(err, f.Take(&meshv1.BackupDataResponse{Piece: &meshv1.BackupDataResponse_Manifest{Manifest: &meshv1.BackupManifest{Format: Format}}}))
		if err == nil {
			t.Errorf("%s: it was taken", what)
		}
		if err := f.Abandon(); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, elsewhere); len(left) > 0 {
		t.Errorf("written is %v", left)
	}
}
