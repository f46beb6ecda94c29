package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// A cutter is a holder of which an erasure fails, as long as it cuts.
type cutter struct{ cuts atomic.Bool }

func (c *cutter) Erase(context.Context, mesh.Owner, bool) ([]mesh.Held, error) {
	if c.cuts.Load() {
		return nil, errors.New("cut off")
	}
	return []mesh.Held{{What: "letters", Count: 0}}, nil
}

// waits works until it is told to end, but for who says hello.
func waits(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if yield(agent.Text{Text: "I am at it."}, nil) && inv.Text() != "hello" {
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}
}

// A user who is erased has the work at hand canceled and begins nothing more, over whichever
// face, until all is gone; nobody else notices. What was cut off is finished by the next call.
// A user of that name in another tenant has all as before, and is as unknown as nobody.
func TestAUserIsErasedAndNobodyElse(t *testing.T) {
	cut := new(cutter)
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	m := start(t, cfg, map[string]run{"main": waits}, func(o *node.Options) { o.Holders = []node.Holder{cut} })
	conn := m.raw(t)
	a2a, access := a2apb.NewA2AServiceClient(conn), meshv1.NewAccessServiceClient(conn)
	threads := meshv1.NewThreadServiceClient(conn)
	hello := func(who string) (thread string, err error) {
		thread = mesh.NewThreadID()
		_, err = a2a.SendMessage(as(plain(t), who, "thread-id", thread), say("hello"))
		return thread, err
	}
	greeted := map[string]string{}
	for _, who := range []string{"a", "b", "eve"} {
		id, err := hello(who)
		if greeted[who] = id; err != nil {
			t.Fatal(err)
		}
	}
	working := mesh.NewThreadID()
	stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "thread-id", working), say("work on"))
	var task string
	for err == nil && task == "" {
		var r *a2apb.StreamResponse
		if r, err = stream.Recv(); r.GetArtifactUpdate() != nil {
			task = r.GetArtifactUpdate().GetTaskId()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"a", "eve", "b", "auditor"} {
		if _, err := access.EraseUser(as(plain(t), who), &meshv1.EraseUserRequest{UserId: "ann"}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s erases: %v", who, err)
		}
	}

	erase := func(user string, countOnly bool) (*meshv1.EraseUserResponse, error) {
		return access.EraseUser(as(plain(t), "admin"), &meshv1.EraseUserRequest{UserId: user, CountOnly: countOnly})
	}
	count, err := erase("ann", true)
	if want := "tasks canceled:1 threads:2 "; err != nil || erased(count) != want {
		t.Errorf("counted are %s, %v, want %s", erased(count), err, want)
	}
	cut.cuts.Store(true)
	if _, err := erase("ann", false); err == nil {
		t.Fatal("what was cut off went well")
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if now, err := a2a.GetTask(as(plain(t), "admin"), &a2apb.GetTaskRequest{Id: task}); err != nil || now.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_CANCELED {
		t.Errorf("the task at hand: %v, %v", now.GetStatus(), err)
	}
	for range 2 * len(conn) { // each node
		if _, err := hello("a"); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "ann") {
			t.Errorf("a begins something: %v", err)
		}
	}
	if _, err := a2a.ListTasks(as(plain(t), "a"), &a2apb.ListTasksRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a lists tasks: %v", err)
	}
	if _, got := post(t, m, "/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`, of("a")...); !texttest.Has(got, "being erased") {
		t.Errorf("a sends over REST: %s", got)
	}
	if _, got := post(t, m, "/", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`, of("a")...); !texttest.Has(got, "being erased") {
		t.Errorf("a sends over JSON-RPC: %s", got)
	}
	for _, who := range []string{"b", "eve", "admin"} {
		if _, err := hello(who); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}

	cut.cuts.Store(false)
	if all, err := erase("ann", false); err != nil || erased(all) != "threads:2 " || all.GetMore() {
		t.Errorf("erased are %s, %v", erased(all), err)
	}
	for _, id := range []string{greeted["a"], working} {
		if _, err := threads.GetThread(as(plain(t), "admin", "thread-id", id), &meshv1.GetThreadRequest{ThreadId: id}); status.Code(err) != codes.NotFound {
			t.Errorf("a thread of a: %v", err)
		}
	}
	for _, who := range []string{"b", "eve"} {
		if _, err := threads.GetThread(as(plain(t), who, "thread-id", greeted[who]), &meshv1.GetThreadRequest{ThreadId: greeted[who]}); err != nil {
			t.Errorf("the thread of %s: %v", who, err)
		}
	}
	eventually(t, func() error {
		if _, err := hello("a"); status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("the credential of a: %w", err)
		}
		return nil
	})
	known, err := erase("ann", false) // who is one in b alone
	unknown, err2 := erase("nobody", false)
	if err != nil || err2 != nil || !proto.Equal(known, unknown) {
		t.Errorf("foreign: %v, %v; unknown: %v, %v", known, err, unknown, err2)
	}
	erasedRecord(t, m)
}

// erasedRecord checks that the record says who was erased by whom, and how much that was.
func erasedRecord(t *testing.T, m *testMesh) {
	t.Helper()
	res, err := meshv1.NewAuditServiceClient(m.raw(t)[:1]).ListAuditRecords(as(plain(t), "admin"), &meshv1.ListAuditRecordsRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range res.GetRecords() {
		if r.GetAction() == meshv1.AccessService_EraseUser_FullMethodName && r.GetResource() == "ann" && r.GetUserId() == "adam" && r.GetDecision() != meshv1.AuditRecord_DECISION_ALLOWED {
			lines = append(lines, r.GetDecision().String()+" "+erased(r))
		}
	}
	if len(m.All) > 1 { // each has its own
		return
	}
	if got, want := strings.Join(lines, "; "), "DECISION_DONE ; DECISION_DONE threads:2 ; DECISION_FAILED ; DECISION_DONE "; got != want {
		t.Errorf("the record says %s, want %s", got, want)
	}
}

func erased(of interface{ GetErased() []*meshv1.Erased }) (all string) {
	for _, e := range of.GetErased() {
		all += fmt.Sprintf("%s:%d ", e.GetKind(), e.GetCount())
	}
	return all
}
