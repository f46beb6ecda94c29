package main

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// runAgent runs a built-in agent as a process of its own, and waits until the
// mesh at m knows it.
func runAgent(t *testing.T, m *realMesh, dir, agent, name string, more ...string) *process {
	t.Helper()
	p := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc},
		append([]string{"agent", "run", agent, "--name", name, "--listen", rpctest.Free(t)}, more...)...)
	p.shows(`agent ` + name + ` is registered with ` + m.grpc + ` and listens on (\S+)`)
	return p
}

// state is what 'mesh agents list' says about an agent: "live", "down", or "".
func (m *realMesh) state(name string) string {
	m.t.Helper()
	row := regexp.MustCompile(`(?m)^` + name + ` +(live|down)`).FindStringSubmatch(m.mesh("agents", "list").succeeds(m.t))
	if row == nil {
		return ""
	}
	return row[1]
}

// becomes waits until the mesh says so about an agent.
func (m *realMesh) becomes(name, state string) {
	m.t.Helper()
	agents := meshv1.NewRegistryServiceClient(m.dial())
	for ctx := timely(m.t); m.state(name) != state; {
		if ctx.Err() != nil {
			m.t.Fatalf("%s is %q, want %q", name, m.state(name), state)
		}
		awaitAgent(ctx, agents, name, state == "live")
	}
}

// awaitAgent returns when the mesh tells of the agent that it is live, or that
// it is not, and when the watch breaks: then it is to be looked again.
func awaitAgent(ctx context.Context, agents meshv1.RegistryServiceClient, name string, live bool) {
	watching, stop := context.WithCancel(mesh.WithCall(ctx, mesh.Call{}))
	defer stop()
	stream, err := agents.WatchAgents(watching, &meshv1.WatchAgentsRequest{})
	for err == nil {
		var change *meshv1.WatchAgentsResponse
		if change, err = stream.Recv(); err == nil && change.GetAgent().GetName() == name && change.GetAgent().GetLive() == live {
			return
		}
	}
}

// asked are the agents that main asked in the thread, with how it ended.
func (m *realMesh) asked(id string) string {
	var all []string
	names := map[string]string{}
	for _, e := range m.log(id) {
		if d := e.GetDispatchIssued(); d != nil && e.GetActor() == "agent:main" {
			names[d.GetChild().GetId()] = d.GetChild().GetAgent()
		}
		if d := e.GetDispatchSettled(); names[d.GetChild()] != "" {
			all = append(all, names[d.GetChild()]+" "+strings.ToLower(strings.TrimPrefix(d.GetState().String(), "TASK_STATE_")))
		}
	}
	return strings.Join(all, ", ")
}

