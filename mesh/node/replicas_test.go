package node_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
)

// A question is answered to the process that asked it, which knows what it asks about; when
// that has left, another one goes on, because what was done is in the thread.
func TestAnAnswerGoesToTheProcessThatAsked(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	var leave [3]func()
	for i := range leave {
		ctx, stop := context.WithCancel(context.Background())
		ready, done := make(chan struct{}), make(chan error, 1)
		asker := testAgent{"asker", func(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				if !inv.Resumed {
					yield(agent.Ask{Text: fmt.Sprintf("Which one? asks %d", i)}, nil)
					return
				}
				yield(agent.Text{Text: fmt.Sprintf("%s it is, says %d", inv.Text(), i)}, nil)
			}
		}}
		go func() {
			done <- agent.Serve(ctx, agent.Options{Agent: asker, NodeAddr: m.Any().GRPC, Register: &agent.Registration{Name: "asker", Replica: true},
				Ready: func(string) { close(ready) }})
		}()
		left := false
		leave[i] = func() {
			if stop(); !left {
				if err := <-done; err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
			left = true
		}
		t.Cleanup(leave[i])
		<-ready
	}
	// asked begins a task and returns the number of the process that asks, and the task.
	tell := func(thread, text, task string) said {
		t.Helper()
		req := say(text)
		req.Message.ContextId, req.Message.TaskId = thread, task
		call, _ := mesh.CallFrom(in(t, thread))
		call.Agent = "asker"
		stream, err := m.edge().SendStreamingMessage(mesh.WithCall(in(t, thread), call), req)
		return hear(t, stream, err)
	}
	asks := func(thread string) (by int, task string) {
		t.Helper()
		h := tell(thread, "hi", "")
		if _, err := fmt.Sscanf(strings.Join(h.status, ""), "Which one? asks %d", &by); err != nil || h.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			t.Fatalf("heard %q, %v", h.status, h.state)
		}
		return by, h.task.GetId()
	}
	for range 4 {
		thread := mesh.NewThreadID()
		by, task := asks(thread)
		if h := tell(thread, "blue", task); h.text != fmt.Sprintf("blue it is, says %d", by) {
			t.Errorf("asked by %d, heard %q", by, h.text)
		}
	}
	thread := mesh.NewThreadID()
	by, task := asks(thread)
	leave[by]()
	if h := tell(thread, "red", task); !strings.HasPrefix(h.text, "red it is, says ") || strings.HasSuffix(h.text, fmt.Sprint(by)) {
		t.Errorf("asked by %d, which has left: heard %q, %v %q", by, h.text, h.state, h.status)
	}
}

// survivingReplica serves one process of the main agent, which tells who has begun on what,
// and ends when it is told to.
func survivingReplica() error {
	return agent.Serve(context.Background(), agent.Options{NodeAddr: os.Getenv(surviveNode), Ready: func(string) { fmt.Println("ready") },
		Register: &agent.Registration{Name: "lead", Replica: true},
		Agent: testAgent{"lead", func(ctx context.Context, _ *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				if err := effect(strconv.Itoa(os.Getpid())); err != nil || !yield(agent.Text{Text: "I am "}, nil) {
					yield(nil, err)
					return
				}
				for ctx.Err() == nil {
					if _, err := os.Stat(os.Getenv(surviveEffects) + ".go"); err == nil {
						yield(agent.Text{Text: "done"}, nil)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		}}})
}

// awaits waits for what is to become so, for as long as tests of processes may take.
func awaits(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// finding O9: the log says which process has a turn. So a node that was killed and begins
// anew goes on with it there, although another process of the agent is the first to register
// again, and neither of them does the work twice.
func TestATurnGoesOnAtTheProcessThatHasIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	dir := t.TempDir()
	at, effects := rpctest.Free(t), filepath.Join(dir, "effects")
	ctx, stop := context.WithCancel(context.Background())
	p := &troupe{t: t, ctx: ctx, pids: map[string]int{}, env: []string{
		surviveNode + "=" + at, "MESH_TEST_DATA=" + filepath.Join(dir, "data"), surviveEffects + "=" + effects}}
	defer p.wg.Wait()
	defer stop()
	for _, role := range []string{"surviving-mesh", "surviving-replica", "surviving-replica"} {
		p.up(role)
	}
	conn, id := reached(t, at), mesh.NewThreadID()
	under := mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI}})
	live := func() (ids []string) {
		a, err := meshv1.NewRegistryServiceClient(conn).GetAgent(under, &meshv1.GetAgentRequest{Name: "lead"})
		for _, in := range a.GetAgent().GetInstances() {
			if err == nil && in.GetLive() {
				ids = append(ids, in.GetId())
			}
		}
		return ids
	}
	has := func() (instance string) {
		all, err := meshv1.NewExecutionServiceClient(conn).ListExecutions(under, &meshv1.ListExecutionsRequest{ThreadId: id})
		if err == nil && len(all.GetExecutions()) == 2 {
			instance = all.GetExecutions()[1].GetInstance()
		}
		return instance
	}
	awaits(t, "two processes are there", func() bool { return len(live()) == 2 })
	m := say("go")
	m.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	sent, err := a2apb.NewA2AServiceClient(conn).SendMessage(under, m)
	if err != nil {
		t.Fatal(err)
	}
	awaits(t, "one of them has it", func() bool { return has() != "" })
	holder := has()
	begun, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(begun)))
	if err != nil {
		t.Fatal(err)
	}
	signals(pid, suspends) // so that it is not the first
	p.mu.Lock()
	signals(p.pids["surviving-mesh"], syscall.SIGKILL)
	p.mu.Unlock()
	var back []string
	defer func() {
		if t.Failed() {
			t.Logf("it was at process %s; live were at last %v", holder, back)
		}
	}()
	awaits(t, "the other one is back", func() bool { back = live(); return len(back) == 1 && back[0] != holder })
	time.Sleep(500 * time.Millisecond) // in which it would have got the message
	signals(pid, goesOn)
	if err := os.WriteFile(effects+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var done *a2apb.Task
	awaits(t, "it is done", func() bool {
		done, err = a2apb.NewA2AServiceClient(conn).GetTask(under, &a2apb.GetTaskRequest{Id: sent.GetTask().GetId()})
		return err == nil && mesh.Terminal(done.GetStatus().GetState())
	})
	after, _ := os.ReadFile(effects)
	if got := textOf(done.GetArtifacts()[0].GetParts()); got != "I am done" || string(after) != string(begun) || has() != holder {
		t.Errorf("%v, %q; the work was begun by %q, and %s has it", done.GetStatus(), got, after, has())
	}
}

