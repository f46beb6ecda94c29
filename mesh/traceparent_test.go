package mesh

import "testing"

const someTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparentsOfExecutionsFollowFromTheirIDs(t *testing.T) {
	turn, child := NewExecutionID(NewThreadID()), NewExecutionID(NewThreadID())
	under := Under(someTrace, turn)
	if !ValidTraceparent(under) || under[:36] != someTrace[:36] || under[52:] != "-01" || under[36:52] != SpanOf(turn) || under != Under(someTrace, turn) {
		t.Errorf("Under = %q", under)
	}
	if SpanOf(turn) == SpanOf(child) {
		t.Error("two executions have the same span")
	}
	for name, c := range map[string]struct{ came, want string }{
		"none":                      {"", ""},
		"its own":                   {under, Under(someTrace, child)},
		"of a mesh without spans":   {someTrace, someTrace},
		"its own, and not sampled":  {under[:53] + "00", Under(someTrace, child)[:53] + "00"},
		"of an agent that is above": {Under(someTrace, child), Under(someTrace, child)},
	} {
		if got := Below(c.came, turn, child); got != c.want {
			t.Errorf("%s: Below(%q) = %q, want %q", name, c.came, got, c.want)
		}
	}
}

func TestLaterTraceparentsAreLoggedAsVersionZero(t *testing.T) {
	for in, want := range map[string]string{"": "", someTrace: someTrace, "01" + someTrace[2:] + "-more": someTrace} {
		if got := LoggedTraceparent(in); got != want {
			t.Errorf("LoggedTraceparent(%q) = %q, want %q", in, got, want)
		}
	}
}
