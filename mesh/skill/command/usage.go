package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"agentmesh/mesh/skill"
)

// Usage returns what a model needs to know to call the skill by a command: its
// name, what it does, and one line per flag. Equal skills give equal bytes.
func Usage(s *skill.Skill) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n%s", s.Name, oneLine(s.Description))
	parameters, _ := declared(s)
	for i := range parameters {
		b.WriteString("\n    " + flagLine(&parameters[i]))
	}
	return b.String()
}

// flagLine describes one flag, as "--limit <integer>  How many (default: 5)".
func flagLine(p *skill.Parameter) string {
	words := []string{oneLine(p.Description)}
	if p.Required {
		words = append(words, "(required)")
	}
	if p.Default != "" {
		words = append(words, "(default: "+oneLine(p.Default)+")")
	}
	if len(p.Enum) > 0 {
		words = append(words, "One of: "+oneLine(strings.Join(p.Enum, ", ")))
	}
	if p.Type == "flag" {
		words = append(words, "(boolean flag)")
	}
	return strings.TrimRight(flagHead(p)+"  "+strings.TrimSpace(strings.Join(words, " ")), " ")
}

func flagHead(p *skill.Parameter) string {
	if p.Type == "flag" {
		return "--" + p.Name
	}
	return "--" + p.Name + " <" + p.Type + ">"
}

// Required returns the flags that a call of the skill must have, as "--to <string>".
func Required(s *skill.Skill) []string {
	var out []string
	parameters, _ := declared(s)
	for i := range parameters {
		if p := &parameters[i]; p.Required {
			out = append(out, flagHead(p))
		}
	}
	return out
}

// oneLine keeps what others wrote, as the descriptions of another server's
// tools, from looking like more than it is.
func oneLine(text string) string { return strings.Join(strings.Fields(skill.Visible(text)), " ") }

// A schema is the part of JSON Schema that parameters need. Its fields are in
// the order in which they are written.
type schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Items       *schema           `json:"items,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
}

// Schema returns the JSON Schema of the skill's arguments, an object: the
// skill's own if it has one. Equal skills give equal bytes.
func Schema(s *skill.Skill) json.RawMessage {
	if own := new(bytes.Buffer); len(s.Schema) > 0 && json.Compact(own, s.Schema) == nil {
		return own.Bytes()
	}
	var required []string
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := range s.Parameters {
		p := &s.Parameters[i]
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(JSON(p.Name) + ":" + JSON(parameterSchema(p)))
		if p.Required {
			required = append(required, p.Name)
		}
	}
	b.WriteString("}")
	if len(required) > 0 {
		b.WriteString(`,"required":` + JSON(required))
	}
	b.WriteString(`,"additionalProperties":false}`)
	return json.RawMessage(b.String())
}

func parameterSchema(p *skill.Parameter) *schema {
	out := &schema{Type: jsonType(p.Type), Description: oneLine(p.Description), Default: literal(p.Type, p.Items, p.Default)}
	valued := out
	if p.Type == "array" {
		out.Items = &schema{Type: jsonType(p.Items)}
		valued = out.Items
	}
	for _, v := range p.Enum {
		if value := literal(valued.Type, "", v); value != nil {
			valued.Enum = append(valued.Enum, value)
		}
	}
	return out
}

// jsonType returns the type's name in JSON Schema.
func jsonType(typ string) string {
	switch typ {
	case "float":
		return "number"
	case "flag":
		return "boolean"
	case "":
		return "string"
	}
	return typ
}

// literal returns the JSON form of a value that is written as text, or nil if
// there is none.
func literal(typ, items, text string) json.RawMessage {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return nil
	case jsonType(typ) == "string":
		return json.RawMessage(JSON(text))
	case typ == "array" && !strings.HasPrefix(text, "["):
		var list []json.RawMessage
		for _, part := range strings.Split(text, ",") {
			if value := literal(items, "", part); value != nil {
				list = append(list, value)
			}
		}
		if list == nil {
			return nil
		}
		return json.RawMessage(JSON(list))
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) != nil {
		return nil
	}
	return compact.Bytes()
}

// JSON returns v on one line and readable for models; "null" for what has no JSON form.
func JSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxTool is how long the name of a tool may be, in bytes: providers of models
// and MCP clients refuse longer ones. shortMark is in no name but those that were
// shortened, and shortHash is how many bytes of a hash these end with.
const (
	maxTool   = 64
	shortMark = "--"
	shortHash = 8
)

// ToolName returns the name of the skill as that of a tool, which may have no
// dots: "tasks-create" for "tasks.create". One that would have more than 64 bytes
// is cut, and ends with "--" and 16 hexadecimal digits of the SHA-256 of the
// skill's name, so that a skill has the same name everywhere and for good, and no
// other skill has it.
func ToolName(skillName string) string {
	name := strings.ReplaceAll(skillName, ".", "-")
	if len(name) <= maxTool {
		return name
	}
	sum := sha256.Sum256([]byte(skillName))
	end := shortMark + hex.EncodeToString(sum[:shortHash])
	return name[:maxTool-len(end)] + end
}

// SkillName returns the skill that a tool is named for by [ToolName], or "" for
// a name that was shortened: whoever knows the skills finds the one whose
// ToolName it is. Names of skills have no '-', so that there is only one.
func SkillName(toolName string) string {
	if strings.Contains(toolName, shortMark) {
		return ""
	}
	return strings.ReplaceAll(toolName, "-", ".")
}
