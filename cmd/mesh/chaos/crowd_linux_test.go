package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// finding R6: two thousand questions at once to a mesh that may have 256 MiB: all are answered,
// none is lost, and the process lives. Then as many are accepted, and the process killed
// while most of them wait: the next one answers them. Without -rounds it is a tenth of that.
func TestACrowdIsAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	questions := 200
	if *rounds > 0 {
		questions = 2000
	}
	m := &target{bin: build(t), dir: t.TempDir(), env: environment("GOMEMLIMIT=256MiB"), up: make(chan struct{})}
	settings := "turns: {running: 16}\n" // in the sample most of them wait, too
	if *rounds > 0 {
		settings = ""
	}
	if err := os.WriteFile(filepath.Join(m.dir, "mesh.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.end(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	ends := ask(t, m, questions)
	fmt.Printf("crowd: %d questions at once: %v, the mesh has had %d MB at most\n", questions, ends, residentPeak(t, m.cmd.Process.Pid))
	if len(ends) != 1 || ends["TASK_STATE_COMPLETED"] != questions {
		t.Errorf("they ended %v: %s", ends, m.words())
	}

	tasks := submit(t, m, questions)
	if err := m.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	open := await(t, m, tasks)
	fmt.Printf("crowd: %d questions were accepted when the mesh was killed, the next one has had %d MB at most\n", len(tasks), residentPeak(t, m.cmd.Process.Pid))
	if len(open) > 0 {
		t.Errorf("after the kill: %v: %s", open, m.words())
	}
}

// residentPeak is the most that the process has had, in MB.
func residentPeak(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peak.FindSubmatch(data)
	if found == nil {
		t.Fatalf("no VmHWM: %s", data)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib * 1024 / 1e6
}

func question(i int) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: fmt.Sprintf("What is %d plus 1?", i)}}}}}
}

// ask asks so many questions at once, each in a conversation of its own, and counts how they
// end.
func ask(t *testing.T, m *target, n int) map[string]int {
	t.Helper()
	at, err := m.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patient)
	defer cancel()
	client := a2apb.NewA2AServiceClient(at.conn)
	one := func(i int) (string, error) {
		stream, err := client.SendStreamingMessage(ctx, question(i))
		if err != nil {
			return "", err
		}
		var last a2apb.TaskState
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return last.String(), nil
			}
			if err != nil {
				return "", err
			}
			if s := r.GetStatusUpdate(); s != nil {
				last = s.GetStatus().GetState()
			}
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	ends := map[string]int{}
	for i := range n {
		all.Go(func() {
			end, err := one(i)
			if err != nil {
				end = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			ends[end]++
		})
	}
	all.Wait()
	return ends
}

// submit has so many questions accepted, and returns their tasks.
func submit(t *testing.T, m *target, n int) []string {
	t.Helper()
	at, err := m.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := a2apb.NewA2AServiceClient(at.conn)
	tasks := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			req := question(i)
			req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
			r, err := client.SendMessage(t.Context(), req)
			if err != nil {
				t.Errorf("question %d: %v", i, err)
			}
			tasks[i] = r.GetTask().GetId()
		})
	}
	all.Wait()
	return tasks
}

// await asks for the tasks until they are completed, and returns what those are that are not
// after a while.
func await(t *testing.T, m *target, tasks []string) map[string]string {
	t.Helper()
	at, err := m.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := a2apb.NewA2AServiceClient(at.conn)
	open := map[string]string{}
	for _, id := range tasks {
		open[id] = ""
	}
	for end := time.Now().Add(3 * patient); len(open) > 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for id := range open {
			task, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: id})
			state := task.GetStatus().GetState()
			if open[id] = fmt.Sprint(state, err); err == nil && state == a2apb.TaskState_TASK_STATE_COMPLETED {
				delete(open, id)
			}
		}
	}
	return open
}
