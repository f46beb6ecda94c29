package api

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/api/apitest"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// A library is the thread service over a store in memory that counts what is
// read from it.
type library struct {
	*Threads
	store  *cachetest.Store
	states *cache.States
	key    mesh.ThreadKey
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	signer, err := grant.NewSigner(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	store := &cachetest.Store{Backend: mem.Open()}
	log := threadlog.New(store)
	states := cache.New(log, 0)
	agents, err := registry.New(t.Context(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &library{
		Threads: NewThreads(log, states, admission.New(log, states, nil), Tickets{Signer: signer, Agents: agents}, "main").
			WithDeleter(retention.NewDeleter(log, states, unrecorded{}, slog.New(slog.DiscardHandler)), func(mesh.Principal, mesh.Action, string) error { return nil }),
		store: store, states: states,
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
	}
}

// unrecorded is a record that keeps nothing.
type unrecorded struct{}

func (unrecorded) Deletes(context.Context, string, []mesh.ThreadKey) (func([]audit.Deletion), error) {
	return func([]audit.Deletion) {}, nil
}

// post opens a turn, as a message of a user does.
func (l *library) post(t testing.TB) mesh.ExecutionID {
	t.Helper()
	return cachetest.Post(t, l.states, l.key)
}

func (l *library) decide(ctx context.Context, events ...*mesh.Event) error {
	return cachetest.Decide(ctx, l.states, l.key, events...)
}

// run opens an execution of the agent below the turn and returns its grant.
func (l *library) run(t testing.TB, turn mesh.ExecutionID, agent string, skills ...string) *mesh.Grant {
	t.Helper()
	return cachetest.Run(t, l.states, l.key, turn, agent, skills...)
}

func under(t *testing.T, g *mesh.Grant) context.Context {
	t.Helper()
	return mesh.WithCall(t.Context(), mesh.Call{Thread: g.Thread, Principal: mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}})
}

func user(t *testing.T, perms ...mesh.Role) context.Context {
	t.Helper()
	return mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ann", Roles: perms}})
}

func (l *library) add(ctx context.Context, events ...*mesh.Event) (*meshv1.AppendEventsResponse, error) {
	req := &meshv1.AppendEventsRequest{ThreadId: l.key.ID}
	for _, e := range events {
		if e.ID == "" {
			e.ID = mesh.NewEventID()
		}
		req.Events = append(req.Events, eventpb.EventToProto(e))
	}
	return l.AppendEvents(ctx, req)
}

// An agent sees its own thread only: any other, also of its tenant and user, is
// as one that does not exist.
func TestUnderAGrantOtherThreadsLookUnknown(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "mailer", "mail.send")
	there := l.key.ID
	l.key.ID = mesh.NewThreadID()
	l.post(t) // another thread of the same tenant
	for name, id := range map[string]string{"another": l.key.ID, "none": mesh.NewThreadID()} {
		call := mesh.Call{Principal: mesh.Principal{Tenant: mine.Tenant, User: mine.User, Grant: mine}} // and no thread-id
		ctx := mesh.WithCall(t.Context(), call)
		_, getErr := l.GetThread(ctx, &meshv1.GetThreadRequest{ThreadId: id})
		_, readErr := l.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id})
		l.key.ID = id
		_, addErr := l.add(ctx, &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer"}})
		for _, err := range []error{getErr, readErr, addErr} {
			if !mesh.IsCode(err, mesh.NotFound) || strings.Contains(err.Error(), there) {
				t.Errorf("%s thread: %v", name, err)
			}
		}
	}
}

// Nobody gets at the state of an agent by dispatching one under its name: who
// dispatches has the child's grant.
func TestAChildsGrantReachesNoStateThatItsParentDoesNot(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "mailer", "mail.send")
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: mine.Execution, Kind: mesh.KindAgent, Agent: "tasks", User: "ann"}
	res, err := l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: x}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := grant.NewVerifier(l.tickets.Signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	child, err := v.CheckTicket(res.GetTickets()[string(x.ID)])
	if err != nil {
		t.Fatal(err)
	}
	states := serve(t)
	_, err = NewState(states.kv, nil).GetState(under(t, child), &meshv1.GetStateRequest{Kind: "tasks", Key: "k"})
	wantCode(t, err, mesh.Denied, "none, because it has no skills")
}

func TestAPageOfLargeEventsIsNotReadInVain(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "writer")
	const events, size = 100, 200 << 10
	for range events {
		_, err := l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.ModelReplied{Text: strings.Repeat("x", size)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.store.Count()
	seen, after := 0, int64(2)
	for more := true; more; {
		page, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID, AfterSeq: after, Limit: 1000})
		if err != nil || len(page.GetEvents()) == 0 {
			t.Fatalf("after %d: %v, %v", after, page, err)
		}
		if got, most := l.store.Count(), (readAhead+1)*(size+1<<10); got > most {
			t.Fatalf("a page took %d bytes from the store, want at most %d", got, most)
		}
		for _, e := range page.GetEvents() {
			if after++; e.GetSeq() != after {
				t.Fatalf("seq %d, want %d", e.GetSeq(), after)
			}
			seen++
		}
		more = page.GetMore()
	}
	if seen != events {
		t.Errorf("%d events were read, want %d", seen, events)
	}
}

