package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// A postOffice is an SMTP server (RFC 5321) that takes mail, but for people
// whom it does not know. It serves one connection after the other.
type postOffice struct {
	addr string
	mu   sync.Mutex
	got  []string // envelope and message
}

func startPostOffice(t *testing.T) *postOffice {
	t.Helper()
	l := rpctest.Listen(t)
	p := &postOffice{addr: l.Addr().String()}
	done := make(chan struct{})
	go func() { // ends with the listener; the cleanup waits
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(testTime))
			p.serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return p
}

// serve speaks with one client to its end.
func (p *postOffice) serve(conn net.Conn) {
	in, mail := bufio.NewScanner(conn), ""
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 post.example ESMTP")
	for in.Scan() {
		switch line := in.Text(); strings.ToUpper(strings.Fields(line + " -")[0]) {
		case "EHLO", "HELO":
			say("250 post.example")
		case "MAIL":
			mail = line + "\n"
			say("250 ok")
		case "RCPT":
			if strings.Contains(line, "nobody@") {
				say("550 5.1.1 no such user here")
				continue
			}
			mail += line + "\n"
			say("250 ok")
		case "DATA":
			say("354 go on")
			for in.Scan() && in.Text() != "." {
				mail += in.Text() + "\n"
			}
			p.mu.Lock()
			p.got = append(p.got, mail)
			p.mu.Unlock()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (p *postOffice) mails() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got
}

// Mail that is asked for in a conversation reaches a mail server, once, and
// what the server does not take is told to the user.
func TestMailGoesToTheMailServer(t *testing.T) {
	t.Parallel()
	office := startPostOffice(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "smtp: {address: \""+office.addr+"\", tls: none, from: Mesh <mesh@example.com>}\n")
	m := up(t, dir)
	id := mesh.NewThreadID()
	say := speaker(speakGRPC)
	say.agreed(t, m, id, letterRequest)
	got := office.mails()
	if len(got) != 1 {
		t.Fatalf("the server got %q", got)
	}
	for _, part := range []string{"<mesh@example.com>", "RCPT TO:<bob@example.com>", "Subject: Report", "From: ", "Message-Id: ", "All is well"} {
		if !strings.Contains(strings.ToLower(got[0]), strings.ToLower(part)) {
			t.Errorf("%q is not in\n%s", part, got[0])
		}
	}
	if len(m.files("outbox/*")) != 0 || len(m.files("sent/*.eml")) != 1 || len(m.files("sending/*.eml")) != 0 {
		t.Errorf("mail lies in %v %v %v", m.files("outbox/*"), m.files("sent/*"), m.files("sending/*"))
	}
	say.asked(t, m, id, strings.Replace(letterRequest, "bob@", "nobody@", 1))
	h := say(t, m, id, "yes")
	if !strings.Contains(h.text, "no such user here") || len(office.mails()) != 1 {
		t.Errorf("of a refused mail the user reads %q", h.text)
	}
}

// What a user wants remembered is there in later conversations of that user,
// also after a restart, and for nobody else, of the tenant or of another one
// (S3-136, S3-139, S3-142).
func TestMemoriesAreOfOneUserAcrossConversations(t *testing.T) {
	t.Parallel()
	ann, bob, ops := upWithTokens(t)
	ann.mesh("send", "Remember that I prefer window seats on trains").succeeds(t)
	ops.mesh("send", "Remember that I prefer aisle seats on trains").succeeds(t)
	const question = "What do you remember about seats on trains?"
	check := func(p person, want string, not ...string) {
		t.Helper()
		got := p.mesh("send", question).succeeds(t)
		if want != "" && !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
		for _, other := range not {
			if strings.Contains(got, other) {
				t.Errorf("%q is in %s", other, got)
			}
		}
	}
	check(ann, "window seats", "aisle")
	check(ops, "aisle seats", "window")
	check(bob, "", "window", "aisle")
	ann.kill9()
	m := up(t, ann.dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	check(person{m, ann.token}, "window seats", "aisle")
	check(person{m, bob.token}, "", "window", "aisle")
}

// startPages answers with the path that it was asked for.
func startPages(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "this is "+r.URL.Path) }))
	t.Cleanup(s.Close)
	return s
}

