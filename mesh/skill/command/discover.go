package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// SkillCount is the key of a result's metadata that says how many skills the
// answer is about.
const SkillCount = "skill_count"

// Bounds of an answer: names in a list, skills with their parameters, and bytes
// of texts. What is left out is counted, with a way to get at it.
const (
	maxNames  = 50
	maxSkills = 100
	maxText   = 64 << 10
)

// all is the action that stands for all skills of a domain.
const all = "all"

// Help answers a command for which Discovery is true, in text: the domains, the
// text of a domain or skill, or what a search found. Like the executor, it
// always returns a result that a model can go on from.
func Help(ctx context.Context, c Catalog, cmd *Command) *skill.Result {
	h := helper{c}
	search := text(cmd.Flags["search"])
	switch {
	case cmd.Skill != GetSkill && cmd.Skill != "":
		return h.skill(ctx, cmd.Skill)
	case cmd.Skill == "":
		return h.about(ctx, cmd.Domain)
	case search != "":
		return h.search(ctx, cmd.Get, search)
	}
	return h.about(ctx, cmd.Get)
}

// text returns the values of a flag as one text.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v)
	case []string:
		return strings.TrimSpace(strings.Join(v, " "))
	}
	return ""
}

// Discover answers the JSON tool get_skill: the domains as text, or skills with
// the JSON Schemas of their parameters.
func Discover(ctx context.Context, c Catalog, q Query) *skill.Result {
	h := helper{c}
	domain, search := strings.TrimSpace(q.Domain), strings.TrimSpace(q.Search)
	name, action, dotted := strings.Cut(domain, ".")
	switch {
	case domain == "" && search == "":
		return h.summary(ctx)
	case search != "":
		found, r := h.found(ctx, name, search)
		if r != nil {
			return r
		}
		return describe(found, skillList{Domain: name, Search: search})
	case dotted && action != all:
		s, err := c.Get(ctx, domain)
		if err != nil {
			return h.failed(ctx, domain, err)
		}
		return describe([]*skill.Skill{s}, skillList{Domain: name})
	}
	skills, err := c.List(ctx, name)
	if err != nil || len(skills) == 0 {
		return h.failed(ctx, name, err)
	}
	return describe(skills, skillList{Domain: name})
}

// Summary lists the domains, one per line, and says how to go on: all that a
// model needs to know of skills before it asks. Its length does not depend on
// how many skills there are.
func Summary(domains []skill.Index) string {
	var b strings.Builder
	for _, d := range domains {
		line := fmt.Sprintf("- %s (%d skills): %s", d.Domain, d.Skills, oneLine(d.Description))
		b.WriteString(strings.TrimSuffix(line, ": ") + "\n")
	}
	if len(domains) == 0 {
		return "There are no skills."
	}
	b.WriteString("\nCall get_skill with a domain to see its skills and their parameters.")
	return b.String()
}

// A skillList is the JSON form of discovery.
type skillList struct {
	Domain string       `json:"domain,omitempty"`
	Search string       `json:"search,omitempty"`
	Skills []skillEntry `json:"skills"`
	Note   string       `json:"note,omitempty"`
}

