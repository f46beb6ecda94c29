package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startKeyed serves a model, big, that answers and calls tools, to who has the key.
func startKeyed(t *testing.T, key string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model string
			Tools []any
		}
		switch {
		case r.Header.Get("Authorization") != strings.TrimSuffix("Bearer "+key, "Bearer "):
			w.WriteHeader(http.StatusUnauthorized)
			return
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"data":[{"id":"tiny"},{"id":"big"}]}`)
			return
		case json.NewDecoder(r.Body).Decode(&req) != nil || req.Model != "big":
			w.WriteHeader(http.StatusNotFound)
			return
		}
		delta := `{"content":"OK"}`
		if len(req.Tools) > 0 {
			delta = `{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"report_ok","arguments":"{}"}}]}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", delta)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// finding U3: without a terminal 'mesh init' goes by flags and says which are missing; what
// it writes passes 'mesh config check', is for its user alone, and has no key unless that is
// wanted.
func TestInitWithoutATerminal(t *testing.T) {
	t.Parallel()
	const key = "sesame-4711"
	url, open := startKeyed(t, key), startKeyed(t, "")
	keyFile, docs := filepath.Join(t.TempDir(), "key"), t.TempDir()
	writeFile(t, keyFile, key+"\n")
	writeFile(t, filepath.Join(docs, "page.md"), "# A page\n")
	hasKey := []string{"OUR_KEY=" + key}
	tests := map[string]struct {
		env, args []string
		code      int
		says      string // of stdout and stderr
		file      string // what the file has; "" for no file
	}{
		"nothing":                   {nil, nil, exitUsage, "--model-url, --model: cannot be asked for here", ""},
		"no model":                  {nil, []string{"--model-url", url}, exitUsage, "--model: cannot be asked for here", ""},
		"offline":                   {nil, []string{"--offline", "--docs", docs}, exitOK, "Next:\n  mesh up", "docs: \"" + docs + "\""},
		"an endpoint without a key": {nil, []string{"--model-url", open, "--model", "big"}, exitOK, "✓ tools", "  url: \"" + open + "\"\n  name: \"big\"\n  # key"},
		"a key of a variable":       {hasKey, []string{"--model-url", url, "--model", "big", "--model-key-env", "OUR_KEY"}, exitOK, "✓ tools", `key: "${OUR_KEY}"`},
		"a variable that is not set": {nil, []string{"--model-url", url, "--model", "big", "--model-key-env", "OUR_KEY"}, exitUsage,
			"--model-key-env: names OUR_KEY, which is not set", ""},
		"a key on the command line": {nil, []string{"--model-url", url, "--model", "big", "--model-key-env", key}, exitUsage, "must be the name of a variable", ""},
		"a key of a file":           {nil, []string{"--model-url", url, "--model", "big", "--model-key-file", keyFile}, exitOK, "✓ tools", "key: \"" + key + "\""},
		"the variables of a mesh":   {[]string{"MESH_LLM_URL=" + url, "MESH_LLM_MODEL=big", "MESH_LLM_KEY=" + key}, nil, exitOK, "✓ tools", `key: "${MESH_LLM_KEY}"`},
		"no key": {nil, []string{"--model-url", url, "--model", "big"}, exitFailure,
			"✗ key: the endpoint wants a key (401), and there is none\n  set MESH_LLM_KEY\n", ""},
		"no key, all the same":      {nil, []string{"--model-url", url, "--model", "big", "--yes"}, exitOK, "✗ key: ", "  name: \"big\"\n"},
		"a model that there is not": {hasKey, []string{"--model-url", url, "--model", "bigg", "--model-key-env", "OUR_KEY"}, exitFailure, "no model bigg; it has big, tiny\n  set --model", ""},
		"folders that there are not": {nil, []string{"--offline", "--docs", "nowhere"}, exitUsage,
			"docs: names the folder", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, defaultConfig)
			run := func(args ...string) finished {
				if tt.env == nil {
					return runHere(t, nil, append(args, "--config", path)...)
				}
				return runMesh(t, dir, tt.env, args...) // variables in files are those of the process
			}
			f := run(append([]string{"init"}, tt.args...)...)
			if f.code != tt.code || !strings.Contains(f.stdout+f.stderr, tt.says) || strings.Contains(f.stdout+f.stderr, key) {
				t.Errorf("exit code %d: %s%s", f.code, f.stdout, f.stderr)
			}
			text, err := os.ReadFile(path)
			if tt.file == "" {
				if all, _ := os.ReadDir(dir); len(all) > 0 {
					t.Errorf("there is %v", all)
				}
				return
			}
			if err != nil || !strings.Contains(string(text), tt.file) || strings.Contains(string(text), key) != strings.Contains(tt.file, key) {
				t.Errorf("%v; the file is\n%s", err, text)
			}
			run("config", "check").succeeds(t)
		})
	}
}

// What is there is written anew only if that is wanted, and then for its user alone, however
// it was before.
func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, defaultConfig)
	if err := os.WriteFile(path, []byte("main: other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := runHere(t, nil, "init", "--offline", "--config", path)
	if text, _ := os.ReadFile(path); f.code != exitFailure || !strings.Contains(f.stderr, "--force") || string(text) != "main: other\n" {
		t.Errorf("exit code %d: %s; the file is %q", f.code, f.stderr, text)
	}
	runHere(t, nil, "init", "--offline", "--config", path, "--force").succeeds(t)
	info, err := os.Stat(path)
	if all, _ := os.ReadDir(dir); err != nil || info.Mode().Perm() != 0o600 || len(all) != 1 {
		t.Errorf("%v, %v, and there is %v", info.Mode(), err, all)
	}
}
