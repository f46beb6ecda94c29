package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
)

// sdkTime bounds a whole program of another language, its start included.
const sdkTime = 60 * time.Second

// An sdk is the official SDK of A2A for another language, with the program
// that runs scripts on it.
type sdk struct {
	name   string
	runs   []string // the program and its arguments before the script
	script string   // the extension of scripts
	before []string // arguments before those of the script
}

// sdkNamed returns what make test-interop installed, or skips the test where it
// is not.
func sdkNamed(t *testing.T, name string) sdk {
	t.Helper()
	root, err := filepath.Abs("../../.build/interop")
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]struct {
		sdk
		folder string
	}{
		"python": {sdk{runs: []string{filepath.Join(root, "py/bin/python")}, script: ".py"}, "py/lib/python*/site-packages/a2a"},
		"mcp":    {sdk{runs: []string{filepath.Join(root, "py/bin/python")}, script: ".py"}, "py/lib/python*/site-packages/mcp"},
		"node":   {sdk{runs: []string{"node"}, script: ".mjs", before: []string{filepath.Join(root, "js")}}, "js/node_modules/@a2a-js/sdk"},
	}[name]
	found, err := filepath.Glob(filepath.Join(root, installed.folder))
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(installed.runs[0])
	if err != nil || len(found) == 0 {
		t.Skipf("the SDK for %s is not installed; .ci/interop does it", name)
	}
	installed.name, installed.runs[0] = name, path
	return installed.sdk
}

// command returns a run of the script.
func (s sdk) command(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sdkTime)
	t.Cleanup(cancel)
	all := append(slices.Clone(s.runs[1:]), filepath.Join("testdata", "interop", script+s.script))
	cmd := exec.CommandContext(ctx, s.runs[0], append(append(all, s.before...), args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// bindings and versions that the SDKs for other languages speak.
var (
	sdkBindings = []string{"JSONRPC", "HTTP+JSON", "GRPC"}
	sdkVersions = []string{"1.0", "0.3"}
)

// sdkTurn is what a client heard of a turn, or of a task.
type sdkTurn struct {
	Task   string
	States []string
	Text   string
}

// sdkReport is what a client's script prints.
type sdkReport struct {
	Card, Binding             string
	Hello, Subscribed, Answer sdkTurn
	Turns                     []sdkTurn
	Got                       struct {
		State   string
		History int
	}
	Listed                           []string
	Canceled, CanceledAgain, Missing string
}

// Clients that nobody here wrote find the mesh by its card and do all that they
// can: send, stream, answer what a task asks, subscribe to a task that waits
// and hear its end, get, list and cancel, and tell errors apart. They do so in
// every binding that they have, in v1.0 and in v0.3 (S4-002, S4-054, S4-077).
func TestInteropTheSDKsOfOtherLanguagesConverse(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sdkNamed(t, name)
			for _, version := range sdkVersions {
				for _, binding := range sdkBindings {
					t.Run(binding+" "+version, func(t *testing.T) {
						s.converse(t, up(t, t.TempDir()), binding, version) // in one mesh, each after the first would find that skill
					})
				}
			}
		})
	}
}

// sdkLines are the user's part of a conversation that makes a skill.
func sdkLines(skill string) []string {
	return []string{"I want to create a skill that waters plants", "It opens a valve; it needs the plant and the amount",
		skill + ", when I say water the plants", "yes, save it"}
}

func (s sdk) converse(t *testing.T, m *realMesh, binding, version string) {
	t.Helper()
	skill := "plants." + strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return '_'
		}
		return r
	}, strings.ToLower(s.name+"_"+binding)) + map[string]string{"1.0": "_new", "0.3": "_old"}[version]
	cmd := s.command(t, "client", append([]string{"http://" + m.http, binding, version}, sdkLines(skill)...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, problems.Bytes())
	}
	var r sdkReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	r.check(t, skill, version)
	r.checkErrors(t, s.name+" "+binding+" "+version)
}

const (
	stateWorking  = "TASK_STATE_WORKING"
	stateInput    = "TASK_STATE_INPUT_REQUIRED"
	stateComplete = "TASK_STATE_COMPLETED"
)

