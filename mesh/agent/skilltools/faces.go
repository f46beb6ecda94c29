package skilltools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// define makes the JSON tools of the face.
func (t *Tools) define() error {
	switch t.o.Face {
	case FaceCommands: // calls are in the text
	case FaceUseSkill:
		if t.Empty() {
			break
		}
		if t.look {
			t.tools = append(t.tools, getSkill(t.domains))
		}
		t.tools = append(t.tools, t.useSkill())
	case FaceDirect:
		for _, s := range t.listed {
			t.tools = append(t.tools, llm.Tool{Name: command.ToolName(s.Name), Description: about(s), Parameters: command.Schema(s)})
		}
		slices.SortFunc(t.tools, func(a, b llm.Tool) int { return cmp.Compare(a.Name, b.Name) })
	default:
		return mesh.InvalidField("skilltools.Tools", "skill_interface", "must be %s, %s or %s, and is %q", FaceCommands, FaceUseSkill, FaceDirect, t.o.Face)
	}
	return nil
}

// skillOf is the skill whose own tool has the name, or "". Names that are too
// long for a tool are cut, so that only the list tells.
func (t *Tools) skillOf(tool string) string {
	for _, s := range t.listed {
		if command.ToolName(s.Name) == tool {
			return s.Name
		}
	}
	return ""
}

// useSkill defines the tool for all skills. Where skills are looked up it is
// always the same (S3-006).
func (t *Tools) useSkill() llm.Tool {
	name := `{"type":"string"}`
	text := "Calls one of your skills. Give its name and its arguments"
	if t.o.ReadOnly {
		text = "Calls a skill whose access is read; no other is yours to call. Give its name and its arguments"
	}
	if t.look {
		text += ". You MUST call get_skill first if you do not know the exact name of the skill or its parameters."
	} else {
		name = `{"type":"string","enum":` + command.JSON(t.Offered()) + `}`
		var b strings.Builder
		b.WriteString(text + ", as the parameters listed here say.")
		for _, s := range t.listed {
			fmt.Fprintf(&b, "\n\n### %s\n%s\n%s", s.Name, about(s), command.JSON(nonNil(s.Parameters)))
			if len(s.Schema) > 0 { // it says more than the parameters
				b.WriteString("\nSchema: " + string(command.Schema(s)))
			}
		}
		text = b.String()
	}
	return llm.Tool{Name: UseSkill, Description: text, Parameters: json.RawMessage(`{"type":"object","properties":{"skill":` + name +
		`,"arguments":{"type":"object"}},"required":["skill","arguments"],"additionalProperties":false}`)}
}

// about is the skill's description, on one line: it must not describe others.
func about(s *skill.Skill) string {
	return mesh.Clip(strings.Join(strings.Fields(s.Description), " "), maxDescription)
}

// Bounds of descriptions in a prompt, in bytes.
const (
	maxDescription = 1024 // of a skill
	maxAbout       = 200  // of a domain
)

// Prompt is what the system prompt says of how commands are written, and of the
// skills; "" for what the tools say. It is the same text for equal skills, and
// its length does not grow with the number of skills beyond maxNamed.
func (t *Tools) Prompt() (commands, skills string) {
	if t.Empty() || t.o.Face != FaceCommands && !t.look {
		return "", ""
	}
	var b strings.Builder
	b.WriteString("## Skills\n")
	if t.o.ReadOnly {
		b.WriteString("\nYou may use these yourself, since they only read. For whatever changes something, have another agent do it.\n")
	}
	if t.look {
		b.WriteString("\n" + t.domainList())
	}
	if t.o.Face != FaceCommands {
		b.WriteString("\nCall get_skill with a domain to see its skills and their parameters.\n")
		return "", b.String()
	}
	if t.look {
		b.WriteString("\n`<domain> --help` lists the skills of a domain; `get_skill --search <words>` finds skills.\n")
	}
	if len(t.quick) > 0 {
		b.WriteString("\nThe commands that are used most:\n\n")
	}
	for _, s := range t.quick {
		b.WriteString("    " + synopsis(s) + "\n")
	}
	for _, s := range t.listed {
		b.WriteString("\n" + command.Usage(s) + "\n")
	}
	return commandRules, b.String()
}

