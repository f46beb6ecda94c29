package mesh_test

import (
	"testing"

	"agentmesh/mesh"
)

// S3-044: any sensible yes goes on, and nothing that is more or less than a yes does.
func TestAnYesIsAYesAndAConditionIsNot(t *testing.T) {
	for text, want := range map[string]mesh.Answer{
		"yes": mesh.AnswerYes, "Yes!": mesh.AnswerYes, "y": mesh.AnswerYes, "ok": mesh.AnswerYes, "OK, go ahead.": mesh.AnswerYes, "sure, please do": mesh.AnswerYes,
		"continue": mesh.AnswerYes, "please continue": mesh.AnswerYes, "go on": mesh.AnswerYes, "keep going": mesh.AnswerYes, "ja bitte": mesh.AnswerYes,
		"Weiter": mesh.AnswerYes, "sí": mesh.AnswerYes, "👍": mesh.AnswerYes, "yes please, go ahead": mesh.AnswerYes, "sounds good, proceed": mesh.AnswerYes,
		"do it": mesh.AnswerYes, "please do": mesh.AnswerYes, "of course": mesh.AnswerYes, "sounds good": mesh.AnswerYes, "go for it": mesh.AnswerYes, "Absolutely!": mesh.AnswerYes,
		"yes please": mesh.AnswerYes, "of course not": mesh.AnswerNo, "absolutely not": mesh.AnswerNo, "definitely don't": mesh.AnswerNo, "do nothing": mesh.AnswerOther,
		"good": mesh.AnswerOther, "thank you": mesh.AnswerOther, "yes but ...": mesh.AnswerOther, "no, do it": mesh.AnswerOther, "no problem": mesh.AnswerOther,
		"yes if Bob agrees": mesh.AnswerOther, "only the first": mesh.AnswerOther, "do the second": mesh.AnswerOther, "yes\nno": mesh.AnswerOther,
		"no": mesh.AnswerNo, "No thanks": mesh.AnswerNo, "stop": mesh.AnswerNo, "nein danke": mesh.AnswerNo, "please don't": mesh.AnswerNo,
		"do not continue": mesh.AnswerNo, "don’t do it": mesh.AnswerNo, "cancel that": mesh.AnswerNo, "not now": mesh.AnswerNo,
		"": mesh.AnswerOther, "...": mesh.AnswerOther, "yes, but not to Bob": mesh.AnswerOther, "yes but change the subject": mesh.AnswerOther,
		"yes, no, I mean": mesh.AnswerOther, "what would it send?": mesh.AnswerOther, "tell me more": mesh.AnswerOther,
		"yes send it to alice@example.com instead": mesh.AnswerOther, "I would say that you can go on with all of it now": mesh.AnswerOther,
		"yesterday": mesh.AnswerOther, "please": mesh.AnswerOther,
		"keep it": mesh.AnswerOther, "please keep them": mesh.AnswerOther, "keep that": mesh.AnswerOther, "ok, keep it": mesh.AnswerOther, "please do keep it": mesh.AnswerOther, // of what would be deleted
		"Is that right?": mesh.AnswerOther, "ok?": mesh.AnswerOther, "¿sí?": mesh.AnswerOther, "はい？": mesh.AnswerOther, "no?": mesh.AnswerOther,
	} {
		if got := mesh.AnswerOf(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}
