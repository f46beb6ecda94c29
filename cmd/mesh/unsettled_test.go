package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A press prints what it gets, which is an effect that must not happen twice,
// and answers when it is told to.
type press struct {
	*httptest.Server
	begun   chan struct{} // gets one for each print
	release func()        // ends those that are at work

	mu      sync.Mutex
	printed []string // the words
	keys    []string // the idempotency keys of HTTP skills
	slow    bool
}

func startPress(t *testing.T) *press {
	t.Helper()
	p := &press{begun: make(chan struct{}, 10), slow: true}
	stopping, release := context.WithCancel(context.Background())
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		word, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.printed, p.keys = append(p.printed, string(word)), append(p.keys, r.Header.Get("Idempotency-Key"))
		slow := p.slow
		p.mu.Unlock()
		p.begun <- struct{}{}
		if slow {
			select {
			case <-r.Context().Done():
			case <-stopping.Done():
			}
		}
		_, _ = io.WriteString(w, "printed")
	}))
	p.release = release
	t.Cleanup(func() { release(); p.Close() })
	return p
}

// work waits until the press is at work.
func (p *press) work(t *testing.T) {
	t.Helper()
	select {
	case <-p.begun:
	case <-time.After(testTime):
		t.Fatal("nothing is printed")
	}
}

func (p *press) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = false
}

func (p *press) all() (printed, keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.printed), slices.Clone(p.keys)
}

// withPress is a folder for a mesh with a skill that prints, which is a request
// to the press or a tool of an MCP server that tells it.
func withPress(t *testing.T, p *press) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "egress: {allow: [127.0.0.1], allow_http: true}\nhttp_skills: {allow: [\""+p.URL+"\"]}\n"+
		mcpYAML(t, map[string]string{"MCP_TELL": p.URL}))
	writeFile(t, filepath.Join(dir, "skills", "press", "print.md"), "---\nname: press.print\ndescription: Print a word on paper\n"+
		"handler: http.request\naccess: write\nparameters:\n  - {name: word, required: true}\n---\n# Print\n\n    press.print --word <word>\n\n"+
		"```http\nPOST "+p.URL+"/\nContent-Type: text/plain\n\n{word}\n```\n")
	return dir
}

// A mesh that is killed while a skill is at work: the log says which call has no
// outcome, the run goes on and is FAILED for that, and the same request does not have the effect
// again (S3-093, S3-037). The skill is an HTTP request, or a tool of another
// process.
func TestACallThatKill9CutsIsUnsettledAndNotRepeated(t *testing.T) {
	for _, name := range []string{"press.print", "words.print"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paper := startPress(t)
			dir := withPress(t, paper)
			m := up(t, dir)
			m.awaitSkill("words.print")
			run := []string{"skills", "run", name, "--word", "pier"}
			first := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, run...)
			paper.work(t)
			threads := m.mesh("threads", "list").succeeds(t)
			m.kill9()
			how, _ := first.await(&first.stderr, 0, `without running it twice, with the same command and (.*)\n`)
			if code := first.wait(); code != exitUnavailable {
				t.Errorf("exit code %d: %s", code, first.stderr.String())
			}
			paper.hurry()
			m = up(t, dir)
			m.awaitSkill("words.print")
			id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(threads)
			checkUnsettled(t, m, id, name, "FAILED")
			f := m.mesh(append(run, strings.Fields(how[1])...)...)
			if f.code != exitFailure || !strings.Contains(f.stderr, "thread: "+id) {
				t.Errorf("the same request again: %+v", f)
			}
			if printed, _ := paper.all(); !slices.Equal(printed, []string{"pier"}) {
				t.Errorf("printed %q", printed)
			}
			if calls := madeCalls(m.log(id)); len(calls) != 1 {
				t.Errorf("called %q", calls)
			}
		})
	}
}

// checkUnsettled checks what the mesh says of a thread whose one call was cut.
func checkUnsettled(t *testing.T, m *realMesh, id, skill, end string) {
	t.Helper()
	for limit := time.Now().Add(testTime); ends(m.log(id)) == "" && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond) // it goes on by itself
	}
	resp, err := meshv1.NewThreadServiceClient(m.dial()).GetThread(inThread(t, id), &meshv1.GetThreadRequest{ThreadId: id})
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, x := range resp.GetThread().GetExecutions() {
		for _, name := range x.GetUnsettled() {
			open = append(open, name)
		}
		if !mesh.Terminal(x.GetState()) {
			t.Errorf("%s is %v", x.GetExecution().GetAgent(), x.GetState())
		}
	}
	if !slices.Equal(open, []string{skill}) {
		t.Errorf("unsettled are %q", open)
	}
	if got := ends(m.log(id)); got != end {
		t.Errorf("the turns ended %s, want %s", got, end)
	}
	if shown := m.mesh("threads", "show", id).succeeds(t); !strings.Contains(shown, "outcome unknown: "+skill) {
		t.Errorf("the thread is shown without the call that was cut:\n%s", shown)
	}
}

// The same in a conversation: the next turn of the model is told that the call
// has no outcome; a call that is made again on purpose is another call, with
// another key.
func TestTheNextTurnKnowsOfACallWithoutOutcome(t *testing.T) {
	t.Parallel()
	paper := startPress(t)
	model := startScripted(t, func(req *modelRequest) modelReply {
		said, after := req.since()
		if len(after) > 0 || !strings.Contains(said, "print") {
			return modelReply{text: "Done."}
		}
		return modelReply{calls: []modelCall{useSkill("press.print", map[string]any{"word": "pier"})}}
	})
	dir := withPress(t, paper)
	m := upWith(t, dir, model.env(), "--tool-mode", "single_loop")
	id := mesh.NewThreadID()
	first := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "send", "--thread", id, "--timeout", "1s", "print it")
	paper.work(t)
	m.kill9()
	first.wait()
	paper.hurry()
	m = upWith(t, dir, model.env(), "--tool-mode", "single_loop")
	checkUnsettled(t, m, id, "press.print", "COMPLETED")
	say := speaker(speakGRPC)
	say.complete(t, m, id, "hello")
	asked := model.asked()
	if text := asked[len(asked)-1].text(); !strings.Contains(text, "it is not known whether it had its effect") {
		t.Errorf("the model is not told that the call was cut:\n%s", text)
	}
	say.complete(t, m, id, "print it once more")
	printed, keys := paper.all()
	if !slices.Equal(printed, []string{"pier", "pier"}) || keys[0] == "" || keys[0] == keys[1] {
		t.Errorf("printed %q with the keys %q", printed, keys)
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != exitOK {
		t.Errorf("exit code %d: %s", code, m.stderr.String())
	}
}
