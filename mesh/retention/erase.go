package retention

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A Holder keeps something of users and tenants beside the threads. Its methods may be called
// concurrently, also while it works.
type Holder interface {
	// Keeps names what it keeps, as no other Holder does: "mail".
	Keeps() string
	// Erase removes what it keeps of the owner, who has a user, or counts it alone, and
	// returns how many things there were of each kind, none of which may be 0 or there at
	// all. What users of a tenant share is nobody's, and stays. It may be cut short and is
	// called again until nothing is left.
	Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error)
	// Export gives put each thing that it keeps of the tenant, whosever it is, as it is at
	// one moment and with its bytes, which put reads before it returns; and returns what
	// it leaves behind. It has nothing of another tenant, and ends with the error of put.
	Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error)
	// Import keeps a thing that Export gave, here or elsewhere, as a whole and durably, and
	// reports whether it is new: one that it has of that kind and name stays as it is. It
	// has no other effect. Errors: Invalid for what is no such thing of the tenant's;
	// Precondition and Exhausted for what it does not keep; Unavailable.
	Import(ctx context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (fresh bool, err error)
}

// EraserConfig is what an [Eraser] is made of. All is required.
type EraserConfig struct {
	Deleter *Deleter
	// Access says whose a thread is.
	Access func(ctx context.Context, key mesh.ThreadKey) (thread.Access, error)
	// Cancel ends a task, of whomever, for the caller of ctx: that of an *edge.Edge.
	Cancel func(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error)
	// Mark says durably that the user is being erased since that time, so that nothing is
	// begun for the user any more; the zero time ends that.
	Mark func(ctx context.Context, t mesh.TenantID, user string, since time.Time) error
	// Revoke ends the user's credentials.
	Revoke func(ctx context.Context, o mesh.Owner) error
	// Holders are all that keep something of users beside the threads.
	Holders []Holder
}

// An Eraser removes what is kept of users. Use NewEraser. It may be used concurrently.
type Eraser struct {
	EraserConfig
	mu   sync.Mutex
	busy map[mesh.Owner]chan struct{} // who is being erased; closed when that call has ended
}

// NewEraser returns an Eraser.
func NewEraser(c EraserConfig) *Eraser {
	return &Eraser{EraserConfig: c, busy: map[mesh.Owner]chan struct{}{}}
}

// The kinds of what an Eraser removes itself.
const (
	heldTasks   = "tasks canceled"
	heldShared  = "shares in threads of others"
	heldThreads = "threads"
	heldDamaged = "damaged threads, which stay"
)

// An Erasure says what was removed, or would be. With More the work is not at its end, and
// goes on when Erase is called again.
type Erasure struct {
	Held []mesh.Held
	More bool
}

func (e *Erasure) add(what string, n int) {
	at := slices.IndexFunc(e.Held, func(h mesh.Held) bool { return h.What == what })
	switch {
	case n == 0:
	case at < 0:
		e.Held = append(e.Held, mesh.Held{What: what, Count: n})
	default:
		e.Held[at].Count += n
	}
}

func (e *Erasure) count() (n int) {
	for _, h := range e.Held {
		n += h.Count
	}
	return n
}

// rounds bounds how often is looked for what came while the rest went: of what was in flight
// when the user was marked.
const rounds = 8

