package skillbuilder

import (
	"strings"
	"testing"

	"agentmesh/mesh/session"

	"github.com/google/go-cmp/cmp"
)

// play tells the machine the answers, starting with a request, and returns
// where it stands after the last.
func play(t *testing.T, request string, answers ...string) (talk, session.Action, outcome) {
	t.Helper()
	s, do, what := begin(purposeIn(request)), session.Ask, noted
	for _, a := range answers {
		s, do, what = told(s, a, "ann")
		// A session is kept between messages.
		data, err := machine.Encode(s.Session)
		if err != nil {
			t.Fatal(err)
		}
		if s.Session, err = machine.Decode(data); err != nil {
			t.Fatal(err)
		}
	}
	return s, do, what
}

// told is what a run makes of a message, without the mesh.
func told(s talk, text, author string) (talk, session.Action, outcome) {
	s, move := s.hear(s.hears(text))
	what := noted
	switch move.Do {
	case session.Take:
		switch s, what, _ = s.take(move.Words); what {
		case missed:
			s.Session, move = machine.Miss(s.Session)
		case generate:
			if s.Step != Generating {
				s = s.to(Generating)
			}
			s = s.unique(func(string) bool { return false }).written(author, "2026-11-20")
		}
	case session.Explain:
		s.Hint = s.explanation()
	}
	return s, move.Do, what
}

// S4-040, S4-041, S4-046, S4-064.
func TestTheMachineGoesWhereTheAnswersLead(t *testing.T) {
	const slack = "create a skill that sends Slack alerts"
	for name, tt := range map[string]struct {
		request  string
		answers  []string
		state    string
		does     string
		question string
	}{
		"it asks for details at once when it knows the purpose": {slack, nil, Gathering, "ask", "step by step"},
		"it asks what the skill is for":                         {"create a skill", nil, Gathering, "ask", "What should the new skill do?"},
		"and then for details":                                  {"create a skill", []string{"it sends alerts to Slack"}, Gathering, "found", "channel and message"},
		"it insists on a purpose":                               {"create a skill", []string{"you decide"}, Gathering, "missed", "at least one sentence"},
		"it suggests name and triggers":                         {slack, []string{"you decide"}, Triggers, "noted", "slack.send_alert"},
		"it takes a question for no details":                    {slack, []string{"hm what do you need?"}, Gathering, "explain", "step by step"},
		"it takes a question for no phrase":                     {slack, []string{"ok", "what is a phrase?"}, Triggers, "explain", "Put a phrase in quotes"},
		"unless it is quoted":                                   {slack, []string{"ok", "when I say “what is up?”"}, Testing, "generate", "Shall I save it"},
		"it does not guess what was not understood":             {slack, []string{"ok", "👎"}, Triggers, "missed", "What should the skill be called?"},
		"it writes the skill":                                   {slack, []string{"ok", "ok"}, Testing, "generate", "Shall I save it as slack.send_alert?"},
		"it saves what was shown":                               {slack, []string{"ok", "ok", "yes"}, Testing, "save", ""},
		"it saves on a plain yes alone":                         {slack, []string{"ok", "ok", "you decide"}, Testing, "missed", "Say “yes” to save it."},
		"it does not take silence for consent":                  {slack, []string{"ok", "ok", "..."}, Testing, "ask", "I did not understand that."},
		"it takes a thumb for a no":                             {slack, []string{"ok", "ok", "👎"}, Testing, "noted", "What should be different?"},
		"it asks what to change":                                {slack, []string{"ok", "ok", "no"}, Testing, "noted", "What should be different?"},
		"it renames":                                            {slack, []string{"ok", "ok", "rename it to ping_team"}, Testing, "generate", "slack.ping_team"},
		"it asks again at the end":                              {slack, []string{"ok", "ok", "hm hm"}, Testing, "ask", "I did not understand that."},
		"it can be left at the beginning":                       {slack, []string{"cancel"}, Gathering, "leave", "step by step"},
		"it can be left in the middle":                          {slack, []string{"ok", "exit"}, Triggers, "leave", "called"},
		"it can be left at the end":                             {slack, []string{"ok", "ok", "stop"}, Testing, "leave", "Shall I save"},
		"it begins anew":                                        {slack, []string{"ok", "start over"}, Gathering, "begin", "What should the new skill do?"},
		"it welcomes who comes back":                            {slack, []string{"ok", "I'm back"}, Triggers, "ask", "Welcome back! Would you like to continue creating your skill that sends Slack alerts?"},
		"and goes on where it was":                              {slack, []string{"ok", "hi", "yes"}, Triggers, "ask", "What should the skill be called?"},
		"or begins anew":                                        {slack, []string{"ok", "hi", "no"}, Gathering, "begin", "What should the new skill do?"},
		"or with something else":                                {slack, []string{"ok", "hi", "a skill that posts tweets"}, Gathering, "begin", "recipient and message"},
		"or takes the answer to the question before":            {slack, []string{"ok", "hi", "call it slack.ping"}, Testing, "generate", "slack.ping"},
		"or can be left":                                        {slack, []string{"ok", "hi", "cancel"}, Triggers, "leave", "called"},
	} {
		t.Run(name, func(t *testing.T) {
			s, do, what := play(t, tt.request, tt.answers...)
			does := string(do)
			if do == session.Take || what == missed {
				does = [...]string{"missed", "noted", "found", "generate", "save", "adopt", "revise"}[what]
			}
			if s.Step != tt.state || does != tt.does {
				t.Errorf("it is in %s and does %q, want %s and %q: %+v", s.Step, does, tt.state, tt.does, s)
			}
			q := s.question("")
			if !strings.Contains(q, tt.question) {
				t.Errorf("it asks\n%s\nwant %q", q, tt.question)
			}
			if !strings.Contains(q, "cancel") {
				t.Errorf("the question does not say how to leave (S4-036): %s", q)
			}
		})
	}
}

