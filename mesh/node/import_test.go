package node_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text/texttest"
)

// eventsOf reads the whole thread.
func eventsOf(ctx context.Context, t *testing.T, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	t.Helper()
	res, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetEvents()
}

// bring imports the events, each alone in its message.
func bring(ctx context.Context, threads meshv1.ThreadServiceClient, id string, total int, events []*meshv1.Event) (*meshv1.ImportThreadResponse, error) {
	stream, err := threads.ImportThread(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&meshv1.ImportThreadRequest{ThreadId: id, Total: int64(total)})
	for _, e := range events {
		if err == nil {
			err = stream.Send(&meshv1.ImportThreadRequest{Events: []*meshv1.Event{e}})
		}
	}
	return stream.CloseAndRecv() // it says why nothing could be sent
}

// what is read of a thread: what it adds up to, its tasks, its events, and what a stream has
// after each of some cursors.
func readBack(ctx context.Context, t *testing.T, m *testMesh, id string) map[string]proto.Message {
	t.Helper()
	conn := m.raw(t)[:1]
	threads, a2a := meshv1.NewThreadServiceClient(conn), a2apb.NewA2AServiceClient(conn)
	all := map[string]proto.Message{}
	thread, err := threads.GetThread(ctx, &meshv1.GetThreadRequest{ThreadId: id})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := a2a.ListTasks(ctx, &a2apb.ListTasksRequest{ContextId: id, IncludeArtifacts: proto.Bool(true), HistoryLength: proto.Int32(100)})
	if err != nil {
		t.Fatal(err)
	}
	all["thread"], all["tasks"] = thread.GetThread(), tasks
	for _, e := range eventsOf(ctx, t, threads, id) {
		all[fmt.Sprint("event ", e.GetSeq())] = e
	}
	for _, task := range tasks.GetTasks() {
		for after := range thread.GetThread().GetSeq() {
			stream, err := a2a.SubscribeToTask(metadata.AppendToOutgoingContext(ctx, "after-seq", strconv.FormatInt(after, 10)), &a2apb.SubscribeToTaskRequest{Id: task.GetId()})
			for n := 0; err == nil; n++ {
				var r *a2apb.StreamResponse
				if r, err = stream.Recv(); err == nil {
					all[fmt.Sprint("update ", n, " of ", task.GetId(), " after ", after)] = r
				}
			}
		}
	}
	return all
}

// A conversation reads back equal where it is imported: in the mesh where it was, once it was
// deleted there, in another tenant and in another mesh; and goes on.
func TestAConversationReadsBackEqualWhereItIsImported(t *testing.T) {
	m, other := guarded(t), guarded(t)
	id := mesh.NewThreadID()
	a := as(plain(t), "a", "thread-id", id)
	for range 2 {
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(a, say("hello"))
		hear(t, stream, err)
	}
	threads := meshv1.NewThreadServiceClient(m.raw(t))
	events, before := eventsOf(a, t, threads, id), readBack(a, t, m, id)
	if len(before) < 20 {
		t.Fatalf("there are only %d things to read", len(before))
	}
	admin := as(plain(t), "admin", "thread-id", id)
	if _, err := bring(admin, threads, id, len(events), events); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), id) {
		t.Errorf("of an id that there is: %v", err)
	}
	for _, who := range []string{"a", "b", "auditor"} {
		if _, err := bring(as(plain(t), who, "thread-id", id), threads, id, len(events), events); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s imports: %v", who, err)
		}
	}
	if _, err := threads.DeleteThread(a, &meshv1.DeleteThreadRequest{ThreadId: id}); err != nil {
		t.Fatal(err)
	}
	defer importedRecord(t, m, id)
	for name, at := range map[string]*testMesh{"where it was": m, "elsewhere": other} {
		res, err := bring(admin, meshv1.NewThreadServiceClient(at.raw(t)), id, len(events), events)
		if err != nil || res.GetEnded() != 0 {
			t.Fatalf("%s: %v, %v", name, res, err)
		}
		if diff := cmp.Diff(before, readBack(a, t, at, id), protocmp.Transform()); diff != "" {
			t.Errorf("%s (-was +is):\n%s", name, diff)
		}
		stream, err := a2apb.NewA2AServiceClient(at.raw(t)).SendStreamingMessage(a, say("hello"))
		if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("%s it does not go on: %v", name, s.state)
		}
		if _, err := meshv1.NewThreadServiceClient(at.raw(t)).GetThread(as(plain(t), "b", "thread-id", id), &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.NotFound {
			t.Errorf("%s, another tenant reads it: %v", name, err)
		}
	}
}

