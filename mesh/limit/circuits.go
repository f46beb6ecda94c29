package limit

import (
	"context"
	"encoding/json"
	"time"

	"agentmesh/mesh"
)

// A Circuit is what an operator is shown of the circuit of one thing.
type Circuit struct {
	Name string
	// State is "closed", "open" or "half_open".
	State string
	// Failures counts those since the last success, at least 0.
	Failures int
	// OpenedAt is when it was last opened, and NextProbe from when on the next
	// call is let through, which may be in the past. Both are zero while the
	// circuit is closed.
	OpenedAt  time.Time
	NextProbe time.Time
}

// Healthy reports whether the circuit is closed and its last call was none that
// failed.
func (c Circuit) Healthy() bool { return c.State == stateClosed && c.Failures == 0 }

// ReadCircuit returns the circuit of that name that a [BreakerStore] has as
// data, as a [Breaker] with the default options takes it: data that cannot be
// read is a healthy circuit, and nobody waits for a time that is further off
// than it can have been set.
func ReadCircuit(name string, data []byte, now time.Time) Circuit {
	r := rules{open: DefaultOpen, probe: DefaultProbe}
	var c circuit
	if err := json.Unmarshal(data, &c); err != nil {
		c = circuit{}
	}
	out := Circuit{Name: name, State: stateClosed, Failures: max(c.Failures, 0)}
	if c.closed() {
		return out
	}
	out.State, out.OpenedAt, out.NextProbe = c.State, c.OpenedAt, c.OpenedAt.Add(r.open)
	most := r.open
	if c.State == stateHalfOpen {
		out.NextProbe, most = c.ProbeUntil, r.probe
	}
	if now.Before(out.NextProbe) && !waiting(out.NextProbe, most, now) {
		out.NextProbe = now
	}
	return out
}

// ResetCircuit closes the circuit of that name and forgets its failures. It
// returns the circuit as it was; one that is healthy stays untouched. Breakers
// over the store notice after their time Fresh, and what a call says that they
// let through before is old news if it was the probe. Errors: those of the
// store, and Conflict when calls keep changing the circuit meanwhile.
func ResetCircuit(ctx context.Context, store BreakerStore, name string, now time.Time) (before Circuit, err error) {
	const op = "limit.ResetCircuit"
	closed, err := json.Marshal(circuit{State: stateClosed})
	if err != nil {
		return before, mesh.Wrap(op, err)
	}
	for range storeTries {
		data, version, err := store.Get(ctx, kindBreaker, name)
		if mesh.IsCode(err, mesh.NotFound) {
			return Circuit{Name: name, State: stateClosed}, nil
		}
		if err != nil {
			return before, mesh.Wrap(op, err)
		}
		if before = ReadCircuit(name, data, now); before.Healthy() {
			return before, nil
		}
		_, err = store.Put(ctx, kindBreaker, name, closed, version)
		if !mesh.IsCode(err, mesh.Conflict) {
			return before, mesh.Wrap(op, err)
		}
	}
	return before, mesh.Errorf(mesh.Conflict, op, "calls of '%s' change its circuit all the time; try again", name)
}
