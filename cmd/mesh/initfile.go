package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"agentmesh/mesh"
)

// newConfig is a mesh.yaml. What it does not set is there as a comment.
var newConfig = template.Must(template.New("mesh.yaml").Funcs(template.FuncMap{"quote": quoted}).Parse(`# The settings of this mesh, for 'mesh up' in this folder. All there are, and what holds
# where one is not set, is in docs/configuration.md of agentmesh. Variables MESH_* and flags
# win over this file.
#
#   mesh config check    what is wrong with this file
#   mesh doctor          whether what it names works

# The language model: an endpoint that speaks the protocols of OpenAI.
{{- if .Offline}}
# There is none: the offline planner works by rules, and needs no network.
#
# model:
#   url: "https://api.openai.com/v1"
#   name: "gpt-4.1-mini"
#   key: "${MESH_LLM_KEY}"   # taken from the environment
{{- else}}
model:
  url: {{quote .URL}}
  name: {{quote .Model}}
{{- if .Key}}
  key: {{quote .Key}}{{if .FromEnv}}   # taken from the environment{{end}}
{{- else}}
  # key: "${MESH_LLM_KEY}"   # taken from the environment
{{- end}}
{{- end}}
#   fallbacks:               # asked in order when the model fails
#     - {url: "http://127.0.0.1:11434/v1", name: "llama3.2"}

# The folder of documents that questions are answered from{{if not .Docs}}; by default, those about the mesh{{end}}.
{{if .Docs}}docs: {{quote .Docs}}{{else}}# docs: "handbook"{{end}}

# Where conversations and all else is kept.
# data: ".agentmesh"

# Who may call: nobody but this machine. On a network callers say who they are, as with
# auth: tokens and tokens: tokens.yaml ('mesh token hash'), over tls: {mode: auto}.
# auth: none
# grpc: "127.0.0.1:7420"
# http: "127.0.0.1:7480"
`))

// quoted is a text as YAML has it on one line: as JSON does.
func quoted(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// text is the file.
func (s *setup) text() ([]byte, error) {
	docs, key, fromEnv := s.docs, s.key, false
	if docs != "" && filepath.Dir(s.file) != "." { // paths in a file are below its folder
		abs, err := filepath.Abs(docs)
		if err != nil {
			return nil, err
		}
		docs = abs
	}
	if key != "" && !s.keep {
		key, fromEnv = "${"+s.keyEnv+"}", true
	}
	var b bytes.Buffer
	err := newConfig.Execute(&b, map[string]any{"Offline": s.offline, "URL": s.url, "Model": s.model, "Key": key, "FromEnv": fromEnv, "Docs": docs})
	return b.Bytes(), err
}

// write writes the file, whole or not at all, so that only the user can read it.
func (s *setup) write() (err error) {
	const op = "mesh.init"
	text, err := s.text()
	if err != nil {
		return err
	}
	defer func() {
		var at *fs.PathError
		var between *os.LinkError
		switch {
		case errors.Is(err, fs.ErrExist) && !s.force:
			err = mesh.Errorf(mesh.Precondition, op, "%s is there by now; write it anew with --force", s.file)
		case errors.As(err, &at):
			err = mesh.Errorf(mesh.Precondition, op, "%s cannot be written; look at its folder: %v", s.file, at.Err)
		case errors.As(err, &between):
			err = mesh.Errorf(mesh.Precondition, op, "%s cannot be written; look at its folder: %v", s.file, between.Err)
		}
	}()
	to, err := os.CreateTemp(filepath.Dir(s.file), ".mesh-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(to.Name()) }() // gone by its other name, if all went well
	_, err = to.Write(text)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	if !s.force { // a link does not replace what is there; not all file systems have links
		if err = os.Link(to.Name(), s.file); err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return os.Rename(to.Name(), s.file)
}
