package agent_test

import (
	"cmp"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/api/apitest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/mesh/threadlog/eventpb"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// node is a small node: one thread, a registry of leases, skills and state, in
// memory, behind real gRPC with real grants.
type node struct {
	meshv1.UnimplementedThreadServiceServer
	meshv1.UnimplementedSkillServiceServer
	meshv1.UnimplementedStateServiceServer
	meshv1.UnimplementedRegistryServiceServer
	meshv1.UnimplementedHandoffServiceServer

	signer *grant.Signer
	values skilltest.State

	mu      sync.Mutex
	events  []*meshv1.Event
	ids     map[string]bool
	fail    int  // appends that are answered with Unavailable
	applied bool // which are applied nevertheless
	skills  *skill.Catalog
	refuse  func(*meshv1.Event) error // what the node does not add, or nil
	leases  map[string]string         // agent -> lease
	agents  map[string]*meshv1.Agent
	renewed int
	reads   int              // of the thread
	page    int              // most events on a page; 3 if it is 0
	watch   func(events int) // is told how many events a read got, or nil
	changed chan struct{}    // gets a value, if there is room, when the registry changes
}

func newNode(t testing.TB) *node {
	t.Helper()
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return &node{
		signer: signer, ids: map[string]bool{}, skills: new(skill.Catalog),
		leases: map[string]string{}, agents: map[string]*meshv1.Agent{}, changed: make(chan struct{}, 64),
	}
}

func (n *node) verifier(t testing.TB) *grant.Verifier {
	t.Helper()
	v, err := grant.NewVerifier(n.signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// serve serves the node on l, or on a new port, until stop.
func (n *node) serve(t testing.TB, l net.Listener) (addr string, stop func()) {
	t.Helper()
	if l == nil {
		l = listener(t, "127.0.0.1:0")
	}
	srv := rpc.NewServer(rpc.Options{Auth: auth.None(n.verifier(t))})
	meshv1.RegisterThreadServiceServer(srv, n)
	meshv1.RegisterSkillServiceServer(srv, n)
	meshv1.RegisterStateServiceServer(srv, n)
	meshv1.RegisterRegistryServiceServer(srv, n)
	meshv1.RegisterHandoffServiceServer(srv, n)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	stop = sync.OnceFunc(func() { srv.Stop(); serving.Wait() })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func listener(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(addr, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call returns the identity of a caller under the grant.
func (n *node) call(g *mesh.Grant) mesh.Call {
	return mesh.Call{
		Principal: mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}, GrantToken: n.signer.Issue(*g),
		Thread: g.Thread, Execution: g.Execution, Extensions: []string{mesh.ExtensionURI},
	}
}

// mesh returns what an execution under the grant sees of a served node.
func (n *node) mesh(t testing.TB, g *mesh.Grant) *meshclient.Client {
	t.Helper()
	addr, _ := n.serve(t, nil)
	m, err := meshclient.New(dial(t, addr), n.call(g))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// log adds events to the thread.
func (n *node) log(events ...*mesh.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range events {
		p := eventpb.EventToProto(e)
		p.Seq = int64(len(n.events) + 1)
		n.events = append(n.events, p)
	}
}

// bodies returns the bodies of the events that the execution recorded.
func (n *node) bodies(t *testing.T, id mesh.ExecutionID) []mesh.Body {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []mesh.Body
	for _, p := range n.events {
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			t.Fatal(err)
		}
		if e.Execution == id {
			out = append(out, e.Body)
		}
	}
	return out
}

func granted(ctx context.Context, threadID string) (*mesh.Grant, error) {
	call, _ := mesh.CallFrom(ctx)
	g := call.Principal.Grant
	if g == nil || g.Thread != threadID || call.Thread != threadID {
		return nil, mesh.ThreadNotFound("node")
	}
	return g, nil
}

func (n *node) AppendEvents(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	down := n.fail > 0
	if down {
		n.fail--
	}
	if down && !n.applied {
		return nil, mesh.Errorf(mesh.Unavailable, "node", "the store is away")
	}
	res := &meshv1.AppendEventsResponse{Grants: map[string]string{}}
	for _, e := range req.GetEvents() {
		if e.GetExecutionId() != string(g.Execution) || e.GetId() == "" {
			return nil, mesh.Errorf(mesh.Denied, "node", "not this execution's event")
		}
		if d := e.GetDispatchIssued(); d != nil {
			res.Grants[d.GetChild().GetId()] = "grant for " + d.GetChild().GetAgent()
		}
		if n.ids[e.GetId()] {
			continue
		}
		if n.refuse != nil {
			if err := n.refuse(e); err != nil {
				return nil, err
			}
		}
		n.ids[e.GetId()] = true
		e.Seq = int64(len(n.events) + 1)
		n.events = append(n.events, e)
	}
	if down {
		return nil, mesh.Errorf(mesh.Unavailable, "node", "the answer was lost")
	}
	return res, nil
}

func (n *node) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	if _, err := granted(ctx, req.GetThreadId()); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads++
	page := apitest.Page(n.events, req, cmp.Or(n.page, 3))
	if n.watch != nil {
		n.watch(len(page.GetEvents()))
	}
	return page, nil
}

func (n *node) GetState(ctx context.Context, req *meshv1.GetStateRequest) (*meshv1.GetStateResponse, error) {
	data, version, err := n.values.Get(ctx, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	return &meshv1.GetStateResponse{Value: &meshv1.Value{Key: req.GetKey(), Data: data, Version: version}}, nil
}

func (n *node) PutState(ctx context.Context, req *meshv1.PutStateRequest) (*meshv1.PutStateResponse, error) {
	version, err := n.values.Put(ctx, req.GetKind(), req.GetKey(), req.GetData(), req.GetVersion())
	return &meshv1.PutStateResponse{Version: version}, err
}

func (n *node) DeleteState(ctx context.Context, req *meshv1.DeleteStateRequest) (*meshv1.DeleteStateResponse, error) {
	return &meshv1.DeleteStateResponse{}, n.values.Delete(ctx, req.GetKind(), req.GetKey(), req.GetVersion())
}

func (n *node) ListState(ctx context.Context, req *meshv1.ListStateRequest) (*meshv1.ListStateResponse, error) {
	items, err := n.values.List(ctx, req.GetKind(), req.GetPrefix(), req.GetAfter(), int(req.GetLimit()))
	res := &meshv1.ListStateResponse{}
	for _, i := range items {
		res.Values = append(res.Values, &meshv1.Value{Key: i.Key, Data: i.Data, Version: i.Version})
	}
	return res, err
}

func (n *node) RegisterAgent(_ context.Context, req *meshv1.RegisterAgentRequest) (*meshv1.RegisterAgentResponse, error) {
	conn, err := net.DialTimeout("tcp", req.GetEndpoint(), time.Second)
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, "node", "The agent does not answer at %s", req.GetEndpoint())
	}
	_ = conn.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	name := req.GetName()
	if n.leases[name] != "" {
		return nil, mesh.Errorf(mesh.Precondition, "node", "The name %s is taken", name)
	}
	n.leases[name] = mesh.NewEventID()
	n.agents[name] = &meshv1.Agent{Name: name, Card: req.GetCard(), Endpoint: req.GetEndpoint(), Live: true}
	n.notify()
	return &meshv1.RegisterAgentResponse{
		Agent: n.agents[name], LeaseId: n.leases[name], Lease: durationpb.New(time.Second), GrantKey: n.signer.Public(),
	}, nil
}

func (n *node) KeepAlive(stream grpc.BidiStreamingServer[meshv1.KeepAliveRequest, meshv1.KeepAliveResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		n.mu.Lock()
		ok := n.leases[req.GetName()] == req.GetLeaseId()
		n.renewed++
		n.notify()
		n.mu.Unlock()
		if !ok {
			return mesh.Errorf(mesh.NotFound, "node", "The lease is not known")
		}
		if err := stream.Send(&meshv1.KeepAliveResponse{}); err != nil {
			return err
		}
	}
}

func (n *node) DeregisterAgent(_ context.Context, req *meshv1.DeregisterAgentRequest) (*meshv1.DeregisterAgentResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leases[req.GetName()] != req.GetLeaseId() {
		return nil, mesh.Errorf(mesh.NotFound, "node", "The lease is not known")
	}
	delete(n.leases, req.GetName())
	delete(n.agents, req.GetName())
	n.notify()
	return &meshv1.DeregisterAgentResponse{}, nil
}

func (n *node) ListAgents(context.Context, *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	res := &meshv1.ListAgentsResponse{}
	for _, a := range n.agents {
		res.Agents = append(res.Agents, a)
	}
	return res, nil
}

func (n *node) notify() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// await waits until the registry is as cond says.
func (n *node) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute) // for what would never happen
	for {
		n.mu.Lock()
		ok := cond()
		n.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-n.changed:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (n *node) StartHandoff(ctx context.Context, req *meshv1.StartHandoffRequest) (*meshv1.StartHandoffResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	return &meshv1.StartHandoffResponse{Handoff: &meshv1.Handoff{SourceAgentId: g.Agent, TargetAgentId: req.GetTargetAgent(), State: "active"}}, nil
}

func (n *node) EndHandoff(ctx context.Context, req *meshv1.EndHandoffRequest) (*meshv1.EndHandoffResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	return &meshv1.EndHandoffResponse{Handoff: &meshv1.Handoff{TargetAgentId: g.Agent, State: "completed", ResultSummary: req.GetSummary()}}, nil
}
