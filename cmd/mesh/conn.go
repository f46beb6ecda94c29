package main

import (
	"context"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/transport"
)

// connectTimeout bounds how long a mesh may take to accept a connection.
const connectTimeout = 5 * time.Second

// maxAnswer bounds an answer, in bytes: twice what agents may say in a task by default.
const maxAnswer = 128 * mesh.MaxEvent

// A client is a connection to the mesh with the services that it offers.
type client struct {
	app       *app
	conn      *grpc.ClientConn
	a2a       a2apb.A2AServiceClient
	agents    meshv1.RegistryServiceClient
	threads   meshv1.ThreadServiceClient
	handoffs  meshv1.HandoffServiceClient
	execution meshv1.ExecutionServiceClient
	skills    meshv1.SkillServiceClient
	access    meshv1.AccessServiceClient
	audit     meshv1.AuditServiceClient
}

// connected calls do with a connection to the mesh, which it closes.
func (a *app) connected(ctx context.Context, args []string, do func(context.Context, *client, []string) error) error {
	dial, err := a.dialOptions(a.flags.addr)
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(a.secured(a.flags.addr), dial)
	if mesh.IsCode(err, mesh.Precondition) {
		return mesh.Errorf(mesh.Precondition, "mesh.connect", "%s with --plaintext-token", mesh.DetailOf(err))
	}
	if err != nil {
		return err
	}
	// Closing fails only for a connection that is closed already.
	defer func() { _ = conn.Close() }()
	c := &client{
		app: a, conn: conn,
		a2a:       a2apb.NewA2AServiceClient(conn),
		agents:    meshv1.NewRegistryServiceClient(conn),
		threads:   meshv1.NewThreadServiceClient(conn),
		handoffs:  meshv1.NewHandoffServiceClient(conn),
		execution: meshv1.NewExecutionServiceClient(conn),
		skills:    meshv1.NewSkillServiceClient(conn),
		access:    meshv1.NewAccessServiceClient(conn),
		audit:     meshv1.NewAuditServiceClient(conn),
	}
	if err := c.reach(ctx); err != nil {
		return err
	}
	return do(ctx, c, args)
}

// dialOptions are those of connections to the mesh at the address.
func (a *app) dialOptions(addr string) (rpc.DialOptions, error) {
	if (a.flags.cert == "") != (a.flags.key == "") {
		return rpc.DialOptions{}, mesh.InvalidField("mesh.connect", "--cert", "and --key belong together; give both or none")
	}
	source, err := transport.New(transport.Options{Cert: a.flags.cert, Key: a.flags.key, CA: a.flags.ca})
	if err != nil {
		return rpc.DialOptions{}, err
	}
	kept, err := a.keptToken(addr)
	return rpc.DialOptions{
		Bearer: a.flags.token, BearerSource: kept, AllowPlaintextBearer: a.flags.plaintext, AllowPlaintextGrant: a.flags.plaintext,
		Tenant: mesh.TenantID(a.flags.tenant), User: a.flags.user, TLS: source.Client, MaxMessage: maxAnswer,
	}, err
}

// secured is the address to dial: who names an authority wants TLS, unless the address
// says otherwise.
func (a *app) secured(addr string) string {
	if a.flags.ca != "" && !strings.Contains(addr, ":/") {
		return mesh.SecureScheme + addr
	}
	return addr
}

// reach waits until somebody answers, so that an address where nobody does is
// told apart from a mesh that cannot do something just now.
func (c *client) reach(ctx context.Context) error {
	switch {
	case answers(ctx, c.conn):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err := c.app.tlsFailed(ctx); err != nil { // it is there, and is not believed
		return err
	}
	return mesh.Errorf(mesh.Unavailable, "mesh.connect",
		"nobody answers at %s; start the mesh with 'mesh up' or name another address with --addr", c.app.flags.addr)
}

// answers waits until somebody answers, and reports whether that was in time.
func answers(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// call returns ctx for a call about the thread, or about none for "".
func (c *client) call(ctx context.Context, thread string) context.Context {
	return mesh.WithCall(ctx, c.identity(thread))
}

// addressed returns ctx for a call about the thread that is for the agent, or
// for main with "".
func (c *client) addressed(ctx context.Context, thread, agent string) context.Context {
	call := c.identity(thread)
	call.Agent = agent
	return mesh.WithCall(ctx, call)
}

// after returns ctx for a call that goes on after seq.
func (c *client) after(ctx context.Context, thread string, seq mesh.Seq) context.Context {
	call := c.identity(thread)
	call.AfterSeq, call.HasCursor = seq, true
	return mesh.WithCall(ctx, call)
}

// identity is a call about the thread; the connection adds who calls. Our
// extension is activated only where there is a thread: the mesh insists on one
// then.
func (c *client) identity(thread string) mesh.Call {
	call := mesh.Call{Thread: thread, Version: "1.0"}
	if thread != "" {
		call.Extensions = []string{mesh.ExtensionURI}
	}
	return call
}
