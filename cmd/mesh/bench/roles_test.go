//go:build linux

package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
)

// roleEnv makes this binary one of the processes that take part, and toEnv says
// whom it calls.
const (
	roleEnv = "BENCH_ROLE"
	toEnv   = "BENCH_TO"
)

// roles are what the processes do. Each says on a line "ready" and where it is.
var roles = map[string]func(to string) error{
	"agent": serveAgent,
	"hop":   serveHop,
	"sdk":   serveSDK,
	"log":   writeLog,
	"model": serveModel,
}

func TestMain(m *testing.M) {
	play := roles[os.Getenv(roleEnv)]
	if play == nil {
		os.Exit(m.Run())
	}
	if err := play(os.Getenv(toEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A question is what an agent is asked for: so many chunks, one every so often,
// the first after a while. It is found in whatever the mesh says before it to the
// next agent.
type question struct {
	chunks       int
	every, after time.Duration
	size         int // of a chunk, in bytes: its number, when it was said, and dots; 0 is smallest
}

// smallest is the least that a chunk can be, and piece what our runtime does not put together
// with others.
const (
	smallest = 32
	piece    = 2 << 10
)

var asked = regexp.MustCompile(`chunks=(\d+) every=(\S+) after=(\S+) please(?: of (\d+) bytes)?`)

func (q question) String() string {
	s := fmt.Sprintf("chunks=%d every=%v after=%v please", q.chunks, q.every, q.after)
	if q.size != 0 {
		s += fmt.Sprintf(" of %d bytes", q.size)
	}
	return s
}

func questionOf(text string) (q question, err error) {
	at := asked.FindStringSubmatch(text)
	if at == nil {
		return q, fmt.Errorf("no question: %q", text)
	}
	var errs [4]error
	q.chunks, errs[0] = strconv.Atoi(at[1])
	q.every, errs[1] = time.ParseDuration(at[2])
	q.after, errs[2] = time.ParseDuration(at[3])
	if at[4] != "" {
		q.size, errs[3] = strconv.Atoi(at[4])
	}
	return q, errors.Join(errs[:]...)
}

// texts yields the chunks.
func (q question) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		time.Sleep(q.after)
		for i := range q.chunks {
			if q.every > 0 {
				time.Sleep(q.every)
			}
			if text := fmt.Sprintf("%08d %019d ", i, time.Now().UnixNano()); !yield(text + strings.Repeat(".", max(q.size, smallest)-len(text))) {
				return
			}
		}
	}
}

// numberOf is the chunk's number, and saidAt when it was said.
func numberOf(text string) (int, error) {
	if len(text) < smallest {
		return 0, fmt.Errorf("a chunk of %d bytes: %q", len(text), text)
	}
	return strconv.Atoi(text[:8])
}

func saidAt(text string) (time.Time, error) {
	nanos, err := strconv.ParseInt(text[9:28], 10, 64)
	return time.Unix(0, nanos), err
}

// waiting asks for a task that waits for its user.
const waiting = "wait for me"

// bareAgent is an agent of nothing but generated types, which knows of no mesh.
type bareAgent struct {
	a2apb.UnimplementedA2AServiceServer
	cuts cuts
}

func (a *bareAgent) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	if text := textOf(req.GetMessage().GetParts()); strings.HasPrefix(text, cutWord) {
		return a.cutOff(text, req.GetMessage().GetContextId(), stream)
	}
	return answer(req, stream.Send)
}

// answer says what is asked for.
func answer(req *a2apb.SendMessageRequest, send func(*a2apb.StreamResponse) error) error {
	thread := req.GetMessage().GetContextId()
	if thread == "" {
		thread = mesh.NewThreadID()
	}
	task := &a2apb.Task{Id: mesh.NewEventID(), ContextId: thread, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	text := textOf(req.GetMessage().GetParts())
	if err := send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	end := a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	if !strings.Contains(text, waiting) {
		q, err := questionOf(text)
		if err != nil {
			return err
		}
		more := false
		for text := range q.texts() {
			u := &a2apb.TaskArtifactUpdateEvent{TaskId: task.Id, ContextId: thread, Artifact: artifact(text), Append: more}
			if err := send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}); err != nil {
				return err
			}
			more = true
		}
		end = a2apb.TaskState_TASK_STATE_COMPLETED
	}
	return send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: task.Id, ContextId: thread, Status: &a2apb.TaskStatus{State: end}}}})
}

// cutOff works on a task until all of its time are over, or nobody listens.
func (a *bareAgent) cutOff(text, thread string, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	task := &a2apb.Task{Id: text + "-" + mesh.NewEventID(), ContextId: thread, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	select {
	case <-a.cuts.of(text):
	case <-stream.Context().Done():
	}
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: task.Id, ContextId: thread, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}}}})
}

