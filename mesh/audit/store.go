// Package audit keeps the record of what administrators did and of what was refused.
//
// A [Store] is a folder to which records are only added. Each has a hash that covers the
// one before it, and a [Recorder] signs every minute how far that has come, beside the
// log of threads: a [Checkpoint] can be kept elsewhere, and [Check] says offline whether
// the folder is still what was signed.
//
// Acts are recorded before they are done, and not done if that fails. Refusals and reads
// are noted without waiting, and counted: one caller makes one record a minute, and all
// together a number that is bounded, so that nobody fills the disk. What messages say,
// and tokens, are never given to this package.
//
// Everything may be used concurrently. It is not for much: an act costs two syncs.
package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// kindRecord is the kind of all records of the log.
const kindRecord = 1

// A Sum is a hash of a chain.
type Sum = [sha256.Size]byte

// A Store is the record on disk. Use [Open].
type Store struct {
	log *segment.Log

	mu      sync.Mutex // guards the fields below; one appends at a time
	hash    Sum        // of the last record
	act     int64      // the seq of the last record that is no checkpoint
	covered *meshv1.AuditCheckpoint
	about   map[uint64][]int64 // the seqs of records by the threads that they are about
	deleted map[uint64]bool    // whether such a thread was deleted
	seed    maphash.Seed       // of both
	grown   chan struct{}      // closed when there is more
}

// Open opens the folder, and makes it if there is none. Close the store after use. A
// folder that is damaged is a Precondition error, and left as it is.
func Open(dir string) (*Store, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := create(dir); err != nil {
			return nil, unusable(dir, err)
		}
	}
	s := &Store{grown: make(chan struct{}), about: map[uint64][]int64{}, deleted: map[uint64]bool{}, seed: maphash.MakeSeed()}
	log, err := segment.Open(dir, segment.Options{}, func(n int64, r segment.Record) error {
		rec, err := decode(n, r)
		if err != nil {
			return fmt.Errorf("%w: record %d: %w", segment.ErrDamaged, n, err)
		}
		s.note(rec)
		return nil
	})
	if err != nil {
		return nil, unusable(dir, err)
	}
	s.log = log
	return s, nil
}

func unusable(dir string, err error) error {
	return mesh.Errorf(mesh.Precondition, "audit.Open", "The audit folder %s cannot be used and was left as it is; see that it can be written, or restore a copy: %w", dir, err)
}

// create makes an empty store, whole or not at all.
func create(dir string) error {
	tmp := dir + ".new"
	if err := errors.Join(os.RemoveAll(tmp), segment.Create(tmp, segment.Options{}), os.Rename(tmp, dir)); err != nil {
		return err
	}
	return segment.SyncFolder(filepath.Dir(dir))
}

// Close closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Close()
}

// note takes over what is on disk. The caller holds mu, or nobody else has the store.
func (s *Store) note(rec *meshv1.AuditRecord) {
	s.hash = Sum(rec.GetHash())
	s.index(rec)
	if c := rec.GetCheckpoint(); c != nil {
		s.covered = c
	} else {
		s.act = rec.GetSeq()
	}
}

// Append adds the records, all or none, and gives them their seq, hash and, where it is
// missing, time. They are on disk when it returns nil.
func (s *Store) Append(recs ...*meshv1.AuditRecord) error {
	if len(recs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(recs)
}

func (s *Store) append(recs []*meshv1.AuditRecord) error {
	const op = "audit.Append"
	entries, hash := make([]segment.Record, len(recs)), s.hash
	for i, rec := range recs {
		rec.Seq, rec.Hash = 0, nil
		rec.Count = max(rec.Count, 1)
		if rec.Time == nil {
			rec.Time = timestamppb.New(time.Now())
		}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(rec)
		if err != nil {
			return mesh.Errorf(mesh.Unknown, op, ": %w", err)
		}
		hash = link(hash, data)
		entries[i] = segment.Record{Kind: kindRecord, Data: data, Hash: append([]byte(nil), hash[:]...)}
	}
	first, err := s.log.Append(entries)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, op, "The node cannot write its record of administrative acts; its operator must see to its disk: %w", err)
	}
	for i, rec := range recs {
		rec.Seq, rec.Hash = first+int64(i), entries[i].Hash
		s.note(rec)
	}
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

// link is the hash of a record with that data which follows the one of that hash.
func link(before Sum, data []byte) Sum {
	return sha256.Sum256(append(before[:], data...))
}

// decode returns the record of the log.
func decode(n int64, r segment.Record) (*meshv1.AuditRecord, error) {
	rec := new(meshv1.AuditRecord)
	if r.Kind != kindRecord || len(r.Hash) != len(Sum{}) {
		return nil, fmt.Errorf("it is of kind %d, with %d bytes of hash", r.Kind, len(r.Hash))
	}
	if err := proto.Unmarshal(r.Data, rec); err != nil {
		return nil, err
	}
	rec.Seq, rec.Hash = n, append([]byte(nil), r.Hash...)
	return rec, nil
}

// Last returns the seq of the last record.
func (s *Store) Last() int64 { return s.log.Last() }

// Grown returns a channel that is closed when there are more records than now.
func (s *Store) Grown() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grown
}

// Read returns the records above that seq in order, at most limit.
func (s *Store) Read(ctx context.Context, after int64, limit int) ([]*meshv1.AuditRecord, error) {
	seqs, err := s.log.After(max(after, 0), limit)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "audit.Read", "The node's record of administrative acts cannot be read; its operator must restore a copy: %w", err)
	}
	return s.read(ctx, seqs)
}

// read returns the records of these seqs, which ascend.
func (s *Store) read(ctx context.Context, seqs []int64) ([]*meshv1.AuditRecord, error) {
	const op = "audit.Read"
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	var recs []*meshv1.AuditRecord
	var broken error
	err := s.log.Read(seqs, func(n int64, r segment.Record) bool {
		rec, err := decode(n, r)
		broken = err
		recs = append(recs, rec)
		return err == nil
	})
	if err := errors.Join(err, broken); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "The node's record of administrative acts cannot be read; its operator must restore a copy: %w", err)
	}
	return recs, nil
}
