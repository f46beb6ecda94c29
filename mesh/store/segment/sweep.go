package segment

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Drop takes the records from readers at once. [Log.Sweep] takes them out of
// the files: those that are to be erased for certain, the others where they are
// much of their segment.
func (l *Log) Drop(numbers []int64, erase bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range numbers {
		seg := l.segment(n)
		if seg == nil || !seg.has(n-seg.first) {
			continue
		}
		size := int64(0) // of an unread one, it is told when that is read
		if seg.unread == 0 {
			size = seg.endOf(n) - int64(seg.offsets[n-seg.first])
		}
		seg.drop(n, size)
		seg.erase = seg.erase || erase
	}
}

// drop notes that the record of that size goes. The caller holds Log.mu, or has the
// segment alone.
func (seg *segment) drop(n, size int64) {
	seg.waste += size
	seg.lose(n - seg.first)
	seg.dropped = append(seg.dropped, n)
}

// Unswept returns the numbers of records that are to be erased and are still in the
// files, ascending; others that are dropped may be among them.
func (l *Log) Unswept() []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []int64
	for _, seg := range l.segs {
		if seg.erase {
			out = append(out, seg.dropped...)
		}
	}
	slices.Sort(out)
	return out
}

// Seal begins a new segment if the last one has records that are to be erased,
// for which it must not be the last. It is the appender's.
func (l *Log) Seal() error {
	seg := l.segs[len(l.segs)-1]
	if !seg.erase || l.stopped != nil {
		return l.stopped
	}
	_, err := l.roll(0)
	return err
}

// due reports whether the segment is to be rewritten.
func (seg *segment) due() bool { return seg.erase || 2*seg.waste > seg.end }

// Sweep takes dropped records out of the files of all segments but the last, by
// putting others in their place. Each of them is exchanged whole, or not: a sweep
// that was interrupted leaves some records in, in whatever order. It does nothing while
// somebody holds the log.
func (l *Log) Sweep() error {
	if !l.sweeping.TryLock() {
		return nil
	}
	defer l.sweeping.Unlock()
	type job struct {
		at   int
		seg  *segment
		drop []int64
	}
	var jobs []job
	if err := l.readErased(); err != nil {
		return err
	}
	l.mu.RLock()
	for i, seg := range l.segs[:len(l.segs)-1] {
		if seg.due() && seg.unread == 0 { // else something was dropped in it just now: the next sweep has it
			jobs = append(jobs, job{i, seg, seg.dropped})
		}
	}
	l.mu.RUnlock()
	var errs []error
	for _, j := range jobs {
		if err := l.rewrite(j.at, j.seg, j.drop); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.seg.path, err)) // a damaged one does not keep the others
		}
	}
	return errors.Join(errs...)
}

// readErased reads the segments that have something to be erased and were not read.
func (l *Log) readErased() error {
	l.mu.RLock()
	segs := slices.DeleteFunc(slices.Clone(l.segs), func(seg *segment) bool { return seg.unread == 0 || !seg.erase })
	l.mu.RUnlock()
	for _, seg := range segs {
		if err := l.read(seg); err != nil {
			return err
		}
	}
	return nil
}

// rewrite puts a copy in the place of the segment that has not the bytes of these
// records.
func (l *Log) rewrite(at int, was *segment, drop []int64) error {
	recs, err := was.without(drop)
	if err != nil {
		return err
	}
	batches, size := frames(recs)
	path := was.path + newSuffix
	seg, err := l.create(path, size)
	if err != nil {
		return err
	}
	seg.first, seg.path = was.first, was.path
	if err = seg.fill(l.disk, batches); err == nil {
		err = os.Rename(path, was.path)
	}
	if err == nil {
		err = SyncFolder(l.dir)
	}
	if err != nil {
		return errors.Join(err, seg.file.Close())
	}
	l.mu.Lock()
	l.segs[at] = seg
	seg.gone = was.gone // also those that were dropped since
	seg.dropped = was.dropped[len(drop):]
	seg.erase = len(seg.dropped) > 0
	l.mu.Unlock()
	return was.close()
}

// frames divides the records among frames, and returns how large a segment they
// fill.
func frames(recs []Record) (batches [][]Record, size int64) {
	size = int64(fileHead)
	for len(recs) > 0 {
		n, bytes := 0, 0
		for n < len(recs) && (n == 0 || bytes < maxRead) {
			bytes += int(recs[n].size())
			n++
		}
		batches = append(batches, recs[:n])
		size += frameSize(recs[:n])
		recs = recs[n:]
	}
	return batches, size
}

// without returns all records of the segment, dropped ones in place of those.
func (seg *segment) without(drop []int64) ([]Record, error) {
	b := make([]byte, seg.end)
	if _, err := seg.file.ReadAt(b, 0); err != nil { // nobody else closes it
		return nil, err
	}
	gone := make(map[int64]bool, len(drop))
	for _, n := range drop {
		gone[n] = true
	}
	var recs []Record
	for at := int64(fileHead); at < seg.end; {
		h, ok := readHeader(seg.salt, b[at:])
		if !ok || h.first != seg.first+int64(len(recs)) || !checkFrame(h, b[at:at+int64(h.size)], false) {
			return nil, fmt.Errorf("%w at byte %d", ErrDamaged, at)
		}
		in := b[at+headerSize:]
		for range h.count {
			number := seg.first + int64(len(recs))
			r, size, _ := readRecord(number, in)
			if in = in[size:]; gone[number] {
				r = r.dropped()
			}
			recs = append(recs, r)
		}
		at += int64(h.size)
	}
	return recs, nil
}

// dropped is what stays of the record: its hash and its kind, if it has one.
func (r Record) dropped() Record {
	if r.Hash == nil {
		return Record{Kind: Dropped}
	}
	return Record{Kind: r.Kind | Dropped, Hash: r.Hash}
}

// fill writes the frames, and returns when they are on disk.
func (seg *segment) fill(d Disk, batches [][]Record) error {
	var f frame
	for _, recs := range batches {
		b, offsets := f.build(seg.salt, seg.first+int64(len(seg.offsets)), seg.end, recs)
		if _, err := d.WriteAt(seg.file, b, seg.end); err != nil {
			return err
		}
		seg.end += int64(len(b))
		seg.offsets = append(seg.offsets, offsets...)
	}
	return d.Sync(seg.file)
}
