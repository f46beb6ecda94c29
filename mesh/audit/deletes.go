package audit

import (
	"context"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// ActionRetention is the action of records of threads that the node deletes by a rule.
const ActionRetention = "thread.retention"

// A Deletion is a thread that was deleted, and the hash of its last event; nil where events
// have none.
type Deletion struct {
	Thread   mesh.ThreadKey
	LastHash []byte
}

// Deletes records that the threads are about to be deleted: for the caller of ctx or, if rule
// is not "", by the node because of that rule. It is on disk when it returns nil. ended
// records which of them were. Both take a sync or two, for however many.
func (r *Recorder) Deletes(ctx context.Context, rule string, keys []mesh.ThreadKey) (ended func([]Deletion), err error) {
	action := meshv1.ThreadService_DeleteThreads_FullMethodName
	if rule != "" {
		action = ActionRetention
	}
	record := func(key mesh.ThreadKey, d meshv1.AuditRecord_Decision) *meshv1.AuditRecord {
		rec := r.record(ctx, action, d)
		rec.TenantId, rec.Resource = string(key.Tenant), key.ID
		if rule != "" {
			rec.Policy = rule
		}
		return rec
	}
	begun := make([]*meshv1.AuditRecord, 0, len(keys))
	of := make(map[mesh.ThreadKey]*meshv1.AuditRecord, len(keys))
	for _, key := range keys {
		rec := record(key, meshv1.AuditRecord_DECISION_ALLOWED)
		begun, of[key] = append(begun, rec), rec
	}
	if err := r.o.Store.Append(begun...); err != nil {
		return nil, mesh.Wrap("audit.Deletes", err)
	}
	return func(gone []Deletion) {
		done := make([]*meshv1.AuditRecord, 0, len(gone))
		for _, g := range gone {
			rec := record(g.Thread, meshv1.AuditRecord_DECISION_DONE)
			rec.OfSeq, rec.LastHash = of[g.Thread].GetSeq(), g.LastHash
			done = append(done, rec)
		}
		if err := r.o.Store.Append(done...); err != nil { // that they begin is recorded
			r.o.Logger.ErrorContext(ctx, "the end of deletions was not recorded", "threads", len(done), "err", err)
		}
	}, nil
}

// deletes reports whether the action of a record is the deletion of the thread that it names.
func deletes(action string) bool {
	switch action {
	case meshv1.ThreadService_DeleteThread_FullMethodName, meshv1.ThreadService_DeleteThreads_FullMethodName, ActionRetention:
		return true
	}
	return false
}
