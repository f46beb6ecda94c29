package api

import (
	"context"
	"encoding/base64"
	"math"
	"sync"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/state"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxBreakerPage bounds a page of breakers.
const maxBreakerPage = 1000

// A SkillsOption changes a default of [NewSkills].
type SkillsOption func(*SkillService)

// WithBreakers shows and resets the breakers of skills that are kept in kv. By
// default there are none to be seen.
func WithBreakers(kv *state.KV) SkillsOption { return func(s *SkillService) { s.breakers = kv } }

// ListBreakers implements the RPC. It shows the breakers of skills that the
// tenant has, and no others: one may be left of a skill that is gone.
func (s *SkillService) ListBreakers(ctx context.Context, req *meshv1.ListBreakersRequest) (*meshv1.ListBreakersResponse, error) {
	const op = "api.ListBreakers"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if s.breakers == nil {
		return nil, noBreakers(op)
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = maxBreakerPage
	}
	if size < 1 || size > maxBreakerPage {
		return nil, mesh.InvalidField(op, "page_size", "must be 1 to %d, or 0 for that, and is %d", maxBreakerPage, size)
	}
	from, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil || len(from) > state.MaxName {
		return nil, mesh.InvalidField(op, "page_token", "is none that a page had; begin again without it")
	}
	found, err := s.unhealthy(ctx, call.Principal.Tenant, string(from), size+1)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.ListBreakersResponse{}
	if len(found) > size {
		found = found[:size]
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(found[size-1].Name))
	}
	for _, c := range found {
		res.Breakers = append(res.Breakers, breakerProto(c))
	}
	return res, nil
}

// unhealthy returns the tenant's circuits that are not healthy, by name above
// after, at most n.
func (s *SkillService) unhealthy(ctx context.Context, t mesh.TenantID, after string, n int) ([]limit.Circuit, error) {
	var out []limit.Circuit
	catalog, now := s.skills.For(t), time.Now()
	page := state.Page{Tenant: t, Kind: state.KindBreaker, After: after, Limit: state.MaxPage}
	for {
		items, more, err := s.breakers.List(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			page.After = it.Name
			c := limit.ReadCircuit(it.Name, it.Data, now)
			if _, ok := catalog.Get(it.Name); !ok || c.Healthy() {
				continue
			}
			if out = append(out, c); len(out) == n {
				return out, nil
			}
		}
		if !more {
			return out, nil
		}
	}
}

// ResetBreaker implements the RPC.
func (s *SkillService) ResetBreaker(ctx context.Context, req *meshv1.ResetBreakerRequest) (*meshv1.ResetBreakerResponse, error) {
	const op = "api.ResetBreaker"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	tenant := call.Principal.Tenant
	if _, ok := s.skills.Find(tenant, req.GetName()); !ok {
		return nil, skillNotFound(op, req.GetName())
	}
	if s.breakers == nil {
		return nil, noBreakers(op)
	}
	before, err := limit.ResetCircuit(ctx, circuits{s.breakers, tenant}, req.GetName(), time.Now())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.ResetBreakerResponse{}
	if !before.Healthy() {
		res.Before = breakerProto(before)
	}
	return res, nil
}

func noBreakers(op string) *mesh.Error {
	return mesh.Errorf(mesh.Unsupported, op, "This mesh does not show the breakers of skills")
}

func breakerProto(c limit.Circuit) *meshv1.SkillBreaker {
	p := &meshv1.SkillBreaker{Skill: c.Name, State: c.State, Failures: int32(min(c.Failures, math.MaxInt32))}
	if !c.OpenedAt.IsZero() {
		p.OpenedAt = timestamppb.New(c.OpenedAt)
	}
	if !c.NextProbe.IsZero() {
		p.NextProbe = timestamppb.New(c.NextProbe)
	}
	return p
}

// Breakers returns the breaker of each tenant, whose state is kept in kv.
func Breakers(kv *state.KV, o limit.BreakerOptions) func(t mesh.TenantID) *limit.Breaker {
	var mu sync.Mutex
	all := map[mesh.TenantID]*limit.Breaker{}
	return func(t mesh.TenantID) *limit.Breaker {
		mu.Lock()
		defer mu.Unlock()
		if all[t] == nil {
			all[t] = limit.NewBreaker(circuits{kv, t}, o)
		}
		return all[t]
	}
}

// circuits is the [limit.BreakerStore] of a tenant.
type circuits struct {
	kv     *state.KV
	tenant mesh.TenantID
}

// Get implements [limit.BreakerStore].
func (c circuits) Get(ctx context.Context, kind, key string) ([]byte, int64, error) {
	v, err := c.kv.Get(ctx, state.Key{Tenant: c.tenant, Kind: kind, Name: key})
	return v.Data, v.Version, err
}

// Put implements [limit.BreakerStore].
func (c circuits) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	return c.kv.Put(ctx, state.Key{Tenant: c.tenant, Kind: kind, Name: key}, data, version)
}
