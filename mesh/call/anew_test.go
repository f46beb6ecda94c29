package call_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
)

// in is the response as of a context.
func in(id string, r *a2apb.StreamResponse) *a2apb.StreamResponse {
	r = proto.CloneOf(r)
	switch p := r.Payload.(type) {
	case *a2apb.StreamResponse_Task:
		p.Task.ContextId = id
	case *a2apb.StreamResponse_StatusUpdate:
		p.StatusUpdate.ContextId = id
	case *a2apb.StreamResponse_ArtifactUpdate:
		p.ArtifactUpdate.ContextId = id
	case *a2apb.StreamResponse_Message:
		p.Message.ContextId = id
	}
	return r
}

// finding N1: the agent's context is known from the first that it says, whatever that is.
func TestTheAgentsContextIsLearned(t *testing.T) {
	t.Parallel()
	asked := func(id string) func(*call.Request) { return func(r *call.Request) { r.Message.ContextId = id } }
	for name, tt := range map[string]struct {
		change func(*call.Request)
		says   []*a2apb.StreamResponse
		want   []string
	}{
		"a task":              {asked(""), []*a2apb.StreamResponse{in("A", task("t", working)), status1("t", completed, "")}, []string{"working A", "completed"}},
		"a task that is over": {asked(""), []*a2apb.StreamResponse{in("A", task("own", completed, "a"))}, []string{"working own A", `new a "whole a"`, "completed"}},
		"a message alone":     {asked(""), []*a2apb.StreamResponse{in("A", says("", "m1", "hi"))}, []string{"working A", `new message-m1 "hi"`, "completed"}},
		"a status first":      {asked(""), []*a2apb.StreamResponse{in("A", status1("own", completed, "")), task("own", completed)}, []string{"working own A", "completed"}},
		"output first":        {asked(""), []*a2apb.StreamResponse{in("A", piece("t", "a", "x", false)), in("A", task("t", completed))}, []string{"working A", `new a "x"`, "completed"}},
		"none at first":       {asked(""), []*a2apb.StreamResponse{in("", task("t", working)), in("A", status1("t", completed, ""))}, []string{"working", "working A", "completed"}},
		"that of the message": {asked("A"), []*a2apb.StreamResponse{in("A", task("t", completed))}, []string{"completed"}},
		"another":             {asked("A"), []*a2apb.StreamResponse{in("B", task("t", completed))}, []string{"working B", "completed"}},
		"of another task":     {asked(""), []*a2apb.StreamResponse{in("", task("t", working)), in("A", piece("other", "a", "x", false)), in("", status1("t", completed, ""))}, []string{"working", "completed"}},
		"one in a stream":     {asked(""), []*a2apb.StreamResponse{in("A", task("t", working)), in("B", status1("t", completed, ""))}, []string{"working A", "completed"}},
		"unary":               {func(r *call.Request) { r.Message.ContextId, r.Unary = "", true }, []*a2apb.StreamResponse{in("A", says("", "m1", "hi"))}, []string{"working A", `new message-m1 "hi"`, "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request()
			tt.change(&req)
			got := lines(collect(t.Context(), serve(t, &actor{says: script(tt.says...)}), req))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A loser is an agent that has lost its contexts: it refuses all messages in one.
type loser struct {
	a2apb.UnimplementedA2AServiceServer
	refuses func(n int) error // the message that is the nth
	begins  bool              // it says something first
	mu      sync.Mutex
	got     []*a2apb.Message
}

func (l *loser) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	l.mu.Lock()
	l.got = append(l.got, req.Message)
	n := len(l.got)
	l.mu.Unlock()
	if l.begins {
		if err := stream.Send(task("t", working)); err != nil {
			return err
		}
	}
	if err := l.refuses(n); err != nil {
		return err
	}
	return stream.Send(in("B", task("t", completed)))
}

func (l *loser) SendMessage(_ context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, req.Message)
	if err := l.refuses(len(l.got)); err != nil {
		return nil, err
	}
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: in("B", task("t", completed)).GetTask()}}, nil
}

// onlyFirst refuses the first message alone.
func onlyFirst(err error) func(int) error {
	return func(n int) error {
		if n == 1 {
			return err
		}
		return nil
	}
}

func withReason(code codes.Code, domain, reason string) error {
	st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: reason})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// remembered is a request in the context A, whose agent was told something before.
func remembered() call.Request {
	req := request()
	req.Message.ContextId = "A"
	req.Recall = func(context.Context) (string, error) { return "before", nil }
	return req
}

