package node

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/state"
)

// The ways in which the mesh works on a request.
const (
	// ModeMultiAgent: the main agent and the orchestrator delegate to agents
	// that have the skills. It is the default.
	ModeMultiAgent = "multi_agent"
	// ModeSingleLoop: the main agent has all skills itself, behind two tools.
	ModeSingleLoop = "single_loop"
	// ModeDirect: the main agent has a tool for every skill.
	ModeDirect = "direct"
)

// The ways in which agents call skills.
const (
	InterfaceCLI  = "cli"  // command blocks in the model's text
	InterfaceJSON = "json" // tool calls
)

// Endpoint is an OpenAI-compatible endpoint and a model there.
type Endpoint struct {
	URL  string `yaml:"url"`
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
	// NativeTools are those of Model, of this endpoint.
	NativeTools []string `yaml:"native_tools"`
	// Pictures says that this model takes pictures.
	Pictures bool `yaml:"pictures"`
	// Audio says that this model takes audio.
	Audio bool `yaml:"audio"`
}

// SMTP is the server that mail is handed to; without Address, mail is written
// to the outbox folder.
type SMTP struct {
	Address  string `yaml:"address"` // host:port
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	// TLS is starttls (default), tls or none.
	TLS string `yaml:"tls"`
	// From is the sender, as "Mesh <mesh@example.com>".
	From string `yaml:"from"`
}

// HTTPSkills is what skills may call over HTTP.
type HTTPSkills struct {
	// Allow lists origins: a host, as "api.example.com", which means https, a
	// host with a port, or a whole origin, as "http://crm.internal:8080".
	Allow []string `yaml:"allow"`
	// Secrets are values that request templates name and models never see.
	Secrets map[string]Secret `yaml:"secrets"`
}

// A Secret is a value that requests carry and nobody reads. Where it has the
// form ${NAME}, it is taken from the environment.
type Secret struct {
	Value string `yaml:"value"`
	// Origins are where it may be sent to, each as in HTTPSkills.Allow.
	Origins []string `yaml:"origins"`
}

// MCP is the connection to and from the Model Context Protocol.
type MCP struct {
	// Servers are those whose tools become skills, by name.
	Servers map[string]MCPServer `yaml:"servers"`
	// Offer serves the mesh's skills at /mcp.
	Offer bool `yaml:"offer"`
}

// An MCPServer is started as a process, with Command, or reached at a URL.
type MCPServer struct {
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"`
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
	Timeout time.Duration     `yaml:"timeout"`
}

// Schedules says for whom the schedules of skills run.
type Schedules struct {
	// Off keeps all schedules from running.
	Off bool `yaml:"off"`
	// Tenant is where schedules of skills run that all tenants share; default
	// "default". Skills of a tenant run there.
	Tenant string `yaml:"tenant"`
	// User is who runs them; default "scheduler".
	User string `yaml:"user"`
	// CatchUp is how late a run may begin that was missed while no node ran;
	// default 1 h. What is older is recorded as missed.
	CatchUp time.Duration `yaml:"catch_up"`
	// Weights are how many due runs of a tenant begin before it is another's turn;
	// default 1.
	Weights map[string]int `yaml:"weights"`
}

// A Notification tells somebody how calls of skills ended.
type Notification struct {
	// Skills are patterns, as "mail.*"; default all.
	Skills []string `yaml:"skills"`
	// On is failure (default) or always.
	On string `yaml:"on"`
	// Webhook is a URL that gets a POST; without one the log gets a line.
	Webhook string `yaml:"webhook"`
}

