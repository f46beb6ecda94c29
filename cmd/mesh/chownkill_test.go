package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
	folded "agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
	"agentmesh/skills"
	"agentmesh/skills/memory"
	"agentmesh/skills/tasks"
)

var (
	chownRounds = flag.Int("chownrounds", 6, "how often 'mesh data chown' is killed")
	chownSeed   = flag.Uint64("chownseed", uint64(time.Now().UnixNano()), "of the moments at which it is killed")
)

// part of T3: 'mesh data chown' can be killed at any moment: run again, it has moved all
// that it would have, once. What a conversation asked, its new owner answers.
func TestChownSurvivesKill9(t *testing.T) {
	t.Parallel()
	source, id, task := filled(t)
	fresh := func() string { return copied(t, source) }
	chown := func(dir string) time.Duration {
		began := time.Now()
		runMesh(t, dir, nil, "data", "chown", "--data", "data", "local", "ann").succeeds(t)
		return time.Since(began)
	}
	before, whole := contents(t, fresh()), fresh()
	longest := chown(whole)
	want := contents(t, whole)
	shortest := chown(whole) // with nothing left
	t.Logf("%d things are moved in %v, of which %v are the start; -chownseed=%d", len(want), longest, shortest, *chownSeed)

	random, cut := rand.New(rand.NewPCG(*chownSeed, 0)), 0
	for round := range *chownRounds {
		dir := fresh()
		p := launch(t, dir, "mesh", nil, "data", "chown", "--data", "data", "local", "ann")
		from := min(shortest/2, longest)                                                    // beside a load the shorter may have taken longer
		moment := time.NewTimer(from + time.Duration(random.Int64N(int64(longest-from)+1))) // the moment is the point
		select {
		case <-moment.C:
			_ = p.cmd.Process.Kill() // it may have ended
		case <-p.ended:
		}
		<-p.ended
		if is := contents(t, copied(t, dir)); !maps.Equal(is, before) && !maps.Equal(is, want) {
			cut++
		}
		chown(dir)
		differ(t, fmt.Sprintf("round %d", round), want, contents(t, dir))
		whole = dir
	}
	t.Logf("%d of %d were cut in the middle", cut, *chownRounds)
	if cut == 0 && *chownRounds >= 50 {
		t.Error("none was cut in the middle; the test proves nothing")
	}
	answered(t, whole, id, task)
}

// copied copies a folder, of which all is for its owner alone.
func copied(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = os.Chmod(path, 0o600)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// unfinished are files that were being written, beside the one that each was to replace.
var unfinished = regexp.MustCompile(`/\.[^/]+\.[0-9]+$`)

// filled makes a folder in which local has something of all that skills keep, and a
// conversation whose task asks.
func filled(t *testing.T) (dir, id, task string) {
	t.Helper()
	dir, id = t.TempDir(), mesh.NewThreadID()
	page, err := fs.ReadFile(skills.FS, "tasks/create.md")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "skills", "tasks", "create.md"), strings.Replace(string(page), "\naccess: write\n", "\naccess: write\nconfirm: Create this task?\n", 1))
	m := up(t, dir)
	local := person{m, ""}
	for i := range 5 {
		for _, k := range kept {
			args := append([]string(nil), k.put...)
			for at, a := range args {
				args[at] = strings.Replace(a, "secret", fmt.Sprintf("secret%d", i), 1)
			}
			local.ran(args...)
		}
	}
	h := plainly(t, m, id, "", "Create a task to call Ann")
	if h.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("the task asks nothing: %+v", h)
	}
	m.stop()
	return dir, id, h.task
}

// contents are digests of all that a folder has, by where it is: of files, of values, and
// of conversations whose they are, with all that wait there, and how long they are.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	data, all := filepath.Join(dir, "data"), map[string]string{}
	digest := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, data+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasSuffix(name, ".log") || strings.HasSuffix(name, "index")):
			return fs.SkipDir
		case d.IsDir() || strings.HasPrefix(name, "mesh.db") || strings.HasSuffix(name, "index") || name == "mesh.rows" || unfinished.MatchString(path):
			return nil
		}
		b, err := os.ReadFile(path)
		all["file "+name] = digest(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := disk.Open(filepath.Join(data, "mesh.db"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kv, log := state.New(store), threadlog.New(store)
	spaces := map[string]state.Space{"shared": state.TenantSpace(mesh.DefaultTenant, tasks.Kind)}
	for _, user := range []string{"local", "ann", "eve"} {
		for _, kind := range []string{tasks.Kind, memory.Kind} {
			spaces[user+" "+kind] = state.UserSpace(mesh.DefaultTenant, user, kind)
		}
	}
	for name, space := range spaces {
		items, _, err := kv.List(t.Context(), space.Page(state.Page{Limit: state.MaxPage}))
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			all[name+" "+space.Name(it.Name)] = digest(it.Data)
		}
	}
	infos, err := log.Threads(t.Context(), mesh.DefaultTenant, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		events, err := log.Read(t.Context(), info.Key, 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		s := folded.Fold(events)
		users := ""
		for _, turn := range s.Turns() {
			users += " " + turn.User
		}
		all["thread "+info.Key.ID] = fmt.Sprint(s.Owner, users, len(events))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func differ(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: there is %s too", what, name)
		}
	}
}

// answered has ann say yes to what local was asked, which nobody else can.
func answered(t *testing.T, dir, id, task string) {
	t.Helper()
	ann, eve := pairOfUsers(t, dir, "")
	say := func(p person) (*a2apb.SendMessageResponse, error) {
		req := userMessage(id, "yes")
		req.Message.TaskId = task
		conn, err := rpc.Dial(p.grpc, rpc.DialOptions{Bearer: p.token})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return a2apb.NewA2AServiceClient(conn).SendMessage(timely(t), req)
	}
	if _, err := say(eve); err == nil {
		t.Error("eve answers what is ann's")
	}
	res, err := say(ann)
	if state := res.GetTask().GetStatus().GetState(); err != nil || state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("ann's yes: %v, %v", res, err)
	}
	if !ann.finds([]string{"tasks.search", "--query", "Ann"}) && !strings.Contains(ann.ran("tasks.search", "--query", "Ann"), "all Ann") {
		t.Errorf("ann does not have what she said yes to: %s", ann.ran("tasks.search", "--query", "Ann"))
	}
	if strings.Contains(eve.ran("tasks.search", "--query", "Ann"), "all Ann") {
		t.Error("eve has it")
	}
}
