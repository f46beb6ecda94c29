package command

import (
	"context"
	"encoding/json"

	"agentmesh/mesh/skill"
)

// A Catalog is what help and discovery see of the skills: only those that who
// asks may know of. Lists and skills are shared and not changed. It may be
// called concurrently.
type Catalog interface {
	// Domains returns the domains by name, each with the number of its skills
	// and, if it has one, the text of its SKILL.md.
	Domains(ctx context.Context) ([]skill.Index, error)
	// List returns the skills of a domain by name, with their bodies; none if
	// there is no such domain.
	List(ctx context.Context, domain string) ([]*skill.Skill, error)
	// Get returns a skill with its body, or mesh.NotFound.
	Get(ctx context.Context, name string) (*skill.Skill, error)
	// Search returns the skills whose name, description or tags contain words
	// of the query, in any case, best match first.
	Search(ctx context.Context, query string) ([]*skill.Skill, error)
}

// A Query is the arguments of the tool get_skill. All may be empty.
type Query struct {
	// Domain is a domain, a skill's name, or "<domain>.all".
	Domain string `json:"domain,omitempty"`
	// Search are words to look for.
	Search string `json:"search,omitempty"`
}

// Definition returns what a model is told of the JSON tool get_skill: what it
// is for, and the JSON Schema of a [Query] that may name the domains. Equal
// domains give equal bytes.
func Definition(domains []skill.Index) (description string, parameters json.RawMessage) {
	domain := schema{Type: "string", Description: "The domain whose skills you want, with their parameters."}
	for _, d := range domains {
		domain.Enum = append(domain.Enum, json.RawMessage(JSON(d.Domain)))
	}
	search := schema{Type: "string", Description: `Words to find skills by, as "send email".`}
	const text = "Finds skills. Without arguments it lists the domains; with a domain, its skills and their parameters; " +
		"with search, the skills that the words fit. You MUST call get_skill before use_skill if you do not know the exact name of the skill or its parameters."
	return text, json.RawMessage(`{"type":"object","properties":{"domain":` + JSON(domain) +
		`,"search":` + JSON(search) + `},"required":[],"additionalProperties":false}`)
}