// Limits bounds the calls of skills, and what a turn may use; 0 is the default, -1 no
// limit.
type Limits struct {
	// AgentCalls is for one agent that another one dispatched; default 5.
	AgentCalls int `yaml:"agent_calls"`
	// TurnCalls is for all agents of a turn; default 30, and 10 when the main
	// agent works alone.
	TurnCalls int `yaml:"turn_calls"`
	// TurnAgents is how many agents are dispatched for one message of the user; default 8.
	// Who only consults others so that they dispatch is not among them.
	TurnAgents int `yaml:"turn_agents"`
	// AgentSteps is how many replies of a model may dispatch others in one run; default 6.
	AgentSteps int `yaml:"agent_steps"`
	// Children is how many agents one execution dispatches between two messages of the user;
	// default 64.
	Children int `yaml:"children"`
	// NodeAgents is how many agents that others dispatched work on the node at once, of all
	// turns; default 256. Further ones wait.
	NodeAgents int `yaml:"node_agents"`
	// Depth is how many levels of dispatch there are below an orchestrator; default 1.
	Depth int `yaml:"depth"`
	// ThreadCalls is for a conversation within Window; default 50 in 5 min.
	ThreadCalls int           `yaml:"thread_calls"`
	Window      time.Duration `yaml:"window"`
	// UserCalls is for a user within Window; no limit by default.
	UserCalls int `yaml:"user_calls"`
	// TurnTokens and TurnCost, in US dollars, are what a turn may use with all agents that
	// work on it; no limit by default.
	TurnTokens int64   `yaml:"turn_tokens"`
	TurnCost   float64 `yaml:"turn_cost"`
	// ThreadCost is what models may cost in a conversation, in US dollars; no limit by default.
	ThreadCost float64 `yaml:"thread_cost"`
	// OutputEvents and OutputBytes are what the log takes of one execution; default 100,000
	// and 64 MiB.
	OutputEvents int64 `yaml:"output_events"`
	OutputBytes  int64 `yaml:"output_bytes"`
	// Blob is how many bytes a large file may have; default 256 MiB, and at least 1 MiB.
	Blob int64 `yaml:"blob"`
	// Timeout is for one call; default 30 s.
	Timeout time.Duration `yaml:"timeout"`
	// AgentTime is how long an agent may have the user's stream; default 30 min.
	AgentTime time.Duration `yaml:"agent_time"`
	// AgentSilence is how long nothing may come on an agent's stream until it is asked
	// for its task; default 2 min.
	AgentSilence time.Duration `yaml:"agent_silence"`
	// AgentReturn is how long an agent is waited for that was live a moment ago; default
	// 30 s.
	AgentReturn time.Duration `yaml:"agent_return"`
	// Quiet is how long the user of a turn is told nothing until the mesh says who is at
	// work on it, again and again; default 30 s, -1 never.
	Quiet time.Duration `yaml:"quiet"`
}

// maxReturn is how long users may be made to wait for an agent that does not return.
const maxReturn = 10 * time.Minute

// maxDepth is how many levels of dispatch an operator may allow: each keeps the one above
// it waiting.
const maxDepth = 5

// maxNodeAgents is how many agents an operator may let work at once on a node.
const maxNodeAgents = 100_000

var mcpName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// fillSkills sets defaults of what is about skills, and checks it.
func (c *Config) fillSkills() error {
	const op = "node.Config"
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.ToolMode, ModeMultiAgent}, {&c.Schedules.Tenant, string(mesh.DefaultTenant)}, {&c.Schedules.User, "scheduler"},
		{&c.SMTP.TLS, "starttls"}, {&c.TenantSkills, filepath.Join(c.Data, "tenant-skills")},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if err := checkMode("tool_mode", c.ToolMode); err != nil {
		return err
	}
	if c.SkillInterface == "" {
		c.SkillInterface = InterfaceJSON
		if c.ToolMode == ModeMultiAgent {
			c.SkillInterface = InterfaceCLI
		}
	}
	if err := errors.Join(checkTimes("limits.agent_time", c.Limits.AgentTime, "limits.agent_silence", c.Limits.AgentSilence),
		checkOutput("limits", c.Limits.OutputEvents, c.Limits.OutputBytes)); err != nil {
		return err
	}
	if d := c.Limits.Depth; d < 0 || d > maxDepth {
		return mesh.InvalidField(op, "limits.depth", "must be 1 to %d, and is %d; leave it out for 1", maxDepth, d)
	}
	if n := c.Limits.NodeAgents; n < limit.Unlimited || n > maxNodeAgents {
		return mesh.InvalidField(op, "limits.node_agents", "must be 1 to %d, and is %d; leave it out for %d, or make it -1 for no limit", maxNodeAgents, n, admission.DefaultNodeAgents)
	}
	switch r := c.Limits.AgentReturn; {
	case r == 0:
		c.Limits.AgentReturn = 30 * time.Second
	case r < time.Second || r > maxReturn:
		return mesh.InvalidField(op, "limits.agent_return", "must be 1s to %v, and is %v; leave it out for 30s", maxReturn, r)
	}
	switch q := c.Limits.Quiet; {
	case q == 0:
		c.Limits.Quiet = 30 * time.Second
	case q > 0 && q < time.Second:
		return mesh.InvalidField(op, "limits.quiet", "must be at least a second, and is %v; leave it out for 30s, or make it -1 for never", q)
	}
	if err := c.budgets().Validate(); err != nil {
		return mesh.InvalidField(op, "limits."+mesh.FieldOf(err), "%s", mesh.DetailOf(err))
	}
	if err := c.checkInterface("skill_interface", c.SkillInterface); err != nil {
		return err
	}
	if c.ToolMode == ModeDirect && c.SkillInterface == InterfaceCLI {
		return mesh.InvalidField(op, "skill_interface", "must be %s with tool_mode %s, which gives the model a JSON tool for each skill; set %s, or tool_mode %s for command blocks",
			InterfaceJSON, ModeDirect, InterfaceJSON, ModeSingleLoop)
	}
	if mode := c.Mode(c.Main); c.OrchestratorReadSkills && mode != ModeMultiAgent {
		return mesh.InvalidField(op, "orchestrator_read_skills", "has no effect with tool_mode %s, in which the agent %s has all skills itself; leave it out, or set tool_mode %s",
			mode, c.Main, ModeMultiAgent)
	}
	return c.fillPorts()
}

