package service

import (
	"context"
	"iter"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"

	"google.golang.org/grpc"
)

// Skills is what SkillService needs of the skills of a mesh; [SkillFolder] is
// it. All tenants share them. Implementations are safe for concurrent use, and
// skills that they return are shared: nobody changes them.
type Skills interface {
	// Get returns a skill, List all by name, Search those that hold words of
	// the query, best first.
	Get(name string) (*skill.Skill, bool)
	List() []*skill.Skill
	Search(query string) []*skill.Skill
	// Problems returns the files that could not be loaded.
	Problems() []skill.Problem
	// Create adds the skill whose file this is and keeps it durably. Errors:
	// Invalid naming the line, Precondition when there is one of that name.
	Create(source []byte) (*skill.Skill, error)
	// Delete removes a skill that Create made. Errors: NotFound, Precondition
	// for other skills.
	Delete(name string) error
	// Watch yields all skills, then Synced, then each change until ctx is done,
	// whose error it yields last.
	Watch(ctx context.Context) iter.Seq2[SkillChange, error]
}

// SkillChangeKind says what a [SkillChange] is.
type SkillChangeKind uint8

// The kinds of changes.
const (
	SkillPut     SkillChangeKind = iota + 1 // the skill was added or changed
	SkillRemoved                            // the skill is gone
	SkillsSynced                            // all that there was when the watch began has been told
)

// A SkillChange is one step of a watch. Skill is nil for SkillsSynced.
type SkillChange struct {
	Kind  SkillChangeKind
	Skill *skill.Skill
}

// SkillService serves mesh.v1.SkillService.
type SkillService struct {
	meshv1.UnimplementedSkillServiceServer
	skills Skills
}

// NewSkills returns the server.
func NewSkills(skills Skills) *SkillService { return &SkillService{skills: skills} }

// ListSkills implements the RPC. With a query the best matches come first.
func (s *SkillService) ListSkills(ctx context.Context, req *meshv1.ListSkillsRequest) (*meshv1.ListSkillsResponse, error) {
	if _, err := callOf(ctx, "service.ListSkills"); err != nil {
		return nil, err
	}
	found := s.skills.List()
	if req.GetQuery() != "" {
		found = s.skills.Search(req.GetQuery())
	}
	res := &meshv1.ListSkillsResponse{}
	for _, sk := range found {
		if req.GetDomain() == "" || sk.Domain == req.GetDomain() {
			res.Skills = append(res.Skills, skillProto(sk, false))
		}
	}
	for _, p := range s.skills.Problems() {
		res.Problems = append(res.Problems, problemProto(p))
	}
	return res, nil
}

// GetSkill implements the RPC.
func (s *SkillService) GetSkill(ctx context.Context, req *meshv1.GetSkillRequest) (*meshv1.GetSkillResponse, error) {
	const op = "service.GetSkill"
	if _, err := callOf(ctx, op); err != nil {
		return nil, err
	}
	sk, ok := s.skills.Get(req.GetName())
	if !ok {
		return nil, skillNotFound(op, req.GetName())
	}
	return &meshv1.GetSkillResponse{Skill: skillProto(sk, true)}, nil
}

// CreateSkill implements the RPC.
func (s *SkillService) CreateSkill(ctx context.Context, req *meshv1.CreateSkillRequest) (*meshv1.CreateSkillResponse, error) {
	const op = "service.CreateSkill"
	if err := mayCreateSkills(ctx, op); err != nil {
		return nil, err
	}
	sk, err := s.skills.Create([]byte(req.GetSource()))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.CreateSkillResponse{Skill: skillProto(sk, true)}, nil
}

// ValidateSkill implements the RPC: what is wrong is an answer, not an error.
func (s *SkillService) ValidateSkill(ctx context.Context, req *meshv1.ValidateSkillRequest) (*meshv1.ValidateSkillResponse, error) {
	if _, err := callOf(ctx, "service.ValidateSkill"); err != nil {
		return nil, err
	}
	sk, problem := checkSource([]byte(req.GetSource()))
	if problem != nil {
		return &meshv1.ValidateSkillResponse{Problems: []*meshv1.SkillProblem{problemProto(*problem)}}, nil
	}
	return &meshv1.ValidateSkillResponse{Skill: skillProto(sk, true)}, nil
}

// DeleteSkill implements the RPC.
func (s *SkillService) DeleteSkill(ctx context.Context, req *meshv1.DeleteSkillRequest) (*meshv1.DeleteSkillResponse, error) {
	const op = "service.DeleteSkill"
	if err := mayCreateSkills(ctx, op); err != nil {
		return nil, err
	}
	if err := s.skills.Delete(req.GetName()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.DeleteSkillResponse{}, nil
}

// WatchSkills implements the RPC.
func (s *SkillService) WatchSkills(_ *meshv1.WatchSkillsRequest, stream grpc.ServerStreamingServer[meshv1.WatchSkillsResponse]) error {
	const op = "service.WatchSkills"
	if _, err := callOf(stream.Context(), op); err != nil {
		return err
	}
	if err := accept(stream); err != nil {
		return err
	}
	for change, err := range s.skills.Watch(stream.Context()) {
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if err := stream.Send(skillChangeProto(change)); err != nil {
			return err
		}
	}
	return nil
}

func mayCreateSkills(ctx context.Context, op string) error {
	call, err := callOf(ctx, op)
	if err != nil {
		return err
	}
	if !call.Principal.Can(mesh.PermSkillCreate) {
		return mesh.Errorf(mesh.Denied, op, "Writing and removing skills needs the permission %q; ask the operator", mesh.PermSkillCreate)
	}
	return nil
}

func skillNotFound(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "name",
		Detail: "Skill not found; check the name in the list of skills: " + clip(name)}
}

// clip shortens hostile input for an error message.
func clip(s string) string { return mesh.Clip(s, 64) }

func skillChangeProto(c SkillChange) *meshv1.WatchSkillsResponse {
	switch c.Kind {
	case SkillPut:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_PUT, Skill: skillProto(c.Skill, false)}
	case SkillRemoved:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_REMOVED, Skill: skillProto(c.Skill, false)}
	default:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_SYNCED}
	}
}

func skillProto(s *skill.Skill, source bool) *meshv1.Skill {
	p := &meshv1.Skill{Name: s.Name, Description: s.Description, Tags: s.Tags, Access: s.Access,
		Handler: s.Handler, Path: s.Path, RequiresApproval: s.RequiresApproval}
	if source {
		p.Source = string(s.Source)
	}
	for _, a := range s.Parameters {
		p.Parameters = append(p.Parameters, &meshv1.SkillParameter{Name: a.Name, Type: a.Type, Required: a.Required,
			Description: a.Description, Items: a.Items, Default: a.Default, Enum: a.Enum})
	}
	return p
}

func problemProto(p skill.Problem) *meshv1.SkillProblem {
	return &meshv1.SkillProblem{Path: p.Path, Line: int32(p.Line), Detail: p.Detail}
}
