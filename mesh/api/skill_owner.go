package api

import (
	"context"

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
	page := state.Page{Kind: ownerKind, Prefix: string(t) + "/", Limit: state.MaxPage}
	for more := true; more; {
		var items []state.Item
		if items, more, err = s.kv.List(ctx, page); err != nil {
			return n, mesh.Wrap("api.SkillOwners.Chown", err)
		}
		for _, it := range items {
			if page.After = it.Name; string(it.Data) != from {
				continue
			}
			if _, err := s.kv.Put(ctx, state.Key{Kind: ownerKind, Name: it.Name}, []byte(to), it.Version); err != nil {
				return n, mesh.Wrap("api.SkillOwners.Chown", err)
			}
			n++
		}
	}
	return n, nil
}
