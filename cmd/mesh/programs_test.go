package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
)

// consultExample is the folder of the program that docs/programs.md shows.
const consultExample = "../../docs/examples/consult/"

// S4-005, S4-024, S4-045: a program asks an agent that searches the web and one that knows documents
// at once, shows each piece with its source while others are still at work, and reads each
// result by the id of its sub-task. This is the example in Go, built as it is shown.
func TestAProgramInGoConsultsSeveralAgentsAtOnce(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "consult")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, consultExample).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := startResearch(t)
	m.consult(t, program, m.grpc)
}

// S4-005, S4-024, S4-045: the same with the examples in Python and JavaScript, without any library.
func TestInteropProgramsConsultSeveralAgentsAtOnce(t *testing.T) {
	for name, script := range map[string]string{"python3": "consult.py", "node": "consult.mjs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("there is no %s on this machine", name)
			}
			m := startResearch(t)
			m.consult(t, program, consultExample+script, "http://"+m.http)
		})
	}
}

// A researchMesh is the mesh of the example: a chain has an agent that searches the web and
// one that knows documents work at the same time, each the real binary in a process of its own.
type researchMesh struct {
	*realMesh
	found chan struct{} // closed when the search may end
	down  atomic.Bool   // the model that searches does not answer
	*provider
}

const (
	onTheWeb      = "In shops it takes 30 days. Sources: https://shop.example/refunds"
	inTheHandbook = "A refund takes 14 days from the day on which we have the goods back."
)

func startResearch(t *testing.T) *researchMesh {
	t.Helper()
	m := &researchMesh{found: make(chan struct{})}
	m.provider = startProvider(t, func(inquiry) modelReply {
		select {
		case <-m.found:
		case <-t.Context().Done():
		}
		return modelReply{text: onTheWeb, away: m.down.Load()}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), readFile(t, consultExample+"mesh.yaml"))
	writeFile(t, filepath.Join(dir, "web.yaml"), "model: {url: "+m.URL+"/search/v1, key: k, name: searcher, retries: -1, native_tools: [google_search, url_context]}\n")
	writeFile(t, filepath.Join(dir, "handbook/refunds.md"), "# Refunds\n\n"+inTheHandbook+"\n")
	m.realMesh = up(t, dir)
	runAgent(t, m.realMesh, dir, "web-researcher", "web", "--config", "web.yaml", "--data", "data-web")
	runAgent(t, m.realMesh, dir, "knowledge", "handbook", "--docs", "handbook", "--data", "data-handbook")
	return m
}

// consult runs the program: the handbook's words are shown while the web is still searched,
// each piece has its source, and each sub-task its result. Then it runs it once more, and the
// search fails: what the other one found is there, and the failure has its cause. The same
// program asks an orchestrator, which chooses whom to ask, and is told of a mistake.
func (m *researchMesh) consult(t *testing.T, program ...string) {
	t.Helper()
	run := func(agent, question string) *process {
		ctx, cancel := context.WithTimeout(t.Context(), testTime)
		t.Cleanup(cancel)
		args := append(slices.Clone(program[1:]), agent, question)
		return startProcess(t, exec.CommandContext(ctx, program[0], args...)) // #nosec G204 -- of a test
	}
	const question = "How long does a refund take?"
	p := run("research", question)
	p.shows(`handbook says: .*back\.`) // the last word; what comes before it may come in pieces
	if got := p.stdout.String(); strings.Contains(got, "web says") || strings.Contains(got, "answer") {
		t.Errorf("before anything was found it showed\n%s", got)
	}
	close(m.found)
	code, heard := p.wait(), readConsulted(t, p.stdout.String())
	if code != 0 || heard.state != stateComplete {
		t.Errorf("it ended %d, %s\n%s", code, heard.state, p.stderr.String())
	}
	if want := []string{"ask-1 by web is completed -", "ask-2 by handbook is completed -"}; !slices.Equal(heard.ends, want) {
		t.Errorf("the sub-tasks are %q, want %q", heard.ends, want)
	}
	if d := cmp.Diff(heard.pieces, heard.results); d != "" || heard.results["web"] != onTheWeb || !strings.Contains(heard.results["handbook"], "[1] refunds.md, line 1: Refunds") {
		t.Errorf("what they said and what came of them (-said +result)\n%s", d)
	}
	for agent, text := range heard.results {
		if !strings.Contains(heard.answer, text) {
			t.Errorf("the answer %q lacks what %s found", heard.answer, agent)
		}
	}
	if asked := m.of(question); len(asked) != 1 || !slices.Equal(slices.Sorted(slices.Values(asked[0].native)), []string{"google_search", "url_context"}) {
		t.Errorf("the model that searches was asked %+v", asked)
	}

	m.down.Store(true)
	p = run("research", question)
	code, heard = p.wait(), readConsulted(t, p.stdout.String())
	if code == 0 || heard.state != "TASK_STATE_FAILED" {
		t.Errorf("without the search it ended %d, %s\n%s", code, heard.state, p.stdout.String())
	}
	if want := []string{"ask-1 by web is failed MODEL_FAILED", "ask-2 by handbook is completed -"}; !slices.Equal(heard.ends, want) {
		t.Errorf("without the search the sub-tasks are %q, want %q", heard.ends, want)
	}
	if found := heard.results["handbook"]; !strings.Contains(found, inTheHandbook) || !strings.Contains(heard.answer, found) || heard.pieces["web"] != "" {
		t.Errorf("without the search there is %+v", heard)
	}

	p = run("orchestrator", "Find my overdue tasks, then look in the handbook how long a refund takes")
	code, heard = p.wait(), readConsulted(t, p.stdout.String())
	if code != 0 || heard.state != stateComplete || len(heard.ends) != 2 || heard.pieces["tasks"] == "" || !strings.Contains(heard.pieces["handbook"], inTheHandbook) {
		t.Errorf("of an orchestrator it ended %d, %+v", code, heard)
	}
	if d := cmp.Diff(heard.pieces, heard.results); d != "" {
		t.Errorf("what those said that the orchestrator chose, and what came of them (-said +result)\n%s", d)
	}

	p = run("nobody", question)
	if code, said := p.wait(), p.stderr.String(); code == 0 || !strings.Contains(said, "Agent nobody not found") || p.stdout.String() != "" {
		t.Errorf("of an agent that is not there it ended %d, with %q", code, said)
	}
}

