package api

import (
	"context"
	"errors"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill"
)

// WithScheduleQuotas has users and tenants make no more skills with a schedule than their
// quotas say, of those that are there. It needs WithOwners.
func WithScheduleQuotas(q limit.Quotas) SkillsOption {
	return func(s *SkillService) { s.schedules = &schedules{quotas: q} }
}

// schedules counts the skills with a schedule that users made. The numbers are kept for
// each tenant, and made anew when a skill is deleted, and before anybody is refused: other
// nodes, and whoever edits files, change them too.
type schedules struct {
	quotas limit.Quotas

	mu sync.Mutex
	of map[mesh.TenantID]map[string]int64 // by user; "" has all
}

// create makes the skill, if there is room for its schedule.
func (s *SkillService) create(ctx context.Context, p mesh.Principal, source []byte) (*skill.Skill, error) {
	draft, problem := skill.ParseNew(source)
	if q := s.schedules; problem == nil && draft.Schedule != "" && q != nil && s.owners != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if err := s.room(ctx, p); err != nil {
			return nil, err
		}
	}
	sk, err := s.skills.Create(p.Tenant, source)
	if err != nil || s.owners == nil {
		return sk, err
	}
	if err := s.owners.set(ctx, sk.Tenant, sk.Name, p.User); err != nil {
		return nil, errors.Join(err, s.skills.Delete(sk.Tenant, sk.Name)) // nobody's skill is none
	}
	if q := s.schedules; q != nil && sk.Schedule != "" {
		q.of[sk.Tenant][p.User]++
		q.of[sk.Tenant][""]++
	}
	return sk, nil
}

// replace puts the file in the place of the skill's. One that runs by itself does so in the
// name of who made it, and is changed by nobody else.
func (s *SkillService) replace(ctx context.Context, p mesh.Principal, source []byte, version string) (*skill.Skill, error) {
	const op = "api.CreateSkill"
	draft, problem := skill.ParseNew(source)
	var old *skill.Skill
	if problem == nil {
		old, _ = s.skills.Find(p.Tenant, draft.Name)
	}
	if old != nil && old.Schedule+draft.Schedule != "" && s.owners != nil {
		switch owner, err := s.owners.Of(ctx, p.Tenant, old.Name); {
		case err != nil:
			return nil, err
		case owner != p.User:
			return nil, &mesh.Error{Code: mesh.Denied, Op: op, Field: "replaces",
				Detail: "The skill " + old.Name + " runs by itself in the name of who made it, who alone may change it; make one of another name"}
		}
		if q := s.schedules; q != nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			if old.Schedule == "" {
				if err := s.room(ctx, p); err != nil {
					return nil, err
				}
			}
			delete(q.of, p.Tenant) // counted anew
		}
	}
	return s.skills.Replace(p.Tenant, source, version)
}

// room returns an error if there is none for another schedule of the user. The caller
// holds mu.
func (s *SkillService) room(ctx context.Context, p mesh.Principal) error {
	q := s.schedules
	trip := func() *limit.Trip {
		of := q.of[p.Tenant]
		return q.quotas.Check(limit.Quota{Schedules: 1}, limit.Used{Quota: limit.Quota{Schedules: of[p.User]}}, limit.Used{Quota: limit.Quota{Schedules: of[""]}})
	}
	if q.of[p.Tenant] != nil && trip() == nil {
		return nil
	}
	of := map[string]int64{}
	for _, sk := range s.skills.For(p.Tenant).List() {
		if sk.Schedule == "" || sk.Tenant != p.Tenant {
			continue
		}
		user, err := s.owners.Of(ctx, p.Tenant, sk.Name)
		if err != nil {
			return err
		}
		if of[""]++; user != "" {
			of[user]++
		}
	}
	if q.of == nil {
		q.of = map[mesh.TenantID]map[string]int64{}
	}
	q.of[p.Tenant] = of
	if t := trip(); t != nil {
		return t.Err("api.CreateSkill")
	}
	return nil
}

// forget has the tenant's schedules counted anew.
func (q *schedules) forget(t mesh.TenantID) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.of, t)
}
