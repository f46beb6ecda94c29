//go:build linux

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// cutWord begins what asks for a task that is cut off, and the ids of such tasks: "cut-7" asks
// for one of the seventh time.
const cutWord = "cut-"

// cuts are the tasks that are cut off: an agent works on all of a time until somebody asks for
// one of them, and then is done.
type cuts struct {
	mu   sync.Mutex
	over map[string]chan struct{}
}

func (c *cuts) of(id string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	time, _, _ := strings.Cut(strings.TrimPrefix(id, cutWord), "-")
	if c.over == nil {
		c.over = map[string]chan struct{}{}
	}
	if c.over[time] == nil {
		c.over[time] = make(chan struct{})
	}
	return c.over[time]
}

// end ends all tasks of the same time.
func (c *cuts) end(id string) {
	over := c.of(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-over:
	default:
		close(over)
	}
}

// adoptions measures a start of a mesh that was killed when its agents worked on many turns,
// and one when nothing is left of them: until it says that it is ready, and until all turns
// are over.
func (b *bench) adoptions(ctx context.Context, r round, i int) error {
	if i > 3 && i%3 > 0 { // it takes long
		return nil
	}
	const folder = "adopt"
	t := &cleanups{}
	defer t.run()
	m, err := b.startMesh(ctx, t, "mesh", folder)
	if err != nil {
		return err
	}
	client := a2apb.NewA2AServiceClient(m.conn)
	if _, err := load(b.crowd, b.idle, func(int) error {
		req := message(fmt.Sprintf("%s%d", cutWord, i))
		req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
		_, err := client.SendMessage(ctx, req)
		return err
	}); err != nil {
		return err
	}
	if err := b.until(ctx, m, func(open int) bool { return open == b.idle }); err != nil {
		return err
	}
	time.Sleep(time.Second) // their agent's first words are written down
	m.kill()

	var ready [2]float64
	for n := range ready {
		begin := time.Now()
		if m, err = b.startMesh(ctx, t, "mesh", folder); err != nil {
			return err
		}
		ready[n] = us(time.Since(begin))
		if n == 0 {
			if err := b.until(ctx, m, func(open int) bool { return open == 0 }); err != nil {
				return err
			}
			r["mesh adopted"] = us(time.Since(begin))
		}
		cpu, err := m.cpu()
		if err != nil {
			return err
		}
		r[[]string{"mesh adopted cpu", "mesh start cpu"}[n]] = us(cpu)
		m.end()
	}
	r["mesh adopting ready"], r["mesh start ready"] = ready[0], ready[1]
	turn := r["mesh grpc 1 crowd cpu"]
	r["mesh adopted turn cpu"] = (r["mesh adopted cpu"] - r["mesh start cpu"]) / float64(b.idle)
	r["adoption floor"] = (r["mesh start ready"] + float64(b.idle)*turn) / r["mesh start ready"]
	return nil
}

// until waits for what holds of the number of tasks that are neither over nor wait for their
// users.
func (b *bench) until(ctx context.Context, m *server, holds func(open int) bool) error {
	client, open := a2apb.NewA2AServiceClient(m.conn), 0
	for limit := time.Now().Add(patient); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		open = 0
		for _, state := range []a2apb.TaskState{a2apb.TaskState_TASK_STATE_SUBMITTED, a2apb.TaskState_TASK_STATE_WORKING} {
			got, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{PageSize: new(int32(1)), Status: state})
			if err != nil {
				return err
			}
			open += int(got.GetTotalSize())
		}
		if holds(open) {
			return b.succeeded(ctx, m)
		}
	}
	return fmt.Errorf("%d tasks are neither over nor wait for their users", open)
}

// succeeded checks that no task failed.
func (b *bench) succeeded(ctx context.Context, m *server) error {
	got, err := a2apb.NewA2AServiceClient(m.conn).ListTasks(ctx, &a2apb.ListTasksRequest{PageSize: new(int32(1)), Status: a2apb.TaskState_TASK_STATE_FAILED})
	if err == nil && got.GetTotalSize() > 0 {
		err = errors.New("a turn that was cut off failed: " + got.GetTasks()[0].GetStatus().String())
	}
	return err
}
