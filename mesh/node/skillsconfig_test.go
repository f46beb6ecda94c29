package node_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/price"
	"agentmesh/mesh/node"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/text/texttest"
)

// S3-130: the mode is chosen by configuration, every combination that makes
// sense starts, and the others are refused with what to do.
func TestModesAndInterfacesThatDoNotGoTogetherAreRefused(t *testing.T) {
	for _, c := range []struct {
		mode, face string
		want       string // the interface that holds; "" for refused
	}{
		{"", "", "cli"}, {"multi_agent", "", "cli"}, {"multi_agent", "cli", "cli"}, {"multi_agent", "json", "json"},
		{"single_loop", "", "json"}, {"single_loop", "cli", "cli"}, {"single_loop", "json", "json"},
		{"direct", "", "json"}, {"direct", "json", "json"}, {"direct", "cli", ""},
		{"both", "", ""}, {"multi_agent", "xml", ""},
	} {
		cfg := node.Config{ToolMode: c.mode, SkillInterface: c.face}
		err := cfg.Fill()
		switch {
		case c.want == "" && (!mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) == "" || mesh.DetailOf(err) == ""):
			t.Errorf("%s with %s: got %v, want a refusal that names the field", c.mode, c.face, err)
		case c.want != "" && (err != nil || cfg.Interface("worker") != c.want):
			t.Errorf("%s with %s: got %q, %v; want %q", c.mode, c.face, cfg.Interface("worker"), err, c.want)
		}
	}
	cfg := node.Config{Agents: map[string]node.AgentConfig{"worker": {SkillInterface: "json"}}}
	if err := cfg.Fill(); err != nil || cfg.Interface("worker") != "json" || cfg.Interface("tasks") != "cli" {
		t.Errorf("an agent's own interface: %q, %q, %v", cfg.Interface("worker"), cfg.Interface("tasks"), err)
	}
	cfg = node.Config{Agents: map[string]node.AgentConfig{"worker": {ToolMode: "direct"}, "main": {ToolMode: "single_loop"}}}
	if err := cfg.Fill(); err != nil || cfg.Mode("worker") != "direct" || cfg.Interface("worker") != "json" || cfg.Mode("main") != "single_loop" ||
		cfg.Mode("tasks") != "multi_agent" || cfg.Interface("tasks") != "cli" {
		t.Errorf("an agent's own mode: %+v, %v", cfg.Agents, err)
	}
	for field, own := range map[string]node.AgentConfig{
		"agents.worker.tool_mode": {ToolMode: "both"}, "agents.worker.skill_interface": {ToolMode: "direct", SkillInterface: "cli"},
	} {
		cfg = node.Config{Agents: map[string]node.AgentConfig{"worker": own}}
		if err := cfg.Fill(); mesh.FieldOf(err) != field {
			t.Errorf("%+v: got %v, want a refusal of %s", own, err, field)
		}
	}
	cfg = node.Config{ToolMode: "direct", Agents: map[string]node.AgentConfig{"main": {SkillInterface: "cli"}}}
	if err := cfg.Fill(); mesh.FieldOf(err) != "agents.main.skill_interface" {
		t.Errorf("got %v", err)
	}
}

// C1 row 6: agents that delegate may read themselves only where there are such.
func TestReadingOfTheOrchestratorIsRefusedWhereItHasNoEffect(t *testing.T) {
	texttest.Fixed(t)
	own := func(mode string) map[string]node.AgentConfig {
		return map[string]node.AgentConfig{"main": {ToolMode: mode}}
	}
	for _, tt := range []struct {
		cfg  node.Config
		mode string // that is in the way; "" for none
	}{
		{node.Config{}, ""}, {node.Config{ToolMode: "multi_agent", SkillInterface: "json"}, ""}, {node.Config{ToolMode: "direct", Agents: own("multi_agent")}, ""},
		{node.Config{ToolMode: "single_loop"}, "single_loop"}, {node.Config{ToolMode: "direct"}, "direct"}, {node.Config{Agents: own("direct")}, "direct"},
	} {
		off := tt.cfg
		if err := off.Fill(); err != nil || off.OrchestratorReadSkills {
			t.Errorf("%+v: without it, %v, %v", tt.cfg, off.OrchestratorReadSkills, err)
		}
		tt.cfg.OrchestratorReadSkills = true
		err := tt.cfg.Fill()
		switch {
		case tt.mode == "" && err != nil:
			t.Errorf("%+v: %v", tt.cfg, err)
		case tt.mode != "" && (!mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "orchestrator_read_skills" || !strings.Contains(mesh.DetailOf(err), "no effect with tool_mode "+tt.mode+",") ||
			!strings.Contains(mesh.DetailOf(err), "leave it out")):
			t.Errorf("%+v: got %v, want a refusal of the field", tt.cfg, err)
		}
	}
}