// A skill's file that is edited while the mesh runs counts from then on; an edit
// that is not valid keeps the last good version and is reported until it is
// mended (S3-010, S3-076, S3-124).
func TestSkillFilesAreReloadedWhileTheMeshRuns(t *testing.T) {
	t.Parallel()
	pages := startPages(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "skills", "pages", "get.md")
	page := func(path string) string {
		return "---\nname: pages.get\ndescription: Get the page\nhandler: http.request\naccess: read\n---\n# Get\n\n    pages.get\n\n```http\nGET " + pages.URL + path + "\n```\n"
	}
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "egress: {allow: [127.0.0.1], allow_http: true}\nhttp_skills: {allow: [\""+pages.URL+"\"]}\n")
	writeFile(t, file, page("/one"))
	m := up(t, dir)
	says := func(want string) {
		t.Helper()
		if got := m.mesh("skills", "run", "pages.get").succeeds(t); !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	says("this is /one")

	watch := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "skills", "watch")
	watch.await(&watch.stderr, 0, `watching; Ctrl-C ends it\n`)
	writeFile(t, file, page("/two"))
	_, at := watch.await(&watch.stdout, 0, `pages\.get.*\n`)
	says("this is /two")

	writeFile(t, file, strings.Replace(page("/three"), "description", "blurb", 1))
	reload := m.mesh("skills", "reload")
	if !strings.Contains(reload.stdout+reload.stderr, "blurb") {
		t.Errorf("reload says %+v", reload)
	}
	says("this is /two")
	if list := m.mesh("skills", "list"); !strings.Contains(list.stdout, "pages.get") || !strings.Contains(list.stdout+list.stderr, filepath.Join("pages", "get.md")) {
		t.Errorf("the list does not have the skill and its problem: %+v", list)
	}

	writeFile(t, file, page("/four"))
	_, at = watch.await(&watch.stdout, at, `pages\.get.*\n`)
	says("this is /four")
	if list := m.mesh("skills", "list"); strings.Contains(list.stdout+list.stderr, "blurb") {
		t.Errorf("the problem is mended: %+v", list)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	watch.await(&watch.stdout, at, `pages\.get.*\n`)
	refusal{[]string{"skills", "run", "pages.get"}, exitNotFound, `pages\.get`}.check(t, m)
}

// A setClock shows the time that it was set to.
type setClock struct{ atomic.Pointer[time.Time] }

func (c *setClock) set(at time.Time) { c.Store(&at) }
func (c *setClock) now() time.Time   { return *c.Load() }

// upHere is up in the test's own process, by a clock of the test's.
func upHere(t *testing.T, dir string, now func() time.Time) *realMesh {
	t.Helper()
	fewDocs(t, dir)
	p := &process{t: t, ended: make(chan struct{})}
	a := &app{stdin: strings.NewReader(""), stdout: &p.stdout, stderr: &p.stderr, getenv: func(string) string { return "" },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: now, after: time.After}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // the cleanup waits
		defer close(p.ended)
		a.execute(ctx, []string{"up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "info", "--config", filepath.Join(dir, "mesh.yaml"),
			"--data", filepath.Join(dir, "data"), "--skills", filepath.Join(dir, "skills"), "--docs", filepath.Join(dir, "docs")})
	}()
	t.Cleanup(func() { stop(); <-p.ended })
	return p.mesh(dir)
}

// A skill with a schedule runs by itself when it is due, once, in a thread of
// its own, and is listed as a run (S3-129, S3-163).
func TestAScheduledSkillRunsOnceWhenItIsDue(t *testing.T) {
	t.Parallel()
	hits := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hits <- r.URL.Path; _, _ = fmt.Fprint(w, "watered") }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "egress: {allow: [127.0.0.1], allow_http: true}\nhttp_skills: {allow: [\""+server.URL+"\"]}\n")
	writeFile(t, filepath.Join(dir, "skills", "plants", "water.md"), "---\nname: plants.water\ndescription: Water the plants\n"+
		"handler: http.request\naccess: write\nschedule: \"30 7 * * *\"\n---\n# Water\n\n    plants.water\n\n```http\nPOST "+server.URL+"/water\n```\n")
	var clock setClock
	due := time.Date(2027, 1, 15, 7, 30, 0, 0, time.UTC)
	clock.set(due.Add(-time.Hour))
	m := upHere(t, dir, clock.now)
	m.await(&m.stderr, 0, `msg=schedule .*skill=plants\.water`)
	clock.set(due.Add(-time.Second))
	if out := m.mesh("skills", "runs").succeeds(t); out != "no runs\n" {
		t.Errorf("before it is due: %s", out)
	}
	clock.set(due.Add(time.Second))
	select {
	case <-hits:
	case <-timely(t).Done():
		t.Fatalf("it is due and does not run: %s", m.stderr.String())
	}
	var run struct{ Skill, Due, ThreadID, Status string }
	for ctx := timely(t); run.Status != "completed"; {
		if ctx.Err() != nil {
			t.Fatalf("the run does not end: %+v", run)
		}
		out := m.mesh("skills", "runs", "--json").succeeds(t)
		if err := json.Unmarshal([]byte(out), &run); err != nil {
			t.Fatalf("not one run: %v in %s", err, out)
		}
	}
	if at, err := time.Parse(time.RFC3339, run.Due); err != nil || !at.Equal(due) || run.Skill != "plants.water" {
		t.Errorf("the run is %+v, due %v", run, due)
	}
	log := m.log(run.ThreadID)
	for _, e := range log {
		if c := e.GetSkillCalled(); c != nil && c.GetSource() != mesh.SourceSchedule {
			t.Errorf("called by %q", c.GetSource())
		}
	}
	if calls := madeCalls(log); len(calls) != 1 || len(hits) != 0 {
		t.Errorf("called %q, and %d more requests", calls, len(hits))
	}
	if out := m.mesh("skills", "runs").succeeds(t); !regexp.MustCompile(`plants\.water .*completed`).MatchString(out) {
		t.Errorf("the runs: %s", out)
	}
}
