package api

import (
	"context"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/retention"
)

// Access serves mesh.v1.AccessService.
type Access struct {
	meshv1.UnimplementedAccessServiceServer
	methods func(mesh.Principal) []string
	revoked Revocations
	eraser  *retention.Eraser
}

// maxRevoked bounds the name of a user whose credentials are revoked, in bytes; users of
// credentials have no longer ones.
const maxRevoked = 128

// Revocations end credentials.
type Revocations interface {
	// Revoke has the credentials of the tenant's user not count that were issued until
	// now, those of operators too if by one.
	Revoke(ctx context.Context, tenant mesh.TenantID, user string, byOperator bool, now time.Time) error
}

// NewAccess returns the server; methods returns the methods that a caller may call,
// sorted, and revoked is nil where nobody has to say who they are.
func NewAccess(methods func(mesh.Principal) []string, revoked Revocations) *Access {
	return &Access{methods: methods, revoked: revoked}
}

// WithEraser has users erased by e; before, none are. It returns s, and is called before s
// serves.
func (s *Access) WithEraser(e *retention.Eraser) *Access {
	s.eraser = e
	return s
}

// RevokeUser implements the RPC.
func (s *Access) RevokeUser(ctx context.Context, req *meshv1.RevokeUserRequest) (*meshv1.RevokeUserResponse, error) {
	const op = "api.RevokeUser"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	user := req.GetUserId()
	switch {
	case s.revoked == nil:
		return nil, mesh.Errorf(mesh.Precondition, op, "there are no credentials to revoke: nobody has to say who they are; set auth")
	case user == "" || len(user) > maxRevoked:
		return nil, mesh.InvalidField(op, "user_id", "must be the name of a user, of 1 to %d bytes", maxRevoked)
	}
	p, now := call.Principal, time.Now()
	if err := s.revoked.Revoke(ctx, p.Tenant, user, p.Can(mesh.ActAdminNode), now); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.RevokeUserResponse{RevokedAt: stamp(now)}, nil
}

// EraseUser implements the RPC.
func (s *Access) EraseUser(ctx context.Context, req *meshv1.EraseUserRequest) (*meshv1.EraseUserResponse, error) {
	const op = "api.EraseUser"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	user := req.GetUserId()
	if user == "" || len(user) > maxRevoked {
		return nil, mesh.InvalidField(op, "user_id", "must be the name of a user, of 1 to %d bytes", maxRevoked)
	}
	all, err := s.eraser.Erase(ctx, mesh.Owner{Tenant: call.Principal.Tenant, User: user}, req.GetCountOnly())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.EraseUserResponse{More: all.More}
	for _, h := range all.Held {
		res.Erased = append(res.Erased, &meshv1.Erased{Kind: h.What, Count: int64(h.Count)})
	}
	return res, nil
}

// GetAccess implements the RPC.
func (s *Access) GetAccess(ctx context.Context, _ *meshv1.GetAccessRequest) (*meshv1.GetAccessResponse, error) {
	call, err := callOf(ctx, "api.GetAccess")
	if err != nil {
		return nil, err
	}
	p := call.Principal
	res := &meshv1.GetAccessResponse{TenantId: string(p.Tenant), UserId: p.User, Credential: p.Credential, Expires: stamp(p.Expires), Methods: s.methods(p)}
	for _, r := range p.Roles {
		res.Roles = append(res.Roles, string(r))
		for _, a := range r.Actions() {
			res.Actions = append(res.Actions, string(a))
		}
	}
	slices.Sort(res.Actions)
	res.Actions = slices.Compact(res.Actions)
	return res, nil
}
