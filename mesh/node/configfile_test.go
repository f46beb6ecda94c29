package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// none finds nothing more.
func none(*node.Config) []error { return nil }

// mistakes are what is wrong with a file of that text, each as LINE: field: words.
func mistakes(t *testing.T, text string) (all []string) {
	t.Helper()
	file := settingsFile(t, text)
	_, problems := node.Problems(file, none)
	for _, p := range problems {
		all = append(all, strings.TrimPrefix(mesh.DetailOf(p), file+":"))
	}
	return all
}

// Whatever is wrong with a file is told with its line and its field, all of it at once
// (finding U9).
func TestEveryMistakeOfAFileIsToldWithLineAndField(t *testing.T) {
	got := mistakes(t, `grpc: 127.0.0.1
http: nowhere
gracee: 1s
grace: soon
limits: {turn_calls: many, window: 2h}
heap_floor: -5
model:
  url: nowhere
  retries: -2
shared_data: [secrets]
agents:
  helper:
    descriptin: helps
    limits: {max_tokens: 5}
    max_tokens: -5
    max_cost: -0.5
    model: [a]
    mcp: [loki]
    skills: ["rm -rf"]
    orchestrator: {profile: pull, agent_timeout: 1ms}
    sub_agents: [worker, {name: worker}, {max_iterations: 1000}]
chains:
  deep:
    stages:
      - {name: One}
      - {agents: [worker], synthesis: {endpoint: gone}}
models:
  far: {name: x}
`)
	want := []string{
		`1: grpc: must be host:port`, `2: http: must be host:port`, `3: gracee is not known; did you mean grace?`, `4: grace must be a duration such as 30s`,
		`5: limits.turn_calls must be a number`, `5: limits.window: must be at most`, `6: heap_floor: must be a number of MiB`, `8: model.url: must be a URL`, `9: model.retries: must be`,
		`10: shared_data: must name some of`,
		`13: agents.helper.descriptin is not known; did you mean description?`, `14: agents.helper.limits is not known; the limits of an agent are max_iterations`,
		`15: agents.helper.max_tokens: must be a number of tokens`, `16: agents.helper.max_cost: must be at most 1e+09 US dollars`, `17: agents.helper.model must be a text`, `18: agents.helper.mcp: names "loki"`, `19: agents.helper.skills: has "rm -rf"`,
		`20: agents.helper.orchestrator.agent_timeout: must be 1s to 24h`, `20: agents.helper.orchestrator.profile: must be push, collect or full`,
		`21: agents.helper.sub_agents[1].name: is "worker", which is in the list already`, `21: agents.helper.sub_agents[2].name: is missing`, `21: agents.helper.sub_agents[2].max_iterations: must be 1 to 100`,
		`25: chains.deep.stages[0].name: must be lower-case`, `25: chains.deep.stages[0].agents: must be 1 to 8, and are 0`,
		`26: chains.deep.stages[1].synthesis.endpoint: names "gone"`, `26: chains.deep.stages[1].synthesis: is for stages of several`,
		`28: models.far: needs a url`,
	}
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Fatalf("mistake %d: want %q in\n%s", i, w, strings.Join(got, "\n"))
		}
	}
	if len(got) != len(want) {
		t.Errorf("also told:\n%s", strings.Join(got[len(want):], "\n"))
	}
}

// S4-080: how long sessions are kept has bounds.
func TestHowLongSessionsAreKeptHasBounds(t *testing.T) {
	for written, want := range map[string]string{
		"-1h": "2: sessions.retention: must be 1m0s to 87840h0m0s, or 0 to keep nothing, and is -1h0m0s; leave it out for 720h0m0s",
		"59s": "2: sessions.retention: must be 1m0s to", "87841h": "2: sessions.retention: must be 1m0s to",
		"30 days": "2: sessions.retention must be a duration such as 30s", "[1h]": "2: sessions.retention must be a duration", "10000000h": "2: sessions.retention must be a duration",
		"0": "", "0s": "", "1m": "", "720h": "", "87840h": "", "": "",
	} {
		got := strings.Join(mistakes(t, "sessions:\n  retention: "+written+"\n"), "\n")
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: told %q, want %q", written, got, want)
		}
	}
}

