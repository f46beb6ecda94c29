package skillbuilder

import (
	"testing"

	"agentmesh/mesh/session"
)

// An offer that is answered by something else is not lost, and is no answer to a skill that has not
// begun: main's question is answered, and another skill is begun with this one set aside.
func TestAnOfferIsNotLost(t *testing.T) {
	t.Parallel()
	done := at(t, "ok", "ok").to(Complete)
	done.Later = []string{"reads Notion pages", "books rooms"}
	offered, ok := done.offer()
	if err := machine.Check(offered.Session); !ok || err != nil || !offered.offering() || offered.Draft.After != "Your skill 'slack.send_alert' is now active." {
		t.Fatalf("offered %+v, %v", offered, err)
	}
	for text, want := range map[string]struct {
		do      session.Action
		purpose string
		offers  bool
	}{
		"yes": {session.Begin, "reads Notion pages", false}, "please begin with it now": {session.Begin, "reads Notion pages", false},
		"no": {session.GoAway, "reads Notion pages", true}, "exit": {session.GoAway, "reads Notion pages", true},
		"hello": {session.Ask, "reads Notion pages", true}, "channel and text": {session.Ask, "reads Notion pages", true},
		"I do not want the skill that reads Notion pages": {session.Ask, "reads Notion pages", true},
		"main: what is late?":                             {session.Pass, "reads Notion pages", true},
		"create a skill that pings Bob":                   {session.Begin, "pings Bob", false},
	} {
		got, move := offered.hear(offered.hears(text))
		if move.Do != want.do || got.Draft.Purpose != want.purpose || (got.Draft.After != "") != want.offers || len(got.Draft.Steps) > 0 {
			t.Errorf("%q leads to %s: %+v", text, move.Do, got.Session)
		}
		if err := machine.Check(got.Session); err != nil || len(got.Later) != 1 && move.Do != session.Begin {
			t.Errorf("%q: %v, later %q", text, err, got.Later)
		}
	}
}
