package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
)

var (
	blobRounds = flag.Int("blobrounds", 4, "how often a mesh is killed that takes a large file")
	blobSeed   = flag.Uint64("blobseed", uint64(time.Now().UnixNano()), "of the moments at which it is killed")
)

// largeFile makes a file, and returns it with its hash.
func largeFile(t *testing.T, dir string, size int) (name, hash string, data []byte) {
	t.Helper()
	data = bytes.Repeat([]byte("0123456789abcdef"), size/16)
	name = filepath.Join(dir, "large")
	writeFile(t, name, string(data))
	sum := sha256.Sum256(data)
	return name, hex.EncodeToString(sum[:]), data
}

// finding R4: a mesh can be killed at any moment while it takes a large file and the message that
// refers to it: no event refers to what is not there, nothing is half there, what was sent again
// arrives, and what nothing refers to goes.
func TestALargeFileSurvivesKill9(t *testing.T) {
	t.Parallel()
	file, hash, data := largeFile(t, t.TempDir(), 24<<20)
	longest, random := time.Second, rand.New(rand.NewPCG(*blobSeed, 0))
	t.Logf("-blobseed=%d", *blobSeed)
	cut := 0
	for round := range *blobRounds + 1 {
		m, thread := up(t, t.TempDir()), mesh.NewThreadID()
		send := func() finished { return m.mesh("send", "--thread", thread, "--file", file, "look") }
		if began := time.Now(); round == 0 {
			send().succeeds(t)
			longest = time.Since(began)
			m.kill9()
		} else if m.killedWithin(random, longest, send).code != exitOK {
			cut++
		}
		runHere(t, nil, "data", "verify", "--data", m.data).want(t, exitOK, "nothing is damaged")
		m = up(t, m.dir)
		m.mesh("send", "--thread", thread, "--file", file, "look again").succeeds(t)
		if got := m.mesh("threads", "download", "--thread", thread, hash).succeeds(t); got != string(data) {
			t.Errorf("round %d: %d bytes are read", round, len(got))
		}
		m.mesh("threads", "delete", thread, "--yes").succeeds(t)
		m.kill9()
		old := time.Now().Add(-2 * time.Hour)
		for _, name := range m.files("blobs/*/*/*") {
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
		m = up(t, m.dir)
		for ctx := timely(t); len(m.files("blobs/*/*/*")) > 0; time.Sleep(10 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("round %d: there is still %v", round, m.files("blobs/*/*/*"))
			}
		}
		m.stop()
		runHere(t, nil, "data", "verify", "--data", m.data).want(t, exitOK, "nothing is damaged")
	}
	t.Logf("%d of %d were cut", cut, *blobRounds)
}

// A conversation is exported with its large files, and brought to another mesh with them; a backup
// has them, and what is damaged is found.
func TestLargeFilesGoWithTheirConversation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, hash, data := largeFile(t, dir, 3<<20)
	m, thread, as := up(t, t.TempDir()), mesh.NewThreadID(), mesh.NewThreadID()
	m.mesh("send", "--thread", thread, "--file", file, "look").succeeds(t)
	out := filepath.Join(dir, "out.bin")
	m.mesh("threads", "download", "--thread", thread, hash, "-o", out).succeeds(t)
	if readFile(t, out) != string(data) {
		t.Error("what was downloaded is another file")
	}
	m.mesh("threads", "download", "--thread", mesh.NewThreadID(), hash, "-o", filepath.Join(dir, "none")).fails(t, exitNotFound, "not found")
	if _, err := os.Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}

	exported := m.mesh("threads", "export", thread).succeeds(t)
	if !strings.Contains(exported, `"version":2`) {
		t.Errorf("it begins %s", exported[:200])
	}
	writeFile(t, filepath.Join(dir, "thread.jsonl"), exported)
	damaged := strings.Replace(exported, `{"data":"MDEy`, `{"data":"MDEz`, 1)
	writeFile(t, filepath.Join(dir, "damaged.jsonl"), damaged)
	other := up(t, t.TempDir())
	other.mesh("threads", "import", filepath.Join(dir, "damaged.jsonl")).fails(t, exitUsage, "sha256")
	other.mesh("threads", "import", filepath.Join(dir, "thread.jsonl")).succeeds(t)
	other.mesh("threads", "import", filepath.Join(dir, "thread.jsonl"), "--as", as).succeeds(t)
	for _, id := range []string{thread, as} {
		if got := other.mesh("threads", "download", "--thread", id, hash).succeeds(t); got != string(data) {
			t.Errorf("in %s %d bytes are read", id, len(got))
		}
	}
	again := other.mesh("threads", "export", thread).succeeds(t)
	if exported != again {
		t.Error("what is exported there is not what was exported here")
	}

	copied := filepath.Join(dir, "copy")
	other.mesh("data", "backup", copied).succeeds(t)
	other.stop()
	restored := filepath.Join(dir, "restored")
	runHere(t, nil, "data", "restore", copied, "--data", restored).succeeds(t)
	runHere(t, nil, "data", "verify", "--data", restored).want(t, exitOK, "nothing is damaged")
	files, _ := filepath.Glob(filepath.Join(restored, "blobs", "*", "*", hash))
	if len(files) != 2 {
		t.Fatalf("the restored folder has %v", files)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	writeFile(t, files[1], "damaged")
	runHere(t, nil, "data", "verify", "--data", restored).want(t, exitFailure, "is missing, and an event refers to it", "its SHA-256 is another")
}