// importedRecord checks that the record says which thread was imported, and by whom.
func importedRecord(t *testing.T, m *testMesh, id string) {
	t.Helper()
	done := map[int64]bool{}
	for _, conn := range m.raw(t) {
		res, err := meshv1.NewAuditServiceClient(conn).ListAuditRecords(as(plain(t), "admin"), &meshv1.ListAuditRecordsRequest{PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.GetRecords() {
			if r.GetAction() == meshv1.ThreadService_ImportThread_FullMethodName && r.GetResource() == id && r.GetUserId() == "adam" && r.GetDecision() == meshv1.AuditRecord_DECISION_DONE {
				done[r.GetSeq()] = true
			}
		}
	}
	if len(done) != 1 {
		t.Errorf("the record has %d imports", len(done))
	}
}

// A conversation that was cut anywhere is imported with what was not over at its end: nobody
// goes on with it, and nothing of it waits; the next message is worked on.
func TestNothingGoesOnByItselfOfWhatIsImported(t *testing.T) {
	m := guarded(t)
	conn := m.raw(t)
	threads, a2a := meshv1.NewThreadServiceClient(conn), a2apb.NewA2AServiceClient(conn)
	x := occupied(t, m, "a") // its task asks
	events := eventsOf(as(plain(t), "a", "thread-id", x.thread), t, threads, x.thread)
	admin := as(plain(t), "admin", "thread-id", x.thread)
	for n := 1; n <= len(events); n++ {
		if _, err := threads.DeleteThread(admin, &meshv1.DeleteThreadRequest{ThreadId: x.thread}); err != nil {
			t.Fatal(n, err)
		}
		res, err := bring(admin, threads, x.thread, n, events[:n])
		if err != nil || res.GetEnded() != 1 {
			t.Fatalf("%d events: %v, %v", n, res, err)
		}
		got, err := threads.GetThread(admin, &meshv1.GetThreadRequest{ThreadId: x.thread})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.GetThread().GetExecutions() {
			if e.GetState() == a2apb.TaskState_TASK_STATE_WORKING || e.GetState() == a2apb.TaskState_TASK_STATE_SUBMITTED || e.GetState() == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
				t.Errorf("%d events: %s is %v", n, e.GetExecution().GetAgent(), e.GetState())
			}
		}
		task, err := a2a.GetTask(as(plain(t), "a"), &a2apb.GetTaskRequest{Id: x.task})
		if err != nil || task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_FAILED || !texttest.Has(textOf(task.GetStatus().GetMessage().GetParts()), "brought here") {
			t.Errorf("%d events: the task is %v, %v", n, task.GetStatus(), err)
		}
		if now, err := threads.GetThread(admin, &meshv1.GetThreadRequest{ThreadId: x.thread}); err != nil || now.GetThread().GetSeq() != got.GetThread().GetSeq() {
			t.Errorf("%d events: something goes on: %v", n, err)
		}
	}
	stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", x.thread), say("hello"))
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("it does not go on: %v, %v", s.state, s.status)
	}
}

