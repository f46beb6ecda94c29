package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh/llm"
)

// A face is the way in which the skills of a request are called.
type face uint8

const (
	noFace     face = iota
	byUseSkill      // by the tool use_skill
	byTool          // by a tool for each skill
	byCommand       // by lines of command blocks in the text
)

// A domain is a group of skills, as the request or get_skill tells of it.
type domain struct{ name, description string }

var (
	// skillTool is a skill's name as that of a tool.
	skillTool  = regexp.MustCompile(`^[a-z][a-z0-9_]*-[a-z][a-z0-9_]*$`)
	skillHead  = regexp.MustCompile(`(?m)^### ([a-z][a-z0-9_.]*)[ \t]*$`)
	paramsLine = regexp.MustCompile(`(?m)^\[.*\][ \t]*$`)
	domainLine = regexp.MustCompile(`(?m)^- ([a-z][a-z0-9_]*) \(\d+ skills?\)(?:: (.*))?$`)
)

// readFace finds out how the request's skills are called, and which of them it
// describes.
func (t *turn) readFace(req *llm.Request) {
	if listing, ok := commandSkills(req.System); ok {
		t.face, t.domains = byCommand, readDomains(listing)
		t.listed = t.memo.skills(source{form: usages, text: listing}, func() []skill { return readUsages(listing) })
		return
	}
	if def := t.tool(toolUseSkill); def != nil {
		t.face, t.domains = byUseSkill, readDomains(def.Description)
		t.listed = t.memo.skills(source{ofUseSkill, def.Description, string(def.Parameters)}, func() []skill { return described(def) })
		return
	}
	for _, def := range req.Tools {
		if skillTool.MatchString(def.Name) {
			t.face = byTool
			t.listed = append(t.listed, t.memo.skills(source{ofTool, def.Name + "\n" + def.Description, string(def.Parameters)}, func() []skill {
				return []skill{{Name: skillOf(def.Name), Description: squeeze(def.Description), Parameters: schemaParams(def.Parameters)}}
			})...)
		}
	}
	if t.face != noFace || len(req.Tools) > 0 {
		return
	}
	// A limit took the tools away: what was called tells which there were.
	for _, c := range t.calls {
		switch {
		case c.use.Name == toolUseSkill:
			t.face = byUseSkill
		case skillTool.MatchString(c.use.Name):
			t.face = byTool
		}
	}
	t.final = true
}

func skillOf(tool string) string   { return strings.ReplaceAll(tool, "-", ".") }
func toolName(skill string) string { return strings.ReplaceAll(skill, ".", "-") }

// commandSkills returns what a system prompt lists as skills, and whether it
// says that they are called by commands.
func commandSkills(system string) (listing string, ok bool) {
	lines := strings.Split(system, "\n")
	rules := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## Commands") })
	if rules < 0 {
		return "", false
	}
	lines = lines[rules+1:]
	begin := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## Skills") })
	if begin < 0 {
		return "", true
	}
	lines = lines[begin+1:]
	if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## ") }); end >= 0 {
		lines = lines[:end]
	}
	return strings.Join(lines, "\n"), true
}

// readDomains reads the lines that tell of domains.
func readDomains(text string) []domain {
	var out []domain
	for _, m := range domainLine.FindAllStringSubmatch(text, -1) {
		out = append(out, domain{m[1], m[2]})
	}
	return out
}

// blocks calls yield for each part of the text with a skill's name as its head.
func blocks(text string, yield func(name, block string)) {
	heads := skillHead.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		yield(text[h[2]:h[3]], text[h[1]:end])
	}
}

// described reads the skills that use_skill lists.
func described(def *llm.Tool) []skill {
	var schema struct {
		Properties struct {
			Skill struct {
				Enum []string `json:"enum"`
			} `json:"skill"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(def.Parameters, &schema) // without names, those that are described are meant
	known := map[string]skill{}
	names := schema.Properties.Skill.Enum
	given := len(names) > 0
	blocks(def.Description, func(name, block string) {
		s := skill{Name: name}
		if loc := paramsLine.FindStringIndex(block); loc != nil {
			_ = json.Unmarshal([]byte(block[loc[0]:loc[1]]), &s.Parameters)
			block = block[:loc[0]]
		}
		s.Description = squeeze(block)
		known[name] = s
		if !given {
			names = append(names, name)
		}
	})
	var out []skill
	for _, n := range names {
		s := known[n]
		s.Name = n
		out = append(out, s)
	}
	return out
}

// A deed is what the planner wants done next, whatever the face: a skill is to
// be used, skills are to be searched for, or help is wanted.
type deed struct {
	skill string
	args  map[string]any
	// search are the words to find skills by, and help is the skill or domain
	// that is to be explained.
	search, help string
}

// name is what the deed's command begins with.
func (d deed) name() string {
	switch {
	case d.skill != "":
		return d.skill
	case d.help != "":
		return d.help
	}
	return toolGetSkill
}

// perform returns the reply that does the deeds.
func (t *turn) perform(deeds []deed) reply {
	if t.face == byCommand {
		var lines []string
		for _, d := range deeds {
			lines = append(lines, d.line())
		}
		return reply{commands: lines}
	}
	var r reply
	for _, d := range deeds {
		switch {
		case d.help != "":
			r.calls = append(r.calls, toolCall{toolGetSkill, map[string]any{"domain": d.help}})
		case d.skill == "":
			r.calls = append(r.calls, toolCall{toolGetSkill, map[string]any{"search": d.search}})
		case t.face == byTool:
			r.calls = append(r.calls, toolCall{toolName(d.skill), d.args})
		default:
			r.calls = append(r.calls, toolCall{toolUseSkill, map[string]any{"skill": d.skill, "arguments": d.args}})
		}
	}
	return r
}

// outcomes returns what came of the deeds, in their order, or false if the
// round did something else: then it was not this planner's.
func (t *turn) outcomes(r round, deeds []deed) ([]call, bool) {
	if t.face == byCommand {
		texts, ok := commandResults(r.told, deeds)
		var out []call
		for _, text := range texts {
			out = append(out, call{result: text, failed: failedCommand(text), done: true})
		}
		return out, ok
	}
	calls := t.calls[r.from:r.to]
	if len(calls) != len(deeds) {
		return nil, false
	}
	for i, d := range deeds {
		if d.skill != "" && calls[i].skill() != d.skill || d.skill == "" && calls[i].use.Name != toolGetSkill {
			return nil, false
		}
	}
	return calls, true
}

// skill returns which skill the call uses, or "".
func (c *call) skill() string {
	switch {
	case c.use.Name == toolUseSkill:
		return c.arg("skill")
	case skillTool.MatchString(c.use.Name):
		return skillOf(c.use.Name)
	}
	return ""
}
