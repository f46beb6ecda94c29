package api

import (
	"context"
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"

	"google.golang.org/grpc"
)

// Skills is what SkillService needs of the skills of a mesh; [skill.Library] is
// it. Implementations are safe for concurrent use, and skills that they return
// are shared: nobody changes them.
type Skills interface {
	// For returns what the tenant has, its own skills and the shared ones.
	For(t mesh.TenantID) *skill.Catalog
	// Find returns one of them, also one that another node has just made.
	Find(t mesh.TenantID, name string) (*skill.Skill, bool)
	// Problems returns the files of these that could not be loaded.
	Problems(t mesh.TenantID) []skill.Problem
	// ReadFile returns a file that belongs to a skill.
	ReadFile(t mesh.TenantID, name, file string) ([]byte, error)
	// Create adds the skill whose file this is to those of the tenant, and
	// Delete removes one that Create made.
	Create(t mesh.TenantID, source []byte) (*skill.Skill, error)
	// Replace puts the file in the place of one that Create made, as it is in the version.
	Replace(t mesh.TenantID, source []byte, version string) (*skill.Skill, error)
	Delete(t mesh.TenantID, name string) error
	// Reload reads all changed files.
	Reload(ctx context.Context) (skill.Changes, error)
	// Watch yields all skills of the tenant, then that these were all, then
	// each change until ctx is done, whose error it yields last.
	Watch(ctx context.Context, t mesh.TenantID) iter.Seq2[skill.Change, error]
}

// A SkillRunner runs skills, and knows of the runs that schedules caused.
type SkillRunner interface {
	// RunSkill runs a skill as a turn of a thread, for the caller, and waits
	// for its end.
	RunSkill(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error)
	// ListSkillRuns returns a page of runs of the caller's tenant.
	ListSkillRuns(ctx context.Context, req *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error)
}

// Bounds of a page of skills: their number, and their bytes on the wire. The
// texts of domains have the same bound.
const (
	maxSkillPage  = 1000
	maxSkillBytes = 1 << 20
)

// SkillService serves mesh.v1.SkillService.
type SkillService struct {
	meshv1.UnimplementedSkillServiceServer
	skills   Skills
	runner   SkillRunner
	breakers *state.KV    // nil if they are not shown
	owners   *SkillOwners // nil if nobody asks
	effects  Effects      // nil if agents create none
	// schedules is nil if there may be any number of them.
	schedules *schedules
	told      telling
}

// WithOwners keeps who made each skill.
func WithOwners(o *SkillOwners) SkillsOption { return func(s *SkillService) { s.owners = o } }

// Effects do what agents ask for, if their users have approved it: an
// *admission.Controller.
type Effects interface {
	Effect(ctx context.Context, g *mesh.Grant, name, args string, do func() error) error
}

// WithEffects has agents create skills, each as its user has approved it.
func WithEffects(e Effects) SkillsOption { return func(s *SkillService) { s.effects = e } }

// NewSkills returns the server. Without a runner, nil, it runs no skills.
func NewSkills(skills Skills, runner SkillRunner, opts ...SkillsOption) *SkillService {
	s := &SkillService{skills: skills, runner: runner}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// ListSkills implements the RPC. With a query the best matches come first.
func (s *SkillService) ListSkills(ctx context.Context, req *meshv1.ListSkillsRequest) (*meshv1.ListSkillsResponse, error) {
	const op = "api.ListSkills"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = maxSkillPage
	}
	if size < 1 || size > maxSkillPage {
		return nil, mesh.InvalidField(op, "page_size", "must be 1 to %d, or 0 for that, and is %d", maxSkillPage, size)
	}
	found, err := after(s.find(call.Principal.Tenant, req), req.GetQuery() != "", op, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &meshv1.ListSkillsResponse{}
	bytes := 0
	for i, sk := range found {
		p, n := s.told.of(sk, req.GetWithSource())
		bytes += n
		if i == size || bytes > maxSkillBytes && i > 0 {
			res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(found[i-1].Name))
			break
		}
		res.Skills = append(res.Skills, p)
	}
	if req.GetPageToken() == "" {
		for _, p := range s.skills.Problems(call.Principal.Tenant) {
			res.Problems = append(res.Problems, problemProto(p))
		}
	}
	return res, nil
}

