package disk

import (
	"encoding/binary"
	"errors"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
)

// The kinds of the log's records. A record's number is its position.
const (
	kindEvent   = 1 // of encode
	kindDeleted = 2 // a tombstone: those of the thread's events that come before are gone
	kindValue   = 3 // of change.record
)

var errForm = errors.New("its form is wrong")

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

// encode appends the record to b.
func encode(b []byte, r record) []byte {
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
		b = appendText(b, text)
	}
	return append(b, r.Data...)
}

// decode returns the record that encode made b of. Its Data is part of b.
func decode(b []byte) (r record, err error) { return decodeAfter(record{}, b) }

// decodeAfter is decode, and shares with the record before it the names that both have.
func decodeAfter(before record, b []byte) (r record, err error) {
	if len(b) == 0 {
		return record{}, errForm
	}
	flags := b[0]
	r.Entry = threadlog.Entry{Decision: flags&flagDecision != 0, Opens: flags&flagOpens != 0}
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
	text := [4]string{string(before.key.Tenant), before.key.ID, before.ID, string(before.Scope)}
	for i := range text {
		var raw []byte
		if raw, b, err = cutBytes(b); err != nil {
			return record{}, err
		}
		if string(raw) != text[i] {
			text[i] = string(raw)
		}
	}
	r.key = mesh.ThreadKey{Tenant: mesh.TenantID(text[0]), ID: text[1]}
	r.ID, r.Scope = text[2], mesh.Scope(text[3])
	r.Data = b
	return r, nil
}

func encodeKey(key mesh.ThreadKey) []byte {
	return appendText(appendText(nil, string(key.Tenant)), key.ID)
}

func cutKey(b []byte) (mesh.ThreadKey, []byte, error) {
	tenant, b, err := cutText(b)
	if err != nil {
		return mesh.ThreadKey{}, nil, err
	}
	id, b, err := cutText(b)
	return mesh.ThreadKey{Tenant: mesh.TenantID(tenant), ID: id}, b, err
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func cutText(b []byte) (string, []byte, error) {
	text, rest, err := cutBytes(b)
	return string(text), rest, err
}

func cutBytes(b []byte) (text, rest []byte, err error) {
	n, rest, err := cutNumber(b)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, errForm
	}
	return rest[:n], rest[n:], nil
}

func cutNumber(b []byte) (uint64, []byte, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return 0, nil, errForm
	}
	return n, b[w:], nil
}

func stateKey(k state.Key) []byte {
	return append(kindKey(k.Tenant, k.Kind), k.Name...)
}

func kindKey(tenant mesh.TenantID, kind string) []byte {
	b := make([]byte, 0, len(tenant)+len(kind)+2+32)
	b = append(b, tenant...)
	b = append(b, 0)
	b = append(b, kind...)
	return append(b, 0)
}
