package offline

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fillFor fills the arguments of one skill from a text.
func fillFor(t *testing.T, name, text string, inputs ...string) *filler {
	t.Helper()
	for _, s := range testCatalog(t).skills {
		if s.Name == name {
			f := &filler{cl: newClause(text), skill: s, now: friday(), inputs: inputs, known: text}
			f.fill()
			return f
		}
	}
	t.Fatalf("no skill %s", name)
	return nil
}

// Arguments come out of the words: quotations, addresses, dates, times,
// durations, status words, numbers and names.
func TestFill_findsArguments(t *testing.T) {
	const report = "2 tasks:\n1. A\n2. B"
	tests := map[string]struct {
		skill  string
		inputs []string
		want   string
	}{
		"Find my overdue tasks":                                   {"tasks.search", nil, `{"status":"overdue"}`},
		"show the top 5 open tasks about the website":             {"tasks.search", nil, `{"limit":5,"query":"website","status":"open"}`},
		"list tasks due before Friday":                            {"tasks.search", nil, `{"due_before":"2026-11-27"}`},
		"which tasks are due this week":                           {"tasks.search", nil, `{"due_before":"2026-11-22"}`},
		`find tasks with "tax return"`:                            {"tasks.search", nil, `{"query":"tax return"}`},
		"create a task to buy eggs and milk":                      {"tasks.create", nil, `{"title":"Buy eggs and milk"}`},
		"create a high priority task to fix the bug due tomorrow": {"tasks.create", nil, `{"title":"Fix the bug","priority":"high","due":"2026-11-21"}`},
		`add a task called "Renew passport" due 2026-12-24`:       {"tasks.create", nil, `{"title":"Renew passport","due":"2026-12-24"}`},
		"add a todo: water the plants":                            {"tasks.create", nil, `{"title":"Water the plants"}`},
		"add buy milk to my todo list":                            {"tasks.create", nil, `{"title":"Buy milk"}`},
		"remind me to call Bob next Monday":                       {"tasks.create", nil, `{"title":"Call Bob","due":"2026-11-23"}`},
		"mark task t-9 as done":                                   {"tasks.update", nil, `{"id":"t-9","status":"done"}`},
		"complete task #12":                                       {"tasks.update", nil, `{"id":"12","status":"done"}`},
		"set task 7 to in progress":                               {"tasks.update", nil, `{"id":"7","status":"in_progress"}`},
		"archive it":                                              {"tasks.archive", []string{"1. Pay, id t-4"}, `{"id":"t-4"}`},
		"create a follow-up meeting tomorrow at 2pm":              {"calendar.create", nil, `{"title":"Follow-up meeting","start":"2026-11-21T14:00:00+01:00"}`},
		"schedule lunch with Alice on December 1 at noon":         {"calendar.create", nil, `{"title":"Lunch with Alice","start":"2026-12-01T12:00:00+01:00"}`},
		"book a meeting in 2 hours for 30 minutes":                {"calendar.create", nil, `{"title":"Meeting","start":"2026-11-20T11:30:00+01:00","duration":"30m"}`},
		"meeting with pat@x.org 2-3:30pm tomorrow in Room 5 about the budget": {"calendar.create", nil,
			`{"title":"Budget","start":"2026-11-21T14:00:00+01:00","duration":"1h30m","attendees":["pat@x.org"],"location":"Room 5"}`},
		"schedule a sync on Monday at 10am until noon": {"calendar.create", nil, `{"title":"Sync","start":"2026-11-23T10:00:00+01:00","end":"2026-11-23T12:00:00+01:00"}`},
		"show my calendar for next week":               {"calendar.list", nil, `{"from":"2026-11-23","to":"2026-11-29"}`},
		"list my next 3 meetings":                      {"calendar.list", nil, `{"limit":3}`},
		"email bob@x.org saying the build is green":    {"mail.send", nil, `{"to":["bob@x.org"],"subject":"The build is green","body":"The build is green"}`},
		"tell ann@x.org and ben@y.org, cc eve@z.org, that lunch is ready": {"mail.send", nil,
			`{"to":["ann@x.org","ben@y.org"],"cc":["eve@z.org"],"subject":"Lunch is ready","body":"Lunch is ready"}`},
		`mail kim@x.org with subject "Lunch" saying "It is ready"`: {"mail.send", nil, `{"to":["kim@x.org"],"subject":"Lunch","body":"It is ready"}`},
		"email the report to bob@x.org":                            {"mail.send", []string{report}, `{"to":["bob@x.org"],"subject":"Report: 2 tasks","body":"2 tasks:\n1. A\n2. B"}`},
		"email bob@x.org the overdue tasks report":                 {"mail.send", []string{report}, `{"to":["bob@x.org"],"subject":"Overdue tasks report","body":"2 tasks:\n1. A\n2. B"}`},
		"send bob@x.org an email saying it's done":                 {"mail.send", nil, `{"to":["bob@x.org"],"subject":"It's done","body":"It's done"}`},
		"create a task called ../notes":                            {"tasks.create", nil, `{"title":"../notes"}`},
		"email bob@x.org about the meeting tomorrow":               {"mail.send", nil, `{"to":["bob@x.org"],"subject":"Meeting","body":"The meeting tomorrow"}`},
		"list all my overdue todos":                                {"tasks.search", nil, `{"status":"overdue"}`},
		"create a task to get the low report done":                 {"tasks.create", nil, `{"title":"Get the low report done"}`},
		"alert #ops that the build failed":                         {"slack.alert", nil, `{"channel":"#ops","text":"The build failed"}`},
		"what's the weather in New York tomorrow":                  {"weather.forecast", nil, `{"city":"New York","date":"2026-11-21"}`},
		"How do I configure rate limiting for my agent?":           {"knowledge.search", nil, `{"query":"configure rate limiting agent"}`},
	}
	for text, tt := range tests {
		t.Run(text, func(t *testing.T) {
			f := fillFor(t, tt.skill, text, tt.inputs...)
			var want, got any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(encode(f.args)), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(f.missing) > 0 {
				t.Errorf("missing %v, arguments (-want +got):\n%s", f.missing, diff)
			}
		})
	}
}

