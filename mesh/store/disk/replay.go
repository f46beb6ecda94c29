package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// A replay brings the index up to the end of the log, and reads the values that are not in
// the file.
type replay struct {
	s     *Store
	saved mesh.Pos // up to which the file has the values
	from  mesh.Pos // up to which the index file has the index
	met   bool     // the record at from was seen, and is the one

	erased  []int64 // of deleted threads, still in the log
	useless []int64 // of values that the file has
	// orphans are events whose predecessors have left the log already. Their
	// thread must turn out to be deleted.
	orphans map[mesh.ThreadKey][]int64
}

// errOther says that the index is not that of the log.
var errOther = errors.New("it is of another log")

// openLog opens the log and the index, up to saved with the values. Where the index file
// cannot be used, it is made of the log.
func (s *Store) openLog(saved mesh.Pos) error {
	x := &s.threads
	s.book.Keep()
	err := x.open(&s.book)
	if err == nil && x.has.upTo > saved {
		err = errOther
	}
	if err == nil && s.opts.Rebuild {
		err = errors.New("that was asked for")
	}
	if err == nil {
		err = s.replay(saved)
		if !errors.Is(err, errOther) && !errors.Is(err, segment.ErrDamaged) {
			return err
		}
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
			s.log = nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is none yet")
	}
	s.logger.Info("the index of threads is made of the log", "path", s.path, "because", err)
	drop := x.discard
	if s.opts.Rebuild { // a damaged log cannot be read without the file, which goes when there is another
		drop = x.forget
	}
	if err := drop(); err != nil {
		return noFolder(filepath.Dir(s.path), err)
	}
	s.book, s.chain, s.pending, s.spent, s.unsaved = memindex.Book{}, chain{}, map[string]value{}, nil, 0
	s.book.Keep()
	return s.replay(saved)
}

// replay opens the log, and reads what is not in the index and the values.
func (s *Store) replay(saved mesh.Pos) error {
	dir := logPath(s.path)
	from := s.threads.has.upTo
	r := &replay{s: s, saved: saved, from: from, orphans: map[mesh.ThreadKey][]int64{}}
	s.chain = s.threads.has.chain
	log, err := segment.Open(dir, segment.Options{Size: s.opts.size, AtLeast: int64(saved), From: int64(from), Disk: s.opts.disk,
		Spent: func(n int64, kind byte) bool { return kind == kindValue && n <= int64(saved) }}, r.visit)
	switch {
	case errors.Is(err, errOther):
		return err
	case errors.Is(err, segment.ErrDamaged):
		return damaged(dir, err)
	case err != nil:
		return noFolder(dir, err)
	}
	s.log = log
	if from > 0 && (!r.met && s.threads.has.chain.last == int64(from) || !s.isOfLog()) {
		return errOther
	}
	for key := range r.orphans {
		return damaged(dir, fmt.Errorf("thread %s has lost its first events", key))
	}
	s.saved, s.opened, s.opening = saved, mesh.Pos(log.Last()), s.chain
	s.book.Reserve(s.opened)
	log.Drop(r.useless, false)
	log.Drop(append(r.erased, s.threads.has.erase...), true)
	if err := log.Seal(); err != nil { // what it is about is deleted already
		s.logger.Error("deleted events are still in the data folder", "path", s.path, "err", err)
	}
	if len(log.Unswept()) > 0 || from < s.opened { // else kills would add up
		s.wakeKeeper()
	}
	return nil
}

// isOfLog reports whether the last event that the index file has is the one in the log, as far as
// that can be read: the hash of an event is that of its thread, and no other has it.
func (s *Store) isOfLog() bool {
	last := &s.threads.last
	is := true
	err := s.log.Read([]int64{int64(last.LastPos)}, func(_ int64, rec segment.Record) bool {
		is = rec.Hash == nil || bytes.Equal(rec.Hash, last.Link[:])
		return true
	})
	return is || err != nil // the check tells what is damaged
}

func (r *replay) visit(n int64, rec segment.Record) (err error) {
	if n <= int64(r.from) {
		if r.met = bytes.Equal(rec.Hash, r.s.threads.has.tail[:]); !r.met && r.s.threads.has.chain.last == n {
			return errOther
		}
		return nil
	}
	if err := r.s.chain.take(n, rec); err != nil {
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
	stone, err := decodeTombstone(data)
	if err != nil {
		return err
	}
	key, book := stone.key, &r.s.book
	if _, there := book.Info(key); there { // else all of it has left the log
		if err := r.s.load(key); err != nil {
			return errors.Join(errOther, err)
		}
		positions, err := book.Whole("disk.Open", key, threadlog.AnyPos)
		if err != nil {
			return err
		}
		r.erased = append(r.erased, numbers(positions)...)
		book.Delete(key)
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