type skillEntry struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Access      string          `json:"access,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
}

// describe fills the skills into the list.
func describe(skills []*skill.Skill, list skillList) *skill.Result {
	for _, s := range skills[:min(len(skills), maxSkills)] {
		list.Skills = append(list.Skills, skillEntry{s.Name, oneLine(s.Description), Schema(s), s.Access, s.Tags})
	}
	if more := len(skills) - len(list.Skills); more > 0 {
		list.Note = fmt.Sprintf("%d more skills are left out. Search with more or other words.", more)
	}
	return counted(JSON(list), len(skills))
}

// A helper answers one question.
type helper struct{ catalog Catalog }

func counted(text string, n int) *skill.Result {
	return &skill.Result{Status: skill.StatusOK, Content: text, Metadata: map[string]any{SkillCount: n}}
}

func (h helper) summary(ctx context.Context) *skill.Result {
	domains, err := h.catalog.Domains(ctx)
	if err != nil {
		return unreadable(err)
	}
	n := 0
	for _, d := range domains {
		n += d.Skills
	}
	return counted(Summary(domains), n)
}

// about answers what get_skill is asked for.
func (h helper) about(ctx context.Context, topic string) *skill.Result {
	domain, action, dotted := strings.Cut(topic, ".")
	switch {
	case topic == "":
		return h.summary(ctx)
	case dotted && action == all:
		return h.bodies(ctx, domain)
	case dotted:
		return h.skill(ctx, topic)
	}
	return h.domain(ctx, topic)
}

// skill returns the skill's man page as it is (S3-157).
func (h helper) skill(ctx context.Context, name string) *skill.Result {
	s, err := h.catalog.Get(ctx, name)
	if err != nil {
		return h.failed(ctx, name, err)
	}
	return counted(s.Body, 1)
}

// bodies returns the man pages of all skills of the domain, between rules.
func (h helper) bodies(ctx context.Context, domain string) *skill.Result {
	skills, err := h.catalog.List(ctx, domain)
	if err != nil || len(skills) == 0 {
		return h.failed(ctx, domain, err)
	}
	const rule = "\n\n---\n\n"
	var b strings.Builder
	for i, s := range skills {
		if i > 0 {
			b.WriteString(rule)
		}
		if b.Len()+len(s.Body) > maxText && i > 0 {
			b.WriteString("Left out for length; read each by \"<skill> --help\": " + names(skills[i:]))
			break
		}
		b.WriteString(strings.TrimSpace(s.Body))
	}
	return counted(b.String(), len(skills))
}

// domain returns the text of the domain's SKILL.md, and the skills that it does
// not mention.
func (h helper) domain(ctx context.Context, name string) *skill.Result {
	domains, err := h.catalog.Domains(ctx)
	if err != nil {
		return unreadable(err)
	}
	var body string
	for _, d := range domains {
		if d.Domain == name {
			body = strings.TrimSpace(d.Body)
		}
	}
	skills, err := h.catalog.List(ctx, name)
	if err != nil || body == "" && len(skills) == 0 {
		return h.failed(ctx, name, err)
	}
	var missing []*skill.Skill
	for _, s := range skills {
		if !strings.Contains(body, s.Name) {
			missing = append(missing, s)
		}
	}
	if len(missing) > 0 {
		head := "Skills of " + name + ":"
		if body != "" {
			head = body + "\n\nAlso in " + name + ":"
		}
		body = head + "\n" + lines(missing)
	}
	return counted(body, len(skills))
}

// search lists what fits the words, within the domain if one is named.
func (h helper) search(ctx context.Context, domain, words string) *skill.Result {
	found, r := h.found(ctx, domain, words)
	if r != nil {
		return r
	}
	return counted(lines(found)+"\n\nWrite \"<skill> --help\" to see how one is called.", len(found))
}

// found returns the skills that fit the words, at least one, or else what to
// answer.
func (h helper) found(ctx context.Context, domain, words string) ([]*skill.Skill, *skill.Result) {
	hits, err := h.catalog.Search(ctx, words)
	if err != nil {
		return nil, unreadable(err)
	}
	var found []*skill.Skill
	for _, s := range hits {
		if domain == "" || s.Domain == domain {
			found = append(found, s)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	where := ""
	if domain != "" {
		where = " in " + excerpt(domain)
	}
	return nil, counted(fmt.Sprintf("No skills match %s%s. Try other words, or call get_skill without arguments for the list of domains.", excerpt(words), where), 0)
}

// lines lists skills with their descriptions.
func lines(skills []*skill.Skill) string {
	var list []string
	for _, s := range skills[:min(len(skills), maxNames)] {
		list = append(list, "- "+s.Name+": "+oneLine(s.Description))
	}
	if more := len(skills) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("- and %d more; narrow it down with get_skill --search <words>", more))
	}
	return strings.Join(list, "\n")
}

// unreadable is the answer where the catalog itself fails.
func unreadable(err error) *skill.Result {
	detail := mesh.DetailOf(err)
	if detail == "" {
		detail = "internal error"
	}
	return &skill.Result{Status: skill.StatusError, Content: "Skills cannot be looked up: " + detail, Metadata: map[string]any{SkillCount: 0}}
}
