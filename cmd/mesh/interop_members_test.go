package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// member starts a member of the mesh as name, which hands over to target, and
// waits until it has renewed its lease.
func (s sdk) member(t *testing.T, m *realMesh, protos, name, target string) *process {
	t.Helper()
	args := []string{m.grpc, name, target}
	if s.name == "node" {
		args = append([]string{protos}, args...)
	}
	cmd := s.command(t, "member", args...)
	if s.name == "python" {
		cmd.Env = append(cmd.Environ(), "PYTHONPATH="+s.stubs(t, protos))
	}
	p := startProcess(t, cmd)
	p.shows(`registered\n(?s:.*)kept\n(?s:.*)kept\n`)
	return p
}

// stubs makes stubs of the protos and returns their folder.
func (s sdk) stubs(t *testing.T, protos string) string {
	t.Helper()
	out := t.TempDir()
	var names []string
	for _, pattern := range []string{"mesh/v1/*.proto", "mesh/a2a/v1/*.proto"} {
		found, err := filepath.Glob(filepath.Join(protos, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	args := append(append(slices.Clone(s.runs[1:]), "-m", "grpc_tools.protoc", "-I", protos, "--python_out="+out, "--grpc_python_out="+out), names...)
	if said, err := exec.CommandContext(timely(t), s.runs[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}

// Agents in Python and in Node, each in a process of its own, on SDKs that
// nobody here wrote and on what 'mesh protos' writes, register and keep their
// lease, are called, hand the user's stream over to one another, have it for a
// turn of its own, and give it back.
func TestInteropMembersInOtherLanguagesHandOver(t *testing.T) {
	python, node := sdkNamed(t, "python"), sdkNamed(t, "node")
	protos, _ := writtenProtos(t)
	for name, of := range map[string][2]sdk{"Python to Node": {python, node}, "Node to Python": {node, python}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := up(t, t.TempDir(), "--main", "herald")
			herald := of[0].member(t, m, protos, "herald", "scribe")
			of[1].member(t, m, protos, "scribe", "herald")

			id := mesh.NewThreadID()
			var said []string
			for _, text := range []string{"hello", "hand over", "more", "give back", "hello again"} {
				said = append(said, speaker(speakGRPC).complete(t, m, id, text).text)
			}
			want := []string{
				"herald heard: hello",
				"herald hands over.scribe takes over: herald was here.",
				"scribe heard: more",
				"scribe gives back.herald heard: Control returns from scribe (completed). all is said",
				"herald heard: hello again",
			}
			if d := cmp.Diff(want, said); d != "" {
				t.Errorf("the user heard: -want +got\n%s", d)
			}
			checkControl(t, m.log(id))

			if err := herald.stdin.Close(); err != nil { // it ends with its input
				t.Fatal(err)
			}
			herald.shows("gone")
			m.mesh("agents", "show", "herald").fails(t, exitNotFound, "herald not found")
		})
	}
}

// Agents in other languages are dispatched by the mesh's own main agent, and
// their answer is its own.
func TestInteropMembersInOtherLanguagesAreDispatched(t *testing.T) {
	python, node := sdkNamed(t, "python"), sdkNamed(t, "node")
	protos, _ := writtenProtos(t)
	m := up(t, t.TempDir())
	python.member(t, m, protos, "herald", "scribe")
	node.member(t, m, protos, "scribe", "herald")
	for _, name := range []string{"herald", "scribe"} {
		id := mesh.NewThreadID()
		h := speaker(speakGRPC).complete(t, m, id, "Ask "+name+" to greet everybody")
		if !strings.Contains(h.text, name+" heard: ") || !strings.Contains(h.text, "greet everybody") {
			t.Errorf("the answer is %q", h.text)
		}
		i := slices.IndexFunc(dispatches(m.log(id)), func(d dispatched) bool { return d.agent == name && d.by == "agent:main" })
		if i < 0 {
			t.Errorf("main did not dispatch %s: %+v", name, dispatches(m.log(id)))
		}
	}
}

// checkControl checks who gave the stream away, who gave it back, and how.
func checkControl(t *testing.T, log []*meshv1.Event) {
	t.Helper()
	var got []string
	for _, e := range log {
		switch {
		case e.GetHandoffStarted() != nil:
			got = append(got, e.GetActor()+" to "+e.GetHandoffStarted().GetTo())
		case e.GetHandoffEnded() != nil:
			got = append(got, e.GetActor()+" "+e.GetHandoffEnded().GetOutcome())
		}
	}
	if want := []string{"agent:herald to scribe", "agent:scribe completed"}; !slices.Equal(got, want) {
		t.Errorf("the handoff: %s; want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