// What cannot be read at all is told too, and nothing of what is in the file, which may be
// a secret.
func TestAFileThatIsNoYAMLIsTold(t *testing.T) {
	got := mistakes(t, "model:\n  key: s3cret\n key: s3cret\n")
	if len(got) != 1 || !regexp.MustCompile(`^\d: `).MatchString(got[0]) || strings.Contains(got[0], "s3cret") {
		t.Errorf("told %q", got)
	}
	for _, text := range []string{"model: {key: [s3cret]}", "agents: s3cret", "s3cret: 1", "- s3cret", "model: {retries: s3cret, s3cret-x: 1}"} {
		got := strings.Join(mistakes(t, text), "\n")
		if got == "" || strings.Contains(strings.ReplaceAll(got, "s3cret is not known", ""), "s3cret") && !strings.Contains(text, "s3cret:") && !strings.Contains(text, "s3cret-x") {
			t.Errorf("%s: told %q", text, got)
		}
	}
	if got := mistakes(t, ""); got != nil {
		t.Errorf("an empty file: %q", got)
	}
	if _, problems := node.Problems(filepath.Join(t.TempDir(), "gone.yaml"), none); len(problems) != 1 || !mesh.IsCode(problems[0], mesh.NotFound) {
		t.Errorf("no file: %v", problems)
	}
}

// A secret that is in a file of its own is found from where the settings are, wherever the mesh is started.
func TestASecretsFileIsBesideTheSettings(t *testing.T) {
	name := settingsFile(t, "model: {url: \"https://x/v1\", name: m, key: \"${file:keys/model}\"}\n")
	keys := filepath.Join(filepath.Dir(name), "keys")
	if err := errors.Join(os.Mkdir(keys, 0o700), os.WriteFile(filepath.Join(keys, "model"), []byte("s3cret\n"), 0o400)); err != nil {
		t.Fatal(err)
	}
	cfg, err := node.LoadConfig(name)
	if err == nil {
		err = cfg.Fill()
	}
	if err != nil || cfg.Model.Key != "s3cret" {
		t.Errorf("the key is %q, %v", cfg.Model.Key, err)
	}
}

