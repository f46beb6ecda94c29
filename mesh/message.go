package mesh

import (
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
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
// message of the user, in any case of letters: whoever reads nothing can say it.
const ExitWord = "exit"

// Says reports whether the message is one of the words and nothing else, but for space
// around it and the case of letters.
func Says(m *a2apb.Message, words ...string) bool {
	if len(m.GetParts()) != 1 {
		return false
	}
	said := strings.TrimSpace(m.GetParts()[0].GetText())
	return said != "" && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(said, w) })
}
