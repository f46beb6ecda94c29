package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/text/texttest"

	"google.golang.org/protobuf/types/known/structpb"
)

func TestQuestionsAreNumberedAndBounded(t *testing.T) {
	texttest.Fixed(t)
	const all = "\n\nYour answer counts for all of these."
	long := strings.Repeat("x", 100<<10)
	for name, tt := range map[string]struct {
		list []string
		want string
	}{
		"none":                   {nil, ""},
		"one as it is":           {[]string{"May I?\n- to: bob"}, "May I?\n- to: bob"},
		"several":                {[]string{"May I?\n- to: bob", "And this?"}, "1. May I?\n   - to: bob\n\n2. And this?" + all},
		"of several paragraphs":  {[]string{"May I?\n\nReally?", "That?"}, "1. May I?\n\n   Really?\n\n2. That?" + all},
		"as many as fit":         {[]string{"May I?", long, long}, "1. May I?\n\n2. " + long + all},
		"the first in any case":  {[]string{long + long, "And this?"}, long + long},
		"one that leaves others": {[]string{long, long}, long},
	} {
		var questions []mesh.Question
		for i, q := range tt.list {
			questions = append(questions, mesh.Question{Execution: "x", Call: fmt.Sprint(i), Text: q})
		}
		ask := agent.AskAbout(questions, nil)
		if got := ask.Text; got != tt.want {
			t.Errorf("%s: %.80q, want %.80q", name, got, tt.want)
		}
		// finding C8: what is asked is said as data, and is where it is said to be.
		md := &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(
			&structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyAsks: mesh.AsksValue(ask.Questions)}})}}
		for i, q := range questions {
			if want := strings.Count(tt.want, "\n\n"+fmt.Sprint(i+1)+". ") > 0 || i == 0; mesh.Shown(ask.Text, md, q) != want {
				t.Errorf("%s: question %d is shown: %v, want %v", name, i+1, !want, want)
			}
		}
	}
}
