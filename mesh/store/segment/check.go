package segment

import (
	"errors"
	"fmt"
	"os"
)

// A Damage is a place where a log is not what was written. It is [ErrDamaged].
type Damage struct {
	Path        string // of the file
	Offset      int64  // there
	First, Last int64  // numbers of the records that are damaged, or lost
}

// Error tells the place.
func (d *Damage) Error() string {
	if d.First == d.Last {
		return fmt.Sprintf("%v: %s: record %d, at byte %d, is not what was written", ErrDamaged, d.Path, d.First, d.Offset)
	}
	return fmt.Sprintf("%v: %s: records %d to %d, from byte %d on, are not what was written", ErrDamaged, d.Path, d.First, d.Last, d.Offset)
}

// Is makes it ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Check reads the segment that has the record, whole, and calls visit for each record that
// is there, or has a hash, and damaged for what is not what was written, both in order. It
// returns the number of the first record behind the segment. An error of visit ends it.
// The bytes are lent, and nobody else reads a segment whole until it returns.
func (l *Log) Check(number int64, visit Visit, damaged func(*Damage)) (next int64, err error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	return l.survey(number, visit, damaged)
}

// Place returns where the record is, or whereabouts, if it is lost.
func (l *Log) Place(number int64) (path string, offset int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seg := l.segment(number)
	if seg == nil || seg.unread > 0 {
		return l.dir, 0
	}
	if off := seg.offsets[number-seg.first]; off > 0 {
		return seg.path, int64(off)
	}
	return seg.path, seg.before(number)
}

// Has reports whether the record is there.
func (l *Log) Has(number int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seg := l.segment(number)
	return seg != nil && seg.has(number-seg.first)
}

// Rest gives back the memory with which segments are read.
func (l *Log) Rest() {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.scratch = nil
}

// read takes in a segment that was not read. What is damaged in it is found again by who
// wants it.
func (l *Log) read(seg *segment) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.RLock()
	unread := seg.unread > 0
	l.mu.RUnlock()
	if !unread {
		return nil
	}
	_, err := l.survey(seg.first, func(int64, Record) error { return nil }, func(*Damage) {})
	return err
}

// survey reads the segment that has the record, also a damaged one, as Check has it, and takes
// it in if it was not read. The caller holds reading.
func (l *Log) survey(number int64, visit Visit, damaged func(*Damage)) (next int64, err error) {
	l.mu.RLock()
	seg := l.segment(number)
	if seg == nil {
		l.mu.RUnlock()
		return 0, fmt.Errorf("%w: there is no record %d", os.ErrClosed, number)
	}
	last, end := seg.first+seg.count()-1, seg.end
	if seg.unread > 0 {
		end = seg.size
	}
	seg.using.RLock() // under l.mu, so that nobody has closed it
	l.mu.RUnlock()
	b, err := l.contents(seg, end)
	seg.using.RUnlock()
	if err != nil {
		return 0, err
	}
	f := &segment{first: seg.first, path: seg.path, salt: seg.salt, end: int64(fileHead)}
	if err := f.survey(b, last, l.spends(f, visit), damaged); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if seg.unread > 0 {
		seg.adopt(f)
	}
	return last + 1, nil
}

// spends is visit, and notes in f.dropped what nobody needs any more.
func (l *Log) spends(f *segment, visit Visit) Visit {
	return func(n int64, r Record) error {
		if r.Kind&Dropped == 0 && l.opts.Spent != nil && n < l.opts.From && l.opts.Spent(n, r.Kind) {
			f.dropped = append(f.dropped, n)
		}
		return visit(n, r)
	}
}

// survey reads the records up to last from the file's bytes. Behind a frame that is damaged
// it goes on with the next one that is whole: its salt tells that it is one.
func (seg *segment) survey(b []byte, last int64, visit Visit, damaged func(*Damage)) error {
	broken := func(n int64, _ Record) {
		damaged(&Damage{seg.path, int64(seg.offsets[len(seg.offsets)-1]), n, n})
	}
	for {
		n := seg.first + int64(len(seg.offsets))
		if n > last {
			return nil
		}
		h, ok := readHeader(seg.salt, b[seg.end:])
		if ok && h.first == n && int64(h.count) <= last-n+1 {
			err := seg.readFrame(h, b[seg.end:seg.end+int64(h.size)], broken, visit)
			if err == nil {
				continue
			}
			if !errors.Is(err, errFrame) {
				return err
			}
		}
		at, next := seg.end, last+1
		if skip, h := nextFrame(seg.salt, b[at:], n, last); skip > 0 {
			seg.end, next = at+int64(skip), h.first
		}
		seg.offsets = append(seg.offsets, make([]uint32, next-n)...)
		damaged(&Damage{seg.path, at, n, next - 1})
	}
}

// nextFrame finds the first frame after the first byte that begins with a record above n and
// ends with last at most; 0 if there is none.
func nextFrame(salt uint32, b []byte, n, last int64) (skip int, h header) {
	for at := 0; ; {
		i := frameAfter(salt, b[at:])
		if i == 0 {
			return 0, header{}
		}
		at += i
		if h, _ := readHeader(salt, b[at:]); h.first > n && h.first+int64(h.count)-1 <= last {
			return at, h
		}
	}
}

// adopt takes over what was found in the file of the segment, which was not read. The caller
// holds Log.mu.
func (seg *segment) adopt(f *segment) {
	pending := seg.dropped
	seg.offsets, seg.end, seg.unread = f.offsets, f.end, 0
	seg.dropped, seg.waste = nil, 0
	for _, n := range pending { // those that the file has not any more were swept before
		if f.has(n - f.first) {
			seg.drop(n, seg.endOf(n)-int64(seg.offsets[n-seg.first]))
		}
	}
	seg.erase = seg.erase && len(seg.dropped) > 0
	for i := range int64(len(f.offsets)) {
		if !f.has(i) {
			seg.lose(i)
		}
	}
	for _, n := range f.dropped {
		if seg.has(n - seg.first) {
			seg.drop(n, seg.endOf(n)-int64(seg.offsets[n-seg.first]))
		}
	}
}