// survivingTwin serves one process of an agent that has an effect, once, and does not come to
// its end in the process that had it.
func survivingTwin() error {
	return agent.Serve(context.Background(), agent.Options{NodeAddr: os.Getenv(surviveNode), Ready: func(string) { fmt.Println(os.Getpid()) },
		Register: &agent.Registration{Name: "worker", Replica: true},
		Agent: testAgent{"worker", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				did, err := inv.Mesh.Actions(ctx)
				if err != nil {
					yield(nil, err)
					return
				}
				if c := did.Call("c"); c != nil {
					yield(agent.Text{Text: fmt.Sprintf("%d reads %q in the log", os.Getpid(), c.Content)}, nil)
					return
				}
				if !yield(agent.Text{Text: "I do it"}, nil) {
					return
				}
				if _, err = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillCalled{Call: "c", Skill: "worker.do", Args: `{}`, Source: mesh.SourceUseSkill}}); err == nil {
					err = effect(strconv.Itoa(os.Getpid()))
				}
				if err == nil {
					_, err = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.SkillReturned{Call: "c", Content: "it is done"}})
				}
				if err == nil {
					err = os.WriteFile(os.Getenv(surviveEffects)+".done", nil, 0o600)
				}
				if err != nil {
					yield(nil, err)
				}
				<-ctx.Done()
			}
		}}})
}

// Where the process is killed that has an execution, after its first word and its effect,
// another one gets the message under the same execution, though the agent does not declare
// that it is idempotent: it speaks our extension, reads in the log what was done, and does
// nothing of it again. So it is for who dispatched it, and for the turn of a user.
func TestAnotherProcessGoesOnAndRepeatsNoEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	for main, by := range map[string]func(env node.Env) run{
		"lead":   consulting(dispatch.Order{AgentID: "a", Name: "worker", Mission: "do it", Skills: []string{}}),
		"worker": nil,
	} {
		t.Run(main, func(t *testing.T) {
			t.Parallel()
			cfg := config(t.TempDir())
			cfg.Main = main
			var opts []func(*node.Options)
			if by != nil {
				opts = append(opts, builtin(main, by))
			}
			m := start(t, cfg, map[string]run{}, opts...)
			effects := filepath.Join(t.TempDir(), "effects")
			kill := map[string]func(){}
			for range 2 {
				said, stop := child(t, "surviving-twin", surviveNode+"="+m.Any().GRPC, surviveEffects+"="+effects)
				kill[said[0]] = stop
			}
			stream, err := m.edge().SendStreamingMessage(in(t, mesh.NewThreadID()), say("go"))
			killed := make(chan string, 1)
			go func() { // the channel is read below
				for range 3000 {
					if _, err := os.Stat(effects + ".done"); err == nil {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
				had, _ := os.ReadFile(effects)
				who := strings.TrimSpace(string(had))
				if kill[who] != nil {
					kill[who]()
				}
				killed <- who
			}()
			h := hear(t, stream, err)
			who := <-killed
			had, _ := os.ReadFile(effects)
			if h.state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(h.text, `reads "it is done" in the log`) || strings.TrimSpace(string(had)) != who || strings.Contains(h.text, who+" reads") {
				t.Errorf("the process %s had the effect and was killed; heard %v %q, and had were the effects of %q", who, h.state, h.text, had)
			}
		})
	}
}
