package skillbuilder

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/session"
)

// at is a session about Slack alerts where the answers lead.
func at(t *testing.T, answers ...string) talk {
	t.Helper()
	s, _, _ := play(t, "create a skill that sends Slack alerts", answers...)
	return s
}

// finding O4: what is for somebody else is told from an answer at each step, and in doubt the
// user is asked.
func TestWhatAMessageIsForIsToldAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name string
		at   talk
		want map[session.Kind]string // messages, divided by "|"
	}{
		{"purpose", begin(""), map[session.Kind]string{
			session.Answer:   "it sends alerts to Slack|sends alerts to Slack. Every hour.|to classify mails|a skill that translates contracts|I'd like it to post tweets|I want it to find my overdue tasks",
			session.Unclear:  "Send alerts to Slack. Every hour.|Slack alerts|Watch the build, and tell the team|Find my overdue tasks|I have a meeting at five|remind me to call Bob",
			session.Question: "what can a skill do?|what do you mean?|Could you give me an example?|help",
			session.Main:     "What is the weather like in Paris?|main: what are my tasks?|Ask main to book a table|How many overdue tasks do I have?",
			session.Leave:    "cancel|exit|I want to quit",
			session.Back:     "hi",
		}},
		{"details", at(t), map[session.Kind]string{
			session.Answer: "channel and message|It posts a message to a channel. It needs the channel and the message|1. Read the page. Write bullets. 2. page url|you decide|ok|" +
				"Look up who is on duty and then alert them|Post it and notify the team|Ask me before each call|inputs: team, an optional limit|Post the alert to the channel|It needs my approval",
			session.Second:   "I also want to create a skill that reads Notion pages|Create a skill for invoices|Oh, and can you build another skill that reads mails?|a new skill for invoices|It posts a message. I also need a skill to read Notion pages",
			session.Unclear:  "Find my overdue tasks|Remind me to call Bob tomorrow|I have a meeting at five|Book a table for two",
			session.Question: "hm what do you need?|What is an input?|Which steps do you mean?",
			session.Main:     "What's on my calendar today?|How is the weather in Paris?|main, what are my tasks",
		}},
		{"triggers", at(t, "ok"), map[session.Kind]string{
			session.Answer: "call it slack.ping|slack.ping|ok|alert the team, page ops|show my Slack alerts|“find my overdue tasks”|when I say ping the team|name: alert_all; triggers: alert everybody|use it for pages|1. you decide 2. \"ping\"|" +
				"call it slack.ping, when somebody asks for a digest|when I say “what is up?”",
			session.Second:   "I also want to create a skill that reads Notion pages",
			session.Unclear:  "Find my overdue tasks|Find my overdue tasks, then mail them to Bob|Remind me when the build fails|Translate the contract",
			session.Question: "what is a phrase?|Why do you need a name?",
			session.Main:     "How many tasks are overdue?",
		}},
		{"review", at(t, "ok", "ok"), map[session.Kind]string{
			session.Answer:   "yes|no|ok|rename it to ping_team|inputs: channel, text|triggers: page ops|steps: look up who is on duty. Post it|description: it pages the people on duty|ask me before each call|confirm: Shall I?|without approval",
			session.Second:   "I want to create a skill that reads Notion pages",
			session.Unclear:  "Find my overdue tasks|Remind me when the build fails|Book a table for two",
			session.Question: "What does it do?|What happens when I save it?",
			session.Main:     "Who won the match yesterday?",
		}},
	} {
		for kind, texts := range step.want {
			for text := range strings.SplitSeq(texts, "|") {
				if in := step.at.hears(text); in.Kind != kind {
					t.Errorf("at %s, %q is taken for %s, want %s", step.name, text, in.Kind, kind)
				}
			}
		}
	}
}

