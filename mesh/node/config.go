package node

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/audit/trail"
	"agentmesh/mesh/llm/price"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/oidc"
	"agentmesh/mesh/telemetry"
)

// The defaults that a newcomer meets.
const (
	DefaultGRPC = "127.0.0.1:7420"
	DefaultHTTP = "127.0.0.1:7480"
	DefaultData = ".agentmesh"
	DefaultMain = "main"
)

// Config is what an operator sets: in mesh.yaml, by MESH_* variables or by
// flags. The zero value of a field is its default.
type Config struct {
	// GRPC and HTTP are the addresses that the node listens on.
	GRPC string `yaml:"grpc"`
	HTTP string `yaml:"http"`
	// Public is where clients reach the node, if not where it listens: for a
	// node behind a proxy, or on all addresses of its machine.
	Public Public `yaml:"public"`
	// Data is the folder of the store and of what skills write.
	Data string `yaml:"data"`
	// Skills and Docs are folders; where they do not exist, the copies in the
	// binary serve.
	Skills string `yaml:"skills"`
	Docs   string `yaml:"docs"`
	// DocsIgnore are patterns of files and folders in Docs that are not searched, as
	// drafts/ or *.tmp.md.
	DocsIgnore []string `yaml:"docs_ignore"`
	// TenantSkills is the folder of the skills that only one tenant has, each
	// at TENANT/DOMAIN/ACTION.md; default tenant-skills in Data.
	TenantSkills string `yaml:"tenant_skills"`
	// ToolMode is ModeMultiAgent (default), ModeSingleLoop or ModeDirect.
	ToolMode string `yaml:"tool_mode"`
	// SkillInterface is InterfaceCLI, the default of ModeMultiAgent, or
	// InterfaceJSON, that of the other modes.
	SkillInterface string `yaml:"skill_interface"`
	// OrchestratorReadSkills lets the agents that have others do their work, in
	// ModeMultiAgent the main agent and the orchestrator, run skills with the access
	// read themselves. By default they run none.
	OrchestratorReadSkills bool `yaml:"orchestrator_read_skills"`
	// Defaults hold for all agents.
	Defaults Defaults `yaml:"defaults"`
	// Agents describes agents that are no code, and overrides settings for others, by
	// name.
	Agents map[string]AgentConfig `yaml:"agents"`
	// Chains are agents that have others work in stages, by name.
	Chains map[string]Chain `yaml:"chains"`
	// Limits bounds the calls of skills, and what a turn may use.
	Limits Limits `yaml:"limits"`
	// Handoff says what goes along with a handoff, and how long its session may rest.
	Handoff Handoff `yaml:"handoff"`
	// Quotas are what each user and each tenant may have and use.
	Quotas Quotas `yaml:"quotas"`
	// Turns bounds how many turns the node works on at once, and how many wait.
	Turns Turns `yaml:"turns"`
	// SMTP, HTTPSkills and MCP are what skills reach outside of the mesh.
	SMTP SMTP `yaml:"smtp"`
	// Accounts are where mail and calendars of users are, beside the folders in Data.
	Accounts   []Account  `yaml:"accounts"`
	HTTPSkills HTTPSkills `yaml:"http_skills"`
	MCP        MCP        `yaml:"mcp"`
	// Schedules says for whom scheduled skills run.
	Schedules Schedules `yaml:"schedules"`
	// Notify says who is told how calls of skills ended.
	Notify []Notification `yaml:"notify"`
	// Main is the agent that answers new conversations.
	Main string `yaml:"main"`
	// Auth is "none", on loopback addresses only, or how callers prove who they are:
	// "tokens", "oidc", "mtls" or several of them.
	Auth Modes `yaml:"auth"`
	// Tokens is the file of hashed bearer tokens for auth "tokens".
	Tokens string `yaml:"tokens"`
	// OIDC are the providers whose tokens count for auth "oidc".
	OIDC []oidc.Issuer `yaml:"oidc"`
	// MTLS says who is known by a certificate, for auth "mtls".
	MTLS []auth.Certificate `yaml:"mtls"`
	// Policies is the folder of policies in the language Cedar, and below it those of
	// tenants, each at TENANT; by default there are none.
	Policies string `yaml:"policies"`
	// TLS says how connections are encrypted.
	TLS TLS `yaml:"tls"`
	// Audit says where the record of administrative acts can be proved from.
	Audit Audit `yaml:"audit"`
	// Threads says who sees conversations.
	Threads Threads `yaml:"threads"`
	// Retention says which conversations are deleted by themselves.
	Retention Retention `yaml:"retention"`
	// Sessions are those of agents that the conversation is handed over to.
	Sessions Sessions `yaml:"sessions"`
	// Telemetry says whom the node tells what it does, in traces and metrics.
	Telemetry telemetry.Config `yaml:"telemetry"`
	// SharedData names domains of skills (calendar, files, mail, markdown, tasks) whose
	// data all users of a tenant share; of all others each user has data of its own. By
	// default none under an auth that knows users, and all under none.
	SharedData []string `yaml:"shared_data"`
	// TrustedAgents are agents of tenants, as TENANT/NAME, that get skills, dispatch and
	// handoff as those do that an operator or a tenant's admin registered. Under auth
	// none all agents are trusted.
	TrustedAgents []string `yaml:"trusted_agents"`
	// RateLimit bounds the calls of each user.
	RateLimit RateLimit `yaml:"rate_limit"`
	// Streams bounds the streams that are open at a time.
	Streams Streams `yaml:"streams"`
	// Connections bounds the connections to both ports together.
	Connections Connections `yaml:"connections"`
	// A2A are choices of the A2A surface.
	A2A A2A `yaml:"a2a"`
	// Cards are choices about agent cards.
	Cards Cards `yaml:"cards"`
	// Egress says what may be called on behalf of users.
	Egress Egress `yaml:"egress"`
	// Model is the language model that agents use; without URL and key, the
	// offline planner is.
	Model Model `yaml:"model"`
	// Embedding is the model by which memories are found by what they mean; without a name
	// they are found by their words.
	Embedding Embedding `yaml:"embedding"`
	// Voice says how audio of users is made text, and answers are spoken.
	Voice Voice `yaml:"voice"`
	// Models are further endpoints, by name, for agents that shall not use Model.
	Models map[string]Model `yaml:"models"`
	// ModelProbe has each endpoint of models asked for a word when the node has started, so
	// that an alarm says what is wrong with one; by default it is.
	ModelProbe *bool `yaml:"model_probe"`
	// Grace is how long running turns may take to finish when the node stops, before they
	// are left to its next start; default 10 s.
	Grace time.Duration `yaml:"grace"`
	// Continue has turns go on that a kill or a stop of a node cut off; by default they do.
	// Otherwise they end as FAILED with the reason INTERRUPTED.
	Continue *bool `yaml:"continue"`
	// HeapFloor is up to which size, in MiB, the heap of the process grows before
	// garbage is collected, though at most a quarter of what it may have; default
	// 64, -1 for none. Without it, collecting costs a tenth of the work of a mesh
	// whose heap is small. It is for the program that runs the node: Run ignores it.
	HeapFloor int `yaml:"heap_floor"`
	// LogLevel is debug, info, warn (default) or error.
	LogLevel string `yaml:"log_level"`

	file *file // that it was read from; nil if from none
}

