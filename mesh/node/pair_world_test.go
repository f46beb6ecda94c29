package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/nodetest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/threadlog"
)

// startPair starts a mesh of two nodes that can be killed. The leases may be another
// clock's.
func startPair(t testing.TB, leases lease.Store, cfg node.Config, agents map[string]run, opts ...func(*node.Options)) *testMesh {
	t.Helper()
	m := &testMesh{t: t, data: cfg.Data, dead: []*atomic.Bool{new(atomic.Bool), new(atomic.Bool)}}
	m.Mesh = nodetest.StartPair(t, cfg, options(agents, opts), func(n int, b node.Backend) node.Backend {
		if leases != nil {
			b.Leases = leases
		}
		b.Threads, b.Leases = &cutLog{b.Threads, m.dead[n]}, &cutLeases{b.Leases, m.dead[n]}
		return b
	})
	m.conn = m.Dial(rpc.DialOptions{})
	return m
}

// kill has the node do nothing more that anybody sees, as if it had been killed.
func (m *testMesh) kill(n int) { m.dead[n].Store(true) }

// alive is an error for a node that was killed.
func alive(dead *atomic.Bool) error {
	if dead.Load() {
		return mesh.Errorf(mesh.Unavailable, "test", "the node is dead")
	}
	return nil
}

// cutLog is the log of a node that can be killed.
type cutLog struct {
	threadlog.Backend
	dead *atomic.Bool
}

func (l *cutLog) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if err := alive(l.dead); err != nil {
		return threadlog.Appended{}, err
	}
	return l.Backend.Append(ctx, key, b)
}

func (l *cutLog) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	if err := alive(l.dead); err != nil {
		return nil, err
	}
	return l.Backend.Read(ctx, key, after, limit)
}

func (l *cutLog) Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Unfinished, error) {
	if err := alive(l.dead); err != nil {
		return nil, err
	}
	return l.Backend.Unfinished(ctx, after, limit)
}

func (l *cutLog) Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error {
	if err := alive(l.dead); err != nil {
		return err
	}
	return l.Backend.Settle(ctx, key, first, upTo)
}

// cutLeases are the leases of a node that can be killed.
type cutLeases struct {
	lease.Store
	dead *atomic.Bool
}

func (s *cutLeases) Acquire(ctx context.Context, key mesh.ThreadKey, owner string, ttl time.Duration) (lease.Lease, error) {
	if err := alive(s.dead); err != nil {
		return lease.Lease{}, err
	}
	return s.Store.Acquire(ctx, key, owner, ttl)
}

func (s *cutLeases) Renew(ctx context.Context, l lease.Lease) error {
	if err := alive(s.dead); err != nil {
		return err
	}
	return s.Store.Renew(ctx, l)
}

func (s *cutLeases) Release(ctx context.Context, l lease.Lease) error {
	if err := alive(s.dead); err != nil {
		return err
	}
	return s.Store.Release(ctx, l)
}
