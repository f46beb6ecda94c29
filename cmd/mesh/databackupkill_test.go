package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/node/datafolder"
)

var (
	backupRounds = flag.Int("backuprounds", 1, "how often each of backup, its mesh and restore is killed")
	backupSeed   = flag.Uint64("backupseed", uint64(time.Now().UnixNano()), "of the moments at which they are killed")
)

// A load is what users do to a mesh all the time, and what was acknowledged of it.
type load struct {
	end chan struct{}
	wg  sync.WaitGroup

	mu    sync.Mutex
	acked map[string][]string // texts, by the kind of what has them
	gone  []string            // threads that were deleted
}

// under starts the load: each worker makes one change after the other until rest is called,
// or the mesh is killed.
func under(t *testing.T, m *realMesh) *load {
	l := &load{end: make(chan struct{}), acked: map[string][]string{}}
	local, run := person{m, ""}, mesh.NewThreadID()[:8]
	local.ran("files.write", "--path", "log.txt", "--content", "begin")
	worker := func(kind string, args func(text string) []string) {
		l.wg.Go(func() {
			for n := range 1 << 30 {
				select {
				case <-l.end:
					return
				default:
				}
				text := fmt.Sprintf("%s-%s-%d-", kind, run, n)
				if local.mesh(append([]string{"skills", "run", "--yes"}, args(text)...)...).code == exitOK {
					l.mu.Lock()
					l.acked[kind] = append(l.acked[kind], text)
					l.mu.Unlock()
				}
			}
		})
	}
	worker("lines", func(text string) []string {
		return []string{"files.update", "--path", "log.txt", "--content", "\n" + text}
	})
	worker("drafts", func(text string) []string { return []string{"mail.draft", "--subject", text, "--body", text} })
	worker("tasks", func(text string) []string { return []string{"tasks.create", "--title", text} })
	l.wg.Go(func() {
		for {
			select {
			case <-l.end:
				return
			default:
			}
			id := mesh.NewThreadID()
			local.mesh("send", "--thread", id, "hello")
			if local.mesh("threads", "delete", id, "--yes").code == exitOK {
				l.mu.Lock()
				l.gone = append(l.gone, id)
				l.mu.Unlock()
			}
		}
	})
	t.Cleanup(l.rest)
	return l
}

