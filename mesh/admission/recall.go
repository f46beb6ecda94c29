package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// scanPage is how many events are read at a time to look for some of them.
const scanPage = 256

// unknownIDs says that a ruling depends on which of the ids the thread has above
// a Seq. The thread is not held while that is looked up.
type unknownIDs struct {
	after mesh.Seq
	ids   []string
}

func (*unknownIDs) Error() string { return "ids are to be looked up" }

// look returns which of the ids the thread has above the Seq, or that they are to
// be looked up first.
func (r *request) look(after mesh.Seq, ids []string) (map[string]bool, error) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		there, asked := r.logged[id]
		if !asked {
			return nil, &unknownIDs{after, ids}
		}
		if there {
			known[id] = true
		}
	}
	return known, nil
}

// lookUp notes which of the ids the thread has. It reads all of the thread from
// there on, once for each request.
func (c *Controller) lookUp(ctx context.Context, r *request, need *unknownIDs) error {
	missing := len(need.ids)
	for _, id := range need.ids {
		r.logged[id] = false
	}
	for after := need.after; missing > 0; {
		page, err := c.log.Read(ctx, r.grant.Key(), after, scanPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			after = e.Seq
			if there, asked := r.logged[e.ID]; asked && !there {
				r.logged[e.ID] = true
				missing--
			}
		}
		if len(page) < scanPage {
			break
		}
	}
	return nil
}

// recalled has the tenants whose users' calls before the start of the node are
// counted.
type recalled struct {
	mu sync.Mutex
	of map[mesh.TenantID]*recall
}

type recall struct {
	mu   sync.Mutex
	done bool
}

func (r *recalled) tenant(t mesh.TenantID) *recall {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[mesh.TenantID]*recall{}
	}
	if r.of[t] == nil {
		r.of[t] = new(recall)
	}
	return r.of[t]
}

// slack is how far the times in a thread may be behind the clock of the node:
// they are those of its agents' clocks.
const slack = time.Hour

// recall counts, before the first call of the tenant since the node started,
// the calls that the log has of its users within their window. Those of threads
// that were deleted are forgotten.
func (c *Controller) recall(ctx context.Context, t mesh.TenantID, events []*mesh.Event) error {
	if !c.users.Limits() || !slices.ContainsFunc(events, isCall) {
		return nil
	}
	r := c.known.tenant(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	made, err := c.recent(ctx, t, c.now())
	if err != nil {
		return err
	}
	for _, m := range made {
		c.users.Recall(m.payer, m.at)
	}
	r.done = true
	return nil
}

func isCall(e *mesh.Event) bool {
	_, ok := e.Body.(mesh.SkillCalled)
	return ok
}

// A call is one of a skill that was made for a user.
type call struct {
	payer string
	at    time.Time
}

// recent returns the calls of the tenant's users within their window. It folds
// only the threads that have some, and those stay with the states.
func (c *Controller) recent(ctx context.Context, t mesh.TenantID, now time.Time) ([]call, error) {
	const size = 100
	var made []call
	for before := mesh.Pos(0); ; {
		infos, err := c.log.Threads(ctx, t, before, size)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			before = info.LastPos
			last, err := c.log.Read(ctx, info.Key, info.Last-1, 1)
			if err != nil {
				return nil, err
			}
			if len(last) > 0 && now.Sub(last[0].Time) > c.users.Period()+slack {
				return made, nil
			}
			calls, err := c.lastCalls(ctx, info, now)
			if err != nil {
				return nil, err
			}
			if len(calls) == 0 {
				continue
			}
			err = c.states.With(ctx, info.Key, func(st *thread.State) error {
				for _, e := range calls {
					if x := st.Execution(e.Execution); x != nil {
						made = append(made, call{payer(t, x.User), e.Time})
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		if len(infos) < size {
			return made, nil
		}
	}
}

// lastCalls returns the events of the thread's calls within the window. It reads
// backwards, until the thread is older than that: a call has the node's time,
// any other event may be slack behind.
func (c *Controller) lastCalls(ctx context.Context, info threadlog.Info, now time.Time) ([]*mesh.Event, error) {
	var calls []*mesh.Event
	for end := info.Last; end > 0; {
		from := max(end-scanPage, 0)
		page, err := c.log.Read(ctx, info.Key, from, int(end-from))
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(page) {
			age := now.Sub(e.Time)
			switch called := isCall(e); {
			case called && age <= c.users.Period():
				calls = append(calls, e)
			case called, age > c.users.Period()+slack:
				return calls, nil
			}
		}
		end = from
	}
	return calls, nil
}

// payer is whose calls the limit of a user counts.
func payer(t mesh.TenantID, user string) string { return string(t) + "/" + user }