// What is not whole, or not a thread's, is refused with the event and the field, and nothing
// of it is there.
func TestNothingHalfIsImported(t *testing.T) {
	m := guarded(t)
	threads := meshv1.NewThreadServiceClient(m.raw(t))
	id := mesh.NewThreadID()
	a, admin := as(plain(t), "a", "thread-id", id), as(plain(t), "admin", "thread-id", id)
	stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(a, say("hello"))
	hear(t, stream, err)
	events := eventsOf(a, t, threads, id)
	if _, err := threads.DeleteThread(a, &meshv1.DeleteThreadRequest{ThreadId: id}); err != nil {
		t.Fatal(err)
	}
	all := len(events)
	for name, tt := range map[string]struct {
		change func([]*meshv1.Event) []*meshv1.Event
		total  int
		want   string
	}{
		"one too few":      {func(e []*meshv1.Event) []*meshv1.Event { return e[:all-1] }, all, "total"},
		"one too many":     {func(e []*meshv1.Event) []*meshv1.Event { return e }, all - 1, "total"},
		"none":             {func([]*meshv1.Event) []*meshv1.Event { return nil }, 0, "total"},
		"the end alone":    {func(e []*meshv1.Event) []*meshv1.Event { return e[1:] }, all - 1, "events[0].seq"},
		"in another order": {func(e []*meshv1.Event) []*meshv1.Event { e[1], e[2] = e[2], e[1]; return e }, all, "events[1].seq"},
		"no seq":           {func(e []*meshv1.Event) []*meshv1.Event { e[3].Seq = 0; return e }, all, "events[3].seq"},
		"no body":          {func(e []*meshv1.Event) []*meshv1.Event { e[3].Body = nil; return e }, all, "events[3].body"},
		"no time":          {func(e []*meshv1.Event) []*meshv1.Event { e[2].Time = nil; return e }, all, "events[2].time"},
		"no time at all": {func(e []*meshv1.Event) []*meshv1.Event {
			e[2].Time = &timestamppb.Timestamp{Seconds: 1 << 60}
			return e
		}, all, "events[2].time"},
		"an id twice": {func(e []*meshv1.Event) []*meshv1.Event { e[1].Id, e[2].Id = "x", "x"; return e }, all, "events[2].id"},
		"another thread's": {func(e []*meshv1.Event) []*meshv1.Event {
			e[2].ExecutionId = string(mesh.NewExecutionID(mesh.NewThreadID()))
			return e
		}, all, "events[2].execution_id"},
		"no execution": {func(e []*meshv1.Event) []*meshv1.Event { e[2].ExecutionId = "x"; return e }, all, "events[2].execution_id"},
		"a last claim": {func(e []*meshv1.Event) []*meshv1.Event {
			e[2].Body = &meshv1.Event_ThreadClaimed{ThreadClaimed: &meshv1.ThreadClaimed{Epoch: 1 << 60}}
			return e
		}, all, "events[2].thread_claimed.epoch"},
		"no task": {func(e []*meshv1.Event) []*meshv1.Event {
			for i := range e {
				e[i].Body = &meshv1.Event_StateNoted{StateNoted: &meshv1.StateNoted{Agent: "x"}}
			}
			return e
		}, all, "events"},
		"an event too large": {func(e []*meshv1.Event) []*meshv1.Event {
			e[2].Body = &meshv1.Event_StateNoted{StateNoted: &meshv1.StateNoted{Agent: "x", Data: make([]byte, mesh.MaxEvent)}}
			return e
		}, all, "events[2]"},
	} {
		t.Run(name, func(t *testing.T) {
			var changed []*meshv1.Event
			for _, e := range events {
				changed = append(changed, proto.CloneOf(e))
			}
			_, err := bring(admin, threads, id, tt.total, tt.change(changed))
			if is := mesh.FieldOf(rpc.FromStatus(err)); status.Code(err) != codes.InvalidArgument || is != tt.want {
				t.Errorf("%v of %s, want %s", err, is, tt.want)
			}
			if _, err := threads.GetThread(admin, &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.NotFound {
				t.Errorf("something is there: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(admin)
	half, err := threads.ImportThread(ctx)
	if err == nil {
		err = half.Send(&meshv1.ImportThreadRequest{ThreadId: id, Total: int64(all), Events: events})
	}
	if cancel(); err != nil {
		t.Fatal(err)
	}
	_, _ = half.CloseAndRecv()
	time.Sleep(10 * time.Millisecond) // for what must not be there
	if _, err := threads.GetThread(admin, &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("of a caller who left, something is there: %v", err)
	}
	if _, err := bring(admin, threads, id, all, events); err != nil {
		t.Errorf("at the end: %v", err)
	}
}
