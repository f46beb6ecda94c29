package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// A joined is an agent of a framework in a process of its own, in a mesh.
type joined struct {
	*framework
	trial
	m     *realMesh
	model *talkModel
	name  string // in the mesh
	url   string // of its card
	port  string
	proc  *process
}

// asAgent are what agents are tried for, in this order.
var asAgent = []scenario[*joined]{
	{"join", (*joined).joins}, {"talk", (*joined).talks}, {"remember", (*joined).remembers}, {"stream", (*joined).streams},
	{"data in", (*joined).readsData}, {"files in", (*joined).readsFiles}, {"files or data out", (*joined).draws},
	{"question and answer", (*joined).asks}, {"cancel", (*joined).cancels}, {"error", (*joined).fails},
	{"credentials", (*joined).wantsCredentials}, {"restarted", (*joined).restarts},
}

// agentOf starts the framework's agent and a mesh.
func agentOf(t *testing.T, f *framework) *joined {
	t.Helper()
	_, port, _ := net.SplitHostPort(rpctest.Free(t)) // for the agent
	j := &joined{framework: f, trial: trial{t}, m: up(t, f.home(t)), model: startTalkModel(t), name: "theirs", port: port}
	j.proc = j.start(port)
	return j
}

// home returns a folder for a mesh, with its settings.
func (f *framework) home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), f.settings)
	return dir
}

// start starts the agent on the port, with more arguments.
func (j *joined) start(port string, more ...string) *process {
	j.t.Helper()
	p := startProcess(j.t, j.command(j.t, j.agent, append([]string{port, j.model.URL + "/v1"}, more...)...))
	j.url = "http://127.0.0.1:" + port + p.shows(`(?m)^ready ?(\S*)$`)[1]
	return p
}

// spoken is what a user heard of a turn.
type spoken struct {
	task      string
	state     mesh.TaskState
	artifacts []*a2apb.Artifact
	status    []*a2apb.Part
}

// text is that of artifacts and status messages.
func (s *spoken) text() string { return partsText(s.parts()) + partsText(s.status) }

// parts are those of the artifacts.
func (s *spoken) parts() (all []*a2apb.Part) {
	for _, a := range s.artifacts {
		all = append(all, a.GetParts()...)
	}
	return all
}

// String is for messages of tests.
func (s *spoken) String() string { return fmt.Sprintf("%v %q", s.state, s.text()) }

func (s *spoken) add(u *a2apb.StreamResponse) {
	status := u.GetStatusUpdate().GetStatus()
	if task := u.GetTask(); task != nil {
		s.task, status = task.GetId(), task.GetStatus()
	}
	if status != nil {
		s.state = status.GetState()
		s.status = append(s.status, status.GetMessage().GetParts()...)
	}
	update := u.GetArtifactUpdate()
	if update == nil {
		return
	}
	at := slices.IndexFunc(s.artifacts, func(a *a2apb.Artifact) bool { return a.GetArtifactId() == update.GetArtifact().GetArtifactId() })
	switch {
	case at < 0:
		s.artifacts = append(s.artifacts, proto.CloneOf(update.GetArtifact()))
	case update.GetAppend():
		s.artifacts[at].Parts = append(s.artifacts[at].Parts, update.GetArtifact().GetParts()...)
	default:
		s.artifacts[at] = proto.CloneOf(update.GetArtifact())
	}
}

func textPart(text string) *a2apb.Part { return &a2apb.Part{Content: &a2apb.Part_Text{Text: text}} }

func dataPart(t *testing.T, v any) *a2apb.Part {
	t.Helper()
	value, err := structpb.NewValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return &a2apb.Part{Content: &a2apb.Part_Data{Data: value}}
}