// An agent in a process of its own joins, is listed, gets work by its name with
// effects in its own folder, and is gone when it is stopped.
func TestAnAgentOfAnotherProcessJoinsWorksAndLeaves(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	p := runAgent(t, m, m.dir, "worker", "worker-2", "--data", "worker-data")
	if got := m.state("worker-2"); got != "live" {
		t.Fatalf("worker-2 is %q", got)
	}
	id := mesh.NewThreadID()
	speaker(speakGRPC).agreed(t, m, id, "Ask worker-2 to email \"all is well\" to bob@example.com")
	if got := m.asked(id); got != "worker-2 canceled, worker-2 completed" { // it asked first
		t.Errorf("main asked %s", got)
	}
	if card := m.mesh("agents", "show", "worker-2").succeeds(t); !strings.Contains(card, "mail.send: ") || !strings.Contains(card, "tasks.search: ") {
		t.Errorf("its card does not name its skills:\n%s", card)
	}
	if len(m.files("outbox/*.eml")) != 0 || len(m.files("../worker-data/outbox/*.eml")) != 1 {
		t.Error("the mail is not where worker-2 writes")
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	if got := m.state("worker-2"); got != "" {
		t.Errorf("worker-2 has left and is %q", got)
	}
	refusal{[]string{"agents", "show", "worker-2"}, exitNotFound, `worker-2 not found`}.check(t, m)
}

// S1-066: an orchestrator in a process of its own grants the skills that its missions need,
// for which its card names them; nobody has it do them, and who orchestrates finds it in no
// catalog.
func TestAnOrchestratorOfAnotherProcessGrantsSkills(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	runAgent(t, m, m.dir, "orchestrator", "planner", "--data", "planner-data")
	id := mesh.NewThreadID()
	speaker(speakGRPC).agreed(t, m, id, "Ask planner to email \"all is well\" to bob@example.com")
	var granted, by []string
	agents := map[string]string{}
	for _, e := range m.log(id) {
		if d := e.GetDispatchIssued(); d != nil {
			agents[d.GetChild().GetId()] = d.GetChild().GetAgent()
			if agents[d.GetChild().GetParent()] == "planner" {
				granted, by = append(granted, d.GetChild().GetSkills()...), append(by, d.GetChild().GetAgent())
			}
		}
	}
	if len(m.files("outbox/*.eml")) != 1 || !slices.Contains(granted, "mail.send") || slices.Contains(by, "orchestrator") {
		t.Errorf("granted %q to %q, and %d mails", granted, by, len(m.files("outbox/*.eml")))
	}
	id = mesh.NewThreadID()
	speaker(speakGRPC).agreed(t, m, id, "Ask orchestrator to email \"again\" to bob@example.com")
	for _, e := range m.log(id) {
		if d := e.GetDispatchIssued(); d.GetChild().GetAgent() == "planner" {
			t.Errorf("planner was chosen for %q", d.GetChild().GetText())
		}
	}
	if len(m.files("outbox/*.eml")) != 2 {
		t.Errorf("%d mails", len(m.files("outbox/*.eml")))
	}
}

// An agent that is killed fails what it is asked, of which the user is told,
// and is not asked any more once its lease has run out (S4-062).
func TestAnAgentThatIsKilledIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	writeFile(t, m.dir+"/handbook/kitchen.md", "# Kitchen\n\nDescale the espresso machine with 40 ml of citric acid.\n")
	const question = "Ask handbook how to descale the espresso machine"
	p := runAgent(t, m, m.dir, "knowledge", "handbook", "--docs", "handbook", "--lease", "5s") // the shortest
	id := mesh.NewThreadID()
	if h := speaker(speakGRPC).complete(t, m, id, question); !strings.Contains(h.text, "citric acid") {
		t.Errorf("heard %q", h.text)
	}
	p.kill9()
	h := speaker(speakGRPC).complete(t, m, id, question)
	if got, want := m.asked(id), "handbook completed, handbook failed"; got != want || !strings.Contains(h.text, "I could not get an answer from the handbook agent") {
		t.Errorf("main asked %s, want %s, and said %q", got, want, h.text)
	}
	m.becomes("handbook", "down")
	later := mesh.NewThreadID()
	if speaker(speakGRPC).complete(t, m, later, question); strings.Contains(m.asked(later), "handbook") {
		t.Errorf("after its lease main asked %s", m.asked(later))
	}
	resp, err := meshv1.NewRegistryServiceClient(m.dial()).ListAgents(inThread(t, id), &meshv1.ListAgentsRequest{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range resp.GetAgents() {
		if a.GetName() == "handbook" {
			t.Errorf("a dead agent is listed as live: %v", a)
		}
	}
	runAgent(t, m, m.dir, "knowledge", "handbook", "--docs", "handbook") // its name is free again
	if got := m.state("handbook"); got != "live" {
		t.Errorf("handbook is %q", got)
	}
}

// An agent whose mesh was killed registers with the next one at the same
// address, without anybody's help.
func TestAnAgentFindsItsMeshAgain(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	p := runAgent(t, m, m.dir, "worker", "worker-2")
	m.kill9()
	again := up(t, m.dir, "--grpc", m.grpc, "--http", m.http)
	again.becomes("worker-2", "live")
	again.mesh("send", "Ask worker-2 to show my overdue tasks").succeeds(t)
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != exitOK || !strings.Contains(p.stderr.String(), "Stopping") {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	if got := again.state("worker-2"); got != "" {
		t.Errorf("worker-2 has left and is %q", got)
	}
}

// An agent waits for a mesh that is not there yet, and says so.
func TestAnAgentWaitsForItsMesh(t *testing.T) {
	t.Parallel()
	first := up(t, t.TempDir())
	first.kill9() // its address is free
	p := launch(t, first.dir, "mesh", nil, "agent", "run", "worker", "--name", "early", "--mesh", first.grpc)
	p.await(&p.stderr, 0, `nobody answers at `+first.grpc+` yet; waiting until somebody does\. Start the mesh with 'mesh up'`)
	m := up(t, first.dir, "--grpc", first.grpc)
	p.shows(`agent early is registered with ` + m.grpc)
}

// An agent that cannot join ends with the reason and what to do.
func TestAnAgentThatCannotJoinSaysWhy(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	for name, r := range map[string]refusal{
		"a built-in's name": {[]string{"agent", "run", "worker"}, exitFailure, `worker belongs to a built-in agent; choose another name`},
		"no such agent":     {[]string{"agent", "run", "nobody"}, exitNotFound, `no built-in agent "nobody"; the agents are main, `},
		"no name":           {[]string{"agent", "run"}, exitUsage, `the NAME of the agent is missing`},
		"a malformed name":  {[]string{"agent", "run", "worker", "--name", "Worker 2"}, exitUsage, `--name: is "Worker 2"; give a name of`},
		"a short lease":     {[]string{"agent", "run", "worker", "--name", "w", "--lease", "1s"}, exitUsage, `lease: must be 5s to 10m`},
		"a taken port":      {[]string{"agent", "run", "worker", "--name", "w", "--listen", m.grpc}, exitFailure, m.grpc},
	} {
		t.Run(name, func(t *testing.T) { r.check(t, m) })
	}
	runAgent(t, m, m.dir, "worker", "worker-2")
	refusal{[]string{"agent", "run", "worker", "--name", "worker-2"}, exitFailure, `worker-2.*choose another name`}.check(t, m)
	if got := m.state("worker-2"); got != "live" {
		t.Errorf("worker-2 is %q", got)
	}
}

// An agent of its own reads the settings that its skills need.
func TestAnAgentReadsItsSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runMesh(t, dir, nil, "agent", "run", "mail", "--config", "no.yaml").fails(t, 3, `there is no configuration file no\.yaml`)
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "smtp: {address: \"127.0.0.1:1\"}\n")
	runMesh(t, dir, nil, "agent", "run", "mail", "--config", "mesh.yaml").fails(t, 2, `smtp\.from: is missing`)
}
