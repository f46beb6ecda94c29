package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
)

// cgroupLimit says how many bytes of memory the process may have.
const cgroupLimit = "/sys/fs/cgroup/memory.max"

// machineMemory says how much the machine has, on Linux.
const machineMemory = "/proc/meminfo"

// keepHeap lets the garbage collector wait until the heap has floor bytes, or a
// quarter of what the process may have: a mesh that is mostly idle has a heap of
// some MiB, and would collect it many times a second as soon as it works. Beyond the
// floor the heap may double as always. It does nothing where GOGC says what is
// wanted. The function that it returns ends it.
func keepHeap(floor int64) (stop func()) {
	if os.Getenv("GOGC") != "" || floor <= 0 {
		return func() {}
	}
	h := &heap{floor: min(floor, memoryLimit()/4)}
	h.before = debug.SetGCPercent(100)
	h.adjust()
	h.again()
	return h.stop
}

// memoryLimit is how many bytes the process may have: by GOMEMLIMIT, by its control
// group, or because the machine has no more, whichever is less.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if data, err := os.ReadFile(cgroupLimit); err == nil {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64); err == nil { // or "max"
			limit = min(limit, n)
		}
	}
	var kib int64
	if data, err := os.ReadFile(machineMemory); err == nil {
		if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kib); err == nil {
			limit = min(limit, kib<<10)
		}
	}
	return limit
}

// A heap follows the collections of the process.
type heap struct {
	floor  int64
	before int // the rate before it

	mu      sync.Mutex
	percent int
	stopped bool
}

// again has adjust called after the next collection.
func (h *heap) again() {
	runtime.AddCleanup(new([16]byte), func(h *heap) { // not so small that it shares its memory with what lives on
		if h.adjust() {
			h.again()
		}
	}, h)
}

// adjust chooses the rate at which the next collection begins at the floor, or when
// the heap has doubled. It returns false when there is nothing more to do.
func (h *heap) adjust() bool {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(read)
	size := func(i int) int64 { return int64(min(read[i].Value.Uint64(), math.MaxInt32)) }
	// The collector adds the rate's share of all three to what is live.
	live := max(size(0), 1<<20) // before the first collection nothing is known
	percent := int(max(100, 100*(h.floor-live)/(live+size(1)+size(2))))
	h.mu.Lock()
	defer h.mu.Unlock()
	// Each change stops the world for some microseconds: small ones are not made.
	if !h.stopped && (percent > h.percent+h.percent/8 || percent < h.percent-h.percent/8) {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
	return !h.stopped
}

func (h *heap) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	debug.SetGCPercent(h.before)
}
