package node_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

var everyKill = flag.Bool("everykill", false, "kill at every append of the run that is to survive, and not only at some")

// The environment of the processes of such a run.
const (
	surviveNode    = "MESH_TEST_NODE"    // the address of the node
	surviveDie     = "MESH_TEST_DIE"     // before which append, or after, somebody dies
	surviveVictims = "MESH_TEST_VICTIMS" // the file with their pids; 0 is the node
	surviveEffects = "MESH_TEST_EFFECTS" // the file that has the effects
)

// A dying store kills whoever is to die before or after its n-th append since one had
// something that the agent said, who would not have begun before.
type dying struct {
	threadlog.Backend
	mu    sync.Mutex
	n, at int
	after bool
	agent string // "" for from the first append on
}

// begun reports whether the agent says something in the batch.
func (d *dying) begun(b *threadlog.Batch) bool {
	for _, e := range b.Entries {
		if ev, err := eventpb.Decode(e.Data); err == nil && ev.Actor == d.agent {
			if _, says := ev.Body.(mesh.ArtifactAppended); says {
				return true
			}
		}
	}
	return false
}

func (d *dying) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	d.mu.Lock()
	if d.n > 0 || d.agent == "" || d.begun(b) {
		d.n++
	}
	now := d.n == d.at
	d.mu.Unlock()
	if now && !d.after {
		killVictims()
	}
	done, err := d.Backend.Append(ctx, k, b)
	if now && d.after {
		killVictims()
	}
	return done, err
}

// killVictims is kill -9 of those who are to die; of this process last.
func killVictims() {
	data, err := os.ReadFile(os.Getenv(surviveVictims))
	if err != nil {
		panic(err)
	}
	self := false
	for _, line := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(line)
		if self = self || pid == 0; err == nil && pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if self {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// survivingMesh runs a node, as [meshChild] does, whose address is known before.
func survivingMesh() error {
	cfg := config(os.Getenv("MESH_TEST_DATA"))
	cfg.Main, cfg.GRPC = "lead", os.Getenv(surviveNode)
	var when, who string
	var n int
	_, _ = fmt.Sscan(os.Getenv(surviveDie), &when, &n, &who) // who may be nobody
	open := datafolder.Opener(nil)
	return node.Run(context.Background(), cfg, node.Options{
		Backend: func(cfg node.Config, address string) (node.Backend, error) {
			b, err := open(cfg, address)
			if err == nil && n > 0 {
				b.Threads = &dying{Backend: b.Threads, at: n, after: when == "after", agent: who}
			}
			return b, err
		},
		Ready: func(node.Addresses) { fmt.Println("ready") },
	})
}

// survivingAgent serves an agent in this process.
func survivingAgent(name string, run run) error {
	return agent.Serve(context.Background(), agent.Options{Agent: testAgent{name, run}, NodeAddr: os.Getenv(surviveNode),
		Register: &agent.Registration{Name: name}, Ready: func(string) { fmt.Println("ready") }})
}

// planner is a model that has two agents work, one after the other, and says that they did.
type planner struct{}

func (planner) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		said := 0
		for _, m := range req.Messages {
			if m.Role == llm.RoleAssistant {
				said++
			}
		}
		use := func(id, tool, args string) bool {
			return yield(llm.Chunk{Tool: &mesh.ToolUse{ID: id, Name: tool, Arguments: args}}, nil)
		}
		var ok bool
		done := llm.Done{Finish: "tool_calls"}
		switch said {
		case 0:
			ok = yield(llm.Chunk{Text: "I ask two."}, nil) &&
				use("1", dispatch.ToolDispatch, `{"agent_id":"a","mission":"do a","name":"worker","skills":[],"depends_on":[]}`) &&
				use("2", dispatch.ToolDispatch, `{"agent_id":"b","mission":"do b","name":"worker","skills":[],"depends_on":["a"]}`)
		case 1:
			ok = use("3", dispatch.ToolResults, `{}`)
		default:
			last := req.Messages[len(req.Messages)-1].Text
			done.Finish = "stop"
			ok = yield(llm.Chunk{Text: "Both are "}, nil) &&
				yield(llm.Chunk{Text: fmt.Sprintf("done: %d, %d.", strings.Count(last, "did a"), strings.Count(last, "did b"))}, nil)
		}
		if ok {
			yield(llm.Chunk{Done: &done}, nil)
		}
	}
}

