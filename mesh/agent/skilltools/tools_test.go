package skilltools_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// S0-008, S0-036, S0-037, S0-081: the tool names the granted skills and no
// other, in an order of its own, with their parameters.
func TestTheToolOffersTheGrantedSkillsOnly(t *testing.T) {
	_, inv, handlers, _ := agenttest.Office(t)
	var texts []string
	for range 5 {
		tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers})
		list := tools.List(t.Context())
		if len(list) != 1 || list[0].Name != "use_skill" {
			t.Fatalf("got %v", list)
		}
		texts = append(texts, list[0].Description+string(list[0].Parameters))
	}
	for _, s := range texts[1:] {
		if s != texts[0] {
			t.Error("equal sets of skills give different text")
		}
	}
	tool := agenttest.SkillTools(t, inv, skilltools.Options{}).List(t.Context())[0]
	want := "\n\n### mail.archive\nArchives an email.\n[{\"name\":\"to\",\"type\":\"string\",\"required\":true,\"description\":\"an <address>\"}]" +
		"\n\n### mail.send\nSends an email.\n[{\"name\":\"to\",\"type\":\"string\",\"required\":true,\"description\":\"an <address>\"}]"
	if !strings.HasSuffix(tool.Description, want) {
		t.Errorf("got %s", tool.Description)
	}
	var schema struct {
		Properties struct {
			Skill struct{ Enum []string }
		}
		Required []string
	}
	if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mail.archive", "mail.send"}, schema.Properties.Skill.Enum); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"skill", "arguments"}, schema.Required); diff != "" {
		t.Error(diff)
	}
	fewer := agenttest.SkillTools(t, inv, skilltools.Options{Skills: []string{"mail.send", "tasks.*"}})
	if diff := cmp.Diff([]string{"mail.send"}, fewer.Offered()); diff != "" {
		t.Error(diff)
	}
	none := agenttest.SkillTools(t, inv, skilltools.Options{Skills: []string{"tasks.*"}})
	if got := none.List(t.Context()); len(got) != 0 {
		t.Errorf("nothing is granted, and yet there is %v", got)
	}
}

func TestASkillCallIsRecordedBeforeAndAfterUnderItsKey(t *testing.T) {
	n, inv, handlers, calls := agenttest.Office(t)
	tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers})
	r := tools.Call(t.Context(), agenttest.Use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`))
	if r.Failed || r.Text != "sent to bob" {
		t.Fatalf("got %+v", r)
	}
	sent, ok := n.Skills.Get("mail.send")
	if !ok || sent.Version == "" {
		t.Fatalf("the skill is %+v", sent)
	}
	if err := inv.Mesh.Flush(t.Context()); err != nil { // as at the end of a run
		t.Fatal(err)
	}
	want := []mesh.Body{
		mesh.SkillCalled{Call: "call-1", Skill: "mail.send", Args: `{"to":"bob"}`, Source: mesh.SourceUseSkill, Version: sent.Version},
		mesh.SkillReturned{Call: "call-1", Content: "sent to bob", Files: []string{"1.eml"}},
	}
	if diff := cmp.Diff(want, n.Bodies(t, inv.Execution), cmpopts.IgnoreFields(mesh.SkillReturned{}, "Duration")); diff != "" {
		t.Error(diff)
	}
	if len(*calls) != 1 || (*calls)[0].Key == "" || (*calls)[0].Key != n.Events[0].GetId() {
		t.Errorf("the key of the call is %q, and the event's id %q", (*calls)[0].Key, n.Events[0].GetId())
	}
}

// That an effect has been had is in the log at once, and what a call read after 100 ms at
// the latest. On a machine that stops for as long, it is tried again.
func TestThatAnEffectHasBeenHadIsSentAtOnce(t *testing.T) {
	const soon = 90 * time.Millisecond
	for try := 0; ; try++ {
		n, inv, handlers, _ := agenttest.Office(t)
		tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers})
		begun := time.Now()
		tools.End(t.Context(), &skill.Skill{Access: skill.AccessRead}, &skill.Call{ID: "1"}, &skill.Result{}, limit.Success, 0)
		time.Sleep(20 * time.Millisecond)
		if there := len(n.Bodies(t, inv.Execution)); there != 0 && time.Since(begun) < soon {
			t.Fatalf("%d returns of calls that only read do not wait", there)
		}
		tools.End(t.Context(), &skill.Skill{Access: skill.AccessWrite}, &skill.Call{ID: "2"}, &skill.Result{}, limit.Success, 0)
		for len(n.Bodies(t, inv.Execution)) < 2 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if time.Since(begun) < soon {
			return
		}
		if try == 20 {
			t.Fatal("it waits as long as what was read")
		}
	}
}

// S0-038, S0-039: what is out of scope does not run, and the agent goes on.
func TestASkillThatIsNotGrantedDoesNotRun(t *testing.T) {
	texttest.Fixed(t)
	n, inv, handlers, _ := agenttest.Office(t)
	tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers})
	for args, want := range map[string]string{
		`{"skill":"tasks.create","arguments":{"to":"x"}}`: "Skill 'tasks.create' is not available to this agent.",
		`{"skill":"mail.send"}`:                           "to",
		`{"skill":"mail.archive","arguments":{"to":"x"}}`: "not installed",
		`{"skill":7}`: "Give use_skill",
	} {
		r := tools.Call(t.Context(), agenttest.Use("use_skill", args))
		if !r.Failed || !strings.Contains(r.Text, want) {
			t.Errorf("%s: got %+v, want %q", args, r, want)
		}
	}
	for _, b := range n.Bodies(t, inv.Execution) {
		if c, ok := b.(mesh.SkillCalled); ok && c.Skill == "tasks.create" {
			t.Error("the call was recorded as one that happens")
		}
	}
	if r := tools.Call(t.Context(), agenttest.Use("other", "{}")); r.Text != "Unknown tool: other" {
		t.Errorf("got %+v", r)
	}
}

// S0-059: five calls by default.
func TestSkillCallsAreLimited(t *testing.T) {
	for name, tt := range map[string]struct{ invocation, option, want int }{
		"default": {0, 0, 5}, "the agent's": {0, 2, 2}, "the dispatcher's": {3, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n, inv, handlers, calls := agenttest.Office(t)
			inv.MaxToolCalls = tt.invocation
			tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers, MaxToolCalls: tt.option})
			for i := range tt.want + 2 {
				r := tools.Call(t.Context(), agenttest.Use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`))
				if r.Failed != (i >= tt.want) {
					t.Errorf("call %d: got %+v", i+1, r)
				}
			}
			if len(*calls) != tt.want {
				t.Errorf("%d calls ran", len(*calls))
			}
			bodies := n.Bodies(t, inv.Execution)
			if l, ok := bodies[len(bodies)-1].(mesh.LimitTripped); !ok || l.Most != int64(tt.want) {
				t.Errorf("the last event is %+v", bodies[len(bodies)-1])
			}
		})
	}
}

