//go:build unix

package node_test

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rounds is how often each case is measured for one median. The cases of a
// benchmark take turns, so that they share whatever else the machine does.
const rounds = 5

// A cost is what the whole process used, client and servers, for each event.
// Those of two cases in one process compare; alone it says little.
type cost struct {
	wall, cpu     float64 // ns
	bytes, allocs float64
}

// measure returns the cost of each of the events that do makes.
func measure(b *testing.B, events int, do func()) cost {
	b.Helper()
	runtime.GC() // what others left behind is not charged here
	cpu, mem, at := cpuTime(b), memStats(), time.Now()
	do()
	wall := time.Since(at)
	used, after, n := cpuTime(b)-cpu, memStats(), float64(events)
	return cost{
		wall: float64(wall) / n, cpu: float64(used) / n,
		bytes: float64(after.TotalAlloc-mem.TotalAlloc) / n, allocs: float64(after.Mallocs-mem.Mallocs) / n,
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func memStats() *runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &m
}

// median returns the middle value of what of gives for each; 0 for none.
func median[T any, N cmp.Ordered](all []T, of func(T) N) N {
	var zero N
	if len(all) == 0 {
		return zero
	}
	values := make([]N, len(all))
	for i, v := range all {
		values[i] = of(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func itself[T any](v T) T { return v }

func wall(c cost) float64 { return c.wall }
func cpu(c cost) float64  { return c.cpu }

// ratio returns the median of the rounds' ratios of a to b.
func ratio(a, b []cost, of func(cost) float64) float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, of(a[i])/of(b[i]))
	}
	return median(all, itself)
}

// report reports the medians of a case's costs in place of ns/op, which here
// is the time of all cases together.
func report(b *testing.B, all []cost) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(all, wall), "ns/event")
	b.ReportMetric(median(all, cpu)/1e3, "us-cpu/event")
	b.ReportMetric(median(all, func(c cost) float64 { return c.bytes }), "B/event")
	b.ReportMetric(median(all, func(c cost) float64 { return c.allocs }), "allocs/event")
}

// atOnce calls do n times, by so many goroutines, and waits for them.
func atOnce(workers, n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
