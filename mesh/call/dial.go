package call

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2agrpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/credentials"
)

// connectTime bounds the wait for a gRPC connection when the card names
// another interface to try.
const connectTime = 3 * time.Second

// Conns hands out warm gRPC connections: a *rpc.Pool. One that also has its GetAs can
// show certificates.
type Conns interface {
	Get(target string) (*grpc.ClientConn, error)
}

// Options say how agents can be reached.
type Options struct {
	// HTTP carries calls to agents that the operator registered, over JSON-RPC
	// and HTTP+JSON; Guarded those to agents of tenants, who choose the
	// addresses. Interfaces whose carrier is missing are not used. Both stay
	// their owner's, who closes idle connections.
	HTTP, Guarded http.RoundTripper
	// GuardedConns are the gRPC connections to agents of tenants, made by a
	// dialer that refuses addresses, such as that of package egress. The default are those
	// of all other agents, which refuse nothing.
	GuardedConns Conns
	// Check refuses addresses of agents of tenants, as "host:port",
	// "grpcs://host:port" and URLs: interfaces there are not used. The default refuses
	// none.
	Check func(address string) error
	// PlaintextGrants lets grants travel unencrypted beyond this machine over HTTP, and
	// agents' credentials; grants over gRPC the connections say so.
	PlaintextGrants bool
	// Credentials returns what a tenant's agent of that name, or the operator's for "", is
	// called with. The default is nothing for all.
	Credentials func(tenant mesh.TenantID, agent string) *credentials.Set
	// Certified returns HTTP, or Guarded, with connections that show the certificate. The
	// default can show none.
	Certified func(cert *tls.Certificate, guarded bool) http.RoundTripper
	// Local returns what serves the operator's agents at an address if that is in this
	// process: it is called without the network. Nil, also as a result, for none.
	Local func(address string) rpc.Conn
	// Deviation, if it is set, is told in a clause how an agent's answer over HTTP is not as
	// A2A has it and was understood all the same. Answers are read twice then: it is for
	// tests of agents.
	Deviation func(clause string)
	// Down, if it is set, is told of processes that cannot be reached, of agents that have
	// several: the target is of the process alone. It must not block.
	Down func(t Target, err error)
	// Interfaces say how agents are called whose cards say it wrong, by their names.
	Interfaces map[string]Interface
}

// An Interface is the binding and the version of A2A by which an agent is called, whatever
// its card says. What is empty, the card says.
type Interface struct {
	// Binding is GRPC, JSONRPC or HTTP+JSON: interfaces of others are not used.
	Binding string
	// Version is 0.3 or 1.0: every interface is taken to speak it.
	Version string
}

// Validate returns an error that is Invalid, about the field protocol_binding or
// protocol_version.
func (i Interface) Validate() error {
	const op = "call.Interface"
	if !slices.Contains([]string{"", "GRPC", "JSONRPC", "HTTP+JSON"}, i.Binding) {
		return mesh.InvalidField(op, "protocol_binding", "must be GRPC, JSONRPC or HTTP+JSON, and is %q", i.Binding)
	}
	if !slices.Contains([]string{"", "0.3", "1.0"}, i.Version) {
		return mesh.InvalidField(op, "protocol_version", `must be "0.3" or "1.0", in quotes, and is %q`, i.Version)
	}
	return nil
}

// A Dialer makes clients of agents by what their cards say. It may be used
// concurrently and starts nothing. All that it keeps is how many of its calls are open, and
// where, of agents that have several processes.
type Dialer struct {
	conns Conns
	opts  Options
	loads loads
}

// NewDialer returns a Dialer over the connections.
func NewDialer(conns Conns, opts Options) *Dialer { return &Dialer{conns: conns, opts: opts} }

