// Package digest keeps what snapshots of long turns are made of among the values of the mesh, so
// that who reads a task of a hundred thousand events reads a few.
//
// # What it guarantees
//
// [Keeper.Read] yields events of which a [thread.Snapshot] of the turn is made as it is of those
// of the log. What is kept is a cache of the log, by [Chunk]s of which each goes on where the one
// before ends. It is never ahead of the log: a chunk is made of what was read there, and of
// another log, of which its last event is not, nothing is used. It goes with its thread.
//
// # What may run concurrently
//
// Everything. Of several who make the same chunk any may win: it is the same. It starts no
// goroutine.
//
// It does not know what a task is made of, nor who reads it.
package digest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// A chunk is of so many events, or of fewer that have so many bytes.
const (
	Every    = 4096
	maxBytes = 128 << 10
	page     = 256 // events that are read of the log at a time
)

// A Log has the events: a *threadlog.Log.
type Log interface {
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error)
	Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error)
}

// A Chunk names a kept value, which is of the events of a turn from one to another.
type Chunk struct {
	Turn     mesh.ExecutionID
	From, To mesh.Seq
}

// Values keep chunks: a *checkpoint.Store.
type Values interface {
	// SaveChunk keeps the chunk.
	SaveChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64, data []byte) error
	// Chunks calls f with where the chunks of the turn begin and end, in order.
	Chunks(ctx context.Context, key mesh.ThreadKey, turn string, f func(from, to int64)) error
	// LoadChunk returns a chunk; an error that is not Unavailable if it cannot be read.
	LoadChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64) ([]byte, error)
	// Forget drops what is kept of the threads.
	Forget(ctx context.Context, keys []mesh.ThreadKey) error
}

// Keeper keeps digests. Use New.
type Keeper struct {
	log    Log
	values Values
	logger *slog.Logger
}

// New returns a Keeper of digests of the log. The logger hears of those that cannot be kept.
func New(log Log, values Values, logger *slog.Logger) *Keeper { return &Keeper{log, values, logger} }

// errStop ends a reading whose reader wants no more.
var errStop = errors.New("the reader has what it wants")

// Keep makes the chunks that are missing of the turns, each as it is up to where it ends now.
func (k *Keeper) Keep(ctx context.Context, key mesh.ThreadKey, turns []thread.Long) {
	for _, t := range turns {
		if _, err := k.Read(ctx, key, t, t.To, func(*mesh.Event) bool { return true }); err != nil && ctx.Err() == nil {
			k.logger.WarnContext(ctx, "a long task is not kept in short; it will be read from its log", "tenant", key.Tenant, "thread", key.ID, "task", t.Turn, "err", err)
		}
	}
}

// Read yields what snapshots of the turn are made of, of its events after the Seq, until yield
// returns false, and returns the Seq up to which that is; 0 is from the first event on. Whoever
// goes on from there may be given text again with what follows it. What is not kept and has the
// length of a chunk is kept.
func (k *Keeper) Read(ctx context.Context, key mesh.ThreadKey, t thread.Long, after mesh.Seq, yield func(*mesh.Event) bool) (mesh.Seq, error) {
	const op = "digest.Read"
	r := &reading{Keeper: k, key: key, turn: t, after: after, yield: yield, at: t.From - 1, digest: thread.NewDigest(t.Turn, "", "")}
	err := r.kept(ctx)
	if err == nil {
		err = r.rest(ctx)
	}
	switch {
	case err == nil:
		return t.To, nil
	case errors.Is(err, errStop):
		return r.seen, nil
	}
	return r.seen, mesh.Wrap(op, err)
}

// A reading is one call of Read.
type reading struct {
	*Keeper
	key    mesh.ThreadKey
	turn   thread.Long
	after  mesh.Seq
	yield  func(*mesh.Event) bool
	at     mesh.Seq // the last event that the chunks have which were gone through
	seen   mesh.Seq // the last event that was yielded or passed over
	digest *thread.Digest
}

// give yields the event, unless its reader has it.
func (r *reading) give(e *mesh.Event) error {
	if e.Seq <= r.after {
		return nil
	}
	if r.seen = e.Seq; !r.yield(e) {
		return errStop
	}
	return nil
}

// kept yields what the chunks have.
func (r *reading) kept(ctx context.Context) error {
	var all []Chunk
	next := r.turn.From
	err := r.values.Chunks(ctx, r.key, string(r.turn.Turn), func(from, to int64) {
		c := Chunk{r.turn.Turn, mesh.Seq(from), mesh.Seq(to)}
		if c.From == next && c.To <= r.turn.To {
			all = append(all, c)
			next = c.To + 1
		}
	})
	if err != nil || len(all) == 0 {
		return err
	}
	end := len(all) - 1
	last, err := r.usable(ctx, all[end])
	if err != nil {
		return err
	}
	if last == nil {
		return r.forget(ctx)
	}
	for i, c := range all {
		if c.To <= r.after && i < end { // the last one says who has the stream
			r.at = c.To
			continue
		}
		d := last
		if i < end {
			if d, err = r.load(ctx, c); err != nil {
				return err
			}
		}
		if d == nil {
			return r.forget(ctx)
		}
		for _, e := range d.events {
			if err := r.give(e); err != nil {
				return err
			}
		}
		r.at, r.seen = c.To, max(r.seen, c.To)
		r.digest = thread.NewDigest(r.turn.Turn, d.has, d.agent)
	}
	return nil
}

