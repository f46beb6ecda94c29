package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// errStopped ends a check that is not wanted any more.
var errStopped = errors.New("the check was stopped")

// Checked returns up to which position all records were checked since the folder was opened,
// and up to which they are: those that were there then.
func (s *Store) Checked() (done, all mesh.Pos) { return mesh.Pos(s.checked.Load()), s.opened }

// WaitChecked waits until all of them are, or ctx is done.
func (s *Store) WaitChecked(ctx context.Context) error {
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return mesh.Wrap("disk.WaitChecked", ctx.Err())
	}
}

// Records returns how many events there are.
func (s *Store) Records() int {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Records()
}

// checkAll checks all records that were there when the folder was opened, a segment at a
// time. It rests as long as it works, so that others have half of a processor and of the
// disk at least.
func (s *Store) checkAll() {
	defer close(s.ended)
	if s.opts.unchecked {
		return
	}
	c := &checker{s: s, threads: map[mesh.ThreadKey]*strand{}}
	begun := time.Now()
	err := c.run()
	s.log.Rest()
	s.seen.forget()
	switch {
	case errors.Is(err, errStopped) || s.isClosed():
	case err != nil:
		s.logger.Error("the data folder could not be checked to its end", "path", s.path, "upto", s.checked.Load(), "err", s.lost(err))
		if s.Health().Fault == nil {
			s.tell(err, nil)
		}
	default:
		s.logger.Info("data folder checked", "path", s.path, "records", int64(s.opened), "took", time.Since(begun))
	}
}

// A checker looks at one record after the other, as they are in the log.
type checker struct {
	s       *Store
	threads map[mesh.ThreadKey]*strand // that are there
	all     chain
	found   []*segment.Damage // in this segment
	damaged bool              // something was found
	buf     []byte
}

// A strand is what was seen of a thread.
type strand struct {
	first int64 // position
	last  linked
}

func (c *checker) run() error {
	upTo := int64(c.s.opened)
	for at := int64(1); at <= upTo; {
		begun := time.Now()
		next, err := c.s.log.Check(at, c.visit, func(d *segment.Damage) { c.found = append(c.found, d) })
		if err != nil {
			return err
		}
		for _, d := range c.found {
			c.s.damage(d)
			c.damaged = true
		}
		c.found = nil
		c.s.checked.Store(min(next-1, upTo))
		if at = next; at > upTo {
			break
		}
		rest := time.NewTimer(time.Since(begun))
		select {
		case <-c.s.stop:
			rest.Stop()
			return errStopped
		case <-rest.C:
		}
	}
	return c.end()
}

// bad notes that the record is not what was written.
func (c *checker) bad(n int64) {
	path, offset := c.s.log.Place(n)
	c.found = append(c.found, &segment.Damage{Path: path, Offset: offset, First: n, Last: n})
}

func (c *checker) visit(n int64, r segment.Record) error {
	if n > int64(c.s.opened) {
		return nil
	}
	if c.all.take(n, r) != nil {
		c.bad(n)
	}
	switch r.Kind {
	case kindEvent:
		c.event(n, r)
	case kindValue, kindDeleted:
		if sum := linkOther(r.Kind, r.Data); r.Hash != nil && !bytes.Equal(sum[:], r.Hash) {
			c.bad(n)
		}
		if r.Kind == kindDeleted {
			if stone, err := decodeTombstone(r.Data); err != nil {
				c.bad(n)
			} else {
				delete(c.threads, stone.key)
			}
		}
	case kindEvent | segment.Dropped, kindValue | segment.Dropped: // end finds whose thread lacks it
	default:
		c.bad(n)
	}
	return nil
}

// event checks that the event follows the one before it in its thread, if that is there.
func (c *checker) event(n int64, r segment.Record) {
	rec, err := decode(r.Data)
	if err != nil {
		c.bad(n)
		return
	}
	info, state := c.s.isOf(rec.key, n)
	if state == deleted {
		return
	}
	t := c.threads[rec.key]
	if t == nil || t.first != int64(info.FirstPos) {
		t = &strand{first: n}
		c.threads[rec.key] = t
	}
	var is memindex.Link
	copy(is[:], r.Hash)
	ok := state == there && rec.seq == t.last.seq+1
	if ok && r.Hash != nil {
		var want memindex.Link
		want, c.buf = linkEvent(c.buf, t.last.link, r.Data[:len(r.Data)-len(rec.Data)], rec.Data)
		ok = want == is
	}
	if !ok {
		c.bad(n)
	}
	t.last = linked{rec.seq, is}
}

// What an event in the log is of.
const (
	there   = iota // a thread that is there
	deleted        // one that is not, with all its events
	stray          // one that is not there, or begins later, and it is there
)

// isOf tells what the event with that number is of.
func (s *Store) isOf(key mesh.ThreadKey, number int64) (threadlog.Info, int) {
	s.index.RLock()
	defer s.index.RUnlock()
	info, ok := s.book.Info(key)
	switch {
	case ok && number >= int64(info.FirstPos):
		return info, there
	case s.log.Has(number):
		return info, stray
	}
	return info, deleted
}

// end finds threads that have not the events that the index has of them, and whether the log
// is that of the index.
func (c *checker) end() error {
	for _, info := range c.s.between(1, c.s.opened) {
		n, err := c.lacks(info.Key)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		d := c.s.damageAt(n)
		if c.s.close(info.Key, dataLoss(placeOf(d), d)) {
			c.s.tell(d, []mesh.ThreadKey{info.Key})
		}
	}
	if at := c.s.opening; !c.damaged && (c.all.last != at.last || c.all.sum != at.sum) {
		c.s.tell(fmt.Errorf("%w: %s: the hashes of all records up to %d are not those that were written", segment.ErrDamaged, logPath(c.s.path), at.last), nil)
	}
	return nil
}

// lacks returns the position of an event that the index has of the thread, and which does not
// follow what was seen of it; 0 if there is none.
func (c *checker) lacks(key mesh.ThreadKey) (int64, error) {
	c.s.index.RLock()
	info, ok := c.s.book.Info(key)
	link := c.s.book.Link(key)
	c.s.index.RUnlock()
	if !ok || info.FirstPos > c.s.opened {
		return 0, nil // it was deleted meanwhile
	}
	t := c.threads[key]
	if t == nil || t.first != int64(info.FirstPos) {
		return int64(info.FirstPos), nil
	}
	if info.Last == t.last.seq && link == t.last.link {
		return 0, nil
	}
	if info.Last <= t.last.seq {
		return int64(info.LastPos), nil
	}
	next, err := c.s.places(key, t.last.seq, 1)
	if err != nil || len(next) == 0 {
		return 0, nil //nolint:nilerr // it is closed, or was deleted
	}
	if next[0] <= c.s.opened {
		return int64(next[0]), nil
	}
	return c.follows(key, t.last.link, int64(next[0]))
}

// follows returns n, unless the event there follows the one with that hash, or is gone.
func (c *checker) follows(key mesh.ThreadKey, before memindex.Link, n int64) (int64, error) {
	ok := true
	err := c.s.log.Read([]int64{n}, func(_ int64, r segment.Record) bool {
		rec, err := decode(r.Data)
		if err != nil || rec.key != key {
			ok = false
			return false
		}
		want, _ := linkEvent(nil, before, r.Data[:len(r.Data)-len(rec.Data)], rec.Data)
		ok = bytes.Equal(want[:], r.Hash)
		return false
	})
	switch {
	case errors.Is(err, segment.ErrDamaged):
		return n, nil
	case err != nil || ok:
		return 0, err
	}
	return n, nil
}
