package audit

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Threads are those that a record is about: that which it names, or of which it names an
// execution, and that in which an agent was at work.
func Threads(rec *meshv1.AuditRecord) (ids []string) {
	if id, err := mesh.ParseThreadID(rec.GetResource()); err == nil {
		ids = append(ids, id)
	} else if id, ok := mesh.ExecutionID(rec.GetResource()).ThreadID(); ok {
		ids = append(ids, id)
	}
	if id, ok := mesh.ExecutionID(rec.GetExecutionId()).ThreadID(); ok && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}

// index notes the threads that the record is about: some 60 bytes for each thread, and 8 for
// each record. The caller holds mu, or nobody else has the store.
func (s *Store) index(rec *meshv1.AuditRecord) {
	if rec.GetTenantId() == "" {
		return
	}
	for _, id := range Threads(rec) {
		at := s.hashOf(mesh.ThreadKey{Tenant: mesh.TenantID(rec.GetTenantId()), ID: id})
		s.about[at] = append(s.about[at], rec.GetSeq())
		if deletes(rec.GetAction()) && rec.GetDecision() == meshv1.AuditRecord_DECISION_DONE {
			s.deleted[at] = true
		}
	}
}

// Deleted reports whether the record has it that the thread, or another one with its id before
// it, was deleted.
func (s *Store) Deleted(key mesh.ThreadKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[s.hashOf(key)]
}

func (s *Store) hashOf(key mesh.ThreadKey) uint64 { return maphash.Comparable(s.seed, key) }

// About returns the records above that seq which are about the thread, and of its tenant, in
// order, at most limit.
func (s *Store) About(ctx context.Context, key mesh.ThreadKey, after int64, limit int) ([]*meshv1.AuditRecord, error) {
	s.mu.Lock()
	all := s.about[s.hashOf(key)]
	s.mu.Unlock()
	i, found := slices.BinarySearch(all, after)
	if found {
		i++
	}
	recs, err := s.read(ctx, all[i:min(len(all), i+limit)])
	return slices.DeleteFunc(recs, func(rec *meshv1.AuditRecord) bool { // of a thread with the same hash
		return rec.GetTenantId() != string(key.Tenant) || !slices.Contains(Threads(rec), key.ID)
	}), err
}

// lateness is how long after it happened something is recorded, at most: what is counted is
// written once a minute.
const lateness = 10 * time.Minute

// Before returns the seq of a record before which there is nothing from that time on, or 0.
// It reads a few records, and takes it that the node's clock was not set back by minutes.
func (s *Store) Before(ctx context.Context, t time.Time) (int64, error) {
	low, high := int64(0), s.log.Last()
	for low < high {
		mid := (low + high) / 2
		recs, err := s.Read(ctx, mid, 1)
		if err != nil {
			return 0, err
		}
		if len(recs) == 0 || !recs[0].GetTime().AsTime().Before(t.Add(-lateness)) {
			high = mid
		} else {
			low = recs[0].GetSeq()
		}
	}
	return low, nil
}
