package mesh

import (
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
