package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// failed is the answer for a domain or skill that cannot be had: because of
// err, or, if err is nil or NotFound, because there is none.
func (h helper) failed(ctx context.Context, topic string, err error) *skill.Result {
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return unreadable(err)
	}
	text, err := h.unknown(ctx, topic)
	if err != nil {
		return unreadable(err)
	}
	return &skill.Result{Status: skill.StatusError, Content: text, Metadata: map[string]any{SkillCount: 0}}
}

// unknown says that there is no such domain or skill, what was probably meant,
// and what there is: the skills of the domain, if that exists, or the domains.
func (h helper) unknown(ctx context.Context, topic string) (string, error) {
	domains, err := h.catalog.Domains(ctx)
	if err != nil {
		return "", err
	}
	known := make([]string, len(domains))
	for i, d := range domains {
		known[i] = d.Domain
	}
	domain, action, dotted := strings.Cut(topic, ".")
	switch here := slices.Contains(known, domain); {
	case here && (!dotted || action == all):
		return fmt.Sprintf("The domain %s has no skills. Domains: %s.", clip(domain), some(known)), nil
	case !dotted || action == all:
		return fmt.Sprintf("Unknown domain %s. %sDomains: %s.", clip(domain), meant(domain, known), some(known)), nil
	case here:
		skills, err := h.catalog.List(ctx, domain)
		if err != nil {
			return "", err
		}
		list := names(skills)
		return fmt.Sprintf("Unknown skill %s. %sSkills of %s: %s.", clip(topic), meant(topic, namesOf(skills)), domain, list), nil
	}
	similar, err := h.catalog.Search(ctx, domain+" "+action)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Unknown skill %s. %sThere is no domain %s. Domains: %s.",
		clip(topic), meant(topic, namesOf(similar)), clip(domain), some(known)), nil
}

// meant proposes one of the names, or is "".
func meant(name string, of []string) string {
	if best := skill.Closest(name, of); best != "" {
		return fmt.Sprintf("Did you mean '%s'? ", best)
	}
	return ""
}

func namesOf(skills []*skill.Skill) []string {
	list := make([]string, len(skills))
	for i, s := range skills {
		list[i] = s.Name
	}
	return list
}

func names(skills []*skill.Skill) string { return some(namesOf(skills)) }

// some lists names, as many as fit.
func some(list []string) string {
	if more := len(list) - maxNames; more > 0 {
		return strings.Join(list[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func clip(name string) string {
	const most = 48
	return "'" + mesh.Clip(name, most) + "'"
}
