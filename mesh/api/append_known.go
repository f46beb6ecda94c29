package api

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

// logged returns which of the ids the thread has above the Seq after.
func (s *Threads) logged(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, ids []string) (map[string]bool, error) {
	missing, found := make(map[string]bool, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		page, err := s.log.Read(ctx, key, after, scanPage)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if after = e.Seq; missing[e.ID] {
				delete(missing, e.ID)
				found[e.ID] = true
			}
		}
		if len(page) < scanPage {
			break
		}
	}
	return found, nil
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
func (s *Threads) recall(ctx context.Context, t mesh.TenantID, events []*mesh.Event) error {
	if !s.users.Limits() || !slices.ContainsFunc(events, isCall) {
		return nil
	}
	r := s.known.tenant(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	made, err := s.recent(ctx, t, s.now())
	if err != nil {
		return err
	}
	for _, c := range made {
		s.users.Recall(c.payer, c.at)
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
func (s *Threads) recent(ctx context.Context, t mesh.TenantID, now time.Time) ([]call, error) {
	const size = 100
	var made []call
	for before := mesh.Pos(0); ; {
		infos, err := s.log.Threads(ctx, t, before, size)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			before = info.LastPos
			last, err := s.log.Read(ctx, info.Key, info.Last-1, 1)
			if err != nil {
				return nil, err
			}
			if len(last) > 0 && now.Sub(last[0].Time) > s.users.Period()+slack {
				return made, nil
			}
			calls, err := s.lastCalls(ctx, info, now)
			if err != nil {
				return nil, err
			}
			if len(calls) == 0 {
				continue
			}
			err = s.states.With(ctx, info.Key, func(st *thread.State) error {
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
func (s *Threads) lastCalls(ctx context.Context, info threadlog.Info, now time.Time) ([]*mesh.Event, error) {
	var calls []*mesh.Event
	for end := info.Last; end > 0; {
		from := max(end-scanPage, 0)
		page, err := s.log.Read(ctx, info.Key, from, int(end-from))
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(page) {
			age := now.Sub(e.Time)
			switch called := isCall(e); {
			case called && age <= s.users.Period():
				calls = append(calls, e)
			case called, age > s.users.Period()+slack:
				return calls, nil
			}
		}
		end = from
	}
	return calls, nil
}

// payer is whose calls the limit of a user counts.
func payer(t mesh.TenantID, user string) string { return string(t) + "/" + user }
