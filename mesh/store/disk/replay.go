package disk

import (
	"bytes"
	"errors"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// A replay builds the index of the log, and the values that are not in the file.
type replay struct {
	s     *Store
	saved mesh.Pos // up to which the file has the values

	erased  []int64 // of deleted threads, still in the log
	useless []int64 // of values that the file has
	// orphans are events whose predecessors have left the log already. Their
	// thread must turn out to be deleted.
	orphans map[mesh.ThreadKey][]int64
}

// replay opens the log. Up to saved the file has the values.
func (s *Store) replay(saved mesh.Pos) error {
	dir := logPath(s.path)
	r := &replay{s: s, saved: saved, orphans: map[mesh.ThreadKey][]int64{}}
	log, err := segment.Open(dir, segment.Options{Size: s.opts.size, AtLeast: int64(saved), Disk: s.opts.disk}, r.visit)
	switch {
	case errors.Is(err, segment.ErrDamaged):
		return damaged(dir, err)
	case err != nil:
		return noFolder(dir, err)
	}
	s.log = log
	for key := range r.orphans {
		return damaged(dir, fmt.Errorf("thread %s has lost its first events", key))
	}
	s.saved = saved
	s.book.Reserve(mesh.Pos(log.Last()))
	log.Drop(r.useless, false)
	log.Drop(r.erased, true)
	if err := log.Seal(); err != nil { // what it is about is deleted already
		s.logger.Error("deleted events are still in the data folder", "path", s.path, "err", err)
	}
	if len(r.erased) > 0 || s.unsaved >= saveBytes {
		s.wakeKeeper()
	}
	return nil
}

func (r *replay) visit(n int64, rec segment.Record) (err error) {
	if err := r.chained(n, rec); err != nil {
		return fmt.Errorf("%w: record %d: %w", segment.ErrDamaged, n, err)
	}
	if rec.Kind&segment.Dropped != 0 {
		return nil
	}
	switch rec.Kind {
	case kindEvent:
		err = r.event(n, rec)
	case kindDeleted:
		err = r.deleted(rec.Data)
	case kindValue:
		err = r.value(n, rec.Data)
	default:
		err = fmt.Errorf("it is of kind %d", rec.Kind)
	}
	if err != nil {
		return fmt.Errorf("%w: record %d: %w", segment.ErrDamaged, n, err)
	}
	return nil
}

func (r *replay) event(n int64, of segment.Record) error {
	rec, err := decode(of.Data)
	if err != nil {
		return err
	}
	info, _ := r.s.book.Info(rec.key)
	if rec.seq != info.Last+1 || r.orphans[rec.key] != nil {
		r.orphans[rec.key] = append(r.orphans[rec.key], n)
		return nil
	}
	if err := r.s.book.Restore(rec.key, rec.seq, mesh.Pos(n), &rec.Entry, rec.settled); err != nil || of.Hash == nil {
		return err
	}
	r.s.book.SetLink(rec.key, memindex.Link(of.Hash))
	return nil
}

func (r *replay) deleted(data []byte) error {
	key, _, err := cutKey(data)
	if err != nil {
		return err
	}
	if positions, err := r.s.book.Whole("disk.Open", key, threadlog.AnyPos); err == nil { // else all of it has left the log
		r.erased = append(r.erased, numbers(positions)...)
		r.s.book.Delete(key)
	}
	r.erased = append(r.erased, r.orphans[key]...)
	delete(r.orphans, key)
	return nil
}

func (r *replay) value(n int64, data []byte) error {
	if n <= int64(r.saved) {
		r.useless = append(r.useless, n)
		return nil
	}
	k, v, err := decodeChange(data)
	v.Data = bytes.Clone(v.Data)
	r.s.pending[k] = value{Value: v, upTo: mesh.Pos(n)}
	r.s.spent = append(r.s.spent, n)
	r.s.unsaved += len(data) + changeWeight
	return err
}
