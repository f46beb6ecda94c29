package bolt

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// BenchmarkAppend measures durable appends of 200 bytes by 1, 16 and 64 writers
// and, in the same run, the same with one transaction for each (x_update) and
// with bbolt's own batches (x_dbbatch): how many times as fast we are.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := openNew(b)
			data := make([]byte, 200)
			before := commits(b, s)
			b.ReportAllocs()
			b.ResetTimer()
			group := rate(b, writers, b.N, func(w int) error {
				batch := &threadlog.Batch{Entries: []threadlog.Entry{{Data: data}}}
				_, err := s.Append(context.Background(), logtest.Key(w), batch)
				return err
			})
			b.StopTimer()
			took := commits(b, s) - before
			b.ReportMetric(group, "appends/s")
			b.ReportMetric(float64(b.N)/float64(max(took, 1)), "appends/commit")
			b.ReportMetric(group/bare(b, writers, min(b.N, 2000), (*bolt.DB).Update), "x_update")
			b.ReportMetric(group/bare(b, writers, min(b.N, 50*writers), (*bolt.DB).Batch), "x_dbbatch")
		})
	}
}

// bare returns the appends per second of bbolt alone.
func bare(b *testing.B, writers, n int, do func(*bolt.DB, func(*bolt.Tx) error) error) float64 {
	db, err := openFile(filepath.Join(b.TempDir(), "bare.db"), false)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()
	data := make([]byte, 280) // as large as a record
	return rate(b, writers, n, func(int) error {
		return do(db, func(tx *bolt.Tx) error {
			log, err := tx.CreateBucketIfNotExists(bucketLog)
			if err != nil {
				return err
			}
			next, err := log.NextSequence()
			if err != nil {
				return err
			}
			return log.Put(posKey(mesh.Pos(next)), data)
		})
	})
}

// rate returns how many of n calls per second the writers make.
func rate(b *testing.B, writers, n int, do func(w int) error) float64 {
	var left atomic.Int64
	left.Store(int64(n))
	start := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// BenchmarkOpen opens a file of 100,000 events in 1,000 threads, one in ten
// with an id, and reports what the index costs.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "mesh.db")
	fill(b, path)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/float64(s.book.Records()), "index_B/event")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func fill(b *testing.B, path string) {
	s, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	batch := &threadlog.Batch{Entries: make([]threadlog.Entry, 100)}
	for i := range batch.Entries {
		e := &batch.Entries[i]
		e.Data = make([]byte, 300)
		if i%10 == 0 {
			e.ID = mesh.NewEventID()
		}
	}
	for i := range 1000 {
		if _, err := s.Append(b.Context(), logtest.Key(i), batch); err != nil {
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
