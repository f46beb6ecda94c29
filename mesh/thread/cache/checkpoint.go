package cache

import (
	"context"
	"encoding/binary"
	"log/slog"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// Checkpoints keep folded threads. It may be called concurrently.
type Checkpoints interface {
	// Save keeps the checkpoint of the thread in place of the one before.
	Save(ctx context.Context, key mesh.ThreadKey, checkpoint []byte) error
	// Load returns what was saved last; nil if nothing was, and an error that is not
	// Unavailable if it cannot be read.
	Load(ctx context.Context, key mesh.ThreadKey) ([]byte, error)
	// Forget drops what is kept of the threads.
	Forget(ctx context.Context, keys []mesh.ThreadKey) error
}

// When a thread is saved: it has had so many events since it was last, or so few of them as
// are still worth it when its state goes from memory; and a part of the bytes that the last
// checkpoint had, so that writing those, compressed, costs no more than the log.
const (
	saveEvery = 4096
	saveLast  = 512
	packed    = 4 // by how much a checkpoint is compressed, at least
)

const (
	// saving bounds how many threads wait to be saved. What does not is folded from
	// further back when it is needed.
	saving = 256
	// saveTime is how long what is in memory is saved when Run ends.
	saveTime = 2 * time.Second
)

// An Option changes what New makes.
type Option func(*States)

// WithCheckpoints has folded threads kept, as long as Run runs, and gone on with. The logger
// hears of those that cannot be.
func WithCheckpoints(c Checkpoints, logger *slog.Logger) Option {
	return func(s *States) {
		s.checkpoints, s.logger, s.due = c, logger, make(chan saved, saving)
		s.every, s.last = saveEvery, saveLast
	}
}

// Digests keep what long turns are read by. It may be called concurrently.
type Digests interface {
	Keep(ctx context.Context, key mesh.ThreadKey, turns []thread.Long)
}

// WithDigests has d keep long turns, as threads are saved that have them.
func WithDigests(d Digests) Option { return func(s *States) { s.digests = d } }

// A saved is a thread that is to be saved.
type saved struct {
	key mesh.ThreadKey
	*entry
}

// Run saves threads until ctx is done, and then those in memory for which that is worth it.
// It starts no goroutine.
func (s *States) Run(ctx context.Context) error {
	for s.checkpoints != nil {
		select {
		case of := <-s.due:
			s.save(context.WithoutCancel(ctx), of) // what was begun is not tried again at the end
			s.digest(ctx, of)
		case <-ctx.Done():
			s.saveAll(context.WithoutCancel(ctx))
			return nil
		}
	}
	return nil
}

// digest has the long turns of the thread kept, of which there is more than before.
func (s *States) digest(ctx context.Context, of saved) {
	if s.digests == nil {
		return
	}
	if turns := of.long(mesh.Seq(s.every)); len(turns) > 0 {
		s.digests.Keep(ctx, of.key, turns)
	}
}

// long are the long turns that the entry has.
func (e *entry) long(events mesh.Seq) []thread.Long {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.Long(events)
}

// saveAll saves what is in memory, within saveTime.
func (s *States) saveAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	s.mu.Lock()
	var all []saved
	for key, e := range s.held {
		if e.behind.Load() >= s.last {
			all = append(all, saved{key, e})
		}
	}
	s.mu.Unlock()
	for len(s.due) > 0 {
		all = append(all, <-s.due)
	}
	for _, of := range all {
		if ctx.Err() != nil {
			return
		}
		s.save(ctx, of)
	}
}

// later has the thread saved if it has had so many events since it was last.
func (s *States) later(key mesh.ThreadKey, e *entry, events int64) {
	if s.checkpoints == nil || e.behind.Load() < events || !e.waiting.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.due <- saved{key, e}:
	default:
		e.waiting.Store(false)
	}
}

