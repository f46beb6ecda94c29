package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// needs skips the test where one of the programs that the page runs is not there.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here", name)
		}
	}
}

// finding U5: the tutorials are followed word by word, each with a mesh of its own.
func TestTheTutorialsAreRightWordByWord(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for page, says := range map[string][]string{
		"first-agent-go": {"../agentmesh", root},
		"skill":          nil,
		"documents":      nil,
		"tls":            nil,
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if page == "tls" {
				needs(t, "openssl")
			}
			follow(t, page, says, nil).leave()
		})
	}
}

// A real client of MCP uses the mesh with exactly the configurations of the page, be it by a
// command that it starts or by a URL.
func TestTheTutorialOfMCPClients(t *testing.T) {
	t.Run("mcp-client", func(t *testing.T) {
		t.Parallel()
		needs(t, "openssl")
		r := follow(t, "mcp-client", nil, nil)
		folder := r.folder()
		for _, file := range []string{"claude_desktop_config.json", "cursor.json", "vscode.json"} {
			type server struct {
				Command string
				Args    []string
				Env     map[string]string
				URL     string
				Headers map[string]string
			}
			var config struct{ MCPServers, Servers map[string]server }
			if err := json.Unmarshal([]byte(readFile(t, filepath.Join(folder, file))), &config); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			s, is := config.MCPServers["mesh"]
			if !is {
				s = config.Servers["mesh"]
			}
			var link mcpsdk.Transport = &mcpsdk.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1,
				HTTPClient: &http.Client{Transport: bearer{strings.TrimPrefix(s.Headers["Authorization"], "Bearer ")}}}
			if s.Command != "" {
				cmd := exec.CommandContext(t.Context(), filepath.Join(r.home, "bin", s.Command), s.Args...)
				cmd.Env = commandEnv("mesh")
				for name, value := range s.Env {
					cmd.Env = append(cmd.Env, name+"="+value)
				}
				link = &mcpsdk.CommandTransport{Command: cmd}
			}
			session, err := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, nil).Connect(timely(t), link, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			ann := person{realMesh: &realMesh{process: &process{t: t}}}
			if names := ann.tools(timely(t), session); !slices.Contains(names, "tasks-create") {
				t.Errorf("%s: it has the tools %v", file, names)
			}
			if text, failed := ann.callTool(timely(t), session, "tasks-create", map[string]any{"title": "Call Ann"}); failed || !strings.Contains(text, "Call Ann") {
				t.Errorf("%s: a call says %q", file, text)
			}
			if err := session.Close(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		r.leave()
	})
}

// The page of a real model is followed with a model that has a key, a list of models, and
// answers as those of OpenAI do.
func TestTheTutorialOfARealModel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SSL_CERT_FILE, by which the page's endpoint is believed, is for Linux")
	}
	t.Run("real-model", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Authorization") != "Bearer sk-proj-1234567890" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if req.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[{"id":"gpt-4.1"},{"id":"gpt-4.1-mini"}]}`)
				return
			}
			var asked modelRequest
			if err := json.NewDecoder(req.Body).Decode(&asked); err != nil || asked.Model != "gpt-4.1-mini" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			reply := modelReply{text: "I am the main agent of this mesh.", usage: &modelUsage{Prompt: 4000, Completion: 20}}
			if asked.offers("report_ok") {
				reply = modelReply{calls: []modelCall{{name: "report_ok", args: map[string]any{}}}}
			}
			w.Header().Set("Content-Type", "text/event-stream")
			reply.write(w, asked.Model, 1)
		}))
		t.Cleanup(s.Close)
		authority := filepath.Join(t.TempDir(), "authority.pem")
		writeFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
		says := []string{"https://api.openai.com/v1", s.URL + "/v1"}
		follow(t, "real-model", says, []string{"MESH_MODEL_PROBE=true", "SSL_CERT_FILE=" + authority}).leave()
	})
}

// The agent in Python is on the official SDK, in the version that .ci/interop installs.
func TestInteropTheTutorialInPython(t *testing.T) {
	t.Run("first-agent-python", func(t *testing.T) {
		t.Parallel()
		python := sdkNamed(t, "python").runs[0]
		version := regexp.MustCompile(`a2a-sdk\[.*?\]==[\d.]+`)
		installed := version.FindString(readFile(t, "../../.ci/interop"))
		if page := readFile(t, "../../docs/tutorials/first-agent-python.md"); !strings.Contains(page, installed[strings.Index(installed, "=="):]) {
			t.Errorf("the page does not install %s", installed)
		}
		follow(t, "first-agent-python", nil, []string{"PATH=" + filepath.Dir(python)}).leave()
	})
}

// The proxy is nginx, as it comes with Debian, and curl and the command go through it.
func TestInteropTheTutorialOfAProxy(t *testing.T) {
	t.Run("proxy", func(t *testing.T) {
		t.Parallel()
		needs(t, "nginx", "openssl", "curl") // .ci/interop installs nginx
		follow(t, "proxy", nil, nil).leave()
	})
}
