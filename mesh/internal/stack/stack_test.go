package stack

import (
	"strconv"
	"testing"
)

// BenchmarkDeep has goroutines call as deep as those of a turn.
func BenchmarkDeep(b *testing.B) {
	for name, first := range map[string]func(){"grown": Grow, "growing": func() {}} {
		b.Run(name, func(b *testing.B) {
			done := make(chan int)
			for b.Loop() {
				go func() { first(); done <- deep(50, "x") }()
				<-done
			}
		})
	}
}

//go:noinline
func deep(n int, s string) int {
	if n == 0 {
		return len(s)
	}
	var frame [8]int
	frame[n%8] = deep(n-1, strconv.Itoa(n))
	return frame[n%8]
}
