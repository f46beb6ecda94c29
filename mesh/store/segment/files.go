package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// made is a segment that was made ready, or why it was not.
type made struct {
	seg *segment
	err error
}

// prepare begins to make the next segment ready, if that has not begun. Its
// goroutine ends when it is made; roll and Close wait for it.
func (l *Log) prepare(size int64) {
	if l.next != nil {
		return
	}
	next := make(chan made, 1)
	l.next = next
	go func() {
		seg, err := l.create(newPath(l.dir), size)
		next <- made{seg, err}
	}()
}

// roll makes a segment with room for a frame of that size the last one.
func (l *Log) roll(frame int64) (*segment, error) {
	was := l.segs[len(l.segs)-1]
	need := int64(fileHead) + frame
	if need > maxFrame {
		return nil, fmt.Errorf("%d bytes are too many for one commit", frame)
	}
	var m made
	if l.next != nil {
		m = <-l.next
		l.next = nil
	}
	if m.seg == nil || m.seg.size < need { // the disk may have room by now
		if m.seg != nil {
			_ = m.seg.file.Close() // it is written anew
		}
		m.seg, m.err = l.create(newPath(l.dir), max(need, min(2*was.size, l.size)))
	}
	if m.err != nil {
		return nil, m.err
	}
	if err := l.place(m.seg, l.last+1); err != nil {
		_ = m.seg.file.Close() // nothing is in it
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(was.offsets) > 0 {
		l.segs = append(l.segs, m.seg)
		return m.seg, nil
	}
	l.segs[len(l.segs)-1] = m.seg // whose file has the name, too
	return m.seg, was.file.Close()
}

// create makes a file of zeros with the head of a segment. It is on disk when it
// returns, but for its name.
func (l *Log) create(path string, size int64) (_ *segment, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // it never fails
	seg := &segment{salt: binary.LittleEndian.Uint32(salt[:]), file: f, size: size, end: int64(fileHead)}
	err = writeZeros(l.disk, f, 0, int(size))
	if err == nil {
		_, err = l.disk.WriteAt(f, seg.head(), 0)
	}
	if err == nil {
		err = l.disk.Sync(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return seg, nil
}

// place makes the file of a segment that was made ready part of the log.
func (l *Log) place(seg *segment, first int64) error {
	path := segPath(l.dir, first)
	if err := os.Rename(newPath(l.dir), path); err != nil {
		return err
	}
	seg.first, seg.path = first, path
	return SyncFolder(l.dir)
}

// SyncFolder returns when the names in the folder are on disk.
func SyncFolder(path string) error {
	dir, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

var zeros [256 << 10]byte

// zero writes n zeros, and returns when they are on disk.
func zero(d Disk, f *os.File, at int64, n int) error {
	if n == 0 {
		return nil
	}
	if err := writeZeros(d, f, at, n); err != nil {
		return err
	}
	return d.Sync(f)
}

func writeZeros(d Disk, f *os.File, at int64, n int) error {
	for n > 0 {
		w, err := d.WriteAt(f, zeros[:min(n, len(zeros))], at)
		if err != nil {
			return err
		}
		n, at = n-w, at+int64(w)
	}
	return nil
}
