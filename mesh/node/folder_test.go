package node_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A folder that the last program without versions made is served as it was, and
// goes on: its task can be read, and its conversation continued.
func TestAFolderOfBeforeVersionsIsServed(t *testing.T) {
	f, err := os.Open("../store/disk/testdata/version-0.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "mesh.db"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	m := start(t, config(data), map[string]run{"main": echo})
	ctx := in(t, "550e8400-e29b-41d4-a716-446655440000")
	task, err := m.edge().GetTask(ctx, &a2apb.GetTaskRequest{Id: "550e8400e29b41d4a716446655440000-4d106297e14e4847"})
	if err != nil || len(task.GetArtifacts()) != 1 || textOf(task.GetArtifacts()[0].GetParts()) != "You said: kept since version 0" {
		t.Fatalf("%v, %v; want the task as it was", task, err)
	}
	more, err := m.edge().SendMessage(ctx, say("and on"))
	if err != nil || textOf(more.GetTask().GetArtifacts()[0].GetParts()) != "You said: and on" {
		t.Errorf("%v, %v; want the conversation to go on", more, err)
	}
}
