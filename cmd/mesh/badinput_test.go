package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// A refusal is a command that is bad input, and what is said about it.
type refusal struct {
	args    []string
	code    int
	pattern string
}

// check runs the command and checks that it refuses.
func (r refusal) check(t *testing.T, m *realMesh) {
	t.Helper()
	f := m.mesh(r.args...)
	// 'mesh send' says which thread it is about, whatever comes of it.
	f.stderr = regexp.MustCompile(`^thread: .*\n`).ReplaceAllString(f.stderr, "")
	if f.stdout != "" {
		t.Errorf("%q printed %q", r.args, f.stdout)
	}
	f.fails(t, r.code, r.pattern)
}

// What makes no sense is refused with the field and what to do about it, and
// changes nothing (S4-009, S4-013, S4-014).
func TestBadMessagesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id, other := mesh.NewThreadID(), mesh.NewThreadID()
	task := speaker(speakREST).complete(t, m, id, "hello").task
	foreign := strings.ReplaceAll(other, "-", "") + "-0123456789abcdef"
	before := len(m.log(id))
	for name, r := range map[string]refusal{
		"empty message":             {[]string{"send", "--thread", id, " "}, exitUsage, `text: is empty; say something`},
		"unknown task":              {[]string{"send", "--task", "nope", "x"}, exitNotFound, `Task not found; check the task id`},
		"unknown task of a thread":  {[]string{"send", "--task", foreign, "x"}, exitNotFound, `Task not found; check the task id`},
		"foreign task":              {[]string{"send", "--tenant", "other", "--task", task, "x"}, exitNotFound, `Task not found; check the task id`},
		"context of another task":   {[]string{"send", "--thread", other, "--task", task, "x"}, exitUsage, `context_id: is not the context of the task`},
		"malformed thread":          {[]string{"send", "--thread", "nope", "x"}, exitUsage, `--thread must be a UUID v4 such as .* and is "nope"`},
		"thread of another version": {[]string{"threads", "show", "c232ab00-9414-11ec-b3c8-9f6bdeced846"}, exitUsage, `must be a UUID v4`},
		"unknown thread":            {[]string{"threads", "show", other}, exitNotFound, `Thread not found for tenant; check`},
		"foreign thread":            {[]string{"threads", "export", id, "--tenant", "other"}, exitNotFound, `Thread not found for tenant; check`},
		"unknown agent":             {[]string{"agents", "show", "nobody"}, exitNotFound, `Agent nobody not found; check its name`},
		"unknown skill":             {[]string{"skills", "show", "no.skill"}, exitNotFound, `no\.skill`},
		"an address for a mesh":     {[]string{"up", "--addr", "127.0.0.1:1"}, exitUsage, `--addr is for calls to a mesh, and 'mesh up' starts one`},
		"a token for a demo":        {[]string{"--token", "x", "demo"}, exitUsage, `--token is for calls`},
		"malformed tenant":          {[]string{"--tenant", "a/b", "threads", "list"}, exitUsage, `--tenant`},
		"removing a built-in":       {[]string{"agents", "rm", "main"}, exitFailure, `main is built in and cannot be removed`},
		"unknown command":           {[]string{"thread", "list"}, exitUsage, `no command "thread"; try threads`},
		"nobody at the address":     {[]string{"--addr", "127.0.0.1:1", "send", "x"}, exitUnavailable, `nobody answers at 127.0.0.1:1; start the mesh with 'mesh up'`},
	} {
		t.Run(name, func(t *testing.T) { r.check(t, m) })
	}
	if after := m.log(id); len(after) != before {
		t.Errorf("the thread has %d events, and had %d", len(after), before)
	}
	speaker(speakGRPC).complete(t, m, id, "thanks")
}

