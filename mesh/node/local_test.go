package node_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text/texttest"
)

// An agent in the node's process may what it might over the network: it is known by
// its grant alone, and without one it is nobody.
func TestABuiltinAgentHasNoPrivilege(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	var far grpc.ClientConnInterface
	tried := make(chan [2][]string, 1)
	others := mesh.NewThreadID()
	probe := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		if inv.Thread.ID != others {
			tried <- [2][]string{attempts(ctx, far, inv, others), attempts(ctx, connOf(inv.Mesh), inv, others)}
		}
		return words("tried")
	}
	m := start(t, cfg, map[string]run{"main": probe})
	conn, err := rpc.Dial(m.All[len(m.All)-1].GRPC, rpc.DialOptions{}) // the node that was started last
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	far = conn
	for _, thread := range []string{others, mesh.NewThreadID()} {
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "thread-id", thread), say("go"))
		hear(t, stream, err)
	}
	got := <-tried
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("(-network +process):\n%s", diff)
	}
	var may []string
	for _, line := range got[1] {
		if what, end, _ := strings.Cut(line, ": "); end == "OK" {
			may = append(may, what)
		}
	}
	if diff := cmp.Diff([]string{"its grant, its thread", "its grant, the agents", "its grant, its values"}, may); diff != "" {
		t.Errorf("what it may (-want +got):\n%s", diff)
	}
}

// connOf returns the connection by which the client of an agent calls its node: no agent is
// given it to call what it likes.
func connOf(c *meshclient.Client) grpc.ClientConnInterface {
	field := reflect.ValueOf(c).Elem().FieldByName("threads").Elem().Elem().FieldByName("cc")
	return *(*grpc.ClientConnInterface)(field.Addr().UnsafePointer())
}

// A node that stops serves its agents until their runs have ended: a run that is under
// way reads, records and answers, as over the network.
func TestABuiltinAgentMayFinishWhileItsNodeStops(t *testing.T) {
	data := t.TempDir()
	begun, stopping := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	slow := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		if inv.Text() != "go" {
			return words("more")
		}
		close(begun)
		<-stopping
		_, err := inv.Mesh.History(ctx, 10)
		ended <- errors.Join(err, inv.Mesh.Note(ctx, []byte(`{"after":"the stop"}`)))
		return words("done")
	}
	m := start(t, config(data), map[string]run{"main": slow})
	thread := mesh.NewThreadID()
	asked := say("go")
	asked.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	if _, err := m.edge().SendMessage(in(t, thread), asked); err != nil {
		t.Fatal(err)
	}
	<-begun
	outside := a2apb.NewA2AServiceClient(m.raw(t)) // which Stop leaves open
	stopped := make(chan struct{})
	go func() { defer close(stopped); m.Stop() }()
	for refused := false; !refused; { // it has begun to stop
		_, err := outside.SendMessage(plain(t), say("more"))
		refused = err != nil
	}
	close(stopping)
	if err := <-ended; err != nil {
		t.Errorf("the agent was refused: %v", err)
	}
	<-stopped
	m = start(t, config(data), map[string]run{"main": echo})
	page, err := meshv1.NewThreadServiceClient(m.conn).ReadThread(in(t, thread), &meshv1.ReadThreadRequest{ThreadId: thread})
	if err != nil {
		t.Fatal(err)
	}
	last := page.GetEvents()[len(page.GetEvents())-1].GetTaskMoved()
	if last.GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || m.Interrupted != 0 {
		t.Errorf("the thread ends with %v; %d turns were interrupted", last, m.Interrupted)
	}
}

