package rpc

import (
	"context"

	"agentmesh/mesh"
)

// An Auditor keeps the record of administrative acts and of refusals. It finds the
// caller in the context ([mesh.CallFrom]), as far as that is known, and is called
// concurrently.
type Auditor interface {
	// Act records that the call is about to be made, if it is of those that are recorded;
	// else done is nil. After an error the call is not made. done hears how it ended, with
	// the response. For a stream req and resp are nil.
	Act(ctx context.Context, method string, req any) (done func(resp any, err error), err error)
	// Refused notes a call that was refused with err. It does not wait for anything.
	Refused(ctx context.Context, method string, req any, err error)
}

// act has the auditor record that a call which was admitted is about to be made, if it is
// an administrative act. After an error the call is not made.
func (g *guard) act(ctx context.Context, method string, req any) (done func(any, error), err error) {
	if g.auditor == nil {
		return nil, nil
	}
	return g.auditor.Act(ctx, method, req)
}

// acted has the auditor told how a call ended for which act returned done.
func (g *guard) acted(ctx context.Context, method string, req, resp any, err error, done func(any, error)) {
	if done != nil {
		done(resp, err)
		return
	}
	g.refused(ctx, method, req, err)
}

// refused has the auditor told of a call that was refused for want of a right.
func (g *guard) refused(ctx context.Context, method string, req any, err error) {
	if g.auditor == nil || err == nil {
		return
	}
	if mesh.IsForbidden(err) || mesh.IsForbidden(FromStatus(err)) {
		g.auditor.Refused(ctx, method, req, err)
	}
}
