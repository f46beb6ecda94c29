package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/store/segment"
)

// nowhere is the chain of a log that has none.
func nowhere(int64) (audit.Head, bool) { return audit.Head{}, true }

// only returns the one file in the folder.
func only(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files are %v (%v)", files, err)
	}
	return files[0]
}

// flip changes a bit of the text in the folder's file.
func flip(t testing.TB, dir, text string) {
	t.Helper()
	b, err := os.ReadFile(only(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte(text))] ^= 1
	if err := os.WriteFile(only(t, dir), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// written makes a store of ten records and two checkpoints, and returns the last one, as
// it is kept elsewhere.
func written(t testing.TB, dir string, by byte) []*meshv1.AuditCheckpoint {
	t.Helper()
	s := open(t, dir)
	var kept []*meshv1.AuditCheckpoint
	for i := range 10 {
		if err := s.Append(&meshv1.AuditRecord{Action: fmt.Sprint("action-", i), UserId: "alice"}); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			c, err := s.Checkpoint(signer(t, by), audit.Head{}, time.Unix(int64(i), 0))
			if err != nil || c == nil {
				t.Fatalf("no checkpoint: %v", err)
			}
			kept = append(kept, c)
		}
	}
	if c, err := s.Checkpoint(signer(t, by), audit.Head{}, time.Now()); c != nil || err != nil {
		t.Fatalf("a checkpoint of nothing: %v (%v)", c, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return kept
}

// findings looks at the folder with the checkpoints that were kept.
func findings(t testing.TB, dir string, kept []*meshv1.AuditCheckpoint) []audit.Finding {
	t.Helper()
	c, err := audit.Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	keys := []ed25519.PublicKey{signer(t, 'k').Public()[0]}
	c.Against(append(kept, c.Checkpoints...), keys, nowhere)
	return c.Findings
}

// rewrite makes the folder again with what change makes of its records, as somebody can
// who has no key: with all checksums, and hashes as they come.
func rewrite(t testing.TB, dir string, change func([]segment.Record) []segment.Record) {
	t.Helper()
	var recs []segment.Record
	l, err := segment.Open(dir, segment.Options{ReadOnly: true}, func(_ int64, r segment.Record) error {
		recs = append(recs, segment.Record{Kind: r.Kind, Data: bytes.Clone(r.Data), Hash: bytes.Clone(r.Hash)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), os.RemoveAll(dir), segment.Create(dir, segment.Options{})); err != nil {
		t.Fatal(err)
	}
	if l, err = segment.Open(dir, segment.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(change(recs))
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
}

// finding T9: whoever lacks the key changes, drops or reorders nothing unseen.
func TestEveryChangeOfTheRecordIsFound(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func([]segment.Record) []segment.Record
		where  string // the first finding
	}{
		{"nothing", func(r []segment.Record) []segment.Record { return r }, ""},
		{"a record is another", func(r []segment.Record) []segment.Record {
			r[2].Data = bytes.Replace(r[2].Data, []byte("alice"), []byte("mally"), 1)
			return r
		}, "audit record 3"},
		{"a hash is another", func(r []segment.Record) []segment.Record { r[2].Hash[0] ^= 1; return r }, "audit record 3"},
		{"one is gone", func(r []segment.Record) []segment.Record { return append(r[:4], r[5:]...) }, "audit record 5"},
		{"one is dropped", func(r []segment.Record) []segment.Record {
			r[6] = segment.Record{Kind: segment.Dropped}
			return r
		}, "audit record 7"},
		{"one is dropped, with its hash", func(r []segment.Record) []segment.Record {
			r[6].Kind, r[6].Data = r[6].Kind|segment.Dropped, nil
			return r
		}, "audit record 7"},
		{"two changed places", func(r []segment.Record) []segment.Record { r[1], r[2] = r[2], r[1]; return r }, "audit record 2"},
		{"the first ones are gone", func(r []segment.Record) []segment.Record { return r[3:] }, "audit record 1"},
		{"the last ones are gone", func(r []segment.Record) []segment.Record { return r[:9] }, "checkpoint of 1970-01-01T00:00:09Z"},
		{"all are gone", func(r []segment.Record) []segment.Record { return nil }, "checkpoint of 1970-01-01T00:00:04Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			kept := written(t, dir, 'k')
			rewrite(t, dir, tt.change)
			found := findings(t, dir, kept)
			if tt.where == "" && len(found) > 0 || tt.where != "" && (len(found) == 0 || found[0].Where != tt.where) {
				t.Errorf("found %v, want it at %q", found, tt.where)
			}
		})
	}
}

// Who makes the whole record anew, with a key of their own, is found by what was kept
// elsewhere, and by the node's key.
func TestAnotherRecordIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	kept := written(t, dir, 'k')
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	written(t, dir, 'x')
	if found := findings(t, dir, nil); len(found) != 2 || !strings.Contains(found[0].What, "not signed") {
		t.Errorf("by the key: %v", found)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for range 12 {
		if err := s.Append(&meshv1.AuditRecord{Action: "forged"}); err != nil {
			t.Fatal(err)
		}
	}
	if found := findings(t, dir, kept); len(found) != 2 {
		t.Errorf("by the checkpoints: %v", found)
	}
}

// finding T9: no bit of the file can change unseen, up to the last checkpoint.
func TestEveryByteOfTheRecordCounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	kept := written(t, dir, 'k')
	path := only(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(whole, "\x00"))
	const step = 31 // another sample each time
	for at := rand.IntN(step); at < end; at += step {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if found := findings(t, dir, kept); len(found) == 0 && at < lastCheckpoint(whole) {
			t.Fatalf("byte %d of %d is changed, and nothing is found", at, end)
		}
	}
}

// lastCheckpoint is where the record begins that has the last checkpoint: nothing covers
// that, but the next one.
func lastCheckpoint(whole []byte) int { return bytes.LastIndex(whole, []byte("action-9")) }

func TestCheckpointsAreKeptInAFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "audit"))
	file := filepath.Join(dir, "checkpoints")
	heads := int64(0)
	r := audit.NewRecorder(audit.Options{Store: s, Signer: signer(t, 'k'), Checkpoints: file, Head: func() audit.Head {
		heads++
		return audit.Head{First: 1, Last: heads, Hash: audit.Sum{byte(heads)}}
	}})
	run(t, r)
	run(t, r)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.ReadCheckpoints(bytes.NewReader(append(text, `{"cut off`...)))
	if err != nil || len(got) != 4 {
		t.Fatalf("%d checkpoints (%v)", len(got), err)
	}
	c, err := audit.Check(filepath.Join(dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	c.Against(got, nil, func(last int64) (audit.Head, bool) {
		return audit.Head{First: 1, Last: last, Hash: audit.Sum{byte(last)}}, last < 4
	})
	if len(c.Findings) != 1 || !strings.Contains(c.Findings[0].What, "does not reach") {
		t.Errorf("found %v", c.Findings)
	}
	if _, err := audit.ReadCheckpoints(strings.NewReader("no checkpoint\n")); err == nil {
		t.Error("a line is taken that is no checkpoint")
	}
}

// A checkpoint that cannot be kept elsewhere raises an alarm, and is there once when it
// can be.
func TestTheLastCheckpointIsKeptWhenThatCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		away := filepath.Join(dir, "away")
		alarms := alarm.New(slog.New(slog.DiscardHandler), nil)
		r := audit.NewRecorder(audit.Options{Store: open(t, filepath.Join(dir, "audit")), Signer: signer(t, 'k'), Alarms: alarms,
			Checkpoints: filepath.Join(away, "checkpoints"), Head: func() audit.Head { return audit.Head{First: 1, Last: 1, Hash: audit.Sum{1}} }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		time.Sleep(5 * time.Second)
		if got := alarms.Settings(); len(got) != 1 || got[0] != "audit.checkpoints" {
			t.Errorf("alarms: %q", got)
		}
		if err := os.Mkdir(away, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		stop()
		<-done
		text, err := os.ReadFile(filepath.Join(away, "checkpoints"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := audit.ReadCheckpoints(bytes.NewReader(text)); err != nil || len(got) != 1 || len(alarms.List()) != 0 {
			t.Errorf("%d checkpoints are kept (%v), and there are %v", len(got), err, alarms.List())
		}
	})
}
