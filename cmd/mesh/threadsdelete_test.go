package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/threadlog"
)

func TestBeforeIsADateOrAnAge(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for given, want := range map[string]string{
		"2026-01-01": "2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z": "2026-01-01T10:00:00Z", "90d": "2026-08-29T12:00:00Z", "36h": "2026-11-26T00:00:00Z",
		"90": "", "-3d": "", "0d": "", "never": "", "2026-13-01": "",
	} {
		got, err := parseWhen("--before", given, now)
		if want == "" != (err != nil) || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v; want %s", given, got, err, want)
		}
	}
}

// finding R9: old conversations are deleted by one command, which deletes nothing without a
// yes, and says what it did; the record and the log are whole after it.
func TestOldConversationsAreDeletedByACommand(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	var ids []string
	for i := range 3 {
		ids = append(ids, mesh.NewThreadID())
		m.mesh("send", "--thread", ids[i], "hello").want(t, 0, "")
	}
	m.mesh("threads", "delete").want(t, 2, "the thread's id is missing")
	m.mesh("threads", "delete", ids[0], "--before", "1d").want(t, 2, "and not both")
	m.mesh("threads", "delete", "--before", "soon").want(t, 2, "--before must be a date such as 2026-01-01, or an age such as 90d or 36h")
	m.mesh("threads", "delete", ids[0]).want(t, 2, "--yes: is needed where nobody can be asked; nothing was deleted")
	m.mesh("threads", "delete", "--before", "1d", "--yes").want(t, 0, "0 conversations have not been touched since")
	m.mesh("threads", "delete", ids[0], "--yes").want(t, 0, "deleted conversation "+ids[0])
	m.mesh("threads", "delete", ids[0], "--yes").want(t, 3, "Thread not found")
	m.mesh("threads", "delete", "--before", "1ms").want(t, 2, "2 conversations have not been touched since", "--yes: is needed")
	m.mesh("threads", "delete", "--before", "1ms", "--yes").want(t, 0, "deleted 2 conversations")
	m.mesh("threads", "list").want(t, 0, "")
	m.mesh("audit", "tail", "--action", "DeleteThreads").want(t, 0, ids[1], ids[2])
	if out := m.mesh("threads", "list"); strings.Contains(out.stdout, ids[1]) {
		t.Errorf("left are %s", out.stdout)
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Fatalf("the mesh ended with %d: %s", code, m.stderr.String())
	}
	m.verify().want(t, 0, "")
}

// A person at the terminal is asked.
func TestAPersonIsAskedBeforeConversationsAreDeleted(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	m.mesh("send", "--thread", id, "hello").want(t, 0, "")
	for answer, code := range map[string]int{"n\n": 1, "\n": 1} {
		p := launch(t, m.dir, "mesh-terminal", nil, "--addr", m.grpc, "threads", "delete", "--before", "1ms")
		p.enter(answer)
		if got := p.wait(); got != code || !strings.Contains(p.stderr.String(), "Delete 1 conversation for good? [y/N]") {
			t.Errorf("%q: ended with %d: %s %s", answer, got, p.stdout.String(), p.stderr.String())
		}
	}
	p := launch(t, m.dir, "mesh-terminal", nil, "--addr", m.grpc, "threads", "delete", id)
	p.enter("y\n")
	if got := p.wait(); got != 0 || !strings.Contains(p.stdout.String(), "deleted conversation "+id) {
		t.Errorf("yes: ended with %d: %s %s", got, p.stdout.String(), p.stderr.String())
	}
}

// finding R9: kill -9 in the middle of a deletion of many conversations, and of a retention,
// leaves each of them whole or gone; what is left goes when that is begun again, and the
// log and the record are whole.
func TestKill9InTheMiddleOfDeletionsLeavesNoHalfConversation(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	const many = 60
	dir := t.TempDir()
	m := up(t, dir)
	events := map[string]int{}
	for range many {
		id := mesh.NewThreadID()
		m.mesh("send", "--thread", id, "hello").want(t, 0, "")
		events[id] = len(m.log(id))
	}
	// By the command: killed while it goes on page by page.
	threads, ctx := meshv1.NewThreadServiceClient(m.dial()), timely(t)
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = threads.DeleteThreads(ctx, deleteAll()) }) // it ends with the mesh
	left := killedAt(t, m, events, many)
	asking.Wait()
	if left == many || left == 0 {
		t.Logf("%d of %d are left: it was not killed in the middle", left, many)
	}
	// By the rule, which begins with the mesh.
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "retention: {count: 3}\n")
	m = up(t, dir)
	killedAt(t, m, events, max(left, 4))
	m = up(t, dir)
	for end := time.Now().Add(testTime); strings.Count(m.mesh("threads", "list").stdout, "\n") > 3+1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the rule is not kept")
		}
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Fatalf("the mesh ended with %d: %s", code, m.stderr.String())
	}
	m.verify().want(t, 0, "")
	if n := whole(t, m, events); n > 3 {
		t.Errorf("%d are left, want 3 at most", n)
	}
}

// killedAt kills the mesh as soon as some of so many conversations are gone, and returns how
// many are left, each of which is whole.
func killedAt(t *testing.T, m *realMesh, events map[string]int, there int) int {
	t.Helper()
	threads := meshv1.NewThreadServiceClient(m.dial())
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		list, err := threads.ListThreads(timely(t), &meshv1.ListThreadsRequest{PageSize: 100})
		if err == nil && len(list.GetThreads()) < there {
			break
		}
	}
	m.kill9()
	m.verify().want(t, 0, "")
	return whole(t, m, events)
}

// whole returns how many conversations the folder has, of which each has all its events.
func whole(t *testing.T, m *realMesh, events map[string]int) int {
	t.Helper()
	store, err := disk.Open(filepath.Join(m.data, "mesh.db"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	infos, err := threadlog.New(store).Threads(t.Context(), mesh.DefaultTenant, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if got := fmt.Sprint(info.Last); got != fmt.Sprint(events[info.Key.ID]) {
			t.Errorf("%s has %s events, want %d", info.Key.ID, got, events[info.Key.ID])
		}
	}
	return len(infos)
}

// deleteAll is for all conversations that there are.
func deleteAll() *meshv1.DeleteThreadsRequest {
	return &meshv1.DeleteThreadsRequest{Before: timestampIn(time.Hour), PageSize: 1000}
}

func timestampIn(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(d)) }