func TestACallWhoseIntentCannotBeRecordedDoesNotHappen(t *testing.T) {
	texttest.Fixed(t)
	_, inv, handlers, calls := agenttest.Office(t)
	tools := agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers})
	if r := tools.Call(t.Context(), agenttest.Use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`)); r.Failed {
		t.Fatal(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := tools.Call(ctx, agenttest.Use("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`)); !r.Failed || !strings.Contains(r.Text, "was not called") {
		t.Errorf("got %+v", r)
	}
	if len(*calls) != 1 {
		t.Errorf("%d calls ran", len(*calls))
	}
}

// S0-013, S3-134: discovery, of what may be granted.
func TestGetSkillFindsWhatMayBeGranted(t *testing.T) {
	_, inv, _, _ := agenttest.Office(t)
	for _, tt := range []struct {
		granted, args string
		want          []string // names, in their order
	}{
		{"*", `{"domain":"mail"}`, []string{"mail.archive", "mail.send"}},
		{"*", `{"search":"todo"}`, []string{"tasks.create"}},
		{"mail.*", `{"domain":"mail.send"}`, []string{"mail.send"}},
		{"tasks.*", `{"search":"email"}`, nil},
		{"tasks.*", `{"domain":"mail"}`, nil},
		{"tasks.*", `{"domain":"mail.send"}`, nil},
	} {
		inv.Grant.Skills = []string{tt.granted}
		tools, err := skilltools.Discovery(t.Context(), inv)
		if err != nil {
			t.Fatal(err)
		}
		r := tools.Call(t.Context(), agenttest.Use("get_skill", tt.args))
		var got struct {
			Skills []struct {
				Name, Description string
				Parameters        struct{ Properties map[string]any }
			}
		}
		if err := json.Unmarshal([]byte(r.Text), &got); (err == nil) != (tt.want != nil) {
			t.Fatalf("%s %s: %v in %+v", tt.granted, tt.args, err, r)
		}
		var names []string
		for _, s := range got.Skills {
			names = append(names, s.Name)
			if s.Description == "" || len(s.Parameters.Properties) != 1 {
				t.Errorf("%s lacks something: %+v", s.Name, s)
			}
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%s %s: %s", tt.granted, tt.args, diff)
		}
		if strings.Contains(r.Text, "Sends an email") && tt.granted == "tasks.*" {
			t.Errorf("a skill that is not granted is told of: %s", r.Text)
		}
	}
	inv.Grant.Skills = []string{"*"}
	tools, err := skilltools.Discovery(t.Context(), inv)
	if err != nil {
		t.Fatal(err)
	}
	if r := tools.Call(t.Context(), agenttest.Use("get_skill", "{}")); r.Failed || !strings.Contains(r.Text, "- mail (2 skills)") || strings.Contains(r.Text, "mail.send") {
		t.Errorf("the summary is %+v", r)
	}
	if r := tools.Call(t.Context(), agenttest.Use("get_skill", `{"domain":7}`)); !r.Failed {
		t.Errorf("got %+v", r)
	}
	if list := tools.List(t.Context()); !strings.Contains(string(list[0].Parameters), `"enum":["mail","tasks"]`) {
		t.Errorf("the domains are not in %s", list[0].Parameters)
	}
}
