package node_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// Who may do what with a thread that is ann's: nobody else at first, then those with
// whom it is shared, and whoever has a role for it (part of T3).
func TestAThreadIsItsOwners(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	asks := func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] { // and goes on asking
		return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "Which name?"}, nil) }
	}
	m := start(t, cfg, map[string]run{"main": greeter, "builder": asks})
	conn := m.raw(t)
	a2a, threads := a2apb.NewA2AServiceClient(conn), meshv1.NewThreadServiceClient(conn)
	id := mesh.NewThreadID()
	stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", id), say("make a skill")) // which asks
	task := hear(t, stream, err).task.GetId()

	tried := map[string]func(who string) error{
		"read": func(who string) error {
			_, err := threads.GetThread(as(plain(t), who), &meshv1.GetThreadRequest{ThreadId: id})
			return err
		},
		"events": func(who string) error {
			_, err := threads.ReadThread(as(plain(t), who), &meshv1.ReadThreadRequest{ThreadId: id})
			return err
		},
		"task": func(who string) error {
			_, err := a2a.GetTask(as(plain(t), who), &a2apb.GetTaskRequest{Id: task})
			return err
		},
		"post": func(who string) error {
			_, err := a2a.SendMessage(as(plain(t), who, "thread-id", id), say("hello"))
			return err
		},
		"answer": func(who string) error {
			next := say("x.y")
			next.Message.TaskId = task
			_, err := a2a.SendMessage(as(plain(t), who), next)
			return err
		},
		"share": func(who string) error {
			_, err := threads.ShareThread(as(plain(t), who), &meshv1.ShareThreadRequest{ThreadId: id, Add: []string{"mallory"}})
			return err
		},
		"listed": func(who string) error {
			list, err := a2a.ListTasks(as(plain(t), who), &a2apb.ListTasksRequest{})
			all, err2 := threads.ListThreads(as(plain(t), who), &meshv1.ListThreadsRequest{})
			if err != nil || err2 != nil || len(list.GetTasks()) == 0 != (len(all.GetThreads()) == 0) {
				return fmt.Errorf("%d tasks and %d threads, %w, %w", len(list.GetTasks()), len(all.GetThreads()), err, err2)
			}
			if len(list.GetTasks()) == 0 {
				return status.Error(codes.NotFound, "")
			}
			return nil
		},
		"cancel": func(who string) error {
			_, err := a2a.CancelTask(as(plain(t), who), &a2apb.CancelTaskRequest{Id: task})
			return err
		},
	}
	unknown := map[string]codes.Code{"read": codes.NotFound, "events": codes.NotFound, "task": codes.NotFound, "post": codes.NotFound, "answer": codes.NotFound,
		"share": codes.NotFound, "listed": codes.NotFound, "cancel": codes.NotFound}
	reads := map[string]codes.Code{"read": 0, "events": 0, "task": 0, "listed": 0, "post": codes.PermissionDenied, "answer": codes.PermissionDenied,
		"share": codes.PermissionDenied, "cancel": codes.PermissionDenied}
	takesPart := map[string]codes.Code{"read": 0, "events": 0, "task": 0, "listed": 0, "post": 0, "answer": codes.PermissionDenied, "share": codes.PermissionDenied}
	share := func(req *meshv1.ShareThreadRequest) *meshv1.Thread {
		req.ThreadId = id
		res, err := threads.ShareThread(as(plain(t), "a"), req)
		if err != nil {
			t.Fatal(err)
		}
		return res.GetThread()
	}
	for _, tt := range []struct {
		shared *meshv1.ShareThreadRequest
		want   map[string]codes.Code // eve's
	}{
		{&meshv1.ShareThreadRequest{}, unknown},
		{&meshv1.ShareThreadRequest{Readable: proto.Bool(true)}, reads},
		{&meshv1.ShareThreadRequest{Readable: proto.Bool(false)}, unknown},
		{&meshv1.ShareThreadRequest{Add: []string{"eve", "ann", "eve"}}, takesPart},
		{&meshv1.ShareThreadRequest{Remove: []string{"eve"}}, unknown},
	} {
		th := share(tt.shared)
		for what, want := range tt.want {
			if err := tried[what]("eve"); status.Code(err) != want {
				t.Errorf("shared with %v, readable %t: eve may %s: %v, want %v", th.GetParticipants(), th.GetReadable(), what, err, want)
			}
		}
		if th.GetOwner() != "ann" {
			t.Errorf("the thread is %s's", th.GetOwner())
		}
	}
	for what, want := range reads {
		if what == "share" || what == "post" || what == "answer" || what == "cancel" {
			want = codes.PermissionDenied // by the role already
		}
		if err := tried[what]("auditor"); status.Code(err) != want {
			t.Errorf("the auditor may %s: %v, want %v", what, err, want)
		}
	}
	for _, what := range []string{"read", "events", "task", "listed", "answer"} {
		if err := tried[what]("a"); err != nil {
			t.Errorf("the owner may not %s: %v", what, err)
		}
	}
}

