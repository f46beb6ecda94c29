package node_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// An inquirer is an agent without any runtime that asks something, whatever it is told.
type inquirer struct {
	a2apb.UnimplementedA2AServiceServer
}

func (inquirer) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: one(md, "execution-id"), ContextId: one(md, "thread-id"), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED},
	}}})
}

// again has the first message of the task sent once more, by every method that sends.
func again(method string, a ask) ask {
	a.method = method
	switch method {
	case a2apb.A2AService_SendMessage_FullMethodName, a2apb.A2AService_SendStreamingMessage_FullMethodName:
		a.request = func(x things) proto.Message { return firstOf(x) }
	case legacypb.A2AService_SendMessage_FullMethodName, legacypb.A2AService_SendStreamingMessage_FullMethodName:
		a.request = func(x things) proto.Message {
			req := legacySay("hi")
			req.Request.MessageId, req.Request.ContextId = "of-"+x.thread, x.thread
			return req
		}
	}
	return a
}

func firstOf(x things) *a2apb.SendMessageRequest {
	req := say("hi")
	req.Message.MessageId, req.Message.ContextId = "of-"+x.thread, x.thread
	return req
}

// doors are all ways to do something with a task, and to send its message once more.
func doors(t *testing.T, m *testMesh) map[string]way {
	t.Helper()
	all := map[string]way{}
	add := func(list ...way) {
		for _, w := range list {
			all[w.name] = w
		}
	}
	conn := m.raw(t)
	for _, name := range []string{a2aServiceName, a2aLegacyName} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			if strings.HasSuffix(string(methods.Get(i).Name()), "Card") {
				continue
			}
			method := "/" + name + "/" + string(methods.Get(i).Name())
			a := again(method, asks[method])
			add(overRaw(conn, method, methods.Get(i), a))
			add(m.routes(name, methods.Get(i), a)...)
		}
	}
	for method, params := range legacyParams {
		params = strings.Replace(params, `"messageId": "m", "role": "user", "taskId": "TASK"`, `"messageId": "of-THREAD", "role": "user"`, 1)
		add(way{"JSON-RPC 0.3 " + method, ask{method: method}, func(t *testing.T, x things, headers []string) told {
			params := strings.NewReplacer("TASK", x.task, "THREAD", x.thread).Replace(params)
			return m.ask(t, http.MethodPost, "/", rpcBody(method, params), headers, rpc03Error)
		}})
	}
	maps.DeleteFunc(all, func(name string, _ way) bool { // these name another agent, or none, or another tenant
		return strings.Contains(name, "/agents/") || strings.Contains(name, "Card") || strings.Contains(name, "{tenant}")
	})
	return all
}

// finding R1: over every face and by every operation of it, what was acknowledged is as it is
// while its agent is live, at the address of an agent that is away, or has left.
func TestWhatIsAcknowledgedIsThereAtEveryFaceWithoutItsAgent(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Egress.Allow = []string{"127.0.0.0/8"}
	m := start(t, cfg, map[string]run{"main": echo})
	l := rpctest.Listen(t)
	server := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(server, inquirer{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	stop := sync.OnceFunc(func() { server.Stop(); serving.Wait() })
	t.Cleanup(stop)
	agents := meshv1.NewRegistryServiceClient(m.conn)
	if _, err := agents.RegisterAgent(in(t, ""), &meshv1.RegisterAgentRequest{Name: "smith", Card: card("smith"), Endpoint: l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(plain(t), "agent", "smith")
	edge := a2apb.NewA2AServiceClient(m.raw(t))
	all := doors(t, m)
	begin := func() map[string]things {
		tasks := map[string]things{}
		for name := range all {
			x := things{thread: mesh.NewThreadID()}
			stream, err := edge.SendStreamingMessage(ctx, firstOf(x))
			x.task = hear(t, stream, err).task.GetId()
			if _, err := edge.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{TaskId: x.task, Id: "c", Url: "https://127.0.0.1:9"}); err != nil {
				t.Fatal(err)
			}
			tasks[name] = x
		}
		return tasks
	}
	live, away, left := begin(), begin(), begin()
	want := map[string]string{}
	for _, state := range []struct {
		name  string
		tasks map[string]things
		enter func()
	}{
		{"live", live, func() {}},
		{"away", away, stop},
		{"left", left, func() {
			if _, err := agents.DeregisterAgent(in(t, ""), &meshv1.DeregisterAgentRequest{Name: "smith"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		state.enter()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			got := all[name].call(t, state.tasks[name], []string{"agent", "smith"})
			if state.name == "live" {
				if want[name] = got.code; got.code != "OK" && !strings.HasPrefix(got.text, "204") {
					t.Errorf("%s: %v", name, got)
				}
			}
			if got.code != want[name] {
				t.Errorf("%s, while its agent is %s: %v, want %s", name, state.name, got, want[name])
			}
		}
	}
}
