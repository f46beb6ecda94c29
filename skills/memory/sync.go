package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/textindex"
)

// How an index keeps up.
//
// Beside a user's memories the State has the user's journal: the number of
// changes so far and, of the latest ones, which memory each of them is about.
// Who saves a memory writes first the journal, as the version that was read, and
// then the memory; so changes are decided one after the other, in all
// processes. An index remembers up to which change it has seen. A search reads
// the journal, one small value, and the memories that it names since then. When
// a memory is not there yet, its writer is about to write it or has died: it is
// looked for again for patience. When the journal does not reach back far
// enough, and once in a process and every compareEvery in any case, the index
// is compared with all of the user's memories: a new index is made in the same
// way. So a memory that another process saved is found at once, and what
// went wrong meanwhile is mended after compareEvery at the latest.
const (
	maxJournal   = 64
	patience     = 2 * time.Minute
	compareEvery = 5 * time.Minute
	pageSize     = 200
)

// A journal says what changed last.
type journal struct {
	Seq     int64    `json:"seq"`
	Changes []change `json:"changes"` // the latest last
}

// A change is what is about to be done to a memory.
type change struct {
	Seq int64     `json:"seq"`
	ID  string    `json:"id"`
	Key string    `json:"key"` // of the call
	At  time.Time `json:"at"`
}

// A mark is what an index has seen.
type mark struct {
	Seq      int64     `json:"seq"`
	Compared time.Time `json:"compared"`
	// Pending are changes that were announced and not seen.
	Pending []change `json:"pending,omitempty"`
}

// A view is a user's memories at work: State and index.
type view struct {
	env *skill.Env
	ix  *textindex.Index
	// journal and its version are as sync read them.
	journal journal
	version int64
	mark    mark
}

// The keys of the State: of the journal, and the beginning of those of memories, which
// are their ids.
const (
	journalKey = "journal"
	memories   = "m-"
)

// with runs do with an index of the call's user that has seen what the State
// has.
func (s *Store) with(ctx context.Context, env *skill.Env, do func(*view) error) error {
	index := indexOf(env)
	return s.pool.With(ctx, index, func(ix *textindex.Index) error {
		v := &view{env: env, ix: ix}
		s.mu.Lock()
		compare := !s.seen[index]
		s.mu.Unlock()
		if err := v.sync(ctx, compare); err != nil {
			return err
		}
		s.mu.Lock()
		s.seen[index] = true
		s.mu.Unlock()
		return do(v)
	})
}

// sync reads the journal and brings the index up to it.
func (v *view) sync(ctx context.Context, compare bool) error {
	const op = "memory.sync"
	v.journal = journal{}
	data, version, err := v.env.State.Get(ctx, Kind, journalKey)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return mesh.Wrap(op, err)
	}
	if v.version = version; err == nil {
		if err := json.Unmarshal(data, &v.journal); err != nil {
			return mesh.Errorf(mesh.Unknown, op, "The journal of the memories cannot be read: %w", err)
		}
	}
	text, err := v.ix.Mark(ctx)
	if err != nil {
		return err
	}
	v.mark = mark{}
	if text == "" || json.Unmarshal([]byte(text), &v.mark) != nil {
		compare = true
	}
	now := v.env.Now()
	age := now.Sub(v.mark.Compared)
	if compare || age < 0 || age > compareEvery || v.journal.Seq < v.mark.Seq || v.journal.oldest() > v.mark.Seq+1 {
		return v.compare(ctx, now)
	}
	return v.follow(ctx, now)
}

// oldest returns the first change that the journal still has, or the next one.
func (j *journal) oldest() int64 {
	if len(j.Changes) == 0 {
		return j.Seq + 1
	}
	return j.Changes[0].Seq
}

// follow reads the memories that changed since the mark.
func (v *view) follow(ctx context.Context, now time.Time) error {
	due := v.mark.Pending
	for _, c := range v.journal.Changes {
		if c.Seq > v.mark.Seq {
			due = append(due, c)
		}
	}
	if len(due) == 0 {
		return nil
	}
	next := mark{Seq: v.journal.Seq, Compared: v.mark.Compared}
	var changes textindex.Changes
	for _, c := range due {
		m, _, err := v.read(ctx, c.ID)
		if err != nil && !mesh.IsCode(err, mesh.NotFound) {
			return err
		}
		if (err != nil || m.Rev < c.Seq) && now.Sub(c.At) < patience {
			next.Pending = append(next.Pending, c)
		}
		if err != nil {
			changes.Delete = append(changes.Delete, c.ID)
		} else if err := put(&changes, m); err != nil {
			return err
		}
	}
	return v.apply(ctx, changes, next)
}

