package disk

import (
	"path/filepath"
	"testing"
	"time"

	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// BenchmarkLink measures the hashes of an event of 200 bytes, and how much longer an
// append by 64 writers takes for them (x_append), in turns with such appends.
func BenchmarkLink(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "mesh.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }() // a benchmark is over
	data := make([]byte, 200)
	rec := record{key: logtest.Key(1), seq: 1, Entry: threadlog.Entry{Data: data}}
	encoded := encode(nil, rec)
	head := encoded[:len(encoded)-len(data)]
	var all chain
	var link [32]byte
	var buf []byte
	var slower []float64
	b.ReportAllocs()
	const rounds = 15
	for range rounds {
		n := max(b.N/rounds, 1)
		b.StopTimer()
		perSecond, _ := rate(b, 64, n, func(w int) error {
			_, err := s.Append(b.Context(), logtest.Key(w), &threadlog.Batch{Entries: []threadlog.Entry{{Data: data}}})
			return err
		})
		b.StartTimer()
		begun := time.Now()
		for range n {
			link, buf = linkEvent(buf, link, head, data)
			all.add(all.last+1, kindEvent, link[:])
		}
		took := time.Since(begun).Seconds() / float64(n)
		slower = append(slower, 1/(1-min(took*perSecond, 0.9)))
	}
	b.ReportMetric(median(slower), "x_append")
}
