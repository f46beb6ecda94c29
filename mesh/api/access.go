package api

import (
	"context"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Access serves mesh.v1.AccessService.
type Access struct {
	meshv1.UnimplementedAccessServiceServer
	methods func(mesh.Principal) []string
}

// NewAccess returns the server; methods returns the methods that a caller may call,
// sorted.
func NewAccess(methods func(mesh.Principal) []string) *Access { return &Access{methods: methods} }

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
