package agent_test

import (
	"testing"

	"agentmesh/mesh/agent"
)

// S3-044: any sensible yes goes on, and nothing that is more or less than a yes does.
func TestAnYesIsAYesAndAConditionIsNot(t *testing.T) {
	for text, want := range map[string]agent.Answer{
		"yes": agent.Yes, "Yes!": agent.Yes, "y": agent.Yes, "ok": agent.Yes, "OK, go ahead.": agent.Yes, "sure, please do": agent.Yes,
		"continue": agent.Yes, "please continue": agent.Yes, "go on": agent.Yes, "keep going": agent.Yes, "ja bitte": agent.Yes,
		"Weiter": agent.Yes, "sí": agent.Yes, "👍": agent.Yes, "yes please, go ahead": agent.Yes, "sounds good, proceed": agent.Yes,
		"do it": agent.Yes, "please do": agent.Yes, "of course": agent.Yes, "sounds good": agent.Yes, "go for it": agent.Yes, "Absolutely!": agent.Yes,
		"yes please": agent.Yes, "of course not": agent.No, "absolutely not": agent.No, "definitely don't": agent.No, "do nothing": agent.Other,
		"good": agent.Other, "thank you": agent.Other, "yes but ...": agent.Other, "no, do it": agent.Other, "no problem": agent.Other,
		"yes if Bob agrees": agent.Other, "only the first": agent.Other, "do the second": agent.Other, "yes\nno": agent.Other,
		"no": agent.No, "No thanks": agent.No, "stop": agent.No, "nein danke": agent.No, "please don't": agent.No,
		"do not continue": agent.No, "don’t do it": agent.No, "cancel that": agent.No, "not now": agent.No,
		"": agent.Other, "...": agent.Other, "yes, but not to Bob": agent.Other, "yes but change the subject": agent.Other,
		"yes, no, I mean": agent.Other, "what would it send?": agent.Other, "tell me more": agent.Other,
		"yes send it to alice@example.com instead": agent.Other, "I would say that you can go on with all of it now": agent.Other,
		"yesterday": agent.Other, "please": agent.Other,
		"keep it": agent.Other, "please keep them": agent.Other, "keep that": agent.Other, "ok, keep it": agent.Other, "please do keep it": agent.Other, // of what would be deleted
		"Is that right?": agent.Other, "ok?": agent.Other, "¿sí?": agent.Other, "はい？": agent.Other, "no?": agent.Other,
	} {
		if got := agent.AnswerOf(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}
