package node_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
)

// obedient does what the first word of a message says: ask, wait, or repeat.
func obedient(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		switch first, _, _ := strings.Cut(inv.Text(), " "); first {
		case "ask":
			yield(agent.Ask{Text: "Which one?"}, nil)
		case "wait":
			if yield(agent.Text{Text: "I wait"}, nil) {
				<-ctx.Done()
				yield(nil, ctx.Err())
			}
		default:
			yield(agent.Text{Text: "You said: " + inv.Text()}, nil)
		}
	}
}

// A play is a scenario under way: calls over one binding, and what came of
// them in words that are the same for all bindings.
type play struct {
	t      *testing.T
	client a2apb.A2AServiceClient // the eleven operations, over whichever binding
	thread string
	lines  []string
	names  map[string]string // of ids, for the words
}

func (p *play) note(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// ctx is that of a client that knows only A2A, with headers.
func (p *play) ctx(headers ...string) context.Context {
	return metadata.NewOutgoingContext(plain(p.t), metadata.Pairs(headers...))
}

// say is a message to the play's own context.
func (p *play) say(text string) *a2apb.SendMessageRequest {
	req := say(text)
	req.Message.ContextId = p.thread
	return req
}

// task names a task by when it was seen first, and tells all of it.
func (p *play) task(what string, t *a2apb.Task, err error) *a2apb.Task {
	if p.failed(what, err) {
		return t
	}
	if t.GetContextId() != p.thread {
		p.note("%s: context %s", what, t.GetContextId())
	}
	text := ""
	for _, a := range t.GetArtifacts() {
		text += textOf(a.GetParts())
	}
	p.note("%s: %s %s %q after %q", what, p.name(t.GetId()), stateOf(t.GetStatus()), text, history(t))
	return t
}

func (p *play) name(id string) string {
	if p.names[id] == "" {
		p.names[id] = fmt.Sprint("t", len(p.names)+1)
	}
	return p.names[id]
}

func stateOf(s *a2apb.TaskStatus) string {
	return strings.TrimPrefix(s.GetState().String(), "TASK_STATE_")
}

// failed tells an error: its code, reason and field.
func (p *play) failed(what string, err error) bool {
	if err == nil {
		return false
	}
	st := status.Convert(err)
	reason, field := "", ""
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == "a2a-protocol.org" {
				reason = d.GetReason()
			}
		case *errdetails.BadRequest:
			field = d.GetFieldViolations()[0].GetField()
		}
	}
	if reason == "INVALID_ARGUMENT" { // in JSON-RPC, whose errors all have a reason; it is none of A2A's
		reason = ""
	}
	p.note("%s: %v %s (%s)", what, st.Code(), reason, field)
	if st.Message() == "" {
		p.note("%s: no words", what)
	}
	return true
}

// events tells a stream to its end; text of pieces is joined.
func (p *play) events(what string, s grpc.ServerStreamingClient[a2apb.StreamResponse], err error) {
	text := ""
	flush := func() {
		if text != "" {
			p.note("%s: text %q", what, text)
		}
		text = ""
	}
	defer flush()
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = s.Recv(); err != nil {
			break
		}
		if u := r.GetArtifactUpdate(); u != nil {
			text += textOf(u.GetArtifact().GetParts())
			continue
		}
		flush()
		if t := r.GetTask(); t != nil {
			p.task(what, t, nil)
			continue
		}
		p.note("%s: %s %q", what, stateOf(r.GetStatusUpdate().GetStatus()), textOf(r.GetStatusUpdate().GetStatus().GetMessage().GetParts()))
	}
	if err != io.EOF {
		flush()
		p.failed(what, err)
	}
}

func (p *play) send(what string, req *a2apb.SendMessageRequest, headers ...string) *a2apb.Task {
	res, err := p.client.SendMessage(p.ctx(headers...), req)
	return p.task(what, res.GetTask(), err)
}

func (p *play) get(what, id string, length *int32) {
	t, err := p.client.GetTask(p.ctx(), &a2apb.GetTaskRequest{Id: id, HistoryLength: length})
	p.task(what, t, err)
}

