package dispatch_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// The environment of this test's binary when it is a worker's process.
const (
	envNode = "DISPATCH_TEST_NODE"
	envKey  = "DISPATCH_TEST_KEY"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	if os.Getenv(envNode) != "" {
		if err := serveWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serveWorker serves an agent in a process of its own, until that is killed.
func serveWorker() error {
	key, err := base64.StdEncoding.DecodeString(os.Getenv(envKey))
	if err != nil {
		return err
	}
	verifier, err := grant.NewVerifier([][]byte{key}, nil)
	if err != nil {
		return err
	}
	return agent.Serve(context.Background(), agent.Options{
		Agent: stuck{}, NodeAddr: os.Getenv(envNode), Verifier: verifier,
		Ready: func(endpoint string) { fmt.Println(endpoint) },
	})
}

// stuck is an agent that makes two calls of a skill, of which the second one never
// comes back.
type stuck struct{}

func (stuck) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{Name: "worker", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}}
}

func (stuck) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		call := func(id, to string) *mesh.Event {
			return &mesh.Event{Body: mesh.SkillCalled{Call: id, Skill: "mail.send", Args: `{"to":"` + to + `"}`, Source: mesh.SourceUseSkill}}
		}
		yield(agent.Text{Text: "I write to both."}, nil)
		_, err := inv.Mesh.Record(ctx, call("c1", "ann"), &mesh.Event{Body: mesh.SkillReturned{Call: "c1", Content: "sent"}}, call("c2", "bob"))
		fmt.Println("sending", err)
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// S3-037: when the process of a worker is killed in the middle of a skill call,
// whoever dispatched it is told that the agent is gone and which call has no
// outcome, so has the log, and nothing is run a second time.
func TestAWorkerIsKilledInTheMiddleOfASkillCall(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	w := newWorld(t)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), envNode+"="+w.conn.Target(), envKey+"="+base64.StdEncoding.EncodeToString(w.signer.Public()[0]))
	worker.Stderr = os.Stderr
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	said := bufio.NewScanner(out)
	line := func() string {
		said.Scan()
		return said.Text()
	}
	w.agents["worker"] = &meshv1.Agent{Name: "worker", Card: stuck{}.Card(), Endpoint: line(), Live: true}
	w.agents["worker"].Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}

	d, inv := w.dispatcher(dispatch.Options{})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("a"), order("b", "a")}) {
		t.Fatal(err)
	}
	if got := line(); got != "sending <nil>" {
		t.Fatalf("the worker says %q", got)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	got := wait(t, d)
	a := got["a"]
	if a.Status != dispatch.StatusFailed || a.ToolCalls != 2 || got["b"].Status != dispatch.StatusSkipped ||
		!strings.Contains(a.Result, "not known whether these skill calls had an effect") ||
		!strings.Contains(a.Result, "- mail.send(to: bob)") || strings.Contains(a.Result, "ann") {
		t.Errorf("the results are %+v", got)
	}
	settled := bodies[mesh.DispatchSettled](w, inv)
	if len(settled) != 2 || settled[1].Reason != mesh.ReasonDependency || settled[0].State != a2apb.TaskState_TASK_STATE_FAILED || settled[0].Result != a.Result {
		t.Errorf("the log has %+v", settled)
	}
	if calls := bodies[mesh.SkillCalled](w, inv); len(calls) != 2 || len(bodies[mesh.SkillReturned](w, inv)) != 1 || len(bodies[mesh.DispatchIssued](w, inv)) != 2 {
		t.Errorf("called %+v", calls)
	}
	if open := w.state(inv).Execution(a.ExecutionID).Unsettled; len(open) != 1 || open["c2"] != "mail.send" {
		t.Errorf("unsettled are %v", open)
	}
	if said.Scan() {
		t.Errorf("the worker was asked again: %q", said.Text())
	}
}

// A result that is as long as one may be is cut, so that the calls without outcome
// are in what the log keeps of it; and those of agents below count too.
func TestTheCallsWithoutOutcomeAreInEveryResult(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	w := newWorld(t)
	w.ours = true
	d, inv := w.dispatcher(dispatch.Options{})
	w.agent("worker", func(m *mission) error {
		child := bodies[mesh.DispatchIssued](w, inv)[1].Child.ID
		below := mesh.NewExecutionID(inv.Thread.ID)
		events := []*mesh.Event{{Execution: child, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: below, Parent: child, Kind: mesh.KindAgent, Agent: "helper"}}}}
		for i := range 12 {
			events = append(events, &mesh.Event{Execution: below, Body: mesh.SkillCalled{Call: fmt.Sprint("c", i), Skill: "tasks.create", Args: fmt.Sprintf(`{"title":"t%d"}`, i)}})
		}
		err := w.states.Decide(m.ctx, inv.Thread, func(*thread.State) (cache.Decision, error) {
			return cache.Decision{Events: events}, nil
		})
		if err != nil {
			return err
		}
		if err := m.say(strings.Repeat("x", mesh.MaxResult)); err != nil {
			return err
		}
		return m.end(a2apb.TaskState_TASK_STATE_FAILED, "Broken.")
	})
	a := run(t, d, order("a"))["a"]
	settled := bodies[mesh.DispatchSettled](w, inv)
	if len(a.Result) > mesh.MaxResult || len(settled) != 1 || settled[0].Result != a.Result || !strings.HasSuffix(a.Result, "- tasks.create(title: t9)\n- and 2 more") {
		t.Errorf("%d bytes, ending in %q", len(a.Result), a.Result[max(0, len(a.Result)-200):])
	}
}
