//go:build linux

package bench_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load calls do n times, by so many at a time, and returns how many µs each took.
func load(workers, n int, do func(i int) error) ([]float64, error) {
	took, errs := make([]float64, n), make([]error, n)
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < n && failed.Load() == 0; i = int(next.Add(1) - 1) {
				begin := time.Now()
				if errs[i] = do(i); errs[i] != nil {
					failed.Add(1)
				}
				took[i] = us(time.Since(begin))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// median is the middle value; of an even number, the mean of the two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
