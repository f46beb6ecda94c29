package mesh

import (
	"slices"
	"strings"
	"unicode"
)

// An Answer is how a user's message answers a question that wants yes or no.
type Answer uint8

// The answers. Everything that is neither a plain yes nor a plain no is AnswerOther:
// the user wants something else, or only under a condition.
const (
	AnswerOther Answer = iota
	AnswerYes
	AnswerNo
)

// maxAnswer is how many words a plain answer has, at most.
const maxAnswer = 6

// Words of plain answers, in the languages that users wrote in; the words in
// polite may stand beside them.
var (
	yesWords = []string{
		"yes", "y", "yep", "yeah", "yup", "ok", "okay", "k", "sure", "fine", "correct", "right", "agreed", "approve", "approved",
		"confirm", "confirmed", "accept", "accepted", "save", "continue", "proceed", "resume", "go", "ahead", "going", "send", "do", "course",
		"absolutely", "definitely", "certainly", "sounds", "ja", "jo", "gern",
		"gerne", "weiter", "fortfahren", "passt", "oui", "continuer", "continuez", "sí", "si", "sigue", "claro", "vale", "sim", "да", "はい", "是", "好",
		"👍", "✅",
	}
	noWords = []string{
		"no", "n", "nope", "nah", "stop", "cancel", "abort", "deny", "denied", "refuse", "refused", "reject", "rejected", "don't", "dont", "not",
		"never", "nein", "nicht", "abbrechen", "stopp", "non", "arrête", "nao", "não", "нет", "いいえ", "不", "👎", "❌",
	}
	politeWords = []string{
		"please", "thanks", "thank", "you", "it", "that", "this", "for", "on", "with", "and", "of", "just", "all",
		"everything", "looks", "sounds", "good", "great", "perfect", "i", "go", "now", "bitte", "danke", "s'il", "vous", "plaît", "por", "favor", "well",
		"keep", "let's", "lets", "them", "these", "is", "thats", "that's", "would", "like", "to",
	}
)

// AnswerOf reads a user's reply to a question such as "Shall I continue?". A
// word of refusal beside one of agreement is AnswerOther, and so are a question in
// return and anything longer than a few words, for it says more than yes or no.
func AnswerOf(text string) Answer {
	words := strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(".,;:!?？¿¡\"()…-–—", r)
	})
	if len(words) == 0 || len(words) > maxAnswer {
		return AnswerOther
	}
	yes, no := false, false
	for _, w := range words {
		switch {
		case slices.Contains(yesWords, w):
			yes = true
		case slices.Contains(noWords, w):
			no = true
		case !slices.Contains(politeWords, w):
			return AnswerOther
		}
	}
	keeps := slices.Contains(words, "keep") && !slices.Contains(words, "going")
	switch {
	case strings.ContainsAny(text, "?？¿"), keeps: // "ok, keep it", of what would be deleted
		return AnswerOther
	case yes && !no:
		return AnswerYes
	case no && !yes, no && !strings.ContainsAny(text, ",;") && !slices.Contains(words, "yes") && !slices.Contains(words, "ja"):
		return AnswerNo // "do not continue"
	}
	return AnswerOther
}
