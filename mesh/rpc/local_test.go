package rpc_test

import (
	"context"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// seen is what a server learns of a call: what its caller claims, who that is found to
// be, what else the metadata has, and whether there is an end.
type seen struct {
	Claims  rpc.Credentials
	Call    mesh.Call
	Custom  []string
	Limited bool
}

// watchful returns options and an agent that tell what they see, of calls one after
// the other.
func watchful(o rpc.Options, ends error) (rpc.Options, *agent, *[]seen) {
	var all []seen
	decide := o.Auth
	o.Auth = authFunc(func(c rpc.Credentials) (mesh.Principal, error) {
		all = append(all, seen{Claims: c})
		return decide.Authenticate(context.Background(), c)
	})
	look := func(ctx context.Context) error {
		s := &all[len(all)-1]
		s.Call, _ = mesh.CallFrom(ctx)
		s.Custom = metadata.ValueFromIncomingContext(ctx, "x-custom")
		_, s.Limited = ctx.Deadline()
		return ends
	}
	return o, &agent{get: look, sub: func(s grpc.ServerStream) error { return look(s.Context()) }}, &all
}

// Who calls from the same process is who it would be over the network, may as much,
// and is refused in the same words.
func TestALocalCallerIsWhoItWouldBeOverTheNetwork(t *testing.T) {
	alice := mesh.Principal{Tenant: "acme", User: "alice"}
	powerful := alice
	powerful.Roles, powerful.Grant = mesh.Roles(), believeGrant().Grant
	smuggled := []string{"tenant-id", "umbrella", "authorization", "Bearer hers", "mesh-grant", "hers", "x-custom", "kept"}
	denied := &mesh.Error{Code: mesh.Denied, Field: "user-id", Reason: "R", Detail: "not you"}
	refuse := func(err error) authFunc {
		return func(rpc.Credentials) (mesh.Principal, error) { return mesh.Principal{}, err }
	}
	tests := map[string]struct {
		o    rpc.Options
		call *mesh.Call
		md   []string
		ends error
	}{
		"nobody":                  {},
		"a user":                  {call: &mesh.Call{Principal: alice, Thread: thread, Agent: "planner"}},
		"an agent":                {call: &mesh.Call{Principal: alice, Thread: thread, Execution: exec, ParentTask: "task-7", GrantToken: "signed"}},
		"a grant alone":           {call: &mesh.Call{GrantToken: "signed"}},
		"rights that are claimed": {call: &mesh.Call{Principal: powerful, Thread: thread}},
		"a trace, a cursor and extensions": {call: &mesh.Call{Principal: alice, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			Extensions: []string{"urn:a", "urn:b"}, AfterSeq: 7, HasCursor: true, WantSeq: true, PushV03: true}},
		"what somebody put there before": {md: smuggled},
		"that beside a call":             {call: &mesh.Call{Principal: alice, GrantToken: "signed"}, md: smuggled},
		"a thread that is none":          {call: &mesh.Call{Principal: alice, Thread: "42"}},
		"a user that is none":            {call: &mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "a b"}}},
		"a user who is refused":          {call: &mesh.Call{Principal: alice}, o: rpc.Options{Auth: refuse(denied)}},
		"a grant that nobody checks":     {call: &mesh.Call{GrantToken: "x"}, o: rpc.Options{Auth: refuse(nil)}},
		"a caller who is failed":         {call: &mesh.Call{Principal: alice}, ends: rpc.WithRetryAfter(mesh.Errorf(mesh.Exhausted, "x", "later"), time.Second)},
		"a caller who is told nothing":   {call: &mesh.Call{Principal: alice}, ends: context.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.o.Auth == nil {
				tt.o.Auth = authFunc(believe)
			}
			o, a, far := watchful(tt.o, tt.ends)
			c := dialed(t, serve(t, a, o), rpc.DialOptions{})
			o, a, near := watchful(tt.o, tt.ends)
			local := rpc.Local(inProcess(t, a, o), nil)
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			if tt.call != nil {
				ctx = mesh.WithCall(ctx, *tt.call)
			}
			want, got := both(ctx, c), bothIn(ctx, local, "t")
			if diff := cmp.Diff(want, got, cmp.Comparer(sameError)); diff != "" {
				t.Errorf("how it ended (-network +process):\n%s", diff)
			}
			if diff := cmp.Diff(*far, *near, cmpopts.EquateEmpty(), anyRoom); diff != "" {
				t.Errorf("what the server saw (-network +process):\n%s", diff)
			}
		})
	}
}

// anyRoom is for calls in the process, of whose answers any number of bytes is taken.
var anyRoom = cmpopts.IgnoreFields(mesh.Call{}, "Room")

// sameError reports whether callers can tell nothing from the errors but the words of
// the library.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return cmp.Equal(a, b, cmpopts.IgnoreFields(mesh.Error{}, "Err", "Op"))
}

// A local connection has streams that are read, over the network.
func TestALocalConnectionReadsStreamsOverTheNetwork(t *testing.T) {
	var r recorder
	conn, err := rpc.Dial(serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := inProcess(t, r.agent(), rpc.Options{Auth: authFunc(believe)})
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, GrantToken: "signed"})
	for kind, err := range both(ctx, a2apb.NewA2AServiceClient(rpc.Local(s, conn))) {
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if len(r.calls) != 2 || !cmp.Equal(r.calls[0], r.calls[1], anyRoom) {
		t.Errorf("the calls are %+v", r.calls)
	}
}
