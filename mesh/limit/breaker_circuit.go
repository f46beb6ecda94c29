package limit

import "time"

// An Outcome is what a call that a [Breaker] let through says about the thing
// that was called.
type Outcome uint8

// The outcomes. The zero value is Unused.
const (
	// Unused says nothing: the call was not made, was given up by its caller,
	// or was wrong in itself.
	Unused Outcome = iota
	Success
	Failure
)

// The values of circuit.State.
const (
	stateClosed   = "closed"
	stateOpen     = "open"
	stateHalfOpen = "half_open"
)

// A circuit is the state of the breaker of one thing, in its stored form. The
// zero circuit is closed and healthy; an empty State is closed.
type circuit struct {
	State string `json:"state"`
	// Failures counts those since the last success.
	Failures int `json:"failures"`
	// OpenedAt is when the circuit was last opened.
	OpenedAt time.Time `json:"opened_at,omitzero"`
	// ProbeUntil is when the probe counts as lost, if it is half open.
	ProbeUntil time.Time `json:"probe_until,omitzero"`
	// Probe is the call that is the probe.
	Probe string `json:"probe,omitempty"`
}

// probes reports whether the call is the one that finds out.
func (c circuit) probes(call string) bool { return c.State == stateHalfOpen && c.Probe == call }

func (c circuit) closed() bool { return c.State != stateOpen && c.State != stateHalfOpen }

// A ruling is what becomes of a call.
type ruling uint8

const (
	refuse ruling = iota
	pass          // an ordinary call
	probe         // the one call that finds out; only for who has stored the new circuit
)

// rules are the numbers of a breaker. Its methods are the state machine: they
// neither read a clock nor keep anything.
type rules struct {
	failures int
	open     time.Duration
	probe    time.Duration
}

// admit rules on a call, and returns the circuit that a probe has to store.
func (r rules) admit(c circuit, call string, now time.Time) (circuit, ruling) {
	switch {
	case c.closed(), call != "" && c.probes(call):
		return c, pass
	case c.State == stateOpen && waiting(c.OpenedAt.Add(r.open), r.open, now),
		c.State == stateHalfOpen && waiting(c.ProbeUntil, r.probe, now):
		return c, refuse
	}
	c.State, c.ProbeUntil, c.Probe = stateHalfOpen, now.Add(r.probe), call
	return c, probe
}

// waiting reports whether it is not yet time. A time further off than it can
// have been set comes from a clock that is wrong, and nobody waits for that.
func waiting(until time.Time, most time.Duration, now time.Time) bool {
	return now.Before(until) && until.Sub(now) <= 2*most
}

// settle returns the circuit after a call. What calls that are not the probe say
// of a circuit that is not closed any more is old news.
func (r rules) settle(c circuit, call string, o Outcome, now time.Time) circuit {
	switch {
	case c.probes(call):
		return r.settleProbe(c, o, now)
	case !c.closed() || o == Unused:
		return c
	case o == Success:
		return circuit{State: stateClosed}
	case c.Failures+1 >= r.failures:
		return circuit{State: stateOpen, Failures: c.Failures + 1, OpenedAt: now}
	}
	c.State = stateClosed
	c.Failures++
	return c
}

// settleProbe returns the circuit after the probe. One that was not used frees
// its place for the next call.
func (r rules) settleProbe(c circuit, o Outcome, now time.Time) circuit {
	switch o {
	case Success:
		return circuit{State: stateClosed}
	case Failure:
		return circuit{State: stateOpen, Failures: c.Failures, OpenedAt: now}
	}
	return circuit{State: stateOpen, Failures: c.Failures, OpenedAt: c.OpenedAt}
}
