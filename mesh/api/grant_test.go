package api

import (
	"context"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	working   = a2apb.TaskState_TASK_STATE_WORKING
)

// When an execution is over its grant is too, whatever time it had left: it reads
// nothing and adds nothing, but for what it has added already.
func TestAGrantEndsWithItsExecution(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	mine, other := l.run(t, turn, "mailer", "mail.send"), l.run(t, turn, "writer")
	last := []*mesh.Event{
		{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.ModelReplied{Text: "Done."}},
		{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer", Data: []byte("{}")}},
	}
	before, err := l.add(under(t, mine), last...)
	if err != nil {
		t.Fatal(err)
	}
	reads := map[string]func(context.Context) error{
		"GetThread": func(ctx context.Context) error {
			_, err := l.GetThread(ctx, &meshv1.GetThreadRequest{ThreadId: l.key.ID})
			return err
		},
		"ReadThread": func(ctx context.Context) error {
			_, err := l.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: l.key.ID})
			return err
		},
		"FollowThread": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			err := l.FollowThread(&meshv1.FollowThreadRequest{ThreadId: l.key.ID}, &followed{ctx: ctx, sent: func(*mesh.Event) { cancel() }})
			if mesh.IsCode(err, mesh.Canceled) {
				err = nil // by sent
			}
			return err
		},
	}
	for name, read := range reads {
		if err := read(under(t, mine)); err != nil {
			t.Errorf("%s while it works: %v", name, err)
		}
	}
	if err := l.decide(t.Context(), &mesh.Event{Execution: mine.Execution, Body: mesh.TaskMoved{State: completed}}); err != nil {
		t.Fatal(err)
	}
	for name, read := range reads {
		if err := read(under(t, mine)); !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(err.Error(), "over") {
			t.Errorf("%s afterwards: %v", name, err)
		}
		if err := read(under(t, other)); err != nil {
			t.Errorf("%s by one that still works: %v", name, err)
		}
		if err := read(user(t, mesh.RoleUser)); err != nil {
			t.Errorf("%s by the user: %v", name, err)
		}
	}
	after, err := l.add(under(t, mine), last...)
	if err != nil || after.GetSeq() != before.GetSeq() {
		t.Errorf("its last words again: %v, %v; they were %v", after, err, before)
	}
	_, err = l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer"}})
	wantCode(t, err, mesh.Precondition, "over")
	_, err = l.add(under(t, mine), last[0], &mesh.Event{Execution: mine.Execution, Body: mesh.ModelReplied{Text: "And more."}})
	wantCode(t, err, mesh.Precondition, "over")
	page, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID})
	if err != nil {
		t.Fatal(err)
	}
	replies := 0
	for _, e := range page.GetEvents() {
		if e.GetModelReplied() != nil {
			replies++
		}
	}
	if replies != 1 {
		t.Errorf("there are %d replies in the log", replies)
	}
}

// followed is the stream of a follower.
type followed struct {
	grpc.ServerStreamingServer[meshv1.FollowThreadResponse]
	ctx  context.Context
	sent func(*mesh.Event)
}

func (f *followed) Context() context.Context       { return f.ctx }
func (f *followed) SendHeader(_ metadata.MD) error { return nil }

func (f *followed) Send(r *meshv1.FollowThreadResponse) error {
	e, err := eventpb.EventFromProto(r.GetEvent())
	if err == nil {
		f.sent(e)
	}
	return err
}

// A follower that began in time sees the end of its execution, and nothing after
// it; one whose grant expires sees nothing after that.
func TestAFollowerIsCutOffWithItsGrant(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	mine := l.run(t, turn, "mailer")
	seen := make(chan *mesh.Event, 16)
	ended := make(chan error, 1)
	go func() { // ended is waited for
		ended <- l.FollowThread(&meshv1.FollowThreadRequest{ThreadId: l.key.ID}, &followed{ctx: under(t, mine), sent: func(e *mesh.Event) { seen <- e }})
	}()
	<-seen // it follows
	if err := l.decide(t.Context(), &mesh.Event{Execution: mine.Execution, Body: mesh.TaskMoved{State: working}},
		&mesh.Event{Execution: mine.Execution, Body: mesh.TaskMoved{State: completed}}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-ended, mesh.Precondition, "over")
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.MessagePosted{User: "ann", Message: &a2apb.Message{MessageId: "a secret"}}}); err != nil {
		t.Fatal(err)
	}
	for len(seen) > 0 {
		if e := <-seen; e.Seq > 4 {
			t.Errorf("it saw %+v", e)
		}
	}
	late := l.run(t, turn, "writer")
	late.Expires = time.Now().Add(-time.Second).Unix()
	err := l.FollowThread(&meshv1.FollowThreadRequest{ThreadId: l.key.ID}, &followed{ctx: under(t, late), sent: func(*mesh.Event) {}})
	wantCode(t, err, mesh.Timeout)
}

// A follower under a grant sees the end of its execution, and so does not begin
// after the last event.
func TestAFollowerUnderAGrantBeginsNoLaterThanTheThreadEnds(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "mailer")
	tail, err := l.log.Tail(t.Context(), l.key)
	if err != nil {
		t.Fatal(err)
	}
	short := *mine // ends the stream if it is not refused
	short.Expires = time.Now().Add(-time.Second).Unix()
	for after, code := range map[int64]mesh.Code{int64(tail): mesh.Timeout, int64(tail) + 1: mesh.Invalid, 1 << 40: mesh.Invalid} {
		err := l.FollowThread(&meshv1.FollowThreadRequest{ThreadId: l.key.ID, AfterSeq: after},
			&followed{ctx: under(t, &short), sent: func(e *mesh.Event) { t.Errorf("after %d it saw %+v", after, e) }})
		if !mesh.IsCode(err, code) {
			t.Errorf("after %d: %v, want %v", after, err, code)
		}
	}
}

func TestAThreadShowsWhatItUsed(t *testing.T) {
	l := newLibrary(t)
	main := l.run(t, l.post(t), "main", "*")
	worker := l.run(t, main.Execution, "worker", "*")
	for g, cost := range map[*mesh.Grant]float64{main: 0.25, worker: 0.5} {
		u := mesh.Usage{Prompt: 100, Completion: 10, Cached: 50, CacheWrite: 20, Cost: cost, Unpriced: 3}
		if _, err := l.add(under(t, g), &mesh.Event{Execution: g.Execution, Body: mesh.ModelReplied{Usage: u}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := l.add(under(t, worker), &mesh.Event{Execution: worker.Execution, Body: mesh.SkillCalled{Skill: "mail.send"}}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := l.GetThread(user(t, mesh.RoleUser), &meshv1.GetThreadRequest{ThreadId: l.key.ID})
	if err != nil {
		t.Fatal(err)
	}
	if u := res.GetThread().GetUsage(); u.GetCost() != 0.75 || u.GetUnpriced() != 6 || u.GetPrompt() != 200 || u.GetCacheWrite() != 40 {
		t.Errorf("the thread used %v", u)
	}
	x := res.GetThread().GetExecutions()[2]
	if x.GetUsage().GetCost() != 0.5 || x.GetSkillCalls() != 2 {
		t.Errorf("the worker used %v and %d calls", x.GetUsage(), x.GetSkillCalls())
	}
}
