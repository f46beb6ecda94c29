package api

import (
	"context"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// WithAccess has the server ask f whose a thread is, which is quicker than to fold it.
// It returns s, and is called before s serves.
func (s *Threads) WithAccess(f func(ctx context.Context, key mesh.ThreadKey) (thread.Access, error)) *Threads {
	s.access = f
	return s
}

func (s *Threads) folded(ctx context.Context, key mesh.ThreadKey) (a thread.Access, err error) {
	err = s.states.With(ctx, key, func(st *thread.State) error {
		a = st.Access
		return nil
	})
	return a, err
}

// mayRead refuses a caller who may not read the thread as one that does not exist, and
// a grant whose execution is over.
func (s *Threads) mayRead(ctx context.Context, op string, key mesh.ThreadKey, p mesh.Principal) error {
	if p.Grant != nil {
		return s.states.With(ctx, key, func(st *thread.State) error { return atWork(op, st, p.Grant) })
	}
	a, err := s.access(ctx, key)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	if !a.MayRead(p) {
		return mesh.ThreadNotFound(op)
	}
	s.noteRead(ctx, key, &a, p)
	return nil
}

// noteRead says that the principal, who may, reads the thread.
func (s *Threads) noteRead(ctx context.Context, key mesh.ThreadKey, a *thread.Access, p mesh.Principal) {
	if !a.Involves(p) {
		s.readByRole(ctx, key.ID)
	}
}

// A ReadByRole is told what somebody reads because a role allows it: the id of a thread,
// or what a list is of.
type ReadByRole func(ctx context.Context, what string)

// nobodyTold is what a service has that was given none.
func nobodyTold(context.Context, string) {}

// WithAudit has f told of each thread that somebody reads because a role allows it, and
// of lists with such threads. It returns s, and is called before s serves.
func (s *Threads) WithAudit(f ReadByRole) *Threads {
	s.readByRole = f
	return s
}

// maxParticipants bounds who takes part in a thread, and maxUser a user's name in bytes.
const (
	maxParticipants = 100
	maxUser         = 256
)

// ShareThread implements meshv1.ThreadServiceServer.
func (s *Threads) ShareThread(ctx context.Context, req *meshv1.ShareThreadRequest) (*meshv1.ShareThreadResponse, error) {
	const op = "api.ShareThread"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	for _, name := range req.GetAdd() {
		if name == "" || len(name) > maxUser {
			return nil, mesh.InvalidField(op, "add", "must be the names of users, of 1 to %d bytes", maxUser)
		}
	}
	resp := &meshv1.ShareThreadResponse{}
	err = s.states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
		if err := mayShare(op, st, call.Principal); err != nil {
			return cache.Decision{}, err
		}
		next, err := shared(op, st.Access, req)
		if err != nil || next.Readable == st.Readable && slices.Equal(next.Participants, st.Participants) {
			return cache.Decision{}, err
		}
		return cache.Decision{Events: []*mesh.Event{{ID: mesh.NewEventID(), Time: time.Now().UTC().Truncate(time.Millisecond), Actor: "user:" + call.Principal.User, Body: next}}}, nil
	})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return resp, s.states.With(ctx, key, func(st *thread.State) error {
		resp.Thread = s.describe(key, st)
		return nil
	})
}

// mayShare refuses who does not say whose the thread is.
func mayShare(op string, st *thread.State, p mesh.Principal) error {
	switch {
	case st.Seq == 0 || !st.MayRead(p):
		return mesh.ThreadNotFound(op)
	case !st.MayShare(p):
		return mesh.Errorf(mesh.Denied, op, "only %s, whose conversation it is, says who may see it", st.Owner)
	}
	return nil
}

// shared is what the request makes of who may see the thread.
func shared(op string, a thread.Access, req *meshv1.ShareThreadRequest) (mesh.ThreadShared, error) {
	next := mesh.ThreadShared{Readable: a.Readable}
	if req.Readable != nil {
		next.Readable = *req.Readable
	}
	for _, name := range slices.Concat(a.Participants, req.GetAdd()) {
		if name != a.Owner && !slices.Contains(req.GetRemove(), name) {
			next.Participants = append(next.Participants, name)
		}
	}
	slices.Sort(next.Participants)
	next.Participants = slices.Compact(next.Participants)
	if n := len(next.Participants); n > maxParticipants {
		return next, mesh.InvalidField(op, "add", "would make %d participants, and %d are allowed; share it with everybody by readable", n, maxParticipants)
	}
	return next, nil
}
