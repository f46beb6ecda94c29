package agent_test

import (
	"strings"
	"testing"

	"agentmesh/mesh/agent"
)

func TestQuestionsAreNumberedAndBounded(t *testing.T) {
	const all = "\n\nYour answer counts for all of these."
	long := strings.Repeat("x", 100<<10)
	for name, tt := range map[string]struct {
		list []string
		want string
	}{
		"none":                   {nil, ""},
		"one as it is":           {[]string{"May I?\n- to: bob"}, "May I?\n- to: bob"},
		"several":                {[]string{"May I?\n- to: bob", "And this?"}, "1. May I?\n   - to: bob\n\n2. And this?" + all},
		"several of several":     {[]string{"1. May I?\n\n2. And this?" + all, "That?"}, "1. 1. May I?\n\n   2. And this?\n\n2. That?" + all},
		"as many as fit":         {[]string{"May I?", long, long}, "1. May I?\n\n2. " + long + all},
		"the first in any case":  {[]string{long + long, "And this?"}, long + long},
		"one that leaves others": {[]string{long, long}, long},
	} {
		if got := agent.Questions(tt.list); got != tt.want {
			t.Errorf("%s: %.80q, want %.80q", name, got, tt.want)
		}
	}
}