// A Target is an agent as it was registered.
type Target struct {
	Name string // in the registry, which has its credentials by it
	Card *a2apb.AgentCard
	// Endpoint is where it was registered: the address of an interface of the
	// card, or a host:port that serves A2A v1.0 over gRPC in its place.
	Endpoint string
	// Tenant owns the agent; "" for the operator.
	Tenant mesh.TenantID
	// Instances are the processes of an agent that may have several. Card then says what all
	// of them are, and where they are called they say themselves.
	Instances []Instance
	// At is the ID of the instance that has the execution which it is called for, as far as
	// that is known.
	At string
}

// Dial returns a client of the agent. It connects to nothing yet: a call goes
// to the first interface in the card's order that can be connected to, and
// later calls of the client too. Of an agent that may have several processes the client is for one
// execution, which stays with the process that has it. It returns Unavailable for an agent without
// an interface that this Dialer can use.
func (d *Dialer) Dial(t Target) (Client, error) {
	const op = "call.Dial"
	if len(t.Instances) > 0 {
		return d.spread(t)
	}
	if !slices.ContainsFunc(t.Card.GetSupportedInterfaces(), func(in *a2apb.AgentInterface) bool { return address(in) == t.Endpoint }) {
		if err := d.check(t, t.Endpoint); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		r, err := d.overGRPC(t, t.Endpoint, "", false)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		return discreet{r.client}, nil
	}
	var routes []route
	for _, in := range d.interfaces(t) {
		r, err := d.route(t, in)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if r.client != nil {
			routes = append(routes, r)
		}
	}
	if slices.ContainsFunc(routes, func(r route) bool { return !r.exposed }) {
		routes = slices.DeleteFunc(routes, func(r route) bool { return r.exposed })
	}
	switch len(routes) {
	case 0:
		return nil, mesh.Errorf(mesh.Unavailable, op, "None of the agent's interfaces can be used from here; "+
			"it must offer A2A 1.0 or 0.3 over GRPC, JSONRPC or HTTP+JSON")
	case 1:
		return discreet{routes[0].client}, nil
	}
	return discreet{&fallback{routes: routes}}, nil
}

// interfaces are those by which the agent is called.
func (d *Dialer) interfaces(t Target) (all []*a2apb.AgentInterface) {
	want := d.opts.Interfaces[t.Name]
	for _, in := range t.Card.GetSupportedInterfaces() {
		if want.Binding != "" && !strings.EqualFold(want.Binding, in.GetProtocolBinding()) {
			continue
		}
		if want.Version != "" {
			in = proto.CloneOf(in)
			in.ProtocolVersion = want.Version
		}
		all = append(all, in)
	}
	return all
}

// check refuses an address that a tenant's agent must not have.
func (d *Dialer) check(t Target, address string) error {
	if t.Tenant == "" || d.opts.Check == nil {
		return nil
	}
	return d.opts.Check(address)
}

// conn returns the gRPC connection to an address of the agent, which shows the certificate
// unless that is nil.
func (d *Dialer) conn(t Target, address string, cert *tls.Certificate) (*grpc.ClientConn, error) {
	conns := d.conns
	if t.Tenant != "" && d.opts.GuardedConns != nil {
		conns = d.opts.GuardedConns
	}
	if cert == nil {
		return conns.Get(address)
	}
	certified, ok := conns.(interface {
		GetAs(target string, cert *tls.Certificate) (*grpc.ClientConn, error)
	})
	if !ok {
		return nil, mesh.Errorf(mesh.Unavailable, "call.Dial", "the agent wants a certificate, which cannot be shown from here")
	}
	return certified.GetAs(address, cert)
}

// carrier returns what carries HTTP to the agent; nil if nothing does.
func (d *Dialer) carrier(t Target, cert *tls.Certificate) http.RoundTripper {
	if cert != nil && d.opts.Certified != nil {
		return d.opts.Certified(cert, t.Tenant != "")
	}
	if t.Tenant != "" {
		return d.opts.Guarded
	}
	return d.opts.HTTP
}