// finding O4: nothing of what is for somebody else, or may be, is in the draft, and the step
// stays; what was unclear is there once the user said that it is an answer.
func TestWordsForSomebodyElseAreNoAnswers(t *testing.T) {
	t.Parallel()
	for _, before := range []talk{at(t), at(t, "ok"), at(t, "ok", "ok")} {
		for _, text := range []string{"I also want to create a skill that reads Notion pages", "Find my overdue tasks", "What is the weather in Paris?", "what do you mean?", "main: find my tasks"} {
			after, do, what := told(before, text, "ann")
			if !reflect.DeepEqual(before.Draft, after.Draft) || after.Step != before.Step || do == session.Take {
				t.Errorf("at %s, %q leads to %s with outcome %d: %+v", before.Step, text, do, what, after)
			}
		}
		unclear, _, _ := told(before, "Find my overdue tasks", "ann")
		if q := unclear.question(""); !strings.Contains(q, "Is “Find my overdue tasks” an answer") || !strings.Contains(q, exit) {
			t.Errorf("asks %q", q)
		}
		if _, move := unclear.hear(unclear.hears("main")); move != (session.Move{Do: session.Pass, Words: "Find my overdue tasks"}) {
			t.Errorf("main gets %+v", move)
		}
		if _, move := unclear.hear(unclear.hears("answer")); move != (session.Move{Do: session.Take, Words: "Find my overdue tasks"}) {
			t.Errorf("an answer is taken as %+v", move)
		}
	}
}

// S4-065: a second workflow is answered with the name of the active session and the choice to
// finish, to park or to leave.
func TestASecondSkillIsAChoice(t *testing.T) {
	t.Parallel()
	before := at(t, "ok")
	asked, _, _ := told(before, "I also want to create a skill that reads Notion pages", "ann")
	q := asked.question("")
	for _, want := range []string{"You are creating your skill that sends Slack alerts.", "finish that first?", "“finish”", "“park” to set it aside and start the one that reads Notion pages", "“leave”", exit} {
		if !strings.Contains(q, want) {
			t.Errorf("%q is not in\n%s", want, q)
		}
	}
	if s, do, _ := told(asked, "finish", "ann"); do != session.Ask || !reflect.DeepEqual(s.Draft, before.Draft) || len(s.Later) != 1 {
		t.Errorf("finish leads to %s: %+v", do, s)
	}
	if s, do, _ := told(asked, "park it", "ann"); do != session.Begin || s.Draft.Purpose != "reads Notion pages" || len(s.Parked) != 1 || !reflect.DeepEqual(s.Parked[0].Draft, before.Draft) {
		t.Errorf("park leads to %s: %+v", do, s)
	}
	if s, do, _ := told(asked, "leave", "ann"); do != session.GoAway || !reflect.DeepEqual(s.Draft, before.Draft) {
		t.Errorf("leave leads to %s: %+v", do, s)
	}
}

// What is wanted besides is never dropped without a word: where nothing more can be noted, or
// set aside, the choice says so, and who chooses it all the same is asked again.
func TestASecondSkillIsNotOfferedWhatThereIsNoRoomFor(t *testing.T) {
	t.Parallel()
	full := at(t, "ok")
	for n := range session.MaxLater {
		full.Later = append(full.Later, fmt.Sprint("does ", n))
	}
	asked, _, _ := told(full, "I also want to create a skill that reads Notion pages", "ann")
	if q := asked.question(""); strings.Contains(q, "“finish”") || !strings.Contains(q, "You want 5 more after it already, and I cannot note the one that reads Notion pages besides") || !strings.Contains(q, "“park”") {
		t.Errorf("asks %s", q)
	}
	if s, do, _ := told(asked, "finish", "ann"); do != session.Ask || s.Waits != session.ForChoice || s.Other != "reads Notion pages" {
		t.Errorf("finish leads to %s: %+v", do, s)
	}
	if s, _, what := told(asked, "call it slack.ping", "ann"); what != generate || s.Draft.Name != "slack.ping" || len(s.Later) != session.MaxLater {
		t.Errorf("an answer leads to %v: %+v", what, s)
	}
	for range session.MaxParked {
		full.Parked = append(full.Parked, session.Parked[draft]{Step: full.Step, Draft: full.Draft})
	}
	asked, _, _ = told(full, "I also want to create a skill that reads Notion pages", "ann")
	if q := asked.question(""); strings.Contains(q, "“park”") || !strings.Contains(q, "Say “leave” to keep it") {
		t.Errorf("asks %s", q)
	}
}

