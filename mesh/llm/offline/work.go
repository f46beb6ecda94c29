package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A step is one call of a skill for one part of a mission.
type step struct {
	clause
	skill  *skill
	source bool // the next step uses what this one reads
}

// planWork replies for an agent that uses skills: one call after another, as
// later ones may need what earlier ones found, and then the answer.
func planWork(t *turn) reply {
	cat := newCatalog(t.granted())
	steps, unknown := t.steps(cat)
	used := t.called(toolUseSkill)
	if len(used) == 0 && len(steps) == 0 {
		if len(cat.skills) == 0 {
			return say("I have no skills, so I cannot do %s.", quoteShort(t.text))
		}
		return say("I did not understand %s. %s", quoteShort(t.text), offers(cat))
	}
	if n := len(used); n > 0 && (used[n-1].failed || n >= len(steps) || t.tool(toolUseSkill) == nil) {
		return t.worked(used, steps, unknown, nil)
	}
	f := t.filler(steps, len(used), used)
	f.fill()
	if len(f.missing) > 0 {
		return t.worked(used, steps, unknown, f)
	}
	return reply{calls: []toolCall{{toolUseSkill, map[string]any{"skill": f.skill.Name, "arguments": f.args}}}}
}

var (
	skillHead  = regexp.MustCompile(`(?m)^### ([a-z][a-z0-9_.]*)[ \t]*$`)
	paramsLine = regexp.MustCompile(`(?m)^\[.*\][ \t]*$`)
)

// granted reads the skills that use_skill offers.
func (t *turn) granted() []skill {
	def := t.tool(toolUseSkill)
	if def == nil {
		return nil
	}
	var schema struct {
		Properties struct {
			Skill struct {
				Enum []string `json:"enum"`
			} `json:"skill"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(def.Parameters, &schema)
	described := map[string]skill{}
	heads := skillHead.FindAllStringSubmatchIndex(def.Description, -1)
	for i, h := range heads {
		end := len(def.Description)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		s := skill{Name: def.Description[h[2]:h[3]]}
		block := def.Description[h[1]:end]
		if loc := paramsLine.FindStringIndex(block); loc != nil {
			_ = json.Unmarshal([]byte(block[loc[0]:loc[1]]), &s.Parameters)
			block = block[:loc[0]]
		}
		s.Description = squeeze(block)
		described[s.Name] = s
	}
	names := schema.Properties.Skill.Enum
	if len(names) == 0 {
		for n := range described {
			names = append(names, n)
		}
		slices.Sort(names)
	}
	var out []skill
	for _, n := range names {
		s := described[n]
		s.Name = n
		out = append(out, s)
	}
	return out
}

// steps plans the calls, the same ones in every step of the turn. An agent
// that was granted one skill is meant to use it, whatever the words.
func (t *turn) steps(cat *catalog) (steps []step, unknown []part) {
	for _, p := range cat.splitter().split(t.text) {
		skills := cat.choose(p.clause)
		if len(skills) == 0 {
			unknown = append(unknown, p)
			continue
		}
		if len(skills) == 1 && len(t.inputs) == 0 && len(steps) == 0 {
			skills = append(cat.onlySource(p.clause, skills[0]), skills[0])
		}
		for i, s := range skills {
			steps = append(steps, step{p.clause, s, i < len(skills)-1})
		}
	}
	if len(steps) == 0 && len(cat.skills) == 1 && strings.TrimSpace(t.text) != "" {
		return []step{{newClause(t.text).trimmed(), cat.skills[0], false}}, nil
	}
	return steps, unknown
}

// onlySource returns the one skill that was granted along with a skill that
// hands something over, and that can find it.
func (c *catalog) onlySource(cl clause, main *skill) []*skill {
	if len(c.skills) != 2 || main.reads() || !takesContent(main) || !carries(cl, main) {
		return nil
	}
	for _, s := range c.skills {
		if s != main && s.reads() && s.domain() != main.domain() {
			return []*skill{s}
		}
	}
	return nil
}

// filler prepares the i-th call with what is known by then.
func (t *turn) filler(steps []step, i int, used []call) *filler {
	s := steps[i]
	f := &filler{cl: s.clause, skill: s.skill, now: t.now, known: t.text + "\n" + t.notes, source: s.source}
	var read []string
	for j := 0; j < min(i, len(used)); j++ {
		if steps[j].skill.reads() {
			read = append(read, used[j].result)
		}
	}
	switch {
	case i > 0 && steps[i-1].source && len(read) > 0:
		f.inputs = read[len(read)-1:]
	default:
		f.inputs = append(slices.Clone(t.inputs), read...)
	}
	return f
}

// worked tells what the calls came to. stuck is the call that lacks something,
// or nil.
func (t *turn) worked(used []call, steps []step, unknown []part, stuck *filler) reply {
	var lines []string
	for i, c := range used {
		switch {
		case c.failed:
			lines = append(lines, "I could not use "+c.arg("skill")+": "+sentence(strings.TrimPrefix(c.result, "Error: ")))
		case i < len(steps) && steps[i].source && i+1 < len(used) && !used[i+1].failed:
			// The call that used it is told first.
		default:
			lines = append(lines, t.told(&c, steps, i))
			if i > 0 && i < len(steps) && steps[i-1].source {
				lines = append(lines, "It is based on this:\n"+used[i-1].result)
			}
		}
	}
	if stuck != nil {
		lines = append(lines, "I cannot use "+stuck.skill.Name+" yet, because this is missing: "+listed(stuck.missing)+". Please tell me and ask again.")
	}
	if rest := steps[min(len(used), len(steps)):]; stuck == nil && len(rest) > 0 {
		var names []string
		for _, s := range rest {
			names = append(names, s.skill.Name)
		}
		lines = append(lines, "I did not get to "+listed(names)+".")
	}
	for _, p := range unknown {
		if p.imperative(nil) > 0 {
			lines = append(lines, "I did not understand "+quoteShort(p.words())+".")
		}
	}
	for i := range min(len(used), len(steps)) {
		f := t.filler(steps, i, used)
		f.fill()
		if len(f.assumed) > 0 && !used[i].failed {
			lines = append(lines, "Note: "+listed(f.assumed)+".")
		}
	}
	return reply{text: strings.Join(lines, "\n\n")}
}

// told is the result of a call, as an answer if it was a question to
// documents.
func (t *turn) told(c *call, steps []step, i int) string {
	if i < len(steps) && steps[i].skill.reads() {
		if a := answerFrom(steps[i].words(), c.result); a != "" {
			return a
		}
	}
	if c.result == "" {
		return "Done: " + c.arg("skill") + "."
	}
	return c.result
}