// The same over HTTP, where clients make mistakes of their own.
func TestBadRequestsAreRefusedWithAClearBody(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	task := speaker(speakREST).complete(t, m, id, "hello").task
	msg := func(fields string) string { return `{"message":{"messageId":"1","role":"ROLE_USER"` + fields + `}}` }
	text := `,"parts":[{"text":"hi"}]`
	for name, tt := range map[string]struct {
		method, path, body, tenant string
		code                       int
		pattern                    string
	}{
		"no JSON":          {"POST", "/message:send", `{"message"`, "", 400, `body|JSON`},
		"no message":       {"POST", "/message:send", `{}`, "", 400, `"field":"message"`},
		"no parts":         {"POST", "/message:send", msg(""), "", 400, `"field":"message.parts".*at least one part`},
		"an empty part":    {"POST", "/message:send", msg(`,"parts":[{"text":""}]`), "", 400, `"field":"message.parts".*is empty`},
		"malformed UUID":   {"GET", "/mesh/v1/threads/nope", "", "", 400, `"field":"thread[-_]id".*UUID v4`},
		"a long context":   {"POST", "/message:stream", msg(text + `,"contextId":"` + strings.Repeat("x", 257) + `"`), "", 400, `"field":"message.context_id".*257 bytes`},
		"another context":  {"POST", "/message:send", msg(text + `,"taskId":"` + task + `","contextId":"` + mesh.NewThreadID() + `"`), "", 400, `context_id`},
		"unknown task":     {"POST", "/message:send", msg(text + `,"taskId":"nope"`), "", 404, `Task not found`},
		"task not there":   {"GET", "/tasks/nope", "", "", 404, `Task not found`},
		"foreign task":     {"GET", "/tasks/" + task, "", "other", 404, `Task not found`},
		"foreign stream":   {"GET", "/tasks/" + task + ":subscribe", "", "other", 404, `Task not found`},
		"foreign handoff":  {"GET", "/mesh/v1/threads/" + id + "/handoff", "", "other", 404, `Thread not found for tenant`},
		"message too long": {"POST", "/message:send", msg(`,"parts":[{"text":"` + strings.Repeat("x", 1<<20) + `"}]`), "", 0, `the limit is 1032192; send less`},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"application/json"}}
			if tt.tenant != "" {
				header.Set("tenant-id", tt.tenant)
			}
			resp := m.request(tt.method, tt.path, header, []byte(tt.body))
			var body json.RawMessage
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Fatalf("the body is no JSON: %v", err)
			}
			if resp.StatusCode != tt.code && tt.code != 0 || resp.StatusCode < 400 || resp.StatusCode > 499 {
				t.Errorf("%s, want %d: %s", resp.Status, tt.code, body)
			}
			if !regexp.MustCompile(tt.pattern).Match(body) {
				t.Errorf("%s does not match %s", body, tt.pattern)
			}
		})
	}
	if got := getTask(t, m, task).GetStatus().GetState(); got != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the task is %v now", got)
	}
}

// A card that is broken, or an agent that is not there, is not added, and the
// refusal says what is wrong with it.
func TestBadCardsAreNotAdded(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	cards := http.NewServeMux()
	serve := func(path, body string) {
		cards.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	const rest = `"description":"Is away","version":"1","capabilities":{"streaming":true},"defaultInputModes":["text/plain"],` +
		`"defaultOutputModes":["text/plain"],"skills":[{"id":"x","name":"x","description":"x","tags":["x"]}],` +
		`"supportedInterfaces":[{"url":"127.0.0.1:1","protocolBinding":"%s","protocolVersion":"1.0"}]}`
	serve("/nonsense", "<html>It works!</html>")
	serve("/nameless", `{"name":"",`+fmt.Sprintf(rest, "GRPC"))
	serve("/bare", `{"name":"Bare"}`)
	serve("/away", `{"name":"Away",`+fmt.Sprintf(rest, "GRPC"))
	serve("/binding", `{"name":"Other",`+fmt.Sprintf(rest, "CARRIER_PIGEON"))
	server := httptest.NewServer(cards)
	t.Cleanup(server.Close)
	add := func(path string, more ...string) []string {
		return append([]string{"agents", "add", server.URL + path}, more...)
	}
	agents := m.mesh("agents", "list").succeeds(t)
	for name, r := range map[string]refusal{
		"nonsense":            {add("/nonsense"), exitUsage, `card.*not`},
		"without a name":      {add("/nameless"), exitUsage, `name: .*;`},
		"with missing fields": {add("/bare"), exitUsage, `card\.\w+: .*;`},
		"unreachable address": {add("/away"), exitUnavailable, `away does not answer at 127.0.0.1:1; start it first or correct the address`},
		"unknown binding":     {add("/binding"), exitUsage, `supportedInterfaces: .*GRPC.*; add one`},
		"no card there":       {add("/none"), exitUnavailable, `answered 404.*correct the URL`},
		"no server there":     {[]string{"agents", "add", "http://127.0.0.1:1/card"}, exitUnavailable, `No agent card could be read from http://127.0.0.1:1/card.*correct the URL`},
		"no URL":              {[]string{"agents", "add", "ftp://host/card"}, exitUsage, `must begin with http`},
		"a built-in's name":   {add("/away", "--name", "main"), exitFailure, `main belongs to a built-in agent; choose another name`},
	} {
		t.Run(name, func(t *testing.T) { r.check(t, m) })
	}
	if now := m.mesh("agents", "list").succeeds(t); now != agents {
		t.Errorf("the agents were\n%s\nand are\n%s", agents, now)
	}
}

// An agent that does not exist cannot answer: the task fails, and says why.
func TestAMainAgentThatIsNotThereFailsTheTask(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir(), "--main", "nobody")
	f := m.mesh("send", "hello")
	if want := "✗ failed: Agent nobody not found; check its name"; f.code != exitFailure || !strings.Contains(f.stderr, want) {
		t.Errorf("exit code %d, stderr %q, want %q", f.code, f.stderr, want)
	}
}

