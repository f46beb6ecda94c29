package skillbuilder

import (
	"strings"
	"testing"

	"agentmesh/mesh/session"
	"agentmesh/mesh/skill"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWhatASkillIsForIsFoundInARequest(t *testing.T) {
	for text, want := range map[string]string{
		"I want to create a skill that sends Slack alerts":                "sends Slack alerts",
		"create a skill to send slack alerts, please":                     "sends slack alerts",
		"Build me a skill for summarizing Notion pages. Thanks":           "summarizes Notion pages",
		"I need a skill which notifies the team at example.com every day": "notifies the team at example.com every day",
		"create a Slack alert skill":                                      "handles Slack alert",
		"a new skill for invoices":                                        "handles invoices",
		"I want to create a new skill":                                    "",
		"create a skill":                                                  "",
		"hello":                                                           "",
		"The user said: make a skill that plans trips!\nIt is urgent.":    "plans trips",
	} {
		if got := purposeIn(text); got != want {
			t.Errorf("%q is for %q, want %q", text, got, want)
		}
	}
}

func TestWhatASkillIsForIsFoundInAnAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"It sends alerts to Slack":            "sends alerts to Slack",
		"it should summarize Notion pages":    "summarizes Notion pages",
		"I'd like it to post tweets.":         "posts tweets",
		"Send alerts to Slack. Every hour.":   "sends alerts to Slack",
		"to classify mails":                   "classifies mails",
		"Slack alerts":                        "handles Slack alerts",
		"a skill that translates contracts":   "translates contracts",
		"you decide":                          "",
		"   ":                                 "",
		"Watch\nthe build, and tell the team": "watches the build, and tell the team",
	} {
		if got := purposeOf(text); got != want {
			t.Errorf("%q is for %q, want %q", text, got, want)
		}
	}
}

func TestASkillIsNamedAfterWhatItDoes(t *testing.T) {
	for purpose, want := range map[string]string{
		"sends Slack alerts":                    "slack.send_alert",
		"sends alerts to Slack":                 "slack.send_alert",
		"sends slack alerts to the team":        "slack.send_alert",
		"summarizes Notion pages":               "notion.summarize_page",
		"handles Slack alert":                   "slack.alert",
		"classifies mails":                      "workflows.classify_mail",
		"publishes my weekly report on the web": "workflows.publish_weekly_report",
		"überprüft Rechnungen":                  "rechnungen.berpr_ft",
		"!!!":                                   "workflows.run",
		"all":                                   "workflows.run_all",
	} {
		if got := nameFor(purpose); got != want {
			t.Errorf("what %q is called %q, want %q", purpose, got, want)
		}
	}
}

