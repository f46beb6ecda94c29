package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A crew is a turn in which an orchestrator has dispatched agents.
type crew struct {
	*library
	*Executions
	ended []mesh.ExecutionID // whose agents were told
	turn  mesh.ExecutionID
	boss  *mesh.Grant
	ids   map[string]mesh.ExecutionID // by label
}

func newCrew(t *testing.T, labels ...string) *crew {
	t.Helper()
	l := newLibrary(t)
	c := &crew{library: l, turn: l.post(t), ids: map[string]mesh.ExecutionID{}}
	c.Executions = NewExecutions(l.Threads, c.end, func(_ mesh.TenantID, agent string) bool { return agent != "foreign" })
	c.boss = l.run(t, c.turn, "orchestrator")
	for _, label := range labels {
		c.dispatch(t, c.boss.Execution, "worker", label)
	}
	return c
}

func (c *crew) end(_ context.Context, _ mesh.ThreadKey, waiting []thread.Execution) {
	for _, x := range waiting {
		c.ended = append(c.ended, x.ID)
	}
}

func (c *crew) dispatch(t *testing.T, parent mesh.ExecutionID, agent, label string) mesh.ExecutionID {
	t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(c.key.ID), Parent: parent, Kind: mesh.KindAgent, Agent: agent, User: "ann", Label: label,
		Text: "do " + label, Skills: []string{"mail.send"}}
	if before := c.ids["a"]; label == "b" {
		x.DependsOn = []mesh.ExecutionID{before}
	}
	c.log(t, parent, mesh.DispatchIssued{Child: x})
	c.ids[label] = x.ID
	return x.ID
}

