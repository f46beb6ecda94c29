package memindex

import (
	"math/bits"

	"agentmesh/mesh"
)

// An IDAt is a writer's id with the Seq of its record.
type IDAt struct {
	ID  ID
	Seq mesh.Seq
}

// A roll has the ids of records that a driver kept. It does not change, so that a thread of a
// hundred thousand is loaded in a fraction of the time in which a map is made of them: ids are
// hashes, and those that begin alike are few.
type roll struct {
	ids   []IDAt // by their first bits
	ends  []int  // of those with the same first bits
	shift int    // by which the first 32 bits become the first bits
}

func newRoll(parts []Part) *roll {
	n := 0
	for _, p := range parts {
		n += len(p.IDs)
	}
	if n == 0 {
		return nil
	}
	width := min(bits.Len(uint(n)/8), 24)
	r := &roll{ids: make([]IDAt, n), ends: make([]int, 1<<width), shift: 32 - width}
	for _, p := range parts {
		for i := range p.IDs {
			r.ends[r.first(&p.IDs[i].ID)]++
		}
	}
	begin := 0
	for i, n := range r.ends {
		r.ends[i] = begin
		begin += n
	}
	for _, p := range parts {
		for i := range p.IDs {
			at := &r.ends[r.first(&p.IDs[i].ID)]
			r.ids[*at] = p.IDs[i]
			*at++
		}
	}
	return r
}

// first are the first bits of the id.
func (r *roll) first(id *ID) int {
	return int((uint64(id[0])<<24 | uint64(id[1])<<16 | uint64(id[2])<<8 | uint64(id[3])) >> r.shift)
}

// find returns the Seq of the last record with the id, 0 if there is none.
func (r *roll) find(id ID) (seq mesh.Seq) {
	if r == nil {
		return 0
	}
	at, begin := r.first(&id), 0
	if at > 0 {
		begin = r.ends[at-1]
	}
	for _, x := range r.ids[begin:r.ends[at]] {
		if x.ID == id {
			seq = max(seq, x.Seq)
		}
	}
	return seq
}
