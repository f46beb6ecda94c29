package orchestrator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
	threadstate "agentmesh/mesh/thread"
	"agentmesh/skills/calendar"
	"agentmesh/skills/mail"
	"agentmesh/skills/tasks"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// A firm is a mesh whose users talk to the orchestrator, and whose one worker has the
// skills of tasks, mail and calendar.
type firm struct {
	*meshtest.Mesh
	t       *testing.T
	files   string // folder of mail and calendar
	planner *scripted.Model
	worker  *scripted.Model
}

func newFirm(t *testing.T, o dispatch.Options, planner, worker llm.Model) *firm {
	t.Helper()
	f := &firm{t: t, files: t.TempDir()}
	handlers := map[string]skill.Handler{}
	for _, domain := range []map[string]skill.Handler{tasks.Handlers(), mail.Handlers(f.files), calendar.Handlers(f.files)} {
		for name, h := range domain {
			handlers[name] = h
		}
	}
	f.Mesh = meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(orchestrator.Config{
				Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns, Now: friday, Logger: env.Logger, Dispatch: o,
				Context: func(_ context.Context, inv *agent.Invocation) string {
					return "From the memory: what " + inv.User + " likes"
				},
			})
		},
		"worker": func(env node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{
				Card: meshtest.Card(t, "worker"), Model: worker, Domains: []string{specialist.AnyDomain}, Handlers: handlers, Now: friday, Logger: env.Logger,
			})
		},
	}, meshtest.Options{})
	return f
}

// about matches the requests of an agent by its mission.
func about(words string) scripted.Match {
	return func(r *llm.Request) bool { return len(r.Messages) > 0 && strings.Contains(r.Messages[0].Text, words) }
}

// assign is an order to the worker, as it is given with the profile.
func assign(s scripted.Step, p dispatch.Profile, id, mission, skills string) scripted.Step {
	if p == dispatch.ProfilePush {
		return s.Call("dispatch_agent", fmt.Sprintf(`{"name":"worker","task":%q}`, mission))
	}
	return s.Call("dispatch_agent", fmt.Sprintf(`{"agent_id":%q,"mission":%q,"skills":[%s]}`, id, mission, skills))
}

// useSkill is a call of a skill by the one tool for all.
func useSkill(name, args string) scripted.Step {
	return scripted.Call("use_skill", fmt.Sprintf(`{"skill":%q,"arguments":%s}`, name, args))
}

// saved is what files of the kind have, joined.
func (f *firm) saved(kind string) (found string) {
	f.t.Helper()
	err := filepath.WalkDir(f.files, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != kind {
			return err
		}
		data, err := os.ReadFile(path)
		found += string(data)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// golden transcripts of S0-010, without ids and texts of results.
var bob = map[dispatch.Profile][]string{
	dispatch.ProfileCollect: {"user: Send Bob the overdue tasks report and schedule a review meeting", "assistant get_skill:", "tool get_skill",
		"assistant dispatch_agent dispatch_agent:", "tool dispatch_agent", "tool dispatch_agent", "assistant get_agent_results:", "tool get_agent_results"},
	dispatch.ProfilePush: {"user: Send Bob the overdue tasks report and schedule a review meeting",
		"assistant dispatch_agent dispatch_agent:", "tool dispatch_agent", "tool dispatch_agent", "assistant: Both are at work.",
		"user [Sub-agent completed] worker", "assistant: The mail is next.", "user [Sub-agent completed] worker"},
}

// as is the user, in the thread.
func (f *firm) as(thread string) context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	f.t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, Thread: thread})
}

// overdue makes the task that is late.
func (f *firm) overdue() {
	f.t.Helper()
	thread := mesh.NewThreadID()
	args, err := structpb.NewStruct(map[string]any{"title": "Pay the invoice", "due": "2026-11-18"})
	if err != nil {
		f.t.Fatal(err)
	}
	if r, err := meshv1.NewSkillServiceClient(f.Dial(rpc.DialOptions{})).RunSkill(f.as(thread), &meshv1.RunSkillRequest{Name: "tasks.create", Arguments: args, ThreadId: thread}); err != nil || r.GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		f.t.Fatalf("the task is not there: %v, %v", r, err)
	}
}

const (
	bobReport  = "Find the overdue tasks and mail them to bob@example.com"
	bobMeeting = "Create the event Review for tomorrow at 2pm"
)

// bobsWorker is a model that does both missions, once both have begun.
func bobsWorker() *scripted.Model {
	report, meeting := about(bobReport), about(bobMeeting)
	return scripted.New(
		scripted.Wait("both").Say("I look. ").Call("use_skill", `{"skill":"tasks.search","arguments":{"status":["overdue"]}}`).For(report),
		useSkill("mail.send", `{"to":["bob@example.com"],"body":"Pay the invoice"}`).For(report).For(scripted.Last("Pay the invoice")),
		useSkill("mail.send", `{"to":["bob@example.com"],"subject":"Overdue","body":"Pay the invoice"}`).For(report).For(scripted.Last("subject")),
		scripted.Wait("mailed").Say("Bob has the list.").For(report),
		scripted.Wait("both").Call("use_skill", `{"skill":"calendar.create","arguments":{"title":"Review","start":"2026-11-21T14:00"}}`).For(meeting),
		scripted.Say("The review is on Saturday.").For(meeting),
	)
}

