package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/transport"
)

// agentsInviteCommand makes tokens with which agents get certificates.
func (a *app) agentsInviteCommand() *cobra.Command {
	var req meshv1.InviteAgentRequest
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "invite NAME",
		Short: "Invite an agent to get a certificate, by a token that is good once",
		Long: `invite makes a token with which an agent of the tenant, in a process of its own, gets
a certificate: 'mesh agent join TOKEN'. By that it proves who it is, and is called over TLS.
The mesh must have TLS. It takes the role tenant-admin or operator.

Whoever joined under the name before gets no further certificate.`,
		Example: `  mesh agents invite worker-2
  mesh agents invite translate --host translate.internal --valid 24h`,
		Args: exactly("the agent's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			req.Name = args[0]
			if valid != 0 {
				req.Valid = durationpb.New(valid)
			}
			res, err := meshv1.NewIdentityServiceClient(c.conn).InviteAgent(c.call(ctx, ""), &req)
			if err != nil {
				return err
			}
			a.printf("%s\n", oneLine(res.GetToken()))
			a.notef("It is good once, until %s. Where the agent runs: mesh agent join TOKEN --addr %s --ca ca.pem\n",
				res.GetExpires().AsTime().Local().Format(time.DateTime), a.secured(a.flags.addr))
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&req.Hosts, "host", nil, "host `name` or address at which the agent serves (default this machine)")
	cmd.Flags().DurationVar(&valid, "valid", 0, "`time` for which the token is good (default 1h)")
	return cmd
}

// agentsRevokeCommand ends the certificates of an agent: it is a user by them.
func (a *app) agentsRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Have the certificates of an agent not count any more",
		Long: `revoke ends what an agent of the tenant may do with the certificates that it has until
now: within seconds its streams end, and it neither registers nor renews any more. To let it
back in, invite it again. It takes the role tenant-admin or operator.`,
		Example: `  mesh agents revoke worker-2`,
		Args:    exactly("the agent's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			if _, err := c.access.RevokeUser(c.call(ctx, ""), &meshv1.RevokeUserRequest{UserId: auth.AgentUser(args[0])}); err != nil {
				return err
			}
			a.printf("certificates of %s do not count any more\n", oneLine(args[0]))
			return nil
		}),
	}
}

// agentJoinCommand gets an agent's first certificate.
func (a *app) agentJoinCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "Get a certificate for an agent that was invited",
		Long: `join gets an agent's certificate with the token of 'mesh agents invite', and keeps it,
with its key, in the folder --identity. 'mesh agent run NAME --identity FOLDER' serves and
calls with it, and renews it every half day. A certificate that is older than a day is lost:
the agent has to be invited again.`,
		Example: `  mesh agent join acme/worker-2/4ZN... --addr grpcs://mesh.example.com:7420 --ca ca.pem`,
		Args:    exactly("the token"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			who, err := meshclient.Join(ctx, c.conn, args[0], dir)
			if err != nil {
				return err
			}
			a.printf("%s of tenant %s has a certificate, in %s\n", who.Name, who.Tenant, dir)
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "identity", defaultIdentity, "`folder` for the certificate and its key")
	return cmd
}

// defaultIdentity is where a certificate is kept.
const defaultIdentity = "agent-identity"

// identity returns the source of the certificate in the folder that o names, nil for none,
// and has the mesh called with it. The agent's name is by default that in it.
func (a *app) identity(o *agentRun, dial *rpc.DialOptions, addr *string) (*transport.Source, error) {
	if o.identity == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	source, err := transport.New(transport.Identity(o.identity))
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, "mesh.agent", "%s; get a certificate with 'mesh agent join'", mesh.DetailOf(err))
	}
	dial.TLS = source.Client
	if at, secure := mesh.Endpoint(*addr); !secure {
		*addr = mesh.SecureScheme + at
	}
	for _, id := range source.Leaf().URIs {
		if who, ok := mesh.AgentOf(id.Host, id); ok {
			o.name = orText(o.name, who.Name)
		}
	}
	return source, nil
}
