package agenttest

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
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/mesh/threadlog/eventpb"

	"google.golang.org/grpc"
)

// Node is a small node: one thread, a registry of leases, skills and state, in
// memory, behind real gRPC with real grants.
type Node struct {
	meshv1.UnimplementedThreadServiceServer
	meshv1.UnimplementedSkillServiceServer
	meshv1.UnimplementedStateServiceServer
	meshv1.UnimplementedRegistryServiceServer
	meshv1.UnimplementedHandoffServiceServer
	meshv1.UnimplementedGrantServiceServer

	signer *grant.Signer
	Values skilltest.State

	Mu      sync.Mutex
	Events  []*meshv1.Event
	ids     map[string]bool
	Fail    int  // appends that are answered with Unavailable
	Busy    int  // registrations that are to be sent again in a moment
	Applied bool // which are applied nevertheless
	Skills  *skill.Catalog
	Refuse  func(*meshv1.Event) error                             // what the node does not add, or nil
	Faults  func(source string, create bool) *meshv1.SkillProblem // of skill files beside the usual, or nil
	Leases  map[string]string                                     // agent -> lease
	Agents  map[string]*meshv1.Agent
	Renewed int
	Redeem  func(mesh.Call) error // refuses tickets, or nil
	Reads   int                   // of the thread
	appends int
	handoff *meshv1.Handoff  // the last one, or nil
	Page    int              // most events on a page; 3 if it is 0
	Watch   func(events int) // is told how many events a read got, or nil
	changed chan struct{}    // gets a value, if there is room, when the registry changes
}

// NewNode returns a node that is not served yet.
func NewNode(t testing.TB) *Node {
	t.Helper()
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return &Node{
		signer: signer, ids: map[string]bool{}, Skills: new(skill.Catalog),
		Leases: map[string]string{}, Agents: map[string]*meshv1.Agent{}, changed: make(chan struct{}, 64),
	}
}