// say sends a message to the agent and hears the turn to its end; each is called with
// every update.
func (j *joined) say(agent, thread string, each func(*spoken), parts ...*a2apb.Part) (*spoken, error) {
	call := mesh.Call{Thread: thread, Agent: agent, Extensions: []string{mesh.ExtensionURI}}
	ctx, cancel := context.WithTimeout(mesh.WithCall(j.t.Context(), call), testTime)
	defer cancel()
	req := userMessage(thread, "")
	req.Message.Parts = parts
	stream, err := j.m.edge().SendStreamingMessage(ctx, req)
	heard := &spoken{}
	for err == nil {
		var u *a2apb.StreamResponse
		if u, err = stream.Recv(); err == nil {
			heard.add(u)
			if each != nil {
				each(heard)
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return heard, err
}

// completes says one text after the other in one thread, and returns the last answer.
func (j *joined) completes(thread string, parts ...*a2apb.Part) (heard *spoken, err error) {
	heard, err = j.say(j.name, thread, nil, parts...)
	if err == nil && heard.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		err = fmt.Errorf("the turn ended %v", heard)
	}
	return heard, err
}

// answers is completes of an answer that must have the words.
func (j *joined) answers(words []string, parts ...*a2apb.Part) error {
	heard, err := j.completes(mesh.NewThreadID(), parts...)
	if err == nil {
		err = heard.has(words...)
	}
	return err
}

func (s *spoken) has(words ...string) error {
	for _, w := range words {
		if !strings.Contains(s.text(), w) {
			return fmt.Errorf("the answer does not say %q: %v", w, s)
		}
	}
	return nil
}

func (j *joined) joins() error {
	if done := j.m.mesh("agents", "add", j.url, "--name", j.name); done.code != exitOK {
		return errors.New(strings.TrimSpace(done.stderr))
	}
	return nil
}

func (j *joined) talks() error { return j.answers([]string{"heard: ", "hello"}, textPart("hello")) }

func (j *joined) remembers() error {
	thread := mesh.NewThreadID()
	for _, text := range []string{"my colour is teal", "my number is 4711"} {
		if _, err := j.completes(thread, textPart(text)); err != nil {
			return err
		}
	}
	heard, err := j.completes(thread, textPart("what do you know?"))
	if err == nil {
		err = heard.has("teal", "4711")
	}
	return err
}

// streams sees whether the user hears the first word while the model holds the second.
func (j *joined) streams() error {
	h := j.model.hold()
	defer h.release()
	late := time.AfterFunc(streamTime, h.release)
	defer late.Stop()
	early := false
	heard, err := j.say(j.name, mesh.NewThreadID(), func(s *spoken) {
		if strings.Contains(s.text(), "first") && !strings.Contains(s.text(), "second") {
			early = late.Stop() // the model still held the rest
			h.release()
		}
	}, textPart(saysSlowly))
	switch {
	case err != nil:
		return err
	case h.whole:
		return errors.New("it has its model answer at once")
	case !early:
		return errors.New("the first word came with the last")
	}
	return heard.has("first second")
}

func (j *joined) readsData() error {
	return j.answers([]string{"4217"}, textPart("see this"), dataPart(j.t, map[string]any{"order": "4217"}))
}

func (j *joined) readsFiles() error {
	return j.answers([]string{"["}, textPart("see this"),
		&a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte(tinyPNG)}, MediaType: "image/png", Filename: "tiny.png"})
}

func (j *joined) draws() error {
	heard, err := j.completes(mesh.NewThreadID(), textPart(saysChart))
	if err != nil {
		return err
	}
	for _, p := range heard.parts() {
		if _, text := p.GetContent().(*a2apb.Part_Text); !text {
			return nil
		}
	}
	return fmt.Errorf("there is nothing but text: %v", heard)
}

func (j *joined) asks() error {
	thread := mesh.NewThreadID()
	asked, err := j.say(j.name, thread, nil, textPart(saysAsk))
	if err != nil || asked.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		return errors.Join(err, fmt.Errorf("the turn ended %v", asked))
	}
	if shown := fmt.Sprint(jsonOf(asked.status), jsonOf(asked.parts())); !strings.Contains(shown, theQuestion) {
		return fmt.Errorf("the question is not shown: %v", shown)
	}
	answer := textPart("very loud")
	if j.answer != nil {
		answer = j.answer(j.t, asked)
	}
	heard, err := j.completes(thread, answer)
	if err == nil {
		err = heard.has("answered: ", "very loud")
	}
	return err
}