const unclear = "a date or time that is clear, as 2026-12-01 or 14:30, instead of "

// Nothing is invented: what only a person can know is named as missing.
func TestFill_namesWhatIsMissing(t *testing.T) {
	tests := map[string]struct {
		skill, text string
		inputs      []string
		want        string
	}{
		"an address of a person":  {"mail.send", "email Bob the news", nil, "the e-mail address of Bob"},
		"an address of nobody":    {"mail.send", "send a mail saying hi", nil, "an e-mail address (to)"},
		"what a mail is to say":   {"mail.send", "email bob@x.org", nil, "body (The text of the message)"},
		"what is in a mail":       {"mail.send", "send bob@x.org a mail", nil, "body (The text of the message)"},
		"a day that there is not": {"calendar.create", "schedule lunch on Feb 30", nil, unclear + "“Feb 30”"},
		"a date that is none":     {"calendar.create", "schedule lunch on 2026-02-30 at 3pm", nil, unclear + "“2026-02-30”"},
		"a date of two readings":  {"tasks.create", "create a task to pay by 01/02/2027", nil, unclear + "“01/02/2027”"},
		"an hour that is none":    {"tasks.create", "remind me to call at 25:00", nil, unclear + "“at 25:00”"},
		"what a word refers to":   {"mail.send", "email it to bob@x.org", nil, "body (The text of the message)"},
		"a report of nobody":      {"mail.send", "email the report to bob@x.org", nil, "body (The text of the message)"},
		"which of several things": {"tasks.archive", "archive it", []string{"id t-1, id t-2"}, "which task is meant (its id)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := fillFor(t, tt.skill, tt.text, tt.inputs...)
			if diff := cmp.Diff([]string{tt.want}, f.missing); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An address is taken from the conversation when the name says whose it is.
func TestFill_looksUpAddresses(t *testing.T) {
	f := fillFor(t, "mail.send", "email Bob the news")
	f.known = "Bob is bob@example.com and Ann is ann@example.com."
	f.fill()
	if diff := cmp.Diff([]string{"bob@example.com"}, f.args["to"]); diff != "" {
		t.Error(diff)
	}
	f = fillFor(t, "mail.send", "email him the news")
	f.known = "Find Bob's tasks (bob@example.com)"
	f.fill()
	if diff := cmp.Diff([]string{"bob@example.com"}, f.args["to"]); diff != "" {
		t.Error(diff)
	}
}

// A meeting without a time gets one, and the user is told which.
func TestFill_saysWhatItAssumed(t *testing.T) {
	f := fillFor(t, "calendar.create", "schedule a review meeting")
	if got, want := f.args["start"], "2026-11-23T10:00:00+01:00"; got != want {
		t.Errorf("start %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{"no time was given, so I chose Monday, 23 November 2026 at 10:00"}, f.assumed); diff != "" {
		t.Error(diff)
	}
}

// Parameters are understood by name, type and description, whatever the skill.
func TestFill_understandsParametersOfUnknownSkills(t *testing.T) {
	s := &skill{Name: "crm.note", Description: "Add a note to a customer", Parameters: []param{
		{Name: "customer", Type: "string", Required: true, Description: "Name of the customer"},
		{Name: "email", Type: "string", Description: "Email address"},
		{Name: "minutes", Type: "integer", Description: "How long it took"},
		{Name: "urgent", Type: "flag", Description: "Whether it is urgent"},
		{Name: "stars", Type: "integer", Description: "Rating"},
		{Name: "tags", Type: "array", Description: "Labels"},
		{Name: "follow_up_date", Type: "string", Description: "Date, YYYY-MM-DD"},
		{Name: "starts_at", Type: "string", Description: "RFC 3339 time"},
		{Name: "kind", Type: "string", Description: "One of: call, visit, or letter"},
		{Name: "length", Type: "string", Description: "ISO 8601 duration such as PT30M"},
	}}
	f := &filler{cl: newClause("add an urgent note for Acme Corp <x@acme.io> about the visit tomorrow at 3pm for 45 minutes, stars 4, tags vip, north"), skill: s, now: friday()}
	f.fill()
	want := map[string]any{"customer": "Acme Corp", "email": "x@acme.io", "minutes": int64(45), "urgent": true, "stars": int64(4), "tags": []string{"vip", "north"},
		"follow_up_date": "2026-11-21", "starts_at": "2026-11-21T15:00:00+01:00", "kind": "visit", "length": "PT45M"}
	if diff := cmp.Diff(want, f.args); diff != "" {
		t.Error(diff)
	}
}
