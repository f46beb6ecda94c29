package checkpoint

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
)

// A tapped store calls put before a value is put.
type tapped struct {
	*mem.Store
	put func(state.Key)
}

func (s tapped) PutState(ctx context.Context, key state.Key, data []byte, version int64) (int64, error) {
	s.put(key)
	return s.Store.PutState(ctx, key, data, version)
}

// Whenever a thread is forgotten while it is saved, there is no part without a mark by which the
// next process would find it.
func TestNoPartIsLeftWithoutAMark(t *testing.T) {
	key := mesh.ThreadKey{Tenant: "acme", ID: "550e8400-e29b-41d4-a716-446655440000"}
	var s *Store
	forgotten := make(chan error, 1)
	kv := state.New(tapped{mem.Open(), func(k state.Key) {
		if k.Kind == kindPart && strings.HasSuffix(k.Name, "/0") {
			go func() { forgotten <- s.Forget(context.Background(), []mesh.ThreadKey{key}) }()
			for range 1000 { // it may have come to its end, or waits
				runtime.Gosched()
			}
		}
	}})
	s = New(kv)
	if err := s.Save(t.Context(), key, []byte("what was said")); err != nil {
		t.Fatal(err)
	}
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	if left, err := s.Load(t.Context(), key); left != nil || err != nil {
		t.Errorf("%q is left, %v, and nothing says so", left, err)
	}
}
