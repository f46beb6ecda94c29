package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// S4-010, S4-015, S4-051: what the caller's context says arrives, whole, in
// unary calls and streams.
func TestACallArrivesAsItWasMade(t *testing.T) {
	grantOf := believeGrant()
	tests := map[string]struct {
		call mesh.Call
		want mesh.Call
	}{
		"of a user": {
			call: mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread,
				Extensions: []string{mesh.ExtensionURI, "https://example.com/x"}, AfterSeq: 0, HasCursor: true, Agent: "planner"},
			want: mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread, Version: "1.0",
				Extensions: []string{mesh.ExtensionURI, "https://example.com/x"}, AfterSeq: 0, HasCursor: true, Agent: "planner"},
		},
		"of an agent": {
			call: mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread, Execution: exec,
				ParentTask: "task-7", GrantToken: "signed", AfterSeq: 42, HasCursor: true,
				Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			want: mesh.Call{Principal: grantOf, Thread: thread, Execution: exec,
				ParentTask: "task-7", GrantToken: "signed", AfterSeq: 42, HasCursor: true, Version: "1.0",
				Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
		"with a grant alone, which says the rest": {
			call: mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, GrantToken: "signed"},
			want: mesh.Call{Principal: grantOf, Thread: thread, Execution: exec, ParentTask: string(grantOf.Grant.Parent),
				GrantToken: "signed", Version: "1.0"},
		},
		"with nothing": {want: mesh.Call{Version: "1.0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r recorder
			c := dialed(t, serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}), rpc.DialOptions{})
			for kind, err := range both(mesh.WithCall(t.Context(), tt.call), c) {
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
			tt.want.Room = mesh.MaxWire
			if diff := cmp.Diff([]mesh.Call{tt.want, tt.want}, r.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// S4-009, S4-013.
func TestMalformedMetadataIsRefusedByName(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	tests := map[string]struct {
		md    []string
		field string
	}{
		"a thread that is no UUID":           {[]string{"thread-id", "42"}, "thread-id"},
		"a thread that is no UUID v4":        {[]string{"thread-id", "f47ac10b-58cc-11e4-8ed6-0800200c9a66"}, "thread-id"},
		"an empty thread":                    {[]string{"thread-id", ""}, "thread-id"},
		"two threads":                        {[]string{"thread-id", thread, "thread-id", thread}, "thread-id"},
		"two tenants":                        {[]string{"tenant-id", "a", "tenant-id", "b"}, "tenant-id"},
		"two users":                          {[]string{"user-id", "a", "user-id", "b"}, "user-id"},
		"two grants":                         {[]string{"mesh-grant", "a", "mesh-grant", "b"}, "mesh-grant"},
		"two tokens":                         {[]string{"authorization", "a", "authorization", "b"}, "authorization"},
		"two versions":                       {[]string{"a2a-version", "1.0", "a2a-version", "0.3"}, "a2a-version"},
		"two executions":                     {[]string{"execution-id", string(exec), "execution-id", string(exec)}, "execution-id"},
		"two parents":                        {[]string{"parent-task-id", "a", "parent-task-id", "b"}, "parent-task-id"},
		"two traces":                         {[]string{"traceparent", "a", "traceparent", "b"}, "traceparent"},
		"two cursors":                        {[]string{"after-seq", "1", "after-seq", "2"}, "after-seq"},
		"a tenant with a slash":              {[]string{"tenant-id", "a/b"}, "tenant-id"},
		"a user with a space":                {[]string{"user-id", "a b"}, "user-id"},
		"a long user":                        {[]string{"user-id", long}, "user-id"},
		"a long grant":                       {[]string{"mesh-grant", long}, "mesh-grant"},
		"a long version":                     {[]string{"a2a-version", long}, "a2a-version"},
		"a long parent":                      {[]string{"parent-task-id", long}, "parent-task-id"},
		"an execution that is none":          {[]string{"execution-id", "e1"}, "execution-id"},
		"an execution of another thread":     {[]string{"thread-id", mesh.NewThreadID(), "execution-id", string(exec)}, "execution-id"},
		"a cursor that is no number":         {[]string{"after-seq", "new"}, "after-seq"},
		"room for less than all take":        {[]string{"max-answer-bytes", "4194303"}, "max-answer-bytes"},
		"a negative cursor":                  {[]string{"after-seq", "-1"}, "after-seq"},
		"a signed cursor":                    {[]string{"after-seq", "+1"}, "after-seq"},
		"a cursor beyond the largest number": {[]string{"after-seq", "9223372036854775808"}, "after-seq"},
		"an agent that has no name":          {[]string{"agent", "The Planner"}, "agent"},
		"two agents":                         {[]string{"agent", "a", "agent", "b"}, "agent"},
		"a long extension":                   {[]string{"a2a-extensions", long}, "a2a-extensions"},
		"many extensions":                    {[]string{"a2a-extensions", strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyzABCDEFGHI", ""), ",")}, "a2a-extensions"},
	}
	var r recorder
	c := plain(t, serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for kind, err := range both(metadata.AppendToOutgoingContext(t.Context(), tt.md...), c) {
				var e *mesh.Error
				if !errors.As(rpc.FromStatus(err), &e) || e.Code != mesh.Invalid || e.Field != tt.field || e.Detail == "" {
					t.Errorf("%s: got %+v, want Invalid for %s with a detail", kind, err, tt.field)
				}
			}
		})
	}
	if len(r.calls) > 0 {
		t.Errorf("%d refused calls reached the handler", len(r.calls))
	}
}

func TestAStreamUnderAGrantEndsWithTheGrant(t *testing.T) {
	a := &agent{get: func(context.Context) error { return nil }, sub: func(s grpc.ServerStream) error {
		<-s.Context().Done()
		return s.Context().Err()
	}}
	ends := time.Now().Add(time.Second).Unix()
	granted := authFunc(func(rpc.Credentials) (mesh.Principal, error) {
		return mesh.Principal{Tenant: "acme", Grant: &mesh.Grant{Tenant: "acme", Thread: thread, Expires: ends}}, nil
	})
	c := plain(t, serve(t, a, rpc.Options{Auth: granted}))
	s, err := c.SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !mesh.IsCode(rpc.FromStatus(err), mesh.Timeout) || time.Now().Unix() < ends {
		t.Errorf("the stream ended %v before the grant, with %v", time.Until(time.Unix(ends, 0)), err)
	}
}

func TestMetadataBeyondAnyUseIsRefusedBeforeItIsKept(t *testing.T) {
	var r recorder
	c := plain(t, serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}))
	for size, fits := range map[int]bool{64 << 10: true, 1 << 20: false} {
		for kind, err := range both(metadata.AppendToOutgoingContext(t.Context(), "x-notes", strings.Repeat("x", size)), c) {
			if (err == nil) != fits {
				t.Errorf("%s with %d bytes: %v", kind, size, err)
			}
		}
	}
}

func TestMetadataIsReadAsTheProtocolsSay(t *testing.T) {
	tests := map[string]struct {
		md   []string
		want mesh.Call
	}{
		"a thread in upper case is the same thread": {[]string{"thread-id", strings.ToUpper(thread)}, mesh.Call{Thread: thread}},
		"extensions over several lines": {[]string{"a2a-extensions", "urn:a, urn:b", "a2a-extensions", "urn:b,,urn:c"},
			mesh.Call{Extensions: []string{"urn:a", "urn:b", "urn:c"}}},
		"a broken trace is ignored":          {[]string{"traceparent", "00-xyz"}, mesh.Call{}},
		"a trace of zeros is ignored":        {[]string{"traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, mesh.Call{}},
		"a trace of the future is passed on": {[]string{"traceparent", "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"}, mesh.Call{Traceparent: "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"}},
		"an old version":                     {[]string{"a2a-version", "0.3"}, mesh.Call{Version: "0.3"}},
		"an empty version is none":           {[]string{"a2a-version", ""}, mesh.Call{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r recorder
			c := plain(t, serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}))
			for kind, err := range both(metadata.AppendToOutgoingContext(t.Context(), tt.md...), c) {
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
			tt.want.Room = mesh.MaxWire
			if diff := cmp.Diff([]mesh.Call{tt.want, tt.want}, r.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoIsRefusedDoesNotReachTheHandler(t *testing.T) {
	refusal := &mesh.Error{Code: mesh.Unauthenticated, Field: "authorization", Detail: "a token is needed"}
	tests := map[string]struct {
		auth rpc.Authenticator
		call mesh.Call
		want string
	}{
		"by the authenticator":                {authFunc(func(rpc.Credentials) (mesh.Principal, error) { return mesh.Principal{}, refusal }), mesh.Call{}, "a token is needed"},
		"without an authenticator":            {nil, mesh.Call{}, "this server accepts no callers; it was started without auth"},
		"with a grant that nobody looked at":  {authFunc(func(rpc.Credentials) (mesh.Principal, error) { return mesh.Principal{}, nil }), mesh.Call{GrantToken: "x"}, "grants are not accepted here; leave mesh-grant and mesh-ticket out"},
		"with a ticket that nobody looked at": {authFunc(func(rpc.Credentials) (mesh.Principal, error) { return mesh.Principal{}, nil }), mesh.Call{TicketToken: "x"}, "grants are not accepted here; leave mesh-grant and mesh-ticket out"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r recorder
			c := dialed(t, serve(t, r.agent(), rpc.Options{Auth: tt.auth}), rpc.DialOptions{})
			for kind, err := range both(mesh.WithCall(t.Context(), tt.call), c) {
				if !mesh.IsCode(err, mesh.Unauthenticated) || mesh.DetailOf(err) != tt.want {
					t.Errorf("%s: %v, want unauthenticated: %s", kind, err, tt.want)
				}
			}
			if len(r.calls) > 0 {
				t.Errorf("%d calls reached the handler", len(r.calls))
			}
		})
	}
}

func TestOpenMethodsAreForAnyoneAndNobodyIsBelieved(t *testing.T) {
	var r recorder
	addr := serve(t, r.agent(), rpc.Options{Open: []string{"/lf.a2a.v1.A2AService/Get", stream, "/lf.a2a.v1.Other/"}})
	call := mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread, GrantToken: "forged"}
	errs := both(mesh.WithCall(t.Context(), call), dialed(t, addr, rpc.DialOptions{}))
	if errs["stream"] != nil {
		t.Errorf("open method: %v", errs["stream"])
	}
	if !mesh.IsCode(errs["unary"], mesh.Unauthenticated) {
		t.Errorf("a method whose name only begins like an open one: %v, want unauthenticated", errs["unary"])
	}
	if diff := cmp.Diff([]mesh.Call{{Thread: thread, Version: "1.0", Room: mesh.MaxWire}}, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	c := dialed(t, serve(t, r.agent(), rpc.Options{Open: []string{"/lf.a2a.v1.A2AService/"}}), rpc.DialOptions{})
	for kind, err := range both(t.Context(), c) {
		if err != nil {
			t.Errorf("%s of an open service: %v", kind, err)
		}
	}
}

func TestAPanicIsAnInternalErrorWhoseStackIsInTheLogOnly(t *testing.T) {
	var log logbuffer.Buffer
	a := &agent{
		get: func(context.Context) error { panic("the secret of GetTask") },
		sub: func(grpc.ServerStream) error { panic("the secret of SubscribeToTask") },
	}
	c := dialed(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Logger: slog.New(slog.NewTextHandler(&log, nil))}), rpc.DialOptions{})
	for range 2 { // the server survives
		for kind, err := range both(t.Context(), c) {
			if st := status.Convert(err); st.Code() != codes.Internal || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want an internal error that says nothing", kind, err)
			}
		}
	}
	for _, want := range []string{"the secret of GetTask", "the secret of SubscribeToTask", "server_test.go", "level=ERROR"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

func TestAHandlersErrorReachesTheCaller(t *testing.T) {
	fail := func() error { return mesh.Wrap("edge.Get", mesh.TaskNotFound("store.Get")) }
	a := &agent{get: func(context.Context) error { return fail() }, sub: func(grpc.ServerStream) error { return fail() }}
	c := dialed(t, serve(t, a, rpc.Options{Auth: authFunc(believe)}), rpc.DialOptions{})
	for kind, err := range both(t.Context(), c) {
		var e *mesh.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v is no *mesh.Error", kind, err)
		}
		if e.Code != mesh.NotFound || e.Reason != "TASK_NOT_FOUND" || e.Field != "id" || e.Detail != "Task not found; check the task id" {
			t.Errorf("%s: %+v", kind, e)
		}
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s: status.Code = %v, want NotFound", kind, status.Code(err))
		}
	}
	if _, err := c.ListTasks(t.Context(), &a2apb.ListTasksRequest{}); !mesh.IsCode(err, mesh.Unsupported) {
		t.Errorf("a method that is not there: %v, want unsupported", err)
	}
}

// count allows n calls to each caller and then asks to wait.
type count struct {
	mu   sync.Mutex
	n    int
	used map[string]int
}

func (*count) Burst() int { return 2 }

func (c *count) Allow(caller string, _ time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[caller]++
	return 1234 * time.Millisecond, c.used[caller] <= c.n
}

func (c *count) String() string { return "2 calls per second, 2 at once" }

func TestACallerOverItsRateIsToldTheLimitAndWhenToComeBack(t *testing.T) {
	var r recorder
	l := &count{n: 2, used: make(map[string]int)}
	c := dialed(t, serve(t, r.agent(), rpc.Options{Auth: authFunc(believe), Limiter: l}), rpc.DialOptions{})
	as := func(call mesh.Call) context.Context { return mesh.WithCall(t.Context(), call) }
	alice := mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}}
	both(as(alice), c)
	for kind, err := range both(as(alice), c) {
		const want = "too many calls: the limit is 2 calls per second, 2 at once for each user; try again in 1.3s"
		if !mesh.IsCode(err, mesh.Exhausted) || mesh.DetailOf(err) != want {
			t.Errorf("%s: %v, want exhausted: %s", kind, err, want)
		}
		if after, ok := rpc.RetryAfter(err); !ok || after != 1234*time.Millisecond {
			t.Errorf("%s: retry after %v, %v; want 1.234s", kind, after, ok)
		}
		var retry bool
		for _, d := range status.Convert(err).Details() {
			_, is := d.(*errdetails.RetryInfo)
			retry = retry || is
		}
		if !retry {
			t.Errorf("%s: no RetryInfo", kind)
		}
	}
	for name, call := range map[string]mesh.Call{
		"another user":          {Principal: mesh.Principal{Tenant: "acme", User: "bob"}},
		"her namesake":          {Principal: mesh.Principal{Tenant: "umbrella", User: "alice"}},
		"an agent working here": {Principal: alice.Principal, GrantToken: "signed"},
	} {
		for kind, err := range both(as(call), c) {
			if err != nil {
				t.Errorf("%s of %s: %v", kind, name, err)
			}
		}
	}
}

func TestAMessageOverTheLimitIsRefused(t *testing.T) {
	var r recorder
	addr := serve(t, r.agent(), rpc.Options{Auth: authFunc(believe), MaxMessage: 1000})
	c := dialed(t, addr, rpc.DialOptions{})
	if _, err := c.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: strings.Repeat("x", 2000)}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("request over the limit: %v, want exhausted", err)
	}
	small := dialed(t, addr, rpc.DialOptions{MaxMessage: 10})
	if _, err := small.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: strings.Repeat("x", 100)}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("response over the limit: %v, want exhausted", err)
	}
}
