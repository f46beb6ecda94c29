package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/nodetest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

// testTime bounds whatever a test waits for; nothing takes that long, also not
// where many tests share few cores.
const testTime = 60 * time.Second

// A process is a run of the command in a process of its own.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr output
	at             int           // what of stdout was expected
	ended          chan struct{} // closed when it has
}

// output is what a process has written, and tells who waits when there is more.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed with the next write; nil if nobody waits
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.text.Write(p)
}

// read returns what there is and a channel that is closed when there is more.
func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return o.text.String(), o.more
}

func (o *output) String() string {
	text, _ := o.read()
	return text
}

// len is how much there is.
func (o *output) len() int { return len(o.String()) }

// commandEnv is the environment in which this binary is the command as name,
// without settings of the mesh but those of env; without them models are not probed.
func commandEnv(name string, env ...string) []string {
	var all []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MESH_") {
			all = append(all, v)
		}
	}
	all = append(all, "MESH_MODEL_PROBE=false") // models of tests count what they are asked
	return append(append(all, env...), asCommand+"="+name, "GORACE="+raceOptions())
}

// raceOptions are those of the race detector in a process that is the command.
// By default it has each process sleep for a second before it ends, for
// goroutines that are still at work then; the command waits for its own.
func raceOptions() string { return strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=0") }

// noRace fails the test if the race detector found something in a process, which
// the exit code tells only of one that was not killed.
func noRace(t *testing.T, stderr string) {
	if strings.Contains(stderr, "WARNING: DATA RACE") {
		t.Errorf("the process has a data race:\n%s", stderr)
	}
}

// raced says that the tests run under the race detector.
var raced bool

// builds has the programs that tests had built.
var builds string

// unraced builds the command without the race detector, under which a mesh works five times as
// long, and most of these tests are a mesh's work. Meshes are under it in the processes of tests:
// in all of mesh/node, and where these run a command in their own.
var unraced = sync.OnceValues(func() (program string, err error) {
	if builds, err = os.MkdirTemp("", "mesh"); err != nil {
		return "", err
	}
	program = filepath.Join(builds, "mesh")
	out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".").CombinedOutput() // as 'make build', whose cache it finds
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// launch starts the command as name, "mesh" or "mesh-terminal", in the folder
// dir. env adds to an environment without settings of the mesh. The process is
// killed, by its id, when the test ends.
func launch(t *testing.T, dir, name string, env []string, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	if raced && name == "mesh" && len(args) > 0 && args[0] == "up" {
		program, err = unraced()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = commandEnv(name, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdin, p.stdin = r, w
	err = p.cmd.Start()
	_ = r.Close() // the child has its own
	if err != nil {
		_ = w.Close()
		t.Fatal(err)
	}
	go func() { // ends with the process, which the cleanup ends and waits for
		_ = p.cmd.Wait() // the exit code says it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		_ = p.stdin.Close()
		noRace(t, p.stderr.String())
	})
	return p
}

// await waits until the pattern is in o after its first from bytes, and returns
// its groups and where it ended.
func (p *process) await(o *output, from int, pattern string) ([]string, int) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(testTime)
	defer limit.Stop()
	for {
		text, more := o.read()
		if at := re.FindStringSubmatchIndex(text[from:]); at != nil {
			return re.FindStringSubmatch(text[from:]), from + at[1]
		}
		select {
		case <-more:
		case <-p.ended:
			if text == o.String() {
				p.t.Fatalf("%q did not come before the end\nstdout: %s\nstderr: %s", pattern, p.stdout.String(), p.stderr.String())
			}
		case <-limit.C:
			p.t.Fatalf("%q did not come\nstdout: %s\nstderr: %s", pattern, p.stdout.String(), p.stderr.String())
		}
	}
}

// shows waits until stdout matches the pattern.
func (p *process) shows(pattern string) []string {
	p.t.Helper()
	groups, _ := p.await(&p.stdout, 0, pattern)
	return groups
}

// expect waits until stdout has shown text after what was expected before.
func (p *process) expect(text string) {
	p.t.Helper()
	_, p.at = p.await(&p.stdout, p.at, regexp.QuoteMeta(text))
}

// enter types text.
func (p *process) enter(text string) {
	p.t.Helper()
	if _, err := p.stdin.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill9 ends the process at once.
func (p *process) kill9() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.wait()
}

// wait waits for the end of the process and returns its exit code.
func (p *process) wait() int {
	p.t.Helper()
	limit := time.NewTimer(testTime)
	defer limit.Stop()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-limit.C:
		p.t.Fatalf("the process did not end\nstdout: %s\nstderr: %s", p.stdout.String(), p.stderr.String())
		return -1
	}
}

// A realMesh is a whole mesh in a process of its own: 'mesh up' in an empty
// folder, with the offline planner. Or it is two nodes in the test's.
type realMesh struct {
	*process
	dir, data  string
	grpc, http string // addresses
	conn       grpc.ClientConnInterface
	pair       *nodetest.Mesh // or nil
}

// up starts a mesh on free ports in the folder dir, with its data in dir/data.
// A later flag of extra wins.
func up(t *testing.T, dir string, extra ...string) *realMesh {
	t.Helper()
	return upWith(t, dir, nil, extra...)
}

// upWith is up with more environment.
func upWith(t *testing.T, dir string, env []string, extra ...string) *realMesh {
	t.Helper()
	fewDocs(t, dir)
	args := append([]string{"up", "--grpc", rpctest.Free(t), "--http", rpctest.Free(t), "--data", "data"}, extra...)
	return launch(t, dir, "mesh", env, args...).mesh(dir)
}

// fewDocs has a short document in dir/docs: where there is no such folder, a mesh reads
// those in the binary at its start, which with the race detector is most of its work.
func fewDocs(t *testing.T, dir string) {
	t.Helper()
	docs := filepath.Join(dir, "docs")
	if err := os.MkdirAll(docs, 0o750); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(docs, "mesh.md")
	if err := os.WriteFile(page, []byte("# The mesh\n\nA user talks to one endpoint.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mesh is the mesh that the process is, once it says where it listens.
func (p *process) mesh(dir string) *realMesh {
	p.t.Helper()
	at := p.shows(`(?s)gRPC +(\S+)\n +HTTP +https?://(\S+)\n.*Ctrl-C stops it`)
	return &realMesh{process: p, dir: dir, data: filepath.Join(dir, "data"), grpc: at[1], http: at[2]}
}

// upPair starts two nodes on one backend, as 'mesh up' would in the folder dir, in the
// test's process; each call goes to any of them.
func upPair(t *testing.T, dir string) *realMesh {
	t.Helper()
	cfg := nodetest.Config(filepath.Join(dir, "data"))
	if err := cfg.Fill(); err != nil {
		t.Fatal(err)
	}
	quiet := nodetest.Options()
	c, err := newCrew(cfg, time.Now, quiet.Logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	pair := nodetest.StartPair(t, cfg, nodeOptions(&cfg, c, quiet.Logger), nil)
	return &realMesh{process: &process{t: t}, dir: dir, data: cfg.Data, pair: pair, conn: pair.Dial(rpc.DialOptions{})}
}

// at are the addresses of any of the mesh's nodes.
func (m *realMesh) at() node.Addresses {
	if m.pair != nil {
		return m.pair.Any()
	}
	return node.Addresses{GRPC: m.grpc, HTTP: m.http}
}

// dial returns a connection to the mesh.
func (m *realMesh) dial() grpc.ClientConnInterface {
	m.t.Helper()
	if m.conn == nil {
		conn, err := rpc.Dial(m.grpc, rpc.DialOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { _ = conn.Close() })
		m.conn = conn
	}
	return m.conn
}

func (m *realMesh) edge() a2apb.A2AServiceClient { return a2apb.NewA2AServiceClient(m.dial()) }

// inThread is a context of a client that knows our extension, for calls in the
// thread.
func inThread(t *testing.T, id string) context.Context {
	return mesh.WithCall(timely(t), mesh.Call{Thread: id, Extensions: []string{mesh.ExtensionURI}})
}

// timely is a context for calls of which none takes long.
func timely(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// log returns all events of the thread.
func (m *realMesh) log(id string) []*meshv1.Event {
	m.t.Helper()
	threads := meshv1.NewThreadServiceClient(m.dial())
	var all []*meshv1.Event
	for after := int64(0); ; after = all[len(all)-1].GetSeq() {
		resp, err := threads.ReadThread(inThread(m.t, id), &meshv1.ReadThreadRequest{ThreadId: id, AfterSeq: after, Limit: 1000})
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, resp.GetEvents()...)
		if !resp.GetMore() || len(all) == 0 {
			return all
		}
	}
}

// A finished is what came of a run of the command.
type finished struct {
	code           int
	stdout, stderr string
}

// mesh runs a client command against the mesh to its end.
func (m *realMesh) mesh(args ...string) finished {
	m.t.Helper()
	return runHere(m.t, map[string]string{"MESH_ADDR": m.at().GRPC}, args...)
}

// runHere runs a command that needs no folder to its end, in the test's own
// process, with that environment.
func runHere(t *testing.T, env map[string]string, args ...string) finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: time.Now, after: time.After}
	return finished{code: a.execute(ctx, args), stdout: stdout.String(), stderr: stderr.String()}
}

// runMesh runs the command in the folder dir to its end.
func runMesh(t *testing.T, dir string, env []string, args ...string) finished {
	t.Helper()
	p := launch(t, dir, "mesh", env, args...)
	_ = p.stdin.Close()
	return finished{code: p.wait(), stdout: p.stdout.String(), stderr: p.stderr.String()}
}

// fails checks that a run ended with the code and one line on stderr that
// matches the pattern.
func (f finished) fails(t *testing.T, code int, pattern string) {
	t.Helper()
	if f.code != code {
		t.Errorf("exit code %d, want %d; stderr: %s", f.code, code, f.stderr)
	}
	line := strings.TrimSuffix(f.stderr, "\n")
	if strings.Contains(line, "\n") || !strings.HasPrefix(line, "mesh: ") {
		t.Errorf("stderr is not one line of the command: %q", f.stderr)
	}
	if !regexp.MustCompile(pattern).MatchString(line) {
		t.Errorf("stderr %q does not match %q", line, pattern)
	}
}

// succeeds checks that a run ended well, and returns its stdout.
func (f finished) succeeds(t *testing.T) string {
	t.Helper()
	if f.code != exitOK {
		t.Fatalf("exit code %d; stdout: %s\nstderr: %s", f.code, f.stdout, f.stderr)
	}
	return f.stdout
}

// asks fails the test unless the command ended because the user has to answer, and
// returns its stdout.
func (f finished) asks(t *testing.T) string {
	t.Helper()
	if f.code != exitWaits {
		t.Fatalf("exit code %d; stdout: %s\nstderr: %s", f.code, f.stdout, f.stderr)
	}
	return f.stdout
}

// files returns the files that match the pattern below the data folder.
func (m *realMesh) files(pattern string) []string {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.data, pattern))
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

// file returns what the one file that matches the pattern holds.
func (m *realMesh) file(pattern string) string {
	m.t.Helper()
	found := m.files(pattern)
	if len(found) != 1 {
		m.t.Fatalf("%s: %d files %v, want one", pattern, len(found), found)
	}
	return readFile(m.t, found[0])
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
