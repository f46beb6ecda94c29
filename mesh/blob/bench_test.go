package blob_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/blob"
)

const benchSize = 64 << 20

// What it takes to take and to give a file, beside a copy of one that is synced.
func BenchmarkFile(b *testing.B) {
	data := make([]byte, benchSize)
	of := blobOf(data)
	s, err := blob.Open(b.TempDir(), blob.Options{Pending: 1 << 50})
	if err != nil {
		b.Fatal(err)
	}
	upload := func(key mesh.ThreadKey) error {
		u, err := s.Upload(b.Context(), key, "ann", of, 0)
		if err != nil {
			return err
		}
		defer u.Close()
		for at := 0; at < benchSize; at += mesh.MaxPiece {
			if _, err := u.Write(data[at : at+mesh.MaxPiece]); err != nil {
				return err
			}
		}
		return u.Commit(b.Context())
	}
	if err := upload(other); err != nil {
		b.Fatal(err)
	}
	added, err := s.Keep(b.Context(), other, []*mesh.Event{posted(refTo(of))})
	if err != nil {
		b.Fatal(err)
	}
	added(true)
	for _, bench := range []struct {
		name string
		do   func() error
	}{
		{"upload", func() error { return upload(one) }},
		{"download", func() error {
			r, _, err := s.Open(b.Context(), other, of.Hash)
			if err != nil {
				return err
			}
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, mesh.MaxPiece))
			return errorsOf(err, r.Close())
		}},
		{"copy", func() error {
			to, err := os.Create(filepath.Join(b.TempDir(), "copy"))
			if err != nil {
				return err
			}
			for at := 0; at < benchSize; at += mesh.MaxPiece {
				if _, err := to.Write(data[at : at+mesh.MaxPiece]); err != nil {
					return err
				}
			}
			return errorsOf(to.Sync(), to.Close(), os.Remove(to.Name()))
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
