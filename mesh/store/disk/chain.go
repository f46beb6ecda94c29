package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// Each record has a hash. That of an event covers its head and the hash of its data, and
// the hash of the thread's event before it; so a thread is a chain, and stays one when
// data goes. Those of values and deletions cover themselves. One more chain is over the
// hashes of all records in their order: it is not written, but can be made from what is
// there, and its end is what checkpoints sign.

// A chain is that over all records, as far as it has come.
type chain struct {
	first, last int64 // positions; 0 for none
	sum         memindex.Link
	tail        memindex.Link // the hash of the last record
	buf         []byte
}

// add adds the record at that position, also one that was dropped.
func (c *chain) add(n int64, kind byte, hash []byte) {
	if c.first == 0 {
		c.first = n
	}
	c.last = n
	b := binary.BigEndian.AppendUint64(append(c.buf[:0], c.sum[:]...), uint64(n))
	c.buf = append(append(b, kind&^segment.Dropped), hash...)
	c.sum = sha256.Sum256(c.buf)
	copy(c.tail[:], hash)
}

// linkEvent returns the hash of an event whose encoded head and data these are, after
// the event of its thread whose hash is before. It uses buf, and returns it.
func linkEvent(buf []byte, before memindex.Link, head, data []byte) (memindex.Link, []byte) {
	sum := sha256.Sum256(data)
	buf = append(append(append(append(buf[:0], kindEvent), before[:]...), sum[:]...), head...)
	return sha256.Sum256(buf), buf
}

// linkOther returns the hash of a record of another kind.
func linkOther(kind byte, data []byte) memindex.Link {
	return sha256.Sum256(append([]byte{kind}, data...))
}

// hashed is a record of another kind, with its hash.
func hashed(kind byte, data []byte) segment.Record {
	sum := linkOther(kind, data)
	return segment.Record{Kind: kind, Data: data, Hash: sum[:]}
}

// Head returns how far the chain over all records has come: the position of the first
// record with a hash, that of the last, and the chain's hash; zeros for a log without.
func (s *Store) Head() (first, last int64, sum [sha256.Size]byte) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.chain.first, s.chain.last, s.chain.sum
}

// LastHash implements [threadlog.Chained].
func (s *Store) LastHash(key mesh.ThreadKey) [sha256.Size]byte {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Link(key)
}

// A tombstone is what a deletion says of the thread: its last hash, and where its events
// were.
type tombstone struct {
	key       mesh.ThreadKey
	last      memindex.Link
	positions []int64
}

func (t tombstone) encode() []byte {
	b := append(encodeKey(t.key), t.last[:]...)
	before := int64(0)
	for _, n := range t.positions {
		b = binary.AppendUvarint(b, uint64(n-before))
		before = n
	}
	return b
}

// decodeTombstone returns what encode made b of. Deletions of before the chain have the
// key alone.
func decodeTombstone(b []byte) (t tombstone, err error) {
	if t.key, b, err = cutKey(b); err != nil || len(b) == 0 {
		return t, err
	}
	if copy(t.last[:], b) < len(t.last) {
		return t, errForm
	}
	before := int64(0)
	for b = b[len(t.last):]; len(b) > 0; {
		var n uint64
		if n, b, err = cutNumber(b); err != nil {
			return t, err
		}
		before += int64(n)
		t.positions = append(t.positions, before)
	}
	return t, nil
}

// take takes a record into the chain, which has hashes from the first one on that
// has one.
func (c *chain) take(n int64, rec segment.Record) error {
	if rec.Hash == nil {
		if c.first > 0 {
			return fmt.Errorf("it has no hash, and those from %d on have one", c.first)
		}
		return nil
	}
	c.add(n, rec.Kind, rec.Hash)
	return nil
}
