package meshclient

import (
	"context"
	"log/slog"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/transport"

	"google.golang.org/grpc"
)

// Join gets an agent's first certificate with the token of its invitation, and keeps it in
// the folder, with its key. It returns who the agent is from now on.
func Join(ctx context.Context, node grpc.ClientConnInterface, token, dir string) (mesh.AgentID, error) {
	const op = "meshclient.Join"
	key, csr, err := transport.Request()
	if err != nil {
		return mesh.AgentID{}, mesh.Wrap(op, err)
	}
	res, err := meshv1.NewIdentityServiceClient(node).JoinAgent(ctx, &meshv1.JoinAgentRequest{Token: token, Csr: csr})
	if err != nil {
		return mesh.AgentID{}, failed(op, err)
	}
	c := res.GetCertificate()
	return mesh.AgentID{Tenant: mesh.TenantID(c.GetTenantId()), Name: c.GetName()}, transport.SaveIdentity(dir, key, c.GetLeaf(), c.GetCa())
}

// How often KeepIdentity looks at the clock, and tries again what failed.
const (
	lookEvery     = time.Second
	retryIdentity = time.Minute
)

// KeepIdentity renews the certificate in the folder, which source reads, at half its life,
// until ctx is done. It connects to the node with dial, to show the certificate of before.
func KeepIdentity(ctx context.Context, dial func() (*grpc.ClientConn, error), source *transport.Source, dir string, logger *slog.Logger) {
	for wait := lookEvery; sleep(ctx, wait); {
		source.Look(ctx)
		if wait = lookEvery; !source.Due() {
			continue
		}
		if err := renewIdentity(ctx, dial, dir); err != nil {
			wait = retryIdentity
			logger.WarnContext(ctx, "the agent's certificate could not be renewed", "expires", source.Leaf().NotAfter, "err", err)
		}
	}
}

func renewIdentity(ctx context.Context, dial func() (*grpc.ClientConn, error), dir string) error {
	const op = "meshclient.KeepIdentity"
	key, csr, err := transport.Request()
	if err != nil {
		return mesh.Wrap(op, err)
	}
	node, err := dial()
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer func() { _ = node.Close() }()
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	res, err := meshv1.NewIdentityServiceClient(node).RenewCertificate(ctx, &meshv1.RenewCertificateRequest{Csr: csr})
	if err != nil {
		return failed(op, err)
	}
	return transport.SaveIdentity(dir, key, res.GetCertificate().GetLeaf(), res.GetCertificate().GetCa())
}
