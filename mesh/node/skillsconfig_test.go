package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
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

func TestSettingsOfWhatSkillsReachAreChecked(t *testing.T) {
	server := func(s node.MCPServer) node.Config {
		return node.Config{MCP: node.MCP{Servers: map[string]node.MCPServer{"github": s}}}
	}
	for field, cfg := range map[string]node.Config{
		"agents":                                   {Agents: map[string]node.AgentConfig{"No Name": {}}},
		"agents.worker.skill_interface":            {Agents: map[string]node.AgentConfig{"worker": {SkillInterface: "telnet"}}},
		"schedules.tenant":                         {Schedules: node.Schedules{Tenant: "a/b"}},
		"schedules.catch_up":                       {Schedules: node.Schedules{CatchUp: -1}},
		"smtp.tls":                                 {SMTP: node.SMTP{TLS: "ssl"}},
		"smtp.from":                                {SMTP: node.SMTP{Address: "mail.example.com:587"}},
		"smtp.password":                            {SMTP: node.SMTP{Password: "${MESH_TEST_NOT_SET}"}},
		"http_skills.secrets.token":                {HTTPSkills: node.HTTPSkills{Secrets: map[string]node.Secret{"token": {Value: "${MESH_TEST_NOT_SET}"}}}},
		"mcp.servers":                              {MCP: node.MCP{Servers: map[string]node.MCPServer{"Git Hub": {URL: "http://x"}}}},
		"mcp.servers.github":                       server(node.MCPServer{}),
		"mcp.servers.github.url":                   server(node.MCPServer{URL: "ftp://x"}),
		"mcp.servers.github.timeout":               server(node.MCPServer{URL: "https://x", Timeout: -1}),
		"mcp.servers.github.headers.Authorization": server(node.MCPServer{URL: "https://x", Headers: map[string]string{"Authorization": "${MESH_TEST_NOT_SET}"}}),
		"notify":                                   {Notify: []node.Notification{{On: "never"}}},
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
limits: {turn_calls: 12, window: 1m}
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