// Erase removes what there is of the owner, for the caller of ctx, of at most MaxPage threads,
// or counts it alone. The user is marked before anything goes, and until nothing is found any
// more. An error leaves the mark: the user begins nothing until Erase is called again and
// comes to its end. Errors: Invalid for an owner without a user; Timeout or Precondition if
// an agent does not let go of its work; DataLoss if all went but threads that are damaged;
// those of the stores.
func (e *Eraser) Erase(ctx context.Context, o mesh.Owner, countOnly bool) (all Erasure, err error) {
	const op = "retention.Erase"
	if o.User == "" {
		return all, mesh.InvalidField(op, "user", "is missing; name whom to erase")
	}
	if countOnly {
		_, err := e.pass(ctx, o, true, &all)
		return all, mesh.Wrap(op, err)
	}
	end, err := e.alone(ctx, o)
	if err != nil {
		return all, mesh.Wrap(op, err)
	}
	defer end()
	if err := e.Mark(ctx, o.Tenant, o.User, time.Now()); err != nil {
		return all, mesh.Wrap(op, err)
	}
	for range rounds {
		before := all.count()
		found, err := e.pass(ctx, o, false, &all)
		if err != nil || all.More {
			return all, mesh.Wrap(op, err)
		}
		if all.count() > before || found.left {
			continue
		}
		if found.damaged > 0 {
			return all, mesh.Errorf(mesh.DataLoss, op, "all else of the user %s is removed, but %d conversations are damaged that are the user's, or of which nobody can tell whose they are; "+
				"nothing is begun for that user until the node's operator has restored a copy and this was called again", o.User, found.damaged)
		}
		// From here on the user is as one who never was; only credentials are left.
		if err := e.Revoke(ctx, o); err != nil {
			return all, mesh.Wrap(op, err)
		}
		return all, mesh.Wrap(op, e.Mark(ctx, o.Tenant, o.User, time.Time{}))
	}
	return all, mesh.Errorf(mesh.Precondition, op, "something of the user %s is written again and again; end what does that, and call again", o.User)
}

