package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/gen/openapi"
)

// generators is where .ci/interop installs what generates clients.
const generators = "../../.build/interop"

// A generated client found this of a mesh.
type foundByClient struct {
	Agents        []string
	Said, State   string
	Thread        bool
	Code          int
	Reason, Heard string
	IDs           bool
}

// describedMesh is a mesh with an agent whose card says no version of A2A, a folder to
// generate in, and what a client that talks to it must find.
func describedMesh(t *testing.T, speaker string) (m *testMesh, dir string, want foundByClient) {
	t.Helper()
	m = start(t, config(t.TempDir()), map[string]run{"main": echo})
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), openapi.JSON, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler()) // it is there, and nobody calls it
	t.Cleanup(server.Close)
	output(t, "", "curl", "-sS", "--fail-with-body", "-H", "Content-Type: application/json", "-d", `{"card":{"name":"forgetful",
	  "description":"Says no version.","version":"1","capabilities":{},
	  "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"s","description":"s","tags":["s"]}],"supportedInterfaces":[{"url":"`+server.URL+`","protocolBinding":"HTTP+JSON"}]}}`,
		"http://"+m.web()+"/mesh/v1/agents")
	return m, dir, foundByClient{
		Agents: []string{"forgetful", "main"}, Said: "You said: by " + speaker, State: "TASK_STATE_COMPLETED", Thread: true,
		Code: 404, Reason: "TASK_NOT_FOUND", Heard: "You said: as a stream", IDs: true,
	}
}

// installed returns the path of what .ci/interop installs, or skips the test.
func installed(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{generators}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v; .ci/interop installs it", err)
	}
	return path
}

// runIn runs a command in a folder and returns what it printed.
func runIn(t *testing.T, dir string, cmd *exec.Cmd, env ...string) []byte {
	t.Helper()
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, problems.Bytes())
	}
	return out
}

func checkFound(t *testing.T, out []byte, want foundByClient) {
	t.Helper()
	var got foundByClient
	parse(t, out, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the client found (-want +got):\n%s", diff)
	}
}

// finding N9: the document is one of OpenAPI 3.1.
func TestInteropTheDocumentIsOpenAPI(t *testing.T) {
	python := installed(t, "py", "bin", "python")
	runIn(t, "../../gen/openapi", program(t, python, "-m", "openapi_spec_validator", "--schema", "3.1", "--validation-errors", "all", "mesh.openapi.json"))
}

// finding N9: what the docs read streams with is what the clients below read them with.
func TestTheReadersOfStreamsInTheDocsAreTested(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for script, reader := range map[string]string{"openapi.py": `(?s)\ndef events.*?\n\n`, "openapi.ts": `(?s)\nasync function\* events.*?\n}\n`} {
		text, err := os.ReadFile(filepath.Join("testdata", script))
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(reader).Find(text); found == nil || !bytes.Contains(page, found) {
			t.Errorf("docs/api.md does not have what reads a stream in testdata/%s:\n%s", script, found)
		}
	}
}

// finding N9: a client that openapi-python-client generated lists agents, also one whose
// card has no version, talks, and reads an error; ten lines read a stream.
func TestInteropAGeneratedPythonClient(t *testing.T) {
	generator := installed(t, "py", "bin", "openapi-python-client")
	python := installed(t, "py", "bin", "python")
	m, dir, want := describedMesh(t, "Python")
	path := filepath.Dir(generator) + string(os.PathListSeparator) + os.Getenv("PATH")
	runIn(t, dir, program(t, generator, "generate", "--path", "openapi.json", "--output-path", "mesh_client", "--meta", "none", "--fail-on-warning"), "PATH="+path)
	script, err := filepath.Abs("testdata/openapi.py")
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, runIn(t, dir, program(t, python, script, "http://"+m.web()), "PYTHONPATH="+dir), want)
}

// finding N9: the same of TypeScript, whose compiler checks what is sent and read.
func TestInteropAGeneratedTypeScriptClient(t *testing.T) {
	modules := installed(t, "js", "node_modules")
	generator := installed(t, "js", "node_modules", "openapi-typescript", "bin", "cli.js")
	compiler := installed(t, "js", "node_modules", "typescript", "bin", "tsc")
	m, dir, want := describedMesh(t, "TypeScript")
	script, err := os.ReadFile("testdata/openapi.ts")
	for name, content := range map[string][]byte{"openapi.ts": script, "package.json": []byte(`{"type":"module"}`)} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err = errors.Join(err, os.Symlink(modules, filepath.Join(dir, "node_modules"))); err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, program(t, "node", generator, "openapi.json", "-o", "mesh.d.ts"))
	runIn(t, dir, program(t, "node", compiler, "--strict", "--target", "es2022", "--module", "nodenext", "--allowImportingTsExtensions",
		"--rewriteRelativeImportExtensions", "--lib", "es2022,dom,dom.asynciterable", "--types", "node", "--skipLibCheck", "openapi.ts"))
	checkFound(t, runIn(t, dir, program(t, "node", "openapi.js", "http://"+m.web())), want)
}

// finding N9: buf curl finds the services by reflection, and reads a stream.
func TestInteropBufCurl(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	call := func(in, method string) []byte {
		t.Helper()
		return output(t, in, "buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", "-d", "@-", "http://"+m.GRPC+"/"+method)
	}
	s := toldBy(t, call(fmt.Sprintf(messageJSON, "b", "by buf"), "lf.a2a.v1.A2AService/SendStreamingMessage"))
	if s.text != "You said: by buf" || s.state != "TASK_STATE_COMPLETED" {
		t.Errorf("the stream told %+v", s)
	}
	var agents struct{ Agents []struct{ Name string } }
	if parse(t, call("{}", "mesh.v1.RegistryService/ListAgents"), &agents); len(agents.Agents) != 1 || agents.Agents[0].Name != "main" {
		t.Errorf("the agents are %+v", agents)
	}
}