// Public are the addresses that agent cards name.
type Public struct {
	// GRPC is a host:port, and HTTP a URL, as "https://mesh.example.com".
	GRPC string `yaml:"grpc"`
	HTTP string `yaml:"http"`
}

// Audit are choices about the record of administrative acts and refusals.
type Audit struct {
	// Checkpoints is a file to which the node adds what it has signed, one line a minute
	// at most, while anything happens. Kept on another disk or machine, it shows when
	// the end of a log is cut off. By default there is none.
	Checkpoints string `yaml:"checkpoints"`
	// Redact says what else is taken out of what is told of conversations, beside what looks
	// like a secret.
	Redact trail.Rules `yaml:"redact"`

	redactor *trail.Redactor
}

// Threads says who sees conversations of others, where callers have to say who they are.
type Threads struct {
	// Visibility is "private" (default): a thread is seen by who opened it, by those
	// with whom it is shared, and by roles; or "tenant": everybody in the tenant may
	// read all threads.
	Visibility string `yaml:"visibility"`
}

// The values of Threads.Visibility.
const (
	visiblePrivate = "private"
	visibleTenant  = "tenant"
)

// RateLimit is a token bucket for each caller.
type RateLimit struct {
	// PerSecond is by default 100 under an auth that knows users, and otherwise no limit,
	// as -1 is always.
	PerSecond float64 `yaml:"per_second"`
	// Burst is how many calls may come at once; default 2 s worth.
	Burst int `yaml:"burst"`
	// FailedLogins is how many log-ins may fail in a second that come from one address;
	// default 10, -1 for any number. Who can log in is never held up.
	FailedLogins int `yaml:"failed_logins"`
}

// Streams bounds open streams: of answers, subscriptions and followers.
type Streams struct {
	// PerUser is the most of one user; default 1,000 under auth tokens. Under
	// auth none it is Total: all callers are the same user, or say who they
	// are as they like.
	PerUser int `yaml:"per_user"`
	// Total is the most of all users; default 20,000.
	Total int `yaml:"total"`
}

// Connections bounds open connections.
type Connections struct {
	// Total is the most of all; default 25,000.
	Total int `yaml:"total"`
	// PerAddress is the most from one address of another machine; default 2,000.
	PerAddress int `yaml:"per_address"`
}

// usualLeast is the default of Embedding.Least: with OpenAI's models, texts about one thing are
// more similar, and others less.
const usualLeast = 0.3

// Embedding names a model for embeddings at an OpenAI-compatible endpoint.
type Embedding struct {
	// URL and Key are those of Model where they are left out.
	URL  string `yaml:"url"`
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
	// Least is how similar to what is looked for a memory must be that has none of its
	// words, from 0 to 1; default 0.3. Models differ in it.
	Least float64 `yaml:"least"`
}

