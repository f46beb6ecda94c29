package api

import (
	"context"
	"iter"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// ownerKind is the kind under which it is kept who made a skill, among the operator's
// own values, which no grant reaches.
const ownerKind = "skill-owners"

// SkillOwners keeps who made the skills of tenants. It is safe for concurrent use.
type SkillOwners struct{ kv *state.KV }

// NewSkillOwners returns the store of owners in kv.
func NewSkillOwners(kv *state.KV) *SkillOwners { return &SkillOwners{kv} }

func ownerKey(t mesh.TenantID, skill string) state.Key {
	return state.Key{Kind: ownerKind, Name: string(t) + "/" + skill}
}

// Of returns the user who made the tenant's skill, or "" if that is not known.
func (s *SkillOwners) Of(ctx context.Context, t mesh.TenantID, skill string) (string, error) {
	v, err := s.kv.Get(ctx, ownerKey(t, skill))
	if mesh.IsCode(err, mesh.NotFound) {
		return "", nil
	}
	return string(v.Data), mesh.Wrap("api.SkillOwners.Of", err)
}

// set keeps that the user made the skill.
func (s *SkillOwners) set(ctx context.Context, t mesh.TenantID, skill, user string) error {
	_, err := s.kv.Put(ctx, ownerKey(t, skill), []byte(user), state.AnyVersion)
	return mesh.Wrap("api.SkillOwners.set", err)
}

// drop forgets who made the skill, which is gone.
func (s *SkillOwners) drop(ctx context.Context, t mesh.TenantID, skill string) error {
	err := s.kv.Delete(ctx, ownerKey(t, skill), state.AnyVersion)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil
	}
	return mesh.Wrap("api.SkillOwners.drop", err)
}

// Chown gives the skills of a tenant that one user made to another, and with them the
// runs of their schedules. It returns how many there were.
func (s *SkillOwners) Chown(ctx context.Context, t mesh.TenantID, from, to string) (n int, err error) {
	for name, err := range s.all(ctx, mesh.Owner{Tenant: t, User: from}) {
		if err == nil {
			err = s.set(ctx, t, name, to)
		}
		if err != nil {
			return n, mesh.Wrap("api.SkillOwners.Chown", err)
		}
		n++
	}
	return n, nil
}

// all yields the names of the skills that the user made, which may be changed meanwhile.
func (s *SkillOwners) all(ctx context.Context, o mesh.Owner) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		prefix := string(o.Tenant) + "/"
		for page, more := (state.Page{Kind: ownerKind, Prefix: prefix, Limit: state.MaxPage}), true; more; {
			var items []state.Item
			var err error
			if items, more, err = s.kv.List(ctx, page); err != nil {
				yield("", err)
				return
			}
			for _, it := range items {
				page.After = it.Name
				if string(it.Data) == o.User && !yield(strings.TrimPrefix(it.Name, prefix), nil) {
					return
				}
			}
		}
	}
}

// Erase removes the skills that a user made for the tenant, with their schedules, or counts
// them alone, and returns how many there were. Files that somebody put there, whoever that
// was, stay.
func (s *SkillService) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	const op = "api.SkillService.Erase"
	n := 0
	for name, err := range s.owners.all(ctx, o) {
		if err == nil && !countOnly {
			if err = s.skills.Delete(o.Tenant, name); err == nil || mesh.IsCode(err, mesh.NotFound) || mesh.IsCode(err, mesh.Precondition) {
				err = s.owners.drop(ctx, o.Tenant, name)
			}
		}
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		n++
	}
	if n > 0 && !countOnly {
		s.schedules.forget(o.Tenant)
	}
	return []mesh.Held{{What: "skills", Count: n}}, nil
}
