package retention

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Dependent keeps something about threads beside their log, which goes when they go. Its
// methods may be called concurrently, also while it works.
type Dependent interface {
	// Forget removes what is kept about threads that were deleted. It is called again for
	// what was forgotten, or never known. What belongs to a thread that was begun since
	// under the same id stays.
	Forget(ctx context.Context, keys []mesh.ThreadKey) error
	// Kept yields the threads about which something is kept that outlives the process, in
	// any order, some more than once.
	Kept(ctx context.Context) iter.Seq2[mesh.ThreadKey, error]
}

// A Record is told of deletions: an *audit.Recorder.
type Record interface {
	// Deletes records that the threads are about to be deleted, for the caller of ctx or,
	// if rule is not "", by that rule. They are not deleted if it fails. ended records
	// those that were.
	Deletes(ctx context.Context, rule string, keys []mesh.ThreadKey) (ended func([]audit.Deletion), err error)
}

// A Deleter deletes threads. Use NewDeleter. It may be used concurrently.
type Deleter struct {
	log        *threadlog.Log
	states     *cache.States
	record     Record
	logger     *slog.Logger
	dependents []Dependent
}

// NewDeleter returns a Deleter of the threads in log, which takes along what the dependents
// keep about them.
func NewDeleter(log *threadlog.Log, states *cache.States, record Record, logger *slog.Logger, dependents ...Dependent) *Deleter {
	return &Deleter{log: log, states: states, record: record, logger: logger, dependents: dependents}
}

// Delete removes a thread for good, unless may, which is given its state, has an error. It
// returns the hash of its last event; nil where events have none. The caller records it.
// Errors: that of may; NotFound; Precondition if an agent is at work on the thread.
func (d *Deleter) Delete(ctx context.Context, key mesh.ThreadKey, may func(*thread.State) error) ([]byte, error) {
	hash, err := d.remove(ctx, key, may)
	if err != nil {
		return nil, err
	}
	d.forget(ctx, []mesh.ThreadKey{key})
	return hash, nil
}

// remove removes the thread, and nothing that is kept about it.
func (d *Deleter) remove(ctx context.Context, key mesh.ThreadKey, may func(*thread.State) error) (hash []byte, err error) {
	const op = "retention.Delete"
	// No message is taken between the check and the end, whose turn would then be
	// without a thread.
	err = d.states.Delete(ctx, key, func(st *thread.State) error {
		if st.Seq == 0 {
			return mesh.ThreadNotFound(op)
		}
		if err := may(st); err != nil {
			return err
		}
		if st.NextTurn() != nil {
			return mesh.Errorf(mesh.Precondition, op, "an agent is working on the thread; cancel its task first")
		}
		hash = d.log.LastHash(key)
		return nil
	})
	return hash, mesh.Wrap(op, err)
}

// forget has all dependents forget threads that were deleted. What fails is left to
// Reconcile.
func (d *Deleter) forget(ctx context.Context, keys []mesh.ThreadKey) {
	ctx = context.WithoutCancel(ctx)
	for _, dep := range d.dependents {
		if err := dep.Forget(ctx, keys); err != nil {
			d.logger.WarnContext(ctx, "something of deleted threads is left until the next start", "threads", len(keys), "err", err)
		}
	}
}

// deleteAll deletes the threads that are as they were found, and still may go, and returns
// how many that were. It ends early when ctx does.
func (d *Deleter) deleteAll(ctx context.Context, rule string, victims []victim, may func(mesh.ThreadKey, *thread.State) bool) (int, error) {
	if len(victims) == 0 {
		return 0, nil
	}
	keys := make([]mesh.ThreadKey, 0, len(victims))
	for _, v := range victims {
		keys = append(keys, v.key)
	}
	ended, err := d.record.Deletes(ctx, rule, keys)
	if err != nil {
		return 0, err
	}
	var gone []audit.Deletion
	keys = keys[:0]
	for _, v := range victims {
		hash, failed := d.remove(ctx, v.key, func(st *thread.State) error {
			if st.Seq != v.last || !may(v.key, st) {
				return errStays
			}
			return nil
		})
		if failed == nil {
			gone, keys = append(gone, audit.Deletion{Thread: v.key, LastHash: hash}), append(keys, v.key)
		} else if !stays(failed) {
			err = failed
			break
		}
	}
	if len(gone) > 0 {
		ended(gone)
		d.forget(ctx, keys)
	}
	return len(gone), err
}

// stays reports whether a thread is not deleted because something came in between, or because
// it is closed: it is damaged, and nothing of it may go unseen.
func stays(err error) bool {
	return errors.Is(err, errStays) || mesh.IsCode(err, mesh.NotFound) || mesh.IsCode(err, mesh.Precondition) || mesh.IsCode(err, mesh.DataLoss)
}

// Reconcile has forgotten what is kept about threads that are not there: a process was
// killed when it had deleted them. It is called once, when the dependents work.
func (d *Deleter) Reconcile(ctx context.Context) error {
	const op = "retention.Reconcile"
	for _, dep := range d.dependents {
		var dead []mesh.ThreadKey
		seen := map[mesh.ThreadKey]bool{}
		for key, err := range dep.Kept(ctx) {
			if err != nil {
				return mesh.Wrap(op, err)
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			_, there, err := d.log.Info(ctx, key)
			if err != nil {
				return mesh.Wrap(op, err)
			}
			if !there {
				dead = append(dead, key)
			}
		}
		if len(dead) == 0 {
			continue
		}
		d.logger.InfoContext(ctx, "removing what is left of deleted threads", "threads", len(dead))
		if err := dep.Forget(ctx, dead); err != nil {
			return mesh.Wrap(op, err)
		}
	}
	return nil
}
