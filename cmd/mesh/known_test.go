package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
)

// A store answers calls of the state service.
type store func(ctx context.Context, reply any) error

func (s store) Invoke(ctx context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	return s(ctx, reply)
}

func (s store) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, mesh.Errorf(mesh.Unsupported, "test", "")
}

// S3-052: the active tasks and what the memory has come before the model is
// asked; and a turn waits for them a bounded time, and never fails by them.
func TestWhatIsKnownNeverFailsATurn(t *testing.T) {
	task := &meshv1.ListStateResponse{Values: []*meshv1.Value{{Key: "t1", Version: 1, Data: []byte(
		`{"id":"t1","title":"Call Ann","status":"todo","priority":"normal","created":"2026-11-20T09:00:00Z","updated":"2026-11-20T09:00:00Z"}`)}}}
	for name, tt := range map[string]struct {
		skills []string
		answer store
		want   string // that it has, or ""
	}{
		"an answer": {[]string{"tasks.*"}, func(_ context.Context, reply any) error {
			if list, ok := reply.(*meshv1.ListStateResponse); ok {
				list.Values = task.Values
			}
			return nil
		}, "Call Ann"},
		"nothing": {[]string{"*"}, func(context.Context, any) error { return nil }, ""},
		"no answer": {[]string{"*"}, func(ctx context.Context, _ any) error {
			<-ctx.Done()
			return rpc.ToStatus(mesh.Wrap("test", ctx.Err()))
		}, ""},
		"a failure": {[]string{"*"}, func(context.Context, any) error {
			return rpc.ToStatus(mesh.Errorf(mesh.Unavailable, "test", "gone"))
		}, ""},
		"a panic": {[]string{"*"}, func(context.Context, any) error { panic("no luck") }, ""},
		"no right": {[]string{"mail.send"}, func(context.Context, any) error {
			t.Error("the state is read for an agent that may not")
			return nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			conn := store(func(ctx context.Context, reply any) error { calls.Add(1); return tt.answer(ctx, reply) })
			thread := mesh.NewThreadID()
			g := &mesh.Grant{Tenant: "default", User: "ann", Thread: thread, Execution: mesh.NewExecutionID(thread), Agent: "main", Skills: tt.skills}
			view, err := meshclient.New(conn, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann", Grant: g}})
			if err != nil {
				t.Fatal(err)
			}
			k := &kit{cfg: &node.Config{Data: t.TempDir()}, logger: slog.New(slog.DiscardHandler), now: time.Now}
			limit := testTime
			if name == "no answer" {
				limit = 50 * time.Millisecond
			}
			got := k.known(limit)(t.Context(), &agent.Invocation{
				Thread: g.Key(), User: "ann", Grant: g, Mesh: view,
				Message: &a2apb.Message{Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "call Ann"}}}},
			})
			if err := k.memories.Close(); err != nil {
				t.Error(err)
			}
			if got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("known is %q after %d calls", got, calls.Load())
			}
		})
	}
}