// synopsis is how the skill is called, on one line.
func synopsis(s *skill.Skill) string {
	words := []string{s.Name}
	for _, p := range s.Parameters {
		word := "--" + p.Name
		if p.Type != "flag" {
			word += " <" + p.Type + ">"
		}
		if !p.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// domainList tells of the domains, and of their skills by name if there are not
// too many (S3-054).
func (t *Tools) domainList() string {
	actions := map[string][]string{}
	for _, s := range t.named {
		actions[s.Domain] = append(actions[s.Domain], s.Action)
	}
	var b strings.Builder
	for i, d := range t.domains {
		if i == maxDomains {
			fmt.Fprintf(&b, "- and %d more domains; search for what you need\n", len(t.domains)-i)
			break
		}
		about := mesh.Clip(strings.Join(strings.Fields(d.Description), " "), maxAbout)
		if of := strings.Join(actions[d.Domain], ", "); of != "" {
			about = strings.TrimSpace(about + " (" + of + ")")
		}
		fmt.Fprintf(&b, "- %s (%d skills)", d.Domain, d.Skills)
		if about != "" {
			b.WriteString(": " + about)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// commandRules is how commands are written (S3-053).
const commandRules = "## Commands\n\n" +
	"To use a skill, write a command block in your reply:\n\n" +
	"```cmd\n" +
	"tasks.search --status todo --limit 5\n" +
	"```\n\n" +
	"- One command per line. Several lines run one after the other, and a reply may have several blocks.\n" +
	"- Flags are `--name value` or `--name=value`; quote values with spaces in \" or '; give several values one after the other; a flag alone is true.\n" +
	"- `<skill> --help` shows everything about a skill. Use it when you are not sure.\n" +
	"- Text outside of the blocks goes to the user; blocks do not. The results come back to you as \"[Command Result: <skill>]\".\n" +
	"- Read errors and correct the command. Do not repeat a command that worked.\n" +
	"- Write a block only for commands that you want to run now, and never invent a result."

// List returns the tools; none if the model writes commands.
func (t *Tools) List(context.Context) []llm.Tool { return slices.Clone(t.tools) }

// Discovers reports whether the tool only looks for skills (S3-034).
func (t *Tools) Discovers(name string) bool { return name == GetSkill }

// Waits implements llm.Waiter: a skill has the timeout of skills.
func (t *Tools) Waits(tool string) bool {
	return tool != GetSkill && slices.ContainsFunc(t.tools, func(own llm.Tool) bool { return own.Name == tool })
}

// Commands returns how the model's text is read for commands, or nil if it
// calls tools.
func (t *Tools) Commands() llm.Commands {
	if t.o.Face != FaceCommands || t.Empty() {
		return nil
	}
	return commands{}
}

// Summary is a model's call in short, in the words that it has in the log once it is
// made; false if it is none of a skill.
func (t *Tools) Summary(use mesh.ToolUse) (string, bool) {
	switch {
	case use.Name == llm.CommandTool:
		var call llm.CommandCall
		if json.Unmarshal([]byte(use.Arguments), &call) == nil && call.Skill != "" {
			return mesh.CallSummary(call.Skill, command.JSON(call.Arguments)), true
		}
		line := call.Line
		c, err := command.Line{Raw: line}.Parse()
		if err != nil || c.Discovery() {
			return mesh.Clip(line, mesh.MaxCallSummary), line != ""
		}
		t.mu.Lock()
		known := t.loaded[c.Skill]
		t.mu.Unlock()
		return mesh.CallSummary(c.Skill, command.JSON(command.Args(c.Flags, known))), true
	case use.Name == UseSkill:
		var a struct {
			Skill     string          `json:"skill"`
			Arguments json.RawMessage `json:"arguments"`
		}
		ok := json.Unmarshal([]byte(use.Arguments), &a) == nil && a.Skill != ""
		return mesh.CallSummary(a.Skill, string(a.Arguments)), ok
	}
	name := t.skillOf(use.Name)
	return mesh.CallSummary(name, use.Arguments), name != ""
}

// Call runs what the model asked for.
func (t *Tools) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	switch {
	case use.Name == llm.CommandTool && t.o.Face == FaceCommands:
		return t.command(ctx, use)
	case use.Name == GetSkill && t.look:
		return discover(ctx, t.catalog(), use)
	case use.Name == UseSkill && t.o.Face == FaceUseSkill:
		var args struct {
			Skill     string         `json:"skill"`
			Arguments map[string]any `json:"arguments"`
		}
		if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil || args.Skill == "" {
			return failedTool(mesh.CauseInvalid, text.GiveUseSkill())
		}
		return t.run(ctx, &skill.Call{ID: use.ID, Skill: args.Skill, Args: args.Arguments, Source: mesh.SourceUseSkill})
	case t.o.Face == FaceDirect:
		var args map[string]any
		if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
			return failedTool(mesh.CauseInvalid, text.NoObject(use.Name))
		}
		return t.run(ctx, &skill.Call{ID: use.ID, Skill: t.skillOf(use.Name), Args: args, Source: mesh.SourceDirect})
	}
	return failedTool(mesh.CauseMissing, text.UnknownTool(use.Name))
}
