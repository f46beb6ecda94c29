package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc/rpctest"
)

// asCast makes the test binary an agent: one that has the stream first and gives it to who
// is named in the message, or one that gets it. What it does then is in the message, too.
const asCast = "cast"

// Kinds of agents in a process of their own.
const (
	castLead      = "lead"      // ours, which hands over
	castOurs      = "ours"      // ours
	castStreaming = "streaming" // of others, A2A v1.0, on the official SDK's server
	castUnary     = "unary"     // the same without streams
	castV03       = "v03"       // of others, A2A v0.3
	castRogue     = "rogue"     // of others, which keeps to no protocol
)

var castKinds = []string{castOurs, castStreaming, castUnary, castV03}

var (
	castTo  = regexp.MustCompile(`\bto=([a-z0-9-]+)`)
	castAct = regexp.MustCompile(`\bact=([a-z-]+)`)
)

func found(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// runCast is the process: MESH_CAST has its kind, its name and where it listens.
func runCast() int {
	var kind, name, at string
	_, err := fmt.Sscan(os.Getenv("MESH_CAST"), &kind, &name, &at)
	if err == nil {
		switch kind {
		case castLead, castOurs:
			err = agent.Serve(context.Background(), agent.Options{Agent: ownCast{kind, name}, NodeAddr: os.Getenv("MESH_ADDR"), Addr: at,
				Register: &agent.Registration{Name: name}, Ready: func(string) { fmt.Println("ready") }})
		default:
			err = foreignCast(kind, name, at)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dies is a crash of this process.
func dies() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill() // it is there
	}
	select {}
}

// beforeEnd is how long an agent gives its words to be heard before it dies or falls silent.
const beforeEnd = 200 * time.Millisecond

// ownCast is an agent on our runtime.
type ownCast struct{ kind, name string }

func (c ownCast) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "The " + c.name, Description: "Plays a part", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: c.name, Name: c.name, Description: "Plays a part", Tags: []string{"part"}}},
	}
}

func (c ownCast) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		var err error
		say := func(text string) bool { return yield(agent.Text{Text: text}, nil) }
		if c.kind == castLead {
			err = leads(ctx, inv, say)
		} else {
			err = c.plays(ctx, inv, say, yield)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// leads hands over to who is named, and says how control came back.
func leads(ctx context.Context, inv *agent.Invocation, say func(string) bool) error {
	to := found(castTo, inv.Text())
	switch {
	case inv.Returned != nil:
		say("Back: " + inv.Returned.GetState() + ".")
		return nil
	case to == "":
		say("Lead heard: " + inv.Text())
		return nil
	case !say("One moment. "):
		return nil
	case found(castAct, inv.Text()) == "race":
		races(ctx, inv, strings.Split(to, "-or-"))
		return nil
	}
	_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: to, Reason: "asked for", ContextSummary: "What was said"})
	if err != nil && ctx.Err() == nil && !mesh.IsCode(err, mesh.Unknown) {
		say("Refused: " + mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err))
		return nil
	}
	return err
}

// races hands over to each of them many times at once, and prints what came of it.
func races(ctx context.Context, inv *agent.Invocation, to []string) {
	outcomes := make([]string, racers)
	var all sync.WaitGroup
	for i := range outcomes {
		all.Go(func() {
			ctx := context.WithoutCancel(ctx) // who has lost the stream still hears the answer
			_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: to[i%len(to)], Reason: "asked for", ContextSummary: "What was said"})
			outcomes[i] = "won"
			if err != nil {
				outcomes[i] = mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)
			}
		})
	}
	all.Wait()
	for _, o := range outcomes {
		fmt.Println("racer", o)
	}
	fmt.Println("raced")
}

// racers are how many start a handoff at once.
const racers = 100

