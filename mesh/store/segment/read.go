package segment

import (
	"os"
	"slices"
)

// Bounds of one read of a file: how many bytes it may have, and how many that
// nobody asked for it may have between two records.
const (
	maxRead = 1 << 20
	maxGap  = 4 << 10
)

// After returns at most limit numbers of records that are there, above that one. Fewer
// need not be the last.
func (l *Log) After(after int64, limit int) ([]int64, error) {
	for {
		out, unread := l.after(after, limit)
		if len(out) > 0 || unread == nil {
			return out, nil
		}
		if err := l.read(unread); err != nil {
			return nil, err
		}
	}
}

// after is After up to a segment that was not read, which it returns.
func (l *Log) after(after int64, limit int) (out []int64, unread *segment) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(l.segs, after+1, func(s *segment, n int64) int { return int(min(max(s.first-n, -1), 1)) })
	for _, seg := range l.segs[max(i-1, 0):] {
		from := max(after+1-seg.first, 0)
		if seg.unread > from && len(out) < limit {
			return out, seg
		}
		for i := from; i < int64(len(seg.offsets)) && len(out) < limit; i++ {
			if seg.has(i) {
				out = append(out, seg.first+i)
			}
		}
	}
	return out, nil
}

// Read calls fn with the records of these numbers, which ascend, until it
// returns false; without those that are dropped. The bytes are fn's own. It
// returns an error that is ErrDamaged if one is not what was written.
func (l *Log) Read(numbers []int64, fn func(number int64, r Record) bool) error {
	for len(numbers) > 0 {
		run, err := l.run(numbers)
		if err != nil {
			return err
		}
		numbers = numbers[run.skip+len(run.places):]
		more, err := run.read(fn)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// A run is records that are read at once.
type run struct {
	seg    *segment // whose using is held for reading
	places []place
	end    int64 // of the last one, or after it
	skip   int   // numbers before them that are dropped
}

type place struct {
	number int64
	offset int64
}

// run finds the first records of numbers that can be read at once, and those
// before them that are dropped.
func (l *Log) run(numbers []int64) (run, error) {
	for {
		r, unread, err := l.tryRun(numbers)
		if unread == nil {
			return r, err
		}
		if err := l.read(unread); err != nil {
			return run{}, err
		}
	}
}

// tryRun is run, unless the first of them is in a segment that was not read, which it
// returns.
func (l *Log) tryRun(numbers []int64) (r run, unread *segment, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.segs == nil {
		return run{}, nil, os.ErrClosed
	}
	for _, n := range numbers {
		seg := l.segment(n)
		if seg == nil || !seg.has(n-seg.first) {
			if len(r.places) > 0 {
				break
			}
			r.skip++
			continue
		}
		if seg.unread > 0 {
			if len(r.places) > 0 {
				break
			}
			return run{}, seg, nil
		}
		off := int64(seg.offsets[n-seg.first])
		if off == 0 && len(r.places) == 0 {
			return run{}, nil, &Damage{seg.path, seg.before(n), n, n}
		}
		if off == 0 {
			break
		}
		end := seg.endOf(n)
		if len(r.places) > 0 && (seg != r.seg || off-r.end > maxGap || end-r.places[0].offset > maxRead) {
			break
		}
		r.seg, r.end = seg, end
		r.places = append(r.places, place{n, off})
	}
	if r.seg != nil {
		r.seg.using.RLock() // under l.mu, so that nobody has closed it
	}
	return r, nil, nil
}

// segment returns the one that has the number, nil if none has.
func (l *Log) segment(number int64) *segment {
	i, ok := slices.BinarySearchFunc(l.segs, number, func(s *segment, n int64) int { return int(min(max(s.first-n, -1), 1)) })
	if !ok {
		i--
	}
	if i < 0 || number-l.segs[i].first >= l.segs[i].count() {
		return nil
	}
	return l.segs[i]
}

// endOf returns where the record ends, or somewhat behind that: where the next
// one is.
func (seg *segment) endOf(number int64) int64 {
	for _, off := range seg.offsets[number-seg.first+1:] {
		if off > 0 { // else that one is lost
			return int64(off)
		}
	}
	return seg.end
}

// before returns where the last record begins that is there before a lost one.
func (seg *segment) before(number int64) int64 {
	for i := number - seg.first - 1; i >= 0; i-- {
		if seg.offsets[i] > 0 {
			return int64(seg.offsets[i])
		}
	}
	return int64(fileHead)
}

func (r run) read(fn func(int64, Record) bool) (more bool, err error) {
	if r.seg == nil {
		return true, nil
	}
	start := r.places[0].offset
	b := make([]byte, r.end-start)
	_, err = r.seg.file.ReadAt(b, start)
	r.seg.using.RUnlock()
	if err != nil {
		return false, err
	}
	for _, p := range r.places {
		rec, _, ok := readRecord(p.number, b[p.offset-start:])
		if !ok || rec.Kind&Dropped != 0 {
			return false, &Damage{r.seg.path, p.offset, p.number, p.number}
		}
		if !fn(p.number, rec) {
			return false, nil
		}
	}
	return true, nil
}