// bobsPlanner is a model that has both done.
func bobsPlanner(p dispatch.Profile) *scripted.Model {
	both := assign(assign(scripted.Step{}, p, "report", bobReport, `"tasks.search","mail.send"`), p, "meeting", bobMeeting, `"calendar.create"`)
	done := scripted.Say("Bob has the list, and the review is on Saturday.")
	if p == dispatch.ProfileCollect {
		return scripted.New(scripted.Call("get_skill", `{"domain":"tasks"}`), both, scripted.Call("get_agent_results", `{}`), done)
	}
	return scripted.New(both, scripted.Say("Both are at work."), scripted.Say("The mail is next.").For(scripted.Last("on Saturday")), done.For(scripted.Last("has the list")))
}

// bobs plays the turn until its end.
func bobs(t *testing.T, p dispatch.Profile) (f *firm, thread string, end meshtest.Said) {
	t.Helper()
	texttest.Fixed(t)
	planner, worker := bobsPlanner(p), bobsWorker()
	f = newFirm(t, dispatch.Options{Profile: p}, planner, worker)
	f.planner, f.worker = planner, worker
	f.overdue()
	thread = mesh.NewThreadID()
	follow := begin(f.Mesh, thread, "Send Bob the overdue tasks report and schedule a review meeting")
	await(t, f.planner, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.worker.WaitBlocked(ctx, 2); err != nil {
		t.Fatalf("the two are not at work at the same time: %v", err)
	}
	f.worker.Release("both")
	await(t, f.planner, 3) // who pushes has told of the meeting
	f.worker.Release("mailed")
	return f, thread, follow()
}

// offered are the tools of all the requests, sorted.
func offered(reqs []*llm.Request) (names []string) {
	for _, r := range reqs {
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// S0-010, S0-144: the report and the meeting of the seed's example, with both profiles. One
// agent searches and then mails, another one creates the event at the same time, and one
// answer is made of both. What was decided holds together: who plans calls no skill and who
// works plans nothing; the orchestrator has its three tools; an agent has the skills that
// it was granted and knows its mission alone, calls five at most, and is told what it did
// wrong; and the requests of a turn begin alike. S0-079: what never changes comes
// first, the role and the rules, then the domains and the user, and then what is known for
// this conversation, which comes before its messages.
func TestBobGetsTheReportAndTheMeeting(t *testing.T) {
	for profile, want := range bob {
		t.Run(string(profile), func(t *testing.T) {
			f, thread, s := bobs(t, profile)
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "Bob has the list, and the review is on Saturday.") {
				t.Fatalf("ended %v: %q", s.State, s.Text)
			}
			if mailed, planned := f.saved(".eml"), f.saved(".ics"); !strings.Contains(mailed, "Pay the invoice") || strings.Count(planned, "20261121T140000") != 1 {
				t.Errorf("mailed %q, planned %q", mailed, planned)
			}
			reqs := f.planner.Requests()
			if diff := cmp.Diff(want, golden(reqs)); diff != "" {
				t.Errorf("the conversation (-want +got):\n%s", diff)
			}
			order := regexp.MustCompile(`(?s)^You are an orchestrator.*Rules:.*(Available skill domains: calendar, |## Available Sub-Agents).*The user is ann\.\nToday is [^\n]*$`)
			if !order.MatchString(reqs[0].System) {
				t.Errorf("the prompt is %s", reqs[0].System)
			}
			for _, r := range reqs {
				if r.Context != "From the memory: what ann likes" {
					t.Errorf("what is known is %q", r.Context)
				}
				if r.System != reqs[0].System || !slices.EqualFunc(r.Tools, reqs[0].Tools, func(a, b llm.Tool) bool { return a.Name == b.Name }) {
					t.Error("the requests of the turn do not begin alike")
				}
			}
			tools := [][]string{{"dispatch_agent", "get_agent_results", "get_skill"}, {"use_skill"}}
			if profile == dispatch.ProfilePush { // agents are dispatched by their names, and this one has all skills
				tools = [][]string{{"answer_agent", "cancel_agent", "dispatch_agent", "list_agents"}, {"get_skill", "request_help", "use_skill"}}
			}
			if diff := cmp.Diff(tools, [][]string{offered(reqs), offered(f.worker.Requests())}); diff != "" {
				t.Errorf("who has which tools (-want +got):\n%s", diff)
			}
			for _, r := range f.worker.Requests() {
				if first := r.Messages[0].Text; first != text.Task(bobReport) && first != text.Task(bobMeeting) {
					t.Errorf("an agent was told %q", first)
				}
			}
			calls := map[string][]string{}
			for _, e := range f.Events(thread) {
				if b, ok := e.Body.(mesh.SkillCalled); ok {
					calls[e.Actor] = append(calls[e.Actor], b.Skill)
				}
			}
			for _, c := range calls {
				slices.Sort(c)
			}
			if diff := cmp.Diff(map[string][]string{"agent:worker": {"calendar.create", "mail.send", "tasks.search"}}, calls); diff != "" {
				t.Errorf("who called what (-want +got):\n%s", diff)
			}
		})
	}
}

// S0-099, S0-100, S0-106, S0-098: what the next turn is shown as the conversation is what the
// user and the orchestrator said, with its calls and what it was told; of what the agents
// said and what their skills returned it has their results alone. S0-055: what a turn's loop
// knows is in the log, and so it is after any restart. S0-102, S0-103, S0-104: and so is the
// trail of the agents' work, by agent, mission and parent, and of their skills' calls below
// them, which is also what a card of an agent shows (S1-074, S1-078).
func TestTheConversationAndTheTrailOfAnOrchestratedTurn(t *testing.T) {
	f, thread, _ := bobs(t, dispatch.ProfileCollect)
	f.planner.Add(scripted.Say("As I said."))
	f.Say(thread, "Really?")
	reqs := f.planner.Requests()
	want := append(slices.Clone(bob[dispatch.ProfileCollect]), "assistant: Bob has the list, and the review is on Saturday.", "user: Really?")
	if diff := cmp.Diff(want, golden(reqs)); diff != "" {
		t.Errorf("the next turn's conversation (-want +got):\n%s", diff)
	}
	said := ""
	for _, m := range reqs[len(reqs)-1].Messages {
		if m.Name != "get_skill" {
			said += m.Text + "\n"
		}
	}
	if !strings.Contains(said, `"status":"completed","result":"Bob has the list."`) || strings.Contains(said, "I look.") {
		t.Errorf("the conversation is\n%s", said)
	}
	events := f.Events(thread)
	st := threadstate.Fold(events)
	turn := st.Turns()[0]
	began := time.Now()
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.SkillCalled:
			if e.Time.Before(began) {
				began = e.Time
			}
		case mesh.SkillReturned:
			if strings.Contains(said, b.Content) {
				t.Errorf("the conversation has what a skill returned: %q", b.Content)
			}
		}
	}
	calls, first := st.CallsWithin(time.Now(), time.Hour)
	agents := map[string]string{}
	leg := st.Executions()[1]
	for _, x := range st.Executions() {
		if x.Label != "" {
			agents[x.Label] = x.Status()
		}
	}
	if id, ok := turn.ID.ThreadID(); !ok || id != thread {
		t.Errorf("the turn %s does not say its conversation", turn.ID)
	}
	if turn.User != "ann" || len(st.Turns()) != 2 || turn.Calls.Agents != 2 || turn.Calls.Skills != 3 || calls != 3 || !first.Equal(began.UTC().Truncate(time.Millisecond)) ||
		turn.Status() != "completed" || len(agents) != 2 || agents["report"] != "completed" || agents["meeting"] != "completed" || leg.Calls.Steps != 3 {
		t.Errorf("the log knows of the turn %+v, %d calls since %v, and %v", turn, calls, first, agents)
	}
	f.trail(thread, leg.ID)
}