func (p *play) cancel(what, id string) {
	t, err := p.client.CancelTask(p.ctx(), &a2apb.CancelTaskRequest{Id: id})
	p.task(what, t, err)
}

func (p *play) list(what string, req *a2apb.ListTasksRequest) *a2apb.ListTasksResponse {
	if req.ContextId == "" {
		req.ContextId = p.thread
	}
	res, err := p.client.ListTasks(p.ctx(), req)
	if p.failed(what, err) {
		return res
	}
	var names []string
	for _, t := range res.GetTasks() {
		names = append(names, p.name(t.GetId())+" "+stateOf(t.GetStatus()))
		if t.GetArtifacts() != nil && !req.GetIncludeArtifacts() {
			p.note("%s: has artifacts", what)
		}
	}
	p.note("%s: %q of %d by %d, more: %v", what, names, res.GetTotalSize(), res.GetPageSize(), res.GetNextPageToken() != "")
	return res
}

// A scenario plays over every binding and must come out the same.
type scenario struct {
	play func(p *play)
	want []string
}

// S4-002, S4-061: the operations of A2A mean the same over every
// binding, in what they do and in what they refuse (A2A v1.0 §5.1).
func TestTheBindingsDoTheSame(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": obedient})
	conns := m.bindings(t)
	for name, s := range scenarios() {
		for binding, conn := range conns {
			t.Run(name+" over "+binding, func(t *testing.T) {
				p := &play{t: t, client: a2apb.NewA2AServiceClient(conn), thread: mesh.NewThreadID(), names: map[string]string{}}
				s.play(p)
				if diff := cmp.Diff(s.want, p.lines); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The same message sent a hundred times at once, over all bindings, is one
// message and one execution (A2A v1.0 §3.3.1).
func TestAMessageThatIsSentAHundredTimesAtOnceIsWorkedOnOnce(t *testing.T) {
	var mu sync.Mutex
	runs := 0
	m := start(t, config(t.TempDir()), map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		mu.Lock()
		runs++
		mu.Unlock()
		return echo(ctx, inv)
	}})
	var clients []a2apb.A2AServiceClient
	for _, conn := range m.bindings(t) {
		clients = append(clients, a2apb.NewA2AServiceClient(conn))
	}
	ctx := plain(t)
	req := say("only once")
	req.Message.ContextId = mesh.NewThreadID()
	ids := make([]string, 100)
	var sending sync.WaitGroup
	for i := range ids {
		sending.Go(func() {
			res, err := clients[i%len(clients)].SendMessage(ctx, proto.CloneOf(req))
			if err != nil || res.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("send %d: %v, %v", i, res, err)
			}
			ids[i] = res.GetTask().GetId()
		})
	}
	sending.Wait()
	if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != 1 || runs != 1 {
		t.Errorf("it made the tasks %q, and the agent ran %d times", distinct, runs)
	}
	all, err := clients[0].ListTasks(ctx, &a2apb.ListTasksRequest{})
	if err != nil || all.GetTotalSize() != 1 || len(all.GetTasks()[0].GetHistory()) != 1 {
		t.Errorf("the list has %v, %v", all, err)
	}
}

// unknownTask is the id of a task that there is not.
func unknownTask(p *play) string { return string(mesh.NewExecutionID(p.thread)) }

func size(n int32) *int32 { return &n }

// seqs tells whether the updates of a stream have cursors.
func (p *play) seqs(what string, headers ...string) {
	s, err := p.client.SendStreamingMessage(p.ctx(headers...), p.say("hello"))
	with, without := 0, 0
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = s.Recv(); err == nil {
			if _, ok := a2a.SeqOf(r); ok {
				with++
			} else {
				without++
			}
		}
	}
	p.note("%s: cursors: %v, none: %v", what, with > 0, without > 0)
}

func after(t *a2apb.Task) *timestamppb.Timestamp {
	return timestamppb.New(t.GetStatus().GetTimestamp().AsTime().Add(1))
}
