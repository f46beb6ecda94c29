package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

// ErrStoreFailed is why [Run] ends when nobody can tell what is in the data folder until it
// is opened again.
var ErrStoreFailed = errors.New("the data folder failed")

// Health is whether a backend can write.
type Health struct {
	// Fault is why it cannot, or nil. What is there can be read all the same.
	Fault error
	// Final says that it will not be able to until it is opened again.
	Final bool
	// Damage is what was found in it that is not what was written, or nil. The threads that
	// need it are closed: they answer mesh.DataLoss. The others go on.
	Damage error
	// Changed is closed when the next Health is another.
	Changed <-chan struct{}
}

// A readiness is whether the node can do its work. It shows the same over gRPC, as the
// status of the whole server, and to [readiness.check]. It may be used concurrently.
type readiness struct {
	status *health.Server

	mu    sync.Mutex
	up    bool  // all parts work, and none stops
	fault error // why nothing can be written, or what is damaged
}

func newReadiness() *readiness {
	r := &readiness{status: health.NewServer()}
	r.show()
	return r
}

// set says whether all parts work.
func (r *readiness) set(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = up
	r.show()
}

// note says why nothing can be written, or what is damaged, or nil.
func (r *readiness) note(fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
	r.show()
}

func (r *readiness) show() {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if r.up && r.fault == nil {
		status = healthpb.HealthCheckResponse_SERVING
	}
	r.status.SetServingStatus("", status)
}

// check returns why the node is not to be given work, or nil.
func (r *readiness) check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up {
		return mesh.Errorf(mesh.Unavailable, "node.ready", "The node starts or stops; try again")
	}
	return r.fault
}

// full waits while the backend takes nothing, until that may have changed or ctx is done, and
// reports whether it did; not where it takes nothing until it is opened again.
func (b *Backend) full(ctx context.Context) bool {
	if b.Health == nil {
		return false
	}
	h := b.Health()
	if h.Fault == nil || h.Final {
		return false
	}
	select {
	case <-h.Changed:
	case <-ctx.Done():
	}
	return true
}

// watchStore follows the health of the backend until ctx is done. It returns an error that is
// ErrStoreFailed when that cannot write any more until it is opened again.
func (n *node) watchStore(ctx context.Context) error {
	for n.backend.Health != nil {
		h := n.backend.Health()
		n.ready.note(cmp.Or(h.Fault, h.Damage))
		n.alarms.Report(ctx, alarm.Source{Setting: "data"}, "it serves what it has, and writes nothing", h.Fault)
		n.alarms.Report(ctx, alarm.Source{Setting: "data", Of: "damage"}, "it serves what is whole, and no conversation that needs what is lost", h.Damage)
		if h.Final {
			return fmt.Errorf("%w: %w", ErrStoreFailed, h.Fault)
		}
		select {
		case <-h.Changed:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