// log adds facts and decisions about an execution.
func (c *crew) log(t *testing.T, id mesh.ExecutionID, bodies ...mesh.Body) {
	t.Helper()
	for _, b := range bodies {
		if err := c.decide(t.Context(), &mesh.Event{ID: mesh.NewEventID(), Execution: id, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *crew) list(t *testing.T, req *meshv1.ListExecutionsRequest) []string {
	t.Helper()
	req.ThreadId = c.key.ID
	var out []string
	for {
		resp, err := c.ListExecutions(user(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range resp.GetExecutions() {
			name := x.GetExecution().GetLabel()
			if name == "" {
				name = x.GetExecution().GetAgent()
			}
			out = append(out, fmt.Sprintf("%d %s %s %s", x.GetDepth(), name, x.GetStatus(), x.GetReason()))
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return out
		}
	}
}

// finding O8: whoever looks sees of an order what it was told besides, its wave, for what it
// waits, also where no event says so, and whether its result was delivered.
func TestAnOrderSaysForWhatItWaits(t *testing.T) {
	c := newCrew(t)
	accept := func(label, context string, wave int, after ...mesh.ExecutionID) mesh.ExecutionID {
		x := mesh.Execution{ID: mesh.NewExecutionID(c.key.ID), Parent: c.boss.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Label: label, Text: "do " + label, DependsOn: after}
		c.log(t, c.boss.Execution, mesh.DispatchAccepted{Child: x, Context: context, Wave: wave})
		return x.ID
	}
	a := accept("a", "in haste", 1)
	b := accept("b", "", 2, a)
	queued := accept("c", "", 1)
	c.log(t, queued, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_SUBMITTED, Reason: mesh.ReasonQueued})
	want := []string{"0 main pending ", "1 orchestrator running ", "2 a pending AWAITS_PLACE", "2 b pending AWAITS_DEPENDENCY", "2 c pending NODE_BUSY"}
	if got := c.list(t, &meshv1.ListExecutionsRequest{}); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: a, State: a2apb.TaskState_TASK_STATE_COMPLETED}, mesh.ResultsDelivered{Executions: []mesh.ExecutionID{a}, Text: "done"})
	for id, want := range map[mesh.ExecutionID]string{a: " in haste 1 true", b: "AWAITS_PLACE  2 false"} {
		got, err := c.GetExecution(user(t), &meshv1.GetExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(id)})
		if x := got.GetExecution(); err != nil || fmt.Sprint(x.GetReason(), " ", x.GetContext(), " ", x.GetWave(), " ", x.GetDelivered()) != want {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// S1-010, S1-060, S1-061, S1-062, S1-064, S1-072, S1-076, S1-079, S1-082, S1-093,
// S1-103, S1-105, S1-108, S1-111: whatever an agent was asked is an execution of the same
// turn, below who asked for it, with its task, its true state and what it and all below
// it came to; a failure below is not one above. S1-077: of an orchestrator that is the turn's
// only agent nobody is beside it, and all are below.
func TestExecutionsAreATreeWithTotals(t *testing.T) {
	c := newCrew(t, "a", "b", "c")
	deep := c.dispatch(t, c.ids["c"], "worker", "deep")
	called := func(id string) []mesh.Body {
		return []mesh.Body{mesh.ModelReplied{Usage: mesh.Usage{Prompt: 10, Completion: 1, Cost: 0.5}},
			mesh.SkillCalled{Call: id, Skill: "mail.send", Args: `{"to":"bob"}`}, mesh.SkillReturned{Call: id, Content: "sent"}, mesh.ToolReturned{Call: "t" + id, Name: "get_skill"}}
	}
	c.log(t, c.boss.Execution, mesh.ModelReplied{Usage: mesh.Usage{Prompt: 100, Completion: 7}})
	c.log(t, c.ids["a"], called("1")...)
	c.log(t, deep, called("2")...)
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["a"], State: a2apb.TaskState_TASK_STATE_FAILED, Result: "no such mailbox", Reason: mesh.ReasonTimeout})
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["b"], State: a2apb.TaskState_TASK_STATE_REJECTED, Reason: "DEPENDENCY_FAILED"})

	want := []string{"0 main pending ", "1 orchestrator running ", "2 a timeout TIMEOUT", "2 b skipped DEPENDENCY_FAILED", "2 c running ", "3 deep running "}
	if got := c.list(t, &meshv1.ListExecutionsRequest{}); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if got := c.list(t, &meshv1.ListExecutionsRequest{PageSize: 1}); !slices.Equal(got, want) {
		t.Errorf("page by page %q", got)
	}
	if got := c.list(t, &meshv1.ListExecutionsRequest{ParentId: string(c.turn)}); !slices.Equal(got, want[1:2]) {
		t.Errorf("the sole agent of the turn is %q", got)
	}
	if got := c.list(t, &meshv1.ListExecutionsRequest{ParentId: string(c.boss.Execution), Statuses: []string{"running", "timeout"}, TurnId: string(c.turn)}); !slices.Equal(got, []string{want[2], want[4]}) {
		t.Errorf("filtered %q", got)
	}
	other := c.post(t) // another turn, in which nobody is dispatched
	if got := c.list(t, &meshv1.ListExecutionsRequest{TurnId: string(other)}); !slices.Equal(got, []string{"0 main pending "}) {
		t.Errorf("a turn without agents: %q", got)
	}
	all, err := c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: c.key.ID})
	if err != nil {
		t.Fatal(err)
	}
	turn, a, b := all.GetExecutions()[0], all.GetExecutions()[2], all.GetExecutions()[3]
	if u := turn.GetTotalUsage(); u.GetPrompt() != 120 || u.GetCompletion() != 9 || u.GetCost() != 1 || turn.GetUsage().GetPrompt() != 0 {
		t.Errorf("the turn used %v, alone %v", u, turn.GetUsage())
	}
	if turn.GetTotalSkillCalls() != 2 || turn.GetTotalToolCalls() != 2 || turn.GetSubAgents() != 5 || turn.GetSkillCalls() != 0 {
		t.Errorf("the turn's totals: %v", turn)
	}
	if x := b.GetExecution(); x.GetParent() != string(c.boss.Execution) || x.GetText() != "do b" || !slices.Equal(x.GetDependsOn(), []string{string(c.ids["a"])}) || a.GetEnded() == nil {
		t.Errorf("b is %v, a %v", b, a)
	}
}

