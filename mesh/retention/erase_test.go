package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A house is a world with what users have beside threads, and an Eraser of it all.
type house struct {
	*world
	*retention.Eraser
	told []string // what happened, in order
	// has is how many things each user has; late come when they are erased the first time.
	has, late map[mesh.Owner]int
	broken    error // of what keeps them
	marked    map[mesh.Owner]bool
}

func newHouse(t *testing.T) *house {
	h := &house{world: newWorld(t), has: map[mesh.Owner]int{}, late: map[mesh.Owner]int{}, marked: map[mesh.Owner]bool{}}
	h.begin()
	return h
}

// begin makes the Eraser.
func (h *house) begin() {
	h.Eraser = retention.NewEraser(retention.EraserConfig{
		Deleter: h.Deleter, Cancel: h.cancel, Holders: []retention.Holder{holder{h}},
		Access: func(ctx context.Context, key mesh.ThreadKey) (a thread.Access, err error) {
			if owner, damaged := h.lost.of[key]; damaged {
				return thread.Access{Owner: owner}, nil
			}
			return a, h.states.With(ctx, key, func(st *thread.State) error { a = st.Access; return nil })
		},
		Mark: func(_ context.Context, tenant mesh.TenantID, user string, since time.Time) error {
			h.tell(fmt.Sprintf("marked %s %v", user, !since.IsZero()))
			if h.marked[mesh.Owner{Tenant: tenant, User: user}] = !since.IsZero(); since.IsZero() {
				delete(h.marked, mesh.Owner{Tenant: tenant, User: user})
			}
			return nil
		},
		Revoke: func(_ context.Context, o mesh.Owner) error { h.tell("revoked " + o.User); return nil },
	})
}

func (h *house) tell(what string) { h.told = append(h.told, what) }

// cancel ends the turn, for who is asked for.
func (h *house) cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	id := mesh.ExecutionID(req.GetId())
	of, _ := id.ThreadID()
	call, _ := mesh.CallFrom(ctx)
	h.tell("canceled by " + call.Principal.User)
	h.add(mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: of}, 0, id, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED})
	return nil, nil
}

// erase is what the holder does.
func (h *house) erase(o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	n := h.has[o]
	if h.broken != nil {
		return nil, h.broken
	}
	if !countOnly {
		h.tell(fmt.Sprintf("erased %d", n))
		h.has[o], h.late[o] = h.late[o], 0
	}
	return []mesh.Held{{What: "things", Count: n}}, nil
}

// turn begins one of the user in a thread, and brings it to the state.
func (h *house) turn(key mesh.ThreadKey, user string, state mesh.TaskState) mesh.ExecutionID {
	h.t.Helper()
	id := mesh.NewExecutionID(key.ID)
	h.add(key, 0, id, mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: user}})
	h.add(key, 0, id, mesh.MessagePosted{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER}, User: user})
	h.add(key, 0, id, mesh.TaskMoved{State: state})
	return id
}

// of begins a thread of the user, with whom others take part.
func (h *house) of(tenant mesh.TenantID, user string, state mesh.TaskState, others ...string) mesh.ThreadKey {
	h.t.Helper()
	key := mesh.ThreadKey{Tenant: tenant, ID: mesh.NewThreadID()}
	h.turn(key, user, state)
	if others != nil {
		h.add(key, 0, "", mesh.ThreadShared{Participants: others})
	}
	h.notes.add(key)
	return key
}

// record remembers what it was told.
type record struct {
	mu     sync.Mutex
	lines  []string
	broken error
	begins func() // called before deletions, or nil
}

func (r *record) Deletes(_ context.Context, rule string, keys []mesh.ThreadKey) (func([]audit.Deletion), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, r.broken
	}
	r.lines = append(r.lines, fmt.Sprintf("%d begin by %q", len(keys), rule))
	if r.begins != nil {
		r.begins()
	}
	return func(gone []audit.Deletion) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, fmt.Sprintf("%d are done", len(gone)))
	}, nil
}

