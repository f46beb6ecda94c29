// Package checkpoint keeps checkpoints of folded threads among the values of the mesh, so that
// a thread which nobody has used for a while is not folded from its first event; and chunks of
// what is made of the events of a turn, see package digest.
//
// A checkpoint is a cache. What is kept is what was saved last or, where a process died while
// it saved, nothing that can be read: [Store.Load] then says so, and whoever needs the thread
// folds it from its log. A checkpoint goes with its thread.
//
// A Store may be used concurrently; of several that save checkpoints of one thread at once
// any may win, or none.
//
// It does not know what is in a checkpoint, nor whether that is of the thread that there is now.
package checkpoint

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// What is kept stands under the operator's own tenant, which no grant reaches. That there is
// a checkpoint is said apart, so that finding out which there are does not read them.
const (
	kindPart = "thread.checkpoint"  // a part of a checkpoint, by tenant, thread and number
	kindMark = "thread.checkpoints" // that there may be one, or a chunk, by tenant and thread
	// kindChunk is a part of a chunk, by tenant, thread, turn, where it begins and ends, and number.
	kindChunk = "thread.digest"
)

// Kinds are the kinds of the values that a Store keeps, which can be made again.
func Kinds() []string { return []string{kindPart, kindChunk, kindMark} }

const (
	partSize = state.MaxData
	// maxParts bounds a checkpoint, compressed: one that is larger is not kept.
	maxParts = 64
	// maxSize bounds what one is decompressed to.
	maxSize = 256 << 20
)

// Store keeps checkpoints. Use New.
type Store struct {
	kv *state.KV
	// writing is held by who saves or forgets: parts that are put while the mark goes would
	// have none, and would stay if the process died then.
	writing sync.Mutex
}

// New returns a Store of checkpoints among the values.
func New(kv *state.KV) *Store { return &Store{kv: kv} }

func name(key mesh.ThreadKey) string { return string(key.Tenant) + "/" + key.ID }

func part(key mesh.ThreadKey, n int) state.Key {
	return state.Key{Kind: kindPart, Name: name(key) + "/" + strconv.Itoa(n)}
}

// Save keeps the checkpoint in place of the one before. Errors: Exhausted for one that is too
// large; Unavailable.
func (s *Store) Save(ctx context.Context, key mesh.ThreadKey, checkpoint []byte) error {
	return s.save(ctx, "checkpoint.Save", key, func(n int) state.Key { return part(key, n) }, checkpoint)
}

// save keeps what is in parts under the keys.
func (s *Store) save(ctx context.Context, op string, key mesh.ThreadKey, part func(n int) state.Key, checkpoint []byte) error {
	data, err := pack(checkpoint)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	n := (len(data) + partSize - 1) / partSize
	if n > maxParts {
		return mesh.Errorf(mesh.Exhausted, op, "the checkpoint has %d bytes, and %d are kept", len(data), maxParts*partSize)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	mark := state.Key{Kind: kindMark, Name: name(key)}
	if _, err := s.kv.Put(ctx, mark, nil, 0); err != nil && !mesh.IsCode(err, mesh.Conflict) {
		return mesh.Wrap(op, err)
	}
	for i := n - 1; i >= 0; i-- { // the first one, which has the checksum of all, comes last
		if _, err := s.kv.Put(ctx, part(i), data[i*partSize:min((i+1)*partSize, len(data))], state.AnyVersion); err != nil {
			return mesh.Wrap(op, err)
		}
	}
	return nil
}

// Load returns the checkpoint of the thread, nil if there is none. Errors: Invalid for one
// that is not whole; Unavailable.
func (s *Store) Load(ctx context.Context, key mesh.ThreadKey) ([]byte, error) {
	return s.load(ctx, "checkpoint.Load", func(n int) state.Key { return part(key, n) })
}

// load returns what is in parts under the keys.
func (s *Store) load(ctx context.Context, op string, part func(n int) state.Key) ([]byte, error) {
	first, err := s.kv.Get(ctx, part(0))
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	data := first.Data
	for i := 1; i < partsOf(data); i++ {
		v, err := s.kv.Get(ctx, part(i))
		if err != nil && !mesh.IsCode(err, mesh.NotFound) {
			return nil, mesh.Wrap(op, err)
		}
		data = append(data[:len(data):len(data)], v.Data...)
	}
	checkpoint, err := unpack(data)
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "the checkpoint is not whole: %w", err)
	}
	return checkpoint, nil
}

// header is how long what pack returns is, and the checksum of what follows.
const header = 8

// pack compresses the checkpoint, behind a header.
func pack(checkpoint []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, header))
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(checkpoint); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	data := b.Bytes()
	binary.BigEndian.PutUint32(data, uint32(len(data)))
	binary.BigEndian.PutUint32(data[4:], crc32.ChecksumIEEE(data[header:]))
	return data, nil
}

// partsOf is in how many parts what begins so is kept.
func partsOf(data []byte) int {
	if len(data) < header {
		return 0
	}
	return min((int(binary.BigEndian.Uint32(data))+partSize-1)/partSize, maxParts)
}

func unpack(data []byte) ([]byte, error) {
	if len(data) < header || int(binary.BigEndian.Uint32(data)) != len(data) || binary.BigEndian.Uint32(data[4:]) != crc32.ChecksumIEEE(data[header:]) {
		return nil, fmt.Errorf("%d bytes have another checksum", len(data))
	}
	checkpoint, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[header:])), maxSize+1))
	if err == nil && len(checkpoint) > maxSize {
		err = fmt.Errorf("it has more than %d bytes", maxSize)
	}
	return checkpoint, err
}

// Forget removes the checkpoints of threads that were deleted. That of a thread that was begun
// since under the same id may go with them.
func (s *Store) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	const op = "checkpoint.Forget"
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, key := range keys {
		for _, kind := range Kinds() { // the mark comes last: as long as it is there, somebody looks
			page := state.Page{Kind: kind, Prefix: name(key), Limit: state.MaxPage}
			for more := true; more; {
				items, left, err := s.kv.List(ctx, page)
				if err != nil {
					return mesh.Wrap(op, err)
				}
				for _, it := range items {
					if err := s.kv.Delete(ctx, state.Key{Kind: kind, Name: it.Name}, state.AnyVersion); err != nil && !mesh.IsCode(err, mesh.NotFound) {
						return mesh.Wrap(op, err)
					}
					page.After = it.Name
				}
				more = left
			}
		}
	}
	return nil
}

// Kept yields the threads that may have checkpoints.
func (s *Store) Kept(ctx context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(yield func(mesh.ThreadKey, error) bool) {
		page := state.Page{Kind: kindMark, Limit: state.MaxPage}
		for more := true; more; {
			items, left, err := s.kv.List(ctx, page)
			if err != nil {
				yield(mesh.ThreadKey{}, mesh.Wrap("checkpoint.Kept", err))
				return
			}
			for _, it := range items {
				i := strings.LastIndexByte(it.Name, '/')
				if !yield(mesh.ThreadKey{Tenant: mesh.TenantID(it.Name[:max(i, 0)]), ID: it.Name[i+1:]}, nil) {
					return
				}
				page.After = it.Name
			}
			more = left
		}
	}
}