func lead(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		pool := rpc.NewPool(rpc.DialOptions{})
		defer func() { _ = pool.Close() }()
		d := dispatch.New(ctx, inv, pool, dispatch.Options{})
		defer d.Close()
		modelrun.Run(ctx, inv, modelrun.Options{Model: planner{}, Tools: dispatch.NewOrchestration(d)})(yield)
	}
}

// doer makes one call, which has its effect once at most, and says that it did.
func doer(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		what, _, _ := strings.Cut(inv.Text(), "\n")
		if !yield(agent.Text{Text: "I "}, nil) {
			return
		}
		did, err := inv.Mesh.Actions(ctx)
		if err == nil && did.Call("c") == nil {
			if _, err = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillCalled{Call: "c", Skill: "worker.do", Args: `{}`, Source: mesh.SourceUseSkill}}); err == nil {
				err = effect(what)
			}
			if err == nil {
				_, err = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillReturned{Call: "c", Content: what}})
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		yield(agent.Text{Text: "did " + strings.TrimPrefix(what, "do ")}, nil)
	}
}

func effect(what string) error {
	f, err := os.OpenFile(os.Getenv(surviveEffects), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what)
	return cmpErr(err, f.Close())
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A troupe is the processes of a run: a node, who leads, and a worker. Who dies is started
// again.
type troupe struct {
	t       *testing.T
	env     []string
	victims string
	wg      sync.WaitGroup
	ctx     context.Context

	mu   sync.Mutex
	pids map[string]int
}

// up starts the process and starts it again when it has died. extra is for its first life.
func (p *troupe) up(role string, extra ...string) {
	started := make(chan struct{})
	p.wg.Go(func() {
		for first := true; p.ctx.Err() == nil; first = false {
			cmd := exec.CommandContext(p.ctx, os.Args[0])
			cmd.Env = append(append(os.Environ(), childEnv+"="+role), p.env...)
			if first {
				cmd.Env = append(cmd.Env, extra...)
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				p.t.Error(err)
				return
			}
			p.mu.Lock()
			p.pids[role] = cmd.Process.Pid
			p.mu.Unlock()
			said := bufio.NewScanner(out)
			for said.Scan() {
				if first {
					close(started)
					first = false
				}
			}
			_ = cmd.Wait()
		}
	})
	select {
	case <-started:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s did not start", role)
	}
}

// survive has the run go on whose processes of these roles are killed before or after the
// n-th append, and returns what its user reads and what the log and the effects are.
func survive(t *testing.T, when string, n int, roles ...string) (said string, log []*meshv1.Event, effects []string) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	ctx, stop := context.WithCancel(context.Background())
	p := &troupe{t: t, victims: filepath.Join(dir, "victims"), ctx: ctx, pids: map[string]int{}, env: []string{
		surviveNode + "=" + at, "MESH_TEST_DATA=" + filepath.Join(dir, "data"), surviveVictims + "=" + filepath.Join(dir, "victims"), surviveEffects + "=" + filepath.Join(dir, "effects")}}
	defer p.wg.Wait()
	defer stop()
	who := ""
	if len(roles) > 0 && roles[0] != "surviving-mesh" {
		who = "agent:" + strings.TrimPrefix(roles[0], "surviving-")
	}
	p.up("surviving-mesh", fmt.Sprintf("%s=%s %d %s", surviveDie, when, n, who))
	p.up("surviving-lead")
	p.up("surviving-worker")
	var pids []string
	p.mu.Lock()
	for _, role := range roles {
		if pid := p.pids[role]; role == "surviving-mesh" {
			pids = append(pids, "0")
		} else {
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	p.mu.Unlock()
	if err := os.WriteFile(p.victims, []byte(strings.Join(pids, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	conn := reached(t, at)
	id, m := mesh.NewThreadID(), say("go")
	m.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	under := func() context.Context {
		return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI}})
	}
	task := ""
	over := time.Now().Add(90 * time.Second)
	for time.Now().Before(over) {
		time.Sleep(20 * time.Millisecond)
		if a, err := meshv1.NewRegistryServiceClient(conn).GetAgent(under(), &meshv1.GetAgentRequest{Name: "lead"}); task == "" && (err != nil || !a.GetAgent().GetLive()) {
			continue
		}
		if task == "" { // sent again, it is the same message
			if resp, err := a2apb.NewA2AServiceClient(conn).SendMessage(under(), m); err == nil {
				task = resp.GetTask().GetId()
			}
			continue
		}
		got, err := a2apb.NewA2AServiceClient(conn).GetTask(under(), &a2apb.GetTaskRequest{Id: task})
		if err != nil || !mesh.Terminal(got.GetStatus().GetState()) {
			continue
		}
		said = strings.TrimPrefix(got.GetStatus().GetState().String(), "TASK_STATE_")
		for _, a := range got.GetArtifacts() {
			said += " " + textOf(a.GetParts())
		}
		break
	}
	for log == nil && task != "" && time.Now().Before(over) {
		log = readAll(under(), meshv1.NewThreadServiceClient(conn), id)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "effects"))
	return said, log, strings.Split(strings.TrimSpace(string(data)), "\n")
}

func readAll(ctx context.Context, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	resp, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id, Limit: 1000})
	if err != nil {
		return nil
	}
	return resp.GetEvents()
}

