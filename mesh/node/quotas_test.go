package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/node"
)

// finding T7: what a user may have is refused with the limit's name, how much of it is
// used, and of how much; another user of the tenant, and another tenant, go on.
func TestAUserWhoHasEnoughDoesNotKeepOthersWaiting(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	cfg.Quotas.User.Threads = 3
	m := start(t, cfg, map[string]run{"main": greeter})
	a2a := a2apb.NewA2AServiceClient(m.raw(t))
	open := func(who string) error {
		stream, err := a2a.SendStreamingMessage(as(plain(t), who, "thread-id", mesh.NewThreadID()), say("hello"))
		if err == nil {
			for err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) == codes.Unknown { // io.EOF
				err = nil
			}
		}
		return err
	}
	var err error
	n := 0
	for until := time.Now().Add(time.Minute); err == nil; n++ {
		if err = open("a"); err == nil && time.Now().After(until) {
			t.Fatalf("%d conversations were opened of 3", n)
		}
	}
	if n--; n < 3 || len(m.All) == 1 && n > 3 { // two nodes hear of each other's a moment later
		t.Errorf("%d conversations were opened of 3", n)
	}
	var info *errdetails.ErrorInfo
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			info = i
		}
	}
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != "LIMIT:user.threads" || info.GetMetadata()["most"] != "3" || info.GetMetadata()["used"] == "" {
		t.Errorf("refused with %v, %v", err, info)
	}
	for _, who := range []string{"eve", "b"} {
		if err := open(who); err != nil {
			t.Errorf("%s is refused: %v", who, err)
		}
	}
}