// finding N1: a message that is refused for what may be its context is sent once more, in
// a new one, after what the agent knew; what has begun, or was refused for something else,
// is not.
func TestARefusedContextIsReplacedOnce(t *testing.T) {
	t.Parallel()
	refused := status.Error(codes.NotFound, "no")
	replaced := []string{"working CONTEXT_REPLACED", "working B", "completed"}
	for name, tt := range map[string]struct {
		loser  *loser
		change func(*call.Request)
		want   []string // nil for one message
	}{
		"not found":                   {loser: &loser{refuses: onlyFirst(refused)}, want: replaced},
		"invalid":                     {loser: &loser{refuses: onlyFirst(status.Error(codes.InvalidArgument, "no"))}, want: replaced},
		"no such task":                {loser: &loser{refuses: onlyFirst(withReason(codes.NotFound, rpc.ErrorDomain, "TASK_NOT_FOUND"))}, want: replaced},
		"for a reason of its own":     {loser: &loser{refuses: onlyFirst(withReason(codes.InvalidArgument, "agent.example", "X"))}, want: replaced},
		"unary":                       {loser: &loser{refuses: onlyFirst(refused)}, change: unary, want: replaced},
		"twice":                       {loser: &loser{refuses: func(int) error { return refused }}, want: []string{"working CONTEXT_REPLACED", "failed TASK_NOT_FOUND"}},
		"for its content":             {loser: &loser{refuses: onlyFirst(withReason(codes.InvalidArgument, rpc.ErrorDomain, "CONTENT_TYPE_NOT_SUPPORTED"))}},
		"for its user":                {loser: &loser{refuses: onlyFirst(status.Error(codes.PermissionDenied, "no"))}},
		"its state":                   {loser: &loser{refuses: onlyFirst(status.Error(codes.FailedPrecondition, "no"))}},
		"it broke":                    {loser: &loser{refuses: onlyFirst(status.Error(codes.Internal, "no"))}},
		"it went":                     {loser: &loser{refuses: onlyFirst(status.Error(codes.Unavailable, "no"))}},
		"it had begun":                {loser: &loser{refuses: onlyFirst(refused), begins: true}},
		"a context that is not known": {loser: &loser{refuses: onlyFirst(refused)}, change: func(r *call.Request) { r.Recall = nil }},
		"what was said cannot be read": {loser: &loser{refuses: onlyFirst(refused)}, change: func(r *call.Request) {
			r.Recall = func(context.Context) (string, error) { return "", errors.New("no disk") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := remembered()
			if tt.change != nil {
				tt.change(&req)
			}
			sent := proto.CloneOf(req.Message)
			got := collect(t.Context(), serveAs(t, tt.loser), req)
			if !proto.Equal(sent, req.Message) {
				t.Errorf("the caller's message has become %v", req.Message)
			}
			if tt.want == nil {
				if len(tt.loser.got) != 1 || slices.ContainsFunc(lines(got), func(l string) bool { return strings.Contains(l, "REPLACED") }) {
					t.Errorf("it was sent %d times: %q", len(tt.loser.got), lines(got))
				}
				return
			}
			for i, l := range lines(got) {
				if i >= len(tt.want) || !strings.HasPrefix(l, tt.want[i]) {
					t.Fatalf("got %q", lines(got))
				}
			}
			if len(tt.loser.got) != 2 || len(got) != len(tt.want) {
				t.Fatalf("it was sent %d times: %q", len(tt.loser.got), lines(got))
			}
			sent.ContextId, sent.Parts = "", append(text("before"), sent.Parts...)
			if again := tt.loser.got[1]; !proto.Equal(again, sent) {
				t.Errorf("sent again was %v", again)
			}
		})
	}
}

// finding N1: so it is in every binding and version.
func TestARefusedContextIsReplacedInEveryBinding(t *testing.T) {
	t.Parallel()
	for refusal, err := range map[string]error{"no such task": a2a.ErrTaskNotFound, "invalid": a2a.ErrInvalidParams} {
		var mu sync.Mutex
		var contexts []string
		f := foreign(t, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			mu.Lock()
			contexts = append(contexts, ec.Message.ContextID)
			mu.Unlock()
			if ec.Message.ContextID == "A" {
				yield(nil, err)
				return
			}
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("well")), nil)
		})
		for _, binding := range bindings {
			for _, one := range []bool{false, true} {
				contexts = nil
				req := remembered()
				req.Unary = one
				got := lines(collect(t.Context(), f.client(t, f.at(binding)), req))
				if len(contexts) != 2 || contexts[1] != "" || got[len(got)-1] != "completed" || !strings.Contains(got[0], mesh.ReasonReplaced) {
					t.Errorf("%s, %s, unary %v: asked in %q, heard %q", refusal, binding, one, contexts, got)
				}
			}
		}
	}
}

// finding N1: where a server refuses without words of A2A, its HTTP status counts.
func TestARefusalByHTTPStatusReplacesTheContext(t *testing.T) {
	t.Parallel()
	f := foreign(t, func(context.Context, *a2asrv.ExecutorContext, func(a2a.Event, error) bool) {})
	for _, binding := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
		for code, want := range map[int]int{400: 2, 404: 2, 401: 1, 413: 1, 500: 1} {
			for _, kind := range []string{"text/plain", "application/json"} {
				asked := 0
				f.mu.Lock()
				f.swap = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked++
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(code)
					_, _ = w.Write([]byte(`{"detail":"no"}`))
				})
				f.mu.Unlock()
				got := lines(collect(t.Context(), f.client(t, f.at(binding)), remembered()))
				if asked != want {
					t.Errorf("%s, %d as %s: asked %d times: %q", binding, code, kind, asked, got)
				}
			}
		}
	}
}
