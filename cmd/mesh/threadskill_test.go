package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentmesh/mesh"
)

// A mesh that imports a conversation can be killed at any moment: the conversation is there with all
// its events or not at all, a second try brings it or says that it is there, and nothing is
// damaged.
func TestAThreadIsImportedWholeAcrossKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := up(t, dir)
	id := mesh.NewThreadID()
	for range 3 {
		m.mesh("send", "--thread", id, "Create a task to call Bob").succeeds(t)
	}
	file := filepath.Join(dir, "thread.jsonl")
	if err := os.WriteFile(file, []byte(m.mesh("threads", "export", id).succeeds(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := len(m.log(id))
	m.stop()

	whole := up(t, t.TempDir())
	began := time.Now()
	whole.mesh("threads", "import", file).succeeds(t)
	longest := time.Since(began)
	whole.stop()

	random, there := rand.New(rand.NewPCG(*importSeed, 1)), 0
	for round := range *importRounds {
		m := up(t, t.TempDir())
		first := m.killedWithin(random, longest, func() finished { return m.mesh("threads", "import", file) })
		m = up(t, m.dir)
		f := m.mesh("threads", "import", file)
		switch {
		case f.code == exitOK && first.code == exitOK:
			t.Errorf("round %d: what was acknowledged is gone", round)
		case f.code == exitOK:
		default:
			f.fails(t, exitFailure, "already")
			there++
		}
		if n := len(m.log(id)); n != want {
			t.Errorf("round %d: there are %d events, and were %d", round, n, want)
		}
		m.stop()
		m.verify().want(t, exitOK, "")
	}
	t.Logf("of %d it was there after the kill %d times; -importseed=%d", *importRounds, there, *importSeed)
}