// consulted is what the program shows.
type consulted struct {
	pieces, results map[string]string // by agent
	ends            []string          // of sub-tasks, in their order
	answer, state   string
}

var consultedLine = regexp.MustCompile(`^(?:(\w+) says|(answer)|(\S+ by (\w+) is \w+ \S+)): (".*")$`)

func readConsulted(t *testing.T, out string) consulted {
	t.Helper()
	c := consulted{pieces: map[string]string{}, results: map[string]string{}}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		at := consultedLine.FindStringSubmatch(line)
		if at == nil {
			c.state += line // the last, and the only one
			continue
		}
		text, err := strconv.Unquote(at[5])
		switch {
		case err != nil:
			t.Errorf("%v in %s", err, line)
		case at[1] != "":
			c.pieces[at[1]] += text
		case at[2] != "":
			c.answer += text
		default:
			c.ends, c.results[at[4]] = append(c.ends, at[3]), text
		}
	}
	return c
}

// S4-083: answers are not cached. The same question is put to every agent again, in the same
// conversation and in another one; only a message that is sent again is the same question.
func TestTheSameQuestionTwiceIsPutToTheAgentsTwice(t *testing.T) {
	t.Parallel()
	m := startResearch(t)
	close(m.found)
	one, other := mesh.NewThreadID(), mesh.NewThreadID()
	const question = "How long does a refund take?"
	first := userMessage(one, question)
	task, answer := "", ""
	for i, send := range []struct {
		message *a2apb.SendMessageRequest
		asked   int
	}{{first, 1}, {userMessage(one, question), 2}, {userMessage(other, question), 3}, {first, 3}} {
		var sent a2apb.SendMessageResponse
		readJSON(t, post(t, m.realMesh, "/agents/research/message:send", send.message, ""), &sent)
		if i == 0 {
			task, answer = sent.GetTask().GetId(), taskText(sent.GetTask())
		}
		if again := sent.GetTask().GetId() == task; again != (send.message == first) || taskText(sent.GetTask()) != answer || answer == "" {
			t.Errorf("message %d is answered by the task %s with %q", i, sent.GetTask().GetId(), taskText(sent.GetTask()))
		}
		searched := m.called(one, "knowledge.search")
		if send.asked > 2 {
			searched += m.called(other, "knowledge.search")
		}
		if thought := len(m.of(question)); thought != send.asked || searched != send.asked {
			t.Errorf("after message %d the model was asked %d times, and documents searched %d times; want %d", i, thought, searched, send.asked)
		}
	}
}

// called is how often the skill was called in the thread.
func (m *realMesh) called(thread, skill string) (n int) {
	for _, e := range m.log(thread) {
		if e.GetSkillCalled().GetSkill() == skill {
			n++
		}
	}
	return n
}