func (r *record) is() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "; ")
}

func held(e retention.Erasure) string {
	var all []string
	for _, h := range e.Held {
		all = append(all, fmt.Sprintf("%s %d", h.What, h.Count))
	}
	return strings.Join(all, ", ")
}

type holder struct{ *house }

func (h holder) Erase(_ context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	return h.erase(o, countOnly)
}

var (
	alice = mesh.Owner{Tenant: "acme", User: "alice"}
	bob   = mesh.Owner{Tenant: "acme", User: "bob"}
)

// by is a context of who may erase.
func by(t *testing.T) context.Context {
	return mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "root", Roles: []mesh.Role{mesh.RoleTenantAdmin}}})
}

// What is a user's goes, whoever takes part in it; of others nothing does, but that the user
// takes part in it. Who counts removes nothing, and finds what goes then; a second time there
// is nothing.
func TestAUserGoesWithAllThatIsTheUsers(t *testing.T) {
	h := newHouse(t)
	h.has[alice], h.has[bob], h.has[mesh.Owner{Tenant: "rival", User: "alice"}] = 3, 5, 7
	for _, state := range []mesh.TaskState{completed, working, asks} {
		h.of("acme", "alice", state)
	}
	h.of("acme", "alice", working, "bob")
	foreign := h.of("rival", "alice", working)
	bobs, with := h.of("acme", "bob", working), h.of("acme", "bob", asks, "alice", "eve")
	asked := h.turn(with, "alice", asks)
	left := h.of("acme", "bob", completed)
	begun := h.turn(left, "alice", working) // and takes no part any more
	const want = "tasks canceled 5, shares in threads of others 1, threads 4, things 3"
	count, err := h.Erase(by(t), alice, true)
	if err != nil || held(count) != want || len(h.told) > 0 {
		t.Errorf("counted are %s, %v, want %s; done is %v", held(count), err, want, h.told)
	}
	all, err := h.Erase(by(t), alice, false)
	if err != nil || len(all.Held) != len(count.Held) || all.More {
		t.Fatalf("erased are %+v, %v", all, err)
	}
	for _, one := range all.Held {
		if !slices.Contains(count.Held, one) {
			t.Errorf("erased are %+v, and counted were %+v", one, count.Held)
		}
	}
	h.want("erased", foreign, bobs, with, left)
	if h.has[alice] != 0 || h.has[bob] != 5 || h.has[mesh.Owner{Tenant: "rival", User: "alice"}] != 7 {
		t.Errorf("there is %v", h.has)
	}
	if got := h.told; got[0] != "marked alice true" || got[1] != "canceled by root" || !slices.Equal(got[len(got)-2:], []string{"revoked alice", "marked alice false"}) {
		t.Errorf("it went %v", got)
	}
	for key, tasks := range map[mesh.ThreadKey][]mesh.ExecutionID{with: {asked}, left: {begun}} {
		_ = h.states.With(t.Context(), key, func(st *thread.State) error {
			for _, id := range tasks {
				if st.Turn(id).State != a2apb.TaskState_TASK_STATE_CANCELED {
					t.Errorf("the task of alice in %s is %v", key.ID, st.Turn(id).State)
				}
			}
			if first := st.Turns()[0]; first.State == a2apb.TaskState_TASK_STATE_CANCELED || st.Owner != "bob" || slices.Contains(st.Participants, "alice") {
				t.Errorf("bob's thread is %+v, its task %v", st.Access, first.State)
			}
			return nil
		})
	}
	h.told = nil
	if again, err := h.Erase(by(t), alice, false); err != nil || len(again.Held) > 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if nobody, err := h.Erase(by(t), mesh.Owner{Tenant: "acme", User: "nobody"}, false); err != nil || len(nobody.Held) > 0 {
		t.Errorf("nobody: %+v, %v", nobody, err)
	}
	if _, err := h.Erase(by(t), mesh.Owner{Tenant: "acme"}, false); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("without a user: %v", err)
	}
	h.want("at the end", foreign, bobs, with, left)
}

