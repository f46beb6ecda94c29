package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A request is cut where something else to do begins, and what follows "then"
// waits (S0-007, S0-133).
func TestSplit_cutsAtWhatIsToBeDone(t *testing.T) {
	tests := map[string][]string{
		"Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm": {
			"0 Find my overdue tasks", "1 email the report to bob@example.com", "1 create a follow-up meeting tomorrow at 2pm"},
		"Send bob@example.com the overdue tasks report and schedule a review meeting": {
			"0 Send bob@example.com the overdue tasks report", "0 schedule a review meeting"},
		"create a task to buy eggs and milk":                             {"0 create a task to buy eggs and milk"},
		"create a task to review the code and fix the build":             {"0 create a task to review the code and fix the build"},
		"add a todo for eggs, milk, bread and butter":                    {"0 add a todo for eggs, milk, bread and butter"},
		"email ann@x.org and ben@y.org about the roadmap":                {"0 email ann@x.org and ben@y.org about the roadmap"},
		`create a task called "mail the report, then archive task 7"`:    {`0 create a task called "mail the report, then archive task 7"`},
		"mail kim@x.org saying the build is done and deploy the release": {"0 mail kim@x.org saying the build is done and deploy the release"},
		"find tasks created and archived last week":                      {"0 find tasks created and archived last week"},
		"list my open tasks; mail them to kim@x.org":                     {"0 list my open tasks", "1 mail them to kim@x.org"},
		"List my open tasks. Create a meeting on Friday.":                {"0 List my open tasks", "0 Create a meeting on Friday"},
		"List my open tasks. Then create a meeting on Friday.":           {"0 List my open tasks", "1 create a meeting on Friday"},
		"Please could you list my tasks and also, please, book a meeting with Dr. Smith": {
			"0 list my tasks", "0 book a meeting with Dr. Smith"},
		"After finding my overdue tasks, email them to dan@x.org":          {"0 finding my overdue tasks", "1 email them to dan@x.org"},
		"Before you email dan@x.org the report, find my blocked tasks":     {"0 find my blocked tasks", "1 email dan@x.org the report"},
		"Email the list to dan@x.org after finding my open tasks":          {"0 finding my open tasks", "1 Email the list to dan@x.org"},
		"find the done tasks and, once that's done, email me@x.org a list": {"0 find the done tasks", "1 email me@x.org a list"},
		"1. find open tasks\n2. email them to joe@x.org\n3. book a meeting on Monday": {
			"0 find open tasks", "1 email them to joe@x.org", "2 book a meeting on Monday"},
		"- find open tasks\n- book a meeting on Monday":                      {"0 find open tasks", "0 book a meeting on Monday"},
		"Order a pizza, find my tasks and buy a house":                       {"0 Order a pizza", "0 find my tasks", "0 buy a house"},
		"What are my open tasks and what meetings do I have this week?":      {"0 What are my open tasks", "0 what meetings do I have this week"},
		"Hi there! Please find my overdue tasks. Thanks!":                    {"0 find my overdue tasks"},
		"schedule a meeting between 2 and 3pm with the sales and legal team": {"0 schedule a meeting between 2 and 3pm with the sales and legal team"},
		"find my tasks then find my tasks then find my tasks then find my tasks then find my tasks then find my tasks": {
			"0 find my tasks", "1 find my tasks", "2 find my tasks", "3 find my tasks", "4 find my tasks", "5 find my tasks"},
		"Send the overdue tasks to bob@x.org and the open tasks to ann@x.org": {
			"0 Send the overdue tasks to bob@x.org", "0 Send the open tasks to ann@x.org"},
		"add a todo for tomorrow, and one more thing: email sue@x.org that I am late": {"0 add a todo for tomorrow", "0 email sue@x.org that I am late"},
		"find and archive done tasks":                            {"0 find done tasks", "1 archive them"},
		"please get and email my overdue tasks to bob@x.org now": {"0 get my overdue tasks", "1 email them to bob@x.org now"},
		"close task t-7 and let bob@example.com know":            {"0 close task t-7", "0 let bob@example.com know"},
		"": nil, " , and then . ": nil, "Thanks!": nil,
	}
	s := testCatalog(t).splitter()
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			var got []string
			for _, p := range s.split(text) {
				got = append(got, fmt.Sprint(p.stage, " ", p.words()))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Any sequence of one to six steps, joined by any of the ways to say so, comes
// apart into those steps: "and" and commas in parallel, "then" in order.
func TestSplit_anyNumberOfSteps(t *testing.T) {
	steps := []string{
		"find my overdue tasks", "mail the list to jo@corp.io", "schedule a demo meeting on Tuesday at 9am", "create a task to water the plants",
		"alert #ops that the disk is full", "show my calendar for tomorrow", "archive task t-3", "get the weather forecast for Lima",
	}
	joins := []struct {
		text string
		wait int
	}{{", ", 0}, {" and ", 0}, {", and ", 0}, {" then ", 1}, {", then ", 1}, {" and then ", 1}, {"; ", 1}, {". ", 0}, {". Then ", 1}, {". After that, ", 1}, {" & ", 0}, {"\n", 0}}
	s := testCatalog(t).splitter()
	for seed := range 600 {
		var text strings.Builder
		var want []string
		stage := 0
		for i := range seed%6 + 1 {
			step := steps[(seed*7+i*(seed%5+1))%len(steps)]
			if i > 0 {
				j := joins[(seed/3+i*5)%len(joins)]
				text.WriteString(j.text)
				stage += j.wait
			}
			text.WriteString(step)
			want = append(want, fmt.Sprint(stage, " ", step))
		}
		var got []string
		for _, p := range s.split(text.String()) {
			got = append(got, fmt.Sprint(p.stage, " ", p.words()))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", text.String(), diff)
		}
	}
}

// What is asked for picks the skill, and with it the one that must be read
// from first (S0-011).
func TestChoose_skillsForAPart(t *testing.T) {
	tests := map[string]string{
		"Find my overdue tasks":                                "tasks.search",
		"What are my open tasks":                               "tasks.search",
		"which todos are blocked":                              "tasks.search",
		"Get my overdue todos":                                 "tasks.search",
		"get task t-7":                                         "tasks.get",
		"add buy milk to my todo list":                         "tasks.create",
		"remind me to call the office tomorrow":                "tasks.create",
		"mark task t-9 as done":                                "tasks.update",
		"delete task #12":                                      "tasks.archive",
		"schedule a review meeting":                            "calendar.create",
		"set up an appointment with Dr. Smith":                 "calendar.create",
		"book a retrospective meeting for Monday":              "calendar.create",
		"what's on my calendar tomorrow":                       "calendar.list",
		"show my meetings":                                     "calendar.list",
		"email bob@example.com saying hello":                   "mail.send",
		"tell ann@x.org that lunch is ready":                   "mail.send",
		"look up how to configure rate limiting":               "knowledge.search",
		"alert #ops that the build failed":                     "slack.alert",
		"What's the weather forecast for Oslo":                 "weather.forecast",
		"Send bob@example.com the overdue tasks report":        "tasks.search mail.send",
		"Email ann@x.org my open tasks":                        "tasks.search mail.send",
		"forward the list of blocked tasks to ann@x.org":       "tasks.search mail.send",
		"I need a report of my open tasks sent to ann@x.org":   "tasks.search mail.send",
		"email ann@x.org about the task":                       "mail.send",
		`send ann@x.org a mail saying "the tasks are overdue"`: "mail.send",
		"open my calendar":                                     "calendar.list",
		"get my todos":                                         "tasks.search",
		"get the news about Spain":                             "",
		"buy a house in Spain":                                 "",
		"make me a sandwich":                                   "",
		"cancel the meeting":                                   "", // nothing can; above all not calendar.create
		"lorem ipsum dolor":                                    "",
		"":                                                     "",
	}
	cat := testCatalog(t)
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			var got []string
			for _, s := range cat.choose(newClause(text)) {
				got = append(got, s.Name)
			}
			if g := strings.Join(got, " "); g != want {
				t.Errorf("chose %q, want %q", g, want)
			}
		})
	}
}
