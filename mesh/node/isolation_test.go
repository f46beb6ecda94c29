package node_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/text/texttest"
)

// tokensFile writes a tokens file with a user for each of the tenants a and b, and for
// a's colleagues: eve, and auditor, who may read.
func tokensFile(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for name, role := range map[string]string{"eve": "user", "auditor": "auditor"} {
		fmt.Fprintf(&b, "- name: %[1]s\n  hash: %[2]q\n  tenant: a\n  user: %[1]s\n  roles: [%[3]s]\n", name, auth.Hash("secret-of-tenant-"+name), role)
	}
	for _, tenant := range []string{"a", "b"} {
		fmt.Fprintf(&b, "- name: %[1]s\n  hash: %[2]q\n  tenant: %[1]s\n  user: ann\n  permissions: [chat, agents, \"skill:create\", \"threads:delete\"]\n", tenant, auth.Hash("secret-of-tenant-"+tenant))
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// as is the metadata of the tenant's user.
func as(ctx context.Context, tenant string, pairs ...string) context.Context {
	md := metadata.Pairs(append([]string{"authorization", "Bearer secret-of-tenant-" + tenant}, pairs...)...)
	return metadata.NewOutgoingContext(ctx, md)
}

// raw dials without the interceptors of package rpc: what goes out is what the
// test says.
func raw(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecureCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes any call with the fields set by name, and returns how it ended.
func call(ctx context.Context, conn grpc.ClientConnInterface, m protoreflect.MethodDescriptor, fields map[string]string) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req := dynamicpb.NewMessage(m.Input())
	fill(req, fields, 0)
	name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, name)
	if err == nil {
		if err = stream.SendMsg(req); err == nil || err == io.EOF {
			_ = stream.CloseSend()
			err = stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
		}
	}
	return describe(err)
}

func describe(err error) string {
	if err == nil {
		return "OK"
	}
	st := status.Convert(err)
	out := st.Code().String() + ": " + st.Message()
	for _, d := range st.Proto().GetDetails() {
		if m, err := d.UnmarshalNew(); err == nil {
			text, _ := prototext.MarshalOptions{Multiline: false}.Marshal(m)
			out += " | " + strings.Join(strings.Fields(string(text)), " ")
		}
	}
	return out
}

// fill sets every field that the test has a value for, at any depth.
func fill(m *dynamicpb.Message, fields map[string]string, depth int) {
	if depth > 3 {
		return
	}
	fds := m.Descriptor().Fields()
	for i := range fds.Len() {
		fd := fds.Get(i)
		v, ok := fields[string(fd.Name())]
		switch {
		case fd.IsMap() || fd.IsList() && fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			el := m.Mutable(fd).List().AppendMutable().Message().(*dynamicpb.Message)
			fill(el, fields, depth+1)
		case fd.Kind() == protoreflect.MessageKind && fd.Message().FullName().Parent() != "google.protobuf" && fd.ContainingOneof() == nil:
			fill(m.Mutable(fd).Message().(*dynamicpb.Message), fields, depth+1)
		case ok && fd.Kind() == protoreflect.StringKind:
			m.Set(fd, protoreflect.ValueOfString(v))
		case fd.Name() == "role":
			m.Set(fd, protoreflect.ValueOfEnum(protoreflect.EnumNumber(a2apb.Role_ROLE_USER)))
		}
	}
}

// services lists what the server offers, by reflection, so that an RPC that is
// added later is tested too.
func services(t testing.TB, conn grpc.ClientConnInterface) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err == nil {
		err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		if !strings.HasPrefix(s.GetName(), "grpc.") {
			names = append(names, s.GetName())
		}
	}
	return names
}

// S4-013, S4-014, S4-052, S4-066, S4-068: whatever RPC a caller tries, a
// thread, task or agent of another tenant looks exactly like one that does not
// exist, and another tenant exactly like one that does not.
func TestForeignThingsLookUnknownToEveryRPC(t *testing.T) {
	texttest.Fixed(t)
	everyRPC(t, "b")
}

// part of T3: so do those of a colleague who did not share them.
func TestAColleaguesThingsLookUnknownToEveryRPC(t *testing.T) {
	texttest.Fixed(t)
	everyRPC(t, "eve")
}