func TestPagesEndWhereTheThreadDoes(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "writer")
	for range 2*readAhead - 2 { // with the two above, a multiple of what is read at a time
		if _, err := l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.LimitTripped{}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		after int64
		limit int32
		want  string
	}{
		{0, 1000, "64 false"}, {0, 64, "64 false"}, {0, 63, "63 true"}, {0, 33, "33 true"}, {63, 1, "1 false"}, {64, 10, "0 false"}, {10, 54, "54 false"},
	} {
		page, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID, AfterSeq: tt.after, Limit: tt.limit})
		if got := fmt.Sprint(len(page.GetEvents()), page.GetMore()); err != nil || got != tt.want {
			t.Errorf("%d events after %d: got %s, %v; want %s", tt.limit, tt.after, got, err, tt.want)
		}
	}
}

// The end of a thread is one page away, however long it is, and pages of what
// comes before it meet without a gap: finding C13.
func TestAThreadIsReadBackwards(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "writer")
	for range 2*readAhead - 2 {
		if _, err := l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.LimitTripped{}}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	read := func(after, before int64, limit int32, tail bool) string {
		page, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{
			ThreadId: l.key.ID, AfterSeq: after, BeforeSeq: before, Limit: limit, Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		// What doubles of the service answer is the same.
		if same := apitest.Page(whole.GetEvents(), &meshv1.ReadThreadRequest{AfterSeq: after, BeforeSeq: before, Limit: limit, Tail: tail}, 0); !proto.Equal(same, page) {
			t.Errorf("after %d, before %d, %d of the tail %v: a double has %d events, more %v", after, before, limit, tail, len(same.GetEvents()), same.GetMore())
		}
		seqs := []int64{}
		for i, e := range page.GetEvents() {
			if seqs = append(seqs, e.GetSeq()); i > 0 && seqs[i] != seqs[i-1]+1 {
				t.Errorf("seq %d comes after %d", seqs[i], seqs[i-1])
			}
		}
		if len(seqs) == 0 {
			return fmt.Sprint("none ", page.GetMore())
		}
		return fmt.Sprint(seqs[0], "-", seqs[len(seqs)-1], " ", page.GetMore())
	}
	for _, tt := range []struct {
		after, before int64
		limit         int32
		tail          bool
		want          string
	}{
		{0, 0, 1000, true, "1-64 false"}, {0, 0, 64, true, "1-64 false"}, {0, 0, 63, true, "2-64 true"}, {0, 0, 33, true, "32-64 true"},
		{0, 32, 1, true, "31-31 true"}, {0, 32, 31, true, "1-31 false"}, {0, 1, 10, true, "none false"}, {20, 32, 5, true, "27-31 true"},
		{20, 32, 100, true, "21-31 false"}, {64, 0, 10, true, "none false"}, {40, 30, 10, true, "none false"}, {0, 1000, 2, true, "63-64 true"},
		{0, 32, 10, false, "1-10 true"}, {20, 32, 11, false, "21-31 false"}, {20, 32, 10, false, "21-30 true"}, {30, 31, 10, false, "none false"},
		{0, 1000, 64, false, "1-64 false"},
	} {
		if got := read(tt.after, tt.before, tt.limit, tt.tail); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
	_, err = l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID, BeforeSeq: -1})
	wantCode(t, err, mesh.Invalid, "before_seq")
}

// A page of the end is bounded in bytes as others are, and as little is read.
func TestATailOfLargeEventsIsNotReadInVain(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "writer")
	const events, size = 100, 200 << 10
	for range events {
		_, err := l.add(under(t, mine), &mesh.Event{Execution: mine.Execution, Body: mesh.ModelReplied{Text: strings.Repeat("x", size)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.store.Count()
	seen, before := 0, int64(events+3)
	for more := true; more; {
		page, err := l.ReadThread(user(t, mesh.RoleUser), &meshv1.ReadThreadRequest{ThreadId: l.key.ID, BeforeSeq: before, Limit: 1000, Tail: true})
		if err != nil || len(page.GetEvents()) == 0 {
			t.Fatalf("before %d: %v, %v", before, page, err)
		}
		if got, most := l.store.Count(), (readAhead+1)*(size+1<<10); got > most {
			t.Fatalf("a page took %d bytes from the store, want at most %d", got, most)
		}
		for _, e := range slices.Backward(page.GetEvents()) {
			if before--; e.GetSeq() != before {
				t.Fatalf("seq %d, want %d", e.GetSeq(), before)
			}
			seen++
		}
		more = page.GetMore()
	}
	if seen != events+2 || before != 1 {
		t.Errorf("%d events were read back to %d, want %d", seen, before, events+2)
	}
}

// A message that comes while its thread is deleted either keeps the thread, or
// begins a new one: its turn is never without a thread.
func TestAThreadIsNotDeletedUnderAMessage(t *testing.T) {
	l := newLibrary(t)
	ctx := user(t, mesh.RoleUser, mesh.RoleDeleter)
	for range 5_000 {
		l.key.ID = mesh.NewThreadID()
		first := l.post(t)
		if err := l.decide(t.Context(), &mesh.Event{Execution: first, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}}); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		var posted, deleted error
		second := mesh.NewExecutionID(l.key.ID)
		both.Go(func() {
			posted = l.decide(t.Context(), &mesh.Event{Execution: second, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: second, Kind: mesh.KindTurn}}})
		})
		both.Go(func() {
			_, deleted = l.DeleteThread(ctx, &meshv1.DeleteThreadRequest{ThreadId: l.key.ID})
		})
		both.Wait()
		err := l.states.With(t.Context(), l.key, func(s *thread.State) error {
			if open := s.Turn(second) != nil; open != (posted == nil) {
				t.Errorf("the message ended with %v, the deletion with %v, and the turn is there: %v", posted, deleted, open)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
