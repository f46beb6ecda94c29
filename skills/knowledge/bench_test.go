package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"agentmesh/skills/knowledge"
)

// library is a folder of n documents of about 4 KiB, whose words are as frequent as those of a language.
func library(n int) fstest.MapFS {
	r := rand.New(rand.NewPCG(1, 2))
	words := rand.NewZipf(r, 1.1, 5, 40_000)
	fsys := fstest.MapFS{}
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, "# Document %d\n", i)
		for s := range 5 {
			fmt.Fprintf(&b, "\n## Part w%d w%d\n\n", words.Uint64(), s)
			for range 120 {
				fmt.Fprintf(&b, "w%d ", words.Uint64())
			}
		}
		fsys[fmt.Sprintf("d%d/p%d.md", i%100, i)] = &fstest.MapFile{Data: []byte(b.String())}
	}
	return fsys
}

// resident is the memory of the process in bytes, where the system tells.
func resident() float64 {
	var size, pages int64
	data, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(data), &size, &pages)
	return float64(pages) * float64(os.Getpagesize())
}

// BenchmarkIndex makes the index of 10,000 documents.
func BenchmarkIndex(b *testing.B) {
	fsys := library(10_000)
	for b.Loop() {
		before := resident()
		ix, err := knowledge.Open(fsys, knowledge.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := ix.Size(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((resident()-before)/(1<<20), "MiB")
		if err := ix.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSearch searches 10,000 documents for rare words and for frequent ones.
func BenchmarkSearch(b *testing.B) {
	ix, err := knowledge.Open(library(10_000), knowledge.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ix.Close() }()
	if _, _, err := ix.Size(b.Context()); err != nil { // it is made when it is first asked for
		b.Fatal(err)
	}
	for name, query := range map[string]string{"rare": "how is w21345 w9876", "mixed": "what are w12 w345 w6789", "frequent": "w1 w2 w3 w4"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := ix.Search(b.Context(), query, 5); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
