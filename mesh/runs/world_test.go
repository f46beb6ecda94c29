package runs_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/call"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

// A world is a store, and a real edge over it whose agents are functions. It
// lives in a bubble of synctest.
type world struct {
	*edge.Edge
	turns  *turn.Runner
	t      *testing.T
	store  *mem.Store
	kv     *state.KV
	states *cache.States
	agents *agents
	runner *runs.Runner
	close  func()
}

// inBubble runs the test with a world.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, mem.Open(), new(agents))
		defer w.close()
		test(t, w)
	})
}

// open makes a world over what another left.
func open(t *testing.T, store *mem.Store, a *agents) *world {
	t.Helper()
	w := &world{t: t, store: store, kv: state.New(store), agents: a}
	log := threadlog.New(store)
	w.states = cache.New(log, 0)
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	w.turns, err = turn.New(turn.Config{
		Log: log, States: w.states, Leases: lease.NewLocal(nil), Directory: a, Dialer: a, Signer: signer,
		Main: "main", Node: "node", CancelGrace: time.Second, Interrupt: true, Limits: call.Limits{Time: 24 * time.Hour, Silence: 24 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Edge, err = edge.New(edge.Config{
		Log: log, States: w.states, Directory: a, Turns: w.turns,
		Card: func(context.Context, mesh.TenantID) (*a2apb.AgentCard, error) {
			return &a2apb.AgentCard{Name: "edge"}, nil
		},
		Main: "main",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runner, err = runs.New(runs.Config{Edge: w.Edge, Threads: w.states, KV: w.kv})
	if err != nil {
		t.Fatal(err)
	}
	w.close = sync.OnceFunc(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		w.Edge.Close()
		if err := w.turns.Close(now); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// agents are the agents of a world: the one that runs skills, which does what
// the test says.
type agents struct {
	// do is what a call of a skill comes to; nil completes it with "Done.".
	do func(ctx context.Context, c skillCall) result

	mu    sync.Mutex
	gone  bool // there is no agent
	calls []skillCall
}

// A skillCall is what the agent was asked.
type skillCall struct {
	at       time.Time
	tenant   mesh.TenantID
	user     string
	thread   string
	skill    string
	args     map[string]any
	source   string
	approved bool
	text     string
}

func (c skillCall) String() string {
	return fmt.Sprintf("%s %s/%s %s %s", c.at.UTC().Format("01-02 15:04"), c.tenant, c.user, c.source, c.skill)
}

type result struct {
	state    mesh.TaskState // completed by default
	said     string         // with the state
	text     string
	files    []any
	metadata map[string]any
}

func (a *agents) Resolve(_ mesh.TenantID, name string) (registry.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone || name != "worker" {
		return registry.Entry{}, mesh.Errorf(mesh.NotFound, "agents", "there is no agent of that name")
	}
	return registry.Entry{Name: name, Endpoint: "worker:1", Card: &a2apb.AgentCard{Name: name, Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}}, Builtin: true}, nil
}

func (a *agents) List(t mesh.TenantID, _ registry.Filter) []registry.Entry {
	e, err := a.Resolve(t, "worker")
	if err != nil {
		return nil
	}
	return []registry.Entry{e}
}

func (*agents) ReportDown(registry.Entry, error) {}

func (a *agents) Dial(call.Target) (call.Client, error) { return client{agents: a}, nil }

func (a *agents) leave(gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = gone
}

// seen returns the calls so far, by time.
func (a *agents) seen() []skillCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := slices.Clone(a.calls)
	slices.SortStableFunc(list, func(x, y skillCall) int { return x.at.Compare(y.at) })
	return list
}

// client is the agent as its callers see it.
type client struct {
	call.Client // what is not needed here
	*agents
}

func (c client) CancelTask(context.Context, string) error { return nil }

func (c client) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		m := req.GetMessage()
		id, _ := mesh.CallFrom(ctx)
		f := a2a.Extension(m.GetMetadata()).GetFields()["skill_call"].GetStructValue().GetFields()
		asked := skillCall{at: time.Now(), tenant: id.Principal.Tenant, user: id.Principal.User, thread: id.Thread, skill: f["skill"].GetStringValue(),
			args: f["arguments"].GetStructValue().AsMap(), source: f["source"].GetStringValue(), approved: f["approved"].GetBoolValue(), text: a2a.TextOf(m)}
		c.mu.Lock()
		c.calls = append(c.calls, asked)
		c.mu.Unlock()
		task := &a2apb.Task{Id: cmp.Or(m.GetTaskId(), "remote-"+m.GetMessageId()), ContextId: m.GetContextId(), Status: &a2apb.TaskStatus{State: working}}
		if !yield(call.Response{StreamResponse: a2a.TaskResponse(task)}, nil) {
			return
		}
		var r result
		if c.do == nil {
			r.text = "Done."
		} else {
			r = c.do(ctx, asked)
		}
		for _, resp := range r.responses(task) {
			if !yield(call.Response{StreamResponse: resp}, nil) {
				return
			}
		}
	}
}

// responses are what the agent says at the end.
func (r result) responses(t *a2apb.Task) (list []*a2apb.StreamResponse) {
	artifact := func(id, name string, part *a2apb.Part) {
		list = append(list, a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{TaskId: t.Id, ContextId: t.ContextId,
			Artifact: &a2apb.Artifact{ArtifactId: id, Name: name, Parts: []*a2apb.Part{part}}}))
	}
	if r.text != "" {
		artifact(agent.ResponseArtifact, "", a2a.TextPart(r.text))
	}
	if r.files != nil || r.metadata != nil {
		v, err := structpb.NewValue(map[string]any{"files": r.files, "metadata": r.metadata})
		if err != nil {
			panic(err)
		}
		artifact("data", skilltools.ResultData, a2a.DataPart(v))
	}
	status := &a2apb.TaskStatus{State: r.state}
	if r.state == 0 {
		status.State = completed
	}
	if r.said != "" {
		status.Message = a2a.NewMessage(a2apb.Role_ROLE_AGENT, r.said)
	}
	return append(list, a2a.StatusResponse(&a2apb.TaskStatusUpdateEvent{TaskId: t.Id, ContextId: t.ContextId, Status: status}))
}

// takes is an agent that needs so long.
func takes(d time.Duration) func(context.Context, skillCall) result {
	return func(ctx context.Context, c skillCall) result {
		select {
		case <-time.After(d):
			return result{text: "Done after " + d.String() + "."}
		case <-ctx.Done():
			return result{state: canceled}
		}
	}
}

// as is the context of a user who may talk to agents, and answers for the scheduler.
func (w *world) as(tenant mesh.TenantID, user string) context.Context {
	return mesh.WithCall(w.t.Context(), mesh.Call{
		Principal:  mesh.Principal{Tenant: tenant, User: user, Roles: []mesh.Role{mesh.RoleUser, mesh.RoleApprover}},
		Extensions: []string{mesh.ExtensionURI},
	})
}

// run runs a skill for ann of acme.
func (w *world) run(req *meshv1.RunSkillRequest) *meshv1.RunSkillResponse {
	w.t.Helper()
	res, err := w.runner.RunSkill(w.as("acme", "ann"), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func wantCode(t *testing.T, err error, code mesh.Code, field string) {
	t.Helper()
	if !mesh.IsCode(err, code) || mesh.FieldOf(err) != field {
		t.Errorf("error is %v; want one that is %v about %q", err, code, field)
	}
}

// page is the file of a skill with a schedule.
func page(name, schedule, zone string) []byte {
	text := "---\nname: " + name + "\ndescription: Does it.\n"
	if schedule != "" {
		text += "schedule: \"" + schedule + "\"\n"
	}
	if zone != "" {
		text += "timezone: " + zone + "\n"
	}
	return []byte(text + "---\nDo it.\n")
}

func parse(t *testing.T, name, schedule, zone string) *skill.Skill {
	t.Helper()
	s, err := skill.Parse("", page(name, schedule, zone))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
