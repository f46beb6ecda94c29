package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// Keep makes events ready to be added to the thread: bytes for which they have no room are kept
// here, with references in place of them, and whatever they refer to is there until added is
// called, which says whether they were added; it is nil if they refer to nothing. Errors: Invalid for a reference to what the thread
// does not have; Exhausted if the disk is full, or the bytes are too many; then nothing is to be
// called, and the events may be given again.
func (s *Store) Keep(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event) (added func(bool), err error) {
	const op = "blob.Keep"
	var pins []*item
	defer func() {
		if err != nil {
			s.release(key, pins, false)
		}
	}()
	for i, e := range events {
		body, err := mesh.Spill(e.Body, func(data []byte) (mesh.Blob, error) { return s.put(ctx, key, data) })
		if errors.Is(err, syscall.ENOSPC) { // as the log says it of the event
			return nil, mesh.Errorf(mesh.Unavailable, op, "The node could not write to its disk; try again: %w", err)
		}
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		e.Body = body
		for b := range mesh.Blobs(mesh.PartsOf(body)) {
			pin, ok := s.pin(key, b)
			if !ok {
				return nil, mesh.InvalidField(op, fmt.Sprintf("events[%d].parts", i), "refers to the bytes %s, which the thread does not have; upload them for it, and send it again within an hour", mesh.Clip(b.Hash, 12))
			}
			pins = append(pins, pin)
		}
	}
	if pins == nil {
		return nil, nil
	}
	return func(yes bool) { s.release(key, pins, yes) }, nil
}

// put keeps the bytes as an upload of nobody's.
func (s *Store) put(ctx context.Context, key mesh.ThreadKey, data []byte) (mesh.Blob, error) {
	sum := sha256.Sum256(data)
	b := mesh.Blob{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	if s.has(key, b) {
		return b, nil
	}
	u, err := s.begin(key, mesh.NewEventID(), b, 0, false) // of nobody
	if err != nil {
		return b, err
	}
	defer u.Close()
	if _, err := u.Write(data); err != nil {
		return b, err
	}
	return b, u.Commit(ctx)
}

// has reports whether the thread has the blob, or all of it was uploaded.
func (s *Store) has(key mesh.ThreadKey, b mesh.Blob) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(key, b) != nil
}

// find returns the bytes of the blob that the thread has, or that were uploaded for it as a
// whole; nil if there are none. The caller holds mu.
func (s *Store) find(key mesh.ThreadKey, b mesh.Blob) *item {
	sh := s.threads[key]
	if sh == nil {
		return nil
	}
	if is := sh.held[b.Hash]; is != nil {
		if is.blob != b {
			return nil
		}
		return is
	}
	for _, u := range sh.uploads {
		if u.whole && u.blob == b {
			return u
		}
	}
	return nil
}

// pin keeps the bytes of the blob there, if they are.
func (s *Store) pin(key mesh.ThreadKey, b mesh.Blob) (is *item, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is = s.find(key, b); is != nil {
		is.pins++
		is.touched = s.opts.Now()
	}
	return is, is != nil
}

// release lets go of the bytes, which are the thread's from now on if the events were added.
func (s *Store) release(key mesh.ThreadKey, pins []*item, added bool) {
	s.mu.Lock()
	named := false
	for _, u := range pins {
		if u.pins--; added && u.pins == 0 {
			named = s.settle(key, u) == nil || named
		}
	}
	s.mu.Unlock()
	if named { // if that fails, or the process is killed before, Sweep finds it
		_ = segment.SyncFolder(s.folder(key))
	}
}

// settle gives the upload the name of what the thread has. The caller holds mu.
func (s *Store) settle(key mesh.ThreadKey, u *item) error {
	sh := s.threads[key]
	name := u.blob.Hash + "." + u.user
	if sh == nil || sh.uploads[name] != u {
		return nil
	}
	at := filepath.Join(s.folder(key), name+newSuffix)
	var err error
	if sh.held[u.blob.Hash] != nil {
		err = os.Remove(at)
	} else {
		err = os.Rename(at, filepath.Join(s.folder(key), u.blob.Hash))
	}
	if err != nil {
		return err
	}
	delete(sh.uploads, name)
	s.tenant(key.Tenant).pending -= u.got
	if sh.held[u.blob.Hash] == nil {
		s.add(key, u)
	}
	return nil
}

// Open opens the bytes of a blob to which an event of the thread refers. It does not ask who
// reads. The error is NotFound if no event does.
func (s *Store) Open(ctx context.Context, key mesh.ThreadKey, hash string) (io.ReadSeekCloser, int64, error) {
	const op = "blob.Open"
	s.mu.Lock()
	sh := s.threads[key]
	held, waits := false, false
	if sh != nil {
		held = sh.held[hash] != nil
		for _, u := range sh.uploads {
			waits = waits || u.whole && u.blob.Hash == hash
		}
	}
	s.mu.Unlock()
	if !held && waits { // it may be that its event was added, and the process killed then
		if err := s.resolve(ctx, key, func(u *item) bool { return u.blob.Hash == hash }, false); err != nil {
			return nil, 0, mesh.Wrap(op, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh = s.threads[key]; sh == nil {
		return nil, 0, unknown(op)
	}
	is := sh.held[hash]
	if is == nil {
		return nil, 0, unknown(op)
	}
	file, err := os.Open(filepath.Join(s.folder(key), hash))
	if err != nil {
		return nil, 0, mesh.Errorf(mesh.DataLoss, op, "The bytes are missing in the node's data folder; its operator must restore a copy: %w", err)
	}
	return file, is.blob.Size, nil
}

// Peek returns the bytes of a blob that the thread has, or that were uploaded for it as a whole, which
// a message is about to refer to. It does not ask who reads. The error is NotFound if there are none.
func (s *Store) Peek(key mesh.ThreadKey, b mesh.Blob) ([]byte, error) {
	const op = "blob.Peek"
	is, ok := s.pin(key, b)
	if !ok {
		return nil, unknown(op)
	}
	defer s.release(key, []*item{is}, false)
	file, err := s.openItem(key, is)
	if err != nil {
		return nil, mesh.Errorf(mesh.DataLoss, op, "The bytes are missing in the node's data folder; its operator must restore a copy: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, b.Size))
	if err == nil && int64(len(data)) < b.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.DataLoss, op, "The bytes of a file cannot be read; the node's operator must restore a copy: %w", err)
	}
	return data, nil
}

// openItem opens the file of bytes that are pinned, under the name that they have now.
func (s *Store) openItem(key mesh.ThreadKey, is *item) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := is.blob.Hash
	if sh := s.threads[key]; sh == nil || sh.held[name] != is {
		name += "." + is.user + newSuffix
	}
	return os.Open(filepath.Join(s.folder(key), name))
}
