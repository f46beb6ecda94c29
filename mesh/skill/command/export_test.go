package command

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Split takes the command blocks out of a whole reply; see [Splitter].
func Split(reply string) (text string, lines []Line, problem error) {
	var s Splitter
	begin := s.Write(reply)
	end, lines, problem := s.Close()
	return begin + end, lines, problem
}

// Local is the Catalog of this process.
func Local(c *skill.Catalog) Catalog { return local{c} }

type local struct{ skills *skill.Catalog }

func (l local) Domains(context.Context) ([]skill.Index, error) { return l.skills.Domains(), nil }

func (l local) List(_ context.Context, domain string) ([]*skill.Skill, error) {
	return l.skills.InDomain(domain), nil
}

func (l local) Get(_ context.Context, name string) (*skill.Skill, error) {
	s, ok := l.skills.Get(name)
	if !ok {
		return nil, mesh.Errorf(mesh.NotFound, "command.Get", "there is no such skill; get_skill lists the domains")
	}
	return s, nil
}

func (l local) Search(_ context.Context, query string) ([]*skill.Skill, error) {
	return l.skills.Search(query), nil
}
