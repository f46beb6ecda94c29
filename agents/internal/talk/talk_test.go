package talk

import (
	"strings"
	"testing"

	"agentmesh/mesh/llm"

	"github.com/google/go-cmp/cmp"
)

func TestOldMessagesAreLeftOutAndTheUserSpeaksFirst(t *testing.T) {
	user := func(s string) llm.Message { return llm.Message{Role: llm.RoleUser, Text: s} }
	agent := func(s string) llm.Message { return llm.Message{Role: llm.RoleAssistant, Text: s} }
	long := strings.Repeat("x", MaxBytes)
	for name, tt := range map[string]struct{ in, want []llm.Message }{
		"a short conversation stays as it is":      {[]llm.Message{user("a"), agent("b"), user("c")}, []llm.Message{user("a"), agent("b"), user("c")}},
		"an answer without its question is cut":    {[]llm.Message{agent("b"), user("c")}, []llm.Message{user("c")}},
		"what is before too much text is cut":      {[]llm.Message{user("a"), agent("b"), user(long), agent(""), user("c")}, []llm.Message{user(long), agent(""), user("c")}},
		"the message to answer stays, how long so": {[]llm.Message{user("a"), user(long + long)}, []llm.Message{user("a"), user(long + long)}},
		"a message alone":                          {[]llm.Message{user("a")}, []llm.Message{user("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, trim(tt.in)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}