// alone waits until nobody else erases the owner here, who would take away files and the mark
// while they are needed, and says how others are let in.
func (e *Eraser) alone(ctx context.Context, o mesh.Owner) (end func(), err error) {
	for {
		e.mu.Lock()
		other := e.busy[o]
		if other == nil {
			mine := make(chan struct{})
			e.busy[o] = mine
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.busy, o)
				close(mine)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pass removes, or counts, what there is now, and returns what it found.
func (e *Eraser) pass(ctx context.Context, o mesh.Owner, countOnly bool, to *Erasure) (found threadsOf, err error) {
	found, err = e.look(ctx, o)
	if err != nil {
		return found, err
	}
	if countOnly {
		to.add(heldTasks, len(found.tasks))
		to.add(heldShared, len(found.shared))
		to.add(heldThreads, len(found.owned))
		to.add(heldDamaged, found.damaged)
		return found, e.holders(ctx, o, true, to)
	}
	for _, task := range found.tasks {
		if err := e.cancel(ctx, task); err != nil {
			return found, err
		}
		to.add(heldTasks, 1)
	}
	if err := e.holders(ctx, o, false, to); err != nil {
		return found, err
	}
	for _, key := range found.shared {
		if err := e.leave(ctx, o, key); err != nil {
			return found, err
		}
		to.add(heldShared, 1)
	}
	found.left, err = e.threads(ctx, o, found.owned, to)
	return found, err
}

func (e *Eraser) holders(ctx context.Context, o mesh.Owner, countOnly bool, to *Erasure) error {
	for _, h := range e.Holders {
		held, err := h.Erase(ctx, o, countOnly)
		for _, one := range held {
			to.add(one.What, one.Count)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What a user has of threads.
type threadsOf struct {
	owned, shared []mesh.ThreadKey
	tasks         []mesh.ExecutionID // that are not over: all in owned ones, the user's in others
	damaged       int                // threads beside these that are closed, and are the user's or may be
	left          bool               // some of owned did not go, since something came in between
}

// look goes through the threads of the tenant.
func (e *Eraser) look(ctx context.Context, o mesh.Owner) (found threadsOf, err error) {
	log := e.Deleter.log
	for before, more := mesh.Pos(0), true; more; {
		infos, err := log.Threads(ctx, o.Tenant, before, chunk)
		if err != nil {
			return found, err
		}
		for _, info := range infos {
			before = info.LastPos
			if err := e.sort(ctx, o, info.Key, &found); mesh.IsCode(err, mesh.DataLoss) {
				found.damaged++
			} else if err != nil {
				return found, err
			}
		}
		more = len(infos) == chunk
	}
	// And what the user began in threads of others and takes no part in any more.
	for after, more := mesh.Pos(0), true; more; {
		list, err := log.Unfinished(ctx, after, chunk)
		if err != nil {
			return found, err
		}
		for _, u := range list {
			if after = u.Pos; u.Key.Tenant == o.Tenant {
				err := e.open(ctx, o, u.Key, &found)
				if err != nil && !mesh.IsCode(err, mesh.DataLoss) { // nothing goes on in a damaged one
					return found, err
				}
			}
		}
		more = len(list) == chunk
	}
	return found, nil
}

// sort adds the thread, if it is one of the user's, with its open tasks. The error is DataLoss
// for one that is damaged and is the user's, or may be: what said so may be what is lost.
func (e *Eraser) sort(ctx context.Context, o mesh.Owner, key mesh.ThreadKey, to *threadsOf) error {
	a, err := e.Access(ctx, key)
	if err != nil {
		return err
	}
	shared := slices.Contains(a.Participants, o.User)
	switch {
	case a.Owner == "" && !shared:
		return e.whole(ctx, key)
	case a.Owner != o.User && !shared:
		return nil
	}
	if err := e.open(ctx, o, key, to); err != nil {
		return err
	}
	if a.Owner == o.User {
		to.owned = append(to.owned, key)
	} else {
		to.shared = append(to.shared, key)
	}
	return nil
}

// whole returns a DataLoss error for a thread that is damaged, also if its state is in memory.
func (e *Eraser) whole(ctx context.Context, key mesh.ThreadKey) error {
	_, err := e.Deleter.log.Read(ctx, key, 0, 1)
	return err
}

// open adds the tasks of the thread that are to be canceled.
func (e *Eraser) open(ctx context.Context, o mesh.Owner, key mesh.ThreadKey, to *threadsOf) error {
	if err := e.whole(ctx, key); err != nil {
		return err
	}
	return e.Deleter.states.With(ctx, key, func(st *thread.State) error {
		for _, t := range st.Turns() {
			if !mesh.Terminal(t.State) && (t.User == o.User || st.Owner == o.User) && !slices.Contains(to.tasks, t.ID) {
				to.tasks = append(to.tasks, t.ID)
			}
		}
		return nil
	})
}

// cancel ends the task for the caller, who may do so whoever takes part in it.
func (e *Eraser) cancel(ctx context.Context, task mesh.ExecutionID) error {
	call, _ := mesh.CallFrom(ctx)
	p := call.Principal
	as := mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: p.Tenant, User: p.User, Roles: []mesh.Role{mesh.RoleTenantAdmin}}})
	_, err := e.Cancel(as, &a2apb.CancelTaskRequest{Id: string(task)})
	if mesh.IsCode(err, mesh.Precondition) || mesh.IsCode(err, mesh.NotFound) { // it is over, or gone
		return nil
	}
	return err
}

// leave has the user take part in the thread no more.
func (e *Eraser) leave(ctx context.Context, o mesh.Owner, key mesh.ThreadKey) error {
	call, _ := mesh.CallFrom(ctx)
	return e.Deleter.states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
		others := slices.DeleteFunc(slices.Clone(st.Participants), func(p string) bool { return p == o.User })
		if len(others) == len(st.Participants) {
			return cache.Decision{}, nil
		}
		return cache.Decision{Events: []*mesh.Event{{ID: mesh.NewEventID(), Actor: "user:" + call.Principal.User,
			Body: mesh.ThreadShared{Readable: st.Readable, Participants: others}}}}, nil
	})
}

// step is how many threads are deleted at a time.
const step = 50

// threads deletes the user's threads, at most MaxPage of them, and reports whether some are left
// of these.
func (e *Eraser) threads(ctx context.Context, o mesh.Owner, keys []mesh.ThreadKey, to *Erasure) (left bool, err error) {
	to.More = len(keys) > MaxPage
	may := func(_ mesh.ThreadKey, st *thread.State) bool { return st.Owner == o.User }
	for page := range slices.Chunk(keys[:min(len(keys), MaxPage)], step) {
		var due found
		for _, key := range page {
			info, ok, err := e.Deleter.log.Info(ctx, key)
			if err != nil {
				return left, err
			}
			if !ok {
				continue
			}
			if err := e.Deleter.look(ctx, search{may: may}, victim{key: key, last: info.Last}, &due); err != nil {
				return left, err
			}
		}
		if due.atWork > 0 {
			return left, mesh.Errorf(mesh.Precondition, "retention.threads", "an agent is still at work in %d of the user's threads; call again in a moment", due.atWork)
		}
		n, err := e.Deleter.deleteAll(ctx, "", due.victims, may)
		to.add(heldThreads, n)
		left = left || n < len(page)
		if err != nil {
			return left, err
		}
	}
	return left, nil
}