// Who follows a thread is cut off when it is shared no more.
func TestWhoIsLeftOutHearsNoMore(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	conn := m.raw(t)
	a2a, threads := a2apb.NewA2AServiceClient(conn), meshv1.NewThreadServiceClient(conn)
	id := mesh.NewThreadID()
	first, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", id), say("make a skill"))
	task := hear(t, first, err).task.GetId()
	share := func(req *meshv1.ShareThreadRequest) {
		req.ThreadId = id
		if _, err := threads.ShareThread(as(plain(t), "a"), req); err != nil {
			t.Fatal(err)
		}
	}
	share(&meshv1.ShareThreadRequest{Add: []string{"eve"}})
	ctx, cancel := context.WithCancel(plain(t))
	defer cancel()
	events, err := threads.FollowThread(as(ctx, "eve"), &meshv1.FollowThreadRequest{ThreadId: id})
	if err == nil {
		_, err = events.Recv()
	}
	updates, err2 := a2a.SubscribeToTask(as(ctx, "eve"), &a2apb.SubscribeToTaskRequest{Id: task})
	if err2 == nil {
		_, err2 = updates.Recv()
	}
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	share(&meshv1.ShareThreadRequest{Remove: []string{"eve"}})
	next := say("the secret of ann")
	next.Message.TaskId = task
	stream, err := a2a.SendStreamingMessage(as(plain(t), "a"), next)
	hear(t, stream, err)
	for {
		ev, err := events.Recv()
		if err != nil {
			if status.Code(err) != codes.NotFound {
				t.Errorf("the follower ended with %v", err)
			}
			break
		}
		if text := textOf(ev.GetEvent().GetMessagePosted().GetMessage().GetParts()); text == "the secret of ann" {
			t.Error("the follower heard it")
		}
	}
	for {
		u, err := updates.Recv()
		if err != nil {
			if status.Code(err) != codes.NotFound {
				t.Errorf("the subscriber ended with %v", err)
			}
			break
		}
		if u.GetStatusUpdate().GetStatus().GetState() == a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Error("the subscriber heard the end")
		}
	}
}

// By setting, everybody in the tenant reads, and nobody takes part who does not.
func TestThreadsOfATenantMayBeReadableByAll(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Threads.Visibility = "tokens", tokensFile(t), "tenant"
	m := start(t, cfg, map[string]run{"main": greeter})
	conn := m.raw(t)
	id := mesh.NewThreadID()
	if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(as(plain(t), "a", "thread-id", id), say("hello")); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]codes.Code{"eve": codes.OK, "b": codes.NotFound} {
		if _, err := meshv1.NewThreadServiceClient(conn).GetThread(as(plain(t), who), &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != want {
			t.Errorf("%s reads it: %v", who, err)
		}
	}
	if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(as(plain(t), "eve", "thread-id", id), say("hello")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("eve takes part: %v", err)
	}
	cfg.Threads.Visibility = "public"
	if err := cfg.Fill(); mesh.FieldOf(err) != "threads.visibility" {
		t.Errorf("another visibility: %v", err)
	}
}