func (c ownCast) plays(ctx context.Context, inv *agent.Invocation, say func(string) bool, yield func(agent.Output, error) bool) error {
	end := func(outcome string) error {
		_, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Outcome: outcome, Summary: "all is said"})
		return err
	}
	act := found(castAct, inv.Text())
	if act == "die-first" && !inv.Continued {
		dies()
	}
	if act == "silent" {
		<-ctx.Done()
		return ctx.Err()
	}
	if !say("Here is "+c.name+". ") || !say("I do it. ") {
		return nil
	}
	switch act {
	case "cancel":
		return end("cancelled")
	case "fail":
		return mesh.Errorf(mesh.Precondition, "cast", "there is no coal")
	case "die":
		time.Sleep(beforeEnd)
		dies()
	case "die-once":
		if !inv.Continued {
			time.Sleep(beforeEnd)
			dies()
		}
	case "hang", "wait":
		<-ctx.Done()
		return ctx.Err()
	case "slow":
		time.Sleep(time.Second)
	case "show":
		if !yield(agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: "gallery", Parts: galleryParts()}}, nil) {
			return nil
		}
	case "panic":
		panic("there is no coal")
	case "ask", "race":
		yield(agent.Ask{Text: "Which one?"}, nil)
		return nil
	}
	return end("completed")
}

// foreignCast serves an agent that knows A2A and nothing of the mesh.
func foreignCast(kind, name, at string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
	if err != nil {
		return err
	}
	heard := make(chan bool, 1)
	handler := a2asrv.NewHandler(plainCast{name, heard})
	version, rpc := "1.0", a2asrv.NewJSONRPCHandler(handler)
	switch kind {
	case castV03:
		version, rpc = "0.3", a2av0.NewJSONRPCHandler(handler)
	case castRogue:
		rpc = http.HandlerFunc(serveRogue)
	}
	url := "http://" + l.Addr().String()
	card := map[string]any{
		"name": name, "description": "Plays a part", "version": "1.0.0",
		"capabilities":      map[string]any{"streaming": kind != castUnary},
		"defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills": []any{map[string]any{"id": name, "name": name, "description": "Plays a part", "tags": []string{"part"}}},
	}
	if kind == castV03 {
		card["protocolVersion"], card["url"], card["preferredTransport"] = version, url, "JSONRPC"
	} else {
		card["supportedInterfaces"] = []any{map[string]any{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}}
	}
	fmt.Println("ready")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // #nosec G114 -- of a test
		if r.URL.Path != "/.well-known/agent-card.json" {
			rpc.ServeHTTP(heardWriter{w, heard}, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(card)
	}))
}

// plainCast is an agent on the official SDK's server.
type plainCast struct {
	name  string
	heard <-chan bool // has one when all its words were written to somebody
}

// A heardWriter tells when an answer has the last words of a plainCast: who asks for them time
// and again hears them later than others.
type heardWriter struct {
	http.ResponseWriter
	heard chan<- bool
}

func (w heardWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	if bytes.Contains(b, []byte("I do it. ")) {
		select {
		case w.heard <- true:
		default: // it was told
		}
	}
	return n, err
}

func (w heardWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (c plainCast) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, p := range ec.Message.Parts {
			text += p.Text()
		}
		act := found(castAct, text)
		switch act {
		case "die-first":
			dies()
		case "mute": // not even a task
			<-ctx.Done()
			return
		}
		status := func(s a2a.TaskState, words string) bool {
			var m *a2a.Message
			if words != "" {
				m = a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words))
			}
			return yield(a2a.NewStatusUpdateEvent(ec, s, m), nil)
		}
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) || !status(a2a.TaskStateWorking, "") {
			return
		}
		if act == "silent" {
			<-ctx.Done()
			return
		}
		first := a2a.NewArtifactEvent(ec, a2a.NewTextPart("Here is "+c.name+". "))
		if !yield(first, nil) || !yield(a2a.NewArtifactUpdateEvent(ec, first.Artifact.ID, a2a.NewTextPart("I do it. ")), nil) {
			return
		}
		switch act {
		case "cancel":
			status(a2a.TaskStateCanceled, "")
		case "fail":
			status(a2a.TaskStateFailed, "there is no coal")
		case "die":
			<-c.heard
			time.Sleep(beforeEnd)
			dies()
		case "hang", "wait":
			<-ctx.Done()
		case "panic":
			panic("there is no coal")
		case "ask":
			status(a2a.TaskStateInputRequired, "Which one?")
		case "give":
			_ = yield(a2a.NewArtifactEvent(ec, sdkGallery()...), nil) && status(a2a.TaskStateCompleted, "")
		case "show":
			asks := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("Is it this one?"), sdkGallery()[0])
			_ = yield(a2a.NewArtifactEvent(ec, sdkGallery()...), nil) && yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, asks), nil)
		case "slow":
			time.Sleep(time.Second)
			status(a2a.TaskStateCompleted, "")
		default:
			status(a2a.TaskStateCompleted, "")
		}
	}
}