// A mistake of a variable or a flag is not blamed on the file.
func TestAMistakeOfAFlagIsNotBlamedOnTheFile(t *testing.T) {
	cfg, err := node.LoadConfig(settingsFile(t, "grpc: 127.0.0.1:7420\nlog_level: info\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.GRPC = "nowhere"
	cfg.SetBy("grpc", "--grpc")
	if err := cfg.Fill(); mesh.FieldOf(err) != "grpc" || strings.Contains(mesh.DetailOf(err), ".yaml") {
		t.Errorf("got %v", err)
	}
	if got := cfg.Origin("grpc"); got != "--grpc" {
		t.Errorf("grpc is of %q", got)
	}
	if got := cfg.Origin("log_level"); !strings.HasSuffix(got, ".yaml:2") {
		t.Errorf("log_level is of %q", got)
	}
	if diff := cmp.Diff([]string{"grpc", "log_level"}, cfg.Settings()); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// Names of agents may be written in camel case, and fields of agents in other words
// (S1-043): both mean what the mesh has.
func TestOtherWordsMeanTheSame(t *testing.T) {
	for written, want := range map[string]string{
		"LogAnalyzer": "log-analyzer", "Orchestrator": "orchestrator", "K8sInspector": "k8s-inspector", "SREBot": "sre-bot", "log-analyzer": "log-analyzer", "my_Agent": "my_agent", "": "",
	} {
		if got := node.AgentName(written); got != want {
			t.Errorf("%s is %s, want %s", written, got, want)
		}
	}
	cfg, err := node.LoadConfig(settingsFile(t, `
defaults: {llm_provider: far, llm_backend: google-native}
models: {far: {url: "http://127.0.0.1:1/v1", name: m}}
mcp: {servers: {kubernetes-server: {url: "http://127.0.0.1:1/mcp"}}}
agents:
  LogAnalyzer: {type: default, mcp_servers: [kubernetes-server], sub_agents: [WebResearcher, {name: GeneralWorker, llm_provider: far, max_iterations: 5}]}
agent_chains:
  DeepLook:
    alert_types: [high-error-rate]
    stages: [{agent: LogAnalyzer}, {agents: [LogAnalyzer, {name: GeneralWorker, timeout: 30s}]}]
`))
	if err == nil {
		err = cfg.Fill()
	}
	if err != nil {
		t.Fatal(err)
	}
	a := cfg.Agents["log-analyzer"]
	want := node.AgentConfig{Type: node.TypeWorker, Use: node.Use{MCP: []string{"kubernetes_server"}},
		Orchestration: node.Orchestration{SubAgents: []node.SubAgent{{Name: "web-researcher"}, {Name: "general-worker", Use: node.Use{Endpoint: "far", MaxIterations: 5}}}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("the agent (-want +got):\n%s", diff)
	}
	chain := node.Chain{Tags: []string{"high-error-rate"}, Stages: []node.Stage{
		{Agents: []node.StageAgent{{Name: "log-analyzer"}}},
		{Agents: []node.StageAgent{{Name: "log-analyzer"}, {Name: "general-worker", Use: node.Use{Timeout: 30 * time.Second}}}},
	}}
	if diff := cmp.Diff(chain, cfg.Chains["deep-look"]); diff != "" {
		t.Errorf("the chain (-want +got):\n%s", diff)
	}
	if d := cfg.Defaults.Use; d.Endpoint != "far" || d.API != "responses" {
		t.Errorf("the defaults are %+v", d)
	}
	got := mistakes(t, "defaults: {mcp: [], mcp_servers: []}\nagents: {LogAnalyzer: {}, log-analyzer: {}}\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "1: defaults.mcp_servers is another word for mcp") || !strings.HasPrefix(got[1], "2: agents.log-analyzer is there as LogAnalyzer and as log-analyzer") {
		t.Errorf("what is there twice: %q", got)
	}
}

// A field that is in its group already is told alone: what else is in the group is there, and
// what is wrong with that is told as well.
func TestAFieldThatIsThereTwiceHidesAndSpoilsNothing(t *testing.T) {
	texttest.Fixed(t)
	file := settingsFile(t, `agents:
  Dup: {description: Helps, max_iterations: 3}
  log-analyzer: {descriptin: Reads logs}
  Dup: {skills: [mail.send]}
limits: {turn_calls: 5, window: 2h, turn_calls: many}
chains: {look: {stages: [{agent: log-analyzer, agent: gone}]}}
`)
	cfg, problems := node.Problems(file, none)
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimPrefix(mesh.DetailOf(p), file+":"))
	}
	want := []string{"3: agents.log-analyzer.descriptin is not known; did you mean description?", "4: agents.Dup is in line 2 already; leave one of them out",
		"5: limits.turn_calls is in line 5 already", "5: limits.window: must be at most", "6: chains.look.stages[0].agent is in line 6 already"}
	if len(got) != len(want) {
		t.Fatalf("told %q", got)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) {
			t.Errorf("told %q, want %q", got[i], w)
		}
	}
	if a := cfg.Agents["dup"]; a.Description != "Helps" || a.Skills != nil || len(cfg.Agents) != 2 || cfg.Limits.TurnCalls != 5 || cfg.Chains["look"].Stages[0].Agents[0].Name != "log-analyzer" {
		t.Errorf("read as %+v", cfg.Agents)
	}
	if _, err := node.LoadConfig(file); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("it is loaded: %v", err)
	}
}

// A file that is strange does not hang or break what reads it.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{"a: &x {b: *x}", "agents: &a {b: *a}", "agents: {X: &a {sub_agents: [*a, b]}}", "? [1]\n: 2", "chains: {a: {stages: [{agents: {b: 1}}]}}", "<<: {a: 1}", "- 1", "chains: {a: {stages: [1, null]}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		node.Problems(file, none)
	})
}

// What stands where a field should may be a secret: of letters alone, too.
func TestASecretOfLettersIsNoNameOfAField(t *testing.T) {
	for text, told := range map[string]bool{"gracee": true, "Grace": true, "rateLimit": true, "PKWMLRPNVDBZDNRGLBBNXEDMPN": false} {
		file := filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(file, []byte(text+": 1\n"+text+": 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := node.LoadConfig(file); err == nil || strings.Contains(err.Error(), text) != told {
			t.Errorf("%s: %v", text, err)
		}
	}
}
