package api

import (
	"context"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/transfer"
)

// WithTenants has tenants exported and imported by t. It returns s, and is called before s
// serves.
func (s *Node) WithTenants(t *transfer.Tenants) *Node {
	s.tenants = t
	return s
}

// WithUsage has usage say what is kept of each tenant, sorted. It returns s, and is called before
// s serves.
func (s *Node) WithUsage(usage func(context.Context) ([]*meshv1.TenantUsage, error)) *Node {
	s.usage = usage
	return s
}

// ListTenants implements the RPC.
func (s *Node) ListTenants(ctx context.Context, _ *meshv1.ListTenantsRequest) (*meshv1.ListTenantsResponse, error) {
	all, err := s.usage(ctx)
	if err != nil {
		return nil, mesh.Wrap("api.ListTenants", err)
	}
	return &meshv1.ListTenantsResponse{Tenants: all}, nil
}

// ExportTenant implements the RPC.
func (s *Node) ExportTenant(_ *meshv1.ExportTenantRequest, stream grpc.ServerStreamingServer[meshv1.ExportTenantResponse]) error {
	call, err := callOf(stream.Context(), "api.ExportTenant")
	if err != nil {
		return err
	}
	return s.tenants.Export(stream.Context(), call.Principal.Tenant, func(p *meshv1.TenantPiece) error {
		return stream.Send(&meshv1.ExportTenantResponse{Piece: p})
	})
}

// ImportTenant implements the RPC.
func (s *Node) ImportTenant(stream grpc.ClientStreamingServer[meshv1.ImportTenantRequest, meshv1.ImportTenantResponse]) error {
	const op = "api.ImportTenant"
	call, err := callOf(stream.Context(), op)
	if err != nil {
		return err
	}
	res, err := s.tenants.Import(stream.Context(), call.Principal.Tenant, func() (*meshv1.TenantPiece, error) {
		req, err := stream.Recv()
		return req.GetPiece(), err
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(res)
}
