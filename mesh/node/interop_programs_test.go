package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// program returns a command, or skips the test where there is no such program.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s on this machine", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	return cmd
}

// output runs a program and returns what it printed.
func output(t *testing.T, stdin, name string, args ...string) []byte {
	t.Helper()
	cmd := program(t, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, problems.Bytes())
	}
	return out
}

// An update is what JSON clients see of a StreamResponse.
type update struct {
	Task, StatusUpdate struct {
		ID, ContextID string
		Status        struct{ State string }
		Artifacts     []jsonArtifact
	}
	ArtifactUpdate struct{ Artifact jsonArtifact }
}

type jsonArtifact struct{ Parts []struct{ Text string } }

func (a jsonArtifact) text() string {
	text := ""
	for _, p := range a.Parts {
		text += p.Text
	}
	return text
}

// jsonSaid is what a stream of updates in JSON told.
type jsonSaid struct{ task, state, text string }

func (s *jsonSaid) add(u update) {
	s.task += u.Task.ID
	s.text += u.ArtifactUpdate.Artifact.text()
	for _, a := range u.Task.Artifacts {
		s.text += a.text()
	}
	if state := u.Task.Status.State + u.StatusUpdate.Status.State; state != "" {
		s.state = state
	}
}

const messageJSON = `{"message": {"messageId": "m-%s", "role": "ROLE_USER", "parts": [{"text": %q}]}}`

// curl talks to the REST binding as its documentation says, and reads streams
// as server-sent events.
func TestInteropCurl(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	curl := func(args ...string) []byte {
		t.Helper()
		args[len(args)-1] = "http://" + m.web() + args[len(args)-1]
		return output(t, "", "curl", append([]string{"-sS", "-N", "--fail-with-body"}, args...)...)
	}
	post := func(id, text string) []string {
		return []string{"-H", "Content-Type: application/json", "-d", fmt.Sprintf(messageJSON, id, text)}
	}

	var sent update
	parse(t, curl(append(post("1", "by curl"), "/message:send")...), &sent)
	if sent.Task.Status.State != "TASK_STATE_COMPLETED" || sent.Task.Artifacts[0].text() != "You said: by curl" {
		t.Errorf("message:send answered %+v", sent)
	}

	events, ids := serverSent(t, curl(append(post("2", "as a stream"), "/message:stream")...))
	if events.text != "You said: as a stream" || events.state != "TASK_STATE_COMPLETED" {
		t.Errorf("message:stream told %+v", events)
	}
	later, rest := serverSent(t, curl("-H", "Last-Event-ID: "+ids[0], "/tasks/"+events.task+":subscribe"))
	if later.text != events.text || !slices.Equal(rest[1:], ids[1:]) {
		t.Errorf("from %s on there was %+v with the ids %v, want %v", ids[0], later, rest, ids[1:])
	}

	var task struct {
		ID     string
		Status struct{ State string }
	}
	parse(t, curl("/tasks/"+events.task), &task)
	if task.ID != events.task || task.Status.State != "TASK_STATE_COMPLETED" {
		t.Errorf("the task is %+v", task)
	}
	var card struct {
		Name                string
		SupportedInterfaces []struct{ URL, ProtocolBinding, ProtocolVersion string }
	}
	parse(t, curl("/.well-known/agent-card.json"), &card)
	offers := map[string]string{}
	for _, i := range card.SupportedInterfaces {
		offers[i.ProtocolBinding+" "+i.ProtocolVersion] = i.URL
	}
	for _, binding := range []string{"GRPC", "HTTP+JSON", "JSONRPC"} {
		for _, version := range []string{"1.0", "0.3"} {
			if offers[binding+" "+version] == "" {
				t.Errorf("%s offers no %s in version %s: %v", card.Name, binding, version, offers)
			}
		}
	}
	curl("/healthz")
}

