package disk

import (
	"errors"
	"slices"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// A threadsDiff is what a checkpoint brings into the index file.
type threadsDiff struct {
	to      indexed
	changes []memindex.Change
	gone    []memindex.Gone
}

// diff returns what the index file lacks. The caller holds index.
func (s *Store) diff() threadsDiff {
	d := threadsDiff{to: indexed{upTo: s.book.Last(), records: s.book.Records(), tail: s.chain.tail, chain: s.chain, erase: s.log.Unswept()}}
	d.changes, d.gone = s.book.Changes()
	return d
}

// saveThreads brings that into the index file, which it makes if there is none. The caller
// holds saving.
func (s *Store) saveThreads(d threadsDiff) error {
	x := &s.threads
	if x.isSpoiled() {
		return nil // that was told
	}
	if x.none() {
		if err := x.create(); err != nil {
			return err
		}
	} else if d.to.upTo == x.has.upTo && len(d.changes)+len(d.gone) == 0 && slices.Equal(d.to.erase, x.has.erase) {
		return nil
	}
	if err := x.save(d.to, d.changes, d.gone); err != nil {
		return err
	}
	s.index.Lock()
	defer s.index.Unlock()
	s.book.Kept(d.changes, d.gone)
	return nil
}

// admit sees to it that a batch for the thread can be judged. It is the committer's.
func (s *Store) admit(key mesh.ThreadKey) error {
	s.index.RLock()
	err := s.ill[key]
	s.index.RUnlock()
	if err == nil {
		err = s.load(key)
	}
	if err != nil && !mesh.IsCode(err, mesh.DataLoss) {
		err = s.indexLost(key, err)
	}
	return err
}

// load loads the thread from the index file, if that was not done. It is the committer's, or
// of who opens the store.
func (s *Store) load(key mesh.ThreadKey) error {
	upTo := s.book.Unloaded(key)
	if upTo == 0 {
		return nil
	}
	info, _ := s.book.Info(key)
	parts, err := s.threads.parts(info.FirstPos, 0, upTo, true)
	if err != nil {
		return err
	}
	s.index.Lock()
	defer s.index.Unlock()
	s.book.Load(key, parts)
	return nil
}

// places returns the positions of at most limit events of the thread after that seq; fewer
// need not be the last.
func (s *Store) places(key mesh.ThreadKey, after mesh.Seq, limit int) ([]mesh.Pos, error) {
	after = max(after, 0)
	var missed mesh.Pos
	for {
		s.index.RLock()
		err, base := s.ill[key], s.book.Unloaded(key)
		info, _ := s.book.Info(key)
		positions := s.book.Positions(key, after, limit)
		s.index.RUnlock()
		if err != nil || after >= base || limit < 1 {
			return positions, err
		}
		if missed == info.FirstPos {
			return nil, s.indexLost(key, errIndex) // that is no deletion
		}
		to := base
		if mesh.Seq(limit) < base-after {
			to = after + mesh.Seq(limit)
		}
		parts, err := s.threads.parts(info.FirstPos, after, to, false)
		switch {
		case errors.Is(err, errIndex): // it was deleted, and its rows, or they are missing
			missed = info.FirstPos
			continue
		case err != nil:
			return nil, s.indexLost(key, err)
		}
		var out []mesh.Pos
		for _, p := range parts {
			out = append(out, p.Positions...)
		}
		out = out[after-parts[0].After:][:to-after]
		return append(out, positions[:min(len(positions), limit-len(out))]...), nil
	}
}

// A memory is of each thread the last event that a scan has seen: one that reads all of the log
// in order need not look up what was before each. It forgets all when that becomes too much.
type memory struct {
	mu  sync.Mutex
	all map[mesh.ThreadKey]linked
}

// maxSeen is how many threads a memory has at most.
const maxSeen = 1 << 16

func (m *memory) of(key mesh.ThreadKey) linked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key]
}

func (m *memory) note(key mesh.ThreadKey, l linked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxSeen {
		m.all = map[mesh.ThreadKey]linked{}
	}
	m.all[key] = l
}

// forget forgets all: everything was checked.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
}

// hashBefore returns the hash of the thread's event before that seq, whose own is at number;
// false if it is not there any more.
func (s *Store) hashBefore(key mesh.ThreadKey, seq mesh.Seq, number int64) (hash memindex.Link, ok bool, err error) {
	places, err := s.places(key, seq-1, 1)
	if err != nil || len(places) == 0 || int64(places[0]) != number {
		return hash, false, err
	}
	if seq == 1 {
		return hash, true, nil
	}
	if places, err = s.places(key, seq-2, 1); err != nil || len(places) == 0 {
		return hash, false, err
	}
	damaged := false
	err = s.log.Read(numbers(places), func(n int64, rec segment.Record) bool {
		r, err := decode(rec.Data)
		damaged = err != nil || r.key != key || r.seq != seq-1
		copy(hash[:], rec.Hash)
		ok = true
		return true
	})
	if err == nil && damaged {
		err = s.damageAt(int64(places[0]))
	}
	return hash, ok, err
}