func checkMode(field, value string) error {
	if !slices.Contains([]string{ModeMultiAgent, ModeSingleLoop, ModeDirect}, value) {
		return mesh.InvalidField("node.Config", field, "must be %s, %s or %s, and is %q", ModeMultiAgent, ModeSingleLoop, ModeDirect, value)
	}
	return nil
}

func (c *Config) checkInterface(field, value string) error {
	if value != InterfaceCLI && value != InterfaceJSON {
		return mesh.InvalidField("node.Config", field, "must be %s or %s, and is %q", InterfaceCLI, InterfaceJSON, value)
	}
	return nil
}

// fillPorts is about what skills reach outside.
func (c *Config) fillPorts() error {
	const op = "node.Config"
	if err := mesh.TenantID(c.Schedules.Tenant).Validate(); err != nil {
		return mesh.InvalidField(op, "schedules.tenant", "must be the name of a tenant, and is %q", c.Schedules.Tenant)
	}
	if c.Schedules.CatchUp == 0 {
		c.Schedules.CatchUp = time.Hour
	}
	if c.Schedules.CatchUp < leastCatchUp {
		return mesh.InvalidField(op, "schedules.catch_up", "must be at least %v, and is %v; leave it out for 1h", leastCatchUp, c.Schedules.CatchUp)
	}
	if err := c.SMTP.check("smtp"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		if err := checkServer(name, c.MCP.Servers[name]); err != nil {
			return err
		}
	}
	for i := range c.Notify {
		if err := fillNotification(i, &c.Notify[i]); err != nil {
			return err
		}
	}
	return c.expand()
}

// budgets are the limits that the node keeps.
func (c *Config) budgets() limit.Budgets {
	b := limit.Budgets{
		AgentCalls: c.Limits.AgentCalls, TurnCalls: c.Limits.TurnCalls, ThreadCalls: c.Limits.ThreadCalls,
		UserCalls: c.Limits.UserCalls, Window: c.Limits.Window, TurnAgents: c.Limits.TurnAgents,
		AgentSteps: c.Limits.AgentSteps, Children: c.Limits.Children, ThreadCost: micro(c.Limits.ThreadCost),
	}
	if b.TurnCalls == 0 && c.Mode(c.Main) != ModeMultiAgent {
		b.TurnCalls = limit.SoloTurnCalls
	}
	return b
}

// mainAway reports whether the default tenant knows no agent of the name of the main one.
func (n *node) mainAway() bool {
	_, err := n.agents.Get(mesh.DefaultTenant, n.cfg.Main)
	return err != nil
}

// sharedTasks reports whether the default tenant has to-dos that its users share.
func (n *node) sharedTasks(ctx context.Context) bool {
	list, _, err := n.kv.List(ctx, state.TenantSpace(mesh.DefaultTenant, state.KindTasks).Page(state.Page{Limit: 1}))
	if err != nil {
		n.logger.WarnContext(ctx, "it is not known whether there are to-dos that users share", "err", err)
	}
	return len(list) > 0
}

// Mode is how the agent of that name works. The mode of the whole mesh is the
// main agent's; the others it asks, if it does, work as agents among several.
func (c *Config) Mode(agent string) string {
	switch own := c.Agents[agent].ToolMode; {
	case own != "":
		return own
	case agent == c.Main:
		return c.ToolMode
	}
	return ModeMultiAgent
}

// Interface is how the agent of that name calls skills.
func (c *Config) Interface(agent string) string {
	switch a := c.Agents[agent]; {
	case a.SkillInterface != "":
		return a.SkillInterface
	case a.ToolMode == ModeSingleLoop, a.ToolMode == ModeDirect:
		return InterfaceJSON
	}
	return c.SkillInterface
}