func TestEditsChangeWhatTheyNameAndNothingElse(t *testing.T) {
	talked, _, _ := play(t, "create a skill that sends Slack alerts", "It posts it. It needs channel and text", "ok")
	before := talked.Draft
	for text, want := range map[string]func(*draft){
		"rename it to ops.page":                    func(s *draft) { s.Name = "ops.page" },
		"call it page_ops":                         func(s *draft) { s.Name = "slack.page_ops" },
		"change the name to ops.page":              func(s *draft) { s.Name = "ops.page" },
		"triggers: page ops, wake somebody":        func(s *draft) { s.Triggers = []string{"page ops", "wake somebody"} },
		"steps: look up who is on duty. Post it":   func(s *draft) { s.Steps = []string{"look up who is on duty", "Post it"} },
		"description: it pages the people on duty": func(s *draft) { s.Purpose = "pages the people on duty" },
	} {
		got, ok := before.edit(text)
		expected := before
		want(&expected)
		if diff := cmp.Diff(expected, got); diff != "" || !ok {
			t.Errorf("%q, understood: %v (-want +got):\n%s", text, ok, diff)
		}
	}
	got, ok := before.edit("inputs: channel, urgency and an optional link")
	if want := []string{"channel", "urgency", "link"}; !ok || !cmp.Equal(want, names(got.Inputs)) {
		t.Errorf("inputs are %v, want %v", names(got.Inputs), want)
	}
	if _, ok := before.edit("make it nicer"); ok {
		t.Error("what cannot be understood is taken for a change")
	}
}

// A name that is taken is never taken again, and the user hears of the change.
func TestANameThatIsTakenGetsANumber(t *testing.T) {
	s := begin("sends alerts")
	s.Draft.Name = "slack.send"
	got := s.unique(func(name string) bool { return name == "slack.send" || name == "slack.send_2" })
	if got.Draft.Name != "slack.send_3" || !strings.Contains(got.Hint, "slack.send already") {
		t.Errorf("named %q, saying %q", got.Draft.Name, got.Hint)
	}
	long := begin("")
	long.Draft.Name = "a." + strings.Repeat("b", 64)
	if got := long.unique(func(name string) bool { return name == long.Draft.Name }); len(got.Draft.Name) > 66 {
		t.Errorf("the name %q is too long", got.Draft.Name)
	}
}

// A user may want to be asked before each call of the skill, and with which
// words; whoever says so at the beginning need not say it again.
func TestASkillMayAskBeforeEachCall(t *testing.T) {
	const slack = "create a skill that sends Slack alerts"
	for name, tt := range map[string]struct {
		answers []string
		want    []string
		without []string
	}{
		"by default it does not": {[]string{"ok", "ok"}, nil, []string{"requires_approval", "confirm:"}},
		"said at the beginning":  {[]string{"Post it to the channel. Ask me before each call.", "ok"}, []string{"requires_approval: true", "Post it to the channel"}, []string{"Ask me"}},
		"said at the end":        {[]string{"ok", "ok", "it needs my approval"}, []string{"requires_approval: true", "The user is asked before each call."}, nil},
		"with words":             {[]string{"ok", "ok", "confirm: Alert the whole team?"}, []string{"Alert the whole team?\"\nauthor", "The user is asked before each call."}, nil},
		"and taken back":         {[]string{"ok", "ok", "confirm: Sure?", "without approval"}, nil, []string{"requires_approval", "confirm:"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := play(t, slack, tt.answers...)
			if s.Step != Testing || s.Draft.Source == "" {
				t.Fatalf("it stands at %s: %s", s.Step, s.Draft.Problem)
			}
			for _, w := range tt.want {
				if !strings.Contains(s.Draft.Source, w) {
					t.Errorf("%q is not in\n%s", w, s.Draft.Source)
				}
			}
			for _, w := range tt.without {
				if strings.Contains(s.Draft.Source, w) {
					t.Errorf("%q is in\n%s", w, s.Draft.Source)
				}
			}
		})
	}
}
