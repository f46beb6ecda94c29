package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
)

// The buckets. The log's keys are positions, so that the file grows at its end
// whichever threads grow.
var (
	bucketMeta  = []byte("meta")  // keyTotals, keyVersion
	bucketLog   = []byte("log")   // Pos, 8 bytes big endian -> record
	bucketState = []byte("state") // tenant NUL kind NUL name -> value
	keyTotals   = []byte("totals")
)

// format is the version of how a value is written; see migrations for what is
// written. Programs before the folder had a version know it alone, and refuse a file
// with another one. Since it is 2, records say what they settle; those of 1 say nothing
// of it.
const format = 2

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errBroken  = errors.New("checksum or form is wrong")
)

// seal puts the checksum of key and value into the value's first four bytes.
func seal(key, value []byte) {
	binary.BigEndian.PutUint32(value, checksum(key, value[4:]))
}

// unseal returns the value without its checksum.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < 4 || binary.BigEndian.Uint32(value) != checksum(key, value[4:]) {
		return nil, errBroken
	}
	return value[4:], nil
}

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// record is an entry and its place.
type record struct {
	key     mesh.ThreadKey
	seq     mesh.Seq
	settled mesh.Seq // as in threadlog.Batch; with the last record of one
	threadlog.Entry
}

// The flags of a record.
const (
	flagDecision = 1 << iota
	flagOpens
	flagSettled // the number follows that of the claim
)

func posKey(pos mesh.Pos) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(pos))
}

// encode returns the value of a record.
func encode(key []byte, r record) []byte {
	const fixed = 4 + 1 + 8*binary.MaxVarintLen64
	b := make([]byte, 4, fixed+len(r.key.Tenant)+len(r.key.ID)+len(r.ID)+len(r.Scope)+len(r.Data))
	var flags byte
	if r.Decision {
		flags |= flagDecision
	}
	if r.Opens {
		flags |= flagOpens
	}
	if r.settled > 0 {
		flags |= flagSettled
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(r.seq))
	b = binary.AppendUvarint(b, uint64(r.Claim))
	if r.settled > 0 {
		b = binary.AppendUvarint(b, uint64(r.settled))
	}
	for _, text := range []string{string(r.key.Tenant), r.key.ID, r.ID, string(r.Scope)} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = append(b, r.Data...)
	seal(key, b)
	return b
}

// decode returns the record of a value. Its Data is part of the value.
func decode(key, value []byte) (record, error) {
	b, err := unseal(key, value)
	if err != nil || len(b) == 0 {
		return record{}, errBroken
	}
	flags := b[0]
	r := record{Entry: threadlog.Entry{Decision: flags&flagDecision != 0, Opens: flags&flagOpens != 0}}
	b = b[1:]
	var number [3]uint64
	for i := range number {
		if i == 2 && flags&flagSettled == 0 {
			break
		}
		if number[i], b, err = cutNumber(b); err != nil {
			return record{}, err
		}
	}
	r.seq, r.Claim, r.settled = mesh.Seq(number[0]), mesh.Epoch(number[1]), mesh.Seq(number[2])
	var text [4]string
	for i := range text {
		n, rest, err := cutNumber(b)
		if err != nil || n > uint64(len(rest)) {
			return record{}, errBroken
		}
		text[i], b = string(rest[:n]), rest[n:]
	}
	r.key = mesh.ThreadKey{Tenant: mesh.TenantID(text[0]), ID: text[1]}
	r.ID, r.Scope = text[2], mesh.Scope(text[3])
	r.Data = b
	return r, nil
}

func cutNumber(b []byte) (uint64, []byte, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return 0, nil, errBroken
	}
	return n, b[w:], nil
}

// totals is what the log must add up to. It also remembers positions of threads
// that were deleted.
type totals struct {
	last    mesh.Pos
	records int
}

func putTotals(tx *bolt.Tx, t totals) error {
	b := make([]byte, 4, 32)
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(t.last))
	b = binary.AppendUvarint(b, uint64(t.records))
	seal(keyTotals, b)
	return tx.Bucket(bucketMeta).Put(keyTotals, b)
}

func getTotals(tx *bolt.Tx) (totals, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || tx.Bucket(bucketLog) == nil || tx.Bucket(bucketState) == nil {
		return totals{}, errors.New("it is not a data file of agentmesh")
	}
	b, err := unseal(keyTotals, meta.Get(keyTotals))
	if err != nil || len(b) == 0 {
		return totals{}, errBroken
	}
	if b[0] < 1 || b[0] > format {
		return totals{}, fmt.Errorf("it has format %d and this program reads %d", b[0], format)
	}
	last, b, err := cutNumber(b[1:])
	if err != nil {
		return totals{}, err
	}
	records, _, err := cutNumber(b)
	return totals{mesh.Pos(last), int(records)}, err
}

func stateKey(k state.Key) []byte {
	return append(kindKey(k.Tenant, k.Kind), k.Name...)
}

func kindKey(tenant mesh.TenantID, kind string) []byte {
	return []byte(string(tenant) + "\x00" + kind + "\x00")
}

func encodeValue(key, data []byte, version int64) []byte {
	b := make([]byte, 4, 4+binary.MaxVarintLen64+len(data))
	b = binary.AppendUvarint(b, uint64(version))
	b = append(b, data...)
	seal(key, b)
	return b
}

// decodeValue returns a value whose Data is part of b; the zero one for nil.
func decodeValue(key, b []byte) (state.Value, error) {
	if b == nil {
		return state.Value{}, nil
	}
	b, err := unseal(key, b)
	if err != nil {
		return state.Value{}, err
	}
	version, data, err := cutNumber(b)
	return state.Value{Data: data, Version: int64(version)}, err
}
