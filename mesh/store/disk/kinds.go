package disk

import (
	"bytes"
	"context"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
)

// StateKinds implements [state.Store]. It reads one value of each kind.
func (s *Store) StateKinds(ctx context.Context, tenant mesh.TenantID) (kinds []string, err error) {
	const op = "disk.StateKinds"
	if err := s.readable(ctx, op); err != nil {
		return nil, err
	}
	base := string(tenant) + "\x00"
	add := func(key string) (kind string, ok bool) {
		rest, ok := strings.CutPrefix(key, base)
		if kind, _, _ = strings.Cut(rest, "\x00"); ok {
			kinds = append(kinds, kind)
		}
		return kind, ok
	}
	err = s.viewAt(func() {
		kinds = nil
		for k := range s.pending {
			add(k)
		}
	}, func(b *bolt.Bucket) error {
		c := b.Cursor()
		for k, _ := c.Seek([]byte(base)); bytes.HasPrefix(k, []byte(base)); {
			kind, _ := add(string(k))
			k, _ = c.Seek([]byte(base + kind + "\x01"))
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(op, err)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}