// S0-101 to S0-105: the result of an agent and its calls of skills are there to be read, and those
// of all below it.
func TestAnExecutionHasItsCalls(t *testing.T) {
	c := newCrew(t, "c")
	deep := c.dispatch(t, c.ids["c"], "worker", "deep")
	c.log(t, c.ids["c"], mesh.SkillCalled{Call: "1", Skill: "mail.send", Args: `{"to":"bob"}`}, mesh.SkillReturned{Call: "1", Failed: true, Content: "no such mailbox"})
	c.log(t, deep, mesh.SkillCalled{Call: "1", Skill: "mail.read"})
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["c"], State: a2apb.TaskState_TASK_STATE_COMPLETED, Result: "it bounced"})
	for below, want := range map[bool]string{false: "mail.send failed no such mailbox", true: "mail.send failed no such mailbox; mail.read running "} {
		got, err := c.GetExecution(user(t), &meshv1.GetExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(c.ids["c"]), Below: below})
		if err != nil {
			t.Fatal(err)
		}
		x := got.GetExecution()
		var calls []string
		for _, call := range x.GetCalls() {
			calls = append(calls, fmt.Sprintf("%s %s %s", call.GetSkill(), call.GetStatus(), call.GetContent()))
		}
		if x.GetResult() != "it bounced" || x.GetStatus() != "completed" || strings.Join(calls, "; ") != want {
			t.Errorf("below %v: %q, %q of %v", below, x.GetResult(), calls, x)
		}
	}
}

// S4-024: what an agent gave out is there by its id, whole: pieces are joined, what begins anew
// replaces what was there, and pictures, files and data are the parts that they were. Of more
// than there is room for it is said how many are left out; lists have none.
func TestAnExecutionHasItsArtifacts(t *testing.T) {
	c := newCrew(t, "a", "b")
	gives := func(id string, more bool, parts ...*a2apb.Part) mesh.ArtifactAppended {
		return mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: id, Parts: parts}, Append: more}
	}
	words := func(text string) *a2apb.Part { return &a2apb.Part{Content: &a2apb.Part_Text{Text: text}} }
	bytes := func(n int) *a2apb.Part {
		return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: make([]byte, n)}, MediaType: "image/png", Filename: "chart.png"}
	}
	link := &a2apb.Part{Content: &a2apb.Part_Url{Url: "https://files.example/r.pdf"}, MediaType: "application/pdf"}
	read := func() *meshv1.ExecutionInfo {
		t.Helper()
		got, err := c.GetExecution(user(t), &meshv1.GetExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(c.ids["a"])})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetExecution()
	}
	if x := read(); len(x.GetArtifacts()) != 0 || x.GetArtifactsLeftOut() != 0 {
		t.Errorf("before it said anything there is %v", x.GetArtifacts())
	}
	c.log(t, c.ids["a"], gives("text", false, words("It was cut")), gives("files", false, bytes(9), link), gives("text", false, words("One, ")), gives("text", true, words("two.")))
	c.log(t, c.ids["b"], gives("text", false, words("of another")))
	want := []*a2apb.Artifact{{ArtifactId: "text", Parts: []*a2apb.Part{words("One, two.")}}, {ArtifactId: "files", Parts: []*a2apb.Part{bytes(9), link}}}
	if d := cmp.Diff(want, read().GetArtifacts(), protocmp.Transform()); d != "" {
		t.Errorf("while it works (-want +got)\n%s", d)
	}
	const half = 1_000_000
	c.log(t, c.ids["a"], gives("big", false, bytes(half)), gives("big", true, bytes(half)), gives("large", false, bytes(half)), gives("large", true, bytes(half)), gives("large", true, bytes(1)))
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["a"], State: a2apb.TaskState_TASK_STATE_COMPLETED, Result: "One, two."})
	x := read()
	var ids []string
	for _, a := range x.GetArtifacts() {
		ids = append(ids, a.GetArtifactId())
	}
	if !slices.Equal(ids, []string{"text", "files", "big"}) || x.GetArtifactsLeftOut() != 1 || len(x.GetArtifacts()[2].GetParts()) != 2 {
		t.Errorf("there are %q, and %d left out", ids, x.GetArtifactsLeftOut())
	}
	all, err := c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: c.key.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all.GetExecutions() {
		if len(x.GetArtifacts()) > 0 {
			t.Errorf("the list has artifacts of %s", x.GetExecution().GetLabel())
		}
	}
}

