// Package roster works out which agents a mesh has: those that are code, those that its
// configuration describes, its chains, and, where one is used otherwise than it is by
// itself, a variant of it for that use.
//
// What is said of an agent comes from several levels, each of which wins over the ones
// before it, field by field: defaults, what the agent is by itself, its entry below agents,
// the chain, the stage, and the agent's place in the stage; or, of one that an orchestrator
// dispatches, its place among sub_agents. For each value the roster knows the level.
//
// It only reads the configuration; nothing of it runs. Models choose none of this.
package roster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
)

// The types of agents beside those that a configuration may give.
const (
	TypeChain     = "chain"
	TypeSynthesis = "synthesis" // puts the results of a stage together
)

// A Builtin is an agent that is code.
type Builtin struct {
	Name string
	// Type is node.TypeWorker, node.TypeOrchestrator, or "" for an agent of its own kind.
	Type        string
	Description string
	// Use is what the agent is by itself. Skills and MCP that are nil are those of its code.
	Use node.Use
	// Thinks says that it needs a language model whatever it is given.
	Thinks bool
}

// An Agent is one that a mesh runs, with all that holds for it.
type Agent struct {
	Name string
	// Of is the agent whose variant it is for one use, which nobody lists; "" for an agent
	// that is there for all.
	Of string
	// Type is that of the configuration, TypeChain, TypeSynthesis, or "" for an agent of
	// its own kind.
	Type                      string
	Builtin                   bool // it, or what it is a variant of, is code
	Description, Instructions string
	node.Use
	node.Orchestrator
	// Agents are those that an orchestrator may dispatch, by what its model calls them; nil
	// for all.
	Agents []Ref
	Stages []Stage
	Tags   []string
	// From are the levels that values are of, as agents.worker.mcp, by names of fields.
	From map[string]string
	// Thinks says that it needs a language model.
	Thinks bool
}

// A Ref is how an agent is called where it is used, and as whom it is registered.
type Ref struct{ Name, Agent string }

// A Stage is one of a chain.
type Stage struct {
	Name, Task string
	Agents     []Ref
	// Synthesis is the agent that puts the results together; "" for a stage of one.
	Synthesis string
}

// Left is an agent that is not offered, and why, for people.
type Left struct{ Name, Why string }

// A Roster is the agents of a mesh.
type Roster struct {
	// Agents are sorted as they came: those that are code, those of the file by name,
	// chains, and variants.
	Agents []*Agent
	Left   []Left
}

// Get returns the agent of that name; nil if there is none.
func (r *Roster) Get(name string) *Agent {
	if i := slices.IndexFunc(r.Agents, func(a *Agent) bool { return a.Name == name }); i >= 0 {
		return r.Agents[i]
	}
	return nil
}

// A maker makes a roster.
type maker struct {
	cfg      *node.Config
	builtins []Builtin
	roster   *Roster
	problems []error
	open     []string // chains that are being made, for circles
}

// level is what is said at one place.
type level struct {
	path string
	use  node.Use
	orch node.Orchestration
}

