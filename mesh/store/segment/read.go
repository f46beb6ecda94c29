package segment

import (
	"fmt"
	"os"
	"slices"
)

// Bounds of one read of a file: how many bytes it may have, and how many that
// nobody asked for it may have between two records.
const (
	maxRead = 1 << 20
	maxGap  = 4 << 10
)

// After returns at most limit numbers of records that are there, above that one.
func (l *Log) After(after int64, limit int) []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []int64
	i, _ := slices.BinarySearchFunc(l.segs, after+1, func(s *segment, n int64) int { return int(min(max(s.first-n, -1), 1)) })
	for _, seg := range l.segs[max(i-1, 0):] {
		for i := max(after+1-seg.first, 0); i < int64(len(seg.offsets)) && len(out) < limit; i++ {
			if seg.has(i) {
				out = append(out, seg.first+i)
			}
		}
	}
	return out
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
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.segs == nil {
		return run{}, os.ErrClosed
	}
	var r run
	for _, n := range numbers {
		seg := l.segment(n)
		if seg == nil || !seg.has(n-seg.first) {
			if len(r.places) > 0 {
				break
			}
			r.skip++
			continue
		}
		off := int64(seg.offsets[n-seg.first])
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
	return r, nil
}

// segment returns the one that has the number, nil if none has.
func (l *Log) segment(number int64) *segment {
	i, ok := slices.BinarySearchFunc(l.segs, number, func(s *segment, n int64) int { return int(min(max(s.first-n, -1), 1)) })
	if !ok {
		i--
	}
	if i < 0 || number-l.segs[i].first >= int64(len(l.segs[i].offsets)) {
		return nil
	}
	return l.segs[i]
}

// endOf returns where the record ends, or somewhat behind that: where the next
// one is.
func (seg *segment) endOf(number int64) int64 {
	if next := number - seg.first + 1; next < int64(len(seg.offsets)) {
		return int64(seg.offsets[next])
	}
	return seg.end
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
			return false, fmt.Errorf("%w: %s: record %d, at byte %d, is not what was written", ErrDamaged, r.seg.path, p.number, p.offset)
		}
		if !fn(p.number, rec) {
			return false, nil
		}
	}
	return true, nil
}
