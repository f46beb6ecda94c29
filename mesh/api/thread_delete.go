package api

import (
	"cmp"
	"context"
	"strconv"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/thread"
)

// WithDeleter has threads deleted by d; before, none are. Of several at once permits says
// which policies refuse: it has an error for what the principal may not do to the thread of
// that id. It returns s, and is called before s serves.
func (s *Threads) WithDeleter(d *retention.Deleter, permits func(p mesh.Principal, a mesh.Action, name string) error) *Threads {
	s.deleter, s.permits = d, permits
	return s
}

// DeleteThread implements meshv1.ThreadServiceServer.
func (s *Threads) DeleteThread(ctx context.Context, req *meshv1.DeleteThreadRequest) (*meshv1.DeleteThreadResponse, error) {
	const op = "api.DeleteThread"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	hash, err := s.deleter.Delete(ctx, key, func(st *thread.State) error {
		if !st.MayRead(call.Principal) {
			return mesh.ThreadNotFound(op)
		}
		return nil
	})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.DeleteThreadResponse{LastHash: hash}, nil
}

// DeleteThreads implements meshv1.ThreadServiceServer.
func (s *Threads) DeleteThreads(ctx context.Context, req *meshv1.DeleteThreadsRequest) (*meshv1.DeleteThreadsResponse, error) {
	const op, usual = "api.DeleteThreads", 100
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	p := call.Principal
	if err := req.GetBefore().CheckValid(); err != nil {
		return nil, mesh.InvalidField(op, "before", "must be a time such as 2026-01-01T00:00:00Z")
	}
	q := retention.Query{Tenant: p.Tenant, Before: req.GetBefore().AsTime(), CountOnly: req.GetCountOnly(), Limit: cmp.Or(int(req.GetPageSize()), usual)}
	if q.Limit < 1 || q.Limit > retention.MaxPage {
		return nil, mesh.InvalidField(op, "page_size", "is %d; it must be 1 to %d, or 0 for %d", q.Limit, retention.MaxPage, usual)
	}
	if t := req.GetPageToken(); t != "" {
		after, err := strconv.ParseInt(t, 36, 64)
		if err != nil || after < 1 {
			return nil, mesh.InvalidField(op, "page_token", "is not one of ours; leave it out to begin anew")
		}
		q.After = mesh.Pos(after)
	}
	q.May = func(key mesh.ThreadKey, st *thread.State) bool {
		return st.MayRead(p) && s.permits(p, mesh.ActDeleteThread, key.ID) == nil
	}
	page, err := s.deleter.DeleteIdle(ctx, q)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	resp := &meshv1.DeleteThreadsResponse{Deleted: count(page.Deleted), AtWork: count(page.AtWork)}
	if page.Next != 0 {
		resp.NextPageToken = strconv.FormatInt(int64(page.Next), 36)
	}
	return resp, nil
}
