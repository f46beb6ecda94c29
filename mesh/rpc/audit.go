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

// act calls the handler of a call that was admitted, and has the auditor record it if it
// is an administrative act, or is refused.
func (g *guard) act(ctx context.Context, method string, req any, handler func() (any, error)) (resp any, err error) {
	var done func(any, error)
	if g.auditor != nil {
		if done, err = g.auditor.Act(ctx, method, req); err != nil {
			return nil, err
		}
	}
	err = g.recovered(ctx, method, func() (err error) {
		resp, err = handler()
		return err
	})
	if done != nil {
		done(resp, err)
	} else {
		g.refused(ctx, method, req, err)
	}
	return resp, err
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
