// Package segment keeps numbered records in a folder of files to which is only
// added.
//
// The records of one [Log.Append] are one frame, written with one write and one
// sync, all of them or none. A file, a segment, is filled with zeros before it is
// used, so that a commit changes no length; the next one is made ready by a
// goroutine before this one is full. A segment that is not the last is never
// written again: where records were dropped, a copy without them takes its
// place.
//
// What was torn when power went is told from what was damaged later: see
// [Open]. A torn frame was never acknowledged, and goes; damage is refused, and
// the files stay as they are.
//
// [Open] reads what it is asked to, and of the segments before that the heads alone;
// such a segment is read, and checked, whole when somebody first wants a record of it,
// or by [Log.Check].
//
// One goroutine appends, others read, check and sweep at any time. A reader waits for
// no sync and sees nothing that is not on disk. It knows numbers and bytes, nothing
// of what they mean, and keeps four bytes a record in memory of what it has read.
package segment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// A Record is bytes of a kind, 0 to 63, and may have a hash, of HashSize bytes, which
// stays when the bytes are dropped.
type Record struct {
	Kind byte
	Data []byte
	Hash []byte
}

// HashSize is how long the hash of a record is, if it has one.
const HashSize = 32

// Dropped is the kind of a record that is not there: it has no bytes, and a
// number that nothing else will have. With the hash, its kind stays too, beside this
// bit.
const Dropped = 0x80

// Options of [Open]. The zero value has the defaults.
type Options struct {
	// Size is how large segments become; 16 MiB by default. A log begins with
	// one of 1 MiB, and they double.
	Size int64
	// AtLeast is the number of a record that is known to have been there.
	AtLeast int64
	// From is the first record that Open visits: segments that end before it are not
	// read. By default it is the first of all.
	From int64
	// Spent, if set, is asked of each record that is not visited, when its segment is
	// read, whether nobody needs it any more; such a one is dropped.
	Spent func(number int64, kind byte) bool
	// Disk does what may fail on a disk. By default it is the real one.
	Disk Disk
	// ReadOnly leaves the files as they are: nothing may be appended.
	ReadOnly bool
	// Broken, if set, hears of records that are not what was written, with what is
	// there, instead of Open failing, as far as the frames about them are whole.
	Broken func(number int64, r Record)
}

// A Disk writes to files.
type Disk interface {
	// WriteAt is [os.File.WriteAt].
	WriteAt(f *os.File, b []byte, off int64) (int, error)
	// Sync returns when what was written to the file, and its length, is on disk.
	Sync(f *os.File) error
}

const (
	defaultSize = 16 << 20
	firstSize   = 1 << 20
	suffix      = ".seg"
	newSuffix   = ".new" // of files that are not yet, or no longer, part of the log
)

var (
	// ErrDamaged is why a log is refused, or a record cannot be read.
	ErrDamaged = errors.New("damaged")
	// ErrStopped is why nothing is appended any more: a sync failed, so that nobody
	// can tell what is on disk, or what a commit that failed left in the file could
	// not be taken away.
	ErrStopped = errors.New("nothing is written any more")
)

// A Log is a folder of segments. Use [Open].
type Log struct {
	dir  string
	size int64
	disk Disk
	opts Options

	mu   sync.RWMutex // guards segs and what is said there of its segments
	segs []*segment   // in order; the last one is appended to
	last int64        // number of the last record, on disk

	// The appender's own.
	frame   frame
	stopped error
	wanted  int64     // bytes of the last frame that could not be written; 0 if they are more than maxWanted
	torn    int       // bytes behind the last frame that are still to be zeroed
	next    chan made // of the segment that is made ready; nil while none is

	sweeping sync.Mutex // one sweep at a time; also held by Hold

	reading sync.Mutex // one file at a time is read whole; guards scratch
	scratch []byte
}

// A segment is one file.
type segment struct {
	first int64  // number of its first record
	path  string // "" before it is part of the log
	salt  uint32
	size  int64 // of the file

	// using is held by readers as long as they use the file, and by whoever
	// closes it because another took its place.
	using sync.RWMutex
	file  *os.File

	// Guarded by Log.mu.
	unread  int64    // how many records it has, while the file has not been read
	offsets []uint32 // of its records in the file, also of those that are dropped; 0 of one that is lost
	gone    []uint64 // a bit for each record that is dropped; it may be short
	end     int64    // where the next frame goes
	dropped []int64  // numbers of those that are gone, and in the file
	waste   int64    // bytes of dropped
	erase   bool     // some of dropped must go
}

// count is how many records the segment has, also such as are dropped.
func (seg *segment) count() int64 { return max(seg.unread, int64(len(seg.offsets))) }

// has reports whether the i-th record is there.
func (seg *segment) has(i int64) bool {
	return i < seg.count() && (i/64 >= int64(len(seg.gone)) || seg.gone[i/64]&(1<<(i%64)) == 0)
}

// lose notes that the i-th record is dropped.
func (seg *segment) lose(i int64) {
	if more := i/64 + 1 - int64(len(seg.gone)); more > 0 {
		seg.gone = append(seg.gone, make([]uint64, more)...)
	}
	seg.gone[i/64] |= 1 << (i % 64)
}

// Create makes a folder with an empty log. What it makes is on disk when it
// returns, but for the folder's own name.
func Create(dir string, opts Options) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	l := newLog(dir, opts)
	seg, err := l.create(newPath(dir), min(l.size, firstSize))
	if err != nil {
		return err
	}
	return errors.Join(l.place(seg, 1), seg.file.Close())
}

