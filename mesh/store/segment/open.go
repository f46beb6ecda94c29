package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Visit hears of a record of a log that is opened, also of one that was dropped, if it
// has a hash. The bytes are lent.
type Visit func(number int64, r Record) error

// Open opens a log, reads it from Options.From on, and calls visit for each record from
// there in order. Close it after use. It returns an error that is ErrDamaged for what
// nobody wrote so, as far as it has read, and changes nothing then.
//
// What follows the last frame was torn, and is zeroed at the latest before the next is written, if it can have come from
// one frame that was being written when power went: its header is cut off, or it
// is zeros from some byte on, or more of its 512 byte chunks are zeros than it
// says; and no frame follows. A last frame that was acknowledged looks so only
// if whole sectors of it were lost. Options.AtLeast finds that, too, of what was
// there when it was noted.
func Open(dir string, opts Options, visit Visit) (_ *Log, err error) {
	l := newLog(dir, opts)
	defer func() {
		if err != nil {
			_ = l.Close() // nothing was written
		}
	}()
	defer func() { l.scratch = nil }()
	firsts, err := list(dir, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		if first != l.last+1 {
			return nil, fmt.Errorf("%w: %s: it begins at record %d, and %d is the next", ErrDamaged, segPath(dir, first), first, l.last+1)
		}
		if i < len(firsts)-1 && firsts[i+1] > first && firsts[i+1] <= opts.From {
			if err := l.skip(first, firsts[i+1]); err != nil {
				return nil, err
			}
			continue
		}
		torn, err := l.load(first, i == len(firsts)-1, visit)
		if err != nil {
			return nil, err
		}
		if i < len(firsts)-1 {
			continue
		}
		if l.last < opts.AtLeast {
			return nil, fmt.Errorf("%w: %s: it ends at record %d, and there were %d", ErrDamaged, segPath(dir, first), l.last, opts.AtLeast)
		}
		if l.torn = torn; !opts.ReadOnly {
			_ = l.clean() // else before the first append
		}
	}
	return l, nil
}

// list returns the first numbers of the segments in order, and removes what is
// not part of the log, unless nothing may be changed.
func list(dir string, readOnly bool) ([]int64, error) {
	entries, err := os.ReadDir(dir) // sorted, as the names are
	if err != nil {
		return nil, err
	}
	var firsts []int64
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newSuffix) && !readOnly {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is no name of a segment", ErrDamaged, filepath.Join(dir, e.Name()))
		}
		firsts = append(firsts, first)
	}
	if len(firsts) == 0 {
		return nil, fmt.Errorf("%w: %s has no segment", fs.ErrNotExist, dir)
	}
	return firsts, nil
}

// The head of a file: fileMagic, its size, the salt, and a checksum of these.
const (
	fileMagic = "meshseg1"
	fileHead  = len(fileMagic) + 4 + 4 + 4
)

// load reads a segment. Of the last one it returns how many bytes after its end
// are not zeros, as far as they were torn.
func (l *Log) load(first int64, last bool, visit Visit) (torn int, err error) {
	seg, err := l.add(first)
	if err != nil {
		return 0, err
	}
	path := seg.path
	b, err := l.contents(seg, seg.size)
	if err != nil {
		return 0, err
	}
	for {
		rest := b[seg.end:]
		h, ok := readHeader(seg.salt, rest)
		if ok && h.first == l.last+1 {
			err := seg.readFrame(h, rest[:h.size], l.opts.Broken, l.visitor(seg, visit))
			if err == nil {
				l.last += int64(h.count)
				continue
			}
			if !errors.Is(err, errFrame) {
				return 0, err
			}
		}
		dirty := used(rest)
		if dirty == 0 || last && isTorn(seg.salt, h, ok, rest, seg.end) {
			return dirty, nil
		}
		return 0, fmt.Errorf("%w: %s: what follows record %d, at byte %d, is not what was written", ErrDamaged, path, l.last, seg.end)
	}
}

// add opens the file of a segment, makes it the last one, and reads its head.
func (l *Log) add(first int64) (*segment, error) {
	path := segPath(l.dir, first)
	mode := os.O_RDWR
	if l.opts.ReadOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, err
	}
	seg := &segment{first: first, path: path, file: f}
	l.segs = append(l.segs, seg)
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if seg.size = st.Size(); seg.size > maxFrame {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, path, seg.size)
	}
	head := make([]byte, min(seg.size, int64(fileHead)))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if !seg.readHead(head) {
		return nil, fmt.Errorf("%w: %s is no segment", ErrDamaged, path)
	}
	return seg, nil
}