// check compares what the client saw with the conversation.
func (r *sdkReport) check(t *testing.T, skill, version string) {
	t.Helper()
	done := "'" + skill + "' is now active"
	if r.Card != "agentmesh" || !slices.Equal(r.Hello.States, []string{stateComplete}) || r.Hello.Text == "" {
		t.Errorf("from %q, a message without a stream: %+v", r.Card, r.Hello)
	}
	task := r.Turns[0].Task
	var states [][]string
	for _, turn := range append(slices.Clone(r.Turns), r.Subscribed, r.Answer) {
		states = append(states, turn.States)
		if turn.Task != task {
			t.Errorf("a turn is of task %q, want %q", turn.Task, task)
		}
	}
	want := [][]string{
		{"TASK_STATE_SUBMITTED", stateWorking, stateInput}, {stateWorking, stateInput}, {stateWorking, stateInput},
		{stateInput, stateWorking, stateComplete}, {stateComplete},
	}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("states of the turns, the subscription and the answer: -want +got\n%s", d)
	}
	if d := cmp.Diff(r.Answer.Text, r.Subscribed.Text); d != "" || !strings.Contains(r.Answer.Text, done) {
		t.Errorf("the answer does not say %q, or the subscription is not the answer: -answer +subscribed\n%s", done, d)
	}
	if r.Got.State != stateComplete || r.Got.History < len(r.Turns) {
		t.Errorf("the task is %+v", r.Got)
	}
	if version == "1.0" && !slices.Equal(r.Listed, []string{task}) { // v0.3 cannot list
		t.Errorf("the tasks of the thread are %q, want %q", r.Listed, task)
	}
}

// checkErrors checks that the client was told its errors by their names.
func (r *sdkReport) checkErrors(t *testing.T, client string) {
	t.Helper()
	want := []string{"TASK_STATE_CANCELED", "TaskNotCancelableError", "TaskNotFoundError"}
	if client == "python GRPC 0.3" { // it reads errors of its own SDK's server only
		want = []string{"TASK_STATE_CANCELED", "A2AClientError", "A2AClientError"}
	}
	if d := cmp.Diff(want, []string{r.Canceled, r.CanceledAgain, r.Missing}); d != "" {
		t.Errorf("canceled, canceled again and asked for a task that is not: -want +got\n%s", d)
	}
}

// startProcess starts the command, which ends with its input, and with the test.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, p.stdin = r, w
	err = cmd.Start()
	_ = r.Close() // the child has its own
	if err != nil {
		_ = w.Close()
		t.Fatal(err)
	}
	go func() { // ends with the process, which the cleanup ends and waits for
		_ = cmd.Wait() // killed, if it does not end by itself
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.stdin.Close() // it may be already
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// Agents in other languages, on the servers of other SDKs, in processes of
// their own, join by the URL of their card and answer new conversations, in
// every binding that they can serve. What they ask back is answered in the same
// task.
func TestInteropAgentsInOtherLanguagesAnswer(t *testing.T) {
	for _, name := range []string{"python", "node"} {
		for _, binding := range sdkBindings {
			t.Run(name+" "+binding, func(t *testing.T) {
				t.Parallel()
				s := sdkNamed(t, name)
				m := up(t, t.TempDir(), "--main", "shouter")
				at := startProcess(t, s.command(t, "agent", binding)).shows(`(\S+)\n`)[1]
				runHere(t, nil, "agents", "test", at, "--question", "ask me", "--answer", "very").succeeds(t)
				m.mesh("agents", "add", at, "--name", "shouter").succeeds(t)

				id, say := mesh.NewThreadID(), speaker(speakGRPC)
				if h := say.complete(t, m, id, "hello"); h.text != "HELLO!" {
					t.Errorf("it said %q", h.text)
				}
				asked := say(t, m, id, "ask me")
				if asked.state.String() != stateInput || !slices.Contains(asked.status, "How loud?") {
					t.Fatalf("it ended %v with %q", asked.state, asked.status)
				}
				if h := say.complete(t, m, id, "very"); h.text != "VERY!" || h.task != asked.task {
					t.Errorf("it said %q in task %q, want %q", h.text, h.task, asked.task)
				}
			})
		}
	}
}
