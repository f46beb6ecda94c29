package command_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// create is a skill with parameters of all kinds.
func create() *skill.Skill {
	return &skill.Skill{
		Name: "tasks.create", Domain: "tasks", Action: "create", Description: "Creates a task.", Handler: "h", Body: "x",
		Parameters: []skill.Parameter{
			{Name: "title", Type: "string", Required: true, Description: "What is to be done"},
			{Name: "priority", Type: "string", Description: "How urgent it is", Default: "normal", Enum: []string{"low", "normal", "high"}},
			{Name: "tags", Type: "array", Description: "Words to find it by", Default: "a, b"},
			{Name: "done", Type: "flag", Description: "Whether it is done"},
			{Name: "due-days", Type: "integer", Default: "5", Enum: []string{"1", "5"}},
			{Name: "share", Type: "float"},
			{Name: "open", Type: "boolean", Default: "true"},
			{Name: "marks", Type: "array", Items: "integer", Enum: []string{"1", "2"}},
			{Name: "steps", Type: "array", Items: "object"},
			{Name: "more", Type: "object", Default: `{"a": 1}`},
		},
	}
}

func TestUsage_showsOneLinePerFlag(t *testing.T) {
	const want = `### tasks.create
Creates a task.
    --title <string>  What is to be done (required)
    --priority <string>  How urgent it is (default: normal) One of: low, normal, high
    --tags <array>  Words to find it by (default: a, b)
    --done  Whether it is done (boolean flag)
    --due-days <integer>  (default: 5) One of: 1, 5
    --share <float>
    --open <boolean>  (default: true)
    --marks <array>  One of: 1, 2
    --steps <array>
    --more <object>  (default: {"a": 1})`
	if got := command.Usage(create()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	foreign := &skill.Skill{Name: "a.b", Description: "Does\n\n```cmd\nSystem: x", Parameters: []skill.Parameter{{Name: "x", Type: "flag", Description: "y\r\n    --z"}}}
	if got := command.Usage(foreign); got != "### a.b\nDoes ```cmd System: x\n    --x  y --z (boolean flag)" {
		t.Errorf("what others wrote is shown as %q", got)
	}
}

// S3-015: the schema of the parameters.
func TestSchema_isTheSameForEqualSkills(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"title":{"type":"string","description":"What is to be done"},` +
		`"priority":{"type":"string","description":"How urgent it is","enum":["low","normal","high"],"default":"normal"},` +
		`"tags":{"type":"array","description":"Words to find it by","items":{"type":"string"},"default":["a","b"]},` +
		`"done":{"type":"boolean","description":"Whether it is done"},` +
		`"due-days":{"type":"integer","enum":[1,5],"default":5},` +
		`"share":{"type":"number"},` +
		`"open":{"type":"boolean","default":true},` +
		`"marks":{"type":"array","items":{"type":"integer","enum":[1,2]}},` +
		`"steps":{"type":"array","items":{"type":"object"}},` +
		`"more":{"type":"object","default":{"a":1}}},` +
		`"required":["title"],"additionalProperties":false}`
	for range 3 {
		if got := string(command.Schema(create())); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
	own := create()
	own.Schema = json.RawMessage("{ \"type\": \"object\",\n \"minProperties\": 1 }")
	if got := string(command.Schema(own)); got != `{"type":"object","minProperties":1}` {
		t.Errorf("its own schema is %s", got)
	}
	own.Schema = json.RawMessage("{")
	if got := string(command.Schema(own)); got != want {
		t.Errorf("instead of a broken schema: %s", got)
	}
}

func TestToolName_isReadBack(t *testing.T) {
	for name, tool := range map[string]string{"tasks.create": "tasks-create", "a_b.c_d2": "a_b-c_d2", "none": "none"} {
		if got := command.ToolName(name); got != tool {
			t.Errorf("%s is the tool %s", name, got)
		}
		if got := command.SkillName(tool); got != name {
			t.Errorf("the tool %s is %s", tool, got)
		}
	}
}

// Names of tools that are too long for providers and MCP clients are cut, and
// still tell skills apart; no other name looks like one that was cut.
func TestToolName_isShortStableAndUnique(t *testing.T) {
	half := strings.Repeat("d", 64)
	seen := map[string]string{}
	for _, name := range []string{
		half + "." + strings.Repeat("a", 64), half + "." + strings.Repeat("a", 63) + "b", half + ".a", strings.Repeat("d", 45) + "." + strings.Repeat("a", 19),
		strings.Repeat("d", 45) + "." + strings.Repeat("a", 18), strings.Repeat("d", 44) + "." + strings.Repeat("a", 20),
	} {
		tool := command.ToolName(name)
		if len(tool) > 64 || tool != command.ToolName(name) || seen[tool] != "" {
			t.Errorf("%s is the tool %s, as is %s", name, tool, seen[tool])
		}
		seen[tool] = name
		if got := command.SkillName(tool); (len(name) <= 64) != (got == name) || got != "" && got != name {
			t.Errorf("the tool %s is %q", tool, got)
		}
	}
	const want = "mail-send_to_everybody_who_has_ever_written_to--0871935705e3a295"
	if got := command.ToolName("mail.send_to_everybody_who_has_ever_written_to_us_and_wants_news_today"); got != want {
		t.Errorf("the name has changed to %s", got)
	}
}

// S3-008: the summary of a mesh of 20 skills costs less than 400 tokens, a
// tenth of what one tool per skill costs. A token is taken for four bytes.
func TestSummary_costsATenthOfTools(t *testing.T) {
	const perToken = 4
	var domains []skill.Index
	tools := 0
	for i, domain := range []string{"calendar", "drive", "email", "hubspot", "markdown", "memory", "tasks"} {
		skills := 3 - i/6
		domains = append(domains, skill.Index{Domain: domain, Description: "What there is to do with the " + domain + " of the user", Skills: skills})
		for range skills {
			s := create()
			tools += len(fmt.Sprintf(`{"name":%q,"description":%q,"parameters":%s}`, s.Name, s.Description, command.Schema(s)))
		}
	}
	summary := command.Summary(domains)
	if tokens := len(summary) / perToken; tokens > 400 || tokens*10 > tools/perToken {
		t.Errorf("the summary costs %d tokens, the tools %d", tokens, tools/perToken)
	}
	if lines := strings.Split(summary, "\n"); len(lines) != len(domains)+2 || lines[0] != "- calendar (3 skills): What there is to do with the calendar of the user" {
		t.Errorf("the summary is\n%s", summary)
	}
}

// finding C8: what must be given is told by the parameters, and not by their words.
func TestRequired_isWhatMustBeGiven(t *testing.T) {
	s := &skill.Skill{Name: "a.b", Handler: "h", Parameters: []skill.Parameter{
		{Name: "to", Type: "string", Required: true}, {Name: "note", Type: "string", Description: "Not (required)"}, {Name: "now", Type: "flag", Required: true},
	}}
	if got := strings.Join(command.Required(s), " "); got != "--to <string> --now" {
		t.Errorf("required: %q", got)
	}
}
