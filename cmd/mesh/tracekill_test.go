package main

import (
	"encoding/hex"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/scripted"
)

// A turn that kill -9 cut off while an agent was at work that another one had dispatched goes
// on when the mesh is back, and has one trace all the same, below the span of its client:
// whoever ends it tells of what began before, of each agent once, and of the models' calls in
// both lives.
func TestATurnThatKill9CutsIsOneTrace(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	r.killed(t, r.addr, nil)
}

// A turn that a kill cut off is ended, and does not go on, where the operator says so.
func TestWithoutContinueATurnThatKill9CutsIsEnded(t *testing.T) {
	t.Parallel()
	c := cutOff(t, "continue: false\n", nil, "", nil, nil)
	if state := c.task.GetStatus().GetState(); state != a2apb.TaskState_TASK_STATE_FAILED || c.continued != 0 {
		t.Errorf("the turn ended %v, and was continued %d times", state, c.continued)
	}
	reason := ""
	for _, e := range c.m.log(c.id) {
		if m := e.GetTaskMoved(); e.GetExecutionId() == c.task.GetId() && mesh.Terminal(m.GetState()) {
			reason = m.GetReason()
		}
	}
	if asked := len(c.model.Requests()); reason != mesh.ReasonInterrupted || asked != 3 {
		t.Errorf("the turn ended for %q, and the models were asked %d times", reason, asked)
	}
}

// A cut is a turn that kill -9 cut off, when it has ended.
type cut struct {
	m         *realMesh // after the kill
	model     *scripted.Model
	id        string
	task      *a2apb.Task
	continued int // how often anything went on
}

// cutOff runs a turn for a client of the trace, kills the mesh while a model is asked for an
// agent that was dispatched, does what is to be done then, and starts it again. With join,
// which has an agent of the name herald join a mesh, that is dispatched too, before the kill and
// after it.
func cutOff(t *testing.T, settings string, env []string, trace string, then func(id string), join func(m *realMesh)) *cut {
	t.Helper()
	c := &cut{id: mesh.NewThreadID(), model: scripted.New(consultPlanner("Report what is open"))}
	herald := func(id string) {
		if join != nil {
			c.model.Add(scripted.Call("dispatch_agent", `{"agent_id":"`+id+`","name":"herald","mission":"Greet everybody","skills":[]}`).Call("get_agent_results", `{}`).For(ofPlanner))
		}
	}
	herald("before")
	c.model.Add(scripted.Call("dispatch_agent", `{"agent_id":"a","name":"worker","mission":"Find alpha","skills":["tasks.search"]}`).Call("get_agent_results", `{}`).For(ofPlanner),
		scripted.Wait("never").Say("Too late.").For(ofWorker),
		scripted.Wait("back").Say("Alpha is open.").For(ofWorker))
	herald("after")
	c.model.Add(scripted.Say("It is alpha.").For(ofPlanner).For(scripted.Last("Alpha is open.")),
		scripted.Say("Alpha alone is open.").For(ofMain))
	endpoint := httptest.NewServer(scripted.Handler(c.model))
	t.Cleanup(endpoint.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), settings+"model: {url: "+endpoint.URL+"/v1, name: scripted, key: none, retries: -1}\n")
	m := upWith(t, dir, env)
	if join != nil {
		join(m)
	}
	req := userMessage(c.id, "What is open?")
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	sent, err := m.edge().SendMessage(mesh.WithCall(timely(t), mesh.Call{Thread: c.id, Traceparent: trace}), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.model.WaitBlocked(timely(t), 1); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	if then != nil {
		then(c.id)
	}
	c.m = upWith(t, dir, env)
	if join != nil {
		join(c.m)
	}
	c.model.Release("back")
	for ctx := inThread(t, c.id); !mesh.Terminal(c.task.GetStatus().GetState()); time.Sleep(20 * time.Millisecond) {
		if c.task, err = c.m.edge().GetTask(ctx, &a2apb.GetTaskRequest{Id: sent.GetTask().GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range c.m.log(c.id) {
		if e.GetTaskMoved().GetReason() == mesh.ReasonContinued {
			c.continued++
		}
	}
	return c
}

// killed has a turn cut off in a mesh that tells the one at the address, and returns its
// conversation.
func (r *receiver) killed(t *testing.T, addr string, join func(m *realMesh)) (id string) {
	t.Helper()
	const client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c := cutOff(t, "", append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + addr}, telling...), client, func(id string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if early := r.of(id); len(early) != 0 {
			t.Fatalf("the turn was told of before its end: %v", early)
		}
	}, join)
	id = c.id
	if state := c.task.GetStatus().GetState(); state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(taskText(c.task), "Alpha alone is open.") || c.continued == 0 {
		t.Errorf("the turn ended %v, %q, and was continued %d times", state, taskText(c.task), c.continued)
	}
	agents := []string{"invoke_agent main", "invoke_agent orchestrator", "invoke_agent worker"}
	root, spans := r.connected(id, append([]string{"turn", "chat scripted"}, agents...)...)
	if root.GetName() != "turn" || hex.EncodeToString(root.GetParentSpanId()) != client[36:52] || hex.EncodeToString(root.GetTraceId()) != client[3:35] {
		t.Errorf("the root is %s", root)
	}
	above := "turn"
	for _, name := range agents {
		if got := r.parent(spans[name]).GetName(); got != above || spans[name].attrs["agentmesh.state"] != "completed" {
			t.Errorf("%s is below %q, and ended %s", name, got, spans[name].attrs["agentmesh.state"])
		}
		above = name
	}
	times := map[string]int{}
	r.mu.Lock()
	for _, s := range r.of(id) {
		times[s.GetName()]++
	}
	r.mu.Unlock()
	for _, name := range append(agents, "turn") {
		if times[name] != 1 {
			t.Errorf("%s is told of %d times", name, times[name])
		}
	}
	return id
}