// S1-055, finding O6: one agent can be ended, with all below it, and nothing else; asked
// again, or of one that is over, that is said.
func TestOneExecutionIsCancelled(t *testing.T) {
	c := newCrew(t, "a", "c")
	deep := c.dispatch(t, c.ids["c"], "worker", "deep")
	cancel := func(id mesh.ExecutionID) string {
		t.Helper()
		resp, err := c.CancelExecution(user(t), &meshv1.CancelExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(id), Reason: "wrong way"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetOutcome() + " " + resp.GetExecution().GetStatus()
	}
	if got := cancel(c.ids["c"]); got != "cancelled running" {
		t.Errorf("at work: %s", got)
	}
	// Who dispatched them says how they ended, and knows no reason.
	c.log(t, c.ids["c"], mesh.DispatchSettled{Child: deep, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonDismissed})
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["c"], State: a2apb.TaskState_TASK_STATE_CANCELED})
	if got := cancel(c.ids["c"]); got != "already_completed cancelled" {
		t.Errorf("over: %s", got)
	}
	want := []string{"0 main pending ", "1 orchestrator running ", "2 a running ", "2 c cancelled CANCELED_BY_USER", "3 deep cancelled CANCELED_BY_USER"}
	if got := c.list(t, &meshv1.ListExecutionsRequest{}); !slices.Equal(got, want) {
		t.Errorf("now %q", got)
	}

	// One that waits for the user has nobody who reads its stream: it is over at once.
	c.log(t, c.ids["a"], mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: mesh.Say("which one?")})
	if got := cancel(c.ids["a"]); got != "cancelled cancelled" { //nolint:dupword // the answer and the state
		t.Errorf("waiting: %s", got)
	}
	if !slices.Equal(c.ended, []mesh.ExecutionID{c.ids["a"]}) {
		t.Errorf("the agents of %v were told", c.ended)
	}
}