func TestSettingsOfWhatSkillsReachAreChecked(t *testing.T) {
	server := func(s node.MCPServer) node.Config {
		return node.Config{MCP: node.MCP{Servers: map[string]node.MCPServer{"github": s}}}
	}
	for field, cfg := range map[string]node.Config{
		"agents":                                   {Agents: map[string]node.AgentConfig{"No Name": {}}},
		"agents.worker.skill_interface":            {Agents: map[string]node.AgentConfig{"worker": {SkillInterface: "telnet"}}},
		"schedules.tenant":                         {Schedules: node.Schedules{Tenant: "a/b"}},
		"schedules.catch_up":                       {Schedules: node.Schedules{CatchUp: -1}},
		"embedding.name":                           {Embedding: node.Embedding{Least: 0.5}},
		"embedding.url":                            {Embedding: node.Embedding{Name: "small"}},
		"embedding.least":                          {Embedding: node.Embedding{Name: "small", URL: "https://x", Least: 2}},
		"embedding.key":                            {Embedding: node.Embedding{Name: "small", URL: "https://x", Key: "${MESH_TEST_NOT_SET}"}},
		"voice.transcription.name":                 {Voice: node.Voice{Transcription: node.Transcription{Language: "de"}}},
		"voice.transcription.url":                  {Voice: node.Voice{Transcription: node.Transcription{Name: "whisper-1"}}},
		"voice.transcription.language":             {Voice: node.Voice{Transcription: node.Transcription{Name: "whisper-1", URL: "https://x", Language: "deutsch"}}},
		"voice.transcription.key":                  {Voice: node.Voice{Transcription: node.Transcription{Name: "whisper-1", URL: "https://x", Key: "${MESH_TEST_NOT_SET}"}}},
		"voice.speech.name":                        {Voice: node.Voice{Speech: node.Speech{Voice: "alloy"}}},
		"voice.speech.url":                         {Voice: node.Voice{Speech: node.Speech{Name: "tts-1"}}},
		"voice.speech.format":                      {Voice: node.Voice{Speech: node.Speech{Name: "tts-1", URL: "https://x", Format: "midi"}}},
		"voice.speech.key":                         {Voice: node.Voice{Speech: node.Speech{Name: "tts-1", URL: "https://x", Key: "${MESH_TEST_NOT_SET}"}}},
		"model.audio":                              {Model: node.Model{API: "responses", Audio: true}},
		"smtp.tls":                                 {SMTP: node.SMTP{TLS: "ssl"}},
		"smtp.from":                                {SMTP: node.SMTP{Address: "mail.example.com:587"}},
		"smtp.password":                            {SMTP: node.SMTP{Address: "h:25", From: "a@example.com", User: "a", Password: "${MESH_TEST_NOT_SET}"}},
		"http_skills.secrets.token":                {HTTPSkills: node.HTTPSkills{Secrets: map[string]node.Secret{"token": {Value: "${MESH_TEST_NOT_SET}"}}}},
		"mcp.servers":                              {MCP: node.MCP{Servers: map[string]node.MCPServer{"Git Hub": {URL: "http://x"}}}},
		"mcp.servers.github":                       server(node.MCPServer{}),
		"mcp.servers.github.url":                   server(node.MCPServer{URL: "ftp://x"}),
		"mcp.servers.github.timeout":               server(node.MCPServer{URL: "https://x", Timeout: -1}),
		"mcp.servers.github.headers.Authorization": server(node.MCPServer{URL: "https://x", Headers: map[string]string{"Authorization": "${MESH_TEST_NOT_SET}"}}),
		"mcp.servers.github.env":                   server(node.MCPServer{URL: "https://x", Env: map[string]string{"A": "b"}}),
		"mcp.servers.github.command":               server(node.MCPServer{Command: []string{""}}),
		"notify[1].on":                             {Notify: []node.Notification{{}, {On: "never"}}},
		"notify[0].webhook":                        {Notify: []node.Notification{{Webhook: "hooks.example.com"}}},
		"notify[0].skills":                         {Notify: []node.Notification{{Skills: []string{"mail.*", ""}}}},
		"agents.worker.mcp":                        {Agents: map[string]node.AgentConfig{"worker": {Use: node.Use{MCP: []string{"github"}}}}},
		"smtp.address":                             {SMTP: node.SMTP{From: "Mesh <mesh@example.com>"}},
		"smtp.user":                                {SMTP: node.SMTP{Address: "mail.example.com:587", From: "mesh@example.com", Password: "s3cret"}},
		"model.fallbacks[1].key":                   {Model: node.Model{URL: "http://127.0.0.1:1/v1", Fallbacks: []node.Endpoint{{Name: "a"}, {Name: "b", Key: "${MESH_TEST_NOT_SET}"}}}},
		"http_skills.secrets.other":                {HTTPSkills: node.HTTPSkills{Secrets: map[string]node.Secret{"other": {Value: "${MESH_TEST_NOT_SET}"}}}},
	} {
		if err := cfg.Fill(); mesh.FieldOf(err) != field || mesh.DetailOf(err) == "" {
			t.Errorf("%s: got %v (field %q)", field, err, mesh.FieldOf(err))
		}
	}
}

