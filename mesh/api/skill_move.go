package api

import (
	"bytes"
	"context"
	"io"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Keeps names what a SkillService keeps of tenants.
func (s *SkillService) Keeps() string { return "skills" }

// Export gives put the files of the tenant's own skills, with who made each.
func (s *SkillService) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	for _, sk := range s.skills.For(t).List() {
		if sk.Tenant != t || t == "" {
			continue
		}
		user, err := s.owners.Of(ctx, t, sk.Name)
		if err != nil {
			return nil, mesh.Wrap("api.SkillService.Export", err)
		}
		if err := put(mesh.Kept{Name: sk.Name, User: user, Size: int64(len(sk.Source))}, bytes.NewReader(sk.Source)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Import adds a skill that Export gave, unless it is there. One with a schedule runs from its
// next due time on.
func (s *SkillService) Import(ctx context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	const op = "api.SkillService.Import"
	if k.Size > skill.MaxFile {
		return false, mesh.InvalidField(op, "data", "must be at most %d bytes, and has %d", skill.MaxFile, k.Size)
	}
	source, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	made, err := s.skills.Create(t, source)
	if mesh.IsCode(err, mesh.Precondition) {
		is, ok := s.skills.Find(t, k.Name)
		if !ok || is.Tenant != t || !bytes.Equal(is.Source, source) {
			return false, mesh.Wrap(op, err)
		}
	} else if err != nil {
		return false, mesh.Wrap(op, err)
	}
	if k.User != "" { // again, of one that is there: a kill may have come before it
		if err := s.owners.set(ctx, t, k.Name, k.User); err != nil {
			return false, mesh.Wrap(op, err)
		}
	}
	if s.schedules != nil {
		s.schedules.forget(t)
	}
	return made != nil, nil
}