func parse(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// serverSent reads events and their ids, which every event must have.
func serverSent(t *testing.T, data []byte) (s jsonSaid, ids []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
		id, rest, ok := strings.Cut(block, "\n")
		if !ok || !strings.HasPrefix(id, "id: ") || !strings.HasPrefix(rest, "data: ") {
			t.Fatalf("an event that is none: %q", block)
		}
		ids = append(ids, strings.TrimPrefix(id, "id: "))
		var u update
		parse(t, []byte(strings.TrimPrefix(rest, "data: ")), &u)
		s.add(u)
	}
	return s, ids
}

// toldBy reads the updates of a stream, one JSON value after the other.
func toldBy(t *testing.T, out []byte) (s jsonSaid) {
	t.Helper()
	for stream := json.NewDecoder(bytes.NewReader(out)); ; {
		var u update
		if err := stream.Decode(&u); errors.Is(err, io.EOF) {
			return s
		} else if err != nil {
			t.Fatal(err)
		}
		s.add(u)
	}
}

// grpcurl finds the services by reflection and calls them with JSON.
func TestInteropGrpcurl(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	call := func(in, method string) []byte {
		t.Helper()
		return output(t, in, "grpcurl", "-plaintext", "-d", "@", m.GRPC, method)
	}
	list := string(output(t, "", "grpcurl", "-plaintext", m.GRPC, "list"))
	for _, name := range []string{"lf.a2a.v1.A2AService", "mesh.v1.ThreadService", "grpc.health.v1.Health"} {
		if !strings.Contains(list, name) {
			t.Errorf("%s is not listed: %s", name, list)
		}
	}
	var health struct{ Status string }
	if parse(t, call("{}", "grpc.health.v1.Health/Check"), &health); health.Status != "SERVING" {
		t.Errorf("health: %+v", health)
	}
	s := toldBy(t, call(fmt.Sprintf(messageJSON, "g", "by grpcurl"), "lf.a2a.v1.A2AService/SendStreamingMessage"))
	if s.text != "You said: by grpcurl" || s.state != "TASK_STATE_COMPLETED" {
		t.Errorf("the stream told %+v", s)
	}
	var task struct{ Status struct{ State string } }
	if parse(t, call(fmt.Sprintf(`{"id": %q}`, s.task), "lf.a2a.v1.A2AService/GetTask"), &task); task.Status.State != "TASK_STATE_COMPLETED" {
		t.Errorf("the task is %+v", task)
	}
}

// Programs in other languages, without any library, read a stream, lose it,
// resume it with Last-Event-ID, and get the task.
func TestInteropProgramsResumeServerSentEvents(t *testing.T) {
	for name, script := range map[string]string{"python3": "testdata/sse.py", "node": "testdata/sse.mjs"} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, 6)
			m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
			cmd := program(t, name, script, "http://"+m.web(), "from "+name, "3")
			var problems bytes.Buffer
			cmd.Stderr = &problems
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := cmd.Wait(); err != nil {
					t.Errorf("%s: %v\n%s", name, err, problems.Bytes())
				}
			}()
			lines := bufio.NewScanner(out)
			g.let(3)
			if !lines.Scan() || lines.Text() != "dropped" {
				t.Errorf("%s said %q, want dropped", name, lines.Text())
				return
			}
			g.let(3)
			if !lines.Scan() {
				t.Errorf("%s says nothing more", name)
				return
			}
			var got struct {
				Before, After, Stored, State string
				IDs                          []int
			}
			parse(t, lines.Bytes(), &got)
			whole := g.whole("from " + name)
			if got.Before == "" || got.Before+got.After != whole || got.Stored != whole || got.State != "TASK_STATE_COMPLETED" {
				t.Errorf("it heard %+v, want %q", got, whole)
			}
			if !slices.IsSorted(got.IDs) || len(slices.Compact(slices.Clone(got.IDs))) != len(got.IDs) || len(got.IDs) < 12 {
				t.Errorf("the ids of its events are %v", got.IDs)
			}
		})
	}
}