// finding R7: a run of a node, an agent that has others work and one that works, each in a
// process of its own, is killed before or after any append, the node, an agent, or all, and
// ends as it would have: each effect once, each result once, and the same words.
func TestARunSurvivesKill9AtEveryAppend(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	want, log, effects := survive(t, "never", 0)
	if want != "COMPLETED I ask two.\n\nBoth are done: 1, 1." || len(effects) != 2 {
		for _, e := range log {
			t.Log(e)
		}
		t.Fatalf("without a kill, it ended %q with %d effects", want, len(effects))
	}
	type kill struct {
		when  string
		n     int
		roles []string
	}
	var kills []kill
	for n := 1; n <= len(log); n++ {
		for _, when := range []string{"before", "after"} {
			for _, roles := range [][]string{{"surviving-mesh"}, {"surviving-lead"}, {"surviving-worker"}, {"surviving-lead", "surviving-worker", "surviving-mesh"}} {
				kills = append(kills, kill{when, n, roles})
			}
		}
	}
	if !*everyKill {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
		kills = kills[:4]
	}
	for _, k := range kills {
		t.Run(fmt.Sprintf("%s %d %s", k.when, k.n, strings.Join(k.roles, " ")), func(t *testing.T) {
			got, log, effects := survive(t, k.when, k.n, k.roles...)
			slices.Sort(effects)
			if got != want || len(slices.Compact(slices.Clone(effects))) != len(effects) {
				t.Errorf("it ended %q after the effects %q", got, effects)
			}
			settled, ends := map[string]int{}, 0
			for _, e := range log {
				if s := e.GetDispatchSettled(); s != nil {
					settled[s.GetChild()]++
				}
				if m := e.GetTaskMoved(); m != nil && mesh.Terminal(m.GetState()) {
					ends++
				}
			}
			for id, n := range settled {
				if n != 1 {
					t.Errorf("%s is settled %d times", id, n)
				}
			}
			if len(settled) != 3 || ends != 1 {
				t.Errorf("%d agents are settled, and the turn ended %d times", len(settled), ends)
			}
			if t.Failed() {
				for _, e := range log {
					t.Log(e)
				}
			}
		})
	}
}