func (plainCast) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// serveRogue answers each method in a way that A2A does not have.
func serveRogue(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     any
		Method string
		Params json.RawMessage
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(result string) {
		id, err := json.Marshal(req.ID)
		if err != nil {
			id = []byte("null")
		}
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result)
		_ = http.NewResponseController(w).Flush()
	}
	if !strings.HasPrefix(req.Method, "SendStreaming") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"no such task"}}`, req.ID)
		return
	}
	const task = `"taskId":"t1","contextId":"c1"`
	switch found(castAct, string(req.Params)) {
	case "garble": // no JSON at all
		_, _ = fmt.Fprint(w, "data: <html>it works</html>\n\n")
	case "empty": // nothing
	case "nothing": // an update without content
		event(`{}`)
	case "foreign": // of a task that nobody asked for
		event(`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`)
		event(`{"artifactUpdate":{"taskId":"other","contextId":"c1","artifact":{"artifactId":"a","parts":[{"text":"not for you"}]}}}`)
	case "forget": // its own task
		event(`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`)
		event(`{"artifactUpdate":{` + task + `,"artifact":{"artifactId":"a","parts":[{"text":"I do it. "}]}}}`)
	case "twice": // an end, and on
		event(`{"artifactUpdate":{` + task + `,"artifact":{"artifactId":"a","parts":[{"text":"I do it. "}]}}}`)
		event(`{"statusUpdate":{` + task + `,"status":{"state":"TASK_STATE_FAILED"}}}`)
		event(`{"artifactUpdate":{` + task + `,"artifact":{"artifactId":"b","parts":[{"text":"and more"}]}}}`)
		event(`{"statusUpdate":{` + task + `,"status":{"state":"TASK_STATE_COMPLETED"}}}`)
	}
}

// A castMember is an agent of a mesh in a process of its own.
type castMember struct {
	*process
	kind, name, at string
}

// cast starts an agent and has the mesh know it.
func (m *realMesh) cast(t *testing.T, kind, name string) *castMember {
	t.Helper()
	c := &castMember{kind: kind, name: name, at: rpctest.Free(t)}
	c.up(t, m)
	if kind != castLead && kind != castOurs {
		_, err := meshv1.NewRegistryServiceClient(m.dial()).RegisterAgent(mesh.WithCall(timely(t), mesh.Call{}), &meshv1.RegisterAgentRequest{Name: name, CardUrl: "http://" + c.at})
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// up starts the agent's process, or starts it again where it was.
func (c *castMember) up(t *testing.T, m *realMesh) {
	t.Helper()
	c.process = launch(t, t.TempDir(), asCast, []string{"MESH_ADDR=" + m.grpc, fmt.Sprintf("MESH_CAST=%s %s %s", c.kind, c.name, c.at)})
	c.shows("ready")
}

// gone waits for the end of the process.
func (c *castMember) gone() {
	c.t.Helper()
	c.wait()
	if !errors.Is(c.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		c.t.Errorf("%s is still there", c.name)
	}
}
