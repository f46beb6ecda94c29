package retention

import (
	"context"
	"errors"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// MaxPage bounds the threads that one page deletes or counts.
const MaxPage = 1000

const (
	// chunk is how many threads are listed at a time.
	chunk = 64
	// maxLooks bounds the threads that are looked at for one page.
	maxLooks = 2000
	// young is how many threads in a row that are not due end a search: the longest
	// untouched come first, but clocks are set and events may come with times of their own.
	young = 64
)

// errStays says that a thread is not one of those that are meant.
var errStays = errors.New("the thread stays")

// A Query says which threads are meant, and how many at most.
type Query struct {
	Tenant mesh.TenantID
	// Before is what the time of their last event must be before.
	Before time.Time
	// May reports whether the thread with that state is the caller's to delete.
	May func(mesh.ThreadKey, *thread.State) bool
	// CountOnly deletes nothing.
	CountOnly bool
	// Limit is 1 to MaxPage.
	Limit int
	// After is the Next of the page before, and 0 for the first one.
	After mesh.Pos
}

// A Page says what became of threads. Next is 0 if there are no more.
type Page struct {
	Deleted, AtWork int
	Next            mesh.Pos
}

// DeleteIdle deletes a page of the threads that have not been touched for so long. It
// returns an error in the middle of a page as well, of which the threads are deleted to
// which it came.
func (d *Deleter) DeleteIdle(ctx context.Context, q Query) (Page, error) {
	const op = "retention.DeleteIdle"
	found, err := d.find(ctx, search{
		tenant: q.Tenant, after: q.After, limit: q.Limit,
		due: func(last time.Time, _ int) string {
			if last.Before(q.Before) {
				return "asked for"
			}
			return ""
		},
		may: q.May,
	})
	if err != nil {
		return Page{}, mesh.Wrap(op, err)
	}
	page := Page{Deleted: len(found.victims), AtWork: found.atWork, Next: found.next}
	if !q.CountOnly {
		page.Deleted, err = d.deleteAll(ctx, "", found.victims, q.May)
	}
	return page, mesh.Wrap(op, err)
}

// A search is for threads of a tenant with a last position above after.
type search struct {
	tenant mesh.TenantID
	after  mesh.Pos
	limit  int
	// due names the rule by which a thread goes whose last event is of that time, if so
	// many were found before; "" for none.
	due func(last time.Time, found int) string
	may func(mesh.ThreadKey, *thread.State) bool
}

// A victim is a thread that is to go, as it was when it was found.
type victim struct {
	key  mesh.ThreadKey
	last mesh.Seq
	rule string
}

// What a search found, and after which position it goes on, 0 for nowhere.
type found struct {
	victims []victim
	atWork  int
	next    mesh.Pos
}

// find goes through the threads from the longest untouched on.
func (d *Deleter) find(ctx context.Context, s search) (out found, err error) {
	looks, skipped := 0, 0
	for after := s.after; ; {
		infos, err := d.log.Idle(ctx, s.tenant, after, chunk)
		if err != nil {
			return out, err
		}
		for _, info := range infos {
			after = info.LastPos
			last, err := d.log.Read(ctx, info.Key, info.Last-1, 1)
			if mesh.IsCode(err, mesh.DataLoss) { // it is closed, and stays
				continue
			}
			if err != nil {
				return out, err
			}
			rule := ""
			if len(last) > 0 { // it was not deleted just now
				rule = s.due(last[0].Time, len(out.victims))
			}
			if rule == "" {
				if skipped++; skipped == young {
					return out, nil
				}
				continue
			}
			skipped = 0
			if err := d.look(ctx, s, victim{info.Key, info.Last, rule}, &out); err != nil {
				return out, err
			}
			if looks++; looks == maxLooks || len(out.victims) == s.limit {
				out.next = after
				return out, nil
			}
		}
		if len(infos) < chunk {
			return out, nil
		}
	}
}

// look adds the thread to what was found, if it may go. One that is damaged may not.
func (d *Deleter) look(ctx context.Context, s search, v victim, to *found) error {
	err := d.states.With(ctx, v.key, func(st *thread.State) error {
		switch {
		case st.Seq != v.last || !s.may(v.key, st): // something happens in it just now, or it is not meant
		case st.NextTurn() != nil:
			to.atWork++
		default:
			to.victims = append(to.victims, v)
		}
		return nil
	})
	if mesh.IsCode(err, mesh.DataLoss) {
		return nil
	}
	return err
}