// trail checks what the mesh tells of the agents that the execution dispatched.
func (f *firm) trail(thread string, parent mesh.ExecutionID) {
	f.t.Helper()
	client := meshv1.NewExecutionServiceClient(f.Dial(rpc.DialOptions{}))
	list, err := client.ListExecutions(f.as(thread), &meshv1.ListExecutionsRequest{ThreadId: thread, ParentId: string(parent)})
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, x := range list.GetExecutions() {
		e := x.GetExecution()
		got = append(got, fmt.Sprintf("%s by %s: %s, %s, took %v", e.GetLabel(), e.GetAgent(), e.GetText(), x.GetStatus(), x.GetEnded().AsTime().After(x.GetStarted().AsTime())))
		full, err := client.GetExecution(f.as(thread), &meshv1.GetExecutionRequest{ThreadId: thread, ExecutionId: e.GetId()})
		if err != nil {
			f.t.Fatal(err)
		}
		for _, c := range full.GetExecution().GetCalls() {
			if c.GetExecutionId() != e.GetId() {
				f.t.Errorf("%s has the call of another: %v", e.GetLabel(), c)
			}
			got = append(got, fmt.Sprintf("- %s %s: %s", c.GetSkill(), c.GetArguments(), c.GetStatus()))
		}
	}
	want := []string{
		"report by worker: " + bobReport + ", completed, took true", `- tasks.search {"limit":20,"offset":0,"status":["overdue"]}: completed`, `- mail.send {"body":"Pay the invoice","subject":"Overdue","to":["bob@example.com"]}: completed`,
		"meeting by worker: " + bobMeeting + ", completed, took true", `- calendar.create {"start":"2026-11-21T14:00","title":"Review"}: completed`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("the trail (-want +got):\n%s", diff)
	}
}