// jsonOf is how users of JSON see the parts.
func jsonOf(parts []*a2apb.Part) []string {
	var all []string
	for _, p := range parts {
		all = append(all, protojson.Format(p))
	}
	return all
}

// cancels sees whether the user's cancel reaches what the framework does.
func (j *joined) cancels() error {
	h := j.model.hold()
	defer h.release()
	type end struct {
		heard *spoken
		err   error
	}
	task, over := make(chan string, 1), make(chan end, 1)
	go func() {
		heard, err := j.say(j.name, mesh.NewThreadID(), func(s *spoken) {
			select {
			case task <- s.task:
			default:
			}
		}, textPart(saysSlowly))
		over <- end{heard, err}
	}()
	select {
	case <-h.reached:
	case e := <-over:
		return errors.Join(e.err, fmt.Errorf("it ended before its model was asked: %v", e.heard))
	}
	_, err := j.m.edge().CancelTask(mesh.WithCall(timely(j.t), mesh.Call{Agent: j.name}), &a2apb.CancelTaskRequest{Id: <-task})
	if err != nil {
		return err
	}
	if e := <-over; e.err != nil || e.heard.state != a2apb.TaskState_TASK_STATE_CANCELED {
		return errors.Join(e.err, fmt.Errorf("the turn ended %v", e.heard))
	}
	select {
	case <-h.dropped:
		return nil
	case <-time.After(streamTime):
		return errors.New("its model works on")
	}
}

func (j *joined) fails() error {
	heard, err := j.say(j.name, mesh.NewThreadID(), nil, textPart(saysFail))
	if err == nil && heard.state != a2apb.TaskState_TASK_STATE_FAILED {
		err = fmt.Errorf("the turn ended %v", heard)
	}
	return err
}

func (j *joined) restarts() error {
	thread := mesh.NewThreadID()
	if _, err := j.completes(thread, textPart("hello")); err != nil {
		return err
	}
	j.proc.kill9()
	j.proc = j.start(j.port)
	watch, err := meshv1.NewRegistryServiceClient(j.m.dial()).WatchAgents(timely(j.t), &meshv1.WatchAgentsRequest{})
	for live := false; err == nil && !live; { // the mesh looks from time to time
		var change *meshv1.WatchAgentsResponse
		if change, err = watch.Recv(); err == nil {
			live = change.GetAgent().GetName() == j.name && change.GetAgent().GetLive()
		}
	}
	if err != nil {
		return err
	}
	heard, err := j.completes(thread, textPart("hello again"))
	if err == nil {
		err = heard.has("heard: ", "hello again")
	}
	return err
}

// program returns a run of the framework's program.
func (f *framework) command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.runs(program), append(f.before(t, program), args...)...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "OTEL_SDK_DISABLED=true",
		"CREWAI_DISABLE_TELEMETRY=true", "CREWAI_TRACING_ENABLED=false", "LANGSMITH_TRACING=false", "NO_COLOR=1", "HOME="+cmd.Dir)
	return cmd
}

// wantsCredentials joins an agent that lets in only who has a token.
func (j *joined) wantsCredentials() error {
	_, port, _ := net.SplitHostPort(rpctest.Free(j.t)) // for the agent
	const token = "open-sesame"
	j.start(port, token)
	file := filepath.Join(j.t.TempDir(), "token")
	writeFile(j.t, file, token+"\n")
	if done := j.m.mesh("agents", "add", j.url, "--name", "closed", "--credential", "bearer=file:"+file); done.code != exitOK {
		return errors.New(strings.TrimSpace(done.stderr))
	}
	heard, err := j.say("closed", mesh.NewThreadID(), nil, textPart("hello"))
	if err == nil {
		err = heard.has("heard: ", "hello")
	}
	return err
}
