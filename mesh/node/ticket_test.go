package node_test

import (
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A thief is an agent that knows our extension and does with its ticket what it likes,
// before it answers and after that.
type thief struct {
	a2apb.UnimplementedA2AServiceServer
	try func(md metadata.MD)
	had metadata.MD
}

func (a *thief) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	a.had, _ = metadata.FromIncomingContext(stream.Context())
	a.try(a.had)
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: one(a.had, "execution-id"), ContextId: one(a.had, "thread-id"), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}}}})
}

// finding T2: what an agent is called with is good for that agent alone, at the node alone,
// and until its work is over: neither the ticket nor the grant helps anybody who has it.
func TestATicketIsOfNoUseToOthers(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo, "builder": builder})
	conn := m.raw(t)
	call := func(method string, req, res any, pairs ...string) error {
		return rpc.FromStatus(conn.Invoke(metadata.NewOutgoingContext(plain(t), metadata.Pairs(pairs...)), method, req, res))
	}
	redeem := func(pairs ...string) (string, error) {
		res := new(meshv1.RedeemTicketResponse)
		err := call(meshv1.GrantService_RedeemTicket_FullMethodName, &meshv1.RedeemTicketRequest{}, res, pairs...)
		return res.GetGrant(), err
	}
	read := func(thread string, pairs ...string) error {
		return call(meshv1.ThreadService_ReadThread_FullMethodName, &meshv1.ReadThreadRequest{ThreadId: thread}, new(meshv1.ReadThreadResponse), pairs...)
	}
	refused := func(what string, err error, codes ...mesh.Code) {
		t.Helper()
		if !slices.Contains(codes, mesh.CodeOf(err)) || err == nil || mesh.DetailOf(err) == "" {
			t.Errorf("%s: %v, want %v", what, err, codes)
		}
	}
	var grant, secret, other string
	a := &thief{try: func(md metadata.MD) {
		ticket, thread := one(md, "mesh-ticket"), one(md, "thread-id")
		if md["mesh-grant"] != nil || md["mesh-holder"] != nil {
			t.Errorf("it was called with %v", md)
		}
		var err error
		if grant, err = redeem("mesh-ticket", ticket, "mesh-holder", secret); err != nil {
			t.Fatalf("its own: %v", err)
		}
		if again, err := redeem("mesh-ticket", ticket, "mesh-holder", secret); err != nil || again != grant {
			t.Errorf("after a lost answer it has another grant, or none: %v", err)
		}
		for who, holder := range map[string][]string{"nobody": nil, "another agent": {"mesh-holder", other}, "a guess": {"mesh-holder", "x"}} {
			_, err := redeem(append([]string{"mesh-ticket", ticket}, holder...)...)
			refused("redeemed by "+who, err, mesh.Unauthenticated)
			refused("the grant with "+who, read(thread, append([]string{"mesh-grant", grant}, holder...)...), mesh.Unauthenticated)
		}
		mine := []string{"mesh-holder", secret}
		refused("a ticket reads", read(thread, append(mine, "mesh-ticket", ticket)...), mesh.Unauthenticated)
		refused("a ticket as a grant", read(thread, append(mine, "mesh-grant", ticket)...), mesh.Unauthenticated)
		refused("no ticket", func() error { _, err := redeem(mine...); return err }(), mesh.Unauthenticated)
		_, err = redeem(append(mine, "mesh-ticket", grant)...)
		refused("a grant as a ticket", err, mesh.Unauthenticated)
		_, err = redeem(append(mine, "mesh-ticket", strings.Replace(ticket, ".", ".A", 1))...)
		refused("a changed one", err, mesh.Unauthenticated)
		for _, x := range []string{one(md, "execution-id"), one(md, "parent-task-id"), "none"} {
			err = call(meshv1.GrantService_IssueTicket_FullMethodName, &meshv1.IssueTicketRequest{ExecutionId: x}, new(meshv1.IssueTicketResponse), append(mine, "mesh-grant", grant)...)
			refused("a ticket for "+x, err, mesh.NotFound)
		}
		refused("at another agent", replayed(t, m, "mesh-ticket", ticket), mesh.Denied)
		refused("the grant at another agent", replayed(t, m, "mesh-grant", grant), mesh.Unauthenticated)
		if err := read(thread, append(mine, "mesh-grant", grant)...); err != nil {
			t.Errorf("its own grant: %v", err)
		}
	}}
	secret, other = join(t, m, "thief", a, true), join(t, m, "victim", &tap{name: "victim"}, true)
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(metadata.NewOutgoingContext(plain(t), metadata.Pairs("agent", "thief")), say("go"))
	hear(t, stream, err)
	ticket, thread := one(a.had, "mesh-ticket"), one(a.had, "thread-id")
	_, err = redeem("mesh-ticket", ticket, "mesh-holder", secret)
	refused("redeemed when all is over", err, mesh.Precondition)
	refused("read when all is over", read(thread, "mesh-grant", grant, "mesh-holder", secret), mesh.Precondition)
	_, err = meshv1.NewRegistryServiceClient(m.conn).DeregisterAgent(in(t, mesh.NewThreadID()), &meshv1.DeregisterAgentRequest{Name: "thief"})
	if err != nil {
		t.Fatal(err)
	}
	for ctx := plain(t); mesh.CodeOf(err) != mesh.Unauthenticated && ctx.Err() == nil; { // the other node hears of it, too
		_, err = redeem("mesh-ticket", ticket, "mesh-holder", secret)
	}
	refused("redeemed by who was removed", err, mesh.Unauthenticated)
}

// replayed calls the builtin agent builder, where that is, with what another one has.
func replayed(t *testing.T, m *testMesh, key, token string) error {
	t.Helper()
	res, err := meshv1.NewRegistryServiceClient(m.conn).GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "builder"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a2apb.NewA2AServiceClient(raw(t, res.GetAgent().GetEndpoint())).SendMessage(
		metadata.NewOutgoingContext(plain(t), metadata.Pairs(key, token)), say("make a skill"))
	return rpc.FromStatus(err)
}