func (l *load) rest() {
	l.mu.Lock()
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// now is what was acknowledged by now.
func (l *load) now() (acked map[string][]string, gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked = map[string][]string{}
	for kind, texts := range l.acked {
		acked[kind] = slices.Clone(texts)
	}
	return acked, slices.Clone(l.gone)
}

// has fails unless the restored folder has all of it, once.
func has(t *testing.T, dir string, acked map[string][]string, gone []string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	all := map[string]string{"lines": readFile(t, filepath.Join(data, "files", "default", "log.txt"))}
	drafts, err := filepath.Glob(filepath.Join(data, "drafts", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range drafts {
		for line := range strings.Lines(readFile(t, name)) {
			if strings.HasPrefix(line, "Subject: ") {
				all["drafts"] += line
			}
		}
	}
	m := up(t, dir)
	for page := 0; ; page++ {
		text := person{m, ""}.ran("tasks.search", "--query", "tasks", "--limit", "50", "--offset", fmt.Sprint(50*page))
		if all["tasks"] += text; !strings.Contains(text, "tasks-") {
			break
		}
	}
	for kind, texts := range acked {
		for _, text := range texts {
			if n := strings.Count(all[kind], text); n == 0 || n > 1 && kind != "tasks" { // which are shown more than once
				t.Errorf("of %s, %q is there %d times", kind, text, n)
				break
			}
		}
	}
	for _, id := range gone {
		if f := m.mesh("threads", "show", id); f.code != exitNotFound {
			t.Errorf("thread %s was deleted, and is there", id)
			break
		}
	}
	m.stop()
}

// padded are files that make a copy take a while.
func padded(t *testing.T, data string) {
	t.Helper()
	for i := range 80 {
		writeFile(t, filepath.Join(data, "inbox", fmt.Sprintf("%d.eml", i)), "Subject: x\n\n"+strings.Repeat("text\n", 50_000))
	}
}

// noHalf fails if the folder is there and not whole, or if what is beside it could be taken
// for a mesh and is not.
func noHalf(t *testing.T, what, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Join(dir+".partial", backup.Data)
	} else if backup.Is(dir) {
		if _, found, err := backup.Check(dir); err != nil || found != nil {
			t.Errorf("%s: %s is there, and not whole: %v, %v", what, dir, found, err)
		}
		return
	}
	if _, err := os.Stat(filepath.Join(dir, "mesh.db")); errors.Is(err, fs.ErrNotExist) {
		_, marked := os.Stat(filepath.Join(dir, "mesh.db.exists"))
		if entries, _ := os.ReadDir(dir); marked != nil && len(entries) > 0 {
			t.Errorf("%s: %s has something and no mark: a mesh would begin with nothing beside it", what, dir)
		}
		return
	}
	if v, err := datafolder.VerifyAll(dir); err != nil || len(v.Findings) > 0 {
		t.Errorf("%s: %s could be opened and is not whole: %v, %v", what, dir, v, err)
	}
}

// finding U5: a backup that is made while users change everything has all that was
// acknowledged before, once, and is sound; kill -9 of who makes it, of its mesh and of who
// restores it, at any moment, leaves nothing that could be taken for one, and the next try
// succeeds.
func TestBackupsSurviveLoadAndKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(*backupSeed, 0))
	t.Logf("-backupseed=%d", *backupSeed)
	padded(t, filepath.Join(dir, "data"))
	m := up(t, dir)
	l := under(t, m)
	for { // until there is something of each
		acked, gone := l.now()
		if len(gone) > 1 && min(len(acked["lines"]), len(acked["drafts"]), len(acked["tasks"])) > 2 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	began := time.Now()
	copied := func(name string) string { return filepath.Join(dir, name) }
	acked, gone := l.now()
	m.mesh("data", "backup", copied("first")).succeeds(t)
	took := time.Since(began)
	home := t.TempDir()
	began = time.Now()
	runHere(t, nil, "data", "restore", copied("first"), "--data", filepath.Join(home, "data")).succeeds(t)
	restoring := time.Since(began)
	has(t, home, acked, gone)
	t.Logf("a backup took %v, of %d lines, %d drafts, %d tasks and %d deletions", took, len(acked["lines"]), len(acked["drafts"]), len(acked["tasks"]), len(gone))

	for round := range *backupRounds {
		what := fmt.Sprintf("round %d", round)
		to := copied(what)
		killedMidway(t, random, dir, 2*took, []string{"MESH_ADDR=" + m.grpc}, "data", "backup", to)
		noHalf(t, what+": the client was killed", to)
		if !backup.Is(to) {
			acked, gone = l.now()
			began := time.Now()
			m.mesh("data", "backup", to).succeeds(t)
			t.Logf("%s: a backup took %v, of %d lines and %d drafts", what, time.Since(began), len(acked["lines"]), len(acked["drafts"]))
		}
		last := filepath.Join(t.TempDir(), "data")
		killedMidway(t, random, dir, 2*restoring, nil, "data", "restore", to, "--data", last)
		noHalf(t, what+": the restore was killed", last)
		if _, err := os.Stat(last); err != nil {
			runHere(t, nil, "data", "restore", to, "--data", last).succeeds(t)
		}
		runHere(t, nil, "data", "verify", "--data", last).succeeds(t)
		if round == *backupRounds-1 {
			has(t, filepath.Dir(last), acked, gone)
		}

		to = copied(what + " of a mesh that is killed")
		ended := make(chan finished)
		go func() { ended <- m.mesh("data", "backup", to) }()     // the next line but one waits for it
		l.rest()                                                  // else who is in a call waits for the mesh to come back
		time.Sleep(time.Duration(random.Int64N(int64(took) + 1))) // the moment is the point
		m.kill9()
		f := <-ended
		if left, _ := filepath.Glob(to + "*"); f.code != exitOK && left != nil {
			t.Errorf("%s: the mesh was killed, and left is %v", what, left)
		}
		noHalf(t, what+": the mesh was killed", to)
		m = up(t, dir)
		l = under(t, m)
	}
	l.rest()
	m.stop()
	runHere(t, nil, "data", "verify", "--data", m.data).want(t, exitOK, "nothing is damaged")
}
