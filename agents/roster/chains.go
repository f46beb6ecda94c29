package roster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"agentmesh/mesh/limit"
	"agentmesh/mesh/node"
)

// chain adds the chain of that name, after those that are in it.
func (m *maker) chain(name string) {
	at, c := "chains."+name, m.cfg.Chains[name]
	if _, code := m.builtin(name); code {
		m.bad(at, "is the name of a built-in agent; give the chain another name")
		return
	}
	if m.roster.Get(name) != nil { // it was in another one, or is the name of an agent
		return
	}
	m.open = append(m.open, name)
	defer func() { m.open = m.open[:len(m.open)-1] }()
	a := &Agent{Name: name, Type: TypeChain, Description: c.Description, Tags: c.Tags, From: map[string]string{}}
	for i, s := range c.Stages {
		here := fmt.Sprintf("%s.stages[%d]", at, i)
		outer := []level{{at, c.Use, c.Orchestration}, {here, s.Use, s.Orchestration}}
		stage := Stage{Name: cmp.Or(s.Name, fmt.Sprintf("stage-%d", i+1)), Task: s.Task}
		for j, member := range s.Agents {
			if ref, ok := m.member(fmt.Sprintf("%s.agents[%d]", here, j), member, outer); ok {
				stage.Agents = append(stage.Agents, ref)
			}
		}
		if len(s.Agents) > 1 {
			stage.Synthesis = m.synthesis(here, s.Synthesis, outer)
		}
		a.Stages = append(a.Stages, stage)
	}
	m.roster.Agents = append(m.roster.Agents, a)
	most := cmp.Or(m.cfg.Limits.TurnAgents, limit.DefaultTurnAgents)
	if n := orders(a); most > 0 && n > most {
		m.bad(at+".stages", "have %d agents together, and limits.turn_agents lets a turn dispatch %d; raise it, or take some out", n, most)
	}
}

// orders is how many agents the chain dispatches itself.
func orders(a *Agent) (n int) {
	for _, s := range a.Stages {
		if n += len(s.Agents); s.Synthesis != "" {
			n++
		}
	}
	return n
}

// member is an agent of a stage.
func (m *maker) member(at string, s node.StageAgent, outer []level) (Ref, bool) {
	_, entered := m.cfg.Agents[s.Name]
	_, code := m.builtin(s.Name)
	kind := m.typeOf(s.Name)
	changed := false
	levels := append(m.own(s.Name), append(slices.Clone(outer), level{at, s.Use, s.Orchestration})...)
	for _, l := range levels[3:] {
		changed = changed || !reflect.ValueOf(l.use).IsZero() || kind == node.TypeOrchestrator && !reflect.ValueOf(l.orch).IsZero()
	}
	switch {
	case !code && kind == "" && !entered:
		m.bad(at+".name", "is %q, which is no agent; %s", s.Name, m.advice(s.Name))
		return Ref{}, false
	case kind == TypeChain:
		if i := slices.Index(m.open, s.Name); i >= 0 {
			m.bad(at+".name", "goes in a circle: %s", strings.Join(append(slices.Clone(m.open[i:]), s.Name), " -> "))
			return Ref{}, false
		}
		m.chain(s.Name)
		return Ref{s.Name, s.Name}, true
	case !code && kind == "" || !changed:
		return Ref{s.Name, s.Name}, true
	case code && kind == "":
		m.bad(at+".name", "is %s, which is used only as it is; leave it out, or what changes it", s.Name)
		return Ref{}, false
	}
	if s.Orchestrator != (node.Orchestrator{}) && kind != node.TypeOrchestrator {
		m.bad(at+".orchestrator", "is for agents of the type orchestrator, and %s is none; leave it out", s.Name)
	}
	if s.SubAgents != nil && kind != node.TypeOrchestrator {
		m.bad(at+".sub_agents", "is for agents of the type orchestrator, and %s is none; leave it out", s.Name)
	}
	a := m.variant(s.Name, at, levels)
	m.dispatches(a, levels)
	return Ref{s.Name, a.Name}, true
}

// synthesis adds the agent that puts the results of a stage together.
func (m *maker) synthesis(at string, s node.Synthesis, outer []level) string {
	sum := sha256.Sum256([]byte(at))
	a := &Agent{Name: TypeSynthesis + "_" + hex.EncodeToString(sum[:4]), Of: TypeSynthesis, Type: TypeSynthesis, Thinks: true,
		Description: "Puts the results of a stage together", Instructions: s.Instructions, From: map[string]string{}}
	levels := append([]level{{"defaults", m.cfg.Defaults.Use, node.Orchestration{}}}, outer...)
	a.merge(append(levels, level{path: at + ".synthesis", use: s.Use}))
	a.MCP, a.Skills, a.NativeTools = s.MCP, s.Skills, s.NativeTools // its agents had the others
	m.roster.Agents = append(m.roster.Agents, a)
	return a.Name
}