// save saves the thread as it is in memory: all that its state has is in the log.
func (s *States) save(ctx context.Context, of saved) {
	e := of.entry
	e.waiting.Store(false)
	first, seq, data, err := e.checkpoint()
	if data == nil && err == nil {
		return
	}
	if err == nil {
		err = s.checkpoints.Save(ctx, of.key, data)
	}
	if err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "a thread is not saved; it will be folded from further back in its log", "tenant", of.key.Tenant, "thread", of.key.ID, "err", err)
	}
	e.wasSaved(first, seq, len(data))
	info, there, err := s.log.Info(ctx, of.key)
	if err == nil && (!there || info.FirstPos != first) { // it was deleted meanwhile
		if err := s.checkpoints.Forget(ctx, []mesh.ThreadKey{of.key}); err != nil {
			s.logger.WarnContext(ctx, "what was saved of a deleted thread stays until the next start", "tenant", of.key.Tenant, "thread", of.key.ID, "err", err)
		}
	}
}

// load puts into the entry, which has nothing, what was saved of the thread, if that is of
// what the log has.
func (s *States) load(ctx context.Context, key mesh.ThreadKey, e *entry, info threadlog.Info) error {
	if s.checkpoints == nil || int64(info.Last) < s.last || !e.empty() {
		return nil
	}
	data, err := s.checkpoints.Load(ctx, key)
	if err != nil && (ctx.Err() != nil || mesh.IsCode(err, mesh.Unavailable)) {
		return err
	}
	if err != nil || data == nil {
		s.unusable(ctx, key, err)
		return nil
	}
	pos, st, err := opened(data)
	if err != nil {
		s.unusable(ctx, key, err)
		return nil
	}
	if st.First != info.FirstPos || st.Seq < 1 || st.Seq > info.Last { // of a thread that had the id before
		return nil
	}
	events, err := s.log.Read(ctx, key, st.Seq-1, 1)
	switch {
	case err != nil:
		return err
	case len(events) == 0: // it was deleted just now
	case events[0].Pos != pos:
		s.unusable(ctx, key, mesh.Errorf(mesh.Invalid, "cache.load", "it is of another log: event %d is at %d and not at %d", st.Seq, events[0].Pos, pos))
	default:
		e.goOn(pos, st, len(data))
	}
	return nil
}

// unusable tells that the thread is folded from its log, unless that is because it never was
// saved.
func (s *States) unusable(ctx context.Context, key mesh.ThreadKey, err error) {
	if err != nil {
		s.logger.WarnContext(ctx, "a thread is folded from its first event, for its checkpoint cannot be used", "tenant", key.Tenant, "thread", key.ID, "err", err)
	}
}

// opened is the state in what entry.checkpoint returned, and the position of its last event,
// which are to be compared with the log.
func opened(data []byte) (mesh.Pos, *thread.State, error) {
	pos, used := binary.Varint(data)
	if used <= 0 {
		return 0, nil, mesh.Errorf(mesh.Invalid, "cache.opened", "the checkpoint is too short")
	}
	st, err := thread.Restore(data[used:])
	return mesh.Pos(pos), st, err
}

// checkpoint encodes the entry's state behind its position; nil if that costs more than it is
// worth. It says of which thread it is, and its last event.
func (e *entry) checkpoint() (first mesh.Pos, seq mesh.Seq, data []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Seq == 0 || e.state.Seq == e.saved || e.grown < e.cost/packed {
		return 0, 0, nil, nil
	}
	b, err := e.state.Checkpoint()
	if err == nil {
		data = binary.AppendVarint(make([]byte, 0, len(b)+binary.MaxVarintLen64), int64(e.pos))
		data = append(data, b...)
	}
	e.grown = 0
	return e.state.First, e.state.Seq, data, err
}

// wasSaved notes that the thread was saved up to seq, or could not be, which is not tried again
// at once.
func (e *entry) wasSaved(first mesh.Pos, seq mesh.Seq, size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.First == first {
		e.saved, e.cost = seq, size
		e.behind.Store(int64(e.state.Seq - seq))
	}
}

func (e *entry) empty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.Seq == 0
}

// goOn puts the saved state into the entry, if that has nothing yet.
func (e *entry) goOn(pos mesh.Pos, st *thread.State, size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Seq != 0 || pos <= e.pos {
		return
	}
	e.state, e.pos, e.saved, e.cost, e.grown = st, pos, st.Seq, size, 0
	for seq := range e.ahead {
		if seq <= st.Seq {
			e.passed(seq)
		}
	}
	if next := e.ahead[st.Seq+1]; next != nil {
		e.apply(next)
	}
}
