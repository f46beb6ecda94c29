package main

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"

	"agentmesh/agentcards"
	"agentmesh/agents/roster"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/skill"
	"agentmesh/skills"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// nameSkills puts the names of the skills that the binary has on a card: in place of "any
// skill" and, of an agent that has others work, behind what is there. An agent that the
// mesh does not run itself is granted what its card names, and no more, and can grant no
// more than that.
func nameSkills(card *a2apb.AgentCard, delegates bool) {
	anySkill := slices.ContainsFunc(card.GetSkills(), func(s *a2apb.AgentSkill) bool { return s.GetId() == specialist.AnyDomain })
	switch {
	case anySkill:
		card.Skills = nil
	case !delegates:
		return
	}
	catalog, _ := skill.Load(skills.FS) // a test of package skills finds the problems
	for _, s := range catalog.List() {
		if slices.ContainsFunc(card.Skills, func(has *a2apb.AgentSkill) bool { return has.GetId() == s.Name }) {
			continue
		}
		card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: s.Name, Name: s.Name, Description: s.Description, Tags: append([]string{s.Domain}, s.Tags...)})
	}
}

// card is the card of an agent: its file's, or one that says what the configuration does.
func (c *crew) card(a *roster.Agent) (*a2apb.AgentCard, error) {
	delegates := a.Type == node.TypeOrchestrator || a.Type == roster.TypeChain
	if name := cmp.Or(a.Of, a.Name); slices.Contains(crewNames, name) {
		card, err := readCard(name)
		if err != nil {
			return nil, err
		}
		card.Description = cmp.Or(a.Description, card.GetDescription())
		if c.apart {
			nameSkills(card, delegates)
		}
		return card, nil
	}
	title := strings.ReplaceAll(strings.ReplaceAll(cmp.Or(a.Of, a.Name), "-", " "), "_", " ")
	title = strings.ToUpper(title[:1]) + title[1:]
	params := map[string]any{}
	if delegates {
		params["orchestration"] = true
	}
	p, err := structpb.NewStruct(params)
	if err != nil {
		return nil, err
	}
	card := &a2apb.AgentCard{
		Name: title, Description: a.Description, Version: "1.0.0", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true), Extensions: []*a2apb.AgentExtension{
			{Uri: mesh.ExtensionURI, Description: "Cursors, progress and handoff of agentmesh", Params: p}}},
		Skills: []*a2apb.AgentSkill{{Id: a.Name, Name: title, Description: cmp.Or(a.Description, title), Tags: append(append([]string{a.Name}, a.Tags...), a.Domains()...)}},
	}
	for _, name := range a.Skills {
		if !strings.Contains(name, "*") { // by which it is found for an order that names skills
			card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: name, Name: name, Description: name, Tags: strings.Split(name, ".")})
		}
	}
	if c.apart && delegates {
		nameSkills(card, true)
	}
	return card, nil
}

// readCard reads the card of a built-in agent.
func readCard(name string) (*a2apb.AgentCard, error) {
	file := name + ".json"
	data, err := fs.ReadFile(agentcards.FS, file)
	if err != nil {
		return nil, mesh.Errorf(mesh.NotFound, "crew.readCard", "there is no built-in agent %q; the agents are %s", name, strings.Join(crewNames, ", "))
	}
	return registry.ParseCard(file, data)
}
