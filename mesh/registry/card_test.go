package registry

import (
	"strings"
	"testing"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const goodCard = `{
  "name": "Skill Builder",
  "description": "Builds skills in a conversation.",
  "version": "1.2.0",
  "someFutureMember": {"x": 1},
  "capabilities": {"streaming": true, "pushNotifications": false, "extensions": [{
    "uri": "urn:agentmesh:ext:mesh:v1",
    "params": {
      "handoff_support": true, "stateful_workflows": true, "hitl_support": true, "multi_turn": true,
      "handoff_triggers": ["create skill", "build skill", "new skill"],
      "workflow_states": ["naming", "steps", "review"]
    }}]},
  "defaultInputModes": ["text/plain"],
  "defaultOutputModes": ["text/plain"],
  "skills": [{"id": "build", "name": "Build", "description": "Builds a skill.", "tags": ["skill"]}]
}`

// S4-059, S4-060, S4-061.
func TestACardSaysWhatItsAgentOffersToAMesh(t *testing.T) {
	c, err := ParseCard("builder.json", []byte(goodCard))
	if err != nil {
		t.Fatal(err)
	}
	want := Extension{Declared: true, HandoffSupport: true, StatefulWorkflows: true, HITLSupport: true, MultiTurn: true,
		HandoffTriggers: []string{"create skill", "build skill", "new skill"}, WorkflowStates: []string{"naming", "steps", "review"}}
	if diff := cmp.Diff(want, Params(c)); diff != "" {
		t.Error(diff)
	}
	if !c.GetCapabilities().GetStreaming() || c.GetVersion() != "1.2.0" || Slug(c.GetName()) != "skill-builder" {
		t.Errorf("card is %v", c)
	}
	if got := Params(card("plain")); got.Declared {
		t.Errorf("a card without the extension declares %+v", got)
	}
}

func TestABrokenCardFileIsRefusedNamingFileAndField(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, says string }{
		"syntax":             {`"version"`, `version`, "(line 4:"},
		"wrong type":         {`"1.2.0"`, `12`, "version"},
		"text for a list":    {`["skill"]`, `"skill"`, "(line 15:"},
		"no name":            {`"Skill Builder"`, `"  "`, "card.name is missing"},
		"no description":     {`"Builds skills in a conversation."`, `""`, "card.description is missing"},
		"no version":         {`"1.2.0"`, `""`, "card.version is missing"},
		"no capabilities":    {`"capabilities"`, `"capabilitys"`, "card.capabilities is missing"},
		"no input modes":     {`"defaultInputModes": ["text/plain"]`, `"defaultInputModes": []`, "card.defaultInputModes is missing"},
		"no output modes":    {`"defaultOutputModes": ["text/plain"]`, `"defaultOutputModes": []`, "card.defaultOutputModes is missing"},
		"no skills":          {`"skills"`, `"skillz"`, "card.skills is missing"},
		"no skill id":        {`"build"`, `""`, "card.skills[0].id is missing"},
		"no skill name":      {`"Build"`, `""`, "card.skills[0].name is missing"},
		"no skill text":      {`"Builds a skill."`, `""`, "card.skills[0].description is missing"},
		"no tags":            {`["skill"]`, `[]`, "card.skills[0].tags is missing"},
		"skill ids equal":    {`"skills": [`, `"skills": [{"id":"build","name":"n","description":"d","tags":["t"]},`, "card.skills[1].id"},
		"interface sans URL": {`"skills"`, `"supportedInterfaces":[{"protocolBinding":"GRPC"}],"skills"`, "card.supportedInterfaces[0].url"},
		"interface sans how": {`"skills"`, `"supportedInterfaces":[{"url":"h:1"}],"skills"`, "card.supportedInterfaces[0].protocolBinding"},
		"flag as text":       {`"multi_turn": true`, `"multi_turn": "yes"`, "params.multi_turn must be true or false"},
		"triggers as text":   {`["create skill", "build skill", "new skill"]`, `"create skill"`, "params.handoff_triggers must be a list"},
		"number as state":    {`"review"`, `7`, "params.workflow_states must be a list"},
		"too long":           {`Builds a skill.`, strings.Repeat("x", MaxCard), "shorten it"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(goodCard, tt.old, tt.new, 1)
			_, err := ParseCard("builder.json", []byte(broken))
			wantCode(t, err, mesh.Invalid, "builder.json: ", tt.says)
		})
	}
}

func TestSlugMakesAName(t *testing.T) {
	for in, want := range map[string]string{
		"Skill Builder": "skill-builder", "mail": "mail", "  A2A -- Agent! ": "a2a-agent", "42nd Agent": "nd-agent",
		"Ärzte": "rzte", "日本": "", "": "", "under_score": "under_score", "__x__": "x__",
		strings.Repeat("a", 63) + " b": strings.Repeat("a", 63),
	} {
		got := Slug(in)
		if got != want || got != "" && !mesh.ValidAgentName(got) {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParseCard(f *testing.F) {
	f.Add([]byte(goodCard))
	f.Add([]byte(`{"capabilities":{"extensions":[{"uri":"urn:agentmesh:ext:mesh:v1","params":null}]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCard("f.json", data)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || !strings.HasPrefix(mesh.DetailOf(err), "f.json: ") {
				t.Fatalf("error %v is not Invalid or does not name the file", err)
			}
			return
		}
		Params(c)
		again, err := protojson.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back := &a2apb.AgentCard{}
		if err := protojson.Unmarshal(again, back); err != nil || !proto.Equal(c, back) {
			t.Fatalf("card does not survive its own JSON: %v", err)
		}
	})
}
