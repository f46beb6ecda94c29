package segment

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

var errDisk = errors.New("input/output error")

// faulty is a disk that fails: from a call on, for some calls. A write that fails
// may have written a part.
type faulty struct {
	mu     sync.Mutex
	on     bool
	left   int // calls until it fails
	times  int // how often it fails then; 0 is for ever
	part   int // bytes that a failing write writes
	failed int
}

// failAt lets n calls pass, and fails from then on; -1 ends that.
func (d *faulty) failAt(n int) { d.set(n, 0, 0) }

func (d *faulty) set(n, times, part int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on, d.left, d.times, d.part, d.failed = n >= 0, n, times, part, 0
}

func (d *faulty) fails() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.on {
		return false
	}
	if d.left--; d.left >= 0 || d.times > 0 && d.failed == d.times {
		return false
	}
	d.failed++
	return true
}

func (d *faulty) WriteAt(f *os.File, b []byte, off int64) (int, error) {
	if d.fails() {
		n, err := f.WriteAt(b[:min(len(b), d.part)], off)
		return n, errors.Join(errDisk, err)
	}
	return f.WriteAt(b, off)
}

func (d *faulty) Sync(f *os.File) error {
	if d.fails() {
		return errDisk
	}
	return nil // no power goes
}

// Whichever call of a commit fails, and however often: the log has all of a
// commit that was acknowledged and nothing of one that failed, and goes on; or
// it has stopped, and what opens next is whole.
func TestAFailedAppendLeavesNothingOrStops(t *testing.T) {
	stopped := 0
	for call := range 40 {
		for times := range 3 {
			for _, part := range []int{0, 40, 700} {
				d := &faulty{}
				l := newTestLog(t, Options{Size: 3000, Disk: d})
				want, failed := map[int64]Record{}, map[string]bool{}
				d.set(call, times, part)
				for i := range 25 {
					data := fmt.Sprintf("%d %0300d", i, i)
					first, err := l.Append([]Record{{Kind: 1, Data: []byte(data)}, {Kind: 2, Data: nil}})
					if err == nil {
						want[first], want[first+1] = Record{Kind: 1, Data: []byte(data)}, Record{Kind: 2, Data: nil}
					} else if failed[data] = true; !errors.Is(err, errDisk) {
						t.Fatal(err)
					}
				}
				wantSame(t, "live", want, all(t, l))
				isStopped := l.stopped != nil
				if isStopped {
					stopped++
				} else if times > 0 && len(failed) > times {
					t.Errorf("%d calls failed, and %d appends", times, len(failed))
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				_, got := reopen(t, l.dir, Options{Size: 3000})
				if isStopped && len(got) == len(want)+2 && failed[string(got[int64(len(got)-1)].Data)] {
					continue // of the one with which it stopped nobody can tell
				}
				wantSame(t, fmt.Sprint("after call ", call, " failed ", times, " times, ", part, " bytes late"), want, got)
			}
		}
	}
	if stopped == 0 {
		t.Error("it never stopped")
	}
}

// finding R11: a log whose last frame was torn is opened on a disk that takes nothing, and what
// was torn is zeroed before the next frame is written.
func TestATornLogIsOpenedOnADiskWithoutRoom(t *testing.T) {
	l := newTestLog(t, Options{})
	if _, err := l.Append([]Record{{Kind: 1, Data: []byte("whole")}}); err != nil {
		t.Fatal(err)
	}
	seg := l.segs[0]
	if _, err := seg.file.WriteAt([]byte{0, 1, 2, 3}, seg.end); err != nil { // the rest of a frame
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := &faulty{}
	d.failAt(0)
	open := func() *Log {
		l, err := Open(l.dir, Options{Disk: d}, func(int64, Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	again := open()
	rec := []Record{{Kind: 1, Data: []byte("x")}}
	if _, err := again.Append(rec); !errors.Is(err, errDisk) || errors.Is(err, ErrStopped) {
		t.Errorf("while the disk takes nothing: %v", err)
	}
	if err := again.Try(); !errors.Is(err, errDisk) {
		t.Errorf("Try says %v", err)
	}
	d.failAt(-1)
	if n, err := again.Append(rec); err != nil || n != 2 {
		t.Errorf("with room it is record %d, %v", n, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	last := open()
	defer func() { _ = last.Close() }()
	if last.Last() != 2 || last.torn != 0 {
		t.Errorf("opened again it has %d records, and %d torn bytes", last.Last(), last.torn)
	}
}

// A shortDisk has room for files of two MiB.
type shortDisk struct{ unsynced }

func (d shortDisk) WriteAt(f *os.File, b []byte, off int64) (int, error) {
	if off+int64(len(b)) > 2<<20 {
		return 0, errDisk
	}
	return d.unsynced.WriteAt(f, b, off)
}

// finding C6: that there is no room for what is far larger than what others append does not
// keep the log from being ready for those.
func TestATryLooksForNoMoreRoomThanOthersNeed(t *testing.T) {
	l := newTestLog(t, Options{Disk: shortDisk{}})
	for _, size := range []int{3 << 20, maxWanted} {
		_, err := l.Append([]Record{{Kind: 1, Data: make([]byte, size)}})
		if tried := l.Try(); !errors.Is(err, errDisk) || (tried == nil) != (size == maxWanted) {
			t.Errorf("after %d bytes, which end with %v, a try ends with %v", size, err, tried)
		}
	}
	appendTo(t, l, Record{Kind: 1, Data: []byte("of others")})
}
