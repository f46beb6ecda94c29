package threadlog

import (
	"context"

	"agentmesh/mesh"
)

// Beside keeps what is too large for events, and sees to it that what they refer to is there.
type Beside interface {
	// Keep makes the events ready to be added to the thread, by what it puts in place of
	// their bodies. What they refer to stays until added is called, which says whether they
	// were added; it is nil where they refer to nothing, and after an error, after which the
	// events may be given again.
	Keep(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event) (added func(bool), err error)
}

// WithBeside has b keep what is too large for events. Without it an event has all of it.
func WithBeside(b Beside) Option { return func(l *Log) { l.beside = b } }

// keep has what is too large kept. What it returns is called with whether the events were added.
func (l *Log) keep(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event) (added func(bool), err error) {
	if l.beside != nil {
		added, err = l.beside.Keep(ctx, key, events)
	}
	if added == nil {
		added = func(bool) {}
	}
	return added, err
}
