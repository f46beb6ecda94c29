package mcp

import (
	"context"
	"sync"
)

// Cancels end what goes on over a connection when the connection ends. The zero
// value is ready.
type cancels struct {
	mu      sync.Mutex
	next    int
	running map[int]context.CancelCauseFunc
	cause   error // of the end; nil before
}

// join returns a context that also ends with the connection. Release is called
// when it is not needed any more.
func (c *cancels) join(ctx context.Context) (joined context.Context, release func()) {
	joined, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		cancel(c.cause)
		return joined, func() {}
	}
	if c.running == nil {
		c.running = map[int]context.CancelCauseFunc{}
	}
	id := c.next
	c.next++
	c.running[id] = cancel
	return joined, func() {
		c.mu.Lock()
		delete(c.running, id)
		c.mu.Unlock()
		cancel(nil)
	}
}

// all ends what goes on, and what will.
func (c *cancels) all(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = cause
	}
	for _, cancel := range c.running {
		cancel(c.cause)
	}
}
