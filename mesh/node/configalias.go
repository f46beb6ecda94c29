package node

import (
	"fmt"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// Other words for fields of agents and of wherever agents are used, as TARSy has them, and
// for values of them.
var (
	otherFields = map[string]string{"mcp_servers": "mcp", "llm_provider": "endpoint", "llm_backend": "api"}
	otherAPIs   = map[string]string{"google-native": "responses", "langchain": "chat"}
	otherTypes  = map[string]string{"default": TypeWorker, "specialist": TypeWorker}
)

// AgentName is the name of an agent as the mesh has it, of one that may be written in
// camel case: log-analyzer for LogAnalyzer.
func AgentName(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		if unicode.IsUpper(r) {
			// Between a word and the next one, also where the first one is all capitals.
			ends := i > 0 && runes[i-1] != '-' && runes[i-1] != '_' &&
				(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
			if ends {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// serverName is the name of an MCP server, which skills begin with.
func serverName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// canonical gives what has several spellings the one that Config has: other words for
// fields, names of agents in camel case, and agents of a list by their names alone.
func (f *file) canonical() (problems []error) {
	c := canon{file: f}
	c.rename(f.root, "", map[string]string{"agent_chains": "chains", "llm_providers": "models"})
	c.use(member(f.root, "defaults"), "defaults")
	c.servers(member(member(f.root, "mcp"), "servers"))
	c.each(member(f.root, "agents"), "agents", AgentName, c.agent)
	c.each(member(f.root, "chains"), "chains", AgentName, c.chain)
	if n := member(f.root, "main"); n != nil && n.Kind == yaml.ScalarNode {
		n.Value = AgentName(n.Value)
	}
	return c.problems
}

// canon is a file that is being given one spelling.
type canon struct {
	file     *file
	problems []error
}

// member is the value of a field; nil if there is none.
func member(n *yaml.Node, name string) *yaml.Node {
	if n = target(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return target(n.Content[i+1])
		}
	}
	return nil
}

func target(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// rename gives fields of a group the names that they have otherwise.
func (c *canon) rename(n *yaml.Node, path string, names map[string]string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		to, ok := names[key.Value]
		if !ok {
			continue
		}
		if member(n, to) != nil {
			c.problems = append(c.problems, c.file.problem(key.Line, strings.TrimPrefix(path+"."+key.Value, "."), "is another word for "+to+", which is there too; leave one of them out"))
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			i -= 2
			continue
		}
		key.Value = to
	}
}

// each has do look at each field of a group, once they have the names that name says.
func (c *canon) each(n *yaml.Node, path string, name func(string) string, do func(n *yaml.Node, path string)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	seen := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		written := key.Value
		key.Value = name(written)
		if before, ok := seen[key.Value]; ok {
			c.problems = append(c.problems, c.file.problem(key.Line, path+"."+key.Value, fmt.Sprintf("is there as %s and as %s; give one of them another name", before, written)))
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			i -= 2
			continue
		}
		seen[key.Value] = written
		if do != nil {
			do(target(n.Content[i+1]), path+"."+key.Value)
		}
	}
}

func (c *canon) servers(n *yaml.Node) { c.each(n, "mcp.servers", serverName, nil) }

// use is where an agent is used, or said of all.
func (c *canon) use(n *yaml.Node, path string) {
	c.alone(n, path)
	c.list(member(n, "sub_agents"), path+".sub_agents", c.alone)
}

// alone is use of an agent that has no others.
func (c *canon) alone(n *yaml.Node, path string) {
	c.rename(n, path, otherFields)
	if list := member(n, "mcp"); list != nil && list.Kind == yaml.SequenceNode {
		for _, item := range list.Content {
			item.Value = serverName(item.Value)
		}
	}
	if api := member(n, "api"); api != nil && otherAPIs[api.Value] != "" {
		api.Value = otherAPIs[api.Value]
	}
}

func (c *canon) agent(n *yaml.Node, path string) {
	c.use(n, path)
	if kind := member(n, "type"); kind != nil && otherTypes[kind.Value] != "" {
		kind.Value = otherTypes[kind.Value]
	}
}

// list are agents of a list: a name alone stands for a group with that name.
func (c *canon) list(n *yaml.Node, path string, do func(n *yaml.Node, path string)) {
	if n == nil || n.Kind != yaml.SequenceNode {
		return
	}
	for i, item := range n.Content {
		item = target(item)
		if item.Kind == yaml.ScalarNode {
			name := *item
			name.Value = AgentName(name.Value)
			n.Content[i] = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: item.Line, Column: item.Column,
				Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name", Line: item.Line, Column: item.Column}, &name}}
			continue
		}
		if name := member(item, "name"); name != nil {
			name.Value = AgentName(name.Value)
		}
		do(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (c *canon) chain(n *yaml.Node, path string) {
	c.use(n, path)
	c.rename(n, path, map[string]string{"alert_types": "tags"})
	stages := member(n, "stages")
	if stages == nil || stages.Kind != yaml.SequenceNode {
		return
	}
	for i, stage := range stages.Content {
		stage = target(stage)
		at := fmt.Sprintf("%s.stages[%d]", path, i)
		c.use(stage, at)
		c.stage(stage, at)
	}
}

// stage gives the one agent of a stage, and how its results are put together, the long form.
func (c *canon) stage(n *yaml.Node, path string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	c.rename(n, path, map[string]string{"agent": "agents"})
	if agents := member(n, "agents"); agents != nil && agents.Kind != yaml.SequenceNode {
		one := *agents
		agents.Kind, agents.Tag, agents.Value, agents.Content = yaml.SequenceNode, "!!seq", "", []*yaml.Node{&one}
	}
	c.list(member(n, "agents"), path+".agents", c.use)
	c.use(member(n, "synthesis"), path+".synthesis")
}
