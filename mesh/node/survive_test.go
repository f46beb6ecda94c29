package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/threadlog"
)

// The environment of the processes of such a run.
const (
	surviveNode    = "MESH_TEST_NODE"    // the address of the node
	surviveDie     = "MESH_TEST_DIE"     // before which append, or after, somebody dies, and by which signal
	surviveVictims = "MESH_TEST_VICTIMS" // the file with their pids; 0 is the node
	surviveAppends = "MESH_TEST_APPENDS" // the file with a byte for each append
	surviveEffects = "MESH_TEST_EFFECTS" // the file that has the effects
	surviveProfile = "MESH_TEST_PROFILE" // of who leads
)

// A dying store kills whoever is to die before or after its n-th append.
type dying struct {
	threadlog.Backend
	mu    sync.Mutex
	n, at int
	after bool
	by    syscall.Signal
}

func (d *dying) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	d.mu.Lock()
	d.n++
	now := d.n == d.at
	err := appendTo(os.Getenv(surviveAppends), ".")
	d.mu.Unlock()
	if err != nil {
		return threadlog.Appended{}, err
	}
	if now && !d.after {
		killVictims(d.by)
	}
	done, err := d.Backend.Append(ctx, k, b)
	if now && d.after {
		killVictims(d.by)
	}
	return done, err
}

// killVictims is kill of those who are to die; of this process last.
func killVictims(by syscall.Signal) {
	data, err := os.ReadFile(os.Getenv(surviveVictims))
	if err != nil {
		panic(err)
	}
	self := false
	for _, line := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(line)
		if self = self || pid == 0; err == nil && pid != 0 {
			signals(pid, by)
		}
	}
	if self {
		signals(os.Getpid(), by)
	}
	if self && by == syscall.SIGKILL {
		select {}
	}
}

// untilTold ends with SIGTERM: the process stops, and cuts off what is at work.
func untilTold() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return ctx
}

// survivingMesh runs a node, as [meshChild] does, whose address is known before.
func survivingMesh() error {
	cfg := config(os.Getenv("MESH_TEST_DATA"))
	cfg.Main, cfg.GRPC, cfg.Grace = "lead", os.Getenv(surviveNode), time.Millisecond
	var when string
	var n int
	var by syscall.Signal
	_, _ = fmt.Sscan(os.Getenv(surviveDie), &when, &n, &by)
	open := datafolder.Opener(nil)
	return node.Run(untilTold(), cfg, node.Options{
		Backend: func(cfg node.Config, address string) (node.Backend, error) {
			b, err := open(cfg, address)
			if err == nil && when != "" {
				b.Threads = &dying{Backend: b.Threads, at: n, after: when == "after", by: by}
			}
			return b, err
		},
		Ready: func(node.Addresses) { fmt.Println("ready") },
	})
}

// survivingAgents serves agents in this process.
func survivingAgents(of func(name string) run, names ...string) error {
	ready, ended := make(chan struct{}, len(names)), make(chan error, len(names))
	ctx := untilTold()
	for _, name := range names {
		go func() { // until the process ends
			ended <- agent.Serve(ctx, agent.Options{Agent: testAgent{name, of(name)}, NodeAddr: os.Getenv(surviveNode), Drain: time.Millisecond,
				Register: &agent.Registration{Name: name}, Ready: func(string) { ready <- struct{}{} }})
		}()
	}
	for range names {
		select {
		case <-ready:
		case err := <-ended:
			return err
		}
	}
	fmt.Println("ready")
	var err error
	for range names {
		err = cmpErr(<-ended, err)
	}
	return err
}

// A job is to be done by the agent, after others.
type job struct {
	id, agent string
	after     []string
}

var jobs = []job{{"a", "worker", nil}, {"b", "helper", nil}, {"c", "clerk", []string{"a"}}, {"d", "scribe", []string{"a", "b"}}, {"e", "worker", []string{"c", "d"}}}

