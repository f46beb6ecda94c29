package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Everything that is wrong is told at once, with its line, and nothing is started; what is
// right is said to be (S1-034, S1-035, S1-101; findings U3, U9): a folder that is named and is not there is a mistake, and so is one of documents
// in which there are none.
func TestConfigCheckTellsEveryMistake(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), `gracee: 3
agents:
  helper: {description: Helps, type: orchestrator, sub_agents: [wroker, orchestrator, silent, {name: weather, model: x}], max_iterations: many}
  silent: {custom_instructions: Say nothing.}
  weather: {time: 2h}
  nobody: {mcp: []}
  worker: {type: orchestrator}
  mail: {sub_agents: [worker]}
  tasks: {orchestrator: {profile: push}}
chains:
  one: {stages: [{agent: two}]}
  two: {stages: [{agent: one}]}
  mail: {stages: [{agent: gone}]}
main: web-researcher
docs: nowhere
skills: mesh.yaml
`)
	r := runMesh(t, dir, nil, "config", "check")
	for _, want := range []string{
		`mesh.yaml:1: gracee is not known; did you mean grace\?`,
		`mesh.yaml:3: agents.helper.max_iterations must be a number`,
		`mesh.yaml:3: agents.helper.sub_agents\[0\].name: is "wroker", which is no agent; did you mean worker\?`,
		`mesh.yaml:3: agents.helper.sub_agents\[1\].name: is orchestrator, which has others work itself`,
		`mesh.yaml:3: agents.helper.sub_agents\[2\].name: is silent, which has no description`,
		`mesh.yaml:3: agents.helper.sub_agents\[3\]: changes weather, which is no agent of the mesh's own`,
		`mesh.yaml:6: agents.nobody: has settings of "nobody", which is no agent`,
		`mesh.yaml:7: agents.worker.type: is orchestrator, and the built-in agent is another`,
		`mesh.yaml:8: agents.mail.sub_agents: is for agents of the type orchestrator`,
		`mesh.yaml:9: agents.tasks.orchestrator: is for agents of the type orchestrator, and tasks is none`,
		`mesh.yaml:1[12]: chains.(one|two).stages\[0\].agents\[0\].name: goes in a circle: one -> two -> one`,
		`mesh.yaml:13: chains.mail: is the name of a built-in agent`,
		`mesh.yaml:14: main: is web-researcher, which cannot be offered: it needs a language model`,
		`mesh.yaml:15: docs: names the folder nowhere, which cannot be read \(no such file or directory\); make it`,
		`mesh.yaml:16: skills: names the folder mesh.yaml, which cannot be read \(not a directory\)`,
		`config: 15 mistakes`,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("not told: %s", want)
		}
	}
	if r.code != exitFailure || t.Failed() {
		t.Errorf("exit code %d and\n%s%s", r.code, r.stdout, r.stderr)
	}
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "agents: {thinker: {description: Thinks}}\n")
	if out := runMesh(t, dir, nil, "config", "check").succeeds(t); !strings.Contains(out, "note: thinker is not offered: it needs a language model") || !strings.Contains(out, "config: 8 agents, no mistakes") {
		t.Errorf("a file without mistakes: %s", out)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "docs: empty\nskills: empty\n")
	if out := runMesh(t, dir, nil, "config", "check").stdout; !strings.Contains(out, "mesh.yaml:1: docs: names the folder empty, which is empty") || !strings.Contains(out, "config: 1 mistake\n") {
		t.Errorf("empty folders: %s", out)
	}
	runMesh(t, t.TempDir(), nil, "config", "check").fails(t, exitNotFound, "there is no configuration file mesh.yaml")
}

