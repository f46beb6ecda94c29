package bolt

import (
	"bytes"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog/memindex"
)

func noLook(*memindex.Book) {}

// GetState implements [state.Store].
func (s *Store) GetState(ctx context.Context, key state.Key) (state.Value, error) {
	const op = "bolt.GetState"
	var v state.Value
	err := s.view(ctx, op, noLook, func(tx *bolt.Tx) (err error) {
		v, err = lookUp(tx.Bucket(bucketState), key)
		v.Data = bytes.Clone(v.Data)
		return err
	})
	if err == nil && v.Version == 0 {
		err = state.NotFound(op, key)
	}
	if err != nil {
		return state.Value{}, err
	}
	return v, nil
}

// PutState implements [state.Store].
func (s *Store) PutState(ctx context.Context, key state.Key, data []byte, version int64) (int64, error) {
	const op = "bolt.PutState"
	var next int64
	err := s.do(ctx, op, &request{size: len(data) + 128, change: func(b *bolt.Bucket) (refused, failed error) {
		was, err := lookUp(b, key)
		if err != nil {
			return nil, err
		}
		if err := state.CheckPut(op, key, was.Version, version); err != nil {
			return err, nil
		}
		next = was.Version + 1
		k := stateKey(key)
		return nil, b.Put(k, encodeValue(k, data, next))
	}})
	if err != nil {
		return 0, err
	}
	return next, nil
}

// DeleteState implements [state.Store].
func (s *Store) DeleteState(ctx context.Context, key state.Key, version int64) error {
	const op = "bolt.DeleteState"
	return s.do(ctx, op, &request{size: 128, change: func(b *bolt.Bucket) (refused, failed error) {
		was, err := lookUp(b, key)
		if err != nil {
			return nil, err
		}
		if err := state.CheckDelete(op, key, was.Version, version); err != nil {
			return err, nil
		}
		return nil, b.Delete(stateKey(key))
	}})
}

// ListState implements [state.Store].
func (s *Store) ListState(ctx context.Context, p state.Page) (items []state.Item, more bool, err error) {
	base := kindKey(p.Tenant, p.Kind)
	err = s.view(ctx, "bolt.ListState", noLook, func(tx *bolt.Tx) error {
		size := 0
		c := tx.Bucket(bucketState).Cursor()
		k, b := c.Seek(append(bytes.Clone(base), max(p.Prefix, p.After)...))
		for ; bytes.HasPrefix(k, base); k, b = c.Next() {
			name := string(k[len(base):])
			if !p.Has(name) {
				if name > p.After {
					return nil // beyond the prefix
				}
				continue
			}
			if len(items) == p.Limit || len(items) > 0 && size+len(b) > pageBytes {
				more = true
				return nil
			}
			v, err := decodeValue(k, b)
			if err != nil {
				return fmt.Errorf("the state %q: %w", k, err)
			}
			v.Data = bytes.Clone(v.Data)
			items = append(items, state.Item{Name: name, Value: v})
			size += len(b)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return items, more, nil
}

// lookUp returns the value whose Data is the file's; the zero one if there is
// none.
func lookUp(b *bolt.Bucket, key state.Key) (state.Value, error) {
	k := stateKey(key)
	v, err := decodeValue(k, b.Get(k))
	if err != nil {
		return state.Value{}, fmt.Errorf("the state %q: %w", k, err)
	}
	return v, nil
}
