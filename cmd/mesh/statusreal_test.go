package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is wrong with a mesh that runs is told to who operates it; finding U10: at its start, too,
// when nobody answers new conversations.
func TestStatusTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte("main: nobody\naudit:\n  checkpoints: away/kept.jsonl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := up(t, dir)
	m.shows(`there is no agent nobody, which is to answer new conversations \(main\)`)
	m.mesh("status", "--ready").want(t, 0, "ready") // an alarm keeps no work away
	m.mesh("status").want(t, 0, "audit.checkpoints: ", filepath.Join("away", "kept.jsonl"))
	m.mesh("status", "--json").want(t, 0, `"setting":"audit.checkpoints"`)
	if err := os.Mkdir(filepath.Join(dir, "away"), 0o700); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(m.mesh("status").stdout, "no alarms"); {
		if time.Now().After(end) {
			t.Fatal("the alarm is not over")
		}
	}
}