func TestInputsAndStepsAreToldApart(t *testing.T) {
	for text, want := range map[string]struct{ steps, inputs string }{
		"channel and message": {"", "channel! message!"},
		"It posts a message to a channel. It needs the channel and the message":  {"It posts a message to a channel", "channel! message!"},
		"First look up the team, then post it; inputs: team, an optional limit":  {"First look up the team, then post it", "team! limit"},
		"1. Read the page. Write bullets. 2. page url, whether to be brief":      {"Read the page|Write bullets", "page_url! be_brief"},
		"1) you decide 2) a list of recipients":                                  {"", "recipients!"},
		"Post it and notify the team":                                            {"Post it and notify the team", ""},
		"It asks for the number of days":                                         {"", "days!"},
		"it needs amount, from and to":                                           {"", "amount! from! to!"},
		"channel (like #ops), text (optional)":                                   {"", "channel! text"},
		"the channel, the channel and the Channel":                               {"", "channel!"},
		"Look at the build every hour and complain when it is broken for a week": {"Look at the build every hour and complain when it is broken for a week", ""},
	} {
		steps, params := details(text)
		var inputs []string
		for _, p := range params {
			name := p.Name
			if p.Required {
				name += "!"
			}
			inputs = append(inputs, name)
		}
		if got := strings.Join(steps, "|"); got != want.steps || strings.Join(inputs, " ") != want.inputs {
			t.Errorf("%q has steps %q and inputs %q, want %q and %q", text, got, inputs, want.steps, want.inputs)
		}
	}
	types := map[string]string{}
	for _, p := range inputList("title, number of days, list of people, whether to wait") {
		types[p.Name] = p.Type
	}
	if diff := cmp.Diff(map[string]string{"title": "string", "days": "integer", "people": "array", "wait": "flag"}, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}

func TestNamesAndTriggersAreToldApart(t *testing.T) {
	for text, want := range map[string]struct{ name, triggers string }{
		"call it slack.ping": {"slack.ping", ""},
		"call it Team Alert and use it for “page ops”": {"team_alert", "page ops"},
		"slack.ping":                                    {"slack.ping", ""},
		"slack.ping, when I say ping the team":          {"slack.ping", "ping the team"},
		"1. slack.ping 2. ping the team, alert the ops": {"slack.ping", "ping the team|alert the ops"},
		"1. you decide 2. \"ping\" and \"pong\"":        {"", "ping|pong"},
		"name: alert_all; triggers: alert everybody":    {"alert_all", "alert everybody"},
		"alert the team, page ops":                      {"", "alert the team|page ops"},
		"when somebody asks for a digest or a summary":  {"", "a digest|a summary"},
		"triggers: deploy v1.2":                         {"", "deploy v1.2"},
	} {
		name, triggers := naming(text)
		if name != want.name || strings.Join(triggers, "|") != want.triggers {
			t.Errorf("%q gives %q and %q, want %q and %q", text, name, triggers, want.name, want.triggers)
		}
	}
}

func TestShortAnswersAreUnderstoodAndSentencesAreNot(t *testing.T) {
	for name, tt := range map[string]struct {
		is      func(string) bool
		yes, no string
	}{
		"cancel":  {isCancel, "cancel|Exit!|stop|please cancel|I want to exit skill creation|never mind|stop it now", "stop the server|cancels orders|it should stop|cancel the order of the customer"},
		"yes":     {isYes, "yes|Yes, please.|ok|looks good|save it|sure, go ahead|y|ja, bitte|weiter|👍", "send it to all|yes, but rename it|save the file to disk|ok so it posts things|👎|"},
		"no":      {isNo, "no|nope|no, start a new one|No thanks|nein, danke", "no, but send it|no channel is needed|notify ops"},
		"default": {isDefault, "you decide|ok, you decide|I don't know|your suggestions are fine|whatever you like|ok", "you decide which channel it is posted to then|post it|"},
		"hello":   {isGreeting, "hi|Hello!|I'm back|where were we?", "hi, call it slack.ping|good"},
		"restart": {isRestart, "start over|Restart!", "restart the server"},
	} {
		for text := range strings.SplitSeq(tt.yes, "|") {
			if !tt.is(text) {
				t.Errorf("%q is not understood as %s", text, name)
			}
		}
		for text := range strings.SplitSeq(tt.no, "|") {
			if tt.is(text) {
				t.Errorf("%q is taken for %s", text, name)
			}
		}
	}
}

// Whatever people say, the result is a skill that the mesh accepts, or a
// problem in words.
func TestAnyAnswersMakeAValidSkillOrAProblemInWords(t *testing.T) {
	words := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9 .,:;"'“”#()&\n_-]{0,60}`), rapid.String(),
		rapid.SampledFrom([]string{"ok", "you decide", "1. a 2. b", "call it x.y", "inputs: a, a, b c", "triggers: x", "rename it to all", "no", "hi"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := begin(purposeIn(words.Draw(t, "request")))
		for range 12 {
			if s.question("") == "" {
				t.Fatal("no question")
			}
			text := words.Draw(t, "answer")
			var do session.Action
			var what outcome
			s, do, what = told(s, text, words.Draw(t, "user"))
			if err := machine.Check(s.Session); err != nil {
				t.Fatalf("%q leads to %+v: %v", text, s, err)
			}
			switch {
			case do == session.Take && what == generate:
				if (s.Draft.Source == "") == (s.Draft.Problem == "") {
					t.Fatalf("%+v has the problem %q", s, s.Draft.Problem)
				}
				if s.Draft.Source != "" {
					if _, err := skill.Parse("", []byte(s.Draft.Source)); err != nil {
						t.Fatalf("the file is broken: %v\n%s", err, s.Draft.Source)
					}
					if again, ok := draftOf(s.Draft.Source); !ok {
						t.Fatalf("the draft %+v is not that of the file, %+v:\n%s", again, s.Draft, s.Draft.Source)
					}
				}
			case what == save:
				if s.Draft.Source == "" {
					t.Fatalf("nothing to save in %+v", s)
				}
				return
			}
		}
	})
}
