package mesh

import (
	"slices"
	"strings"
	"unicode"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/text/unicode/norm"
)

// Say makes a message of an agent out of text.
func Say(words string) *a2apb.Message {
	return &a2apb.Message{MessageId: NewEventID(), Role: a2apb.Role_ROLE_AGENT,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}
}

// TextOf returns the message's text: its text parts, one per line. It is "" for nil.
func TextOf(m *a2apb.Message) string {
	var texts []string
	for _, p := range m.GetParts() {
		if t := p.GetText(); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, "\n")
}

// ExitWord is what leaves every agent that the conversation was handed over to, as the whole
// message of the user, however it is written that Says takes: whoever reads nothing can say it.
const ExitWord = "exit"

// maxSaid bounds a word that Says may find, in bytes: what is longer is no word.
const maxSaid = 128

// Says reports whether the message is one of the words and nothing else. The case of letters
// does not count, in any script, nor how an accent is encoded, the width of space between
// words, and space, quotation marks, full stops and exclamation marks around them, as who
// dictates or copies the word has them. A question is another message.
func Says(m *a2apb.Message, words ...string) bool {
	parts := Worded(m.GetParts())
	if len(parts) != 1 {
		return false
	}
	said := word(parts[0].GetText())
	return said != "" && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(said, word(w)) })
}

// word returns the text as Says compares it, "" if it is none.
func word(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(".!…。！\"'`“”„‚‘’«»‹›", r)
	})
	if len(s) > maxSaid {
		return ""
	}
	return norm.NFC.String(strings.Join(strings.Fields(s), " "))
}