// everyRPC has a's user try everything with a thread of the owner, whose token it is.
func everyRPC(t *testing.T, owner string) {
	t.Helper()
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	conn := m.raw(t)

	// The owner has a thread in a handoff, with an open task.
	foreign := mesh.NewThreadID()
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), owner, "thread-id", foreign), say("make a skill"))
	theirs := hear(t, stream, err)
	unknown := mesh.NewThreadID()
	unknownTask := string(mesh.NewExecutionID(unknown))
	foreignTask := theirs.task.GetId()

	tested := 0
	for _, name := range services(t, conn) {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			method := methods.Get(i)
			t.Run(string(method.FullName()), func(t *testing.T) {
				tested++
				conn := conn[rand.IntN(len(conn))] // nodes name addresses of their own
				values := func(thread, task string) map[string]string {
					if name == "a2a.v1.A2AService" { // where tasks have names
						path := "tasks/" + task + "/pushNotificationConfigs/c"
						return map[string]string{"name": path, "parent": path, "context_id": thread, "task_id": task, "message_id": mesh.NewEventID(), "text": "hi", "url": "https://203.0.113.1"}
					}
					return map[string]string{"thread_id": thread, "id": task, "task_id": task, "name": "nobody", "kind": "tasks", "key": "k",
						"source": "x", "message_id": mesh.NewEventID(), "text": "hi", "target_agent": "builder", "outcome": "cancelled"}
				}
				// A foreign and an unknown task or thread, named in the request.
				a := call(as(t.Context(), "a"), conn, method, values(foreign, foreignTask))
				b := call(as(t.Context(), "a"), conn, method, values(unknown, unknownTask))
				same(t, "thread and task in the request", a, b, foreign, unknown, foreignTask, unknownTask)
				// And in the metadata.
				a = call(as(t.Context(), "a", "thread-id", foreign), conn, method, values(foreign, foreignTask))
				b = call(as(t.Context(), "a", "thread-id", unknown), conn, method, values(unknown, unknownTask))
				same(t, "thread in the metadata", a, b, foreign, unknown, foreignTask, unknownTask)
				// Another tenant, and one that nobody has.
				a = call(as(t.Context(), "a", "tenant-id", "b"), conn, method, values(foreign, foreignTask))
				b = call(as(t.Context(), "a", "tenant-id", "zz"), conn, method, values(foreign, foreignTask))
				same(t, "tenant in the metadata", a, b)
				if a == "OK" {
					t.Errorf("a call for tenant b with a's token went through")
				}
				// Nobody at all.
				if out := call(t.Context(), conn, method, values(foreign, foreignTask)); !strings.HasPrefix(out, "Unauthenticated") {
					t.Errorf("without a token: %s", out)
				}
			})
		}
	}
	if tested < 30 {
		t.Errorf("only %d RPCs were tried", tested)
	}

	// And the owner's thread is as it was.
	next := say("x.y")
	next.Message.TaskId = foreignTask
	stream, err = a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), owner), next)
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the owner's task ended %v: %v", s.state, s.status)
	}
}

// same compares two outcomes that may differ in nothing but the ids that the
// caller chose itself.
func same(t *testing.T, what, a, b string, ids ...string) {
	t.Helper()
	for i, id := range ids {
		a, b = strings.ReplaceAll(a, id, fmt.Sprint("id", i/2)), strings.ReplaceAll(b, id, fmt.Sprint("id", i/2))
	}
	if a != b {
		t.Errorf("%s: the answers differ:\nforeign: %s\nunknown: %s", what, a, b)
	}
}

// The same UUID in two tenants is two threads (S4-008, S4-016).
func TestTenantsThatUseTheSameUUIDHaveThreadsOfTheirOwn(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": recall})
	client := a2apb.NewA2AServiceClient(m.raw(t))
	id := mesh.NewThreadID()
	for _, tenant := range []string{"a", "b"} {
		stream, err := client.SendStreamingMessage(as(plain(t), tenant, "thread-id", id), say("I am "+tenant))
		if s := hear(t, stream, err); s.text != "user: I am "+tenant+"; " {
			t.Errorf("tenant %s hears %q", tenant, s.text)
		}
	}
}