// GetTask is asked for tasks that are cut off, also by a mesh that has heard nothing of one
// for a while. They have come to their end when somebody wants to follow one.
func (a *bareAgent) GetTask(_ context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if !strings.HasPrefix(req.GetId(), cutWord) {
		return nil, status.Error(codes.NotFound, "there is no such task")
	}
	select {
	case <-a.cuts.of(req.GetId()):
	default:
		return &a2apb.Task{Id: req.GetId(), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}, nil
	}
	return &a2apb.Task{Id: req.GetId(), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}, Artifacts: []*a2apb.Artifact{artifact("done")}}, nil
}

// SubscribeToTask is the least that a stream can be that waits. Tasks that were cut off have
// come to their end.
func (a *bareAgent) SubscribeToTask(req *a2apb.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	if strings.HasPrefix(req.GetId(), cutWord) {
		a.cuts.end(req.GetId())
		return status.Error(codes.FailedPrecondition, "the task is over")
	}
	task := &a2apb.Task{Id: req.GetId(), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func artifact(text string) *a2apb.Artifact {
	return &a2apb.Artifact{ArtifactId: "out", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}

func textOf(parts []*a2apb.Part) string {
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.GetText())
	}
	return all.String()
}

// serve serves what register adds, says so, and returns when the input ends.
func serve(register func(s *grpc.Server, address string)) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	register(s, l.Addr().String())
	go func() { // ends with the server
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	fmt.Printf("ready %s\n", l.Addr())
	return s.Serve(l)
}

// bindings are those of the agent, by the path of their card.
var bindings = map[string]string{"": "GRPC", "jsonrpc": "JSONRPC", "rest": "HTTP+JSON"}

// serveWeb serves the cards of the agent, whose gRPC is at the address, and the agent itself
// where they say that it is.
func serveWeb(web net.Listener, address string) error {
	mux := http.NewServeMux()
	for path, binding := range bindings {
		at := address
		if path != "" {
			at = "http://" + web.Addr().String() + "/" + path
		}
		card, err := protojson.Marshal(plainCard("bench "+path, at, binding))
		if err != nil {
			return err
		}
		mux.HandleFunc("GET "+strings.TrimSuffix("/"+path, "/")+"/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(card)
		})
	}
	mux.HandleFunc("POST /rest/message:stream", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		stream(w, body, err, "%s")
	})
	mux.HandleFunc("POST /jsonrpc", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Params json.RawMessage
		}
		err := json.NewDecoder(r.Body).Decode(&call)
		stream(w, call.Params, err, `{"jsonrpc":"2.0","id":`+strings.ReplaceAll(string(call.ID), "%", "%%")+`,"result":%s}`)
	})
	return http.Serve(web, mux)
}

// stream answers with server-sent events of the form.
func stream(w http.ResponseWriter, body []byte, err error, form string) {
	req := &a2apb.SendMessageRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_ = answer(req, func(r *a2apb.StreamResponse) error { // whoever asked may be gone
		data, err := protojson.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintf(w, "data: "+form+"\n\n", data)
		}
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		return err
	})
}

// serveAgent serves the agent in all bindings.
func serveAgent(string) error {
	web, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return serve(func(s *grpc.Server, address string) {
		a2apb.RegisterA2AServiceServer(s, &bareAgent{})
		go func() { _ = serveWeb(web, address) }() // ends with the process
		fmt.Printf("card http://%s\n", web.Addr())
	})
}

func plainCard(name, address, binding string) *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: name, Description: "Says what it is asked for", Version: "1.0.0",
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: address, ProtocolBinding: binding, ProtocolVersion: "1.0"}},
		Capabilities:        &a2apb.AgentCapabilities{Streaming: new(true)},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "say", Name: "Say", Description: "Says it", Tags: []string{"say"}}},
	}
}

// bareHop passes calls on and does nothing else.
type bareHop struct {
	a2apb.UnimplementedA2AServiceServer
	to a2apb.A2AServiceClient
}

func (h bareHop) SendStreamingMessage(req *a2apb.SendMessageRequest, out grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	in, err := h.to.SendStreamingMessage(out.Context(), req)
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = in.Recv(); err == nil {
			err = out.Send(r)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func serveHop(to string) error {
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	return serve(func(s *grpc.Server, _ string) {
		a2apb.RegisterA2AServiceServer(s, bareHop{to: a2apb.NewA2AServiceClient(conn)})
	})
}

// sdkAgent is the same agent within a2a-go's own server.
type sdkAgent struct{}

func (sdkAgent) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		q, err := questionOf(x.Message.Parts[0].Text())
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		more := false
		for text := range q.texts() {
			e := sdk.NewArtifactUpdateEvent(x, "out", sdk.NewTextPart(text))
			e.Append = more
			more = true
			if !yield(e, nil) {
				return
			}
		}
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
	}
}

func (sdkAgent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

func serveSDK(string) error {
	return serve(func(s *grpc.Server, _ string) { a2agrpc.NewHandler(a2asrv.NewHandler(sdkAgent{})).RegisterWith(s) })
}