// find returns the skills that the request asks for, on all pages.
func (s *SkillService) find(t mesh.TenantID, req *meshv1.ListSkillsRequest) []*skill.Skill {
	catalog, patterns := s.skills.For(t), req.GetPatterns()
	var found []*skill.Skill
	switch {
	case req.GetQuery() != "":
		found = catalog.Search(req.GetQuery())
	case req.GetDomain() != "":
		found = catalog.InDomain(req.GetDomain())
	case len(patterns) > 0:
		return catalog.Match(patterns)
	default:
		return catalog.List()
	}
	return slices.DeleteFunc(found, func(sk *skill.Skill) bool {
		return req.GetDomain() != "" && sk.Domain != req.GetDomain() ||
			len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return mesh.SkillMatches(p, sk.Name) })
	})
}

// after returns what comes after the skill that the page token names. When that
// is gone, a list by name goes on at its place; one by rank has ended.
func after(found []*skill.Skill, ranked bool, op, token string) ([]*skill.Skill, error) {
	if token == "" {
		return found, nil
	}
	name, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, mesh.InvalidField(op, "page_token", "is none that a page had; begin again without it")
	}
	byName := func(sk *skill.Skill, name string) int { return strings.Compare(sk.Name, name) }
	if at := slices.IndexFunc(found, func(sk *skill.Skill) bool { return sk.Name == string(name) }); at >= 0 {
		return found[at+1:], nil
	}
	if ranked {
		return nil, nil
	}
	at, _ := slices.BinarySearchFunc(found, string(name), byName)
	return found[at:], nil
}

// ListSkillDomains implements the RPC. When the texts of all would be too much,
// the later ones are left out; a request for fewer domains has them.
func (s *SkillService) ListSkillDomains(ctx context.Context, req *meshv1.ListSkillDomainsRequest) (*meshv1.ListSkillDomainsResponse, error) {
	call, err := callOf(ctx, "api.ListSkillDomains")
	if err != nil {
		return nil, err
	}
	catalog := s.skills.For(call.Principal.Tenant)
	domains := catalog.Domains()
	if len(req.GetPatterns()) > 0 {
		domains = catalog.MatchDomains(req.GetPatterns())
	}
	res := &meshv1.ListSkillDomainsResponse{}
	bytes := 0
	for _, d := range domains {
		if bytes += len(d.Body); bytes > maxSkillBytes {
			d.Body = ""
		}
		res.Domains = append(res.Domains, &meshv1.SkillDomain{Name: d.Domain, Description: d.Description, Skills: int32(d.Skills), Body: d.Body})
	}
	return res, nil
}

