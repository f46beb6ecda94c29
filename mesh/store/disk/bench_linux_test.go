package disk

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// BenchmarkAppend measures durable appends of 200 bytes by 1, 16, 64 and 256
// writers. In turns with them, in the same run, it measures a file to which as
// many writers append by group commit and nothing else is done (x_bare: how many
// times as fast we are), and one fdatasync for each append, in a file that is
// written already (x_sync; p50_syncs is the time of an append in fdatasyncs).
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) { benchAppend(b, writers) })
	}
}

func benchAppend(b *testing.B, writers int) {
	s, err := Open(filepath.Join(b.TempDir(), "mesh.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }() // a benchmark is over
	bare := newBare(b, b.N*300+1<<20)
	data := make([]byte, 200)
	const rounds = 5
	var ours, theirs, syncs []float64
	var took, synced []time.Duration
	appended, commits := 0, s.commits
	b.ReportAllocs()
	for range rounds {
		n := max(b.N/rounds, 1)
		b.StartTimer()
		r, d := rate(b, writers, n, func(w int) error {
			batch := &threadlog.Batch{Entries: []threadlog.Entry{{Data: data}}}
			_, err := s.Append(b.Context(), logtest.Key(w), batch)
			return err
		})
		b.StopTimer()
		appended, ours, took = appended+n, append(ours, r), append(took, d...)
		r, _ = rate(b, writers, n, func(int) error { return bare.append(data) })
		theirs = append(theirs, r)
		r, d = rate(b, 1, min(n, 200), func(int) error { return bare.sync() })
		syncs, synced = append(syncs, r), append(synced, d...)
	}
	commits = s.commits - commits
	bare.close()
	b.ReportMetric(median(ours), "appends/s")
	b.ReportMetric(float64(appended)/float64(max(commits, 1)), "appends/commit")
	b.ReportMetric(median(ratio(ours, theirs)), "x_bare")
	b.ReportMetric(median(ratio(ours, syncs)), "x_sync")
	b.ReportMetric(float64(median(took))/float64(median(synced)), "p50_syncs")
}

// A bare log is a file that is written already, to which one goroutine appends
// what waits, with one write and one sync.
type bare struct {
	b    *testing.B
	file *os.File
	at   int64
	mu   sync.Mutex
	wait []chan struct{}
	buf  []byte
	wake chan struct{}
	done chan struct{}
}

func newBare(b *testing.B, size int) *bare {
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for n := 0; n < size; n += len(zeros) {
		if _, err := f.Write(zeros); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	l := &bare{b: b, file: f, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *bare) append(data []byte) error {
	done := make(chan struct{})
	l.mu.Lock()
	l.buf = binary.LittleEndian.AppendUint32(l.buf, crc32.Checksum(data, castagnoli))
	l.buf = append(l.buf, data...)
	l.wait = append(l.wait, done)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-done
	return nil
}

func (l *bare) run() {
	defer close(l.done)
	var spare []byte
	for range l.wake {
		for before := -1; ; {
			l.mu.Lock()
			now := len(l.wait)
			l.mu.Unlock()
			if now <= before {
				break
			}
			before = now
			runtime.Gosched()
		}
		l.mu.Lock()
		buf, wait := l.buf, l.wait
		l.buf, l.wait = spare[:0], nil
		l.mu.Unlock()
		if len(wait) == 0 {
			continue
		}
		_, err := l.file.WriteAt(buf, l.at)
		if err := cmp.Or(err, sysSync(l.file)); err != nil {
			l.b.Error(err)
		}
		l.at, spare = l.at+int64(len(buf)), buf
		for _, done := range wait {
			close(done)
		}
	}
}

// sync writes 200 bytes at the beginning of the file, and syncs it.
func (l *bare) sync() error {
	_, err := l.file.WriteAt(make([]byte, 200), 0)
	return cmp.Or(err, sysSync(l.file))
}

func (l *bare) close() {
	close(l.wake)
	<-l.done
	_ = l.file.Close()
}

func sysSync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

func median[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

func ratio(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// rate returns how many of n calls per second the writers make, and how long each
// took.
func rate(b *testing.B, writers, n int, do func(w int) error) (float64, []time.Duration) {
	var left atomic.Int64
	left.Store(int64(n))
	took := make([][]time.Duration, writers)
	start := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				before := time.Now()
				if err := do(w); err != nil {
					b.Error(err)
					return
				}
				took[w] = append(took[w], time.Since(before))
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds(), slices.Concat(took...)
}

// BenchmarkOpen opens a folder of events, 100 in a thread, one in ten with an id: from its
// index, and with an index that is made of the log, and reports what the index costs. -most
// is of how many events, beside a hundredth of them; finding C6.
func BenchmarkOpen(b *testing.B) {
	for _, events := range []int{*most / 100, *most} {
		path := filepath.Join(b.TempDir(), "mesh.db")
		fill(b, path, events)
		for name, opts := range map[string]Options{"index": {}, "log": {Rebuild: true}} {
			b.Run(fmt.Sprintf("%s/%d", name, events), func(b *testing.B) { benchOpen(b, path, opts) })
		}
	}
}

var most = flag.Int("most", 200_000, "of how many events the larger folder of BenchmarkOpen is")

func benchOpen(b *testing.B, path string, opts Options) {
	b.ReportAllocs()
	best := time.Hour // others use the processors, too
	for range b.N {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		begun := time.Now()
		s, err := Open(path, opts)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		best = min(best, time.Since(begun))
		b.ReportMetric(best.Seconds()*1e3, "best_ms")
		b.ReportMetric(float64(heap()-before)/float64(s.book.Records()), "index_B/event")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func fill(b *testing.B, path string, events int) {
	s, err := Open(path, Options{disk: &testDisk{unsynced: true}})
	if err != nil {
		b.Fatal(err)
	}
	batch := &threadlog.Batch{Entries: make([]threadlog.Entry, 25)}
	for i := range events / len(batch.Entries) {
		for i := range batch.Entries {
			e := &batch.Entries[i]
			e.Data = make([]byte, 200)
			if i%10 == 0 {
				e.ID = mesh.NewEventID()
			}
		}
		if _, err := s.Append(b.Context(), logtest.Key(i/8*2+i%2), batch); err != nil { // four each of two
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
