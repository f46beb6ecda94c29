package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func heapGoal() int64 {
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	return int64(goal[0].Value.Uint64())
}

// The collector waits for the floor, and no longer than that when it is all that
// the process may have.
func TestTheHeapHasAFloor(t *testing.T) {
	t.Setenv("GOGC", "")
	const floor = 512 << 20
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	stop := keepHeap(floor)
	defer stop()
	// The rate is chosen after a collection, and counts from the next one on.
	for end := time.Now().Add(time.Minute); heapGoal() < floor*3/4; {
		if time.Now().After(end) {
			t.Fatalf("the next collection is at %d MiB, want %d", heapGoal()>>20, floor>>20)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	// Stacks and globals, of all tests before this one, count as the heap does.
	if goal := heapGoal(); goal > floor*2 {
		t.Errorf("the next collection is at %d MiB, want %d", goal>>20, floor>>20)
	}
	stop()
	if was := debug.SetGCPercent(100); was != 100 {
		t.Errorf("the rate is %d afterwards, want 100", was)
	}
}

func TestTheFloorIsAQuarterOfTheMemoryAtMost(t *testing.T) {
	before := debug.SetMemoryLimit(256 << 20)
	defer debug.SetMemoryLimit(before)
	if got := memoryLimit(); got > 256<<20 {
		t.Errorf("the limit is %d MiB, want 256", got>>20)
	}
}

func TestAnOperatorsRateIsLeftAlone(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	defer keepHeap(512 << 20)()
	if was := debug.SetGCPercent(50); was != 50 {
		t.Errorf("the rate is %d, want 50", was)
	}
}
