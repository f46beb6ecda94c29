package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/segment"
)

// A value is what stands under a key and is not in the file yet.
type value struct {
	state.Value          // Version 0: it is removed
	upTo        mesh.Pos // the last position of the commit that made it so
}

// A change is what a writer asks of a value.
type change struct {
	op      string
	key     state.Key
	data    []byte
	remove  bool
	version int64 // that the writer expects
	next    int64 // that it will have
}

// GetState implements [state.Store].
func (s *Store) GetState(ctx context.Context, key state.Key) (state.Value, error) {
	const op = "disk.GetState"
	if err := s.readable(ctx, op); err != nil {
		return state.Value{}, err
	}
	v, err := s.current(stateKey(key))
	if err != nil {
		return state.Value{}, s.failed(op, err)
	}
	if v.Version == 0 {
		return state.Value{}, state.NotFound(op, key)
	}
	v.Data = bytes.Clone(v.Data)
	return v, nil
}

// PutState implements [state.Store].
func (s *Store) PutState(ctx context.Context, key state.Key, data []byte, version int64) (int64, error) {
	const op = "disk.PutState"
	c := &change{op: op, key: key, data: bytes.Clone(data), version: version}
	if err := s.do(ctx, op, &request{size: len(data) + 128, change: c}); err != nil {
		return 0, err
	}
	return c.next, nil
}

// DeleteState implements [state.Store].
func (s *Store) DeleteState(ctx context.Context, key state.Key, version int64) error {
	const op = "disk.DeleteState"
	return s.do(ctx, op, &request{size: 128, change: &change{op: op, key: key, remove: true, version: version}})
}

// current returns the value that stands; the zero one if there is none. Its Data
// is the store's.
func (s *Store) current(key []byte) (state.Value, error) {
	s.index.RLock()
	p, ok := s.pending[string(key)]
	s.index.RUnlock()
	if ok {
		return p.Value, nil
	}
	var v state.Value
	err := s.view(func(b *bolt.Bucket) (err error) {
		v, err = s.lookUp(b, key)
		v.Data = bytes.Clone(v.Data)
		return err
	})
	return v, err
}

// decide judges the change by what stands once those before it in the commit,
// which are in changed, are made, and adds it there.
func (s *Store) decide(c *change, changed map[string]value) error {
	k := stateKey(c.key)
	was, ok := changed[string(k)]
	if !ok {
		var err error
		if was.Value, err = s.current(k); err != nil {
			return s.failed(c.op, err)
		}
	}
	if c.remove {
		if err := state.CheckDelete(c.op, c.key, was.Version, c.version); err != nil {
			return err
		}
	} else if err := state.CheckPut(c.op, c.key, was.Version, c.version); err != nil {
		return err
	} else {
		c.next = was.Version + 1
	}
	changed[string(k)] = value{Value: state.Value{Data: c.data, Version: c.next}}
	return nil
}

// record is the change as the log has it: the key, the version, 0 if the value is
// removed, and the data.
func (c *change) record() segment.Record {
	k := stateKey(c.key)
	b := make([]byte, 0, len(k)+len(c.data)+2*binary.MaxVarintLen64)
	b = binary.AppendUvarint(appendText(b, string(k)), uint64(c.next))
	return hashed(kindValue, append(b, c.data...))
}

// decodeChange returns what change.record made; the Data is part of b.
func decodeChange(b []byte) (key string, v state.Value, err error) {
	key, b, err = cutText(b)
	if err != nil {
		return "", state.Value{}, err
	}
	version, data, err := cutNumber(b)
	return key, state.Value{Data: data, Version: int64(version)}, err
}

// ListState implements [state.Store].
func (s *Store) ListState(ctx context.Context, p state.Page) (items []state.Item, more bool, err error) {
	const op = "disk.ListState"
	if err := s.readable(ctx, op); err != nil {
		return nil, false, err
	}
	l := list{s: s, page: p, base: string(kindKey(p.Tenant, p.Kind))}
	err = s.viewAt(func() { l.pending = s.within(l.base, p) }, l.read)
	if err != nil {
		return nil, false, s.failed(op, err)
	}
	return l.items, l.more, nil
}

// A keyed is a pending value of a list, by name.
type keyed struct {
	name string
	state.Value
}

// within returns the pending values of the page, in order.
func (s *Store) within(base string, p state.Page) []keyed {
	var out []keyed
	for k, v := range s.pending {
		if name, ok := strings.CutPrefix(k, base); ok && p.Has(name) {
			out = append(out, keyed{name, v.Value})
		}
	}
	slices.SortFunc(out, func(a, b keyed) int { return strings.Compare(a.name, b.name) })
	return out
}

// A list merges the file's values with those that are pending.
type list struct {
	s       *Store
	page    state.Page
	base    string
	pending []keyed
	items   []state.Item
	size    int
	more    bool
}

func (l *list) read(b *bolt.Bucket) error {
	c := b.Cursor()
	for k, raw := c.Seek([]byte(l.base + max(l.page.Prefix, l.page.After))); bytes.HasPrefix(k, []byte(l.base)); k, raw = c.Next() {
		name := string(k[len(l.base):])
		if !l.page.Has(name) {
			if name > l.page.After {
				break // beyond the prefix
			}
			continue
		}
		if !l.before(name) {
			return nil
		}
		if len(l.pending) > 0 && l.pending[0].name == name {
			continue // it comes with the next, or at the end
		}
		v, err := l.s.read(k, raw)
		if err != nil {
			return err
		}
		if !l.add(name, v) {
			return nil
		}
	}
	for len(l.pending) > 0 && l.before(l.pending[0].name+"\x00") {
	}
	return nil
}

// before adds the pending values below name; false when the page is full.
func (l *list) before(name string) bool {
	for len(l.pending) > 0 && l.pending[0].name < name {
		p := l.pending[0]
		l.pending = l.pending[1:]
		if p.Version > 0 && !l.add(p.name, p.Value) {
			return false
		}
	}
	return true
}

// add returns false when the page is full.
func (l *list) add(name string, v state.Value) bool {
	size := len(l.base) + len(name) + len(v.Data)
	if len(l.items) == l.page.Limit || len(l.items) > 0 && l.size+size > pageBytes {
		l.more = true
		return false
	}
	l.size += size
	l.items = append(l.items, state.Item{Name: name, Value: state.Value{Data: bytes.Clone(v.Data), Version: v.Version}})
	return true
}