// What is kept of a tenant's conversations is bounded: an agent that goes on is stopped, its turn has
// ended, and a message is refused with what to do; another tenant goes on. There is an alarm, and
// room again once conversations are deleted. There is one, too, when four fifths of the day's money
// are used.
func TestWhatIsKeptOfATenantIsBounded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	operated(t, &cfg)
	cfg.Quotas.Tenant.Bytes, cfg.Quotas.Tenant.Cost = 200_000, 1
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		if _, err := inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.ModelReplied{Usage: mesh.Usage{Prompt: 60, Cost: 0.9}}}); err != nil && inv.Grant.Tenant == "a" {
			t.Error(err)
		}
		return loud(ctx, inv)
	}})
	conn := m.raw(t)
	a2a := a2apb.NewA2AServiceClient(conn)
	id := mesh.NewThreadID()
	stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", id), say("talk"))
	s := hear(t, stream, err)
	task, err := a2a.GetTask(as(plain(t), "a", "thread-id", id), &a2apb.GetTaskRequest{Id: s.task.GetId()})
	if err != nil || s.state != a2apb.TaskState_TASK_STATE_FAILED || !strings.Contains(task.GetStatus().String(), "200000 bytes") {
		t.Errorf("the turn ended %v: %v, %v", s.state, task.GetStatus(), err)
	}
	_, err = a2a.SendMessage(as(plain(t), "a", "thread-id", mesh.NewThreadID()), say("hello"))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "mesh threads delete --before") || !strings.Contains(fmt.Sprint(status.Convert(err).Details()), "LIMIT:tenant.bytes") {
		t.Errorf("refused with %v", err)
	}
	other := &a2apb.SendMessageRequest{Message: say("hello").GetMessage(), Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true}}
	if _, err := a2a.SendMessage(as(plain(t), "b", "thread-id", mesh.NewThreadID()), other); err != nil {
		t.Errorf("another tenant is refused: %v", err)
	}
	usage, err := meshv1.NewNodeServiceClient(conn).ListTenants(as(plain(t), "root"), &meshv1.ListTenantsRequest{})
	if all := usage.GetTenants(); err != nil || len(all) != 2 || all[0].GetTenant() != "a" || all[0].GetThreads() != 1 || all[0].GetLogBytes() == 0 ||
		all[0].GetQuotaBytes() != 200_000 || all[0].GetUsed() != float64(all[0].GetLogBytes()+all[0].GetFileBytes())/200_000 || all[1].GetLogBytes() >= all[0].GetLogBytes() {
		t.Errorf("of tenants it is said %v, %v", usage, err)
	}
	if resp, body := m.get(t, http.MethodGet, "/mesh/v1/tenants", nil, of("root")...); resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"quotaBytes":"200000"`)) {
		t.Errorf("over HTTP: %s %s", resp.Status, body)
	}
	if resp, body := m.get(t, http.MethodGet, "/mesh/v1/tenants", nil, of("a")...); resp.StatusCode != http.StatusForbidden || bytes.Contains(body, []byte("quota")) {
		t.Errorf("to a user: %s %s", resp.Status, body)
	}
	raised := func(setting string) bool {
		all, err := alarmed{testMesh: m}.alarms(t, "root")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(a *meshv1.Alarm) bool { return a.GetSetting() == setting && a.GetOf() == "a" })
	}
	eventually(t, func() error {
		if !raised("quotas.tenant.bytes") || !raised("quotas.tenant.cost") {
			return errors.New("there is no alarm")
		}
		return nil
	})
	if _, err := meshv1.NewThreadServiceClient(conn).DeleteThread(as(plain(t), "a", "thread-id", id), &meshv1.DeleteThreadRequest{ThreadId: id}); err != nil {
		t.Fatal(err)
	}
	other.Message = say("hello").GetMessage()
	if _, err := a2a.SendMessage(as(plain(t), "a", "thread-id", mesh.NewThreadID()), other); err != nil {
		t.Errorf("refused where there is room again: %v", err)
	}
}

// Where callers say who they are there are quotas and a rate by default, and not where
// they do not; all can be turned off.
func TestSettingsOfQuotasHaveDefaultsUnderAuth(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  node.Config
		rate float64
	}{
		"none":            {node.Config{}, 0},
		"tokens":          {node.Config{Auth: "tokens", Tokens: "t"}, 100},
		"tokens, its own": {node.Config{Auth: "tokens", Tokens: "t", RateLimit: node.RateLimit{PerSecond: 5}}, 5},
		"tokens, off":     {node.Config{Auth: "tokens", Tokens: "t", RateLimit: node.RateLimit{PerSecond: -1}}, -1},
	} {
		if err := tt.cfg.Fill(); err != nil || tt.cfg.RateLimit.PerSecond != tt.rate {
			t.Errorf("%s: %v calls a second, %v", name, tt.cfg.RateLimit.PerSecond, err)
		}
	}
}

// The budget of a turn is in the grant of the agent that works on it, and the node keeps
// it: when the tokens are used up, the agent's calls and dispatches are refused by name.
func TestATurnHasABudget(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Limits.TurnTokens, cfg.Limits.TurnCost = 100, 0.5
	type seen struct {
		budget         mesh.Budget
		call, dispatch error
	}
	got := make(chan seen, 1)
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			_, err := inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.ModelReplied{Usage: mesh.Usage{Prompt: 60, Completion: 40, Cost: 0.1}}})
			if err != nil {
				yield(nil, err)
				return
			}
			s := seen{budget: inv.Grant.Budget}
			_, s.call = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillCalled{Call: "1", Skill: "mail.send", Args: "{}"}})
			_, s.dispatch = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(inv.Grant.Thread),
				Parent: inv.Grant.Execution, Kind: mesh.KindAgent, Agent: "builder", User: inv.Grant.User, Text: "work"}}})
			got <- s
			yield(agent.Text{Text: "done"}, nil)
		}
	}})
	if err := sendV1(t.Context(), m.raw(t), "hello"); err != nil {
		t.Fatal(err)
	}
	s := <-got
	if want := (mesh.Budget{Tokens: 100, Cost: 500_000}); s.budget != want {
		t.Errorf("the grant's budget is %+v, want %+v", s.budget, want)
	}
	for what, err := range map[string]error{"call": s.call, "dispatch": s.dispatch} {
		trip := limit.TripOf(err)
		if !mesh.IsCode(err, mesh.Exhausted) || trip == nil || trip.Limit != limit.BudgetTokens || trip.Used != 100 || trip.Most != 100 {
			t.Errorf("%s: refused with %v, %+v", what, err, trip)
		}
	}
}
