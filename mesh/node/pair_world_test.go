package node_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/node"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/threadlog"
)

// common is a backend that several nodes stand on, each with a handle of its own.
type common struct {
	open   func(node.Config, string) (node.Backend, error)
	leases lease.Store // instead of the backend's, if it is set

	mu    sync.Mutex
	users int
	base  node.Backend
	log   *shared.Store
	dead  []*atomic.Bool // of the handles, in the order of their nodes
}

func (c *common) handle(cfg node.Config, address string) (node.Backend, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		base, err := c.open(cfg, address)
		if err != nil {
			return base, err
		}
		if c.leases != nil {
			base.Leases = c.leases
		}
		c.base, c.log = base, shared.New(base.Threads)
	}
	c.users++
	dead := new(atomic.Bool)
	c.dead = append(c.dead, dead)
	return node.Backend{Threads: &cutLog{c.log.Handle(), dead}, State: c.base.State, Leases: &cutLeases{c.base.Leases, dead},
		Shared: true, Close: c.close}, nil
}

// close closes the backend when nobody is left.
func (c *common) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return nil
	}
	return c.base.Close()
}

// kill has the node do nothing more that anybody sees, as if it had been killed.
func (c *common) kill(n int) { c.dead[n].Store(true) }

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

func (l *cutLog) Settle(ctx context.Context, key mesh.ThreadKey, upTo mesh.Seq) error {
	if err := alive(l.dead); err != nil {
		return err
	}
	return l.Backend.Settle(ctx, key, upTo)
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
