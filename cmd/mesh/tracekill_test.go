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
	r.killed(t, r.addr)
}

// killed runs a turn in a mesh that tells the one at the address, kills it while a model is
// asked for an agent that was dispatched, and starts it again.
func (r *receiver) killed(t *testing.T, addr string) {
	t.Helper()
	const client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	model := scripted.New(consultPlanner("Report what is open"),
		scripted.Call("dispatch_agent", `{"agent_id":"a","name":"worker","mission":"Find alpha","skills":["tasks.search"]}`).Call("get_agent_results", `{}`).For(ofPlanner),
		scripted.Wait("never").Say("Too late.").For(ofWorker),
		scripted.Say("Alpha is open.").For(ofWorker),
		scripted.Say("It is alpha.").For(ofPlanner).For(scripted.Last("Alpha is open.")),
		scripted.Say("Alpha alone is open.").For(ofMain))
	endpoint := httptest.NewServer(scripted.Handler(model))
	t.Cleanup(endpoint.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "model: {url: "+endpoint.URL+"/v1, name: scripted, key: none, retries: -1}\n")
	env := append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + addr}, telling...)
	m := upWith(t, dir, env)
	id := mesh.NewThreadID()
	req := userMessage(id, "What is open?")
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	sent, err := m.edge().SendMessage(mesh.WithCall(timely(t), mesh.Call{Thread: id, Traceparent: client}), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.WaitBlocked(timely(t), 1); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	r.mu.Lock()
	early := r.of(id)
	r.mu.Unlock()
	if len(early) != 0 {
		t.Fatalf("the turn was told of before its end: %v", early)
	}
	m = upWith(t, dir, env)
	task := &a2apb.Task{}
	for ctx := inThread(t, id); !mesh.Terminal(task.GetStatus().GetState()); time.Sleep(20 * time.Millisecond) {
		if task, err = m.edge().GetTask(ctx, &a2apb.GetTaskRequest{Id: sent.GetTask().GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	continued := 0
	for _, e := range m.log(id) {
		if e.GetTaskMoved().GetReason() == mesh.ReasonContinued {
			continued++
		}
	}
	if state := task.GetStatus().GetState(); state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(taskText(task), "Alpha alone is open.") || continued == 0 {
		t.Errorf("the turn ended %v, %q, and was continued %d times", state, taskText(task), continued)
	}
	if t.Failed() {
		for i, r := range model.Requests() {
			t.Logf("request %d: %.60q was told %.600q", i, r.System, r.Messages[len(r.Messages)-1].Text)
		}
		for _, e := range m.log(id) {
			t.Log(e)
		}
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
}