// Verifier checks grants of the node.
func (n *Node) Verifier(t testing.TB) *grant.Verifier {
	t.Helper()
	v, err := grant.NewVerifier(n.signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Serve serves the node on l, or on a new port, until stop.
func (n *Node) Serve(t testing.TB, l net.Listener) (addr string, stop func()) {
	t.Helper()
	if l == nil {
		l = rpctest.Listen(t)
	}
	srv := rpc.NewServer(rpc.Options{Auth: auth.None(n.Verifier(t))})
	meshv1.RegisterThreadServiceServer(srv, n)
	meshv1.RegisterSkillServiceServer(srv, n)
	meshv1.RegisterStateServiceServer(srv, n)
	meshv1.RegisterRegistryServiceServer(srv, n)
	meshv1.RegisterHandoffServiceServer(srv, n)
	meshv1.RegisterGrantServiceServer(srv, n)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	stop = sync.OnceFunc(func() { srv.Stop(); serving.Wait() })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// Dial connects to the address until the test ends.
func Dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(addr, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// RedeemTicket implements the RPC.
func (n *Node) RedeemTicket(ctx context.Context, _ *meshv1.RedeemTicketRequest) (*meshv1.RedeemTicketResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	if n.Redeem != nil {
		if err := n.Redeem(call); err != nil {
			return nil, err
		}
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return &meshv1.RedeemTicketResponse{Grant: n.signer.Issue(*call.Principal.Grant), Instructions: n.instructions(call.Principal.Grant)}, nil
}

// IssueTicket implements the RPC.
func (n *Node) IssueTicket(_ context.Context, req *meshv1.IssueTicketRequest) (*meshv1.IssueTicketResponse, error) {
	return &meshv1.IssueTicketResponse{Ticket: "another ticket for " + req.GetExecutionId()}, nil
}

// Call returns the identity of a caller with a ticket for the grant, of an agent, and
// under the grant, of the node.
func (n *Node) Call(g *mesh.Grant) mesh.Call {
	return mesh.Call{
		Principal:   mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g},
		TicketToken: n.signer.Ticket(*g, time.Now()), GrantToken: n.signer.Issue(*g),
		Thread: g.Thread, Execution: g.Execution, Extensions: []string{mesh.ExtensionURI},
	}
}

// Client returns what an execution under the grant sees of a served node.
func (n *Node) Client(t testing.TB, g *mesh.Grant) *meshclient.Client {
	t.Helper()
	addr, _ := n.Serve(t, nil)
	conn := Dial(t, addr)
	call, told, err := meshclient.Redeem(t.Context(), conn, n.Call(g), func() string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	m, err := meshclient.New(conn, call)
	if err != nil {
		t.Fatal(err)
	}
	return m.Waiting(told)
}

// Log adds events to the thread.
func (n *Node) Log(events ...*mesh.Event) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	for _, e := range events {
		p := eventpb.EventToProto(e)
		p.Seq = int64(len(n.Events) + 1)
		n.Events = append(n.Events, p)
	}
}

// Bodies returns the bodies of the events that the execution recorded.
func (n *Node) Bodies(t *testing.T, id mesh.ExecutionID) []mesh.Body {
	t.Helper()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	var out []mesh.Body
	for _, p := range n.Events {
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

// Appended returns how many requests to append there were.
func (n *Node) Appended() int {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.appends
}

func granted(ctx context.Context, threadID string) (*mesh.Grant, error) {
	call, _ := mesh.CallFrom(ctx)
	g := call.Principal.Grant
	if g == nil || g.Thread != threadID || call.Thread != threadID {
		return nil, mesh.ThreadNotFound("node")
	}
	return g, nil
}

// AppendEvents implements the RPC.
func (n *Node) AppendEvents(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.appends++
	down := n.Fail > 0
	if down {
		n.Fail--
	}
	if down && !n.Applied {
		return nil, mesh.Errorf(mesh.Unavailable, "node", "the store is away")
	}
	res := &meshv1.AppendEventsResponse{Tickets: map[string]string{}, Contexts: map[string]string{}}
	for _, e := range req.GetEvents() {
		if e.GetExecutionId() != string(g.Execution) || e.GetId() == "" {
			return nil, mesh.Errorf(mesh.Denied, "node", "not this execution's event")
		}
		if d := e.GetDispatchIssued(); d != nil {
			res.Tickets[d.GetChild().GetId()] = "ticket for " + d.GetChild().GetAgent()
			res.Contexts[d.GetChild().GetId()] = "context of " + d.GetChild().GetAgent()
		}
		if c := e.GetSkillCalled(); c != nil && n.notMade(g, c) {
			c.NotMade, res.NotMade = true, append(res.NotMade, c.GetCall())
		} else if c != nil {
			if res.Permits == nil {
				res.Permits = map[string]string{}
			}
			res.Permits[c.GetCall()] = n.signer.Permit(grant.Claims{Holder: g.Holder, Agent: g.Agent, Execution: g.Execution, Call: c.GetCall(), Skill: c.GetSkill(),
				Version: c.GetVersion(), What: mesh.CallDigest(c.GetSkill(), c.GetVersion(), c.GetArgs()), Expires: time.Now().Add(grant.PermitTime).Unix()}, true)
		}
		if n.ids[e.GetId()] {
			continue
		}
		if n.Refuse != nil {
			if err := n.Refuse(e); err != nil {
				return nil, err
			}
		}
		n.ids[e.GetId()] = true
		e.Seq = int64(len(n.Events) + 1)
		n.Events = append(n.Events, e)
	}
	if down {
		return nil, mesh.Errorf(mesh.Unavailable, "node", "the answer was lost")
	}
	res.Instructions = n.instructions(g)
	return res, nil
}

// notMade reports whether the call has an effect in an execution that may have none.
func (n *Node) notMade(g *mesh.Grant, c *meshv1.SkillCalled) bool {
	s, ok := n.Skills.Get(c.GetSkill())
	return g.Dry && (!ok || s.HasEffects())
}

// instructions is how many the grant's execution has not read. n.Mu is held.
func (n *Node) instructions(g *mesh.Grant) (unread int32) {
	for _, e := range n.Events {
		if b := e.GetInstructionPosted(); b != nil && e.GetExecutionId() == string(g.Execution) {
			if unread++; b.GetRead() {
				unread -= 2
			}
		}
	}
	return unread
}

// ReadThread implements the RPC.
func (n *Node) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	if _, err := granted(ctx, req.GetThreadId()); err != nil {
		return nil, err
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Reads++
	page := apitest.Page(n.Events, req, cmp.Or(n.Page, 3))
	if n.Watch != nil {
		n.Watch(len(page.GetEvents()))
	}
	return page, nil
}

// GetState implements the RPC.
func (n *Node) GetState(ctx context.Context, req *meshv1.GetStateRequest) (*meshv1.GetStateResponse, error) {
	data, version, err := n.Values.Get(ctx, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	return &meshv1.GetStateResponse{Value: &meshv1.Value{Key: req.GetKey(), Data: data, Version: version}}, nil
}

// PutState implements the RPC.
func (n *Node) PutState(ctx context.Context, req *meshv1.PutStateRequest) (*meshv1.PutStateResponse, error) {
	version, err := n.Values.Put(ctx, req.GetKind(), req.GetKey(), req.GetData(), req.GetVersion())
	return &meshv1.PutStateResponse{Version: version}, err
}

// DeleteState implements the RPC.
func (n *Node) DeleteState(ctx context.Context, req *meshv1.DeleteStateRequest) (*meshv1.DeleteStateResponse, error) {
	return &meshv1.DeleteStateResponse{}, n.Values.Delete(ctx, req.GetKind(), req.GetKey(), req.GetVersion())
}

// ListState implements the RPC.
func (n *Node) ListState(ctx context.Context, req *meshv1.ListStateRequest) (*meshv1.ListStateResponse, error) {
	items, err := n.Values.List(ctx, req.GetKind(), req.GetPrefix(), req.GetAfter(), int(req.GetLimit()))
	res := &meshv1.ListStateResponse{}
	for _, i := range items {
		res.Values = append(res.Values, &meshv1.Value{Key: i.Key, Data: i.Data, Version: i.Version})
	}
	return res, err
}

func (n *Node) notify() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Await waits until the registry is as cond says.
func (n *Node) Await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute) // for what would never happen
	for {
		n.Mu.Lock()
		ok := cond()
		n.Mu.Unlock()
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

// StartHandoff implements the RPC.
func (n *Node) StartHandoff(ctx context.Context, req *meshv1.StartHandoffRequest) (*meshv1.StartHandoffResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	h := &meshv1.Handoff{Seq: 1, SourceAgentId: g.Agent, TargetAgentId: req.GetTargetAgent(), State: "active"}
	n.hand(h)
	return &meshv1.StartHandoffResponse{Handoff: h}, nil
}

// hand has h be the last handoff.
func (n *Node) hand(h *meshv1.Handoff) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.handoff = h
}

// GetHandoff implements the RPC.
func (n *Node) GetHandoff(ctx context.Context, req *meshv1.GetHandoffRequest) (*meshv1.GetHandoffResponse, error) {
	if _, err := granted(ctx, req.GetThreadId()); err != nil {
		return nil, err
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return &meshv1.GetHandoffResponse{Handoff: n.handoff}, nil
}

// EndHandoff implements the RPC.
func (n *Node) EndHandoff(ctx context.Context, req *meshv1.EndHandoffRequest) (*meshv1.EndHandoffResponse, error) {
	g, err := granted(ctx, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	h := &meshv1.Handoff{Seq: 1, EndedSeq: 2, TargetAgentId: g.Agent, State: "completed", ResultSummary: req.GetSummary()}
	n.hand(h)
	return &meshv1.EndHandoffResponse{Handoff: h}, nil
}
