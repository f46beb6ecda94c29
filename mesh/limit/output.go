package limit

import (
	"cmp"

	"agentmesh/mesh"
)

// The defaults of [Output]. No honest execution comes near: it is three quarters of an hour
// of text in the smallest pieces that are sent.
const (
	DefaultOutputEvents = 100_000
	DefaultOutputBytes  = 64 << 20
)

// OfOutput reports whether the limit of that name is one of what the log takes: one of an
// [Output], or that of the tenant. Who meets it says no more, and ends.
func OfOutput(name string) bool {
	return name == OutputEvents || name == OutputBytes || name == TenantBytes
}

// forEnds is the part of an Output that is kept, besides, for the ends of what was begun.
const forEnds = 10

// An Output bounds what the log takes of one execution: what its agent says, whoever logs
// that, and what it appends itself. It is counted from the log.
type Output struct {
	// Events and Bytes are how much; 0 is the default, and Unlimited no limit.
	Events, Bytes int64
	// Agents have other bounds for some, by name.
	Agents map[string]Output
}

// For returns the bounds of an execution of the agent; 0 in them is no limit.
func (o Output) For(agent string) Output {
	own := o.Agents[agent]
	return Output{
		Events: max(cmp.Or(own.Events, o.Events, DefaultOutputEvents), 0),
		Bytes:  max(cmp.Or(own.Bytes, o.Bytes, DefaultOutputBytes), 0),
	}
}

// Ends returns the bounds for the ends of what was begun, of those that For returned.
func (o Output) Ends() Output {
	return Output{Events: o.Events + o.Events/forEnds, Bytes: o.Bytes + o.Bytes/forEnds}
}

// Check returns the trip of the bound, of those that For returned, that the log has passed or
// would pass with more; nil if there is none.
func (o Output) Check(has, more mesh.Volume) *Trip {
	sum := has.Plus(more)
	switch {
	case o.Events > 0 && sum.Events > o.Events:
		return &Trip{Limit: OutputEvents, Used: has.Events, Most: o.Events}
	case o.Bytes > 0 && sum.Bytes > o.Bytes:
		return &Trip{Limit: OutputBytes, Used: has.Bytes, Most: o.Bytes}
	}
	return nil
}