func newLog(dir string, opts Options) *Log {
	l := &Log{dir: dir, size: opts.Size, disk: opts.Disk, opts: opts}
	if l.size <= 0 {
		l.size = defaultSize
	}
	if l.disk == nil {
		l.disk = realDisk{}
	}
	if opts.ReadOnly {
		l.stopped = os.ErrPermission
	}
	return l
}

// Last returns the number of the last record; the first has 1.
func (l *Log) Last() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.last
}

// Append adds the records as one commit. They are on disk when it returns nil,
// and have the numbers from first on. After an error none of them is there, nor
// will be, unless the error is ErrStopped: then nobody can tell until the log is
// opened again, and nothing more is appended. It is called by one goroutine.
//
// A sync that failed is never tried again: the system may have dropped what it could not
// write, and say of the next sync that all is well.
func (l *Log) Append(recs []Record) (first int64, err error) {
	if l.stopped != nil {
		return 0, l.stopped
	}
	size := frameSize(recs)
	if err := l.ready(); err != nil {
		return 0, err
	}
	seg := l.segs[len(l.segs)-1]
	l.wanted = size
	if size > maxWanted {
		l.wanted = 0
	}
	if seg.end+size > seg.size {
		if seg, err = l.roll(size); err != nil {
			return 0, err
		}
	}
	first = l.last + 1
	b, offsets := l.frame.build(seg.salt, first, seg.end, recs)
	if _, err = l.disk.WriteAt(seg.file, b, seg.end); err != nil {
		return 0, l.undo(seg, len(b), err)
	}
	if err = l.sync(seg); err != nil {
		return 0, err
	}
	l.mu.Lock()
	seg.offsets = append(seg.offsets, offsets...)
	seg.end += size
	l.last += int64(len(recs))
	l.mu.Unlock()
	if seg.end > seg.size/2 {
		l.prepare(min(2*seg.size, l.size))
	}
	return first, nil
}

// ready sees to it that a frame can be written behind the last one.
func (l *Log) ready() error {
	if err := l.whole(); err != nil {
		return err
	}
	return l.clean()
}

// whole reports whether the last file is as long as it was. If somebody has cut it off, the log
// has stopped: what is written now would stand behind a hole.
func (l *Log) whole() error {
	seg := l.segs[len(l.segs)-1]
	if st, err := seg.file.Stat(); err == nil && st.Size() < seg.size {
		l.stopped = fmt.Errorf("%w: %s has %d bytes, and had %d", ErrStopped, seg.path, st.Size(), seg.size)
		return l.stopped
	}
	return nil
}

// clean zeroes what was torn when the log was opened: before a frame is written there, a disk
// without room may not take that.
func (l *Log) clean() error {
	seg := l.segs[len(l.segs)-1]
	err := zero(l.disk, seg.file, seg.end, l.torn)
	if err == nil {
		l.torn = 0
	}
	return err
}

// sync returns when the segment is on disk; if that fails, the log has stopped.
func (l *Log) sync(seg *segment) error {
	if err := l.disk.Sync(seg.file); err != nil {
		l.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
		return l.stopped
	}
	return nil
}

// Try reports whether there is again what the last append that failed needed, without one:
// it writes zeros where the next frame goes, which are there already, or begins a new segment
// if the last one is too full. It is the appender's.
func (l *Log) Try() error {
	if l.stopped != nil {
		return l.stopped
	}
	if err := l.ready(); err != nil {
		return err
	}
	seg := l.segs[len(l.segs)-1]
	room := seg.size - seg.end
	if l.wanted > room {
		_, err := l.roll(l.wanted)
		return err
	}
	if err := writeZeros(l.disk, seg.file, seg.end, int(min(room, probeSize))); err != nil {
		return err
	}
	return l.sync(seg)
}

const (
	// probeSize is how many bytes Try writes, if there is room.
	probeSize = 4 << 10
	// maxWanted is the largest frame that Try looks for room for: that there is none for a
	// larger one, as of a thread that comes from elsewhere, says nothing of what others append.
	maxWanted = 4 << 20
)

// undo takes back a frame of that size, as far as it was written: what WriteAt says
// of that after an error is less than is there.
func (l *Log) undo(seg *segment, size int, cause error) error {
	b := make([]byte, size)
	_, err := seg.file.ReadAt(b, seg.end)
	if err == nil {
		err = zero(l.disk, seg.file, seg.end, len(bytes.TrimRight(b, "\x00")))
	}
	if err != nil {
		l.stopped = fmt.Errorf("%w: %w; undoing it failed: %w", ErrStopped, cause, err)
		return l.stopped
	}
	return cause
}

// Close closes the files. Nothing may be in progress but reads.
func (l *Log) Close() error {
	var errs []error
	if l.next != nil {
		if m := <-l.next; m.err == nil {
			errs = append(errs, m.seg.file.Close(), os.Remove(newPath(l.dir)))
		}
		l.next = nil
	}
	l.mu.Lock()
	segs := l.segs
	l.segs = nil
	l.mu.Unlock()
	if l.stopped == nil {
		l.stopped = os.ErrClosed
	}
	for _, seg := range segs {
		errs = append(errs, seg.close())
	}
	return errors.Join(errs...)
}

// close waits for the readers of the segment.
func (seg *segment) close() error {
	seg.using.Lock()
	defer seg.using.Unlock()
	return seg.file.Close()
}

// newPath is where the next segment is made ready.
func newPath(dir string) string { return filepath.Join(dir, "next"+newSuffix) }

func segPath(dir string, first int64) string {
	return filepath.Join(dir, fmt.Sprintf("%019d%s", first, suffix))
}
