package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh/llm/probe"
	"agentmesh/mesh/rpc/rpctest"
)

// finding U3: at a terminal 'mesh init' asks for what no flag says. What is wrong is told in
// words, and can be said again; a key is not on the screen, and in the file only if that is
// wanted. A mesh with another key starts all the same, and an alarm says what is wrong.
func TestInitAtATerminal(t *testing.T) {
	t.Parallel()
	const key = "sesame-4711"
	url, dir := startKeyed(t, key), t.TempDir()
	p := launchAtTerminal(t, dir, nil, "init")
	at := 0
	say := func(question, answer string) {
		t.Helper()
		_, at = p.await(&p.stdout, at, question+`$`)
		p.enter(answer + "\r")
	}
	say(`URL[^\n]*: `, url)
	say(`Key, which is not shown \(Enter for none\): `, "sesame-0000")
	say(`Write it there\? \[y/N\] `, "")
	say(`✗ key: the endpoint refuses the key \(401\)\r\n  set the key[^\n]*\n(?s:.*)\[a\] `, "a")
	say(`URL[^\n]*: `, url)
	say(`Key[^\n]*: `, key)
	say(`Write it there\? \[y/N\] `, "n")
	say(`  big\r\n  tiny\r\nModel \(Enter for big\): `, "")
	say(`✓ tools\r\nFolder of documents[^\n]*: `, "nowhere")
	say(`docs: names the folder[^\n]*\r\nFolder of documents[^\n]*: `, "")
	p.await(&p.stdout, at, `mesh.yaml is written.\r\nNext:\r\n  export MESH_LLM_KEY=…\r\n  mesh up\r\n  mesh chat`)
	if code := p.wait(); code != exitOK || strings.Contains(p.stdout.String(), "sesame") {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, defaultConfig))
	if err != nil || !strings.Contains(string(text), "  url: \""+url+"\"\n  name: \"big\"\n  key: \"${MESH_LLM_KEY}\"") {
		t.Errorf("%v; the file is\n%s", err, text)
	}
	runMesh(t, dir, []string{"MESH_LLM_KEY=" + key}, "config", "check").succeeds(t)

	p = launchAtTerminal(t, t.TempDir(), nil, "init")
	p.shows(`URL[^\n]*: $`)
	p.enter("\x03")
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d; screen: %s", code, p.stdout.String())
	}

	m := upWith(t, dir, []string{"MESH_LLM_KEY=sesame-0000", "MESH_MODEL_PROBE=true"})
	m.await(&m.stderr, 0, `an alarm was raised`)
	out := m.mesh("status").succeeds(t)
	if !strings.Contains(out, " model: agents that ask this model fail") || !strings.Contains(out, "the endpoint refuses the key (401): set model.key (MESH_LLM_KEY)") {
		t.Errorf("the status is %s", out)
	}
	if all := m.stderr.String() + m.stdout.String() + out; strings.Contains(all, "sesame") {
		t.Errorf("the key is told: %s", all)
	}
}

// What serves models on this machine is proposed, and Enter takes it; "none" takes nothing.
func TestInitProposesWhatServesOnThisMachine(t *testing.T) {
	t.Parallel()
	url := startKeyed(t, "")
	for answer, want := range map[string]string{"": url, "none": "", "http://other/v1": "http://other/v1"} {
		person, program := pseudoTerminal(t)
		var said bytes.Buffer
		s := &setup{app: &app{stdin: program, stdout: &said, stderr: program, asks: true}, locals: []probe.Local{{Name: "Nobody", URL: "http://" + rpctest.Free(t) + "/v1"}, {Name: "Ollama", URL: url}}}
		s.who = s.respondent()
		asked := make(chan error)
		go func() { asked <- s.askURL(t.Context()) }() // the test waits
		var screen []byte
		for !bytes.HasSuffix(screen, []byte("none for no model): ")) {
			key := make([]byte, 1)
			if _, err := person.Read(key); err != nil {
				t.Fatal(err)
			}
			screen = append(screen, key...)
		}
		if _, err := person.WriteString(answer + "\r"); err != nil {
			t.Fatal(err)
		}
		if err := <-asked; err != nil || s.url != want || !strings.HasSuffix(said.String(), "  Ollama answers at "+url+", with 2 models\n") {
			t.Errorf("%v; the URL is %q; said: %s%s", err, s.url, said.String(), screen)
		}
	}
}
