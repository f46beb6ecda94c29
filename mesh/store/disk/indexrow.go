package disk

import (
	"encoding/binary"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

func posKey(p mesh.Pos) []byte { return binary.BigEndian.AppendUint64(nil, uint64(p)) }

func partKey(first mesh.Pos, after mesh.Seq) []byte {
	return binary.BigEndian.AppendUint64(posKey(first), uint64(after))
}

// sealed returns the row that fill makes, behind the place of its checksum.
func sealed(key []byte, fill func(b []byte) []byte) []byte {
	b := fill(make([]byte, 4, 128))
	seal(key, b)
	return b
}

func (i *indexed) encode() []byte {
	return sealed(keyIndex, func(b []byte) []byte {
		b = append(b, indexForm)
		for _, n := range []uint64{uint64(i.upTo), uint64(i.records), uint64(i.heads), i.sum, uint64(i.chain.first), uint64(i.chain.last)} {
			b = binary.AppendUvarint(b, n)
		}
		b = append(append(b, i.tail[:]...), i.chain.sum[:]...)
		return appendRising(b, i.erase)
	})
}

func decodeIndexed(b []byte) (i indexed, err error) {
	b, err = unseal(keyIndex, b)
	if err != nil || len(b) == 0 {
		return i, errBroken
	}
	if b[0] != indexForm {
		return i, fmt.Errorf("it has form %d and this program reads %d", b[0], indexForm)
	}
	var n [6]uint64
	b = b[1:]
	for k := range n {
		if n[k], b, err = cutNumber(b); err != nil {
			return i, err
		}
	}
	i.upTo, i.records, i.heads, i.sum = mesh.Pos(n[0]), int(n[1]), int(n[2]), n[3]
	i.chain.first, i.chain.last = int64(n[4]), int64(n[5])
	if len(b) < len(i.tail)+len(i.chain.sum) {
		return i, errForm
	}
	copy(i.tail[:], b)
	copy(i.chain.sum[:], b[len(i.tail):])
	i.erase, _, err = cutRising[int64](b[len(i.tail)+len(i.chain.sum):])
	return i, err
}

// appendRising appends numbers that ascend, behind how many they are.
func appendRising[N ~int64](b []byte, all []N) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	before := N(0)
	for _, n := range all {
		b = binary.AppendUvarint(b, uint64(n-before))
		before = n
	}
	return b
}

func cutRising[N ~int64](b []byte) (all []N, rest []byte, err error) {
	n, b, err := cutNumber(b)
	if err != nil || n > uint64(len(b)) {
		return nil, nil, errForm
	}
	all = make([]N, n)
	before := N(0)
	for i := range all {
		var d uint64
		if d, b, err = cutNumber(b); err != nil {
			return nil, nil, err
		}
		before += N(d)
		all[i] = before
	}
	return all, b, nil
}

func encodeHead(key []byte, h memindex.Head) []byte {
	return sealed(key, func(b []byte) []byte {
		b = append(appendText(appendText(b, string(h.Key.Tenant)), h.Key.ID), h.Link[:]...)
		for _, n := range []uint64{uint64(h.Last), uint64(h.FirstPos), uint64(h.Epoch), uint64(h.Open), uint64(h.OpenPos), uint64(h.Bytes)} {
			b = binary.AppendUvarint(b, n)
		}
		return b
	})
}

// decodeHead fills in a head. The tenant of the one before is used again, if it is the same.
func decodeHead(h *memindex.Head, key, b []byte, tenant *string) (err error) {
	if b, err = unseal(key, b); err != nil || len(key) != 8 {
		return errBroken
	}
	n, b, err := cutNumber(b)
	if err != nil || n > uint64(len(b)) {
		return errForm
	}
	if string(b[:n]) != *tenant {
		*tenant = string(b[:n])
	}
	id, b, err := cutText(b[n:])
	if err != nil || len(b) < len(h.Link) {
		return errForm
	}
	copy(h.Link[:], b)
	b = b[len(h.Link):]
	var of [6]uint64
	for i := range of {
		if of[i], b, err = cutNumber(b); err != nil {
			return err
		}
	}
	h.Info = threadlog.Info{
		Key: mesh.ThreadKey{Tenant: mesh.TenantID(*tenant), ID: id}, Last: mesh.Seq(of[0]),
		LastPos: mesh.Pos(binary.BigEndian.Uint64(key)), FirstPos: mesh.Pos(of[1]), Epoch: mesh.Epoch(of[2]), Open: mesh.Seq(of[3]), Bytes: int64(of[5]),
	}
	h.OpenPos = mesh.Pos(of[4])
	return nil
}

func encodePart(key []byte, p memindex.Part) []byte {
	return sealed(key, func(b []byte) []byte {
		b = appendRising(b, p.Positions)
		b = binary.AppendUvarint(b, uint64(len(p.Decisions)))
		for scope, seq := range p.Decisions {
			b = binary.AppendUvarint(appendText(b, string(scope)), uint64(seq-p.After))
		}
		b = binary.AppendUvarint(b, uint64(len(p.IDs)))
		for i := range p.IDs {
			x := &p.IDs[i]
			b = binary.AppendUvarint(append(b, x.ID[:]...), uint64(x.Seq-p.After))
		}
		return b
	})
}

// decodePart returns a part of the thread that begins at that position, whole or its positions
// alone.
func decodePart(first mesh.Pos, key, b []byte, whole bool) (p memindex.Part, err error) {
	if len(key) != 16 || mesh.Pos(binary.BigEndian.Uint64(key)) != first {
		return p, errIndex
	}
	if b, err = unseal(key, b); err != nil {
		return p, err
	}
	p.After = mesh.Seq(binary.BigEndian.Uint64(key[8:]))
	if p.Positions, b, err = cutRising[mesh.Pos](b); err != nil || !whole {
		return p, err
	}
	n, b, err := cutNumber(b)
	if err != nil || n > uint64(len(b)) {
		return p, errForm
	}
	p.Decisions = make(map[mesh.Scope]mesh.Seq, n)
	for range n {
		var scope string
		var seq uint64
		if scope, b, err = cutText(b); err != nil {
			return p, err
		}
		if seq, b, err = cutNumber(b); err != nil {
			return p, err
		}
		p.Decisions[mesh.Scope(scope)] = p.After + mesh.Seq(seq)
	}
	if n, b, err = cutNumber(b); err != nil || n > uint64(len(b)) {
		return p, errForm
	}
	p.IDs = make([]memindex.IDAt, n)
	for i := range p.IDs {
		x := &p.IDs[i]
		if len(b) < len(x.ID) {
			return p, errForm
		}
		copy(x.ID[:], b)
		var seq uint64
		if seq, b, err = cutNumber(b[len(x.ID):]); err != nil {
			return p, err
		}
		x.Seq = p.After + mesh.Seq(seq)
	}
	return p, nil
}