// load returns the chunk, nil if it cannot be used. The error is of one that cannot be read for
// the time being.
func (r *reading) load(ctx context.Context, c Chunk) (*decoded, error) {
	data, err := r.values.LoadChunk(ctx, r.key, string(c.Turn), int64(c.From), int64(c.To))
	if err != nil && (ctx.Err() != nil || mesh.IsCode(err, mesh.Unavailable)) {
		return nil, err
	}
	if d, is := decode(data); is && err == nil {
		return &d, nil
	}
	r.logger.WarnContext(ctx, "a long task is read from its log, for what is kept of it cannot be used", "tenant", r.key.Tenant, "thread", r.key.ID, "task", r.turn.Turn, "err", err)
	return nil, nil
}

// usable is the last chunk, if the log has its last event where that says, and so is the one that
// all of them were made of; nil if not.
func (r *reading) usable(ctx context.Context, last Chunk) (*decoded, error) {
	d, err := r.load(ctx, last)
	if d == nil || err != nil {
		return nil, err
	}
	events, err := r.log.Read(ctx, r.key, last.To-1, 1)
	if err != nil || len(events) != 1 || events[0].Pos != d.pos {
		return nil, err
	}
	return d, nil
}

// forget drops what is kept of the thread; the reading goes on from the log. What was yielded
// before is of the log too.
func (r *reading) forget(ctx context.Context) error {
	if r.seen > r.after {
		r.after = r.seen
	}
	r.at, r.digest = r.turn.From-1, thread.NewDigest(r.turn.Turn, "", "")
	return r.values.Forget(ctx, []mesh.ThreadKey{r.key})
}

// rest yields what no chunk has, and makes chunks of it.
func (r *reading) rest(ctx context.Context) error {
	from := r.at + 1
	for at := r.at; at < r.turn.To; {
		events, err := r.log.Read(ctx, r.key, at, int(min(page, r.turn.To-at)))
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			r.digest.Apply(e)
			if at = e.Seq; e.Seq-from+1 >= Every || r.digest.Bytes() >= maxBytes {
				r.save(ctx, from, e)
				from = e.Seq + 1
			}
			if err := r.give(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// save keeps the digest of the events up to the last one. What cannot be kept is made again.
func (r *reading) save(ctx context.Context, from mesh.Seq, last *mesh.Event) {
	has, agent := r.digest.Stream()
	data, err := encode(last.Pos, has, agent, r.digest.Take())
	if err == nil {
		err = r.values.SaveChunk(ctx, r.key, string(r.turn.Turn), int64(from), int64(last.Seq), data)
	}
	if err != nil {
		r.logger.WarnContext(ctx, "a part of a long task is not kept in short", "tenant", r.key.Tenant, "thread", r.key.ID, "task", r.turn.Turn, "err", err)
		return
	}
	info, there, err := r.log.Info(ctx, r.key)
	if err == nil && (!there || info.FirstPos > last.Pos) { // it was deleted meanwhile, and may have begun anew
		if err := r.values.Forget(ctx, []mesh.ThreadKey{r.key}); err != nil {
			r.logger.WarnContext(ctx, "what was kept of a deleted thread stays until the next start", "tenant", r.key.Tenant, "thread", r.key.ID, "err", err)
		}
	}
}

// A decoded chunk.
type decoded struct {
	pos    mesh.Pos // of the last event
	has    mesh.ExecutionID
	agent  string
	events []*mesh.Event
}

// form is how chunks are encoded, and what the digest makes of events. It is raised with every
// change of either.
const form = 1

func encode(pos mesh.Pos, has mesh.ExecutionID, agent string, events []*mesh.Event) ([]byte, error) {
	b := binary.AppendVarint([]byte{form}, int64(pos))
	b = appendBytes(b, []byte(has))
	b = appendBytes(b, []byte(agent))
	for _, e := range events {
		data, err := eventpb.Encode(e)
		if err != nil {
			return nil, err
		}
		b = binary.AppendVarint(b, int64(e.Seq))
		b = appendBytes(b, data)
	}
	return b, nil
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

func decode(b []byte) (d decoded, ok bool) {
	if len(b) == 0 || b[0] != form {
		return d, false
	}
	r := bytes.NewReader(b[1:])
	pos, err := binary.ReadVarint(r)
	d.pos = mesh.Pos(pos)
	d.has = mesh.ExecutionID(readBytes(r, &err))
	d.agent = string(readBytes(r, &err))
	for err == nil && r.Len() > 0 {
		var seq int64
		if seq, err = binary.ReadVarint(r); err != nil {
			break
		}
		data := readBytes(r, &err)
		if err != nil {
			break
		}
		var e *mesh.Event
		if e, err = eventpb.Decode(data); err == nil {
			e.Seq = mesh.Seq(seq)
			d.events = append(d.events, e)
		}
	}
	return d, err == nil
}

// readBytes returns what appendBytes added, unless there was an error before.
func readBytes(r *bytes.Reader, err *error) []byte {
	if *err != nil {
		return nil
	}
	n, failed := binary.ReadUvarint(r)
	if failed == nil && n > uint64(r.Len()) {
		failed = errors.New("it is too short")
	}
	if *err = failed; failed != nil {
		return nil
	}
	data := make([]byte, n)
	_, *err = r.Read(data)
	if n == 0 {
		*err = nil
	}
	return data
}
