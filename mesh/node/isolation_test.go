package node_test

import (
	"context"
	"fmt"
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

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

// tokensFile writes a tokens file with a user for each of the tenants a and b, and for
// a's colleagues: eve, auditor, who may read, and some whose tokens do not count.
func tokensFile(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for name, role := range map[string]string{"eve": "user", "auditor": "auditor"} {
		fmt.Fprintf(&b, "- name: %[1]s\n  hash: %[2]q\n  tenant: a\n  user: %[1]s\n  roles: [%[3]s]\n", name, auth.Hash("secret-of-tenant-"+name), role)
	}
	for name, state := range map[string]string{"expired": "expires: 2020-01-01", "early": "not_before: 2100-01-01", "disabled": "disabled: true", "revoked": ""} {
		fmt.Fprintf(&b, "- name: %[1]s\n  hash: %[2]q\n  tenant: a\n  user: %[1]s\n  roles: [user]\n  %[3]s\n", name, auth.Hash("secret-of-tenant-"+name), state)
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

// describe tells all of an error.
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
