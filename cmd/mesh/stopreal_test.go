package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/rpc/rpctest"
)

// finding R7: a stop that cuts off a turn loses none of its work, as kill -9 does not: the
// agent that was at work goes on, whoever waited for it waits again, and its result is told,
// once, whether it is fetched or brought; when the node stops, with the orchestrator that is
// consulted, and when the process of an orchestrator does.
func TestCtrlCLosesNoResultOfAnAgentThatIsAtWork(t *testing.T) {
	for name, tt := range map[string]struct {
		profile  string
		apart    bool // the orchestrator, whose process is stopped
		collects bool
		order    string
	}{
		"push":              {"push", false, false, `{"name":"helper","task":"Find alpha"}`},
		"collect":           {"collect", false, true, `{"agent_id":"a","name":"helper","mission":"Find alpha","skills":["tasks.search"]}`},
		"full":              {"full", false, true, `{"agent_id":"a","name":"helper","mission":"Find alpha"}`},
		"full, not fetched": {"full", false, false, `{"agent_id":"a","name":"helper","mission":"Find alpha"}`},
		"full, apart":       {"full", true, true, `{"agent_id":"a","name":"helper","mission":"Find alpha"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planner := "orchestrator"
			if tt.apart {
				planner = "planner"
			}
			after := scripted.Say("I wait.")
			if tt.collects {
				after = scripted.Call("get_agent_results", `{}`)
			}
			model := scripted.New(scripted.Call("consult_agent", fmt.Sprintf(`{"agent":%q,"task":"Report"}`, planner)).For(ofMain),
				scripted.Call("dispatch_agent", tt.order).For(ofPlanner), after.For(ofPlanner),
				scripted.Wait("go").Say("Alpha is open.").For(ofWorker),
				scripted.Say("It is alpha.").For(ofPlanner).For(scripted.Last("Alpha is open.")),
				scripted.Say("Alpha alone is open.").For(ofMain).For(scripted.Last("It is alpha.")))
			s := stopped{t: t, model: model, apart: tt.apart, thread: mesh.NewThreadID()}
			events, text := s.run(fmt.Sprintf("grace: 1s\ndefaults: {orchestrator: {profile: %s}}\n", tt.profile))
			if !strings.HasSuffix(text, "Alpha alone is open.") {
				t.Errorf("the answer is %q", text)
			}
			told, ends := 0, 0
			for _, e := range events {
				told += len(e.GetToolReturned().GetDelivered()) + len(e.GetResultsDelivered().GetExecutions())
				if d := e.GetDispatchSettled(); d != nil {
					if ends++; d.GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
						t.Errorf("%s ended %s %s", d.GetChild(), d.GetState(), d.GetReason())
					}
				}
				if r := e.GetToolReturned(); r.GetFailed() || strings.Contains(r.GetContent(), `"running"`) {
					t.Errorf("%s returned %q", r.GetName(), r.GetContent())
				}
			}
			if told != 2 || ends != 3 {
				t.Errorf("models were told of %d results, want those of the helper and the orchestrator; %d executions ended, want those and main's", told, ends)
			}
			if left := model.Left(); left != 0 {
				t.Errorf("%d steps of the script are left", left)
			}
		})
	}
}

// A stopped is a turn that Ctrl-C of a process cuts off.
type stopped struct {
	t      *testing.T
	model  *scripted.Model
	apart  bool
	thread string
}

// run returns what the log has in the end, and the answer.
func (s *stopped) run(settings string) (events []*meshv1.Event, text string) {
	t := s.t
	endpoint := httptest.NewServer(scripted.Handler(s.model))
	t.Cleanup(endpoint.Close)
	dir, at := t.TempDir(), rpctest.Free(t)
	writeFile(t, filepath.Join(dir, "mesh.yaml"), settings+"model: {url: "+endpoint.URL+"/v1, name: scripted, key: none, retries: -1}\n")
	agent := func(kind, name string) *process {
		p := launch(t, dir, "mesh", nil, "agent", "run", kind, "--name", name, "--mesh", at, "--config", "mesh.yaml", "--data", "data-"+name)
		p.shows("Ctrl-C stops it")
		return p
	}
	m := up(t, dir, "--grpc", at)
	agent("worker", "helper")
	var planner *process
	if s.apart {
		planner = agent("orchestrator", "planner")
	}
	req := userMessage(s.thread, "What is open?")
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	sent, err := m.edge().SendMessage(inThread(t, s.thread), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.model.WaitBlocked(timely(t), 1); err != nil {
		t.Fatal(err)
	}
	for ctx := timely(t); len(s.model.Requests()) < 4; time.Sleep(5 * time.Millisecond) { // who ordered waits
		if ctx.Err() != nil {
			t.Fatal("the orchestrator does not wait")
		}
	}
	if s.apart {
		planner.signal(os.Interrupt)
		planner.wait()
		agent("orchestrator", "planner")
	} else {
		m.signal(os.Interrupt)
		m.wait()
		m = up(t, dir, "--grpc", at)
	}
	s.model.Release("go")
	task := sent.GetTask()
	for ctx := inThread(t, s.thread); !mesh.Terminal(task.GetStatus().GetState()); time.Sleep(20 * time.Millisecond) {
		if task, err = m.edge().GetTask(ctx, &a2apb.GetTaskRequest{Id: task.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	return m.log(s.thread), taskText(task)
}
