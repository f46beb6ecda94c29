//go:build linux

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// pageSize is that of the lists that are read.
const pageSize = 50

// reads measures reading a task, and a page of a tenant's tasks, beside a call that
// does nothing.
func (b *bench) reads(ctx context.Context, r round, i int) error {
	ctx = as(ctx, "reader", "")
	for _, s := range b.servers(i, b.mesh, b.base) {
		client := a2apb.NewA2AServiceClient(s.conn)
		if s.tasks == nil {
			s.tasks = make([]string, b.tasks)
			_, err := load(b.crowd, b.tasks, func(i int) error {
				resp, err := client.SendMessage(ctx, message(question{chunks: 1}.String()))
				s.tasks[i] = resp.GetTask().GetId()
				return err
			})
			if err != nil {
				return err
			}
		}
		get := func(i int) error {
			id := s.tasks[i%len(s.tasks)]
			got, err := client.GetTask(ctx, &a2apb.GetTaskRequest{Id: id})
			if err == nil && got.GetId() != id {
				err = fmt.Errorf("got task %q for %q", got.GetId(), id)
			}
			return err
		}
		list := func(int) error {
			got, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{PageSize: new(int32(pageSize))})
			if err == nil && (len(got.GetTasks()) != pageSize || int(got.GetTotalSize()) != b.tasks) {
				err = fmt.Errorf("a page of %d of %d tasks", len(got.GetTasks()), got.GetTotalSize())
			}
			return err
		}
		nothing := func(int) error {
			_, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{})
			return err
		}
		if err := b.timed(r, s.name+" nothing", s, 1, nothing); err != nil {
			return err
		}
		if err := b.timed(r, s.name+" get", s, 1, get); err != nil {
			return err
		}
		if err := b.timed(r, s.name+" list", s, 1, list); err != nil {
			return err
		}
	}
	if v, ok := r.of("mesh nothing p50", "base get p50"); ok {
		r["nothing x base get"] = v
	}
	return nil
}

// idles measures what a stream costs in memory in which nothing happens: of a mesh
// that was just started on a folder with as many threads that wait for their
// users, and of a bare server. Before and after the streams open, the process does
// the same work, so much that its collector has run several times: garbage is in
// both. It is work that leaves nothing behind, streams that are opened and closed, so
// that all that there is more of in the end are streams.
func (b *bench) idles(ctx context.Context, r round, i int) error {
	if i > 3 && i%3 > 0 { // it takes long, and differs little
		return nil
	}
	for _, of := range b.servers(i, b.mesh, b.base) {
		if err := b.idling(ctx, r, of.name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) idling(ctx context.Context, r round, name string) error {
	t := &cleanups{}
	defer t.run()
	// As of the bare server: with a heap that has a floor, what streams hold there
	// would only take the place of garbage, and not be seen.
	const collector = "GOGC=100"
	m, err := b.startMesh(ctx, t, name, name+"-idle", collector)
	if err != nil {
		return err
	}
	if b.idleTasks[name] == nil {
		if b.idleTasks[name], err = b.waiting(ctx, m); err != nil {
			return err
		}
		m.end() // the figure is that of one that only holds streams
		if m, err = b.startMesh(ctx, t, name, name+"-idle", collector); err != nil {
			return err
		}
	}
	bare, at, err := launch(b.self("agent", ""), b.cores.server, isReady)
	if err != nil {
		return err
	}
	t.Cleanup(bare.end)
	floor, err := connect(t, "bare", bare, at[2])
	if err != nil {
		return err
	}
	for _, s := range []*server{m, floor} {
		if r[s.name+" KiB"], err = b.held(ctx, s, b.idleTasks[name]); err != nil {
			return err
		}
	}
	return nil
}

// waiting makes tasks, each in a thread of its own, that wait for their users.
func (b *bench) waiting(ctx context.Context, s *server) ([]string, error) {
	client, ids := a2apb.NewA2AServiceClient(s.conn), make([]string, b.idle)
	_, err := load(b.crowd, b.idle, func(i int) error {
		resp, err := client.SendMessage(ctx, message(waiting))
		if state := resp.GetTask().GetStatus().GetState(); err == nil && state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			err = fmt.Errorf("the task is %v", state)
		}
		ids[i] = resp.GetTask().GetId()
		return err
	})
	return ids, err
}

// held is how many KiB the process has more for each stream that is open.
func (b *bench) held(ctx context.Context, s *server, tasks []string) (float64, error) {
	client := a2apb.NewA2AServiceClient(s.conn)
	open := func(ctx context.Context, i int) error {
		id := tasks[i%len(tasks)]
		stream, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: id})
		if err != nil {
			return err
		}
		first, err := stream.Recv()
		if err == nil && first.GetTask().GetId() != id {
			err = fmt.Errorf("a stream begins with %v", first)
		}
		return err
	}
	work := func() (float64, error) {
		var seen [5]float64 // between collections it goes up and down
		for n := range seen {
			if _, err := load(b.crowd, 4*len(tasks), func(i int) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return open(ctx, i)
			}); err != nil {
				return 0, err
			}
			time.Sleep(50 * time.Millisecond) // what is on its way out goes
			var err error
			if seen[n], err = s.private(); err != nil {
				return 0, err
			}
		}
		return median(seen[:]), nil
	}
	before, err := work()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := load(b.crowd, len(tasks), func(i int) error { return open(ctx, i) }); err != nil {
		return 0, err
	}
	after, err := work()
	return (after - before) / float64(len(tasks)), err
}

// cleanups are those of a part of the test.
type cleanups []func()

// Cleanup implements cleaner.
func (c *cleanups) Cleanup(f func()) { *c = append(*c, f) }

func (c *cleanups) run() {
	for _, f := range slices.Backward(*c) {
		f()
	}
}