// A problem with the skill leads back to the step whose answer causes it.
func TestAProblemLeadsBackToItsCause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(*draft)
		step  string
		asks  string
	}{
		"the name":    {func(d *draft) { d.Name = "slack.all" }, Triggers, "What should the skill be called?"},
		"a trigger":   {func(d *draft) { d.Triggers = []string{"a\x00b"} }, Triggers, "What should the skill be called?"},
		"a step":      {func(d *draft) { d.Steps = []string{strings.Repeat("x", 5000)} }, Gathering, "How does it work"},
		"an input":    {func(d *draft) { d.Inputs = append(d.Inputs, d.Inputs[0]) }, Gathering, "How does it work"},
		"the purpose": {func(d *draft) { d.Purpose = strings.Repeat("x", 5000) }, Gathering, "What should the new skill do?"},
	} {
		s := at(t, "ok", "ok")
		tt.spoil(&s.Draft)
		s = s.to(Generating).written("ann", "2026-11-20")
		q := s.question("")
		if s.Step != tt.step || s.Draft.Source != "" || !strings.Contains(q, "I cannot write the skill like this") || !strings.Contains(q, tt.asks) {
			t.Errorf("%s leads to %s and asks\n%s", name, s.Step, q)
		}
		for _, answer := range []string{"it sends alerts to Slack", "ok", "call it slack.ping, use it for “ping”", "inputs: channel"} {
			if s.Step != Testing {
				s, _, _ = told(s, answer, "ann")
			}
		}
		if s.Step != Testing || s.Draft.Source == "" {
			t.Errorf("%s cannot be mended: %+v", name, s)
		}
	}
}

// finding O4: what becomes of a skill that is there already, a model says where the user is
// asked that, and of those that they are asked about; anything else is unclear.
func TestAModelDecidesOnlyAboutSkillsThatAreOffered(t *testing.T) {
	t.Parallel()
	offered := begin("sends Slack alerts")
	offered.Draft.Similar = []similar{{Name: "slack.send_alert", Own: true}}
	for _, tt := range []struct {
		at    talk
		call  string
		words string // of the answer, or "" where there is none
	}{
		{offered, `{"what":"use","name":"slack.send_alert"}`, "use slack.send_alert"},
		{offered, `{"what":"change","name":""}`, "change "},
		{offered, `{"what":"new","name":""}`, "new "},
		{offered, `{"what":"use","name":"mail.send"}`, ""},
		{offered, `{"what":"delete","name":"slack.send_alert"}`, ""},
		{at(t), `{"what":"use","name":"mail.send"}`, ""},
		{at(t), `{"what":"new","name":""}`, ""},
		{at(t, "ok"), `{"what":"use","name":"mail.send"}`, ""},
		{at(t, "ok", "ok"), `{"what":"change","name":"slack.send_alert"}`, ""},
	} {
		l := &listener{talk: tt.at, text: "as it is, for Zebedee"}
		l.Call(t.Context(), mesh.ToolUse{Name: toolThere, Arguments: tt.call})
		want := session.Input{Kind: session.Answer, Words: tt.words}
		if tt.words == "" {
			want = session.Input{Kind: session.Unclear, Words: l.text}
		}
		if l.heard == nil || l.heard.Input != want {
			t.Errorf("at %s, %s is heard as %+v, want %+v", tt.at.Step, tt.call, l.heard, want)
		}
	}
}