// planner is a model that has agents of four names do five jobs, and says that they did, and
// how often it was told of each. With push it has nothing to say until it knows of all.
type planner struct{ profile dispatch.Profile }

func (p planner) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		said := slices.IndexFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleAssistant })
		var told strings.Builder
		collects := p.profile != dispatch.ProfilePush
		for i, m := range req.Messages[said+1:] {
			if p.profile == dispatch.ProfilePush || said+1+i == len(req.Messages)-1 { // what is collected has all that was told before
				told.WriteString(m.Text)
			}
			collects = collects && !slices.ContainsFunc(m.Tools, func(u mesh.ToolUse) bool { return u.Name == dispatch.ToolResults })
		}
		times := func(id string) int { return strings.Count(told.String(), "did "+id) }
		use := func(id, tool, args string) bool {
			return yield(llm.Chunk{Tool: &mesh.ToolUse{ID: id, Name: tool, Arguments: args}}, nil)
		}
		ok, done := true, llm.Done{Finish: "tool_calls"}
		switch {
		case said < 0:
			ok = yield(llm.Chunk{Text: "I have it done."}, nil)
			for _, j := range jobs {
				order, _ := json.Marshal(map[string]any{"agent_id": j.id, "mission": "do " + j.id, "name": j.agent, "skills": []string{}, "depends_on": j.after})
				ok = ok && use("call-"+j.id, dispatch.ToolDispatch, string(order))
			}
		case collects:
			ok = use("collect", dispatch.ToolResults, `{}`)
		case slices.ContainsFunc(jobs, func(j job) bool { return times(j.id) == 0 }): // it waits
			done.Finish = "stop"
		default:
			done.Finish = "stop"
			ok = yield(llm.Chunk{Text: "All are done:"}, nil)
			for _, j := range jobs {
				ok = ok && yield(llm.Chunk{Text: fmt.Sprintf(" %d", times(j.id))}, nil)
			}
		}
		if ok {
			yield(llm.Chunk{Done: &done}, nil)
		}
	}
}

func lead(string) run { return leading }

func leading(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		pool := rpc.NewPool(rpc.DialOptions{})
		defer func() { _ = pool.Close() }()
		profile := dispatch.Profile(os.Getenv(surviveProfile))
		d := dispatch.New(ctx, inv, pool, dispatch.Options{Profile: profile})
		defer d.Close()
		tools := dispatch.NewOrchestration(d)
		o := modelrun.Options{Model: planner{profile}, Tools: tools}
		if profile == dispatch.ProfilePush {
			o.Collector = tools
		}
		modelrun.Run(ctx, inv, o)(yield)
	}
}

// doer is an agent that makes one call, which has its effect once at most, and says that it
// did.
func doer(name string) run {
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			what, _, _ := strings.Cut(inv.Text(), "\n")
			if !yield(agent.Text{Text: "I "}, nil) {
				return
			}
			did, err := inv.Mesh.Actions(ctx)
			if err == nil && did.Call("c") == nil {
				if _, err = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillCalled{Call: "c", Skill: name + ".do", Args: `{}`, Source: mesh.SourceUseSkill}}); err == nil {
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
}

func effect(what string) error { return appendTo(os.Getenv(surviveEffects), what+"\n") }

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return cmpErr(err, f.Close())
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A troupe is the processes of a run: a node, who leads, and those with workers. Who dies is
// started again.
type troupe struct {
	t       *testing.T
	env     []string
	victims string
	wg      sync.WaitGroup
	ctx     context.Context

	mu     sync.Mutex
	pids   map[string]int
	killed []string // the roles that kill -9 ended, once for each time, and those that stopped
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
			p.mu.Lock()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && (status.Signal() == syscall.SIGKILL || status.Exited() && !slices.Contains(p.killed, role)) && p.ctx.Err() == nil {
				p.killed = append(p.killed, role)
			}
			p.mu.Unlock()
		}
	})
	select {
	case <-started:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s did not start", role)
	}
}
