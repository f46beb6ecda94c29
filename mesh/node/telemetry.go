package node

import (
	"cmp"
	"context"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/telemetry/observer"
	"agentmesh/mesh/thread/cache"
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

// buildLog makes the log of threads, and has telemetry told of what is added to it.
func (n *node) buildLog() {
	var opts []threadlog.Option
	if n.telemetry != nil {
		n.observer = observer.New(n.telemetry, n.logger)
		opts = append(opts, threadlog.WithAdded(n.observer.Added))
	}
	n.log = threadlog.New(n.backend.Threads, opts...)
	n.states = cache.New(n.log, 0)
	if n.observer != nil {
		n.observer.Watch(n.log, n.states)
	}
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
