package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// rowsEnv, when set, makes the test binary a process that has conversations in the folder of
// the file it names, and keeps rows of them all the time, until it is killed.
const rowsEnv = "DISK_TEST_ROWS"

// listing opens the folder with an index of its tasks, of which rows are kept or not.
func listing(path string, kept bool) (*Store, *threadlog.Log, *tasks.Index, error) {
	s, err := Open(path, Options{unchecked: true})
	if err != nil {
		return nil, nil, nil, err
	}
	log := threadlog.New(s)
	var opts []tasks.Option
	if kept {
		opts = append(opts, tasks.WithPages(s.Rows()))
	}
	x, err := tasks.New(log, bytes.Repeat([]byte{7}, tasks.KeySize), nil, opts...)
	return s, log, x, err
}

func rowsChild(path string) int {
	s, log, x, err := listing(path, true)
	ctx, failed := context.Background(), make(chan error, 1)
	if err == nil {
		go func() { // until the process is killed
			for {
				if err := errors.Join(x.Catch(ctx, "acme"), x.Keep(ctx)); err != nil {
					failed <- err
				}
				if len(s.rows.anchors) > 0 { // else there was nothing to keep yet
					fmt.Println("kept")
				}
			}
		}()
	}
	var before []mesh.ThreadKey
	for err == nil {
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		before = append(before, key)
		turn := mesh.NewExecutionID(key.ID)
		events := []*mesh.Event{{Execution: turn, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}}}
		child := mesh.NewExecutionID(key.ID)
		events = append(events, &mesh.Event{Execution: turn, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: child, Parent: turn, Kind: mesh.KindAgent, Agent: "main", User: "ann"}}},
			&mesh.Event{Execution: child, Body: mesh.ModelReplied{Model: "m", Usage: mesh.Usage{Prompt: int64(len(before)), Cost: 0.001}}})
		if len(before)%3 > 0 {
			events = append(events, &mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}})
		}
		_, err = log.Append(ctx, key, events, threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0, mesh.Scope(turn): 0}})
		if i := len(before) - 20; i >= 0 && i%4 == 0 && err == nil {
			if err = log.Delete(ctx, before[i], threadlog.AnyPos); err == nil {
				err = x.Forget(ctx, before[i:i+1])
			}
		}
		select {
		case err = <-failed:
		default:
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// keptAndKilled lets a child keep rows so often, and kills it some time later.
func keptAndKilled(t *testing.T, path string, n int, more time.Duration) {
	t.Helper()
	killed(t, []string{rowsEnv + "=" + path}, more, func(line string) bool {
		if line == "kept" {
			n--
		}
		return n == 0
	})
}

// finding C5: a kill -9 in the midst of writing rows leaves some with which the next start goes
// on, and which say what the log says.
func TestKillInTheMidstOfWritingRowsLeavesThemAsTheLogIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 8 {
		keptAndKilled(t, path, 1+r.IntN(20), time.Duration(r.IntN(20_000))*time.Microsecond)
		var pages [2]tasks.Page
		var used [2]any
		for i := range pages {
			s, _, x, err := listing(path, i == 0)
			if err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			q := tasks.Query{Tenant: "acme", Caller: mesh.Principal{User: "ann"}, Limit: 1 << 20}
			if pages[i], err = x.List(t.Context(), q); err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			ofUser, _, _ := x.Used("acme", "ann", time.Now())
			sums, err := x.Sums(t.Context(), tasks.Sums{Tenant: "acme", User: "ann", First: time.Now().Add(-threadlog.Day), Last: time.Now(), By: tasks.ByThread})
			if err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			used[i] = fmt.Sprint(ofUser.Threads, sums)
			if i == 0 && len(s.rows.anchors) == 0 {
				t.Errorf("seed %d round %d: nothing was kept", seed, round)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(pages[1], pages[0]); diff != "" || used[0] != used[1] {
			t.Fatalf("seed %d round %d: %v of %v threads (-of the log +kept):\n%s", seed, round, used[0], used[1], diff)
		}
	}
}
