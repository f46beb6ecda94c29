package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// A newcomer is somebody in a folder with nothing in it but documents, who has the binary, and
// an endpoint that serves a model.
type newcomer struct {
	t     *testing.T
	dir   string
	model *scriptedModel
	m     *realMesh // when it is up
}

// slowly is what the newcomer says where the model is to take its time.
const slowly = "take your time"

// startNewcomer is one whose model says what it was told, and "at last" once it is let.
func startNewcomer(t *testing.T) (n *newcomer, let context.CancelFunc) {
	t.Helper()
	waits, let := context.WithCancel(context.Background())
	n = &newcomer{t: t, dir: t.TempDir(), model: startScripted(t, func(req *modelRequest) modelReply {
		said := string(req.Messages[len(req.Messages)-1].Content)
		reply := modelReply{text: "You said: " + mesh.Clip(said, 40), usage: &modelUsage{Prompt: 100, Completion: 10}}
		switch {
		case len(req.Tools) == 1 && req.Tools[0].Function.Name == "report_ok":
			reply.text, reply.calls = "", []modelCall{{name: "report_ok", args: map[string]any{}}}
		case strings.Contains(said, slowly):
			<-waits.Done()
			reply.text = "at last"
		}
		return reply
	})}
	t.Cleanup(let) // before the model is closed
	writeFile(t, filepath.Join(n.dir, "pages", "holidays.md"), "# Holidays\n\nEverybody has 25 days.\n")
	return n, let
}

// up starts the mesh as the file says that 'mesh init' wrote.
func (n *newcomer) up(at string) {
	n.t.Helper()
	n.m = launch(n.t, n.dir, "mesh", nil, "up", "--grpc", at, "--http", rpctest.Free(n.t)).mesh(n.dir)
}

// finding U3, U1, U8: the first hour of somebody who has only the binary: settings, a
// conversation at a terminal with all that happens to one, an agent of others, a skill, a client
// of MCP, what it cost, and the end, after which nothing is left.
func TestANewcomersFirstHour(t *testing.T) {
	t.Parallel()
	n, let := startNewcomer(t)
	n.settings()
	at := rpctest.Free(t)
	n.up(at)
	id := n.chats(at, let)

	n.m.mesh("agents", "add", startClerk(t, nil)).want(t, exitOK, "added")
	n.m.mesh("send", "--agent", "clerk", "--thread", mesh.NewThreadID(), "a room for two").succeeds(t)
	written := runMesh(t, n.dir, nil, "skills", "new", "desk.greet", "--description", "Greet somebody", "--parameter", "name:string:required:Who").succeeds(t)
	file := filepath.Join(n.dir, strings.TrimSuffix(written, " written\n"))
	n.m.mesh("skills", "validate", file).succeeds(t)
	n.m.awaitSkill("desk.greet")
	n.m.mesh("skills", "run", "desk.greet", "--name", "Ann").want(t, exitOK, "You said: ")
	desk := n.m.over(t.Context(), t, "stdio", "2025-06-18", false)
	if got := textOf(desk.call(t.Context(), t, "desk-greet", map[string]any{"name": "Bo"}, nil)); !strings.Contains(got, "You said: ") {
		t.Errorf("a client of MCP gets %q", got)
	}

	n.m.mesh("usage").want(t, exitOK, "all")
	n.m.mesh("threads", "show", id).want(t, exitOK, "at last", "in all ")
	n.m.mesh("threads", "delete", id, "--yes").succeeds(t)
	n.m.mesh("threads", "show", id).fails(t, exitNotFound, "Thread not found")
	n.m.mesh("agents", "remove", "clerk").succeeds(t)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	n.m.mesh("users", "erase", "local", "--yes").succeeds(t)
	n.m.mesh("threads", "list").want(t, exitOK, "no threads")
}

// settings has 'mesh init' ask for them.
func (n *newcomer) settings() {
	n.t.Helper()
	p, at := launchAtTerminal(n.t, n.dir, nil, "init"), 0
	for _, s := range []struct{ question, answer string }{
		{`URL[^\n]*: `, n.model.URL + "/v1"}, {`Model[^\n]*: `, "scripted"}, {`Folder of documents[^\n]*: `, "pages"},
	} {
		_, at = p.await(&p.stdout, at, s.question+`$`)
		p.enter(s.answer + "\r")
	}
	if code := p.wait(); code != exitOK {
		n.t.Fatalf("exit code %d; screen: %s", code, p.stdout.String())
	}
}

// chats has the conversation: keys, pastes, a smaller window, Ctrl-C, and a mesh that is killed in
// the midst of an answer and comes back.
func (n *newcomer) chats(addr string, let func()) (id string) {
	n.t.Helper()
	id = mesh.NewThreadID()
	p := atTerminal(n.t, n.m, id)
	at := 0
	says := func(keys, want string) {
		n.t.Helper()
		p.enter(keys)
		_, at = p.await(&p.stdout, at, want)
	}
	const prompt = `(?s:.*)you › $`
	lines, long := strings.Repeat("a line\n", 99)+"the last", strings.Repeat("0123456789", 20<<10)
	says("helo\x1b[Dl\x05 there\r", `main › You said: hello there`+prompt)
	for _, paste := range []string{lines, long} {
		says("\x1b[200~"+strings.ReplaceAll(paste, "\n", "\r")+"\x1b[201~\r", `main › You said: `+prompt)
	}
	resize(n.t, p.stdin, 10, 40)
	says(slowly+"\r", `Ctrl-C|·`)
	says("\x03", `■ cancelled`+prompt)
	says(slowly+", please\r", `please`)
	n.m.kill9()
	_, at = p.await(&p.stdout, at, `connection lost|no answer, trying again`)
	n.up(addr)
	let()
	_, at = p.await(&p.stdout, at, `main › at last`+prompt)
	p.enter("/quit\r")
	if code := p.wait(); code != exitOK {
		n.t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	want := []string{"hello there", lines, long, slowly, slowly + ", please"}
	if diff := cmp.Diff(want, posted(n.m.log(id))); diff != "" {
		n.t.Errorf("the messages differ (-want +got):\n%s", mesh.Clip(diff, 2000))
	}
	return id
}