// skip takes in a segment that is not read; next is the first number of the one after it.
func (l *Log) skip(first, next int64) error {
	seg, err := l.add(first)
	if err != nil {
		return err
	}
	seg.unread, l.last = next-first, next-1
	return nil
}

// contents reads the first n bytes of the file. They are lent until the next file is read. A new
// log has one short file, so no more room is made than for twice what was read before.
func (l *Log) contents(seg *segment, n int64) ([]byte, error) {
	if had := int64(cap(l.scratch)); had < n {
		l.scratch = make([]byte, max(n, min(2*had, defaultSize)))
	}
	b := l.scratch[:n]
	_, err := seg.file.ReadAt(b, 0)
	return b, err
}

// visitor is visit for the records from Options.From on; of those before, it drops what
// is spent.
func (l *Log) visitor(seg *segment, visit Visit) Visit {
	return func(n int64, r Record) error {
		if n >= l.opts.From {
			return visit(n, r)
		}
		if r.Kind&Dropped == 0 && l.opts.Spent != nil && l.opts.Spent(n, r.Kind) {
			seg.drop(n, r.size())
		}
		return nil
	}
}

// used is how long b is without the zeros at its end: most of a new segment, which are
// compared many at a time.
func used(b []byte) int {
	block := zeros[:4<<10]
	for bytes.HasSuffix(b, block) {
		b = b[:len(b)-len(block)]
	}
	return len(bytes.TrimRight(b, "\x00"))
}

func (seg *segment) readHead(b []byte) bool {
	if len(b) < fileHead {
		return false
	}
	seg.salt = binary.LittleEndian.Uint32(b[len(fileMagic)+4:])
	seg.end = int64(fileHead)
	return bytes.Equal(b[:fileHead], seg.head())
}

// head returns the head of the file.
func (seg *segment) head() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(fileMagic), uint32(seg.size))
	b = binary.LittleEndian.AppendUint32(b, seg.salt)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// errFrame says that a frame is not what was written.
var errFrame = errors.New("the frame does not check")

// readFrame checks the frame, adds its records to the segment, and then has them
// visited. Where broken hears of records that do not check, only their sizes must.
func (seg *segment) readFrame(h header, b []byte, broken func(int64, Record), visit Visit) error {
	if !checkFrame(h, b, broken != nil) {
		return errFrame
	}
	at := headerSize
	for i := range h.count {
		number := h.first + int64(i)
		r, size, ok := readRecord(number, b[at:])
		seg.offsets = append(seg.offsets, uint32(seg.end)+uint32(at))
		at += size
		if !ok {
			broken(number, r)
			continue
		}
		if r.Kind&Dropped != 0 {
			seg.lose(number - seg.first)
			if r.Hash == nil {
				continue
			}
		}
		if err := visit(number, r); err != nil {
			return err
		}
	}
	seg.end += int64(len(b))
	return nil
}

// checkFrame reports whether the frame is what was written; of its records only the
// sizes, if that will do.
func checkFrame(h header, b []byte, sizes bool) bool {
	at := headerSize
	for i := range h.count {
		_, size, ok := readRecord(h.first+int64(i), b[at:len(b)-1])
		if !ok && (!sizes || size == 0) {
			return false
		}
		at += size
	}
	return at == len(b)-1 && b[at] == frameEnd
}

// isTorn reports whether the rest of a segment, which begins with no valid frame,
// can be one that was cut off as it was written. h is its header, if that is ok.
func isTorn(salt uint32, h header, ok bool, rest []byte, at int64) bool {
	if followed(salt, rest) {
		return false
	}
	if !ok {
		// Of a header that was written none of both is zero, nor is made so by
		// one bit that changed.
		return len(rest) > headerSize && (rest[0] == 0 || rest[headerSize-1] == 0)
	}
	b := rest[:h.size]
	if b[h.size-1] == 0 {
		return true
	}
	zeros, faint := weigh(b, at)
	// One bit makes zeros of a faint chunk. It is as rare that a write loses
	// nothing but such a one.
	oneBit := zeros == h.zeros+1 && faint+1 == h.faint
	return zeros > h.zeros && !oneBit
}

// followed reports whether a frame begins anywhere after the first byte.
func followed(salt uint32, b []byte) bool { return frameAfter(salt, b) > 0 }

// frameAfter returns where the first frame begins after the first byte, 0 if none does.
func frameAfter(salt uint32, b []byte) int {
	mark := binary.LittleEndian.AppendUint32(nil, magic)
	for at := min(1, len(b)); ; at++ {
		i := bytes.Index(b[at:], mark)
		if i < 0 {
			return 0
		}
		at += i
		if _, ok := readHeader(salt, b[at:]); ok {
			return at
		}
	}
}