// Make returns the agents for a configuration, which is filled, and what is wrong with its
// references, each by its field. lacking tells why an agent cannot be offered, or "".
func Make(cfg *node.Config, builtins []Builtin, lacking func(a *Agent) string) (*Roster, []error) {
	m := &maker{cfg: cfg, builtins: builtins, roster: &Roster{}}
	var names []string
	for _, b := range builtins {
		names = append(names, b.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		if m.check(name); m.described(name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		m.roster.Agents = append(m.roster.Agents, m.resolve(name, name, m.own(name)))
	}
	for i := range names {
		m.dispatches(m.roster.Agents[i], m.own(names[i]))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Chains)) {
		m.chain(name)
	}
	m.offer(lacking)
	return m.roster, m.problems
}

func (m *maker) bad(field, format string, args ...any) {
	m.problems = append(m.problems, mesh.InvalidField("roster.Make", field, format, args...))
}

func (m *maker) builtin(name string) (Builtin, bool) {
	if i := slices.IndexFunc(m.builtins, func(b Builtin) bool { return b.Name == name }); i >= 0 {
		return m.builtins[i], true
	}
	return Builtin{}, false
}

// described reports whether the file makes an agent of that name.
func (m *maker) described(name string) bool {
	_, code := m.builtin(name)
	return !code && m.cfg.Agents[name].Describes()
}

// check refuses settings of an agent that nobody would ever read.
func (m *maker) check(name string) {
	a := m.cfg.Agents[name]
	b, code := m.builtin(name)
	switch at := "agents." + name; {
	case code && a.ForRegistered():
		m.bad(at, "has protocol_binding or protocol_version, which are for agents that are registered, and %s is built in", name)
	case code && a.Type != "" && a.Type != b.Type:
		m.bad(at+".type", "is %s, and the built-in agent is another; leave it out, or give the agent another name", a.Type)
	case !code && !a.Describes() && a.ForBuiltIn():
		m.bad(at, "has settings of %q, which is no agent; %s, or give it a description and custom_instructions to make one", mesh.Clip(name, 60), m.advice(name))
	case a.Orchestrator != (node.Orchestrator{}) && m.typeOf(name) != node.TypeOrchestrator && name != "main":
		m.bad(at+".orchestrator", "is for agents of the type orchestrator, and %s is none; give it the type, or leave orchestrator out", name)
	case a.SubAgents != nil && m.typeOf(name) != node.TypeOrchestrator:
		m.bad(at+".sub_agents", "is for agents of the type orchestrator, and %s is none; give it the type, or leave sub_agents out", name)
	}
}

func (m *maker) advice(name string) string {
	var names []string
	for _, b := range m.builtins {
		names = append(names, b.Name)
	}
	for other, a := range m.cfg.Agents {
		if a.Describes() {
			names = append(names, other)
		}
	}
	names = append(names, slices.Collect(maps.Keys(m.cfg.Chains))...)
	slices.Sort(names)
	if near := skill.Closest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

// typeOf is the type of the agent of that name; "" for one of its own kind, and for none.
func (m *maker) typeOf(name string) string {
	if b, ok := m.builtin(name); ok {
		return b.Type
	}
	if _, ok := m.cfg.Chains[name]; ok {
		return TypeChain
	}
	if a := m.cfg.Agents[name]; a.Describes() {
		return cmp.Or(a.Type, node.TypeWorker)
	}
	return ""
}

// own are the levels of an agent by itself.
func (m *maker) own(name string) []level {
	all := []level{{"defaults", m.cfg.Defaults.Use, m.cfg.Defaults.Orchestration}}
	if b, ok := m.builtin(name); ok {
		all = append(all, level{path: "built in", use: b.Use})
	} else { // what others may call says nothing of it
		all = append(all, level{path: "described", use: node.Use{}})
	}
	a := m.cfg.Agents[name]
	return append(all, level{"agents." + name, a.Use, a.Orchestration})
}

// resolve is the agent of that name at the levels, under the name as.
func (m *maker) resolve(name, as string, levels []level) *Agent {
	a := &Agent{Name: as, Type: m.typeOf(name), From: map[string]string{}}
	if as != name {
		a.Of = name
	}
	if b, ok := m.builtin(name); ok {
		a.Builtin, a.Description, a.Thinks = true, b.Description, b.Thinks
	}
	said := m.cfg.Agents[name]
	a.Description, a.Instructions = cmp.Or(said.Description, a.Description), said.Instructions
	a.merge(levels)
	return a
}

// merge takes in what the levels say, the last one last.
func (a *Agent) merge(levels []level) {
	for _, l := range levels {
		for _, s := range []struct{ to, from reflect.Value }{
			{reflect.ValueOf(&a.Use).Elem(), reflect.ValueOf(l.use)}, {reflect.ValueOf(&a.Orchestrator).Elem(), reflect.ValueOf(l.orch.Orchestrator)},
		} {
			for i := range s.from.NumField() {
				if s.from.Field(i).IsZero() {
					continue
				}
				name := s.from.Type().Field(i).Tag.Get("yaml")
				s.to.Field(i).Set(s.from.Field(i))
				if s.from.Type() == reflect.TypeFor[node.Orchestrator]() {
					name = "orchestrator." + name
				}
				a.From[name] = l.path
				if l.path != "built in" {
					a.From[name] = l.path + "." + name
				}
			}
		}
	}
}

// dispatches gives an orchestrator the agents that the most special of the levels names.
func (m *maker) dispatches(a *Agent, levels []level) {
	if a.Type != node.TypeOrchestrator {
		return
	}
	for _, l := range slices.Backward(levels) {
		if l.orch.SubAgents == nil {
			continue
		}
		a.Agents, a.From["sub_agents"] = []Ref{}, l.path+".sub_agents"
		for i, s := range l.orch.SubAgents {
			if ref, ok := m.ref(fmt.Sprintf("%s.sub_agents[%d]", l.path, i), s, cmp.Or(a.Of, a.Name)); ok {
				a.Agents = append(a.Agents, ref)
			}
		}
		return
	}
}

// ref is the agent that an orchestrator may dispatch, for its use there.
func (m *maker) ref(at string, s node.SubAgent, by string) (Ref, bool) {
	_, entered := m.cfg.Agents[s.Name]
	kind, changed := m.typeOf(s.Name), !reflect.ValueOf(s.Use).IsZero()
	_, code := m.builtin(s.Name)
	switch ours := code || kind != ""; {
	case s.Name == by:
		m.bad(at+".name", "is the orchestrator itself; name others")
	case kind == node.TypeOrchestrator, kind == TypeChain:
		m.bad(at+".name", "is %s, which has others work itself, and cannot be dispatched; name agents that do the work", s.Name)
	case !ours && !entered:
		m.bad(at+".name", "is %q, which is no agent; %s, or, if it is registered while the mesh runs, enter it below agents", s.Name, m.advice(s.Name))
	case !ours && changed:
		m.bad(at, "changes %s, which is no agent of the mesh's own; leave all but the name out", s.Name)
	case ours && m.description(s.Name) == "":
		m.bad(at+".name", "is %s, which has no description, by which an orchestrator chooses; give it one at agents.%s.description", s.Name, s.Name)
	case !changed:
		return Ref{s.Name, s.Name}, true
	default:
		return Ref{s.Name, m.variant(s.Name, at, append(m.own(s.Name), level{path: at, use: s.Use})).Name}, true
	}
	return Ref{}, false
}

func (m *maker) description(name string) string {
	b, _ := m.builtin(name)
	return cmp.Or(m.cfg.Agents[name].Description, b.Description)
}

// variant adds an agent for one use, whose name is the same after each start: what waits
// for it finds it again.
func (m *maker) variant(name, at string, levels []level) *Agent {
	sum := sha256.Sum256([]byte(at))
	as := mesh.Clip(name, 50)
	as = strings.TrimSuffix(as, "…") + "_" + hex.EncodeToString(sum[:4])
	if old := m.roster.Get(as); old != nil {
		return old
	}
	a := m.resolve(name, as, levels)
	m.roster.Agents = append(m.roster.Agents, a)
	return a
}

// offer takes out agents that cannot work, and those that cannot without them.
func (m *maker) offer(lacking func(a *Agent) string) {
	left := map[string]string{}
	for again := true; again; {
		again = false
		m.roster.Agents = slices.DeleteFunc(m.roster.Agents, func(a *Agent) bool {
			why := m.misses(a, left)
			if why == "" {
				why = lacking(a)
			}
			if why == "" {
				return false
			}
			if a.Name == m.cfg.Main {
				m.bad("main", "is %s, which cannot be offered: %s", a.Name, why)
			}
			left[a.Name], again = why, true
			m.roster.Left = append(m.roster.Left, Left{cmp.Or(a.Of, a.Name), why})
			return true
		})
	}
	slices.SortFunc(m.roster.Left, func(a, b Left) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Why, b.Why)) })
	m.roster.Left = slices.Compact(m.roster.Left)
}

// misses says which agent that is not offered this one cannot do without. What an
// orchestrator may dispatch loses it, what a stage can do without is left out of it.
func (m *maker) misses(a *Agent, left map[string]string) string {
	if a.Agents != nil {
		had := len(a.Agents)
		a.Agents = slices.DeleteFunc(a.Agents, func(r Ref) bool { return left[r.Agent] != "" })
		if had > 0 && len(a.Agents) == 0 {
			return "none of its sub_agents can be offered"
		}
	}
	for i, s := range a.Stages {
		for _, r := range s.Agents {
			if why := left[r.Agent]; why != "" {
				return fmt.Sprintf("its stage %s needs %s: %s", s.Name, r.Name, why)
			}
		}
		if left[s.Synthesis] != "" {
			a.Stages[i].Synthesis = ""
		}
	}
	return ""
}
