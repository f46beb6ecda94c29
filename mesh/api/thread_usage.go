package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// WithSums has f say what models used. It returns s, and is called before s serves.
func (s *Threads) WithSums(f func(context.Context, tasks.Sums) (map[string]tasks.Sum, error)) *Threads {
	s.sums = f
	return s
}

// usualDays is how many days sums are of, where nobody says it.
const usualDays = 30

// ListUsage implements meshv1.ThreadServiceServer.
func (s *Threads) ListUsage(ctx context.Context, req *meshv1.ListUsageRequest) (*meshv1.ListUsageResponse, error) {
	const op, most, usual = "api.ListUsage", 1000, 100
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(int(req.GetLimit()), usual)
	if limit < 1 || limit > most {
		return nil, mesh.InvalidField(op, "limit", "is %d; it must be 1 to %d", limit, most)
	}
	q, err := wantedSums(op, req, call.Principal, s.log.Now())
	if err != nil {
		return nil, err
	}
	if q.All || q.User != call.Principal.User {
		s.readByRole(ctx, "usage")
	}
	all, err := s.sums(ctx, q)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	resp, total := &meshv1.ListUsageResponse{}, tasks.Sum{}
	for i, key := range ordered(all, q.By) {
		if total = total.Add(all[key]); i < limit {
			resp.Sums = append(resp.Sums, sumToProto(key, all[key]))
		} else {
			resp.LeftOut++
		}
	}
	resp.Total = sumToProto("", total)
	return resp, nil
}

func sumToProto(key string, s tasks.Sum) *meshv1.UsageSum {
	return &meshv1.UsageSum{Key: key, Replies: s.Replies, Usage: eventpb.UsageToProto(s.Usage())}
}

// ordered are the keys as they are returned.
func ordered(all map[string]tasks.Sum, by string) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if by == tasks.ByDay {
			return strings.Compare(b, a)
		}
		x, y := all[a], all[b]
		return cmp.Or(cmp.Compare(y.Nanos, x.Nanos), cmp.Compare(y.Prompt+y.Completion, x.Prompt+x.Completion), strings.Compare(a, b))
	})
}

// wantedSums are those that the caller asks for and may have: one's own, those of the tenant for
// who may read all of it, and those of all tenants for operators.
func wantedSums(op string, req *meshv1.ListUsageRequest, p mesh.Principal, now time.Time) (q tasks.Sums, err error) {
	q = tasks.Sums{Tenant: p.Tenant, User: cmp.Or(req.GetUserId(), p.User), By: cmp.Or(req.GetBy(), tasks.ByDay)}
	may := p.Can(mesh.ActReadTenant) || p.Can(mesh.ActAdminTenant)
	q.All = may && req.GetUserId() == ""
	switch q.By {
	case tasks.ByDay, tasks.ByUser, tasks.ByAgent, tasks.ByModel, tasks.ByThread:
	case tasks.ByTenant:
		if !p.Can(mesh.ActAdminNode) {
			return q, mesh.Errorf(mesh.Denied, op, "sums of all tenants are for operators; ask by day, user, agent, model or thread for those of your own")
		}
		if req.GetUserId() != "" {
			return q, mesh.InvalidField(op, "user_id", "is a user of one tenant, and the sums are of all; leave it out, or ask by day, user, agent, model or thread")
		}
		q.Tenant = ""
	default:
		return q, mesh.InvalidField(op, "by", "is %q; it must be day, user, agent, model, thread or tenant", mesh.Clip(q.By, 40))
	}
	if q.User != p.User && !may {
		return q, mesh.Errorf(mesh.Denied, op, "what another user used is for those who may read all of the tenant; leave user_id out for what is your own")
	}
	if q.Last, err = dayIn(op, "until", req.GetUntil(), now); err != nil {
		return q, err
	}
	if q.First, err = dayIn(op, "since", req.GetSince(), q.Last.Add(-(usualDays-1)*threadlog.Day)); err != nil {
		return q, err
	}
	if q.First.After(q.Last) {
		return q, mesh.InvalidField(op, "since", "is later than until; change one of them")
	}
	return q, nil
}

// dayIn is the time that a field has, or the usual one.
func dayIn(op, field string, t *timestamppb.Timestamp, usual time.Time) (time.Time, error) {
	if t == nil {
		return usual, nil
	}
	if !t.IsValid() {
		return usual, mesh.InvalidField(op, field, "is no time; give it as 2026-01-31T00:00:00Z")
	}
	return t.AsTime(), nil
}