// GetSkill implements the RPC.
func (s *SkillService) GetSkill(ctx context.Context, req *meshv1.GetSkillRequest) (*meshv1.GetSkillResponse, error) {
	const op = "api.GetSkill"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	tenant := call.Principal.Tenant
	sk, ok := s.skills.Find(tenant, req.GetName())
	if !ok {
		return nil, skillNotFound(op, req.GetName())
	}
	res := &meshv1.GetSkillResponse{Skill: skillProto(sk, true)}
	if req.GetFile() != "" {
		if res.File, err = s.skills.ReadFile(tenant, req.GetName(), req.GetFile()); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	return res, nil
}

// CreateSkill implements the RPC.
func (s *SkillService) CreateSkill(ctx context.Context, req *meshv1.CreateSkillRequest) (*meshv1.CreateSkillResponse, error) {
	const op = "api.CreateSkill"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	var sk *skill.Skill
	create := func() (err error) {
		if req.GetReplaces() != "" {
			sk, err = s.replace(ctx, call.Principal, []byte(req.GetSource()), req.GetReplaces())
		} else {
			sk, err = s.create(ctx, call.Principal, []byte(req.GetSource()))
		}
		return err
	}
	switch g := call.Principal.Grant; {
	case g == nil:
		err = create()
	case s.effects == nil:
		err = mesh.Errorf(mesh.Denied, op, "agents create no skills here")
	default:
		err = s.effects.Effect(ctx, g, mesh.CallCreateSkill, mesh.ReplaceSkillArgs(req.GetSource(), req.GetReplaces()), create)
	}
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.CreateSkillResponse{Skill: skillProto(sk, true)}, nil
}

// ValidateSkill implements the RPC: what is wrong is an answer, not an error.
func (s *SkillService) ValidateSkill(ctx context.Context, req *meshv1.ValidateSkillRequest) (*meshv1.ValidateSkillResponse, error) {
	if _, err := callOf(ctx, "api.ValidateSkill"); err != nil {
		return nil, err
	}
	sk, problem := skill.ParseNew([]byte(req.GetSource()))
	if problem != nil {
		return &meshv1.ValidateSkillResponse{Problems: []*meshv1.SkillProblem{problemProto(*problem)}}, nil
	}
	return &meshv1.ValidateSkillResponse{Skill: skillProto(sk, true)}, nil
}

// DeleteSkill implements the RPC.
func (s *SkillService) DeleteSkill(ctx context.Context, req *meshv1.DeleteSkillRequest) (*meshv1.DeleteSkillResponse, error) {
	const op = "api.DeleteSkill"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := s.skills.Delete(call.Principal.Tenant, req.GetName()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	s.schedules.forget(call.Principal.Tenant)
	if s.owners != nil {
		if err := s.owners.drop(ctx, call.Principal.Tenant, req.GetName()); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	return &meshv1.DeleteSkillResponse{}, nil
}

// ReloadSkills implements the RPC. It tells what changed for the caller's
// tenant.
func (s *SkillService) ReloadSkills(ctx context.Context, _ *meshv1.ReloadSkillsRequest) (*meshv1.ReloadSkillsResponse, error) {
	const op = "api.ReloadSkills"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	tenant := call.Principal.Tenant
	changes, err := s.skills.Reload(ctx)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	changes = changes.For(tenant)
	res := &meshv1.ReloadSkillsResponse{Skills: int32(s.skills.For(tenant).Len()), Changed: skillNames(changes.Put), Removed: skillNames(changes.Removed)}
	for _, p := range s.skills.Problems(tenant) {
		res.Problems = append(res.Problems, problemProto(p))
	}
	return res, nil
}

func skillNames(list []*skill.Skill) []string {
	var names []string
	for _, sk := range list {
		names = append(names, sk.Name)
	}
	return names
}

// RunSkill implements the RPC.
func (s *SkillService) RunSkill(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	const op = "api.RunSkill"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if _, ok := s.skills.Find(call.Principal.Tenant, req.GetName()); !ok {
		return nil, skillNotFound(op, req.GetName())
	}
	if s.runner == nil {
		return nil, noRunner(op)
	}
	res, err := s.runner.RunSkill(ctx, req)
	return res, mesh.Wrap(op, err)
}

// ListSkillRuns implements the RPC.
func (s *SkillService) ListSkillRuns(ctx context.Context, req *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error) {
	const op = "api.ListSkillRuns"
	if s.runner == nil {
		return nil, noRunner(op)
	}
	res, err := s.runner.ListSkillRuns(ctx, req)
	return res, mesh.Wrap(op, err)
}

// WatchSkills implements the RPC.
func (s *SkillService) WatchSkills(_ *meshv1.WatchSkillsRequest, stream grpc.ServerStreamingServer[meshv1.WatchSkillsResponse]) error {
	const op = "api.WatchSkills"
	call, err := callOf(stream.Context(), op)
	if err != nil {
		return err
	}
	if err := accept(stream); err != nil {
		return err
	}
	for change, err := range s.skills.Watch(stream.Context(), call.Principal.Tenant) {
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if err := stream.Send(skillChangeProto(change)); err != nil {
			return err
		}
	}
	return nil
}

func noRunner(op string) *mesh.Error {
	return mesh.Errorf(mesh.Unsupported, op, "This mesh runs no skills on request; ask an agent")
}

func skillNotFound(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "name",
		Detail: "Skill not found; check the name in the list of skills: " + clip(name)}
}

// clip shortens hostile input for an error message.
func clip(s string) string { return mesh.Clip(s, 64) }

func skillChangeProto(c skill.Change) *meshv1.WatchSkillsResponse {
	switch c.Kind {
	case skill.ChangePut:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_PUT, Skill: skillProto(c.Skill, false)}
	case skill.ChangeRemoved:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_REMOVED, Skill: skillProto(c.Skill, false)}
	default:
		return &meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_SYNCED}
	}
}

func problemProto(p skill.Problem) *meshv1.SkillProblem {
	return &meshv1.SkillProblem{Path: p.Path, Line: int32(p.Line), Field: p.Field, Detail: p.Detail}
}
