package mainagent_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// guarded are skills of which two want the user's approval.
var guarded = fstest.MapFS{
	"mail/send.md":    {Data: []byte(page("mail.send", "to", "requires_approval: true\n"))},
	"tasks/delete.md": {Data: []byte(page("tasks.delete", "id", "requires_approval: true\n"))},
	"tasks/search.md": {Data: []byte(page("tasks.search", "query", ""))},
}

func page(name, parameter, more string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: Does %s\nhandler: %s\naccess: write\n%sparameters:\n  - name: %s\n    type: string\n    required: true\n    description: What it is about\n---\n\n# Page\n\nDoes it.\n", name, name, name, more, parameter)
}

// use is a model's call of a skill.
func use(name, parameter, value string) scripted.Step {
	return scripted.Call("use_skill", fmt.Sprintf(`{"skill":%q,"arguments":{%q:%q}}`, name, parameter, value))
}

// consult is a call that asks another agent.
func consult(s scripted.Step, agent, task string) scripted.Step {
	return s.Call("consult_agent", fmt.Sprintf(`{"agent":%q,"task":%q}`, agent, task))
}

// An office is a mesh whose skills have effects that are counted.
type office struct {
	*meshtest.Mesh
	t *testing.T
	// models are the agents' own.
	models map[string]*scripted.Model
	limits node.Limits
	quotas node.Quotas
	face   skilltools.Face
	// result is what a skill returns; nil for what was done.
	result func(call *skill.Call) string

	mu       sync.Mutex
	dispatch dispatch.Options // of the orchestrator
	effects  []string
	keys     map[string]bool
}

func newOffice(t *testing.T) *office {
	return &office{t: t, models: map[string]*scripted.Model{}, keys: map[string]bool{}}
}

// model gives the agent a script.
func (o *office) model(name string, steps ...scripted.Step) {
	o.models[name] = scripted.New(steps...)
}

// handlers note what they are called with, and that no key comes twice.
func (o *office) handlers() map[string]skill.Handler {
	note := skill.HandlerFunc(func(_ context.Context, call *skill.Call, _ *skill.Env) (*skill.Result, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.keys[call.Key] || call.Key == "" {
			o.t.Errorf("%s ran with the key %q again", call.Skill, call.Key)
		}
		o.keys[call.Key] = true
		o.effects = append(o.effects, fmt.Sprint(call.Skill, " ", call.Args))
		content := "did " + call.Skill
		if o.result != nil {
			content = o.result(call)
		}
		return &skill.Result{Status: skill.StatusOK, Content: content}, nil
	})
	return map[string]skill.Handler{"mail.send": note, "tasks.delete": note, "tasks.search": note}
}

// happened are the effects so far, sorted.
func (o *office) happened() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.effects))
}

func (o *office) specialist(name string) func(node.Env) (agent.Agent, error) {
	return func(env node.Env) (agent.Agent, error) {
		return specialist.New(specialist.Config{
			Card: meshtest.Card(o.t, name), Model: o.modelOf(name), Domains: []string{name}, Handlers: o.handlers(),
			Interface: o.face, Prompt: "You do " + name + ".", Now: friday, Logger: env.Logger,
		})
	}
}

func (o *office) modelOf(name string) llm.Model {
	if o.models[name] == nil {
		o.models[name] = scripted.New()
	}
	return o.models[name]
}

func (o *office) main(env node.Env) (agent.Agent, error) {
	return mainagent.New(mainagent.Config{Card: meshtest.Card(o.t, "main"), Model: o.modelOf("main"), Conns: env.Conns, Now: friday, Logger: env.Logger, MaxSteps: env.Budgets.Most(limit.AgentSteps)})
}

func (o *office) orchestrator(env node.Env) (agent.Agent, error) {
	o.dispatch.MaxAgents = env.Budgets.Most(limit.TurnAgents)
	return orchestrator.New(orchestrator.Config{
		Card: meshtest.Card(o.t, "orchestrator"), Model: o.modelOf("orchestrator"), Conns: env.Conns, Now: friday, Logger: env.Logger,
		MaxSteps: env.Budgets.Most(limit.AgentSteps), Dispatch: o.dispatch,
	})
}

// all are a main agent, an orchestrator and two specialists.
func (o *office) all() meshtest.Agents {
	return meshtest.Agents{"main": o.main, "orchestrator": o.orchestrator, "mail": o.specialist("mail"), "tasks": o.specialist("tasks")}
}

// open starts the mesh, or starts it again.
func (o *office) open(agents meshtest.Agents) {
	o.t.Helper()
	data := ""
	if o.Mesh != nil {
		data = o.Data
		o.Stop()
	}
	o.Mesh = meshtest.Start(o.t, agents, meshtest.Options{Data: data, Skills: []fs.FS{guarded}, Limits: o.limits, Quotas: o.quotas})
}

