package skillbuilder

import (
	"strings"
	"testing"
)

// hears returns what becomes of a question before each call by the text, and
// whether the text says something besides.
func hears(s draft, text string) (asks bool, confirm, rest string) {
	rest = s.approval(text)
	return s.Approval, s.Confirm, rest
}

// Who wants to be asked is asked, in whatever words: nothing that speaks against
// acting takes it for a release.
func TestWordsThatAskForApprovalNeverEndIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Never send it without my approval",
		"never send it without asking",
		"Don't send it without asking me first",
		"Don’t ever post without asking me.",
		"No message goes out without my permission",
		"It should not run without asking me before",
		"It must not post anything without the approval of the user",
		"Nothing is sent without my confirmation!",
		"Without my approval it must not run",
		"Without asking me, nothing may be sent",
		"You cannot send it without asking me",
		"It mustn't be sent unless I approve",
		"Only send it after asking me for approval",
		"Avoid sending it without asking me",
		"It would be bad to send it without asking me",
		"Sending without asking me is forbidden",
		"I'd be angry if it posted without asking me",
		"I hate that it posts without asking me",
		"Make it impossible to send it without asking me",
		"Delete what was posted without asking me",
		"I don't want it to run without asking me",
		"Never do these:\n- post it\n- send it without asking me",
		"No, never send it without asking me",
		"No approval is needed unless it goes to everybody, then my approval is needed",
		"Don't ask me when it is urgent",
		"Don't ask me if the channel is #ops",
		"Please ask me before each call",
		"ask me first",
		"It needs my approval",
		"it requires approval from me",
		"Wait until I confirm",
		"I must approve it first",
		"with confirmation",
	} {
		for _, before := range []draft{{}, {Approval: true, Confirm: "Really?"}, {Confirm: "Really?"}} {
			if asks, confirm, _ := hears(before, text); !asks || confirm != before.Confirm {
				t.Errorf("%q, heard by %+v, asks: %v with %q", text, before, asks, confirm)
			}
			edited, ok := before.edit(text)
			if !ok || !edited.Approval || edited.Confirm != before.Confirm {
				t.Errorf("%q, as a change of %+v, gives %+v, %v", text, before, edited, ok)
			}
		}
	}
}

func TestPlainWordsEndApproval(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Don't ask me",
		"Don’t ask me before each call.",
		"please do not ask me first",
		"It should not ask me before it runs",
		"You need not ask",
		"It doesn't have to ask me every time",
		"No need to ask",
		"There is no need to ask me for approval",
		"Never ask me again!",
		"No, don't ask me",
		"Stop asking me",
		"I don't want to be asked",
		"I do not need to approve it",
		"without asking me",
		"Run it without asking",
		"It may send it without asking me first",
		"just send it without my approval",
		"without approval",
		"You don't need to ask me",
		"Send that without asking me",
		"no approval needed",
		"It needs no confirmation",
		"it doesn't need my approval",
		"My approval is not required.",
	} {
		for _, before := range []draft{{}, {Approval: true, Confirm: "Really?"}} {
			if asks, confirm, rest := hears(before, text); asks || confirm != "" || rest != "" {
				t.Errorf("%q, heard by %+v, asks: %v with %q, and %q is left", text, before, asks, confirm, rest)
			}
			if edited, ok := before.edit(text); !ok || edited.Approval || edited.Confirm != "" {
				t.Errorf("%q, as a change of %+v, gives %+v, %v", text, before, edited, ok)
			}
		}
	}
}

// What somebody else approves, and what the skill asks for, is a matter of its
// steps and changes nothing about the question to the user.
func TestTheApprovalOfOthersIsAStep(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"It needs approval of the manager",
		"it requires the manager's approval",
		"It needs permission from the legal team before it posts",
		"It asks for the approval of the manager first",
		"It asks the manager for approval before it posts",
		"Post it to the team without asking the manager",
		"Never post it without the approval of the manager",
		"Don't ask the customer before each call",
		"Never ask which channel it is",
		"Don't ask me for the password",
	} {
		for _, before := range []draft{{}, {Approval: true, Confirm: "Really?"}} {
			if asks, confirm, rest := hears(before, text); asks != before.Approval || confirm != before.Confirm || rest != text {
				t.Errorf("%q, heard by %+v, asks: %v with %q, and %q is left", text, before, asks, confirm, rest)
			}
			if edited, _ := before.edit(text); edited.Approval != before.Approval || edited.Confirm != before.Confirm || len(edited.Inputs) > 0 {
				t.Errorf("%q, as a change of %+v, gives %+v", text, before, edited)
			}
		}
		if steps, inputs := details(text); strings.Join(steps, "|") != text || len(inputs) > 0 {
			t.Errorf("%q has steps %q and inputs %v", text, steps, inputs)
		}
	}
}

// A sentence that says what the skill does is a step, also if it says besides
// whether the user is asked.
func TestAStepThatSpeaksOfAskingStays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		asks bool
		rest string
	}{
		"Post it to #ops and notify the team without asking me.":     {false, "Post it to #ops and notify the team without asking me."},
		"It must never write to #ops without my approval":            {true, "It must never write to #ops without my approval"},
		"It needs my approval to write to #ops":                      {true, "It needs my approval to write to #ops"},
		"Find the page. Never send it without asking me. Post it.":   {true, "Find the page. Post it."},
		"Find the page\nAsk me before each call\nWrite a summary":    {true, "Find the page\nWrite a summary"},
		"Don't ask me before each call. But never without asking me": {true, ""},
	} {
		if asks, _, rest := hears(draft{}, text); asks != want.asks || rest != want.rest {
			t.Errorf("%q asks: %v, and %q is left", text, asks, rest)
		}
	}
	s, ok := draft{Approval: true, Name: "slack.post"}.edit("steps: find the page, post it without my approval to nobody")
	if !ok || !s.Approval || len(s.Steps) != 1 {
		t.Errorf("steps that speak of approval give %+v, %v", s, ok)
	}
	s, ok = draft{Name: "slack.post"}.edit("Ask me before each call. Rename it to slack.ping")
	if !ok || !s.Approval || s.Name != "slack.ping" {
		t.Errorf("two changes give %+v, %v", s, ok)
	}
}