// sender returns what the agent is sent at the address beside calls; nil for nothing.
func (d *Dialer) sender(t Target, address string) *credentials.Sender {
	if d.opts.Credentials == nil {
		return nil
	}
	return d.opts.Credentials(t.Tenant, t.Name).Sender(t.Card, address,
		credentials.Via{Tokens: d.carrier(t, nil), Plaintext: d.opts.PlaintextGrants})
}

// nearest returns what calls the address without the network, if that can be, or else
// the connection.
func (d *Dialer) nearest(t Target, address string, conn *grpc.ClientConn) grpc.ClientConnInterface {
	if t.Tenant == "" && d.opts.Local != nil {
		if here := d.opts.Local(address); here != nil {
			return rpc.Local(here, conn)
		}
	}
	return conn
}

// A route is a client of one interface; a zero one is of one that cannot be
// used. ready, if it is set, waits until the interface is connected. One that is exposed
// cannot be sent what the agent wants.
type route struct {
	client  Client
	ready   func(context.Context) error
	exposed bool
}

// route makes a client of the interface.
func (d *Dialer) route(t Target, in *a2apb.AgentInterface) (route, error) {
	v := in.GetProtocolVersion()
	old := v == "0.3" || strings.HasPrefix(v, "0.3.")
	at := address(in)
	refused := d.check(t, at)
	if at == "" || refused != nil || !old && v != "" && v != "1" && !strings.HasPrefix(v, "1.") {
		return route{}, nil //nolint:nilerr // another interface may do
	}
	binding := strings.ToUpper(in.GetProtocolBinding())
	if binding == "GRPC" {
		return d.overGRPC(t, at, in.GetTenant(), old)
	}
	sender := d.sender(t, at)
	base := d.carrier(t, sender.Certificate())
	u, err := url.Parse(at)
	if base == nil || err != nil {
		return route{}, nil //nolint:nilerr // an interface that cannot be used is passed over
	}
	web := webClient{http: httpClient(base, d.opts.PlaintextGrants), at: u, jsonRPC: binding == "JSONRPC", tenant: in.GetTenant(), old: old, deviation: d.opts.Deviation}
	return route{client: authorized(web, sender), exposed: sender.Refused() != nil}, nil
}

// overGRPC makes a client of the gRPC server at the address.
func (d *Dialer) overGRPC(t Target, address, tenant string, old bool) (route, error) {
	sender := d.sender(t, address)
	conn, err := d.conn(t, address, sender.Certificate())
	if err != nil {
		return route{}, err
	}
	r := route{ready: func(ctx context.Context) error { return ready(ctx, conn) }, exposed: sender.Refused() != nil}
	switch {
	case old:
		r.client = sdkClient{a2agrpc0.NewGRPCTransportFromClient(legacypb.NewA2AServiceClient(sizing{carrying{conn}})), tenant}
	case sender != nil:
		r.client = overGRPC(carrying{conn}, tenant)
	default:
		r.client = overGRPC(d.nearest(t, address, conn), tenant)
	}
	r.client = authorized(r.client, sender)
	return r, nil
}

// address is where the interface is: a host:port for gRPC, behind mesh.SecureScheme if it
// is called over TLS, else a URL; "" if it cannot be used. It is as package registry has
// it.
func address(in *a2apb.AgentInterface) string {
	switch strings.ToUpper(in.GetProtocolBinding()) {
	case "GRPC":
		at, secure := mesh.Endpoint(in.GetUrl())
		if secure {
			return mesh.SecureScheme + at
		}
		if !strings.Contains(at, "://") {
			return at
		}
	case "JSONRPC", "HTTP+JSON":
		if scheme, _, _ := strings.Cut(strings.ToLower(in.GetUrl()), "://"); scheme == "http" || scheme == "https" {
			return in.GetUrl()
		}
	}
	return ""
}

// ready waits until the connection stands, and gives up when it cannot.
func ready(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for {
		s := conn.GetState()
		switch s {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return unconnected(nil)
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, s) {
			return unconnected(ctx.Err())
		}
	}
}