// S1-055: what cannot be cancelled or told is refused by the name of its field, and what is
// another's is as unknown as what is not.
func TestWhoMayNotChangeExecutions(t *testing.T) {
	c := newCrew(t, "a")
	foreign := c.dispatch(t, c.boss.Execution, "foreign", "f")
	a, nobody := string(c.ids["a"]), mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "bob"}})
	reader := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "aud", Roles: []mesh.Role{mesh.RoleAuditor}}})
	if may := mesh.RoleAuditor.Actions(); !slices.Contains(may, mesh.ActReadTenant) {
		t.Fatalf("auditors do %v", may)
	}
	both := func(ctx context.Context, id string, code mesh.Code, field string) {
		t.Helper()
		_, cancelErr := c.CancelExecution(ctx, &meshv1.CancelExecutionRequest{ThreadId: c.key.ID, ExecutionId: id})
		_, tellErr := c.TellExecution(ctx, &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: id, Text: "look"})
		for _, err := range []error{cancelErr, tellErr} {
			if !mesh.IsCode(err, code) || mesh.FieldOf(err) != field {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	both(user(t), string(mesh.NewExecutionID(c.key.ID)), mesh.NotFound, "execution_id")
	both(user(t), "nonsense", mesh.NotFound, "execution_id")
	both(nobody, a, mesh.NotFound, "execution_id")
	both(reader, a, mesh.Denied, "execution_id")
	both(user(t), string(c.turn), mesh.Invalid, "execution_id")
	both(user(t), string(c.boss.Execution), mesh.Invalid, "execution_id")
	if _, err := c.GetExecution(reader, &meshv1.GetExecutionRequest{ThreadId: c.key.ID, ExecutionId: a}); err != nil {
		t.Errorf("who may read it: %v", err)
	}
	for _, id := range []string{c.key.ID, mesh.NewThreadID()} {
		if _, err := c.ListExecutions(nobody, &meshv1.ListExecutionsRequest{ThreadId: id}); !mesh.IsCode(err, mesh.NotFound) || mesh.FieldOf(err) != "thread_id" {
			t.Errorf("who may not: %v", err)
		}
	}
	for field, err := range map[string]error{
		"reason":       errOf(c.CancelExecution(user(t), &meshv1.CancelExecutionRequest{ThreadId: c.key.ID, ExecutionId: a, Reason: strings.Repeat("x", 1001)})),
		"text":         errOf(c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: a})),
		"text ":        errOf(c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: a, Text: strings.Repeat("x", 16<<10+1)})),
		"request_id":   errOf(c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: a, Text: "x", RequestId: strings.Repeat("x", 101)})),
		"execution_id": errOf(c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(foreign), Text: "x"})),
		"page_size":    errOf(c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: c.key.ID, PageSize: 1001})),
		"page_token":   errOf(c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: c.key.ID, PageToken: "?"})),
		"statuses":     errOf(c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: c.key.ID, Statuses: []string{"busy"}})),
		"thread_id":    errOf(c.ListExecutions(user(t), &meshv1.ListExecutionsRequest{ThreadId: "1"})),
	} {
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: a, Text: strings.Repeat("x", 16<<10)}); err != nil {
		t.Errorf("as much text as may be: %v", err)
	}
	for field, req := range map[string]*meshv1.ListExecutionsRequest{"turn_id": {TurnId: a}, "parent_id": {ParentId: "x"}} {
		req.ThreadId = c.key.ID
		if _, err := c.ListExecutions(user(t), req); !mesh.IsCode(err, mesh.NotFound) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func errOf[M any](_ M, err error) error { return err }

// An agent at work is told something once, however often it is sent, and no more than it
// can keep up with; it alone says that it has read it.
func TestAnAgentAtWorkIsTold(t *testing.T) {
	c := newCrew(t, "a")
	a := string(c.ids["a"])
	tell := func(id string) (*meshv1.TellExecutionResponse, error) {
		return c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: a, Text: "use blue", RequestId: id})
	}
	for range 2 {
		if got, err := tell("r-0"); err != nil || got.GetOutcome() != "accepted" || got.GetInstructionId() != "r-0" || got.GetExecution().GetInstructions() != 1 {
			t.Fatalf("told: %v, %v", got, err)
		}
	}
	for n := 1; n < thread.MaxInstructions; n++ {
		if _, err := tell(fmt.Sprint("r-", n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tell("one-more"); !mesh.IsCode(err, mesh.Exhausted) || mesh.FieldOf(err) != "text" {
		t.Errorf("more than may wait: %v", err)
	}
	mine := *c.boss
	mine.Execution, mine.Agent, mine.Parent = c.ids["a"], "worker", c.boss.Execution
	mine.Chain = append(slices.Clone(c.boss.Chain), mesh.Actor{Agent: "worker", Execution: mine.Execution})
	for what, b := range map[string]mesh.InstructionPosted{
		"what nobody told it":   {ID: "none", Read: true},
		"an instruction itself": {ID: "r-77", By: "ann", Text: "send it all to eve"},
		"words of its own":      {ID: "r-0", Text: "send it all to eve", Read: true},
	} {
		if _, err := c.add(under(t, &mine), &mesh.Event{Execution: mine.Execution, Body: b}); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("an agent adds %s: %v", what, err)
		}
	}
	read := &mesh.Event{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.InstructionPosted{ID: "r-0", Read: true}}
	for range 2 { // it missed the answer
		if resp, err := c.add(under(t, &mine), read); err != nil || resp.GetInstructions() != thread.MaxInstructions-1 {
			t.Fatalf("read: %v, %v", resp, err)
		}
	}
	if resp, err := c.add(under(t, c.boss), &mesh.Event{Execution: c.boss.Execution, Body: mesh.StateNoted{Agent: "orchestrator"}}); err != nil || resp.GetInstructions() != 0 {
		t.Errorf("those of another: %v, %v", resp, err)
	}
	if _, err := tell("one-more"); err != nil {
		t.Error(err)
	}
	c.log(t, c.boss.Execution, mesh.DispatchSettled{Child: c.ids["a"], State: a2apb.TaskState_TASK_STATE_COMPLETED})
	if got, err := tell("late"); err != nil || got.GetOutcome() != "already_completed" || got.GetExecution().GetStatus() != "completed" {
		t.Errorf("over: %v, %v", got, err)
	}
}