// attempts makes all calls under all claims, and tells how each ended.
func attempts(ctx context.Context, conn grpc.ClientConnInterface, inv *agent.Invocation, others string) (ended []string) {
	mine, _ := mesh.CallFrom(inv.Mesh.Context(ctx))
	bare, _ := mesh.CallFrom(ctx)
	change := func(f func(*mesh.Call)) mesh.Call {
		c := mesh.Call{Principal: mine.Principal, Thread: mine.Thread, Execution: mine.Execution, GrantToken: mine.GrantToken, Holder: mine.Holder}
		f(&c)
		return c
	}
	claims := []struct {
		name string
		as   mesh.Call
		md   []string
	}{
		{"its grant", mine, nil},
		{"nothing", mesh.Call{}, nil},
		{"what its run has", bare, nil},
		{"its grant without its secret", change(func(c *mesh.Call) { c.Holder = "" }), nil},
		{"its grant with a wrong secret", change(func(c *mesh.Call) { c.Holder += "x" }), nil},
		{"its user", change(func(c *mesh.Call) { c.GrantToken = "" }), nil},
		{"all permissions", mesh.Call{Principal: mesh.Principal{Tenant: "a", User: "ann", Roles: mesh.Roles(), Grant: inv.Grant}}, nil},
		{"a forged grant", change(func(c *mesh.Call) { c.GrantToken += "x" }), nil},
		{"another tenant", change(func(c *mesh.Call) { c.Principal.Tenant = "b" }), nil},
		{"another user", change(func(c *mesh.Call) { c.Principal.User = "bob" }), nil},
		{"another thread", change(func(c *mesh.Call) { c.Thread = others }), nil},
		{"a token in the metadata", mesh.Call{}, []string{"authorization", "Bearer secret-of-tenant-a"}},
		{"a grant in the metadata", mesh.Call{}, []string{"mesh-grant", mine.GrantToken}},
	}
	threads, agents, skills, states := meshv1.NewThreadServiceClient(conn), meshv1.NewRegistryServiceClient(conn), meshv1.NewSkillServiceClient(conn), meshv1.NewStateServiceClient(conn)
	calls := []struct {
		name string
		make func(context.Context) error
	}{
		{"its thread", func(ctx context.Context) error {
			_, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: inv.Thread.ID})
			return err
		}},
		{"another thread", func(ctx context.Context) error {
			_, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: others})
			return err
		}},
		{"all threads", func(ctx context.Context) error {
			_, err := threads.ListThreads(ctx, &meshv1.ListThreadsRequest{})
			return err
		}},
		{"the end of its thread", func(ctx context.Context) error {
			_, err := threads.DeleteThread(ctx, &meshv1.DeleteThreadRequest{ThreadId: inv.Thread.ID})
			return err
		}},
		{"a yes of its own", func(ctx context.Context) error {
			_, err := threads.AppendEvents(ctx, &meshv1.AppendEventsRequest{ThreadId: inv.Thread.ID, Events: []*meshv1.Event{{
				Id: mesh.NewEventID(), Body: &meshv1.Event_ApprovalSettled{ApprovalSettled: &meshv1.ApprovalSettled{Call: "1", Approved: true}}}}})
			return err
		}},
		{"the agents", func(ctx context.Context) error {
			_, err := agents.ListAgents(ctx, &meshv1.ListAgentsRequest{})
			return err
		}},
		{"a new agent", func(ctx context.Context) error {
			_, err := agents.RegisterAgent(ctx, &meshv1.RegisterAgentRequest{Name: "mole", Endpoint: "127.0.0.1:1"})
			return err
		}},
		{"a new skill", func(ctx context.Context) error {
			_, err := skills.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: "no skill"})
			return err
		}},
		{"its values", func(ctx context.Context) error {
			_, err := states.ListState(ctx, &meshv1.ListStateRequest{Kind: "tasks"})
			return err
		}},
	}
	for _, claim := range claims {
		for _, c := range calls {
			err := c.make(mesh.WithCall(metadata.NewOutgoingContext(ctx, metadata.Pairs(claim.md...)), claim.as))
			end := "OK"
			if err != nil {
				end = mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)
			}
			ended = append(ended, claim.name+", "+c.name+": "+end)
		}
	}
	return ended
}