// A broken skill file is named with its line, at start and in the list, and the
// other ones load.
func TestABrokenSkillFileDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mine", "broken", "open.md"), "---\nname: broken.open\n")
	writeFile(t, filepath.Join(dir, "mine", "plants", "water.md"),
		"---\nname: plants.water\ndescription: Waters plants\n---\n\n# Water\n\n## Usage\n\n    plants.water\n\n## Behavior\n\n1. Pour.\n")
	m := up(t, dir, "--skills", "mine")
	const problem = "broken/open.md:1.*the front matter is not closed; add a line of three dashes"
	m.shows(`skill +not loaded: ` + problem)
	f := m.mesh("skills", "list")
	list := f.succeeds(t)
	if !strings.Contains(list, "plants.water") || !strings.Contains(list, "mail.send") || strings.Contains(list, "broken.open") {
		t.Errorf("the list is\n%s", list)
	}
	if !regexp.MustCompile(problem).MatchString(f.stderr) {
		t.Errorf("stderr %q does not name the problem", f.stderr)
	}
}

// What keeps a mesh from starting is said in one line with what to do, and the
// data stays as it is.
func TestAMeshThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := rpctest.Listen(t)
	t.Cleanup(func() { _ = taken.Close() })
	writeFile(t, filepath.Join(dir, "file"), "")
	writeFile(t, filepath.Join(dir, "damaged", "mesh.db"), strings.Repeat("this is no database\n", 1000))
	writeFile(t, filepath.Join(dir, "unknown.yaml"), "data: elsewhere\nratelimit: 5\n")
	writeFile(t, filepath.Join(dir, "broken.yaml"), "data: [\n")
	writeFile(t, filepath.Join(dir, "agents.yaml"), "agents: {wroker: {model: small}}\n")
	writeFile(t, filepath.Join(dir, "version.yaml"), "agents: {worker: {protocol_version: \"0.3\"}}\n")
	writeFile(t, filepath.Join(dir, "tokens.yaml"), "- name: bob\n  tenant: acme\n")
	damaged := sha256.Sum256([]byte(readFile(t, filepath.Join(dir, "damaged", "mesh.db"))))
	for name, r := range map[string]refusal{
		"a file instead of the data folder": {[]string{"--data", "file"}, exitFailure, `data folder file cannot be made; .*--data`},
		"a data folder below a file":        {[]string{"--data", "file/data"}, exitFailure, `data folder file/data cannot be made; .*--data`},
		"a gRPC port that is taken":         {[]string{"--grpc", taken.Addr().String()}, exitFailure, `cannot listen on ` + taken.Addr().String() + `.*--grpc`},
		"an HTTP port that is taken":        {[]string{"--http", taken.Addr().String()}, exitFailure, `cannot listen on ` + taken.Addr().String() + `.*--http`},
		"a damaged database":                {[]string{"--data", "damaged"}, exitFailure, `damaged/mesh.db is damaged and was left as it is; 'mesh data verify' says where; move it away and restore a copy`},
		"an unknown field":                  {[]string{"--config", "unknown.yaml"}, exitUsage, `unknown.yaml:2: .*ratelimit`},
		"a malformed file":                  {[]string{"--config", "broken.yaml"}, exitUsage, `broken.yaml`},
		"settings of no agent":              {[]string{"--config", "agents.yaml"}, exitUsage, `agents.yaml:1: agents.wroker: has settings of "wroker", which is no agent; did you mean worker\?`},
		"a version of a built-in agent":     {[]string{"--config", "version.yaml"}, exitUsage, `agents.worker: has protocol_binding or protocol_version, which are for agents that are registered`},
		"no such file":                      {[]string{"--config", "none.yaml"}, exitNotFound, `no configuration file none.yaml; name another with --config`},
		"open to the network":               {[]string{"--grpc", "0.0.0.0:0"}, exitUsage, `grpc: 0.0.0.0:0 can be reached from other machines.*set auth: tokens`},
		"HTTP open to the network":          {[]string{"--http", ":0"}, exitUsage, `http: :0 can be reached from other machines.*set auth: tokens`},
		"no address":                        {[]string{"--grpc", "nonsense"}, exitUsage, `grpc: must be host:port such as`},
		"no tokens":                         {[]string{"--auth", "tokens"}, exitUsage, `tokens: is missing; name the file`},
		"no tokens file":                    {[]string{"--auth", "tokens", "--tokens", "none.yaml"}, exitFailure, `token file none.yaml cannot be read`},
		"a token without a hash":            {[]string{"--auth", "tokens", "--tokens", "tokens.yaml"}, exitUsage, `tokens.yaml.*hash`},
		"no kind of auth":                   {[]string{"--auth", "maybe"}, exitUsage, `auth: must be none, or a list of tokens, oidc and mtls, and has "maybe"`},
		"no name of an agent":               {[]string{"--main", "No Body"}, exitUsage, `main: must be the name of an agent`},
		"a negative rate":                   {[]string{"--rate", "-2"}, exitUsage, `rate_limit.*: .*must (not )?be`},
		"no level of log":                   {[]string{"--log-level", "loud"}, exitUsage, `log_level: must be debug, info, warn or error, and is "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "unused"}, r.args...)
			f := runMesh(t, dir, nil, args...)
			f.fails(t, r.code, r.pattern)
		})
	}
	if now := sha256.Sum256([]byte(readFile(t, filepath.Join(dir, "damaged", "mesh.db")))); now != damaged {
		t.Error("the damaged database was changed")
	}
}

// Settings of the environment are checked as flags are.
func TestASettingOfTheEnvironmentIsNamedWhenItIsWrong(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"MESH_RATE": "fast", "MESH_BURST": "1.5", "MESH_GRACE": "10"} {
		f := runMesh(t, t.TempDir(), []string{name + "=" + value}, "up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
		f.fails(t, exitUsage, name+`: is "`+regexp.QuoteMeta(value)+`"; see 'mesh up --help'`)
	}
}

// A second mesh on the same data says who has it, and the first one does not
// notice.
func TestASecondMeshOnTheSameDataSaysWhoHasIt(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	f := runMesh(t, m.dir, nil, "up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", m.data)
	f.fails(t, exitFailure, `in use by process `+strconv.Itoa(m.cmd.Process.Pid)+` at `+m.grpc+`.*another --data`)
	m.mesh("send", "hello").succeeds(t)
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, m.stderr.String())
	}
	up(t, m.dir).mesh("threads", "list").succeeds(t)
}

// A folder for data, skills or documents may have any name; that of data is made, and without
// others what the binary has serves.
func TestOddFoldersWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	odd := filepath.Join(dir, "Süße Träume & 'quotes' %20")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	m := up(t, odd, "--data", "a b/c;d/data", "--skills", "", "--docs", "")
	m.mesh("send", "How do I configure rate limiting?").succeeds(t)
	id := mesh.NewThreadID()
	m.mesh("send", "--thread", id, "Email \"all is well\" to bob@example.com")
	m.mesh("send", "--thread", id, "yes").succeeds(t)
	m.data = filepath.Join(odd, "a b", "c;d", "data")
	if mail := m.file("outbox/*.eml"); !strings.Contains(mail, "all is well") {
		t.Errorf("the mail is\n%s", mail)
	}
}

// Calls over the limit are refused with when to come again, over REST, gRPC and
// by the command.
func TestCallsOverTheLimitAreRefusedWithWhenToTryAgain(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir(), "--rate", "0.01", "--burst", "3")
	for range 3 {
		m.mesh("agents", "list").succeeds(t)
	}
	resp := m.request(http.MethodGet, "/mesh/v1/agents", nil, nil)
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusTooManyRequests || err != nil || after < 1 || after > 100 {
		t.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	id := mesh.NewThreadID()
	_, err = m.edge().SendMessage(inThread(t, id), userMessage(id, "hello"))
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "try again in") {
		t.Errorf("SendMessage: %v", err)
	}
	refusal{[]string{"agents", "list"}, exitFailure, `too many calls: the limit is .*; try again in`}.check(t, m)
	resp = m.request(http.MethodGet, "/healthz", nil, nil)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", resp.Status)
	}
	m.mesh("--user", "somebody-else", "agents", "list").succeeds(t)
}

// What an operator mistypes is told without a word of what was done, and with what to do.
func TestMistypedOperatorsCommandsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, r := range []refusal{
		{[]string{"data", "chown", "ann"}, exitUsage, `FROM and TO are two arguments, and there are 1; see 'mesh data chown --help'`},
		{[]string{"data", "chown", "ann", "bob"}, exitNotFound, `there is no data folder .*; name it with --data`},
		{[]string{"data", "rebuild"}, exitNotFound, `there is no data folder .*; name it with --data`},
		{[]string{"audit", "verify", "--data", "none"}, exitNotFound, `none is not there, or not all of it; name another one with --data`},
	} {
		f := runMesh(t, dir, nil, r.args...)
		if f.stdout != "" {
			t.Errorf("%q printed %q", r.args, f.stdout)
		}
		f.fails(t, r.code, r.pattern)
	}
}