// compare makes the index what the State is.
func (v *view) compare(ctx context.Context, now time.Time) error {
	const op = "memory.compare"
	stamps, err := v.ix.Stamps(ctx)
	if err != nil {
		return err
	}
	revs := make(map[string]int64)
	for after := ""; ; {
		items, err := v.env.State.List(ctx, Kind, memories, after, pageSize)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if len(items) == 0 {
			break // a page may be shorter than asked for, and more come
		}
		var changes textindex.Changes
		for _, it := range items {
			after = it.Key
			m := new(Memory)
			if err := json.Unmarshal(it.Data, m); err != nil || m.ID != it.Key {
				v.env.Logger.WarnContext(ctx, "stored memory skipped", "key", it.Key, "err", err)
				continue
			}
			revs[m.ID] = m.Rev
			if stamps[m.ID] != stamp(m) {
				if err := put(&changes, m); err != nil {
					return err
				}
			}
			delete(stamps, m.ID)
		}
		if err := v.ix.Apply(ctx, changes); err != nil {
			return err
		}
	}
	var changes textindex.Changes
	for id := range stamps {
		changes.Delete = append(changes.Delete, id)
	}
	next := mark{Seq: v.journal.Seq, Compared: now}
	for _, c := range v.journal.Changes {
		if revs[c.ID] < c.Seq && now.Sub(c.At) < patience {
			next.Pending = append(next.Pending, c)
		}
	}
	return v.apply(ctx, changes, next)
}

func (v *view) apply(ctx context.Context, changes textindex.Changes, next mark) error {
	text, err := json.Marshal(next)
	if err != nil {
		return mesh.Wrap("memory.apply", err)
	}
	changes.Mark = string(text)
	v.mark = next
	return v.ix.Apply(ctx, changes)
}

// announce adds a change to the journal. The error is Conflict if the journal
// is not as sync read it.
func (v *view) announce(ctx context.Context, id, key string) (change, error) {
	const op = "memory.announce"
	c := change{Seq: v.journal.Seq + 1, ID: id, Key: key, At: v.env.Now().UTC()}
	next := journal{Seq: c.Seq, Changes: append(slices.Clone(v.journal.Changes), c)}
	next.Changes = next.Changes[max(len(next.Changes)-maxJournal, 0):]
	data, err := json.Marshal(next)
	if err != nil {
		return c, mesh.Wrap(op, err)
	}
	version, err := v.env.State.Put(ctx, Kind, journalKey, data, v.version)
	if err != nil {
		return c, mesh.Wrap(op, err)
	}
	v.journal, v.version = next, version
	return c, nil
}

// read returns a memory and its version in the State.
func (v *view) read(ctx context.Context, id string) (*Memory, int64, error) {
	const op = "memory.read"
	data, version, err := v.env.State.Get(ctx, Kind, id)
	if err != nil {
		return nil, 0, mesh.Wrap(op, err)
	}
	m := new(Memory)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, 0, mesh.Errorf(mesh.Unknown, op, "The memory %s is stored in a form that cannot be read: %w", id, err)
	}
	return m, version, nil
}

// put adds the memory to the changes. Its data is all of it, so that a search
// needs nothing else.
func put(changes *textindex.Changes, m *Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return mesh.Wrap("memory.put", err)
	}
	labels := []string{"category:" + m.Category}
	for _, tag := range m.Tags {
		labels = append(labels, "tag:"+tag)
	}
	for _, key := range m.Keys {
		labels = append(labels, "key:"+key)
	}
	changes.Put = append(changes.Put, textindex.Doc{
		ID: m.ID, Texts: []string{m.Content, strings.Join(m.Tags, " ")}, Labels: labels, Factor: m.Importance, Stamp: stamp(m), Data: data,
	})
	return nil
}

func stamp(m *Memory) string { return strconv.FormatInt(m.Rev, 10) }