// What was written while the rest went is looked for until there is nothing.
func TestWhatComesMeanwhileIsErasedToo(t *testing.T) {
	h := newHouse(t)
	h.has[alice], h.late[alice] = 1, 2
	all, err := h.Erase(by(t), alice, false)
	if err != nil || held(all) != "things 3" || h.has[alice] != 0 {
		t.Errorf("%s, %v; there is %v", held(all), err, h.has)
	}
}

// What is cut off leaves the user marked, so that nothing is begun, and is finished when it is
// called again, however often, wherever it was cut.
func TestWhatWasCutOffIsFinishedByTheNextCall(t *testing.T) {
	for cut := range 4 {
		h := newHouse(t)
		h.has[alice] = 2
		keep := h.of("acme", "bob", completed, "alice")
		for range 3 {
			h.of("acme", "alice", asks, "bob")
		}
		killed := errors.New("killed")
		switch cut {
		case 0:
			h.broken = killed
		case 1:
			h.record.broken = killed
		case 2:
			h.EraserConfig.Cancel = func(context.Context, *a2apb.CancelTaskRequest) (*a2apb.Task, error) { return nil, killed }
		case 3:
			h.EraserConfig.Revoke = func(context.Context, mesh.Owner) error { return killed }
		}
		if _, err := h.Erase(by(t), alice, false); !errors.Is(err, killed) || !h.marked[alice] {
			t.Errorf("cut %d: %v; marked are %v", cut, err, h.marked)
		}
		h.broken, h.record.broken, h.EraserConfig.Cancel = nil, nil, h.cancel
		h.EraserConfig.Revoke = func(context.Context, mesh.Owner) error { return nil }
		if _, err := h.Erase(by(t), alice, false); err != nil || len(h.marked) > 0 || h.has[alice] > 0 {
			t.Errorf("cut %d: then %v; marked are %v, there is %v", cut, err, h.marked, h.has)
		}
		h.want(fmt.Sprintf("cut %d", cut), keep)
	}
}

// An agent that does not let go of a thread keeps it, whole, and the user marked.
func TestAThreadAtWorkIsNotErased(t *testing.T) {
	h := newHouse(t)
	key := h.of("acme", "alice", working)
	h.EraserConfig.Cancel = func(context.Context, *a2apb.CancelTaskRequest) (*a2apb.Task, error) { return nil, nil }
	if _, err := h.Erase(by(t), alice, false); !mesh.IsCode(err, mesh.Precondition) || !h.marked[alice] {
		t.Errorf("%v; marked are %v", err, h.marked)
	}
	h.want("at work", key)
}

// Many threads take several calls, of which the last one says so.
func TestManyThreadsGoInSeveralCalls(t *testing.T) {
	h := newHouse(t)
	for range retention.MaxPage + 1 {
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		id := mesh.NewExecutionID(key.ID)
		events := []*mesh.Event{{ID: mesh.NewEventID(), Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "alice"}}},
			{ID: mesh.NewEventID(), Execution: id, Body: mesh.TaskMoved{State: completed}}}
		if err := h.states.Decide(t.Context(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: events}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	first, err := h.Erase(by(t), alice, false)
	if err != nil || !first.More || held(first) != fmt.Sprintf("threads %d", retention.MaxPage) || !h.marked[alice] {
		t.Fatalf("%s, more %v, %v; marked are %v", held(first), first.More, err, h.marked)
	}
	second, err := h.Erase(by(t), alice, false)
	if err != nil || second.More || held(second) != "threads 1" || len(h.marked) > 0 {
		t.Errorf("%s, more %v, %v; marked are %v", held(second), second.More, err, h.marked)
	}
}
