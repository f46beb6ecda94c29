//go:build linux

package bench_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// storePackages have had the benchmark that appends to the store, the present one
// first.
var storePackages = []string{"./mesh/store/disk", "./mesh/store/bolt"}

// storeBench prints "appends/s" and "appends/commit" for each number of writers.
const storeBench = `^BenchmarkAppend$/^writers=%d$`

// recordSize is that of an append, as in the store's benchmark, with its head.
const recordSize = 256

// bareLog is the least that a log can be whose appends are on disk when they
// return: one goroutine takes what waits, writes it with a checksum into a file
// whose blocks are there, and syncs.
type bareLog struct {
	file  *os.File
	queue chan chan struct{}
	at    int64
}

// writeLog runs 64 writers for a while and prints how many appends they made in a
// second.
func writeLog(dir string) error {
	const writers, lasts = 64, 400 * time.Millisecond
	s, err := newSyncer(dir)
	if err != nil {
		return err
	}
	l := &bareLog{file: s.file, queue: make(chan chan struct{}, writers)}
	var sum, stop atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := int64(0); ; n++ {
				if stop.Load() != 0 {
					sum.Add(n)
					return
				}
				done := make(chan struct{})
				l.queue <- done
				<-done
			}
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- l.write() }() // ends with the queue
	begin := time.Now()
	time.Sleep(lasts)
	stop.Store(1)
	wg.Wait()
	close(l.queue)
	fmt.Printf("%.0f appends/s\n", float64(sum.Load())/time.Since(begin).Seconds())
	return <-ended
}

func (l *bareLog) write() error {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	record := make([]byte, recordSize)
	for first := range l.queue {
		batch := []chan struct{}{first}
		for before := 0; before < len(batch); runtime.Gosched() { // until no more come
			before = len(batch)
			for range len(l.queue) {
				batch = append(batch, <-l.queue)
			}
		}
		var buf []byte
		for range batch {
			binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
			buf = append(buf, record...)
		}
		if l.at+int64(len(buf)) > syncFile {
			l.at = 0
		}
		if _, err := l.file.WriteAt(buf, l.at); err != nil {
			return err
		}
		l.at += int64(len(buf))
		if err := unix.Fdatasync(int(l.file.Fd())); err != nil {
			return err
		}
		for _, done := range batch {
			close(done)
		}
	}
	return nil
}

// store measures what the store's own benchmark prints, and the bare log beside
// it, on all cores: both are one process, and there is no other one to be kept from.
func (b *bench) store(_ context.Context, r round, _ int) error {
	if len(b.stores) == 0 {
		return nil
	}
	rate, err := b.figures(b.self("log", b.dir), "appends/s")
	if err != nil {
		return err
	}
	r["log rate"] = rate["appends/s"]
	for name, bin := range b.stores {
		for _, writers := range []int{16, 64} {
			cmd := exec.Command(bin, "-test.run=^$", "-test.benchtime=300ms", "-test.bench="+fmt.Sprintf(storeBench, writers))
			got, err := b.figures(cmd, "appends/s", "appends/commit")
			if err != nil {
				return err
			}
			r[fmt.Sprintf("%s store %d a commit", name, writers)] = got["appends/commit"]
			r[fmt.Sprintf("%s store %d rate", name, writers)] = got["appends/s"]
		}
	}
	return nil
}

// figures runs a command to its end and returns what it prints of the units.
func (b *bench) figures(cmd *exec.Cmd, units ...string) (map[string]float64, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := startOn(cmd, b.cores.all); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd.Path, err, out.String())
	}
	all := map[string]float64{}
	for _, unit := range units {
		at := regexp.MustCompile(`([0-9.e+]+) ` + unit).FindStringSubmatch(out.String())
		if at == nil {
			return nil, fmt.Errorf("%s prints no %s: %s", cmd.Path, unit, out.String())
		}
		value, err := strconv.ParseFloat(at[1], 64)
		if err != nil {
			return nil, err
		}
		all[unit] = value
	}
	return all, nil
}
