package dispatch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/threadlog"
)

var noExpect = threadlog.AppendOptions{}

func use(id, tool, args string) mesh.ToolUse {
	return mesh.ToolUse{ID: id, Name: tool, Arguments: args}
}

// read decodes what a tool answered.
func read(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// S0-014, S0-015, S0-016, S0-017, S0-018, S0-019, S0-020, S0-021, S0-022, S0-023, S0-024: the
// tools' schemas.
func TestTheToolsAskForWhatTheyNeed(t *testing.T) {
	w := newWorld(t)
	d, _ := w.dispatcher(dispatch.Options{Profile: dispatch.ProfileCollect})
	tools := dispatch.NewOrchestration(d).List(t.Context())
	if len(tools) != 2 || tools[0].Name != "dispatch_agent" || tools[1].Name != "get_agent_results" {
		t.Fatalf("tools %v", tools)
	}
	var schema struct {
		Properties map[string]struct{ Type, Description string }
		Required   []string
	}
	if err := json.Unmarshal(tools[0].Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agent_id", "mission", "skills"}, schema.Required); diff != "" {
		t.Error(diff)
	}
	for name, typ := range map[string]string{"agent_id": "string", "mission": "string", "skills": "array", "context": "string", "depends_on": "array", "max_tool_calls": "integer"} {
		if p := schema.Properties[name]; p.Type != typ || p.Description == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, words := range []string{"after get_skill", "parallel", "depends_on", "before you answer"} {
		if !strings.Contains(tools[0].Description, words) {
			t.Errorf("the description does not say %q", words)
		}
	}
}

// S0-022, S0-121, S0-122: all dispatches of a reply are one batch, and a reply
// that mixes them with get_agent_results has every call honoured.
func TestAllCallsOfAReplyAreHonoured(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	asked := make(chan struct{}) // how the first order is
	w.agent("worker", func(m *mission) error {
		if m.text == "search" {
			<-asked
		}
		if strings.HasPrefix(m.text, "fail") {
			return m.end(a2apb.TaskState_TASK_STATE_FAILED, "no luck")
		}
		return m.done("did " + m.text)
	})
	d, _ := w.dispatcher(dispatch.Options{})
	o := dispatch.NewOrchestration(d)
	reply := []mesh.ToolUse{
		use("1", "dispatch_agent", `{"agent_id":"b","mission":"report","skills":["mail.send"],"depends_on":["a"]}`),
		use("2", "get_agent_results", `{}`),
		use("3", "dispatch_agent", `{"agent_id":"a","task":"search","skills":["tasks.search"]}`),
		use("4", "dispatch_agent", `{"agent_id":"c","mission":"fail","skills":["tasks.search"]}`),
	}
	o.Batch(t.Context(), reply)
	for _, u := range reply {
		r := o.Call(t.Context(), u)
		if r.Failed {
			t.Fatalf("%s: %s", u.ID, r.Text)
		}
		got := read(t, r.Text)
		want := "accepted"
		if u.ID == "1" { // it waits for a
			want = "queued"
			close(asked)
		}
		if u.Name == "dispatch_agent" && (got["status"] != want || got["execution_id"] == "" || got["agent_id"] == "") {
			t.Errorf("%s: %v", u.ID, got)
		}
		if u.Name == "get_agent_results" {
			checkResults(t, got)
		}
	}
	if n := len(d.List()); n != 3 {
		t.Errorf("%d dispatched", n)
	}
}

// S0-025, S0-090: the form of the results.
func checkResults(t *testing.T, got map[string]any) {
	t.Helper()
	var order []string
	for _, a := range got["agents"].([]any) {
		m := a.(map[string]any)
		order = append(order, m["agent_id"].(string)+" "+m["status"].(string))
		for _, key := range []string{"agent_id", "status", "result", "tool_calls_used", "duration_ms"} {
			if _, ok := m[key]; !ok {
				t.Errorf("%v has no %s", m, key)
			}
		}
	}
	if diff := cmp.Diff([]string{"b completed", "a completed", "c failed"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"Agent 'c' failed: no luck"}, got["failures"]); diff != "" {
		t.Error(diff)
	}
}

// S0-031, S0-043, S0-089, S0-119: one wrong dispatch of a reply dispatches none.
func TestAWrongDispatchOfAReplyDispatchesNone(t *testing.T) {
	texttest.Fixed(t)
	good := `{"agent_id":"a","mission":"m","skills":["mail.send"]}`
	for name, tt := range map[string]struct{ bad, says string }{
		"an unknown skill": {`{"agent_id":"b","mission":"m","skills":["mail.sned"]}`, `"mail.sned"`},
		"no JSON":          {`{"agent_id":`, "arguments must be one object of JSON"},
		"no object":        {`["b"]`, "arguments must be one object of JSON"},
		"a wrong type":     {`{"agent_id":"b","mission":"m","skills":"mail.send"}`, "skills must be a list of texts, and has a string"},
		"a wrong item":     {`{"agent_id":"b","mission":"m","skills":["mail.send",7]}`, "skills must be a list of texts, and has a number"},
		"a part":           {`{"agent_id":"b","mission":"m","skills":[],"max_tool_calls":1.5}`, "max_tool_calls must be a whole number, and has a number"},
		"an unknown agent": {`{"agent_id":"b","name":"nobody","mission":"m"}`, `name is wrong: there is no agent "nobody"; list the agents to see which there are`},
		"no mission":       {`{"agent_id":"b","skills":["mail.send"]}`, "mission is missing"},
		"no skills":        {`{"agent_id":"b","mission":"m"}`, "skills is missing"},
		"no id":            {`{"mission":"m","skills":["mail.send"]}`, "agent_id is missing"},
		"a circle":         {`{"agent_id":"b","mission":"m","skills":["mail.send"],"depends_on":["b"]}`, "depends on itself"},
		"a ghost":          {`{"agent_id":"b","mission":"m","skills":["mail.send"],"depends_on":["ghost"]}`, `"ghost"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.agent("worker", func(m *mission) error { t.Error("it was asked"); return m.done("x") })
			d, _ := w.dispatcher(dispatch.Options{Profile: dispatch.ProfileCollect})
			o := dispatch.NewOrchestration(d)
			reply := []mesh.ToolUse{use("1", "dispatch_agent", good), use("2", "dispatch_agent", tt.bad)}
			o.Batch(t.Context(), reply)
			first, second := o.Call(t.Context(), reply[0]), o.Call(t.Context(), reply[1])
			if !first.Failed || !strings.Contains(first.Text, "not dispatched") {
				t.Errorf("the right one: %+v", first)
			}
			if !second.Failed || !strings.Contains(second.Text, tt.says) {
				t.Errorf("the wrong one: %+v, want %q", second, tt.says)
			}
			if n := len(d.List()); n != 0 {
				t.Errorf("%d dispatched", n)
			}
		})
	}
}

// A call that came without its reply is a batch of its own.
func TestACallAloneIsABatchOfItsOwn(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", func(m *mission) error { return m.done("x") })
	d, _ := w.dispatcher(dispatch.Options{})
	o := dispatch.NewOrchestration(d)
	if r := o.Call(t.Context(), use("1", "get_agent_results", `{}`)); r.Failed || r.Text != `{"agents":[]}` {
		t.Errorf("before any dispatch: %+v", r)
	}
	args := `{"agent_id":"a","mission":"m","skills":["mail.send"]}`
	if r := o.Call(t.Context(), use("2", "dispatch_agent", args)); r.Failed {
		t.Error(r.Text)
	}
	if r := o.Call(t.Context(), use("3", "dispatch_agent", args)); !r.Failed || !strings.Contains(r.Text, "dispatched before") {
		t.Errorf("again: %+v", r)
	}
	if r := o.Call(t.Context(), use("4", "get_agent_results", `{"agent_ids":["ghost"]}`)); !r.Failed || !strings.Contains(r.Text, `"ghost"`) {
		t.Errorf("an unknown id: %+v", r)
	}
	if r := o.Call(t.Context(), use("5", "get_agent_results", `[]`)); !r.Failed {
		t.Errorf("no object: %+v", r)
	}
	if r := o.Call(t.Context(), use("6", "get_agent_results", `{"agent_ids":["a"]}`)); r.Failed || !strings.Contains(r.Text, `"completed"`) {
		t.Errorf("the result: %+v", r)
	}
}

// C6.5: an agent that the model ends in a reply is ended when the same reply looks at results,
// and what it dispatches is in its list, whatever the order of the calls.
func TestTheCallsOfAReplyAreMadeInTheirOrder(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", func(m *mission) error {
		if idOf(m) == "a" {
			<-m.ctx.Done()
			return m.ctx.Err()
		}
		return m.done("x")
	})
	d, _ := w.dispatcher(dispatch.Options{MaxConcurrent: 1})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("a")}) {
		t.Fatal(err)
	}
	m := scripted.New(scripted.Call("get_agent_results", `{"mode":"all"}`).Call("list_agents", `{}`).
		Call("dispatch_agent", `{"agent_id":"b","name":"worker","mission":"do b"}`).Call("cancel_agent", `{"agent_id":"a"}`), scripted.Say("ok"))
	told := map[string]string{}
	for e, err := range (&llm.Loop{Model: m, Tools: dispatch.NewOrchestration(d), Timeout: time.Minute}).Run(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Result != nil {
			told[e.Result.Use.Name] = e.Result.Text
		}
	}
	if !strings.Contains(told["list_agents"], `"agent_id":"b"`) || !strings.Contains(told["get_agent_results"], `"status":"cancelled"`) || !strings.Contains(told["get_agent_results"], `"status":"completed"`) {
		t.Errorf("the model was told %q", told)
	}
}

// S4-017: the main agent asks another one and keeps the conversation.
func TestConsultAsksOneAgentAndReturnsItsAnswer(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("mailer", func(m *mission) error { return m.done("sent: " + m.text) }, "mail.send")
	agents := []*meshv1.Agent{w.agents["mailer"]}
	d, _ := w.dispatcher(dispatch.Options{})
	c := dispatch.NewConsult(d, agents)
	tools := c.List(t.Context())
	if len(tools) != 1 || !strings.Contains(tools[0].Description, "- mailer: Does mailer. (skills: mail.send; tags: mailer)") ||
		!strings.Contains(string(tools[0].Parameters), `"enum":["mailer"]`) {
		t.Errorf("tools %+v", tools)
	}
	for _, id := range []string{"0", "1"} {
		r := c.Call(t.Context(), use(id, "consult_agent", `{"agent":"mailer","task":"hi"}`))
		if got := read(t, r.Text); r.Failed || got["status"] != "completed" || got["result"] != "sent: hi" || got["agent"] != "mailer" {
			t.Errorf("%+v", r)
		}
	}
	if r := c.Call(t.Context(), use("2", "consult_agent", `{"agent":"ghost","task":"hi"}`)); !r.Failed || !strings.Contains(r.Text, "ghost") {
		t.Errorf("an unknown agent: %+v", r)
	}
	if r := c.Call(t.Context(), use("3", "consult_agent", `{"agent":"mailer"}`)); !r.Failed || r.Cause != mesh.CauseInvalid || !strings.Contains(r.Text, "task is missing") {
		t.Errorf("no task: %+v", r)
	}
	long := `{"agent":"mailer","task":"` + strings.Repeat("x", 16<<10+1) + `"}`
	if r := c.Call(t.Context(), use("5", "consult_agent", long)); !r.Failed || !strings.Contains(r.Text, "task has 16385 bytes; shorten it to at most 16384") {
		t.Errorf("a task that is too long: %+v", r)
	}
	if r := c.Call(t.Context(), use("4", "consult_agent", `nonsense`)); !r.Failed {
		t.Errorf("no JSON: %+v", r)
	}
	if len(dispatch.NewConsult(d, nil).List(t.Context())) != 0 {
		t.Error("a tool to ask nobody")
	}
	var labels []string
	for _, r := range d.List() {
		labels = append(labels, r.AgentID)
	}
	if !slices.Equal(labels, []string{"mailer-1", "mailer-2"}) {
		t.Errorf("dispatched %v", labels)
	}
}

// Results of some are told when those are there, whoever else is at work still.
func TestResultsOfSomeDoNotWaitForOthers(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	w.agent("worker", func(m *mission) error {
		if idOf(m) == "slow" {
			<-hold
		}
		return m.done("did " + idOf(m))
	})
	d, _ := w.dispatcher(dispatch.Options{})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("slow"), order("quick")}) {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, release)
	got := dispatch.NewOrchestration(d).Call(t.Context(), use("1", dispatch.ToolResults, `{"agent_ids":["quick"]}`))
	if !late.Stop() || !strings.Contains(got.Text, `"did quick"`) || strings.Contains(got.Text, `"slow"`) {
		t.Errorf("told %q", got.Text)
	}
}
