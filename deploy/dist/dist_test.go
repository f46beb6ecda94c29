package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	testVersion = "v1.2.3-rc.1"
	testTime    = "1700000000"
)

// here is the system that the tests run on, of which they make a release.
var here = target{runtime.GOOS, runtime.GOARCH}

// made is the folder of a release that was made once for all tests.
var made string

func TestMain(m *testing.M) { os.Exit(tests(m)) }

func tests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dist-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system removes it otherwise
	made = filepath.Join(dir, "out")
	if err := os.Setenv("SOURCE_DATE_EPOCH", testTime); err != nil {
		panic(err)
	}
	if err := run(context.Background(), "../..", made, testVersion, []string{here.os + "/" + here.arch}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// The folder to fill is emptied first, and so it is never one that the module is in.
func TestNothingIsRemovedAboveTheModule(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "src", "mesh")
	kept := filepath.Join(root, "go.mod")
	if err := write(kept, []byte("module mesh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(top, alias); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{"", ".", "..", "../..", root, top, root + "/.build/..", filepath.Join(alias, "src")} {
		err := run(t.Context(), root, out, testVersion, nil)
		if err == nil || !strings.Contains(err.Error(), "has the module in it") {
			t.Errorf("to %q: %v", out, err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Fatalf("to %q: %v", out, err)
		}
	}
}

// artifact reads a file of the release whose name has that suffix.
func artifact(t *testing.T, suffix string) []byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made, "*"+suffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("of %s there are %q: %v", suffix, found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpacked is a folder with what is in the archive, without the folder that all is in.
func unpacked(t *testing.T) string {
	t.Helper()
	if here.os == "windows" {
		t.Skip("the archive is a zip here")
	}
	z, err := gzip.NewReader(bytes.NewReader(artifact(t, ".tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	untar(t, z, dir)
	return filepath.Join(dir, "agentmesh_"+testVersion+"_"+here.os+"_"+here.arch)
}

func untar(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("%s is not below the folder", h.Name)
		}
		path, mode := filepath.Join(dir, h.Name), h.FileInfo().Mode()
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(tr); err == nil {
				err = write(path, data, mode.Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Lchown(path, h.Uid, h.Gid); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// said runs a program with nothing of this process's environment.
func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

func TestAnArchiveHasTheBinaryAndWhatBelongsToIt(t *testing.T) {
	dir := unpacked(t)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "docs/operations.md", "docs/tutorials/tls.md", "deploy/compose.yaml", "deploy/systemd/agentmesh.service", "man/man1/mesh.1", "man/man1/mesh-data-backup.1",
		"completions/bash/mesh", "completions/zsh/_mesh", "completions/fish/mesh.fish", "completions/powershell/mesh.ps1"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 || info.Mode() != 0o644 || info.ModTime().Unix() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	mesh := filepath.Join(dir, "mesh")
	if got := said(t, mesh, "--version"); got != "mesh "+testVersion+"\n" {
		t.Errorf("the version is %q", got)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if libraries := exec.CommandContext(t.Context(), "ldd", mesh); libraries.Run() == nil {
		t.Error("the binary needs libraries of the system")
	}
}

// Who gets the binary gets the licences of all that is inside, and a list of it that programs read.
func TestAllThatIsInsideIsListedWithItsLicence(t *testing.T) {
	dir := unpacked(t)
	notices, err := os.ReadFile(filepath.Join(dir, noticesFile))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Components []struct {
			Name, Version string
			Evidence      struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(artifact(t, ".cdx.json"), &list); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, c := range list.Components {
		listed[c.Name+" "+c.Version] = true
		if c.Name != "std" && len(c.Evidence.Licenses) == 0 {
			t.Errorf("the licence of %s is not known", c.Name)
		}
	}
	inside := strings.Fields(strings.ReplaceAll(said(t, goTool(t), "version", "-m", filepath.Join(dir, "mesh")), "\tdep\t", "\tdep:"))
	modules := 0
	for i, word := range inside {
		name, ok := strings.CutPrefix(word, "dep:")
		if !ok {
			continue
		}
		modules++
		name += " " + inside[i+1]
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
		if !strings.Contains(string(notices), "\n"+name+": ") {
			t.Errorf("there is no licence of %s", name)
		}
	}
	if modules < 50 || !strings.Contains(string(notices), "Copyright 2009 The Go Authors.") {
		t.Errorf("%d modules are inside, and Go", modules)
	}
}

func goTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAModuleWithoutALicenceIsNotGivenAway(t *testing.T) {
	dir := t.TempDir()
	m := &module{"example.org/x v1.0.0", dir, []string{dir}}
	if _, err := m.licences(); err == nil || !strings.Contains(err.Error(), "example.org/x v1.0.0 has no licence") {
		t.Errorf("without one: %v", err)
	}
	for _, name := range []string{"LICENSE", "licence.txt", "COPYING", "NOTICE", "LICENSE-APACHE", "SQLITE-LICENSE", "UNLICENSE", "license.go", "README.md", "noticeboard.md"} {
		if err := write(filepath.Join(dir, name), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := m.licences()
	if want := []string{"COPYING", "LICENSE", "LICENSE-APACHE", "NOTICE", "SQLITE-LICENSE", "UNLICENSE", "licence.txt"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v", got, err)
	}
}

func TestTheChecksumsAreThoseOfAllFiles(t *testing.T) {
	var want strings.Builder
	entries, err := os.ReadDir(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "checksums.txt" {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(artifact(t, e.Name())), e.Name())
		}
	}
	if got := string(artifact(t, "checksums.txt")); got != want.String() {
		t.Errorf("they are\n%s and should be\n%s", got, want.String())
	}
}

// A release can be made again, by others and elsewhere, and is the same.
func TestTheSameSourceGivesTheSameBytesElsewhere(t *testing.T) {
	tree, again := copied(t), t.TempDir()
	settings := filepath.Join(t.TempDir(), "env") // of somebody else
	if err := write(settings, []byte("GOFLAGS=-tags=theirs\nGOPROXY="+said(t, "go", "env", "GOPROXY")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", settings)
	if err := run(t.Context(), tree, again, testVersion, []string{here.os + "/" + here.arch}); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(again, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(artifact(t, "checksums.txt")); got != string(sums) {
		t.Errorf("it is\n%s and elsewhere\n%s", got, sums)
	}
}

// copied is the source in another folder, where only its owner can read it.
func copied(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	tracked := said(t, "git", "-C", root(t), "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(tracked, "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			continue // it is removed, and not yet from git
		}
		if err := write(filepath.Join(tree, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheVersionIsThatOfGit(t *testing.T) {
	for said, want := range map[string]string{
		"v1.2.3-0-g0123456":      "v1.2.3",
		"v1.2.3-4-g0123456":      "v1.2.3+4.g0123456",
		"v1.2.3-rc.1-4-g0123456": "v1.2.3-rc.1+4.g0123456",
		"v0.0.0-712-g0123456":    "v0.0.0+712.g0123456",
		"nothing":                "",
	} {
		if got, err := versionOf(said, false); got != want || (err != nil) != (want == "") {
			t.Errorf("of %s it is %q, %v, want %q", said, got, err, want)
		}
	}
	for said, want := range map[string]string{"v1.2.3-0-g0123456": "v1.2.3+changed", "v1.2.3-4-g0123456": "v1.2.3+4.g0123456.changed"} {
		if got, err := versionOf(said, true); got != want || err != nil {
			t.Errorf("of %s with changes it is %q, %v, want %q", said, got, err, want)
		}
	}
	if r, err := newRelease(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "-version") {
		t.Errorf("without git: %v, %v", r, err)
	}
	if r, err := newRelease(t.Context(), t.TempDir(), "latest"); err == nil {
		t.Errorf("latest is a version: %v", r)
	}
}