// What holds is shown with what has set it: the file's line and level, a variable, a flag;
// and no secret (S1-044). S1-046: the built-in orchestrator has no native tools and no servers.
func TestConfigShowSaysWhatHoldsAndWhy(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), `defaults: {max_iterations: 4, timeout: 1m}
model: {url: "http://127.0.0.1:1/v1?token=s3cret", key: s3cret, name: small}
agents:
  GeneralWorker: {max_iterations: 5}
  sre: {type: orchestrator, description: Finds out, orchestrator: {profile: collect, max_concurrent_agents: 2}, sub_agents: [{name: GeneralWorker, model: large}]}
`)
	writeFile(t, filepath.Join(dir, "bare.yaml"), "limits: {agent_calls: 3}\n")
	show := func(env []string, args ...string) string {
		out := runMesh(t, dir, env, append([]string{"config", "show"}, args...)...).succeeds(t)
		if strings.Contains(out, "s3cret") {
			t.Errorf("a secret is shown:\n%s", out)
		}
		return out
	}
	for what, tt := range map[string]struct {
		out  string
		want []string
	}{
		"all": {show([]string{"MESH_LOG_LEVEL=info"}, "--grpc", "127.0.0.1:9"), []string{
			`grpc +127.0.0.1:9 +--grpc`, `log_level +info +MESH_LOG_LEVEL`, `defaults.timeout +1m0s +mesh.yaml:1`, `model.key +\(a secret\) +mesh.yaml:2`,
			`general-worker +worker +small +none \(pure reasoning\)`, `sre +orchestrator +small`, `code-executor is not offered: its endpoint does not have the tools code_execution.*model.native_tools`}},
		"an agent": {show(nil, "GeneralWorker"), []string{
			`max_iterations +5 +mesh.yaml:4 \(agents.general-worker\)`, `timeout +1m0s +mesh.yaml:1 \(defaults\)`, `skills +none +built in`,
			`(?s)used otherwise, as general-worker_[0-9a-f]{8}:\nmodel +large.*mesh.yaml:5 \(agents.sre.sub_agents\[0\]\)`}},
		"an orchestrator": {show(nil, "sre"), []string{`sub_agents +general-worker +mesh.yaml:5 \(agents.sre\)`, `max_iterations +4 +mesh.yaml:1 \(defaults\)`,
			`(?m)^model +small +mesh.yaml:2$`, `timeout +1m0s +mesh.yaml:1 \(defaults\)`, `orchestrator.max_concurrent_agents +2 +mesh.yaml:5 \(agents.sre\)`, `orchestrator.agent_timeout +30s +default`,
			`orchestrator.max_budget +10m0s +default`, `orchestrator.profile +collect +mesh.yaml:5`, `agents in a turn +8 +default \(limits.turn_agents\)`}},
		"the built-in one": {show(nil, "Orchestrator"), []string{`type +orchestrator +built in`, `tools +other agents`, `mcp +none +built in`, `native_tools +none +built in`, `skills +none +built in`, `sub_agents +all with a description +default`,
			`orchestrator.max_concurrent_agents +5 +default`, `orchestrator.agent_timeout +5m0s +default`, `orchestrator.help_timeout +5m0s +default`, `orchestrator.profile +full +default`}},
		"one of which nothing is set": {show([]string{"MESH_LOG_LEVEL=info"}, "mail", "--config", "bare.yaml"), []string{`model +offline planner +default`, `max_iterations +7 +default`,
			`max_tool_calls +3 +bare.yaml:1 \(limits.agent_calls\)`, `timeout +agent_timeout of who dispatches it +default`}},
		"one left out": {show(nil, "web-researcher"), []string{`web-researcher is not offered: .*google_search, url_context`}},
	} {
		for _, want := range tt.want {
			if !regexp.MustCompile(want).MatchString(tt.out) {
				t.Errorf("%s does not say %s:\n%s", what, want, tt.out)
			}
		}
		if n := len(regexp.MustCompile(`(?m)^model `).FindAllString(strings.Split(tt.out, "used otherwise")[0], -1)); n > 1 {
			t.Errorf("%s has a model %d times:\n%s", what, n, tt.out)
		}
	}
	runMesh(t, dir, nil, "config", "show", "ghost").fails(t, exitNotFound, `no agent "ghost"; there are main, `)
}
