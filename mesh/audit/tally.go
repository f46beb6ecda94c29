package audit

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/alarm"
)

// A tally counts what happens often. The first of a kind is to be recorded at once, and
// then how many there were, when they are counted out.
type tally struct {
	most int
	seen map[string]*counted
}

type counted struct {
	last *meshv1.AuditRecord
	more int64 // since the last one was recorded
}

func newTally(most int) tally { return tally{most, map[string]*counted{}} }

// add counts the record under the key; true if it is to be recorded now. When there are
// too many keys, what is new counts as one that has no caller.
func (t *tally) add(key string, rec *meshv1.AuditRecord) (*meshv1.AuditRecord, bool) {
	c := t.seen[key]
	if c == nil && len(t.seen) >= t.most {
		key, rec = "", &meshv1.AuditRecord{Time: rec.Time, Action: "others", Decision: rec.Decision}
		c = t.seen[key]
	}
	if c == nil {
		t.seen[key] = &counted{last: rec}
		return rec, true
	}
	c.last = rec
	c.more++
	return nil, false
}

// count returns what happened since it was recorded, and forgets who did nothing more.
func (t *tally) count() (recs []*meshv1.AuditRecord) {
	for key, c := range t.seen {
		if c.more == 0 {
			delete(t.seen, key)
			continue
		}
		rec := proto.CloneOf(c.last)
		rec.Count, c.more = c.more, 0
		recs = append(recs, rec)
	}
	return recs
}

// note counts the record.
func (r *Recorder) note(t *tally, key string, rec *meshv1.AuditRecord) {
	r.mu.Lock()
	rec, now := t.add(key, rec)
	r.mu.Unlock()
	if now {
		r.queue(rec)
	}
}

// queue has Run write the record.
func (r *Recorder) queue(rec *meshv1.AuditRecord) {
	r.mu.Lock()
	r.due = append(r.due, rec)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes what is noted, and makes checkpoints, until ctx is done, and then once more.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(r.o.Every)
	defer tick.Stop()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	r.checkpoint(ctx) // of what a process did that died
	for {
		select {
		case <-ctx.Done():
			r.round(context.WithoutCancel(ctx))
			return
		case <-r.wake:
			r.write(ctx)
		case <-tick.C:
			r.round(ctx)
		case <-retry.C:
			if r.failed {
				r.keep(ctx)
			}
		}
	}
}

// round counts out, and makes a checkpoint.
func (r *Recorder) round(ctx context.Context) {
	r.mu.Lock()
	r.due = append(append(r.due, r.refusals.count()...), r.reads.count()...)
	r.mu.Unlock()
	r.write(ctx)
	r.checkpoint(ctx)
}

// write brings what is due to the store. What cannot be written is told to the logger:
// callers do not wait for it, and a disk that is full refuses acts anyway.
func (r *Recorder) write(ctx context.Context) {
	r.mu.Lock()
	due := r.due
	r.due = nil
	r.mu.Unlock()
	if err := r.o.Store.Append(due...); err != nil {
		r.o.Logger.ErrorContext(ctx, "refusals were not recorded", "records", len(due), "err", err)
	}
}

// retryEvery is how often it is tried again to keep a checkpoint elsewhere.
const retryEvery = time.Second

func (r *Recorder) checkpoint(ctx context.Context) {
	c, err := r.o.Store.Checkpoint(r.o.Signer, r.o.Head(), r.o.Now())
	r.o.Alarms.Report(ctx, alarm.Source{Setting: "audit"}, "the record goes on without a checkpoint", err)
	if c != nil {
		r.unkept = c
	}
	r.keep(ctx)
}

// keep keeps the last checkpoint elsewhere, unless it is there; it covers those before it.
func (r *Recorder) keep(ctx context.Context) {
	if r.o.Checkpoints == "" {
		return
	}
	err := keep(r.o.Checkpoints, r.unkept)
	if r.failed = err != nil; !r.failed {
		r.unkept = nil
	}
	r.o.Alarms.Report(ctx, alarm.Source{Setting: "audit.checkpoints"}, "checkpoints are in the record alone; the last one is kept elsewhere when that can be", err)
}