func TestSettingsOfSkillsAreReadFromTheFile(t *testing.T) {
	t.Setenv("MESH_TEST_TOKEN", "s3cret")
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	text := `
tool_mode: single_loop
agents:
  worker: {skill_interface: cli, model: small, mcp: [github]}
  weather: {time: 2h, silence: 10s}
limits: {turn_calls: 12, window: 1m, agent_silence: 10m}
http_skills:
  allow: [api.example.com]
  secrets: {token: {value: "${MESH_TEST_TOKEN}", origins: [api.example.com]}}
mcp:
  offer: true
  servers:
    github: {command: [github-mcp, stdio], env: {TOKEN: "${MESH_TEST_TOKEN}"}, timeout: 5s}
schedules: {tenant: acme, catch_up: 10m}
notify:
  - {skills: ["mail.*"], webhook: "https://example.com/hook"}
model:
  url: "http://127.0.0.1:1/v1"
  prices: {"gpt-4": {input: 2.5, output: 10}}
  fallbacks: [{url: "http://127.0.0.1:1/v1", name: other}]
  extra: {provider: {order: [a]}}
tenant_skills: ours
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := node.LoadConfig(file)
	if err == nil {
		err = cfg.Fill()
	}
	if err != nil {
		t.Fatal(err)
	}
	github := cfg.MCP.Servers["github"]
	if cfg.SkillInterface != "json" || cfg.Interface("worker") != "cli" || cfg.Agents["worker"].Model != "small" || cfg.Limits.TurnCalls != 12 ||
		cfg.Agents["weather"].Time != 2*time.Hour || cfg.Agents["weather"].Silence != 10*time.Second || cfg.Limits.AgentSilence != 10*time.Minute ||
		cfg.Limits.Window != time.Minute || cfg.HTTPSkills.Secrets["token"].Value != "s3cret" || github.Env["TOKEN"] != "s3cret" || github.Timeout != 5*time.Second ||
		!cfg.MCP.Offer || cfg.Schedules.Tenant != "acme" || cfg.Schedules.User != "scheduler" || cfg.Notify[0].On != "failure" ||
		cfg.Model.Prices["gpt-4"].Output != 10 || cfg.Model.Fallbacks[0].Name != "other" || cfg.TenantSkills != filepath.Join(filepath.Dir(file), "ours") {
		t.Errorf("got %+v", cfg)
	}
	if err := os.WriteFile(file, []byte("limits: {turns: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := node.LoadConfig(file); err == nil || !strings.Contains(mesh.DetailOf(err), "turns is not known") {
		t.Errorf("a field that is not known: %v", err)
	}
}

// Every field that cannot be is named, with what to do, before anything starts.
func TestEachBadSettingIsNamed(t *testing.T) {
	texttest.Fixed(t)
	nan := math.NaN()
	for _, tt := range []struct {
		field string
		cfg   node.Config
		words string
	}{
		{"grpc", node.Config{GRPC: "7420"}, "host:port"},
		{"http", node.Config{HTTP: "localhost", Auth: "tokens", Tokens: "t"}, "host:port"},
		{"http", node.Config{GRPC: "127.0.0.1:7420", HTTP: "127.0.0.1:7420"}, "a port of its own"},
		{"grpc", node.Config{GRPC: "0.0.0.0:7420"}, "auth: tokens"},
		{"auth", node.Config{Auth: "maybe"}, "none, or a list of tokens, oidc and mtls"},
		{"tokens", node.Config{Auth: "tokens"}, "name the file"},
		{"auth", node.Config{Tokens: "tokens.yaml"}, "set auth: tokens"},
		{"cards.verify", node.Config{Cards: node.Cards{Trust: "keys.json"}}, "warn or require"},
		{"cards.verify", node.Config{Cards: node.Cards{Hosts: []string{"keys.internal"}}}, "warn or require"},
		{"main", node.Config{Main: "No Name"}, "name of an agent"},
		{"public.http", node.Config{Public: node.Public{HTTP: "mesh.example.com"}}, "https://"},
		{"public.http", node.Config{Public: node.Public{HTTP: "http://:80"}}, "https://"},
		{"public.grpc", node.Config{Public: node.Public{GRPC: "mesh.example.com"}}, "host:port"},
		{"rate_limit.per_second", node.Config{RateLimit: node.RateLimit{PerSecond: -2}}, "-1 for no limit"},
		{"quotas.user.threads", node.Config{Quotas: node.Quotas{User: node.Quota{Threads: -2}}}, "-1 for no limit"},
		{"quotas.tenant.cost", node.Config{Quotas: node.Quotas{Tenant: node.Quota{Cost: nan}}}, "US dollars"},
		{"limits.turn_cost", node.Config{Limits: node.Limits{TurnCost: -0.5}}, "US dollars"},
		{"limits.thread_cost", node.Config{Limits: node.Limits{ThreadCost: -2}}, "US dollars"},
		{"limits.turn_tokens", node.Config{Limits: node.Limits{TurnTokens: -2}}, "tokens"},
		{"schedules.weights", node.Config{Schedules: node.Schedules{Weights: map[string]int{"acme": 0}}}, "from 1"},
		{"rate_limit.per_second", node.Config{RateLimit: node.RateLimit{PerSecond: nan}}, "a number"},
		{"rate_limit.burst", node.Config{RateLimit: node.RateLimit{Burst: -1}}, "must be"},
		{"heap_floor", node.Config{HeapFloor: -2}, "must be"},
		{"grace", node.Config{Grace: -1}, "leave it out"},
		{"log_level", node.Config{LogLevel: "loud"}, "debug, info"},
		{"mtls", node.Config{Auth: "mtls"}, "is missing"},
		{"auth", node.Config{MTLS: []auth.Certificate{{}}}, "nobody is known by a certificate"},
		{"tls.client_ca", node.Config{Auth: "mtls", MTLS: []auth.Certificate{{}}, TLS: node.TLS{Mode: "auto"}}, "is missing"},
		{"tls.client_auth", mtls("none", auth.Certificate{}), "request or require"},
		{"mtls.id", mtls("", auth.Certificate{}), "or subject is needed"},
		{"mtls.id", mtls("", auth.Certificate{ID: "spiffe://x/y", Subject: "CN=x"}), "not both"},
		{"mtls.id", mtls("", auth.Certificate{ID: "https://x/y"}), "must be as spiffe://"},
		{"mtls.id", mtls("", auth.Certificate{ID: "spiffe://x/*/y"}), "must be as spiffe://"},
		{"mtls.tenant", mtls("", auth.Certificate{ID: "spiffe://x/y", Tenant: "A b"}), "name of a tenant"},
		{"mtls.user", mtls("", auth.Certificate{ID: "spiffe://x/*", Tenant: "a", User: "ann"}), "one certificate"},
		{"mtls.user_prefix", mtls("", auth.Certificate{ID: "spiffe://x/y", Tenant: "a", UserPrefix: "x:"}), "set user"},
		{"mtls.user", mtls("", auth.Certificate{ID: "spiffe://x/y", Tenant: "a", User: "agent guest"}), "without spaces"},
		{"mtls.roles", mtls("", auth.Certificate{Subject: "CN=x", Tenant: "a", User: "ann"}), "are missing"},
		{"mtls.roles", mtls("", auth.Certificate{Subject: "CN=x", Tenant: "a", User: "ann", Roles: []string{"king"}}), "king"},
		{"mtls.id", mtls("", auth.Certificate{Subject: "CN=x", Tenant: "a", User: "ann", Roles: []string{"user"}}, auth.Certificate{Subject: "CN=x", Tenant: "a", User: "bob", Roles: []string{"user"}}), "twice"},
		{"connections.total", node.Config{Connections: node.Connections{Total: -1}}, "negative"},
		{"connections.per_address", node.Config{Connections: node.Connections{PerAddress: -1}}, "negative"},
		{"streams.per_user", node.Config{Streams: node.Streams{PerUser: -1}}, "negative"},
		{"streams.per_user", node.Config{Streams: node.Streams{PerUser: 20, Total: 10}}, "streams.total"},
		{"cards.mode", node.Config{Cards: node.Cards{Mode: "v9"}}, "v1"},
		{"cards.verify", node.Config{Cards: node.Cards{Verify: "maybe"}}, "off, warn or require"},
		{"limits.turn_calls", node.Config{Limits: node.Limits{TurnCalls: -2}}, "-1 for no limit"},
		{"limits.agent_calls", node.Config{Limits: node.Limits{AgentCalls: -2}}, "-1 for no limit"},
		{"limits.turn_agents", node.Config{Limits: node.Limits{TurnAgents: 1_000_000_000}}, "at most 1000"},
		{"limits.thread_calls", node.Config{Limits: node.Limits{ThreadCalls: 1001}}, "at most 1000"},
		{"limits.user_calls", node.Config{Limits: node.Limits{UserCalls: 1001}}, "at most 1000"},
		{"limits.window", node.Config{Limits: node.Limits{Window: 2 * time.Hour}}, "at most 1h"},
		{"limits.timeout", node.Config{Limits: node.Limits{Timeout: -1}}, "30s"},
		{"limits.timeout", node.Config{Limits: node.Limits{Timeout: time.Hour}}, "at most 10m"},
		{"limits.agent_time", node.Config{Limits: node.Limits{AgentTime: -1}}, "at most 24h"},
		{"limits.agent_return", node.Config{Limits: node.Limits{AgentReturn: time.Millisecond}}, "1s to 10m"},
		{"handoff.session", node.Config{Handoff: node.Handoff{Session: 59 * time.Second}}, "1m0s to 720h0m0s"},
		{"handoff.session", node.Config{Handoff: node.Handoff{Session: 721 * time.Hour}}, "-1 for never"},
		{"handoff.recent_messages", node.Config{Handoff: node.Handoff{RecentMessages: new(21)}}, "0 to 20"},
		{"handoff.recent_messages", node.Config{Handoff: node.Handoff{RecentMessages: new(-1)}}, "0 to 20"},
		{"agents.smith.recent_messages", node.Config{Agents: map[string]node.AgentConfig{"smith": {RecentMessages: new(21)}}}, "0 to 20"},
		{"limits.agent_silence", node.Config{Limits: node.Limits{AgentSilence: time.Millisecond}}, "at least a second"},
		{"agents.weather.time", node.Config{Agents: map[string]node.AgentConfig{"weather": {Time: 25 * time.Hour}}}, "at most 24h"},
		{"agents.weather.protocol_binding", node.Config{Agents: map[string]node.AgentConfig{"weather": {Binding: "SOAP"}}}, "JSONRPC"},
		{"agents.weather.protocol_version", node.Config{Agents: map[string]node.AgentConfig{"weather": {Version: "0.2"}}}, "in quotes"},
		{"agents.weather.silence", node.Config{Agents: map[string]node.AgentConfig{"weather": {Silence: -2}}}, "at least a second"},
		{"schedules.catch_up", node.Config{Schedules: node.Schedules{CatchUp: time.Second}}, "at least 1m"},
		{"smtp.address", node.Config{SMTP: node.SMTP{Address: "mail.example.com", From: "a@example.com"}}, "587"},
		{"smtp.from", node.Config{SMTP: node.SMTP{Address: "mail.example.com:587", From: "nobody"}}, "mesh@example.com"},
		{"smtp.tls", node.Config{SMTP: node.SMTP{Address: "h:25", From: "a@example.com", User: "a", TLS: "none"}}, "starttls or tls"},
		{"accounts[0]", accounts("none", node.Account{}), "none of imap, smtp and caldav"},
		{"accounts[0].tenant", accounts("none", node.Account{Tenant: "a/b"}), "name of a tenant"},
		{"accounts[0].user", accounts("none", node.Account{User: "ann", IMAP: theirs}), "all users of a tenant share the data of mail here"},
		{"accounts[0].user", accounts("tokens", node.Account{IMAP: theirs}), "each user has data of mail of their own"},
		{"accounts[1].user", accounts("none", node.Account{IMAP: theirs}, node.Account{IMAP: theirs}), "already"},
		{"accounts[0].imap.address", accounts("none", node.Account{IMAP: node.IMAP{Address: "imap.example.com", User: "a", Password: "p"}}), "993"},
		{"accounts[0].imap.user", accounts("none", node.Account{IMAP: node.IMAP{Address: "h:993", Password: "p"}}), "who logs in"},
		{"accounts[0].imap.password", accounts("none", node.Account{IMAP: node.IMAP{Address: "h:993", User: "a"}}), "${file:PATH}"},
		{"accounts[0].imap.password", accounts("none", node.Account{IMAP: node.IMAP{Address: "h:993", User: "a", Password: "${file:/nowhere}"}}), "names a file"},
		{"accounts[0].imap.tls", accounts("none", node.Account{IMAP: node.IMAP{Address: "h:143", User: "a", Password: "p", TLS: "none"}}), "for all to read"},
		{"accounts[0].smtp.from", accounts("none", node.Account{SMTP: node.SMTP{Address: "h:587"}}), "name the sender"},
		{"accounts[0].caldav.url", accounts("none", node.Account{CalDAV: node.CalDAV{User: "a"}}), "https://"},
		{"accounts[0].caldav.url", accounts("none", node.Account{CalDAV: node.CalDAV{URL: "http://dav.example.com/", User: "a", Password: "p"}}), "for all to read"},
		{"accounts[0].caldav.url", accounts("none", node.Account{CalDAV: node.CalDAV{URL: "https://a:b@dav.example.com/", User: "a", Password: "p"}}), "must not hold a password"},
		{"accounts[0].caldav.user", accounts("none", node.Account{CalDAV: node.CalDAV{URL: "https://h/", Password: "p"}}), "who logs in"},
		{"accounts[0].caldav.password", accounts("none", node.Account{CalDAV: node.CalDAV{URL: "https://h/", User: "a"}}), "${file:PATH}"},
		{"accounts[0].user", accounts("tokens", node.Account{CalDAV: node.CalDAV{URL: "https://h/", User: "a", Password: "p"}}), "each user has data of calendar"},
		{"model.url", node.Config{Model: node.Model{URL: "api.openai.com/v1"}}, "https://"},
		{"model.api", node.Config{Model: node.Model{API: "grpc"}}, "chat or responses"},
		{"model.cache", node.Config{Model: node.Model{Cache: "redis"}}, "anthropic or none"},
		{"model.retries", node.Config{Model: node.Model{Retries: -2}}, "-1 for never"},
		{"model.context", node.Config{Model: node.Model{Context: -1}}, "tokens"},
		{"model.response", node.Config{Model: node.Model{Response: -1}}, "tokens"},
		{"model.response", node.Config{Model: node.Model{Context: 8000, Response: 8000}}, "model.context"},
		{"model.fallbacks[0].name", node.Config{Model: node.Model{Fallbacks: []node.Endpoint{{URL: "http://127.0.0.1:1/v1"}}}}, "name the model"},
		{"model.fallbacks[0].url", node.Config{Model: node.Model{Fallbacks: []node.Endpoint{{URL: "127.0.0.1:1", Name: "x"}}}}, "URL"},
		{"model.fallbacks", node.Config{Model: node.Model{Name: "x", Fallbacks: []node.Endpoint{{URL: "http://127.0.0.1:1/v1", Name: "y"}}}}, "model.url"},
		{"model.prices.gpt", node.Config{Model: node.Model{Prices: price.Table{"gpt": {Output: -1}}}}, "US dollars"},
		{"model.prices.gpt", node.Config{Model: node.Model{Prices: price.Table{"gpt": {Cached: nan}}}}, "US dollars"},
		{"model.prices.GPT", node.Config{Model: node.Model{Prices: price.Table{"GPT": {Output: 1}}}}, "in lower case"},
	} {
		err := tt.cfg.Fill()
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != tt.field || !strings.Contains(mesh.DetailOf(err), tt.words) {
			t.Errorf("%s: got %v (field %q), want words %q", tt.field, err, mesh.FieldOf(err), tt.words)
		}
	}
	for name, cfg := range map[string]node.Config{
		"nothing":             {},
		"ports of the system": {GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"},
		"few streams":         {Streams: node.Streams{Total: 10}, Auth: "tokens", Tokens: "t"},
		"many of one user":    {Streams: node.Streams{PerUser: 50_000}},
		"no limits":           {Limits: node.Limits{AgentCalls: -1, TurnCalls: -1, ThreadCalls: -1, UserCalls: -1}},
		"a model by its key":  {Model: node.Model{Key: "k", Fallbacks: []node.Endpoint{{Name: "y"}}}},
		"accounts of users":   accounts("tokens", node.Account{User: "ann", IMAP: theirs}, node.Account{User: "bob", IMAP: theirs}),
		"an account of all":   accounts("none", node.Account{IMAP: theirs, SMTP: node.SMTP{Address: "h:587", From: "a@example.com"}}),
		"a mail server":       {SMTP: node.SMTP{Address: "127.0.0.1:25", From: "mesh@example.com", TLS: "none"}},
	} {
		if err := cfg.Fill(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// theirs is an account on a mail server.
var theirs = node.IMAP{Address: "imap.example.com:993", User: "ann@example.com", Password: "app-pass-word"}

func accounts(by string, list ...node.Account) node.Config {
	c := node.Config{Auth: node.Modes(by), Accounts: list}
	if by == "tokens" {
		c.Tokens = "t"
	}
	return c
}

// A secret can be in a file that nobody else may read, and is shown nowhere.
func TestSecrets_areReadFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ann")
	if err := os.WriteFile(file, []byte("app-pass-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := theirs
	a.Password = "${file:" + file + "}"
	cfg := accounts("none", node.Account{IMAP: a})
	if err := cfg.Fill(); err != nil || cfg.Accounts[0].IMAP.Password != theirs.Password {
		t.Fatalf("the password is %q: %v", cfg.Accounts[0].IMAP.Password, err)
	}
	if got := cfg.Value("accounts[0].imap.password"); got != "(a secret)" || cfg.Value("accounts[0].imap.user") != theirs.User {
		t.Errorf("shown are %q and %q", got, cfg.Value("accounts[0].imap.user"))
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg = accounts("none", node.Account{IMAP: a})
	if err := cfg.Fill(); mesh.FieldOf(err) != "accounts[0].imap.password" || strings.Contains(err.Error(), theirs.Password) {
		t.Errorf("a file that others may read gave %v", err)
	}
}

// mtls are settings under which certificates count as the list says.
func mtls(ask string, list ...auth.Certificate) node.Config {
	return node.Config{Auth: "mtls", MTLS: list, TLS: node.TLS{Mode: "auto", ClientCA: "ca.pem", ClientAuth: ask}}
}
