package node

import (
	"cmp"
	"context"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/telemetry/observer"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/thread/digest"
	"agentmesh/mesh/threadlog"
)

func (n *node) buildTelemetry(ctx context.Context) (err error) {
	n.telemetry, err = telemetry.New(ctx, n.cfg.Telemetry, telemetry.Service{Name: "agentmesh", Version: cmp.Or(n.opts.Version, Version), Instance: mesh.NewEventID(), Logger: n.logger})
	return mesh.Wrap("node.telemetry", err)
}

func (n *node) closeTelemetry(ctx context.Context) {
	if err := n.telemetry.Close(ctx); err != nil {
		n.logger.WarnContext(ctx, "the last of telemetry was not sent", "err", err)
	}
}

// What is made of the log, and can be made again, is kept in these.
type made struct {
	checkpoints *checkpoint.Store
	digests     *digest.Keeper
}

// buildLog makes the log of threads, with what is made of it, and has telemetry told of what is
// added to it.
func (n *node) buildLog(ctx context.Context) (err error) {
	n.places = &admission.Places{Most: n.cfg.Limits.NodeAgents}
	added := n.places.Added
	if n.telemetry != nil {
		n.observer = observer.New(n.telemetry, n.logger)
		added = func(key mesh.ThreadKey, events []*mesh.Event, took time.Duration) {
			n.places.Added(key, events, took)
			n.observer.Added(key, events, took)
		}
	}
	n.log = threadlog.New(n.backend.Threads, threadlog.WithAdded(added), threadlog.WithRoom(n.backend.full), threadlog.WithBeside(n.backend.Blobs))
	n.backend.Blobs.WithReferences(n.references, n.cfg.Limits.Blob)
	n.checkpoints = checkpoint.New(n.kv)
	if n.tasks, err = n.taskIndex(ctx); err != nil {
		return err
	}
	n.digests = digest.New(n.log, n.checkpoints, n.logger)
	n.states = cache.New(n.log, 0, cache.WithCheckpoints(n.checkpoints, n.logger), cache.WithDigests(n.digests), cache.WithSummaries(n.tasks))
	if n.observer != nil {
		n.observer.Watch(n.log, n.states)
	}
	return nil
}

// startObserver has telemetry told of what is in the log until stop is called.
func (n *node) startObserver(ctx context.Context) (stop func()) {
	if n.observer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { n.observer.Run(ctx) })
	return func() { cancel(); running.Wait() }
}