// serve runs a specialist outside of the node until stop, or the end of the
// test.
func (o *office) serve(name string) (stop func()) {
	o.t.Helper()
	a, err := o.specialist(name)(node.Env{})
	if err != nil {
		o.t.Fatal(err)
	}
	return join(o.t, o.Mesh, name, a)
}

// join has an agent of others, outside of the node, join the mesh until stop, or the end of
// the test.
func join(t *testing.T, m *meshtest.Mesh, name string, a agent.Agent) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { // stop waits
		done <- agent.Serve(ctx, agent.Options{Agent: a, NodeAddr: m.Any().GRPC, Register: &agent.Registration{Name: name}, Ready: func(at string) { ready <- at }})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent %s: %v", name, err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatalf("agent %s did not start: %v", name, err)
	}
	return stop
}

// levels are ways to get from the user to the mail agent.
var levels = map[string]func(o *office) meshtest.Agents{
	"one": func(o *office) meshtest.Agents {
		return meshtest.Agents{"main": o.specialist("mail")}
	},
	"two": func(o *office) meshtest.Agents {
		o.model("main", consult(scripted.Step{}, "mail", "Mail bob"), scripted.Say("All done."))
		return o.all()
	},
	"three": func(o *office) meshtest.Agents {
		o.model("main", consult(scripted.Step{}, "orchestrator", "Mail bob"), scripted.Say("All done."))
		o.model("orchestrator", scripted.Call("dispatch_agent", `{"agent_id":"m","mission":"Mail bob","skills":["mail.send"]}`),
			scripted.Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
		return o.all()
	},
}

// ends are the states of the thread's executions, by agent, sorted.
func (o *office) ends(thread string) []string {
	o.t.Helper()
	agents, states := map[mesh.ExecutionID]string{}, map[mesh.ExecutionID]string{}
	for _, e := range o.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.TaskOpened:
			agents[b.Execution.ID] = "turn"
		case mesh.DispatchIssued:
			agents[b.Child.ID] = b.Child.Agent
		case mesh.TaskMoved:
			states[e.Execution] = b.State.String()
		case mesh.DispatchSettled:
			states[b.Child] = b.State.String()
		}
	}
	var out []string
	for id, agent := range agents {
		out = append(out, agent+" "+strings.TrimPrefix(states[id], "TASK_STATE_"))
	}
	slices.Sort(out)
	return out
}

// told is the text of the results that the model got last.
func (o *office) told(agent string) string {
	o.t.Helper()
	requests := o.models[agent].Requests()
	text := ""
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == llm.RoleTool {
			text = m.Text
		}
	}
	return text
}

// same checks that the list is as wanted.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A client is what a program of the user's does with the mesh.
type client struct {
	a2apb.A2AServiceClient
	t      *testing.T
	thread string
	logs   meshv1.ThreadServiceClient
}

func (o *office) client(thread string) *client {
	o.t.Helper()
	conn, err := rpc.Dial(o.Any().GRPC, rpc.DialOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = conn.Close() })
	return &client{a2apb.NewA2AServiceClient(conn), o.t, thread, meshv1.NewThreadServiceClient(conn)}
}

// ctx is that of a client which knows only A2A, or also our extension.
func (c *client) ctx(extensions ...string) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	c.t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, Thread: c.thread, Extensions: extensions})
}

// post sends a message, for a task if there is one, and returns the task at
// once.
func (c *client) post(task, text string) string {
	c.t.Helper()
	msg := a2a.NewMessage(a2apb.Role_ROLE_USER, text)
	msg.ContextId, msg.TaskId = c.thread, task
	resp, err := c.SendMessage(c.ctx(), &a2apb.SendMessageRequest{Message: msg, Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true}})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTask().GetId()
}

// until follows the log to the first event after the Seq that fits.
func (c *client) until(after int64, what string, fits func(*meshv1.Event) bool) int64 {
	c.t.Helper()
	stream, err := c.logs.FollowThread(c.ctx(mesh.ExtensionURI), &meshv1.FollowThreadRequest{ThreadId: c.thread, AfterSeq: after})
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			c.t.Fatalf("waiting until %s: %v", what, err)
		}
		if fits(resp.GetEvent()) {
			return resp.GetEvent().GetSeq()
		}
	}
}

// rests follows the log until the task is at rest, and returns how, and what
// the user is asked.
func (c *client) rests(after int64, task string) (state mesh.TaskState, asked string, seq int64) {
	c.t.Helper()
	seq = c.until(after, "the task rests", func(e *meshv1.Event) bool {
		m := e.GetTaskMoved()
		state, asked = m.GetState(), a2a.TextOf(m.GetMessage())
		return e.GetExecutionId() == task && (mesh.Terminal(state) || mesh.Interrupted(state))
	})
	return state, asked, seq
}
