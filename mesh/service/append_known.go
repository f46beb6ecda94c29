package service

import (
	"context"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// scanPage is how many events are read at a time to look for some of them.
const scanPage = 256

// logged reports whether the thread has all the events, by their ids, above the
// Seq after.
func (s *Threads) logged(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, events []*mesh.Event) (bool, error) {
	missing := make(map[string]bool, len(events))
	for _, e := range events {
		missing[e.ID] = true
	}
	for len(missing) > 0 {
		page, err := s.log.Read(ctx, key, after, scanPage)
		if err != nil || len(page) == 0 {
			return false, err
		}
		for _, e := range page {
			delete(missing, e.ID)
			after = e.Seq
		}
	}
	return true, nil
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
	if !s.users.Limits() || !calls(events) {
		return nil
	}
	r := s.known.tenant(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	type call struct {
		payer string
		at    time.Time
	}
	var made []call
	now := s.now()
	err := s.recent(ctx, t, now.Add(-s.users.Period()-slack), func(st *thread.State, e *mesh.Event) {
		if _, ok := e.Body.(mesh.SkillCalled); !ok || now.Sub(e.Time) > s.users.Period() {
			return
		}
		if x := st.Execution(e.Execution); x != nil {
			made = append(made, call{payer(t, x.User), e.Time})
		}
	})
	if err != nil {
		return err
	}
	for _, c := range made {
		s.users.Recall(c.payer, c.at)
	}
	r.done = true
	return nil
}

func calls(events []*mesh.Event) bool {
	for _, e := range events {
		if _, ok := e.Body.(mesh.SkillCalled); ok {
			return true
		}
	}
	return false
}

// recent calls f with the events of the tenant's threads that were touched after
// since, and each time with the thread folded up to the event.
func (s *Threads) recent(ctx context.Context, t mesh.TenantID, since time.Time, f func(*thread.State, *mesh.Event)) error {
	const size = 100
	for before := mesh.Pos(0); ; {
		infos, err := s.log.Threads(ctx, t, before, size)
		if err != nil {
			return err
		}
		for _, info := range infos {
			before = info.LastPos
			last, err := s.log.Read(ctx, info.Key, info.Last-1, 1)
			if err != nil {
				return err
			}
			if len(last) > 0 && last[0].Time.Before(since) {
				return nil
			}
			if err := s.fold(ctx, info.Key, f); err != nil {
				return err
			}
		}
		if len(infos) < size {
			return nil
		}
	}
}

func (s *Threads) fold(ctx context.Context, key mesh.ThreadKey, f func(*thread.State, *mesh.Event)) error {
	for st := new(thread.State); ; {
		page, err := s.log.Read(ctx, key, st.Seq, scanPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			st.Apply(e)
			f(st, e)
		}
	}
}

// payer is whose calls the limit of a user counts.
func payer(t mesh.TenantID, user string) string { return string(t) + "/" + user }
