package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The path of the module is nobody's; who publishes it says another one, and all is as before.
func TestTheModuleCanHaveAnotherPath(t *testing.T) {
	for _, program := range []string{"make", "perl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not here")
		}
	}
	const path = "example.org/team/mesh"
	tree := copied(t)
	in := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	in("make", "module", "MODULE="+path)
	if got := strings.TrimSpace(in("go", "list", "-m")); got != path {
		t.Errorf("its path is %s", got)
	}
	old := regexp.MustCompile(`"agentmesh/(agent|cmd|docs|gen|mesh|proto|skills)|\x60agentmesh/mesh|module agentmesh/deploy`)
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == filepath.Join(tree, "deploy", "dist", "module_test.go") {
			return err
		}
		data, err := os.ReadFile(name)
		if at := old.Find(data); at != nil && !strings.HasPrefix(name, filepath.Join(tree, ".build")) {
			t.Errorf("%s still has %s", name, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The protos register themselves when a program starts, and fail if they are garbled.
	in("go", "build", "-o", filepath.Join(tree, "mesh-renamed"), "./cmd/mesh")
	if got := in(filepath.Join(tree, "mesh-renamed"), "version"); !strings.HasPrefix(got, "mesh ") {
		t.Errorf("it says %q", got)
	}
	in("go", "vet", "./docs/...", "./mesh/internal/archtest", "./proto/...")
	in("go", "test", "-count=1", "./mesh", "./mesh/internal/archtest", "./mesh/rpc", "./mesh/threadlog/eventpb")
}