// Model names an OpenAI-compatible endpoint.
type Model struct {
	URL  string `yaml:"url"`
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
	// API is auto (default), chat or responses.
	API string `yaml:"api"`
	// NativeTools are the tools that the endpoint itself has and runs, by its names; by
	// default what is known of its host.
	NativeTools []string `yaml:"native_tools"`
	// Pictures says that the model takes pictures.
	Pictures bool `yaml:"pictures"`
	// Audio says that the model takes audio, over chat completions.
	Audio bool `yaml:"audio"`
	// Cache says whether the provider is told what to cache: auto (default),
	// anthropic or none.
	Cache string `yaml:"cache"`
	// Retries is how often a request is made again; default 3, -1 never.
	Retries int `yaml:"retries"`
	// Context is how many tokens the model takes, prompt and reply together;
	// by default what is known of it. Response is how many of them are kept
	// for the reply.
	Context  int `yaml:"context"`
	Response int `yaml:"response"`
	// Extra are further fields of each request, as provider routing.
	Extra map[string]any `yaml:"extra"`
	// Fallbacks are asked in order when the model fails.
	Fallbacks []Endpoint `yaml:"fallbacks"`
	// Prices are what models cost, by the beginnings of their names.
	Prices price.Table `yaml:"prices"`
}

// Fill sets defaults and checks the rest. The error is the first mistake, with its line if
// it is one of a file.
func (c *Config) Fill() error {
	if problems := c.problems(); len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// problems fills the configuration and returns what is wrong with it: all that is said of
// agents, and the first mistake of what else there is.
func (c *Config) problems() (all []error) {
	err := c.fill()
	for _, p := range append(split(err), c.checkAgents()...) {
		all = append(all, c.Located(p))
	}
	return all
}

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (c *Config) fill() error {
	const op = "node.Config"
	for _, d := range []struct {
		field *string
		value string
	}{{&c.GRPC, DefaultGRPC}, {&c.HTTP, DefaultHTTP}, {&c.Data, DefaultData}, {&c.Main, DefaultMain}, {(*string)(&c.Auth), authNone}, {&c.LogLevel, "warn"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	c.Auth = c.Auth.tidy()
	if c.Grace == 0 {
		c.Grace = 10 * time.Second
	}
	if c.HeapFloor == 0 {
		c.HeapFloor = 64
	}
	if err := first(c.checkAddresses, c.checkRates, c.Sessions.fill, func() error { return checkModel("model", c.Model) }, c.Telemetry.Validate); err != nil {
		return err
	}
	if err := c.fillQuotas(); err != nil {
		return err
	}
	if c.RateLimit.PerSecond > 0 && c.RateLimit.Burst == 0 {
		c.RateLimit.Burst = int(2*c.RateLimit.PerSecond) + 1
	}
	if err := errors.Join(c.fillA2A(), c.fillCards(), c.fillSkills(), c.fillEmbedding(), c.fillVoice(), c.fillHandoff(), c.fillTLS(), c.fillAudit(), c.fillRetention()); err != nil {
		return err
	}
	if !mesh.ValidAgentName(c.Main) {
		return mesh.InvalidField(op, "main", "must be the name of an agent, and is %q", c.Main)
	}
	if c.Public.HTTP != "" && !webURL(c.Public.HTTP) {
		return mesh.InvalidField(op, "public.http", "must be a URL such as https://mesh.example.com")
	}
	if _, _, err := net.SplitHostPort(c.Public.GRPC); c.Public.GRPC != "" && err != nil {
		return mesh.InvalidField(op, "public.grpc", "must be host:port such as mesh.example.com:443, and is %q", c.Public.GRPC)
	}
	return errors.Join(c.checkAuth(), c.fillShared(), c.checkAccounts(), c.fillConnections())
}

// UserData are the domains of skills that keep data which users may share.
func UserData() []string { return []string{"calendar", "files", "mail", "markdown", "tasks"} }

// Shares reports whether all users of a tenant share what skills of the domain keep.
// Values of domains that are not the mesh's own are as they always were under auth none,
// which knows no users.
func (c *Config) Shares(domain string) bool {
	return slices.Contains(c.SharedData, domain) || c.Auth == "none" && !slices.Contains(UserData(), domain)
}

func (c *Config) fillAudit() (err error) {
	c.Audit.redactor, err = trail.NewRedactor("audit.redact", c.Audit.Redact)
	return err
}

func (c *Config) fillShared() error {
	if c.SharedData == nil && c.Auth == "none" {
		c.SharedData = UserData()
	}
	for _, d := range c.SharedData {
		if !slices.Contains(UserData(), d) {
			return mesh.InvalidField("node.Config", "shared_data", "must name some of %s, and has %q", strings.Join(UserData(), ", "), mesh.Clip(d, 48))
		}
	}
	return nil
}

func (c *Config) fillConnections() error {
	for _, n := range []struct {
		field string
		value *int
		usual int
	}{{"total", &c.Connections.Total, 25_000}, {"per_address", &c.Connections.PerAddress, 2_000}} {
		if *n.value < 0 {
			return invalid("connections."+n.field, "must not be negative, and is %d; leave it out for %d", *n.value, n.usual)
		}
		*n.value = cmp.Or(*n.value, n.usual)
	}
	return nil
}
